"""The CPU ratio divides: above 1 the target is faster."""

import msgspec
import pytest

from convolver.convolution.cpu_ratio import CpuRatio, cpu_ratio, ratio_interval
from convolver.errors import PredictionError, ProvenanceError
from tests.synthetic import convolved, hit_rates, loads, machine, signature
from tests.unit.test_rate_model import KNOWN

M, FAST = machine("base"), machine("fast", scale=0.25)
PROGRAM = signature(loads(1000, function="f"), loads(500, pattern="random", function="g"))
RATES = hit_rates([(0, 1000, 100, 10), (1, 500, 500, 0)], M, FAST)


def test_a_machine_four_times_faster_has_ratio_four_everywhere():
    ratio = cpu_ratio(convolved(PROGRAM, RATES, M), convolved(PROGRAM, RATES, FAST))
    assert ratio.total == pytest.approx(4)
    assert ratio.table["ratio"].to_list() == pytest.approx([4, 4])
    assert ratio.functions["ratio"].to_list() == pytest.approx([4, 4])


def test_ratio_survives_a_file(tmp_path):
    ratio = cpu_ratio(convolved(PROGRAM, RATES, M), convolved(PROGRAM, RATES, FAST))
    ratio.save(tmp_path / "a.ratio.json")
    loaded = CpuRatio.load(tmp_path / "a.ratio.json")
    assert (loaded.id, loaded.total) == (ratio.id, ratio.total)
    assert loaded.table.equals(ratio.table)
    assert "blocks" not in loaded.summary()


def test_times_of_two_programs_have_no_ratio():
    other = convolved(signature(loads(10)), hit_rates([(0, 10, 0, 0)], M), M)
    with pytest.raises(ProvenanceError, match="different signatures"):
        cpu_ratio(convolved(PROGRAM, RATES, M), other)


def test_times_with_two_overlap_rules_have_no_ratio():
    with pytest.raises(ProvenanceError, match="overlap"):
        cpu_ratio(convolved(PROGRAM, RATES, M), convolved(PROGRAM, RATES, M, overlap="sum"))


def test_a_program_that_needs_no_time_has_no_ratio():
    empty = convolved(signature(), hit_rates([], M), M)
    with pytest.raises(PredictionError, match="no ratio"):
        cpu_ratio(empty, empty)
    with pytest.raises(PredictionError, match="no ratio"):
        ratio_interval(empty, empty)  # as what-if and choose ask for it


def test_contributions_add_up_to_what_the_ratio_is_above_one():
    other = machine("other", scale=0.7)
    rates = hit_rates([(0, 1000, 100, 10), (1, 500, 500, 0)], M, other)
    result = cpu_ratio(convolved(PROGRAM, rates, M), convolved(PROGRAM, rates, other))
    for rows in (result.table, result.functions):
        assert rows["contribution"].sum() == pytest.approx(result.total - 1)


def test_blocks_and_functions_have_intervals_where_their_times_were_drawn(tmp_path):
    base, target = (msgspec.structs.replace(one, calibration=KNOWN) for one in (M, FAST))
    times = [convolved(PROGRAM, RATES, one) for one in (base, target)]
    ratio = cpu_ratio(*times)
    for rows in (ratio.table, ratio.functions):
        assert rows.filter(rows["low"] < rows["high"]).height == rows.height == 2
    assert ratio.functions.sort("function")["low"].to_list() == pytest.approx(
        ratio.table.sort("function")["low"].to_list(), rel=0.01
    )
    ratio.save(tmp_path / "a.ratio.json")
    assert CpuRatio.load(tmp_path / "a.ratio.json").functions.equals(ratio.functions)
    plain = cpu_ratio(convolved(PROGRAM, RATES, M), convolved(PROGRAM, RATES, FAST))
    assert plain.functions["low"].null_count() == 2
