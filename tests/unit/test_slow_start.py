"""A tracer that takes long to start: nothing asks in vain for the counters that it has not made yet."""

from convolver._native.trace_decoder import Decoder
from convolver.tracing.counters import counters_so_far
from convolver.tracing.recording import Recording
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.writer import TraceWriter


def test_snapshots_wait_until_the_tracer_has_begun(tmp_path, monkeypatch):
    writer = TraceWriter(tmp_path / "a.cvt", {"command": ["x"], "sampling": SamplingPlan().document()})
    recording = Recording(Decoder(), writer, SamplingPlan(), tmp_path / "counters")
    monkeypatch.setattr("time.monotonic", lambda: float("inf"))
    recording.tick()
    writer.discard()


def test_progress_counts_nothing_before_the_tracer_has_begun(tmp_path):
    assert counters_so_far(tmp_path / "counters") == b""
