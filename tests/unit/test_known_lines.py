"""Lines that threads touch and hand over are found out once of each trace."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from convolver.analyzing import known_lines as module
from convolver.analyzing.known_lines import known_lines
from convolver.simulation.handed_lines import HandedLines
from convolver.tracing.spin_loops import SpinLoop
from convolver.tracing.touched_lines import TouchedLine, TouchedLines

FOUND = TouchedLines(
    [TouchedLine(0x7FFF_0000_0040, "counter", True, "count", "count.c", 12)],
    pl.DataFrame(
        {"serial": [1, 2], "number": [0, 0], "block": [7, 9], "loads": [0.1, 1 / 3], "atomics": [0.0, 1.0], "stores": [1.0, 0.0]},
        schema_overrides=dict.fromkeys(("serial", "number", "block"), pl.UInt32),
    ),
    [SpinLoop(7, "wait", "", 0, 0.25)],
)
HANDED = HandedLines(
    np.array([7, 9], np.uint32),
    np.array([0, 1], np.uint8),
    np.array([3.0, np.inf]),
    np.array([1 / 3, 8.0]),
    np.array([64.0, 0.1]),
)


@pytest.fixture
def finding(tmp_path, monkeypatch):
    """What is found, and how often a trace was read for it; the store is empty."""
    said = SimpleNamespace(found=FOUND, handed=HANDED, read=0)

    def read(join):
        said.read += 1
        join(SimpleNamespace(add_sink=lambda *_: None))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "touched_lines", lambda *_: said.found)
    monkeypatch.setattr(module, "handed_lines", lambda *_: said.handed)
    monkeypatch.setattr(module, "follow_lines", lambda *_: object())
    said.trace = SimpleNamespace(id="0" * 32, read=read)
    return said


def test_what_is_kept_equals_what_was_found(finding):
    for _ in range(2):
        touched, handed = known_lines(finding.trace)
        assert (touched.lines, touched.spins) == (FOUND.lines, FOUND.spins)
        assert touched.touches.equals(FOUND.touches)
        assert touched.touches.schema == FOUND.touches.schema
        for name, column in vars(HANDED).items():
            assert np.array_equal(getattr(handed, name), column)
            assert getattr(handed, name).dtype == column.dtype
    assert finding.read == 1


@pytest.mark.parametrize("found", [None, TouchedLines([], None, FOUND.spins)])
def test_that_threads_share_no_line_is_kept_too(finding, found):
    finding.found, finding.handed = found, None
    assert known_lines(finding.trace) == known_lines(finding.trace) == (found, None)
    assert finding.read == 1


def test_a_damaged_file_and_a_trace_without_id_are_looked_at_again(finding, tmp_path):
    known_lines(finding.trace)
    (file,) = tmp_path.rglob("*.msgpack")
    file.write_bytes(file.read_bytes()[:-3])
    assert known_lines(finding.trace).touched.lines == FOUND.lines
    finding.trace.id = ""
    known_lines(finding.trace)
    assert finding.read == 3
