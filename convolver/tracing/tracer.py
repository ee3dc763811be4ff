"""Traces a command: addresses and exact counts into a ``.cvt`` file, the table of its blocks into a signature."""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convolver._native.detailed import AnySimulator
from convolver._native.simulator import Simulator
from convolver._native.trace import SETS, Decoder
from convolver.errors import FormatError
from convolver.progress import SILENT, Progress
from convolver.schema import document_id
from convolver.signature.counted import with_counts
from convolver.tracing import format as cvt
from convolver.tracing.assemble import assemble_signature
from convolver.tracing.blocks import Blocks, rebuild_blocks
from convolver.tracing.definitions import Definitions
from convolver.tracing.features import site_line_shares
from convolver.tracing.launch import rank
from convolver.tracing.path_features import PathFeatures
from convolver.tracing.preflight import check_command
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.session import Outcome, Session
from convolver.tracing.symbols import resolve_names
from convolver.tracing.writer import TraceWriter

if TYPE_CHECKING:
    from convolver.signature.signature import Signature

SNAPSHOT_SECONDS = 20.0
"""How often the counters are written while the program runs, for the case that Convolver itself is killed."""


def signature_path(output: Path) -> Path:
    """Return where the signature of a trace file lies: ``APP.sig.parquet`` beside ``APP.cvt``."""
    return output.with_name(output.name.removesuffix(".cvt") + ".sig.parquet")


def _meta(argv: Sequence[str], plan: SamplingPlan) -> dict[str, Any]:
    return {
        "command": list(argv),
        "sampling": plan.document(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": {"name": platform.node(), "system": platform.release(), "machine": platform.machine()},
        "engine": "valgrind",
        "rank": rank(),
    }


def _ending(outcome: Outcome, decoder: Decoder, seconds: float) -> dict[str, Any]:
    totals = decoder.totals
    return {
        "complete": outcome.complete,
        "reason": outcome.reason,
        "exit_status": outcome.exit_status,
        "traced_seconds": round(seconds, 3),
        "recorded_references": totals["window_references"],
        "set_references": totals["set_references"],
        "windows": totals["windows"],
        "threads": max(totals["threads"], 1),
    }


class _Ended:
    """What is known after the run: definitions, counters, blocks, signature."""

    def __init__(
        self, decoder: Decoder, counters: bytes, header: dict[str, Any], counts: Signature | None, paths: PathFeatures
    ) -> None:
        self.counters = np.frombuffer(counters, dtype="<u8").astype(np.uint64)
        self.definitions = Definitions.of(decoder)
        self.blocks: Blocks = rebuild_blocks(self.definitions, self.counters)
        self._decoder = decoder
        self._header = header
        self._counts = counts
        self.paths = paths

    def signature(self, trace_id: str) -> Signature:
        names = resolve_names(self.definitions, self.blocks)
        inputs = {"trace": trace_id}
        made = assemble_signature(self._decoder, self.counters, self.blocks, names, self._header, inputs, self.paths)
        return made if self._counts is None else with_counts(made, self._counts)


def _reraise(outcome: Outcome) -> None:
    """After everything was saved, let a signal that stopped Convolver have its usual effect."""
    if outcome.stopped_by == signal.SIGINT:
        raise KeyboardInterrupt
    if outcome.stopped_by is not None:
        os.kill(os.getpid(), outcome.stopped_by)


class _Recording:
    """Writes the file while the program runs."""

    def __init__(self, session: Session, decoder: Decoder, writer: TraceWriter) -> None:
        self._session, self._decoder, self.writer = session, decoder, writer
        self._snapshot = time.monotonic()

    def chunk(self) -> None:
        self.writer.put_recorded(self._decoder.take())

    def tick(self) -> None:
        if time.monotonic() - self._snapshot > SNAPSHOT_SECONDS:
            self.chunk()
            self.writer.put_counts(self._session.counters())
            self._snapshot = time.monotonic()


def trace(
    argv: Sequence[str],
    *,
    output: str | Path,
    sampling: SamplingPlan | None = None,
    progress: Progress = SILENT,
    scan: bool = True,
    counts: Signature | None = None,
) -> Trace:
    """Run a command under the tracer and return what was recorded.

    Writes ``output`` (``APP.cvt``) and ``APP.sig.parquet`` beside it, both complete files moved into place at the end. The
    program has this process's stdin, stdout and stderr; its exit status is in the trace's header. A program that was killed
    leaves a trace with ``complete`` False. Raises :class:`UsageError` or :class:`TracerError` when the command cannot be
    traced, and :class:`FormatError` when the file cannot be written; what was whole by then is kept. Ctrl-C finishes the
    files, then raises KeyboardInterrupt. ``scan``: look for AVX-512 code first. ``counts``: take the
    exact counts from the signature of an earlier run of the same binaries.
    """
    plan = (sampling or SamplingPlan()).check()
    command = check_command(argv, scan=scan)
    decoder = Decoder()
    plan.choose(decoder)
    decoder.record()
    paths = PathFeatures(decoder, plan.document())
    output = Path(output)
    session = Session(command, plan, decoder)
    try:
        writer = TraceWriter(output, _meta(argv, plan))
        recording = _Recording(session, decoder, writer)
        progress.start(f"Tracing {Path(argv[0]).name}")
        began = time.monotonic()
        try:
            outcome = session.run(recording.chunk, recording.tick, progress)
            recording.chunk()
            writer.put_counts(session.counters())
        except FormatError:
            writer.keep()
            raise
        except BaseException:
            writer.discard()
            raise
        finally:
            progress.finish()
        ending = _ending(outcome, decoder, time.monotonic() - began)
        _finish(writer, _Ended(decoder, session.counters(), {**_meta(argv, plan), **ending}, counts, paths), ending)
    finally:
        session.close()
    _reraise(outcome)
    return Trace.load(output)


def _finish(writer: TraceWriter, ended: _Ended, ending: dict[str, Any]) -> None:
    trace_id = writer.id
    signature = ended.signature(trace_id)
    path = signature_path(writer.path)
    try:
        signature.save(path)
        writer.put(cvt.SIGNATURE, path.read_bytes())
        writer.finish(ending)
    except FormatError:
        writer.keep()
        raise


class LiveTrace:
    """A trace that is simulated while the program runs and never stored.

    :func:`convolver.simulation.simulate.simulate` takes it like a stored one; ``signature``, ``site_blocks`` and ``header``
    are known after that.
    """

    def __init__(
        self, argv: Sequence[str], *, sampling: SamplingPlan | None = None, scan: bool = True, counts: Signature | None = None
    ) -> None:
        self._argv = list(argv)
        self._counts = counts
        self._plan = (sampling or SamplingPlan()).check()
        self._command = check_command(argv, scan=scan)
        self._ended: _Ended | None = None
        self._outcome: Outcome | None = None
        self.header: dict[str, Any] = _meta(argv, self._plan)
        self.site_line_shares: Any = None
        """Which pattern brings the lines of each site, known after :meth:`feed`."""

    def feed(
        self,
        simulator: AnySimulator,
        *,
        sets: Simulator | None = None,
        also: Iterable[AnySimulator] = (),
        progress: Progress = SILENT,
    ) -> None:
        """Run the program and stream its references into simulators, set-sampled ones into ``sets``."""
        decoder = Decoder()
        self._plan.choose(decoder)
        paths = PathFeatures(decoder, self._plan.document())
        for each in (simulator, *also):
            decoder.add_simulator(each)
        if sets is not None:
            decoder.add_simulator(sets, SETS)
        session = Session(self._command, self._plan, decoder)
        progress.start(f"Tracing {Path(self._argv[0]).name}")
        began = time.monotonic()
        try:
            self._outcome = session.run(lambda: None, lambda: None, progress)
            self.header |= _ending(self._outcome, decoder, time.monotonic() - began)
            self._ended = _Ended(decoder, session.counters(), self.header, self._counts, paths)
            self.site_line_shares = site_line_shares(decoder, paths.sites())
        finally:
            progress.finish()
            session.close()

    def _known(self) -> _Ended:
        if self._ended is None:
            raise RuntimeError("feed() was not called")
        return self._ended

    @property
    def id(self) -> str:
        """Hash of the run: the command, the time, and all counts."""
        return document_id({**self.header, "counters": self._known().counters.tolist()})

    @property
    def site_blocks(self) -> Any:
        """Block (row of the signature) of each site."""
        return self._known().blocks.site_blocks

    @property
    def signature(self) -> Signature:
        """The table of blocks."""
        return self._known().signature(self.id)

    def reraise(self) -> None:
        """Raise KeyboardInterrupt when the run was stopped by Ctrl-C; to be called when everything is saved."""
        if self._outcome is not None:
            _reraise(self._outcome)
