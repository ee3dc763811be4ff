"""Calibrated times by hand, their intervals, the paper's method, and what projections do to coefficients."""

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.analyzing.core_cycles import CoreCycles
from convolver.analyzing.falls import fold, with_scattered
from convolver.convolution.convolve import CoreSeconds, convolve
from convolver.convolution.cpu_ratio import cpu_ratio
from convolver.convolution.memory import distinct_rows, kernel_hit_rates
from convolver.convolution.rates import joined
from convolver.convolution.uncertainty import OWN_WALK
from convolver.errors import ProvenanceError, UsageError
from convolver.machine.calibration import Calibration, Residual
from convolver.machine.profile import MachineProfile, Throughput
from convolver.machine.project import parse_changes, project
from convolver.pipeline import predict_from
from tests.synthetic import NS, analyzed, convolved, hit_rates, loads, machine, signature

ERRORS = np.linspace(-0.1, 0.1, 21)
KNOWN = Calibration(
    simulator="none",
    exponent=2.0,
    sequential=(4 * NS, 16 * NS),
    random=(3 * NS, 40 * NS),
    write_back=(1 * NS, 5 * NS),
    latency=(7 * NS, 82 * NS),
    first_latency=2 * NS,
    between=0.5,
    coming=0.1 * NS,
    window=100.0,
    points=42,
    median_error=0.05,
    mean_error=0.06,
    intervals={},
    residuals=tuple(
        Residual(kernel=f"k{number}", working_set_bytes=4096, place=level, error=float(error))
        for level in ("L2", "memory")
        for number, error in enumerate(ERRORS)
    ),
)


def known(name="m", **changes) -> MachineProfile:
    return msgspec.structs.replace(machine(name), calibration=msgspec.structs.replace(KNOWN, **changes))


def test_a_stream_pays_core_and_lines_by_the_norm():
    one = known()
    times = convolved(signature(loads(1000)), hit_rates([(0, 1000, 125, 125)], one), one)
    core, lines = 1000 * 0.5, 125 * 16
    assert times.seconds == pytest.approx(np.hypot(core, lines) * NS)
    assert times.header["method"] == "calibrated"


def test_random_lines_pay_for_levels_and_one_latency_a_window():
    one = known()
    times = convolved(signature(loads(1000, pattern="random")), hit_rates([(0, 1000, 800, 300)], one), one)
    levels = [500 * 3, 300 * 40]
    window = 10 * 82  # every window of a hundred loads has a line from memory
    assert times.seconds == pytest.approx(np.sqrt((500 + levels[0]) ** 2 + levels[1] ** 2 + window**2) * NS)


def test_a_chase_waits_for_every_load():
    one = known(exponent=1.0, random=(0.0, 0.0), window=1e12)
    times = convolved(signature(loads(1000, pattern="dependent")), hit_rates([(0, 1000, 1000, 900)], one), one)
    assert times.seconds == pytest.approx((1000 * 2 + 100 * 5 + 900 * 80) * NS)


def test_a_chase_along_a_walked_path_waits_as_the_walk_says():
    one = known(exponent=1.0, random=(0.0, 0.0), window=1e12)
    program, rates = signature(loads(1000, pattern="dependent")), hit_rates([(0, 1000, 1000, 900)], one)
    assert convolved(program, rates, one, near=np.array([100 * NS]), waiting=[3000 * NS]).seconds == pytest.approx(3000 * NS)


def test_lines_left_out_and_lines_on_their_way_cost_extra():
    one = known(exponent=1.0)
    row = loads(1000, pattern="strided", new_lines=500, strided_lines=500, skipped_lines=1000, coming_references=250)
    times = convolved(signature(row), hit_rates([(0, 1000, 500, 0)], one), one)
    assert times.seconds == pytest.approx((1000 * 0.5 + 500 * 4 * (1 + 0.5 * 2) + 0.5 * 500 * 0.1) * NS)


@pytest.mark.parametrize(("missing", "alone", "more"), [(125, 100, 0.875), (125, 50, 0.4375), (1000, 100, 0.0), (125, 0, 0.0)])
def test_lines_from_memory_cost_more_in_a_stream_alone_that_many_references_share(missing, alone, more):
    one = known(exponent=1.0, alone=0.5)
    streams = {"strided_lines": 0, "skipped_lines": 0, "coming_references": 0, "sequential_lines": 100, "alone_lines": alone}
    row = loads(1000, new_lines=100, **streams)
    times = convolved(signature(row), hit_rates([(0, 1000, missing, missing)], one), one)
    assert times.seconds == pytest.approx((1000 * 0.5 + missing * 16 * (1 + 0.5 * more)) * NS)


def test_blocks_without_a_sample_take_the_lines_of_their_function():
    one = known()
    rows = [loads(1000, function="f"), loads(500, sampled=0, function="f")]
    times = convolved(signature(*rows), hit_rates([(0, 1000, 125, 125)], one), one)
    by_block = dict(times.table.select("block", "seconds").iter_rows())
    assert by_block[1] == pytest.approx(by_block[0] / 2)


def test_without_a_calibration_the_curves_stand_in():
    one = machine()
    times = convolved(signature(loads(1000)), hit_rates([(0, 1000, 0, 0)], one), one)
    assert times.header["method"] == "curves"
    with pytest.raises(UsageError, match="no method"):
        convolved(signature(loads(1000)), hit_rates([(0, 1000, 0, 0)], one), one, method="guess")


def test_the_interval_holds_the_prediction_and_grows_with_the_models_error():
    wide = tuple(msgspec.structs.replace(one, error=5 * one.error) for one in KNOWN.residuals)
    sizes = []
    for one in (known(), known(residuals=wide)):
        times = convolved(signature(loads(1000)), hit_rates([(0, 1000, 1000, 1000)], one), one)
        low, high = times.interval
        assert low < times.seconds < high
        sizes.append((high - low) / times.seconds)
        assert times.table["error_seconds"][0] > 0
    assert sizes[1] > 2 * sizes[0]


def test_errors_of_chains_widen_chains_alone():
    chains = tuple(Residual(kernel=f"chase_{n}", working_set_bytes=4096, place="memory", error=n / 5) for n in range(-4, 5))
    sizes = []
    for one in (known(), known(residuals=KNOWN.residuals + chains)):
        for pattern in ("unit", "dependent"):
            rates = hit_rates([(0, 1000, 1000, 1000)], one)
            times = convolved(signature(loads(1000, pattern=pattern)), rates, one)
            sizes.append((times.interval[1] - times.interval[0]) / times.seconds)
    assert sizes[2] == pytest.approx(sizes[0], rel=0.1)  # the profile's noise is another one
    assert sizes[3] > 2 * sizes[1]


def test_an_interval_lies_where_the_model_erred():
    low = tuple(msgspec.structs.replace(one, error=one.error - 0.3) for one in KNOWN.residuals)  # predicted too short
    one = known(residuals=low)
    times = convolved(signature(loads(1000)), hit_rates([(0, 1000, 1000, 1000)], one), one, near=[1e-12])
    assert np.log(np.median(times.draws) / times.seconds) == pytest.approx(0.3, abs=0.05)
    assert times.interval[0] == times.seconds


def test_what_both_machines_err_alike_cancels_in_the_ratio():
    base, target = known("base"), known("target", sequential=(4 * NS, 8 * NS))
    rates = hit_rates([(0, 1000, 125, 125)], base, target)
    times = [convolved(signature(loads(1000)), rates, one) for one in (base, target)]
    ratio = cpu_ratio(*times)
    low, high = ratio.interval
    assert low <= ratio.total <= high
    own = [(one.interval[1] - one.interval[0]) / one.seconds for one in times]
    assert (high - low) / ratio.total < 0.5 * sum(own)


@pytest.mark.parametrize(("error", "width"), [(0.02, 0.0), (0.0201, 3.3 * 0.02 * np.sqrt(2 * OWN_WALK))])
def test_walks_with_data_elsewhere_err_a_little_alone(error, width):
    machines = known("base"), known("target")
    found = analyzed(signature(loads(1000)), hit_rates([(0, 1000, 0, 0)], *machines), *machines)
    cycles = np.array([1e6])
    cores = {one.name: CoreCycles(cycles, cycles, 1.0, np.array([e])) for one, e in zip(machines, (0.02, error), strict=True)}
    low, high = cpu_ratio(*(convolve(found.with_cores(cores), one) for one in machines)).interval
    assert high - low == pytest.approx(width, rel=0.3)


def test_core_time_varies_as_the_probed_clock_did():
    def variance(**noise):
        one = msgspec.structs.replace(known(), provenance={"noise": {"median_spread": 0.0, **noise}})
        times = convolved(signature(loads(1000)), hit_rates([(0, 1000, 0, 0)], one), one, near=[1e-3])
        return np.log(times.draws).var()

    steady, moving = variance(), variance(cycle_seconds_least=1.0, cycle_seconds_median=1.5)
    assert variance(cycle_seconds_least=1.0, cycle_seconds_median=1.0) == steady
    assert moving - steady == pytest.approx(np.log(1.5) ** 2 / 3, rel=0.3)


def test_what_two_kinds_of_core_err_by_does_not_cancel():
    amd = {"vendor": "AuthenticAMD", "family": "25", "model_number": "33"}
    width = []
    for cpu in ({}, amd):
        machines = known("base"), msgspec.structs.replace(known("target"), cpu=cpu)
        rates = hit_rates([(0, 1000, 0, 0)], *machines)
        low, high = cpu_ratio(*(convolved(signature(loads(1000)), rates, one, near=[1e-3]) for one in machines)).interval
        width.append(high / low)
    assert width[0] == pytest.approx(1.0)
    assert width[1] > 1.5


def test_a_machine_against_itself_has_a_ratio_without_doubt():
    one = known()
    times = convolved(signature(loads(1000)), hit_rates([(0, 1000, 125, 125)], one), one)
    assert cpu_ratio(times, times).interval == pytest.approx((1.0, 1.0))


def test_a_block_errs_alike_whatever_is_drawn_beside_it():
    one = known()
    rates = hit_rates([(0, 1000, 0, 0), (1, 900, 0, 0)], one)
    alone = convolved(signature(loads(1000)), hit_rates([(0, 1000, 0, 0)], one), one)
    beside = convolved(signature(loads(1000), loads(900)), rates, one)
    assert beside.block_draws[0] == pytest.approx(alone.block_draws[0], rel=1e-2)


def test_functions_of_many_small_blocks_have_an_interval():
    one, other = known(), known("other", exponent=KNOWN.exponent + 1)
    rows = [loads(1000 + block, function=f"f{block % 2}", module="m") for block in range(300)]
    program = signature(*rows)
    hits = [(block, 1000 + block, 100, 100) for block in range(300)]
    base, target = (convolved(program, hit_rates(hits, machine), machine) for machine in (one, other))
    seconds = {(function, module): value for function, module, _, value in base.by_function().iter_rows()}
    assert set(base.function_draws) == set(seconds)
    # Nearly all the time is drawn block by block, and what is not varies as the rest of its function.
    assert sum(base.function_draws.values()) == pytest.approx(base.draws, rel=2e-3)
    ratio = cpu_ratio(base, target)
    ends = {(row["function"], row["module"]): (row["low"], row["high"]) for row in ratio.document["functions"]}
    assert set(ends) == set(seconds)
    for low, high in ends.values():
        assert low <= ratio.total <= high


def test_ratios_of_two_methods_are_refused():
    one = known()
    rates = hit_rates([(0, 1000, 125, 125)], one)
    times = [convolved(signature(loads(1000)), rates, one, method=method) for method in ("calibrated", "paper")]
    with pytest.raises(ProvenanceError, match="methods"):
        cpu_ratio(*times)


def test_the_papers_method_reads_the_nearest_point_of_the_curves():
    one = known()
    curve = one.curve("unit", "load")
    # A unit-stride kernel in L2 misses L1 with every eighth reference and nothing else.
    rates = hit_rates([(0, 1000, 125, 0)], one)
    times = convolved(signature(loads(1000)), rates, one, method="paper", overlap="max")
    inside = [p.seconds_per_reference for p in curve.points if 4096 < p.working_set_bytes <= 65536]
    assert times.seconds == pytest.approx(1000 * np.median(inside))
    assert kernel_hit_rates(curve, one.hierarchy)[0] == pytest.approx([1.0, 1.0])


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 0.25, 0.5, 1.0])] * 3), max_size=30))
def test_rows_that_differ_are_kept_once_each(rows):
    every = np.array(rows).reshape(-1, 3)
    kept, of_row = distinct_rows(every)
    assert len(kept) == len(set(rows))
    assert (kept[of_row] == every).all()


def test_predictions_tell_the_papers_time_and_the_anchored_one():
    base = known("base")
    target = project(base, "target", parse_changes([], ["memory.latency=2"]))
    rates = hit_rates([(0, 1000, 1000, 1000)], base, target)
    found = predict_from(
        analyzed(signature(loads(1000, pattern="random")), rates, base, target), base=base, target=target, measured_seconds=1.0
    ).document
    assert found["method"] == "calibrated"
    assert found["target"]["scaled_seconds"] == pytest.approx(1 / found["cpu_ratio"])
    low, high = found["target"]["scaled_interval_seconds"]
    assert low <= found["target"]["scaled_seconds"] <= high
    assert set(found["paper"]) == {"base_seconds", "target_seconds", "cpu_ratio", "error"}


def test_one_machine_without_a_calibration_puts_both_on_the_curves():
    base, target = known("base"), machine("target")
    found = predict_from(
        analyzed(signature(loads(1000)), hit_rates([(0, 1000, 125, 125)], base, target), base, target), base=base, target=target
    )
    assert found.document["method"] == "curves"


def test_a_projection_scales_the_coefficients_as_stated():
    base = known("base")
    changes = parse_changes([], ["memory.bandwidth=2", "memory.latency=1.5", "core.clock=2"])
    new = project(base, "new", changes).calibration
    assert new.sequential == pytest.approx((4 * NS, 8 * NS))  # the last level does not run with the core's clock
    assert new.random == pytest.approx((3 * NS, 60 * NS))
    assert new.latency == pytest.approx((7 * NS, 123 * NS))
    assert new.first_latency == pytest.approx(1 * NS)
    assert new.median_error == base.calibration.median_error
    assert project(machine(), "other", changes).calibration is None


def test_a_projection_scales_the_intervals_with_their_coefficients():
    intervals = {"sequential memory": (15 * NS, 17 * NS), "random L2": (2 * NS, 4 * NS), "window": (90.0, 110.0)}
    changes = parse_changes([], ["memory.bandwidth=2", "core.clock=2"])
    new = project(known(intervals=intervals), "new", changes).calibration.intervals
    # The last level, here L2, does not run with the core's clock.
    assert new == {"sequential memory": (7.5 * NS, 8.5 * NS), "random L2": (2 * NS, 4 * NS), "window": (90.0, 110.0)}


def half_width(one):
    times = convolved(signature(loads(1000)), hit_rates([(0, 1000, 125, 125)], one), one)
    low, high = times.interval
    return (high - low) / 2 / times.seconds


def test_the_interval_of_a_projected_machine_is_wider_the_more_was_assumed():
    base = known("base")
    same, double, fourfold = (
        project(base, f"x{factor}", parse_changes([], [f"memory.bandwidth={factor}"])) for factor in (1, 2, 4)
    )
    assert same.calibration.assumed == ()
    assert half_width(same) == half_width(base) < half_width(double) < half_width(fourfold)
    back = project(double, "back", parse_changes([], ["memory.bandwidth=0.5"]))
    assert back.calibration.assumed > double.calibration.assumed


def test_what_a_projection_assumed_is_said_and_does_not_cancel_in_the_ratio():
    base = known("base")
    target = project(base, "target", parse_changes([], ["memory.bandwidth=2"]))
    found = predict_from(
        analyzed(signature(loads(1000)), hit_rates([(0, 1000, 125, 125)], base, target), base, target), base=base, target=target
    )
    assert any("memory 28 %" in note for note in found.document["target"]["assumptions"])
    low, high = found.document["cpu_ratio_interval"]
    assert high / low > 1.2


def test_a_second_target_is_predicted_as_alone():
    base, target, slow = known("base"), known("target"), known("slow", sequential=(4 * NS, 64 * NS))
    curves = machine("curves")
    every = (base, target, slow, curves)
    analysis = analyzed(signature(loads(1000)), hit_rates([(0, 1000, 125, 125)], *every), *every)
    first = predict_from(analysis, base=base, target=target)
    for one in (slow, curves):
        alone = predict_from(analysis, base=base, target=one)
        assert predict_from(analysis, base=base, target=one, before=first).document == alone.document


def test_the_interval_of_a_target_includes_its_other_state():
    base, target = known("base"), known("target")
    slow = known("slow", sequential=(4 * NS, 64 * NS))
    analysis = analyzed(signature(loads(1000)), hit_rates([(0, 1000, 125, 125)], base, target, slow), base, target, slow)
    own = predict_from(analysis, base=base, target=target)
    both = predict_from(analysis, base=base, target=target, beside=slow)
    far = predict_from(analysis, base=base, target=slow)
    assert both.document["target"]["seconds"] == own.document["target"]["seconds"]
    low, high = both.document["target"]["interval_seconds"]
    assert low <= own.document["target"]["seconds"]
    assert high > 0.7 * far.document["target"]["seconds"]
    assert both.document["cpu_ratio_interval"][0] < 0.7 * own.document["cpu_ratio_interval"][0]
    assert any("'slow'" in note for note in both.document["target"]["assumptions"])


def test_parts_join_as_the_formula_says():
    """The longer of core and serial, what loads bring from nearby on top, stores beside both, the far levels by the norm."""
    core, loaded, stored, memory, pages, serial, window, waiting = 3.0, 2.0, 12.0, 5.0, 0.0, 3.0, 0.0, 0.0

    def seconds(*parts):
        return float(joined(np.array(parts)[:, None], 2.0, 1.0)[0])

    assert seconds(core, loaded, stored, memory, pages, serial, window, waiting) == pytest.approx(np.hypot(5.0, 12.0) + 5.0)
    assert seconds(core, loaded, 0.0, memory, pages, 7.0, window, waiting) == pytest.approx(7.0 + 2.0 + 5.0)
    assert seconds(core, loaded, 0.0, memory, pages, serial, window, 40.0) == 40.0


def test_lines_of_stores_do_not_hold_the_loads_up():
    """Of four lines of the nearest level three were brought by stores: they leave it dirty."""
    one = known(exponent=1.0, near_exponent=np.inf)
    row = {**loads(1000), "loads": 250, "stores": 750}
    rates = hit_rates([(0, 1000, 400, 0, [300, 0])], one)
    times = convolved(signature(row), rates, one)
    rest = convolved(signature(row), hit_rates([(0, 1000, 0, 0)], one), one).seconds
    assert times.seconds - rest == pytest.approx(100 * 4 * NS)


@pytest.mark.parametrize(("blocked", "expected"), [(1.0, 1500.0), (0.5, 1250.0), (0.0, 1000.0)])
def test_lines_enter_beside_loads_as_far_as_they_do_not_block(blocked, expected):
    """125 lines of 4 ns beside 1000 ns of the core."""
    one = known(near_exponent=np.inf, blocked=blocked, sequential=(4 * NS, 16 * NS))
    times = convolved(signature(loads(1000)), hit_rates([(0, 1000, 125, 0)], one), one, near=np.array([1000 * NS]))
    assert times.seconds == pytest.approx(expected * NS)


def test_a_path_that_waits_longer_than_the_parts_say_counts():
    one = known()
    near = np.array([100 * NS])
    program, rates = signature(loads(1000)), hit_rates([(0, 1000, 125, 125)], one)
    short = convolved(program, rates, one, near=near).seconds
    assert short == pytest.approx(np.hypot(100, 125 * 16) * NS)
    assert convolved(program, rates, one, near=near, waiting=[3 * short]).seconds == pytest.approx(3 * short)


def test_a_faster_clock_leaves_what_is_waited_for():
    cycle = Throughput(kernel="cycle", operation="cycle", seconds=0.5)
    faster = msgspec.structs.replace(machine(), floating_point=(cycle,))
    seconds = CoreSeconds.of_cycles(CoreCycles(np.array([4.0]), np.array([7.0]), 1.0), faster)
    assert [value.tolist() for value in seconds[:2]] == [[2.0], [5.0]]


def test_lines_out_of_order_come_from_the_smaller_last_level_and_streams_do_not():
    levels = ["L1", "L2"]

    def rows(level, misses):
        zero = {"strided_misses": 0, "dependent_misses": 0, "write_backs": 0, "standard_error": 0.0}
        blocks = [(0, 0), (1, misses)]  # a stream, and a block of random references
        return [
            {"block": block, "machine": "m", "level": level, "accesses": 100, "misses": misses, "random_misses": random, **zero}
            for block, random in blocks
        ]

    plain = pl.DataFrame([*rows("L1", 100), *rows("L2", 10)])
    smaller = pl.DataFrame([*rows("L1", 100), *rows("L2", 80)])
    references = np.array([100.0, 100.0])
    where = fold(plain, "m", levels, 2)
    one, other = (each.lines(references) for each in (where, with_scattered(where, fold(smaller, "m", levels, 2))))
    assert one[:, 1].tolist() == [[10, 0, 0, 0], [0, 0, 10, 0]]
    assert other[:, 1] == pytest.approx(np.array([[10, 0, 0, 0], [0, 0, 80, 0]]))
    assert where.scattered is None


def test_hit_rates_without_pages_are_said_to_be_so():
    slow = known(page_entries=2048, walk=5 * NS, walk_latency=100 * NS)
    program = signature(loads(1000, pattern="random", function="g"))
    rates = hit_rates([(0, 1000, 500, 500)], slow)
    assert any("pages" in sentence for sentence in convolved(program, rates, slow).header["assumptions"])
    assert [level.line_bytes for level in slow.calibration.translation] == [4096]
