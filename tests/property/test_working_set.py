"""The working-set curve against its definition."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver.errors import SimulationError
from convolver.simulation.working_set import working_set, working_set_of_arrays
from tests.reference_streams import arrays, streams


@settings(max_examples=60, deadline=None)
@given(streams(4), st.sampled_from([8, 64, 4096]))
def test_the_curve_is_the_average_over_all_windows(references, line_bytes):
    address, size, *_ = arrays(references).values()
    lines = [
        line
        for at, bytes_, _, _ in references
        for line in range(at // line_bytes, (min(at + bytes_, 1 << 64) - 1) // line_bytes + 1)
    ]
    table = working_set_of_arrays(address, sizes=size, line_bytes=line_bytes)
    assert table["window_accesses"].to_list() == [1 << i for i in range(len(lines).bit_length())]
    for window, average in table.select("window_accesses", "lines").iter_rows():
        starts = range(len(lines) - window + 1)
        expected = sum(len(set(lines[start : start + window])) for start in starts) / len(starts)
        assert average == pytest.approx(expected, rel=1e-9)


def test_a_walk_touches_what_its_windows_are_long():
    table = working_set_of_arrays(np.arange(0, 64 * 1024, 64, dtype=np.uint64))
    assert table["lines"].to_list() == table["window_accesses"].to_list()
    assert table["working_set_bytes"][-1] == 1024 * 64


def test_nothing_and_a_line_that_cannot_be(monkeypatch):
    assert working_set_of_arrays(np.zeros(0, dtype=np.uint64)).height == 0
    with pytest.raises(Exception, match="lines of 48 bytes"):
        working_set_of_arrays(np.zeros(1, dtype=np.uint64), line_bytes=48)


def test_a_sampled_trace_has_no_curve():
    with pytest.raises(SimulationError, match="--full"):
        working_set(SimpleNamespace(header={"sampling": {"mode": "sample", "sample": 10, "interval": 100}}))
