"""Lines that threads touch are found out once of each trace."""

from types import SimpleNamespace

import polars as pl
import pytest

from convolver.analyzing import known_touches as module
from convolver.analyzing.known_touches import known_touches
from convolver.tracing.spin_loops import SpinLoop
from convolver.tracing.touched_lines import TouchedLine, TouchedLines

TRACE = SimpleNamespace(id="0" * 32)
FOUND = TouchedLines(
    [TouchedLine(0x7FFF_0000_0040, "counter", True, "count", "count.c", 12)],
    pl.DataFrame(
        {"serial": [1, 2], "number": [0, 0], "block": [7, 9], "loads": [0.1, 1 / 3], "atomics": [0.0, 1.0], "stores": [1.0, 0.0]},
        schema_overrides=dict.fromkeys(("serial", "number", "block"), pl.UInt32),
    ),
    [SpinLoop(7, "wait", "", 0, 0.25)],
)


@pytest.fixture
def finding(tmp_path, monkeypatch):
    """What is found, and how often it was looked for; the store is empty."""
    said = SimpleNamespace(found=FOUND, asked=0)

    def look(_):
        said.asked += 1
        return said.found

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "touched_lines", look)
    return said


def test_what_is_kept_equals_what_was_found(finding):
    for _ in range(2):
        seen = known_touches(TRACE)
        assert (seen.lines, seen.spins) == (FOUND.lines, FOUND.spins)
        assert seen.touches.equals(FOUND.touches)
        assert seen.touches.schema == FOUND.touches.schema
    assert finding.asked == 1


@pytest.mark.parametrize("found", [None, TouchedLines([], None, FOUND.spins)])
def test_that_threads_share_no_line_is_kept_too(finding, found):
    finding.found = found
    assert known_touches(TRACE) == known_touches(TRACE) == found
    assert finding.asked == 1


def test_a_damaged_file_and_a_trace_without_id_are_looked_at_again(finding, tmp_path):
    known_touches(TRACE)
    (file,) = tmp_path.rglob("*.msgpack")
    file.write_bytes(file.read_bytes()[:-3])
    assert known_touches(TRACE).lines == FOUND.lines
    known_touches(SimpleNamespace(id=""))
    assert finding.asked == 3
