"""A machine beside busy CPUs: the view that predictions use, residency, and what `machine check` says of the surroundings."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import PredictionError
from convolver.machine.contention import busy_counts, contended, shares_core
from convolver.machine.hierarchy import Level
from convolver.machine.maps import Curve, Point
from convolver.machine.profile import Contention, DetectedLevel, MachineProfile, Neighbour, Residency, Throughput
from convolver.machine.profile_check import check_profile
from convolver.machine.this_machine import sibling_cpus
from convolver.probing import interference
from convolver.probing.detect import detect_all
from convolver.probing.interference import busy_hierarchies, survival

SIZES = (4096, 1 << 20, 64 << 20)
LEVELS = (Level(level="L1", size_bytes=32 << 10, ways=8), Level(level="L2", size_bytes=4 << 20, ways=16))


def curve(kernel, seconds, pattern="unit", operation="load", threads=1, beside="", sizes=SIZES, **fields):
    points = tuple(Point(working_set_bytes=size, seconds_per_reference=one) for size, one in zip(sizes, seconds, strict=True))
    return Curve(kernel=kernel, pattern=pattern, operation=operation, points=points, threads=threads, beside=beside, **fields)


def machine(*more, **fields):
    maps = (
        curve("load", (1e-9, 2e-9, 4e-9)),
        curve("stride_8", (1e-9, 4e-9, 10e-9), "stride", stride_bytes=64),
        curve("chase", (2e-9, 5e-9, 100e-9), "chase"),
        curve("load", (1e-9, 2e-9, 8e-9), threads=2),
        curve("chase", (2e-9, 6e-9, 120e-9), "chase", threads=2),
        curve("chase", (2e-9, 5e-9, 300e-9), "chase", threads=2, beside="copy"),
        *more,
    )
    instruction = Throughput(kernel="instruction", operation="instruction", seconds=1e-10)
    usual = {"name": "m", "hierarchy": LEVELS, "maps": maps, "floating_point": (instruction,), "cpu": {"cpus": 2}}
    return MachineProfile(**{**usual, **fields})


def seconds(profile, kernel):
    return [point.seconds_per_reference for one in profile.maps if one.kernel == kernel for point in one.points]


def test_a_kernel_that_was_measured_on_busy_cpus_gets_exactly_that_curve():
    busy = contended(machine(), 2)
    assert seconds(busy, "load") == pytest.approx([1e-9, 2e-9, 8e-9])
    assert seconds(busy, "chase") == pytest.approx([2e-9, 6e-9, 120e-9])


def test_another_kernel_is_slowed_down_as_the_most_similar_one():
    assert seconds(contended(machine(), 2), "stride_8") == pytest.approx([1e-9, 4e-9, 20e-9])


def test_loaded_means_beside_streams():
    assert seconds(contended(machine(), loaded=True), "chase")[-1] == pytest.approx(300e-9)
    assert busy_counts(machine(), loaded=True) == [2]


@given(st.lists(st.floats(1e-10, 1e-7), min_size=3, max_size=3), st.lists(st.floats(1e-10, 1e-7), min_size=3, max_size=3))
def test_a_busy_node_is_never_faster(idle, busy):
    maps = (curve("load", idle), curve("load", busy, threads=2), curve("store", idle, operation="store"))
    profile = machine(maps=maps)
    view = contended(profile, 2)
    for kernel in ("load", "store"):
        assert all(new >= old * (1 - 1e-9) for new, old in zip(seconds(view, kernel), [*idle], strict=True))
    assert all(one.threads == 1 and not one.beside for one in view.maps)


def test_the_view_is_a_machine_of_its_own_that_names_its_origin():
    profile = machine(contention=(Contention(threads=2, hierarchy=(LEVELS[0],)),))
    view = contended(profile)
    assert view.name == "m+2threads"
    assert view.id != profile.id
    assert view.derived_from == {"name": "m", "id": profile.id}
    assert view.hierarchy == (LEVELS[0],)
    assert view.hierarchy_reported == LEVELS
    assert view.calibration is None


def test_instructions_slow_down_only_where_cpus_share_a_core():
    alone = contended(machine(neighbours=(Neighbour(cpu=1, slowdown=1.02),)))
    shared = contended(machine(neighbours=(Neighbour(cpu=1, slowdown=1.6),)))
    assert alone.instruction_seconds == 1e-10
    assert shared.instruction_seconds == pytest.approx(1.6e-10)
    assert shares_core(1.6)
    assert not shares_core(1.1)


def test_a_machine_without_such_curves_says_what_to_do():
    idle = machine(maps=(curve("load", (1e-9, 2e-9, 4e-9)),))
    with pytest.raises(PredictionError, match="probe --full"):
        contended(idle, 2)
    with pytest.raises(PredictionError, match="not with 64"):
        contended(machine(), 64)


def test_curves_beside_other_kernels_do_not_stand_for_idle_ones():
    assert machine().curve("chase", threads=2).beside == ""


def test_old_profiles_and_new_ones_survive_a_round_trip(tmp_path):
    full = machine(
        neighbours=(Neighbour(cpu=1, slowdown=1.0),),
        residency=Residency(seconds=0.004, at_least=False, working_set_bytes=1 << 20, points=((0.0, 1e-8), (0.008, 1e-7))),
        contention=(Contention(threads=2, hierarchy=LEVELS, beside="copy"),),
    )
    full.save(tmp_path / "m.machine.json")
    assert MachineProfile.load(tmp_path / "m.machine.json") == full
    document = msgspec.json.decode((tmp_path / "m.machine.json").read_bytes())
    old = {key: value for key, value in document.items() if key not in ("neighbours", "residency", "contention")}
    assert MachineProfile.from_document(old).neighbours == ()


PAUSES = [(0.0, 20e-9), (0.001, 22e-9), (0.002, 30e-9), (0.004, 90e-9), (0.008, 99e-9)]


def test_lines_survive_until_half_of_the_rise():
    chase = curve("chase", (19e-9, 19e-9, 100e-9), "chase")
    found = survival(PAUSES, chase, 1 << 20)
    assert (found.seconds, found.at_least) == (0.002, False)
    assert survival(PAUSES[:3], chase, 1 << 20).at_least
    assert survival([(0.0, 95e-9)], chase, 1 << 20) is None
    assert survival([], chase, 1 << 20) is None


def test_a_disturbed_moment_does_not_tell_how_long_lines_survive(monkeypatch):
    """Without a pause, too, most lines were gone, which the curve found in the last level."""
    said = [PAUSES[3:], [(0.0, 60e-9), *PAUSES[1:]], PAUSES]
    points = [[{"pause_seconds": pause, "seconds_per_line": one} for pause, one in pairs] for pairs in said]
    monkeypatch.setattr(interference, "tell", lambda *_: points.pop(0) if len(points) > 1 else points[0])
    last = DetectedLevel(level="L2", size_bytes=4 << 20, low_bytes=2 << 20, high_bytes=8 << 20, confidence=0.9)
    chase = curve("chase", (19e-9, 19e-9, 100e-9), "chase")
    assert interference.residency(0, LEVELS[0], last, chase).seconds == 0.002
    points[:] = [[{"pause_seconds": 0.0, "seconds_per_line": 60e-9}]]
    assert interference.residency(0, LEVELS[0], last, chase) is None


def test_check_speaks_of_the_surroundings():
    profile = machine(
        neighbours=(Neighbour(cpu=1, slowdown=1.8),),
        residency=Residency(seconds=0.004, at_least=False, working_set_bytes=1 << 20),
        detected=(DetectedLevel(level="L2", size_bytes=4 << 20, low_bytes=1 << 20, high_bytes=16 << 20, confidence=0.33),),
    )
    said = " ".join(finding.sentence for finding in check_profile(profile))
    for words in ("CPU 1 behaves as a thread of the same core", "after 4 ms", "disagree on the size of L2: 1 MiB to 16 MiB"):
        assert words in said
    quiet = msgspec.structs.replace(profile, neighbours=(), residency=None, detected=())
    assert "same core" not in " ".join(finding.sentence for finding in check_profile(quiet))


@pytest.mark.parametrize(("text", "found"), [("0-1", {1}), ("0,4", {4}), ("0", set()), ("", set())])
def test_siblings_are_read_from_the_topology(tmp_path, text, found):
    folder = tmp_path / "cpu0" / "topology"
    folder.mkdir(parents=True)
    (folder / "thread_siblings_list").write_text(text)
    assert sibling_cpus(0, tmp_path) == found


def ramp(capacity, hit, memory, noise=1.0):
    """A random walk's time per reference in front of memory, beyond an inner cache of 1 MiB."""
    sizes = [size * step // 4 for size in (1 << power for power in range(12, 28)) for step in (4, 6)]
    found = []
    for index, size in enumerate(sizes):
        share = min(1.0, capacity / size)
        value = 1e-9 if size <= 32 << 10 else 4e-9 if size <= 1 << 20 else memory - (memory - hit) * share
        found.append(value * (noise if index % 3 else 1.0))
    return sizes, found


@pytest.mark.parametrize("noise", [1.0, 1.05])
@pytest.mark.parametrize("megabytes", [6, 10, 16, 24])
def test_the_last_level_follows_from_the_ramps_of_several_walks(megabytes, noise):
    curves = []
    for kernel, scale in (("chase", 1.0), ("chase_4", 0.3), ("random_load", 0.1)):
        sizes, times = ramp(megabytes << 20, 20e-9 * scale, 110e-9 * scale, noise)
        times = [
            1e-9 * scale if size <= 32 << 10 else 4e-9 * scale if size <= 1 << 20 else t
            for size, t in zip(sizes, times, strict=True)
        ]
        curves.append(curve(kernel, times, "chase", sizes=sizes))
    found = detect_all(curves)
    assert [level.level for level in found] == ["L1", "L2", "L3"]
    assert 0.75 < found[-1].size_bytes / (megabytes << 20) < 1.35
    assert found[-1].low_bytes <= found[-1].size_bytes <= found[-1].high_bytes
    assert found[-1].confidence > 0.7


def test_walks_that_disagree_lower_the_confidence():
    curves = []
    for kernel, megabytes in (("chase", 4), ("chase_4", 32)):
        sizes, times = ramp(megabytes << 20, 20e-9, 110e-9)
        curves.append(curve(kernel, times, "chase", sizes=sizes))
    assert detect_all(curves)[-1].confidence < 0.5


def test_each_number_of_busy_cpus_has_its_own_caches():
    sizes, times = ramp(6 << 20, 20e-9, 110e-9)
    reported = (*LEVELS[:1], Level(level="L2", size_bytes=1 << 20, ways=16), Level(level="L3", size_bytes=480 << 20, ways=16))
    (found,) = busy_hierarchies([curve("chase", times, "chase", sizes=sizes, threads=2)], reported)
    assert found.threads == 2
    assert found.hierarchy[-1].size_bytes < 64 << 20
