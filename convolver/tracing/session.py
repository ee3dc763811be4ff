"""One traced run: the process, its pipe and its counter file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from convolver._native import trace_decoder as native
from convolver._native._core import lib
from convolver._native.trace_decoder import Decoder
from convolver.child_processes import signal_name
from convolver.errors import FormatError, TracerError
from convolver.tracing.counters import counters_so_far, read_counters
from convolver.tracing.launch import descriptors, inherited_environment, passive_waiting
from convolver.tracing.native_engine import (
    Attachment,
    engine_options,
    engine_program,
    made_code,
    untraced,
    went_native,
)
from convolver.tracing.pace import Pace
from convolver.tracing.run_folder import RunFolder
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.valgrind import tool_command, tool_environment

PIPE_BYTES = 1 << 20
STEP_MILLISECONDS = 200
GRACE_SECONDS = 5.0
"""How long an interrupted program may take to end before it is killed."""
EXITED, SIGNALED, EXECED = lib.CV_WIRE_EXITED, lib.CV_WIRE_SIGNALED, lib.CV_WIRE_EXECED
UNKNOWN_INSTRUCTION = "Valgrind does not know the instruction"
"""What the reason says of a program that SIGILL killed under Valgrind alone."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended. ``exit_status`` is the program's own, or 128 + the signal's number."""

    exit_status: int
    complete: bool
    reason: str
    went_native: tuple[str, ...] = ()
    """Why parts of the run were not traced (the native engine only), a phrase for each place."""
    made_code: dict[str, float] | None = None
    """How much ran natively in code that the program made itself (the native engine only)."""
    untraced: int = 0
    """Processes that it made and that ran natively (the native engine only)."""


@contextlib.contextmanager
def stop_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Call ``stop`` on Ctrl-C, SIGTERM and SIGHUP, unless that is ignored, instead of ending in the middle of a write."""

    def handler(number: int, _frame: FrameType | None) -> None:
        stop(number)

    before: dict[int, Any] = {}
    with contextlib.suppress(ValueError):  # not the main thread: its owner handles signals
        for number in (int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP)):
            if signal.getsignal(number) != signal.SIG_IGN or number != signal.SIGHUP:  # as nohup leaves it
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)  # None: it was not set by Python


def raise_signal(number: int | None) -> None:
    """After everything was saved, let a signal that stopped Convolver have its usual effect."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    if number is not None:
        os.kill(os.getpid(), number)


class Session:
    """Runs a command under the tracer and pumps its stream into a decoder."""

    def __init__(self, argv: Sequence[str], plan: SamplingPlan, decoder: Decoder, attachment: Attachment | None = None) -> None:
        self._argv = list(argv)
        self._attachment = attachment
        self._plan = plan
        self._decoder = decoder
        self.stopped_by: int | None = None
        """Signal that stopped Convolver, also after the program's end."""
        self._interrupted_by: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped_at = 0.0
        self._folder = RunFolder()
        self.counters_path = self._folder.path / "counters"
        self._log = self._folder.path / "log"

    def close(self) -> None:
        """Remove the temporary files."""
        self._folder.close()

    def counters(self) -> bytes:
        """Return the execution counters as they are now (see :func:`read_counters`)."""
        return read_counters(self.counters_path)

    def counters_so_far(self) -> bytes:
        """Return the counters while the program runs: none before the tracer has begun."""
        return counters_so_far(self.counters_path)

    def _start(self, wire: int) -> subprocess.Popen[bytes]:
        options = [f"--wire-fd={wire}", f"--counters={self.counters_path}"]
        if self._plan.engine == "native":
            program = self._argv[0] if self._attachment is None else self._attachment.program
            command = [str(engine_program()), *options, f"--log-file={self._log}", *engine_options(self._plan, program)]
            command += ["--", *self._argv] if self._attachment is None else self._attachment.options()
            environment = {**inherited_environment(), **passive_waiting(self._argv[0])}
            return subprocess.Popen(command, env=environment, pass_fds=(wire, *descriptors()))
        options = [*options, *self._plan.options(self._argv[0])]
        options += ["--command-line-only=yes", f"--log-file={self._log}"]
        environment = {**tool_environment(), **passive_waiting(self._argv[0])}
        return subprocess.Popen([*tool_command(options), *self._argv], env=environment, pass_fds=(wire, *descriptors()))

    def run(self, on_chunk: Callable[[], None], on_time: Callable[[], None], pace: Pace) -> Outcome:
        """Run the command to its end; the program has this process's own stdin, stdout and stderr.

        ``on_chunk`` is called when the decoder has recorded enough for a chunk, ``on_time`` a few times a second. Raises
        :class:`TracerError` when the program could not be started and :class:`FormatError` when recording failed; the program is
        ended then.
        """
        reading, writing = os.pipe()
        with contextlib.suppress(OSError):  # more than an ordinary user may have
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        process = None
        try:
            try:
                process = self._process = self._start(writing)
            finally:
                os.close(writing)
            self._pump(process, reading, on_chunk, on_time, pace)
            return self._outcome(self._wait(process))
        finally:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
            os.close(reading)

    def stop(self, number: int) -> None:
        """End the program; to be called by the handler of a signal with its number (:func:`stop_signals`)."""
        self.stopped_by, self._stopped_at = self.stopped_by or number, self._stopped_at or time.monotonic()
        code = None if self._process is None else self._process.poll()
        if code is None or code < 0:  # it runs, or Ctrl-C has killed it, too
            self._interrupted_by = self._interrupted_by or number

    def _pump(
        self,
        process: subprocess.Popen[bytes],
        reading: int,
        on_chunk: Callable[[], None],
        on_time: Callable[[], None],
        pace: Pace,
    ) -> None:
        seen, ended = 0, False
        while True:
            state = self._decoder.pump(reading, STEP_MILLISECONDS)
            if self._decoder.chunk_full:
                on_chunk()
            on_time()
            if state == native.END:
                return
            totals = self._decoder.totals
            words = totals["words"]
            pace.advance(totals)
            # A child of the program may hold the pipe open for ever: after the program's end, one quiet moment is the end.
            if ended and words == seen:
                return
            seen, ended = words, process.poll() is not None
            self._pass_on(process)

    def _pass_on(self, process: subprocess.Popen[bytes]) -> None:
        """End the program after Convolver was asked to stop: Ctrl-C reaches it anyway, other signals are passed on."""
        if self.stopped_by is None or process.poll() is not None:
            return
        waited = time.monotonic() - self._stopped_at
        if waited > GRACE_SECONDS:
            process.kill()
        elif self.stopped_by != signal.SIGINT or waited > GRACE_SECONDS / 2:
            process.terminate()

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for the program, whose stream has ended: it may go on untraced after an exec."""
        while True:
            try:
                return process.wait(timeout=STEP_MILLISECONDS / 1000)
            except subprocess.TimeoutExpired:
                self._pass_on(process)

    def _outcome(self, code: int) -> Outcome:
        status = code if code >= 0 else 128 - code
        if not self._decoder.totals["words"]:
            raise TracerError(f"'{self._argv[0]}' could not be traced: {last_words(self._log, status)}")
        outcome = outcome_of(self._decoder, status, self._interrupted_by, self._log)
        if self._attachment is not None and outcome.complete:
            outcome = _but(outcome, "only what ran while the engine was attached was traced")
        if self._plan.bursts_only and outcome.complete:
            outcome = _but(outcome, "only bursts were traced, and counts are theirs unless --from has all")
        return with_engines_words(never_stopped(outcome, self._decoder, self._plan), self._log)


def with_engines_words(outcome: Outcome, log: Path) -> Outcome:
    """Return how a run ended, with what the native engine says of it in its log."""
    return replace(outcome, went_native=tuple(went_native(log)), made_code=made_code(log), untraced=untraced(log))


def outcome_of(decoder: Decoder, status: int, stopped_by: int | None, log: Path) -> Outcome:
    """Return how a run ended, from the records of its stream."""
    totals = decoder.totals
    if stopped_by is not None:
        return Outcome(status, False, "interrupted")
    try:
        decoder.flush()
    except FormatError:
        return Outcome(status, False, "the tracer was killed")
    if not totals["ended"]:
        return Outcome(status, False, f"the tracer was killed: {last_words(log, status).rstrip('.')}")
    if totals["end_reason"] == SIGNALED:
        return Outcome(status, False, f"the program was killed by {signal_name(totals['end_code'])}{_unknown_instruction(log)}")
    if totals["end_reason"] == EXECED:
        return Outcome(status, True, "the program replaced itself by another one (exec), which ran untraced")
    return Outcome(status, True, "exited")


def never_stopped(outcome: Outcome, decoder: Decoder, plan: SamplingPlan) -> Outcome:
    """Return how a run ended, with the place where tracing should have stopped, if the program never came to it."""
    if not (outcome.complete and decoder.totals["unstopped"]):
        return outcome
    return _but(outcome, f"the program never came to {plan.stop_at}, so all is traced to its end")


def _but(outcome: Outcome, reason: str) -> Outcome:
    """Return the outcome with one more reason why the trace is not the whole run's."""
    return replace(outcome, reason=reason if outcome.reason == "exited" else f"{outcome.reason}; {reason}")


def _unknown_instruction(log: Path) -> str:
    """Return, for a reason's end, which instruction Valgrind could not run; empty: it knew them all."""
    try:
        found = re.search(r"unhandled instruction bytes: ((?:0x[0-9A-F]{1,2} ?)+)", log.read_text(errors="replace"))
    except OSError:
        return ""
    if found is None:
        return ""
    code = [one.removeprefix("0x").zfill(2) for one in found[1].split()]
    return f": {UNKNOWN_INSTRUCTION} {' '.join(code[:6])}{' (AVX-512)' if code[0] == '62' else ''}"


def last_words(log: Path, status: int) -> str:
    """Return what Valgrind said last as one sentence."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    said = [line.split("== ", 1)[-1].removeprefix("convolver: ").strip() for line in lines]
    said = [line for line in said if line and not line.endswith("==")]
    return f"{said[0].rstrip('.')} (exit status {status})." if said else f"the tracer ended with status {status}."
