"""Many independent tasks on any executor, resumable: what sweeps over networks and over traces share."""

from __future__ import annotations

import ctypes
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from convolver.errors import ConvolverError, FormatError, ToolError, ToolNotFoundError
from convolver.foreign_text import decode_json

ATTEMPTS = 3
"""How often workers of an own pool may die."""


_PR_SET_PDEATHSIG = 1


@contextmanager
def dask_executor(address: str | None) -> Iterator[Executor | None]:
    """Yield an executor on a dask.distributed scheduler, None without an address.

    Raises :class:`ToolNotFoundError` where dask.distributed is not installed, :class:`ToolError` where nobody answers.
    """
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ToolNotFoundError("dask.distributed is not installed; install it with: pip install 'convolver[dask]'.") from error
    try:
        client = Client(address, timeout=10)
    except OSError as error:
        raise ToolError(f"No dask scheduler answers at {address}: {error}; start one with 'dask scheduler'.") from error
    try:
        yield client.get_executor()
    finally:
        client.close()


class Journal:
    """Results of finished tasks by number, one JSON line each, so that an interrupted run goes on where it stopped."""

    def __init__(self, path: Path | None, identity: str) -> None:
        """``identity`` names the whole run; raises :class:`FormatError` when the file belongs to another one."""
        self.path, self.identity = path, identity
        self.done: dict[int, Any] = {}
        if path is not None and path.exists():
            self._read(path)
        elif path is not None:
            path.write_text(json.dumps({"plan": identity}) + "\n")

    def _read(self, path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        try:
            first, *entries = [decode_json(line, str(path)) for line in whole]
            if first["plan"] != self.identity:
                raise ValueError
            self.done = {int(entry["batch"]): entry["rows"] for entry in entries}
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"{path} belongs to another sweep; remove it or write this sweep to another file.") from error
        if whole != lines:
            path.write_bytes(b"".join(whole))

    def add(self, task: int, result: Any) -> None:
        """Keep a result."""
        self.done[task] = result
        if self.path is not None:
            with open(self.path, "a") as file:
                file.write(json.dumps({"batch": task, "rows": result}) + "\n")

    def remove(self) -> None:
        """Remove the file: the run is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def run_missing(
    function: Callable[..., Any],
    tasks: Mapping[int, tuple[Any, ...]],
    journal: Journal,
    *,
    keep: Callable[[int, Any], Any] = lambda task, result: result,
    executor: Executor | None = None,
    jobs: int | None = None,
    advance: Callable[[Any], None] = lambda result: None,
) -> None:
    """Call ``function`` with the arguments of every task that is not in the journal, and keep there what ``keep`` returns.

    ``executor`` is anything with ``submit`` (``distributed.Client.get_executor()`` too); without one a process pool of ``jobs``
    workers is used, and rebuilt when a worker dies. Raises :class:`ConvolverError` when workers die again and again.
    """
    attempts = 0
    while missing := [task for task in tasks if task not in journal.done]:
        # A forked worker can wait for ever on locks that threads of this process held.
        pool = executor or ProcessPoolExecutor(
            jobs, mp_context=get_context("spawn"), initializer=_end_with, initargs=(os.getpid(),)
        )
        others = active_children()
        try:
            for task, result in _finished(pool, function, {task: tasks[task] for task in missing}, own=executor is None):
                journal.add(task, keep(task, result))
                advance(journal.done[task])
        except BrokenExecutor as error:
            attempts += 1
            if executor is not None or attempts > ATTEMPTS:
                raise ConvolverError(f"The workers died {attempts} times; start it again to go on: {error}.") from error
        except KeyboardInterrupt:
            for worker in set(active_children()).difference(others) if executor is None else ():
                worker.terminate()  # what it was doing is done again
            raise
        finally:
            if executor is None:
                pool.shutdown(cancel_futures=True)


def _end_with(parent: int) -> None:
    """Let this worker end when its parent does, however that ends: killed by a signal, it tells nobody."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which a terminal sends to all: their parent ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _finished(
    pool: Executor, function: Callable[..., Any], tasks: dict[int, tuple[Any, ...]], *, own: bool
) -> Iterator[tuple[int, Any]]:
    with _interrupts_held() if own else nullcontext():
        futures: dict[Future[Any], int] = {pool.submit(function, *arguments): task for task, arguments in tasks.items()}
    try:
        while futures:
            for future in wait_first(futures):
                yield futures.pop(future), future.result()
    finally:
        for future in futures:
            future.cancel()


def wait_first(futures: dict[Future[Any], int]) -> list[Future[Any]]:
    """Return the futures that have finished, at least one."""
    return list(wait(futures, return_when=FIRST_COMPLETED).done)
