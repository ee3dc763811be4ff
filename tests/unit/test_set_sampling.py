"""Traces with bursts and a set sample: which level comes from where, and how certain it is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from convolver._native.simulator import Geometry
from convolver._native.sinks import Decoded
from convolver.errors import SamplingWarning, SimulationError, UsageError
from convolver.progress import SILENT
from convolver.simulation.group import Group, ratio_error
from convolver.simulation.one_pass import simulate, simulate_arrays
from convolver.simulation.parallel import shares
from convolver.simulation.targets import targets

MACHINE = {
    "name": "m",
    "hierarchy": [
        {"level": "L1", "size_bytes": 64 * 4 * 64, "ways": 4},
        {"level": "L2", "size_bytes": 64 * 8 * 512, "ways": 8},
        {"level": "L3", "size_bytes": 64 * 16 * 1536, "ways": 16},
    ],
}
ODD = {"name": "odd", "hierarchy": [{"level": "L1", "size_bytes": 64 * 4 * 63, "ways": 4}]}
CLASSES = 16


def program(count: int = 400_000) -> dict[str, np.ndarray]:
    """Two sites in blocks 4 and 9: one walks over 2 MiB again and again, one jumps about in 512 KiB and writes now and then."""
    random = np.random.default_rng(3)
    sites = random.integers(0, 2, count).astype(np.uint32)
    walk = 8 * (np.cumsum(sites == 0) % (1 << 18))
    jump = (1 << 30) + random.integers(0, 1 << 19, count)
    address = np.where(sites == 0, walk, jump).astype(np.uint64)
    return {"addresses": address, "writes": (sites == 1) & (random.random(count) < 0.2), "sites": sites}


def recorded(references, plan, set_class=5):
    """A stand-in for a recorded trace: the first 2 % of every 20 000 references, and those of one class of sets."""

    def feed(sinks, progress=SILENT):
        (simulator,), sets = sinks.windows, sinks.sets
        address, write, sites = references.values()
        kept = np.arange(len(address)) % 20_000 < 400 if plan["sample"] else np.zeros(len(address), dtype=bool)
        simulator.feed(address[kept], None, write[kept], sites[kept])
        if sets is not None:
            kept = (address // 64) % CLASSES == set_class
            sets.feed(address[kept] // 64 * 64, None, write[kept], sites[kept])
        return Decoded(trace.site_blocks, trace.block_memops)

    blocks = np.array([4, 9], dtype=np.uint32)
    trace = SimpleNamespace(id="t", header={"sampling": plan}, site_blocks=blocks, block_memops=None, feed=feed)
    return trace


HYBRID = {"mode": "sample", "interval": 20_000, "sample": 400, "sets": CLASSES}


def test_the_first_level_comes_from_the_bursts_and_the_others_from_the_sets():
    rates = simulate(recorded(program(), HYBRID), MACHINE)
    assert [(level["level"], level["sample"]) for level in rates.totals("m")] == [
        ("L1", "bursts"),
        ("L2", "sets 1/16"),
        ("L3", "sets 1/16"),
    ]
    assert rates.totals("m")[0]["accesses"] == 8000
    assert rates.table["block"].unique().sort().to_list() == [4, 9]
    assert rates.table.filter(pl.col("level") == "L1")["standard_error"].null_count() == 2  # one burst, as nobody set them apart


@pytest.mark.parametrize("plan", [HYBRID, {"mode": "full", "sample": 1}])
def test_a_last_level_alone_counts_as_beside_the_others(plan):
    whole, alone = (targets(MACHINE)[0]._replace(name=name, last_alone=name == "alone") for name in ("m", "alone"))
    both = simulate(recorded(program(), plan), [whole, alone])
    last = simulate(recorded(program(), plan), alone)
    rows = both.table.filter(machine="m", level="L3").drop("machine")
    for rates in (both, last):
        assert rates.table.filter(machine="alone").drop("machine").equals(rows)
    assert [[one["level"] for one in document["samples"]] for document in both.header["machines"]] == [["L1", "L2", "L3"], ["L3"]]


def hammered(count: int = 400_000) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Two walks over 2 MiB in blocks 4 and 9, and block 11: a twentieth of the references, all to one line outside of the sample,
    and the exact references of all blocks."""
    sites = np.arange(count, dtype=np.uint32) % 40
    sites = np.where(sites % 20 == 10, 2, sites % 2).astype(np.uint32)
    walks = [(n << 30) + 8 * (np.cumsum(sites == n) % (1 << 18)) for n in range(2)]
    address = np.where(sites == 2, (1 << 40) + 64 * 6, np.where(sites == 1, walks[1], walks[0])).astype(np.uint64)
    return {"addresses": address, "writes": np.zeros(count, dtype=bool), "sites": sites}, np.bincount(
        np.array([4, 9, 11])[sites], minlength=12
    ).astype(np.uint64)


def hammered_trace(plan=HYBRID):
    references, memops = hammered()
    trace = recorded(references, plan)
    trace.site_blocks, trace.block_memops = np.array([4, 9, 11], dtype=np.uint32), memops
    return trace


def test_bursts_go_through_the_first_level_alone_beside_sets():
    machines = targets([MACHINE, ODD])
    sets = Group(machines[:1], classes=CLASSES)
    every, first = Group(machines), Group(machines, farther=sets)
    addresses = program(20_000)["addresses"]
    for group in (every, first):
        group.simulator.feed(addresses, None, None, None)
    for machine in machines:
        for one, other in zip(every.grouped_counts(machine, 0), first.grouped_counts(machine, 0), strict=True):
            assert np.array_equal(one, other)
    with pytest.raises(SimulationError):
        first.grouped_counts(machines[0], 1)


def test_a_block_that_an_even_set_sample_lacks_comes_from_the_bursts():
    rates = simulate(hammered_trace(), MACHINE)
    first = rates.table.filter(level="L1").sort("block")
    assert first.select("block", "sample").rows() == [(4, "sets 1/16"), (9, "sets 1/16"), (11, "bursts")]
    assert first.filter(block=11).select("accesses", "misses").row(0) == (400, 1)
    assert rates.totals("m")[0]["sample"] == "sets 1/16"


def test_totals_weigh_blocks_from_the_bursts_as_the_set_sample_would():
    references, memops = hammered()
    whole = simulate_arrays(references["addresses"], writes=references["writes"], machines=MACHINE).totals("m")[0]
    part = simulate(hammered_trace(), MACHINE).totals("m")[0]
    assert part["accesses"] == pytest.approx(memops.sum() / CLASSES, rel=0.01)
    assert part["hits"] + part["misses"] == part["accesses"]
    assert part["misses"] / part["accesses"] == pytest.approx(whole["misses"] / whole["accesses"], abs=0.001)


def test_without_bursts_such_a_block_has_no_sample():
    rates = simulate(hammered_trace({**HYBRID, "sample": 0}), MACHINE)
    assert rates.table["block"].unique().sort().to_list() == [4, 9]


def test_a_set_sample_gives_the_miss_rates_of_the_larger_levels_within_its_standard_error():
    references = program()
    whole = simulate_arrays(references["addresses"], writes=references["writes"], machines=MACHINE)
    part = simulate(recorded(references, HYBRID), MACHINE)
    for exact, sampled in list(zip(whole.totals("m"), part.totals("m"), strict=True))[1:]:
        rate, estimate = (level["misses"] / level["accesses"] for level in (exact, sampled))
        assert sampled["standard_error"] < 0.05
        assert abs(estimate - rate) < 5 * sampled["standard_error"] + 1e-3


def test_without_bursts_every_level_comes_from_the_sets():
    rates = simulate(recorded(program(), {**HYBRID, "sample": 0}), MACHINE)
    assert {level["sample"] for level in rates.totals("m")} == {"sets 1/16"}


def test_a_short_trace_that_misses_some_groups_is_simulated():
    references = {
        "addresses": np.array([64 * 5], dtype=np.uint64),
        "writes": np.array([True]),
        "sites": np.zeros(1, dtype=np.uint32),
    }
    rates = simulate(recorded(references, HYBRID), MACHINE)
    assert rates.table.select("accesses", "standard_error").rows() == [(1, None)] * 3


def test_a_machine_whose_sets_do_not_fit_is_simulated_from_the_bursts():
    with pytest.warns(SamplingWarning, match="'odd'"):
        rates = simulate(recorded(program(), HYBRID), [MACHINE, ODD])
    assert {level["sample"] for level in rates.totals("odd")} == {"bursts"}
    assert rates.totals("m")[1]["sample"] == "sets 1/16"


def test_without_bursts_such_a_machine_is_refused():
    with pytest.raises(SimulationError, match="or bursts"):
        simulate(recorded(program(1000), {**HYBRID, "sample": 0}), ODD)


def test_counts_without_addresses_are_refused():
    with pytest.raises(SimulationError, match="no addresses"):
        simulate(recorded(program(1000), {"mode": "counts", "sample": 0}), MACHINE)


def test_a_full_trace_is_exact():
    trace = recorded(program(1000), {"mode": "full", "sample": 1})
    assert [(level["sample"], level["standard_error"]) for level in simulate(trace, MACHINE).totals("m")] == [("all", 0.0)] * 3


def test_the_standard_error_is_that_of_a_ratio_of_totals():
    misses, accesses = np.array([[1, 3], [0, 0], [5, 0]], dtype=np.uint64), np.array([[10, 10], [0, 0], [9, 0]], dtype=np.uint64)
    error = ratio_error(misses, accesses)
    assert error[0] == pytest.approx(np.sqrt((1 + 1) * 2 + 2) / 20)  # one miss more or less in each group, too
    assert np.isnan(error[1:]).all()


def test_groups_that_agree_leave_one_miss_each_open():
    misses, accesses = np.full((1, 8), 3, dtype=np.uint64), np.full((1, 8), 100, dtype=np.uint64)
    assert ratio_error(misses, accesses)[0] == pytest.approx(np.sqrt(8) / 800)


def test_one_class_of_an_array_is_the_set_sample_of_a_trace():
    references = program(50_000)
    trace = simulate(recorded(references, {**HYBRID, "sample": 0}), MACHINE)
    blocks = np.array([4, 9], dtype=np.uint32)[references["sites"]]
    arrays = {"writes": references["writes"], "blocks": blocks, "sets": CLASSES, "set_class": 5}
    rates = simulate_arrays(references["addresses"], **arrays, machines=MACHINE)
    assert rates.table.equals(trace.table)


@pytest.mark.parametrize(("sets", "set_class"), [(12, 0), (16, 16), (16, -1)])
def test_impossible_classes_are_refused(sets, set_class):
    with pytest.raises(UsageError, match="power of two"):
        simulate_arrays(program(10)["addresses"], machines=MACHINE, sets=sets, set_class=set_class)


@pytest.mark.parametrize("jobs", [2, 3, 8, 1000])
def test_threads_count_the_same(jobs):
    references = program(30_000)
    arrays = {"writes": references["writes"], "blocks": references["sites"], "sizes": np.full(30_000, 70, dtype=np.uint8)}
    one, several = (simulate_arrays(references["addresses"], **arrays, machines=[MACHINE, ODD], jobs=n) for n in (1, jobs))
    assert several.id == one.id
    parallel = (simulate_arrays(references["addresses"], **arrays, machines=MACHINE, jobs=n) for n in (1, jobs))
    assert len({rates.id for rates in parallel}) == 1


@pytest.mark.parametrize("jobs", [2, 4])
def test_threads_count_the_same_over_many_batches(jobs):
    """Some batches have references that straddle lines, the others have none; the last is short."""
    count = 300_001
    references, generator = program(count), np.random.default_rng(5)
    sizes = np.ones(count, dtype=np.uint16)
    sizes[generator.integers(150_000, 170_000, 30)] = 200
    arrays = {"writes": references["writes"], "blocks": references["sites"], "machines": MACHINE}
    for some in (None, sizes):
        one, several = (simulate_arrays(references["addresses"], sizes=some, **arrays, jobs=n) for n in (1, jobs))
        assert several.table.equals(one.table)


def test_threads_refuse_an_owner_above_the_limit_and_the_blocks_are_renumbered():
    references = program(100_000)
    blocks = references["sites"] + np.uint32(1 << 30)
    one, two = (simulate_arrays(references["addresses"], blocks=blocks, machines=MACHINE, jobs=n) for n in (1, 2))
    assert two.table.equals(one.table)
    assert two.table["block"].min() >= 1 << 30


def test_sets_are_cut_into_as_many_shares_as_divide_all_levels():
    hierarchies = [[Geometry(64, 4, 64), Geometry(512, 4, 64)], [Geometry(48, 4, 64)]]
    assert [shares(hierarchies, jobs) for jobs in (0, 1, 2, 3, 5, 100)] == [1, 1, 2, 2, 4, 16]


def even_program(memops):
    """The made-up program with its exact references by block."""
    trace = recorded(program(), HYBRID)
    trace.block_memops = np.zeros(10, dtype=np.uint64)
    trace.block_memops[[4, 9]] = memops
    return trace


def test_the_first_level_comes_from_an_even_set_sample():
    references = program()
    whole = simulate_arrays(references["addresses"], writes=references["writes"], machines=MACHINE)
    exact = np.bincount(references["sites"])
    rates = simulate(even_program(exact), MACHINE)
    assert {level["sample"] for level in rates.totals("m")} == {"sets 1/16"}
    true, estimated = (row["misses"] / row["accesses"] for row in (whole.totals("m")[0], rates.totals("m")[0]))
    assert estimated == pytest.approx(true, abs=0.01)


def test_the_first_level_comes_from_the_bursts_where_few_sets_are_hammered():
    exact = np.bincount(program()["sites"])
    rates = simulate(even_program(exact * [1, 4]), MACHINE)
    assert [level["sample"] for level in rates.totals("m")] == ["bursts", "sets 1/16", "sets 1/16"]
