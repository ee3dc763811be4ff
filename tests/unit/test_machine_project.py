"""Projected machines: what changes, what stays, and what cannot be asked for."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import HierarchyError, UsageError
from convolver.machine.core_figures import CoreFigure
from convolver.machine.hierarchy import Level
from convolver.machine.maps import Curve, Point
from convolver.machine.profile import MachineProfile, Throughput
from convolver.machine.project import Changes, move_working_set, parse_changes, project

LEVELS = (
    Level(level="L1", size_bytes=48 << 10, ways=12),
    Level(level="L2", size_bytes=2 << 20, ways=16),
    Level(level="L3", size_bytes=8 << 20, ways=16),
)
TIMES = {"L1": 1e-9, "L2": 4e-9, "L3": 30e-9, "memory": 100e-9}


def curve(pattern):
    sizes = [step << k for k in range(12, 28) for step in (1,)] + [3 << k for k in range(12, 26)]
    points = [(size, next((TIMES[x.level] for x in LEVELS if size <= x.size_bytes), TIMES["memory"])) for size in sorted(sizes)]
    return Curve(
        kernel=pattern,
        pattern=pattern,
        operation="load",
        points=tuple(Point(working_set_bytes=a, seconds_per_reference=b, samples_seconds=(b, b)) for a, b in points),
    )


@pytest.fixture
def base():
    return MachineProfile(
        name="base",
        hierarchy=LEVELS,
        maps=(curve("unit"), curve("chase"), curve("random")),
        floating_point=(
            Throughput(kernel="add", operation="add", seconds=1e-9, flops=1, samples_seconds=(1e-9,)),
            Throughput(kernel="add_latency", operation="add_latency", seconds=4e-9, flops=1),
            Throughput(kernel="instruction", operation="instruction", seconds=0.3e-9),
        ),
        provenance={"kind": "measured"},
    )


def derive(base, *words):
    sets = [word for word in words if ".size" in word or ".ways" in word]
    return project(base, "new", parse_changes(sets, [word for word in words if word not in sets]))


def seconds(machine, pattern, level):
    return machine.plateau(pattern, "load", level).seconds_per_reference


def test_without_changes_all_plateaus_stay(base):
    same = derive(base)
    for pattern in ("unit", "chase", "random"):
        for level, time in TIMES.items():
            assert seconds(same, pattern, level) == time
    assert same.hierarchy == base.hierarchy


def test_a_projection_is_marked_names_its_base_and_keeps_no_samples(base):
    new = derive(base, "L2.size=4MiB", "memory.bandwidth=2")
    assert new.projected
    assert new.provenance["measured"] is False
    assert new.derived_from == {"name": "base", "id": base.id}
    assert new.changes == ("L2.size = 4 MiB", "memory.bandwidth x 2")
    assert not any(point.samples_seconds for each in new.maps for point in each.points)


def test_another_capacity_moves_the_knee_and_nothing_else(base):
    new = derive(base, "L3.size=64MiB")
    assert new.hierarchy[2].size_bytes == 64 << 20
    for level, time in TIMES.items():
        assert seconds(new, "unit", level) == time
    assert new.curve("unit", "load").at(32 << 20).seconds_per_reference == pytest.approx(TIMES["L3"])


def test_bandwidth_scales_streams_and_latency_scales_dependent_and_random_loads(base):
    new = derive(base, "memory.bandwidth=2", "memory.latency=1.5")
    assert seconds(new, "unit", "memory") == pytest.approx(TIMES["memory"] / 2)
    assert seconds(new, "chase", "memory") == pytest.approx(TIMES["memory"] * 1.5)
    assert seconds(new, "random", "memory") == pytest.approx(TIMES["memory"] * 1.5)
    assert seconds(new, "unit", "L3") == TIMES["L3"]


def test_the_clock_scales_the_core_and_its_caches_but_not_the_last_level_and_memory(base):
    new = derive(base, "core.clock=2")
    assert seconds(new, "chase", "L1") == pytest.approx(TIMES["L1"] / 2)
    assert seconds(new, "chase", "L2") == pytest.approx(TIMES["L2"] / 2)
    assert seconds(new, "chase", "L3") == TIMES["L3"]
    assert seconds(new, "chase", "memory") == TIMES["memory"]
    assert new.instruction_seconds == pytest.approx(0.15e-9)


def test_more_flops_do_not_shorten_a_dependent_chain(base):
    new = derive(base, "core.flops=4")
    assert new.flop_rate("add") == pytest.approx(4e9)
    assert new.throughput("add_latency").seconds == 4e-9


def test_no_level_becomes_faster_than_the_first_one(base):
    assert seconds(derive(base, "memory.bandwidth=1000"), "unit", "memory") == TIMES["L1"]


@pytest.mark.parametrize("size", [1 << 12, 48 << 10, 300_000, 2 << 20, 5 << 20, 8 << 20, 1 << 30])
def test_working_sets_move_back_and_forth(size):
    new = tuple(Level(level=x.level, size_bytes=x.size_bytes * k, ways=x.ways) for x, k in zip(LEVELS, (2, 3, 4), strict=True))
    assert move_working_set(move_working_set(size, LEVELS, new), new, LEVELS) == pytest.approx(size, rel=1e-3)


@pytest.mark.parametrize(
    "words",
    [["L2.size"], ["L2.size=big"], ["L2.color=3"], ["memory.bandwidth=fast"], ["memory.bandwidth=0"], ["core.magic=2"], ["x=3"]],
)
def test_a_word_that_is_no_change_is_a_usage_error(words):
    with pytest.raises(UsageError):
        parse_changes(words, [])
    with pytest.raises(UsageError):
        parse_changes([], words)


def test_levels_that_do_not_exist_and_impossible_sizes_are_refused(base):
    with pytest.raises(UsageError, match="L9"):
        derive(base, "L9.size=1MiB")
    with pytest.raises(UsageError, match="L9"):
        project(base, "new", Changes(scales={("L9", "latency"): 2.0}))
    with pytest.raises(HierarchyError):
        derive(base, "L1.size=1000")


def test_a_size_that_the_ways_do_not_divide_gets_the_nearest_that_do():
    bare = MachineProfile(name="m", hierarchy=(Level(level="L3", size_bytes=105 << 20, ways=15),))
    new = derive(bare, "L3.size=96MiB")
    assert (new.hierarchy[0].size_bytes, new.hierarchy[0].ways) == (96 << 20, 16)
    assert new.changes == ("L3.size = 96 MiB", "L3.ways = 16")
    assert derive(bare, "L3.size=210MiB").hierarchy[0].ways == 15
    assert derive(bare, "L3.size=7MiB").hierarchy[0].ways == 16  # 14 would do, too
    assert derive(bare, "L3.size=13MiB").hierarchy[0].ways == 16
    assert derive(bare, "L3.size=832").hierarchy[0].ways == 13
    with pytest.raises(HierarchyError, match="15 ways"):
        derive(bare, "L3.size=1MiB", "L3.ways=15")


@given(size=st.integers(64, 1 << 26).map(lambda lines: lines * 64), ways=st.integers(1, 64))
def test_every_whole_number_of_lines_fits_some_ways_and_keeps_its_own_where_they_fit(size, ways):
    bare = MachineProfile(name="m", hierarchy=(Level(level="L1", size_bytes=ways * 64 << 24, ways=ways),))
    new = derive(bare, f"L1.size={size}").hierarchy[0]
    assert size == new.size_bytes == new.sets * new.ways * 64
    assert (new.ways == ways) == (size % (ways * 64) == 0)


def test_a_machine_without_maps_can_be_projected_too():
    bare = MachineProfile(name="m", hierarchy=LEVELS)
    assert derive(bare, "L1.size=96KiB").hierarchy[0].size_bytes == 96 << 10


def test_the_cores_figures_are_cycles_that_no_clock_changes():
    names = ("latency.divide_32", "throughput.divide_32", "throughput.root_double", "window.reorder_buffer")
    figures = tuple(CoreFigure(name=name, value=12.0, low=11.9, high=12.1) for name in names)
    bare = MachineProfile(name="m", hierarchy=LEVELS, core=figures)
    assert derive(bare, "core.clock=2").core == figures
    assert [one.value for one in derive(bare, "core.flops=2").core] == [12.0, 12.0, 6.0, 12.0]


def test_whatever_else_a_level_has_is_kept():
    bare = MachineProfile(name="m", hierarchy=(Level(level="L1", size_bytes=32 << 10, ways=8, policy="fifo"),))
    assert derive(bare, "L1.size=64KiB").hierarchy[0] == Level(level="L1", size_bytes=64 << 10, ways=8, policy="fifo")


def test_a_projection_runs_at_the_usual_clock_of_its_base(base):
    cycle = Throughput(kernel="cycle", operation="cycle", seconds=0.25e-9)
    clocked = msgspec.structs.replace(base, floating_point=(cycle,), provenance={"noise": {"cycle_seconds_median": 0.27e-9}})
    assert base.usual_cycle == 1
    assert clocked.usual_cycle == pytest.approx(1.08)
    twice = project(clocked, "twice", parse_changes([], ["core.clock=2"]))
    assert twice.usual_cycle == pytest.approx(1.08)


def test_a_level_that_page_offsets_index_keeps_its_sets():
    bare = MachineProfile(name="m", hierarchy=(Level(level="L1", size_bytes=48 << 10, ways=12),))
    smaller = derive(bare, "L1.size=32KiB").hierarchy[0]
    assert (smaller.ways, smaller.sets) == (8, 64)
