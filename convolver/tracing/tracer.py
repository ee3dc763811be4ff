"""Traces a command: addresses and exact counts into a ``.cvt`` file, the table of its blocks into a signature."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from convolver._native.sinks import Decoded, Sinks
from convolver._native.trace_decoder import Decoder
from convolver.errors import FormatError, UsageError
from convolver.progress import SILENT, Progress
from convolver.schema import document_id
from convolver.signature.data_objects import HOW_TO, DataObjects
from convolver.signature.signature import Signature
from convolver.tracing.found_objects import FoundObjects, object_owners
from convolver.tracing.native_engine import Attachment, check_objects
from convolver.tracing.pace import Pace
from convolver.tracing.path_features import PathFeatures
from convolver.tracing.preflight import check_command, command_words
from convolver.tracing.reader import Trace
from convolver.tracing.recording import Ended, Recording, describe, ending_of, finish
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.session import Session, raise_signal, stop_signals
from convolver.tracing.site_features import site_line_shares
from convolver.tracing.thread_log import ThreadLog, log_pieces
from convolver.tracing.writer import TraceWriter, signature_path

__all__ = ["LiveTrace", "signature_path", "trace"]


def trace(
    argv: Sequence[str],
    *,
    output: str | Path,
    sampling: SamplingPlan | None = None,
    progress: Progress = SILENT,
    scan: bool = True,
    counts: Signature | None = None,
    expected: int | None = None,
    attachment: Attachment | None = None,
) -> Trace:
    """Run a command under the tracer and return what was recorded.

    Writes ``output`` (``APP.cvt``) and ``APP.sig.parquet`` beside it, both complete files moved into place at the end. The
    program has this process's stdin, stdout and stderr; its exit status is in the trace's header. A program that was killed
    leaves a trace with ``complete`` False. Raises :class:`UsageError` or :class:`TracerError` when the command cannot be
    traced, and :class:`FormatError` when the file cannot be written; what was whole by then is kept. Ctrl-C finishes the
    files, then raises KeyboardInterrupt. ``scan``: look for AVX-512 code first. ``counts``: take the
    exact counts from the signature of an earlier run of the same binaries. ``expected``: memory references that the run will
    execute, as an earlier one counted them: the progress shows the remaining time. ``attachment``: trace this running process
    with the native engine instead; ``argv`` is its command line.
    """
    plan = SamplingPlan.checked(sampling)
    if attachment:
        check_objects(plan, "of a process that runs already")
    argv = list(argv) if attachment else command_words(argv)
    command = argv if attachment else check_command(argv, scan=scan and plan.engine == "valgrind")
    decoder = Decoder()
    plan.choose(decoder)
    output = Path(output)
    session = Session(command, plan, decoder, attachment)
    try:
        with stop_signals(session.stop):
            _record(session, argv, plan, decoder, output, progress, counts, expected)
    finally:
        session.close()
    raise_signal(session.stopped_by)
    return Trace.load(output)


def _record(
    session: Session,
    argv: Sequence[str],
    plan: SamplingPlan,
    decoder: Decoder,
    output: Path,
    progress: Progress,
    counts: Signature | None,
    expected: int | None,
) -> None:
    """Run the program and write the trace and its signature."""
    writer = TraceWriter(output, describe(argv, plan))
    recording = Recording(decoder, writer, plan, session.counters_path)
    pace = Pace(plan, progress, expected, session.counters_so_far)
    pace.start(f"Tracing {Path(argv[0]).name}")
    began = time.monotonic()
    try:
        outcome = session.run(recording.chunk, recording.tick, pace)
        decoder, paths, ending = recording.end(outcome, time.monotonic() - began)
        writer.put_counts(session.counters())
        writer.put_threads(log_pieces(session.counters_path))
    except FormatError:
        writer.keep()
        raise
    except BaseException:
        writer.discard()
        raise
    finally:
        pace.finish()
    finish(writer, Ended(decoder, session.counters(), {**describe(argv, plan), **ending}, counts, paths), ending)


class LiveTrace:
    """A trace that is simulated while the program runs and never stored.

    :func:`convolver.analyzing.analyze.analyze` and :func:`convolver.simulation.one_pass.simulate` take it, once, like a stored
    one; ``signature``, ``site_blocks`` and ``header`` are known after that. Its executed paths are not walked.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        sampling: SamplingPlan | None = None,
        scan: bool = True,
        counts: Signature | None = None,
        expected: int | None = None,
    ) -> None:
        self._argv = argv = command_words(argv)
        self._counts, self._expected = counts, expected
        self._plan = SamplingPlan.checked(sampling)
        if self._plan.budget:
            raise UsageError("A budget is for traces that are stored; leave it out where machines are simulated while tracing.")
        self._plan = replace(self._plan, budget=0)
        self._command = check_command(argv, scan=scan and self._plan.engine == "valgrind")
        self._ended: Ended | None = None
        self._stopped_by: int | None = None
        self._found: FoundObjects | None = None
        self.header: dict[str, Any] = describe(argv, self._plan)

    def feed(self, sinks: Sinks, progress: Progress = SILENT) -> Decoded:
        """Run the program, stream its references into simulators, and return what was learned on the way.

        Raises :class:`UsageError` where data objects are asked for and the plan has none.
        """
        if sinks.by_object and not self._plan.data_objects:
            raise UsageError(f"Data objects were not asked for. {HOW_TO}")
        decoder = Decoder()
        self._plan.choose(decoder)
        paths = PathFeatures(decoder, self._plan.document(), sinks.paths)
        sinks.connect(decoder)
        session = Session(self._command, self._plan, decoder)
        pace = Pace(self._plan, progress, self._expected, session.counters_so_far)
        pace.start(f"Tracing {Path(self._argv[0]).name}")
        began = time.monotonic()
        try:
            with stop_signals(session.stop):
                outcome = session.run(lambda: None, lambda: None, pace)
            self._stopped_by = session.stopped_by
            self.header |= ending_of(outcome, decoder, time.monotonic() - began)
            self._ended = Ended(decoder, session.counters(), self.header, self._counts, paths)
            self._found = self._ended.found_objects()
            owners = None if self._found is None else object_owners(decoder, self._found)
            return Decoded(self.site_blocks, self.block_memops, site_line_shares(decoder, paths.sites()), owners)
        finally:
            pace.finish()
            session.close()

    @property
    def data_objects(self) -> DataObjects:
        """The references of each block to each data object; raises :class:`UsageError` where they were not asked for."""
        ended = self._known()
        if self._found is None:
            raise UsageError(f"Data objects were not asked for. {HOW_TO}")
        return ended.data_objects(self._found, self.id)

    def _known(self) -> Ended:
        if self._ended is None:
            raise RuntimeError("feed() was not called")
        return self._ended

    @property
    def id(self) -> str:
        """Hash of the run: the command, the time, and all counts; empty before it."""
        if self._ended is None:
            return ""
        return document_id({**self.header, "counters": self._known().counters.tolist()})

    @property
    def site_blocks(self) -> Any:
        """Block (row of the signature) of each site."""
        return self._known().blocks.site_blocks

    @property
    def block_memops(self) -> Any:
        """Executed memory references of each block."""
        counts = self._known().blocks.counts
        return counts["loads"] + counts["stores"]

    @property
    def signature(self) -> Signature:
        """The table of blocks."""
        return self._known().signature(self.id)

    @property
    def thread_log(self) -> ThreadLog | None:
        """None: what threads did is known of a stored trace alone."""
        return None

    def reraise(self) -> None:
        """Raise KeyboardInterrupt when the run was stopped by Ctrl-C; to be called when everything is saved."""
        raise_signal(self._stopped_by)
