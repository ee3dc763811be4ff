"""What becomes of processes that this one starts, and of the memory they took: they end with it, how they ended has a name."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> Callable[[], None]:
    """Return what a child runs before its program (``preexec_fn``): it gets SIGTERM when this process ends, however it ends.

    Killed by a signal, a process tells its children nothing.
    """
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)

    return bind


@contextlib.contextmanager
def interrupted_later() -> Iterator[Callable[[], None]]:
    """Put Ctrl-C off while a child is started, since :class:`subprocess.Popen` would leave it running; gives what raises
    :class:`KeyboardInterrupt` if there was one."""
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    def catch_up() -> None:
        if came:
            raise KeyboardInterrupt

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with contextlib.suppress(ValueError):  # not the main thread, which alone is interrupted
        if usual:
            signal.signal(signal.SIGINT, note)
    try:
        yield catch_up
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def give_back_memory() -> None:
    """Give pages that nobody uses back to the system: glibc keeps those of many threads."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def how_it_ended(status: int) -> str:
    """Return how a child ended, given its status as :class:`subprocess.Popen` has it: a phrase for a sentence."""
    return f"was killed by {signal_name(-status)}" if status < 0 else f"ended with status {status}"


def exit_status(status: int) -> int:
    """Return what a shell makes of the status of a child: 128 and the number of the signal that killed it."""
    return 128 - status if status < 0 else status
