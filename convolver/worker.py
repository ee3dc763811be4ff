"""One process that does tasks for this one, over a pair of sockets that nobody else has."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

from convolver.child_processes import end_with_parent, how_it_ended

_BEGIN = "import sys; sys.path[:] = sys.argv[2:]; from convolver.worker import serve; serve(int(sys.argv[1]))"

_GRACE_SECONDS = 10.0
"""So long may a worker that is ended save what it has."""


class WorkerDiedError(Exception):
    """A worker ended before it had answered."""


class Worker:
    """A process that does one task at a time; it ends with this one, however that ends, and never hears Ctrl-C."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        with its:
            # A terminal sends Ctrl-C to all, and this process ends its workers itself.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _BEGIN, str(its.fileno()), *sys.path],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(its.fileno(),),
                    preexec_fn=end_with_parent(),
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.pipe = Connection(ours.detach())

    def ask(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Have a function called that the worker can import; where the worker died, the answer says so."""
        task = ForkingPickler.dumps((function, arguments))
        with suppress(OSError):
            self.pipe.send_bytes(task)

    def answer(self) -> Any:
        """Return what the function returned, or raise what it raised; raises :class:`WorkerDiedError`."""
        try:
            raised, result = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise WorkerDiedError(f"one {how_it_ended(self._process.wait())}") from error
        if raised:
            raise result
        return result

    def end(self) -> None:
        """End the process, whatever it does."""
        self.pipe.close()
        self._process.terminate()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def answered(workers: Iterable[Worker]) -> list[Worker]:
    """Wait until some of the workers have answered or died, and return them."""
    pipes = {worker.pipe: worker for worker in workers}
    ready = wait(list(pipes))
    return [worker for pipe, worker in pipes.items() if pipe in ready]


def serve(handle: int) -> None:
    """Do what is asked over a socket until its other end is closed: the worker's side."""
    with Connection(handle) as pipe, suppress(EOFError, OSError):
        while True:
            task = pipe.recv_bytes()
            try:
                function, arguments = ForkingPickler.loads(task)
                answer = ForkingPickler.dumps((False, function(*arguments)))
            except BaseException as error:
                answer = ForkingPickler.dumps((True, error))
            pipe.send_bytes(answer)
