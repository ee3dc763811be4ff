"""Equation 1 by hand: every number here was worked out on paper from the costs in tests/synthetic.py."""

import polars as pl
import pytest

from convolver.convolution.costs import pattern_cost
from convolver.errors import CoverageError, PredictionError, ProvenanceError, UsageError
from convolver.machine.catalog import as_machine
from convolver.machine.hierarchy import Level
from convolver.machine.profile import MachineProfile
from convolver.simulation.hit_rates import HitRates
from tests.synthetic import COSTS, LEVELS, NS, convolved, curve, hit_rates, loads, machine, signature

M = machine()


def _row(times, block=0):
    return times.table.row(by_predicate=pl.col("block") == block, named=True)


@pytest.mark.parametrize("kernel", COSTS)
def test_a_curve_is_taken_apart_into_the_costs_that_made_it(kernel):
    cost = pattern_cost(curve(kernel, COSTS[kernel]), LEVELS)
    assert (cost.reference_seconds, *cost.line_seconds) == pytest.approx(COSTS[kernel])
    assert not any(cost.extrapolated)


def test_references_that_hit_l1_cost_the_first_plateau():
    times = convolved(signature(loads(1000)), hit_rates([(0, 1000, 0, 0)], M), M)
    assert times.seconds == pytest.approx(1000 * 0.5 * NS)
    row = _row(times)
    assert row["memory_rate"] == pytest.approx(2e9)
    assert (row["data_set_location"], row["hit_rate_L1"], row["hit_rate_L2"]) == ("L1", 1.0, 1.0)


@pytest.mark.parametrize(
    ("pattern", "l1_misses", "l2_misses", "seconds", "location"),
    [
        ("unit", 125, 0, 1000 * 0.5 + 125 * 4, "L2"),
        ("unit", 125, 125, 1000 * 0.5 + 125 * 16, "memory"),
        ("strided", 500, 0, 1000 * 0.5 + 500 * 6, "L1/L2"),
        ("random", 800, 300, 1000 * 1.0 + 500 * 3 + 300 * 40, "L2/memory"),
        ("dependent", 1000, 900, 1000 * 2.0 + 100 * 5 + 900 * 80, "memory"),
    ],
)
def test_each_pattern_pays_its_own_price_for_a_line(pattern, l1_misses, l2_misses, seconds, location):
    times = convolved(signature(loads(1000, pattern=pattern)), hit_rates([(0, 1000, l1_misses, l2_misses)], M), M)
    assert _row(times)["memory_seconds"] == pytest.approx(seconds * NS)
    assert _row(times)["data_set_location"] == location


def test_sampled_hit_rates_stand_for_all_memops():
    whole = convolved(signature(loads(1000, sampled=100)), hit_rates([(0, 100, 10, 5)], M), M)
    assert whole.seconds == pytest.approx((1000 * 0.5 + 50 * 4 + 50 * 16) * NS)
    assert whole.sampled_share == pytest.approx(0.1)
    assert whole.coverage == 1.0


def test_a_store_stream_pays_for_its_write_backs():
    row = {"executions": 1, "stores": 800, "store_bytes": 6400, "sampled_references": 800, "unit_references": 800}
    times = convolved(signature(row), hit_rates([(0, 800, 100, 100, [100, 100])], M), M)
    assert times.seconds == pytest.approx((800 * 1.0 + 100 * 30) * NS)


def test_lines_are_split_by_what_each_pattern_could_touch():
    # 800 sequential references can touch 100 lines, 100 random ones 100: half of the 60 misses belong to each.
    row = loads(900, sampled=900, unit_references=800, random_references=100)
    times = convolved(signature(row), hit_rates([(0, 900, 60, 60)], M), M)
    assert times.seconds == pytest.approx((800 * 0.5 + 100 * 1.0 + 30 * 16 + 30 * 40) * NS)
    assert _row(times)["random_share"] == pytest.approx(1 / 9)


def test_dependent_references_with_regular_ones_to_feed_them_are_gathers():
    row = loads(300, unit_references=200, dependent_references=100)
    times = convolved(signature(row), hit_rates([(0, 300, 0, 0)], M), M)
    assert times.seconds == pytest.approx((200 * 0.5 + 100 * 1.0) * NS)


def test_the_longest_of_memory_floating_point_and_instructions_counts():
    row = loads(1000, flops=1000, instructions=10_000)
    rates = hit_rates([(0, 1000, 0, 0)], M)
    times = convolved(signature(row), rates, M, overlap="max")
    parts = _row(times)
    assert parts["memory_seconds"] == pytest.approx(500 * NS)
    assert parts["floating_point_seconds"] == pytest.approx(250 * NS)
    assert parts["instruction_seconds"] == pytest.approx(1000 * NS)
    assert times.seconds == pytest.approx(1000 * NS)
    assert convolved(signature(row), rates, M, overlap="sum").seconds == pytest.approx(1750 * NS)
    between = (500**2.7 + 250**2.7 + 1000**2.7) ** (1 / 2.7)
    assert convolved(signature(row), rates, M).seconds == pytest.approx(between * NS)


def test_blocks_without_a_sample_take_the_rate_of_their_function_then_module_then_program():
    rows = [
        loads(1000, function="f"),
        loads(1000, pattern="random", function="g"),
        loads(100, sampled=0, function="f"),
        loads(100, sampled=0, function="other"),
        loads(100, sampled=0, function="other", module="/lib/other.so"),
        loads(2000, pattern="random", function="h", module="/lib/third.so"),
    ]
    times = convolved(signature(*rows), hit_rates([(0, 1000, 0, 0), (1, 1000, 0, 0), (5, 2000, 0, 0)], M), M)
    assert _row(times, 2)["memory_seconds"] == pytest.approx(100 * 0.5 * NS)
    assert _row(times, 3)["memory_seconds"] == pytest.approx(100 * 0.75 * NS)
    assert _row(times, 4)["memory_seconds"] == pytest.approx(100 * 3500 / 4000 * NS)
    assert times.coverage == pytest.approx(4000 / 4300)
    assert times.extrapolated_share == pytest.approx(300 / 4300)
    assert times.table.filter("extrapolated")["block"].sort().to_list() == [2, 3, 4]
    assert _row(times, 2)["hit_rate_L1"] is None


def test_data_set_locations_of_the_papers_table_1():
    """Blocks 55 and 53 of the paper's Table 1: cumulative hit rates 93.47/93.48 and 90.33/90.39 %, random shares 0.07 and 0."""
    rows = [
        loads(10_000, unit_references=9_300, random_references=700),
        loads(10_000, unit_references=10_000),
    ]
    times = convolved(signature(*rows), hit_rates([(0, 10_000, 653, 652), (1, 10_000, 967, 961)], M), M)
    assert _row(times, 0)["data_set_location"] == "L1"
    assert _row(times, 1)["data_set_location"] == "memory"
    assert _row(times, 0)["hit_rate_L1"] == pytest.approx(0.9347)
    assert _row(times, 1)["hit_rate_L2"] == pytest.approx(0.9039)


def test_spread_of_the_curves_widens_the_interval():
    rates = hit_rates([(0, 1000, 0, 0)], M)
    assert convolved(signature(loads(1000)), rates, M).interval == pytest.approx((500 * NS, 500 * NS))
    noisy = machine(spread=0.1)
    assert convolved(signature(loads(1000)), rates, noisy).interval == pytest.approx((450 * NS, 550 * NS))


def test_missing_curves_are_replaced_and_named():
    bare = machine(kernels=("unit",))
    times = convolved(signature(loads(1000, pattern="random")), hit_rates([(0, 1000, 1000, 0)], bare), bare)
    assert times.seconds == pytest.approx((1000 * 0.5 + 1000 * 4) * NS)
    assert any("random" in sentence for sentence in times.header["assumptions"])
    (assumed,) = convolved(signature(loads(10)), hit_rates([(0, 10, 0, 0)], M), M).header["assumptions"]
    assert "no executed path is known" in assumed


@pytest.mark.parametrize(("name", "said"), [("cloud-epyc-milan", True), ("cloud-xeon-emerald", False)])
def test_hit_rates_alone_say_that_frames_are_unknown(name, said):
    known = as_machine(name)
    assumed = convolved(signature(loads(1000)), hit_rates([(0, 1000, 0, 0, 0)], known), known).header["assumptions"]
    assert any("find caches as streams do" in sentence for sentence in assumed) == said


def test_a_machine_without_curves_cannot_be_convolved():
    bare = MachineProfile(name="m", hierarchy=LEVELS)
    with pytest.raises(PredictionError, match="probe"):
        convolved(signature(loads(10)), hit_rates([(0, 10, 0, 0)], bare), bare)


def test_a_program_that_nothing_was_sampled_of_has_no_prediction():
    with pytest.raises(CoverageError):
        convolved(signature(loads(10, sampled=0)), hit_rates([], M), M)


def test_artifacts_of_different_runs_are_refused():
    program = signature(loads(10), inputs={"trace": "mine"})
    with pytest.raises(ProvenanceError, match="another trace"):
        convolved(program, hit_rates([(0, 10, 0, 0)], M, inputs={"trace": "theirs"}), M)
    with pytest.raises(ProvenanceError, match="another signature"):
        convolved(program, hit_rates([(0, 10, 0, 0)], M, inputs={"signature": "theirs"}), M)
    with pytest.raises(ProvenanceError, match="blocks"):
        convolved(program, hit_rates([(7, 10, 0, 0)], M), M)
    with pytest.raises(ProvenanceError, match="not of the machine"):
        convolved(program, hit_rates([(0, 10, 0, 0)], M), machine("n"))
    changed = machine(levels=(LEVELS[0], Level(level="L2", size_bytes=131072, ways=8)))
    with pytest.raises(ProvenanceError, match="changed"):
        convolved(program, hit_rates([(0, 10, 0, 0)], M), changed)


def test_unknown_overlap_rules_are_refused():
    with pytest.raises(UsageError, match="norm, max, sum"):
        convolved(signature(loads(10)), hit_rates([(0, 10, 0, 0)], M), M, overlap="magic")


def test_block_times_survive_a_file(tmp_path):
    from convolver.convolution.block_times import BlockTimes

    times = convolved(signature(loads(10)), hit_rates([(0, 10, 0, 0)], M), M)
    times.save(tmp_path / "a.times.parquet")
    loaded = BlockTimes.load(tmp_path / "a.times.parquet")
    assert loaded.table.equals(times.table)
    assert (loaded.id, loaded.seconds, loaded.machine) == (times.id, times.seconds, "m")


def test_misses_by_pattern_pay_the_price_of_their_pattern():
    row = loads(900, sampled=900, unit_references=800, random_references=100)
    plain = hit_rates([(0, 900, 60, 40)], M)
    table = plain.table.with_columns(
        strided_misses=pl.lit(0, pl.UInt64),
        random_misses=pl.when(pl.col("level") == "L1").then(10).otherwise(5).cast(pl.UInt64),
        dependent_misses=pl.lit(0, pl.UInt64),
    )
    by_pattern = HitRates.make(table, machines=plain.header["machines"], references=0, inputs={})
    # From L2: 20 lines, 5 of them random; from memory: 40 lines, 5 of them random.
    expected = 800 * 0.5 + 100 * 1.0 + 15 * 4 + 5 * 3 + 35 * 16 + 5 * 40
    assert convolved(signature(row), by_pattern, M).seconds == pytest.approx(expected * NS)


def test_loads_and_stores_overlap_as_far_as_the_copy_loop_shows():
    row = {**loads(1000), "stores": 1000, "store_bytes": 8000, "sampled_references": 2000, "unit_references": 2000}
    rates = hit_rates([(0, 2000, 0, 0)], M)
    assert convolved(signature(row), rates, M).seconds == pytest.approx(2000 * 0.625 * NS)
    without = machine(kernels=[kernel for kernel in COSTS if kernel != "copy"])
    assert convolved(signature(row), rates, without).seconds == pytest.approx(1000 * (0.5 + 1.0) * NS)
