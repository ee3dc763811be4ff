"""Which lines come in one stream at a time, seen in the references of the probe's own kernels."""

import pytest

from convolver.machine.hierarchy import Level
from convolver.probing.record import KernelRuns, RecordedPoint
from convolver.probing.runner import list_kernels
from convolver.simulation.one_pass import simulate

ONE, SEVERAL = ("load", "load_v16", "store", "stride_8", "update", "chase_sequential"), ("copy", "triad", "streams_8", "gather")
SIZE = 1 << 20
LEVELS = [Level(level="L1", size_bytes=1 << 15, ways=8, line_bytes=64)]


@pytest.fixture(scope="module")
def alone():
    known, _ = list_kernels()
    names = [name for name in (*ONE, *SEVERAL) if name in known]
    run = KernelRuns([RecordedPoint(name, SIZE, 24576, 0) for name in names])
    simulate(run, [LEVELS])
    return dict(zip(names, run.features(len(names) + 1)["alone"][1:].tolist(), strict=True))


def test_lines_of_one_stream_come_alone(alone):
    assert {name: round(alone[name], 1) for name in ONE} == dict.fromkeys(ONE, 1.0)


def test_lines_of_several_streams_do_not(alone):
    assert {name: round(alone[name], 1) for name in SEVERAL} == dict.fromkeys(SEVERAL, 0.0)
