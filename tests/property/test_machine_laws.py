"""Laws of curves and profiles."""

import itertools
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from convolver.machine.hierarchy import Level
from convolver.machine.maps import Curve, Point, plateau
from convolver.machine.profile import MachineProfile, Throughput

seconds = st.floats(1e-11, 1e-5)
LEVELS = (Level(level="L1", size_bytes=32768, ways=8), Level(level="L2", size_bytes=1 << 20, ways=16))


@st.composite
def curves(draw):
    sizes = sorted(draw(st.sets(st.integers(64, 1 << 32), min_size=1, max_size=12)))
    points = tuple(
        Point(
            working_set_bytes=size,
            seconds_per_reference=draw(seconds),
            samples_seconds=tuple(draw(st.lists(seconds, max_size=3))),
            spread=draw(st.floats(0, 1)),
            stable=draw(st.booleans()),
        )
        for size in sizes
    )
    return Curve(kernel="k", pattern="unit", operation="load", width_bytes=draw(st.sampled_from([8, 16, 32])), points=points)


@given(curves(), st.data())
def test_between_two_points_a_curve_is_monotone_and_stays_between_them(curve, data):
    for left, right in itertools.pairwise(curve.points):
        sizes = sorted(data.draw(st.lists(st.floats(left.working_set_bytes, right.working_set_bytes), min_size=2, max_size=5)))
        values = [curve.at(size).seconds_per_reference for size in sizes]
        low, high = sorted((left.seconds_per_reference, right.seconds_per_reference))
        assert all(low * (1 - 1e-9) <= value <= high * (1 + 1e-9) for value in values)
        rising = right.seconds_per_reference >= left.seconds_per_reference
        ordered = values if rising else values[::-1]
        assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(ordered))


@given(curves())
def test_a_curve_goes_through_its_points(curve):
    for point in curve.points:
        rate = curve.at(point.working_set_bytes)
        assert abs(rate.seconds_per_reference / point.seconds_per_reference - 1) < 1e-9
        assert not rate.extrapolated


@given(curves(), st.sampled_from(["L1", "L2", "memory"]))
def test_a_plateau_never_leaves_the_range_of_the_curve(curve, name):
    values = [point.seconds_per_reference for point in curve.points]
    assert min(values) * (1 - 1e-9) <= plateau(curve, LEVELS, name).seconds_per_reference <= max(values) * (1 + 1e-9)


@settings(max_examples=30)
@given(
    st.lists(curves(), max_size=3),
    st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=8),
    st.lists(seconds, max_size=3),
    st.booleans(),
)
def test_saving_and_loading_a_profile_changes_nothing(maps, name, times, projected):
    profile = MachineProfile(
        name=name,
        hierarchy=LEVELS,
        projected=projected,
        maps=tuple(maps),
        floating_point=tuple(Throughput(kernel=f"k{i}", operation="add", seconds=time, flops=1) for i, time in enumerate(times)),
        provenance={"note": name},
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.machine.json"
        written = profile.save(path)
        again = MachineProfile.load(path)
    assert again == profile
    assert again.id == profile.id == written
