"""Many independent tasks on any executor, resumable: what sweeps over networks and over traces share."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from convolver.errors import ConvolverError, FormatError, ToolError, ToolNotFoundError
from convolver.foreign_text import decode_json
from convolver.outputs import append_line, open_kept
from convolver.worker import Worker, WorkerDiedError, answered

ATTEMPTS = 3
"""How often workers of this process may die."""


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
        if path is not None:
            with open_kept(path) as file:
                lines = file.readlines()
                if lines:
                    file.truncate(self._read(path, lines))
            if not lines:
                append_line(path, json.dumps({"plan": identity}).encode())

    def _read(self, path: Path, lines: list[bytes]) -> int:
        """Take the results of the whole lines; return how many bytes these are."""
        whole = [line for line in lines if line.endswith(b"\n")]
        try:
            first, *entries = [decode_json(line, str(path)) for line in whole]
            if first["plan"] != self.identity:
                raise ValueError
            self.done = {int(entry["batch"]): entry["rows"] for entry in entries}
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"{path} belongs to another sweep; remove it or write this sweep to another file.") from error
        return sum(map(len, whole))

    def add(self, task: int, result: Any) -> None:
        """Keep a result."""
        self.done[task] = result
        if self.path is not None:
            append_line(self.path, json.dumps({"batch": task, "rows": result}).encode())

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

    ``executor`` is anything with ``submit`` (``distributed.Client.get_executor()`` too); without one ``jobs`` worker processes of
    this one are used (default: one a CPU), and replaced when they die. Raises :class:`ConvolverError` when workers die again and
    again.
    """
    missing = {task: arguments for task, arguments in tasks.items() if task not in journal.done}
    finished = _by_workers(function, missing, jobs) if executor is None else _by_executor(function, missing, executor)
    with closing(finished):
        for task, result in finished:
            journal.add(task, keep(task, result))
            advance(journal.done[task])


def _by_workers(
    function: Callable[..., Any], tasks: Mapping[int, tuple[Any, ...]], jobs: int | None
) -> Generator[tuple[int, Any], None, None]:
    """Yield tasks and results as they come from processes of our own. Each has a pipe of its own, so that nobody waits for what
    a dead one held."""
    todo, deaths = deque(tasks), 0
    idle: list[Worker] = []
    busy: dict[Worker, int] = {}
    try:
        while todo or busy:
            while todo and len(busy) < (jobs or len(os.sched_getaffinity(0))):
                worker, task = idle.pop() if idle else Worker(), todo.popleft()
                busy[worker] = task
                worker.ask(function, tasks[task])
            for worker in answered(busy):
                try:
                    result = worker.answer()
                except WorkerDiedError as error:
                    todo.appendleft(busy.pop(worker))
                    worker.end()
                    deaths += 1
                    if deaths > ATTEMPTS:
                        raise ConvolverError(f"{deaths} workers died ({error}); start it again to go on.") from error
                    continue
                idle.append(worker)
                yield busy.pop(worker), result
    finally:
        for worker in (*idle, *busy):
            worker.end()  # what it was doing is done again


def _by_executor(
    function: Callable[..., Any], tasks: Mapping[int, tuple[Any, ...]], executor: Executor
) -> Generator[tuple[int, Any], None, None]:
    futures: dict[Future[Any], int] = {executor.submit(function, *arguments): task for task, arguments in tasks.items()}
    try:
        while futures:
            for future in wait_first(futures):
                yield futures.pop(future), future.result()
    except BrokenExecutor as error:
        raise ConvolverError(f"The workers died ({error}); start it again to go on.") from error
    finally:
        for future in futures:
            future.cancel()


def wait_first(futures: dict[Future[Any], int]) -> list[Future[Any]]:
    """Return the futures that have finished, at least one."""
    return list(wait(futures, return_when=FIRST_COMPLETED).done)
