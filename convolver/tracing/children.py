"""Traces a command with all processes that it starts: one stream, one decoder and one file for each.

Every process makes a FIFO and a counter file in one folder (csrc/tracer/stream.c) and waits there for its reader, a thread of
this one. A process that replaces itself by another program (exec) makes another FIFO: programs are distinguished, not processes.
The native engine does so for them (csrc/engine/engine_family.c).
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from convolver._native import trace_decoder as native
from convolver._native.trace_decoder import Decoder
from convolver.child_processes import give_back_memory
from convolver.errors import ConvolverError, TracerError
from convolver.progress import SILENT, Progress, step
from convolver.tracing.counters import read_counters
from convolver.tracing.launch import descriptors, inherited_environment, passive_waiting
from convolver.tracing.native_engine import check_objects, engine_options, engine_program
from convolver.tracing.preflight import check_child, check_command, command_words
from convolver.tracing.processes import ChildTrace, FileNames, Process
from convolver.tracing.recording import Ended, Recording, describe, finish
from convolver.tracing.run_folder import RunFolder
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.session import (
    EXECED,
    EXITED,
    GRACE_SECONDS,
    SIGNALED,
    Outcome,
    last_words,
    never_stopped,
    outcome_of,
    raise_signal,
    stop_signals,
    with_engines_words,
)
from convolver.tracing.thread_log import log_pieces
from convolver.tracing.valgrind import tool_command, tool_environment
from convolver.tracing.writer import TraceWriter

STEP_MILLISECONDS = 100
LOOK_SECONDS = 0.01
"""How often is looked for new processes, which wait to be found."""
MOST_ENDED = 8
"""Ended processes whose traces may wait to be finished before new ones are read, or short-lived ones would fill the memory."""
_STREAM = re.compile(r"(\d+)\.(\d+)")


class _Reader(threading.Thread):
    """Reads the stream of one program into its file."""

    def __init__(self, family: _Family, process: Process, stream: Path) -> None:
        super().__init__(daemon=True)
        self._family, self._process, self._stream = family, process, stream
        self._counters = stream.with_name(f"{stream.name}.counters")
        self._decoder = Decoder(f"The stream of process {process.pid}")
        family.plan.choose(self._decoder)
        self.ended = False
        self.result: ChildTrace | None = None
        self.problem: ConvolverError | None = None

    @property
    def stream(self) -> str:
        """Name of its stream."""
        return self._stream.name

    @property
    def process(self) -> Process:
        return self._process

    @property
    def words(self) -> int:
        return self._decoder.totals["words"]

    def remove_files(self) -> None:
        """Remove what a program that has ended left beside its stream, which is memory."""
        self._counters.unlink(missing_ok=True)
        for suffix in (".about", ".log") if self._family.native else ():
            self._stream.with_name(self._stream.name + suffix).unlink(missing_ok=True)

    def run(self) -> None:
        try:
            if self._family.scan and not self._family.native and self._process.program > 0:
                check_child(self._process.pid, self._process.command[0])
        except ConvolverError as error:
            self.problem = error
            with contextlib.suppress(OSError):
                os.kill(self._process.pid, signal.SIGKILL)
            return
        # The process waits for this. Not blocking: it may die before it opens its end.
        self._descriptor = os.open(self._stream, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self._record()
        except ConvolverError as error:
            self.problem = error
        finally:
            os.close(self._descriptor)

    def _record(self) -> None:
        path, began = self._family.names.take(self._process), time.monotonic()
        meta = describe(self._process.command, self._family.plan, self._process.environment)
        meta["process"] = {"pid": self._process.pid, "parent": self._process.parent}
        writer = TraceWriter(path, meta)
        recording = Recording(self._decoder, writer, self._family.plan, self._counters)
        try:
            self._pump(recording)
        except ConvolverError:
            writer.keep()
            raise
        if self._is_stub():
            writer.discard()
            return
        seconds, self.ended = time.monotonic() - began, True
        with self._family.turn:
            self._finish(recording, meta, seconds)

    def _finish(self, recording: Recording, meta: dict[str, Any], seconds: float) -> None:
        writer = recording.writer
        try:
            counters = read_counters(self._counters)
            outcome = self._outcome()
            decoder, paths, ending = recording.end(outcome, seconds)
            writer.put_counts(counters)
            writer.put_threads(log_pieces(self._counters))
        except TracerError:  # killed while it started
            writer.discard()
            return
        except ConvolverError:
            writer.keep()
            raise
        finish(writer, Ended(decoder, counters, {**meta, **ending}, None, paths), ending)
        self.result = ChildTrace(writer.path, replace(self._process, environment={}), outcome)  # which nobody asks for again

    def _pump(self, recording: Recording) -> None:
        while True:
            state = self._decoder.pump(self._descriptor, STEP_MILLISECONDS)
            if self._decoder.chunk_full:
                recording.chunk()
            if state == native.END or (
                not self.words and not Path(f"/proc/{self._process.tracer or self._process.pid}").exists()
            ):
                return
            recording.tick()

    def _is_stub(self) -> bool:
        """A forked child that became another program: what it ran in between is nobody's program."""
        totals, ended = self._decoder.totals, self._decoder.totals["ended"]
        forked = self._process.forked
        if forked is None:
            forked = self._process.program == 0 and self._process.parent in self._family.known
        return bool(forked and ended and totals["end_reason"] == EXECED)

    def _outcome(self) -> Outcome:
        totals = self._decoder.totals
        code = totals["end_code"]
        status = 137 if not totals["ended"] else 0 if totals["end_reason"] == EXECED else code
        status = status if totals["end_reason"] in (EXITED, EXECED) or not totals["ended"] else 128 + code
        native = self._family.native
        log = self._stream.with_name(f"{self._stream.name}.log") if native else self._family.log
        if totals["ended"] and totals["end_reason"] == SIGNALED and code == signal.SIGINT:
            self._family.take_signals()
        outcome = outcome_of(self._decoder, status, self._family.stopped_by, log)
        outcome = with_engines_words(outcome, log) if native else outcome
        outcome = never_stopped(outcome, self._decoder, self._family.plan)
        if outcome.complete and totals["end_reason"] == EXECED:
            return replace(outcome, reason="the program replaced itself by another one (exec), which has a trace of its own")
        return outcome


class _Family:
    """The command and everything that it started."""

    def __init__(self, argv: Sequence[str], plan: SamplingPlan, names: FileNames, folder: Path, scan: bool) -> None:
        self.plan, self.names, self._argv, self._folder, self.scan = plan, names, argv, folder, scan
        self.log = folder / "log"
        self.native = plan.engine == "native"
        self.known: set[int] = set()
        self.started = 0
        self.traces: list[ChildTrace] = []
        self.problem: ConvolverError | None = None
        self._readers: list[_Reader] = []
        self._words = self._ended = 0
        self.stopped_by: int | None = None
        self._stopped_at = 0.0
        self._looked = threading.Condition()
        self._looks = 0
        self._seen: set[str] = set()
        self._read: list[tuple[int, str]] = []
        """Processes, and the names of their streams that were read."""
        self.turn = threading.Lock()
        """Who has it finishes a file: that takes far more memory than to read a stream, and no less time beside others."""

    def run(self, progress: Progress) -> int:
        """Run the command until all its processes have ended; return its exit status."""
        command, environment = self._command()
        root = subprocess.Popen(command, env=environment, pass_fds=descriptors())
        try:
            words = 0
            while self._look() or root.poll() is None or self._readers:
                self._part_with_ended()
                total = self._words + sum(reader.words for reader in self._readers)
                progress.advance(total - words, f"{self.started} processes")
                words = total
                self._pass_on(root)
                time.sleep(LOOK_SECONDS)
                with self._looked:
                    self._looks += 1
                    self._looked.notify_all()
        finally:
            if root.poll() is None:
                root.kill()
            code = root.wait()
        return code if code >= 0 else 128 - code

    def _command(self) -> tuple[list[str], dict[str, str]]:
        options, waiting = [f"--streams={self._folder}", f"--log-file={self.log}"], passive_waiting(self._argv[0])
        if self.native:
            command = [str(engine_program()), *options, *engine_options(self.plan, self._argv[0]), "--"]
            return [*command, *self._argv], {**inherited_environment(), **waiting}
        options = ["--trace-children=yes", *options, *self.plan.options(self._argv[0]), "--command-line-only=yes"]
        return [*tool_command(options), *self._argv], {**tool_environment(), **waiting}

    def _process(self, pid: int, program: int) -> Process:
        return Process.of_engine(pid, program, self._folder / f"{pid}.{program}") if self.native else Process.of(pid, program)

    def _look(self) -> bool:
        """Start readers of the streams that came; returns whether there were any. While many are being finished they wait."""
        if sum(reader.ended for reader in self._readers) >= MOST_ENDED:
            return True
        self._forget_gone()
        found = [name for name in os.listdir(self._folder) if _STREAM.fullmatch(name) and name not in self._seen]
        for pid, program in sorted(tuple(map(int, name.split("."))) for name in found):
            name = f"{pid}.{program}"
            self._seen.add(name)
            with contextlib.suppress(OSError, IndexError):
                reader = _Reader(self, self._process(pid, program), self._folder / name)
                self.known.add(pid)
                self._readers.append(reader)
                self.started += 1
                reader.start()
        return bool(found)

    def _forget_gone(self) -> None:
        """Remove the streams of processes that are gone, or looking for new ones takes longer with each: until then the names
        number a process's programs."""
        here = [one for one in self._read if Path(f"/proc/{one[0]}").exists()]
        for _, name in set(self._read) - set(here):
            (self._folder / name).unlink(missing_ok=True)
            self._seen.discard(name)
        self._read = here

    def _part_with_ended(self) -> None:
        """Keep what is known of ended processes and nothing else: a reader takes ten megabytes."""
        for reader in [one for one in self._readers if not one.is_alive()]:
            self._readers.remove(reader)
            self._words += reader.words
            self.problem = self.problem or reader.problem
            self.traces += [] if reader.result is None else [reader.result]
            reader.remove_files()
            self._read.append((reader.process.pid, reader.stream))
            self._ended += 1
            if self._ended % MOST_ENDED == 0:
                gc.collect()  # decoders are parts of cycles
                give_back_memory()

    def stop(self, number: int) -> None:
        """End all processes; to be called by the handler of a signal with its number."""
        self.stopped_by, self._stopped_at = self.stopped_by or number, self._stopped_at or time.monotonic()

    def take_signals(self) -> None:
        """Let the main thread, which calls handlers, take the signals that came until now: Ctrl-C reaches a program and Convolver
        at once. It has when it has begun another look and ended it."""
        with self._looked:
            until = self._looks + 2
            self._looked.wait_for(lambda: self._looks >= until)

    def _pass_on(self, root: subprocess.Popen[bytes]) -> None:
        """End all processes after Convolver was asked to stop: Ctrl-C reaches them anyway, after a grace time they are killed."""
        if self.stopped_by is None:
            return
        waited = time.monotonic() - self._stopped_at
        number = signal.SIGKILL if waited > GRACE_SECONDS else self.stopped_by
        if waited < GRACE_SECONDS / 2 and self.stopped_by == signal.SIGINT:
            return
        for reader in self._readers:
            if reader.is_alive():
                with contextlib.suppress(OSError):
                    os.kill(reader.process.pid, number)


def trace_children(
    argv: Sequence[str],
    *,
    output: str | None = None,
    sampling: SamplingPlan | None = None,
    progress: Progress = SILENT,
    scan: bool = True,
    force: bool = False,
) -> tuple[int, list[ChildTrace]]:
    """Run a command with all its children under the tracer; return its exit status and the traces in the order of their start.

    ``output``: name of the files, with ``%p`` for the process and ``%r`` for its MPI rank (default: COMMAND.RANK.cvt, or
    COMMAND.PID.cvt without a rank); ``force``: overwrite files; ``scan``: look for AVX-512 code in every program that is started
    and kill its process before it runs. A forked child has a trace of its own; what it ran is thrown away
    when it became another program (exec), which has one. Waits for all processes. Raises :class:`UsageError` or
    :class:`TracerError` when the command cannot be traced, and the first error of any process when all have ended. Ctrl-C
    finishes the files, then raises KeyboardInterrupt.
    """
    plan = SamplingPlan.checked(sampling)
    check_objects(plan, "of a program's children")
    argv = command_words(argv)
    command = check_command(argv, scan=scan and plan.engine == "valgrind")
    with RunFolder() as folder:
        family = _Family(command, plan, FileNames(output, force), folder, scan)
        with step(progress, f"Tracing {Path(argv[0]).name} and its children"), stop_signals(family.stop):
            status = family.run(progress)
        if family.problem is not None:
            raise family.problem
        if not family.started:
            raise TracerError(f"'{argv[0]}' could not be traced: {last_words(family.log, status)}")
    raise_signal(family.stopped_by)
    return status, sorted(family.traces, key=lambda child: child.process.order)
