"""Memory does not grow with the children that have ended, and hundreds of threads at one time are traced."""

import sys

import pytest

from convolver.tracing.reader import Trace
from tests.integration.tool_runs import requires_tool
from tests.peak_memory import peak_memory
from tests.robust.soak import CHILDREN, soak

pytestmark = requires_tool
TOGETHER = "i=0; while [ $i -lt $0 ]; do /bin/true & i=$((i+1)); done; wait"
LARGEST_READER = 10 << 20
"""Bytes for each child whose stream is read: a decoder and samples. To finish a trace takes 50 MB."""


def _peak(folder, script, count):
    command = [sys.executable, "-m", "convolver", "trace", "--trace-children", "--force", "-o", f"{folder}/%p.cvt", "--"]
    status, peak = peak_memory([*command, "sh", "-c", script, count])
    assert status == 0
    assert len(list(folder.glob("*.cvt"))) >= int(count)
    return peak


@pytest.mark.slow
@pytest.mark.parametrize("script", [CHILDREN, TOGETHER], ids=["one after another", "together"])
def test_each_further_child_takes_little_memory(tmp_path, script):
    assert _peak(tmp_path, script, "26") - _peak(tmp_path, script, "2") < 24 * LARGEST_READER


def test_five_hundred_threads_at_one_time_are_traced(tmp_path):
    _, status = soak("threads", 500, tmp_path, turns=2)
    assert status == 0
    assert Trace.load(tmp_path / "a.cvt").header["threads"] == 501
