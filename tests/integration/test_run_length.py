"""A longer run costs no more to store, and what is sampled agrees with the full trace within what is stated."""

import importlib
import sys
from pathlib import Path

import pytest

from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace

BENCH = Path(__file__).resolve().parents[1] / "bench"


@pytest.fixture(scope="module")
def length():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        yield importlib.import_module("run_length")
    sys.modules.pop("run_length", None)


@pytest.fixture(scope="module")
def program(length, tmp_path_factory):
    return str(length.build(tmp_path_factory.mktemp("program")))


@pytest.mark.slow
def test_eight_times_the_run_takes_the_same_file(program, tmp_path):
    plan = SamplingPlan(interval=100_000, budget=400_000)
    recorded = [trace([program, "20", str(n)], output=tmp_path / f"{n}.cvt", sampling=plan) for n in (2, 16)]
    short, long = ((tmp_path / f"{n}.cvt").stat().st_size for n in (2, 16))
    assert 1 / 1.3 < long / short < 1.3
    counted = [one.signature.totals["instructions"] for one in recorded]
    assert counted[1] == pytest.approx(8 * counted[0], rel=0.02)


@pytest.mark.slow
def test_a_sampled_run_agrees_with_its_full_trace(length, program, tmp_path):
    """The first level is judged by the seconds: bursts begin with its lines out of date, which its errors do not tell."""
    for found in length.agreements([program, "20", "1"], tmp_path):
        assert max(found.deviations[1:]) < 4
        assert found.interval[0] < found.full_seconds < found.interval[1]
        assert found.seconds == pytest.approx(found.full_seconds, rel=0.05)
