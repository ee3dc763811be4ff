"""Machine profiles: what a valid document is, what it answers, and how a bad one is refused."""

import json

import pytest

from convolver.errors import ChecksumError, FormatError, HierarchyError, PredictionError, SchemaError, UnsupportedVersionError
from convolver.machine.hierarchy import parse_levels
from convolver.machine.maps import Curve, Point, plateau, working_set_range
from convolver.machine.profile import MachineProfile, Throughput

LEVELS = [
    {"level": "L1", "size_bytes": 49152, "ways": 12, "line_bytes": 64},
    {"level": "L2", "size_bytes": 2097152, "ways": 16, "line_bytes": 64},
]
SMALLEST = {"schema": "convolver.machine", "version": 1, "name": "m", "hierarchy": LEVELS}


def write(tmp_path, document):
    path = tmp_path / "m.machine.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def curve(values, **fields):
    points = tuple(Point(working_set_bytes=size, seconds_per_reference=seconds) for size, seconds in values)
    return Curve(**{"kernel": "load", "pattern": "unit", "operation": "load", **fields}, points=points)


def stepped():
    """1 ns in L1, 4 ns in L2, 60 ns beyond: a point an octave."""
    sizes = [1 << k for k in range(12, 28)]
    return [(size, 1e-9 if size <= 49152 else 4e-9 if size <= 2 << 20 else 60e-9) for size in sizes]


def profile(**fields):
    return MachineProfile(name="m", hierarchy=parse_levels(LEVELS), **fields)


def test_the_smallest_document_is_a_machine(tmp_path):
    machine = MachineProfile.load(write(tmp_path, SMALLEST))
    assert [level.level for level in machine.hierarchy] == ["L1", "L2"]
    assert not machine.projected
    assert machine.summary()["curves"] == 0


def test_unknown_fields_are_tolerated_and_belong_to_the_id(tmp_path):
    path = tmp_path / "m.machine.json"
    plain = MachineProfile.load(write(tmp_path, SMALLEST))
    path.write_text(json.dumps({**SMALLEST, "from_the_future": {"x": 1}}))
    assert MachineProfile.load(path).id != plain.id
    assert MachineProfile.load(path).hierarchy_id == plain.hierarchy_id


def test_saving_and_loading_keeps_content_and_id(tmp_path):
    machine = profile(
        maps=(curve(stepped()),), floating_point=(Throughput(kernel="add", operation="add", seconds=2e-10, flops=1),)
    )
    written = machine.save(tmp_path / "x.machine.json")
    again = MachineProfile.load(tmp_path / "x.machine.json")
    assert again == machine
    assert again.id == machine.id == written


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ("{", FormatError),
        ("[]", SchemaError),
        ({**SMALLEST, "schema": "convolver.signature"}, SchemaError),
        ({**SMALLEST, "version": 99}, UnsupportedVersionError),
        ({**SMALLEST, "id": "0" * 32}, ChecksumError),
        ({**SMALLEST, "name": ""}, SchemaError),
        ({**SMALLEST, "name": 3}, SchemaError),
        ({k: v for k, v in SMALLEST.items() if k != "hierarchy"}, SchemaError),
        ({**SMALLEST, "hierarchy": []}, HierarchyError),
        ({**SMALLEST, "hierarchy": [{"level": "L1", "size_bytes": 1000, "ways": 12}]}, HierarchyError),
        ({**SMALLEST, "hierarchy": [{"level": "L1", "size_bytes": "big", "ways": 12}]}, HierarchyError),
        ({**SMALLEST, "maps": [{"kernel": "k", "pattern": "unit", "operation": "load", "points": []}]}, SchemaError),
        (
            {
                **SMALLEST,
                "maps": [
                    {
                        "kernel": "k",
                        "pattern": "unit",
                        "operation": "load",
                        "points": [{"working_set_bytes": 4096, "seconds_per_reference": 0.0}],
                    }
                ],
            },
            SchemaError,
        ),
        ({**SMALLEST, "floating_point": [{"kernel": "a", "operation": "add", "seconds": -1.0}]}, SchemaError),
    ],
)
def test_a_bad_document_is_refused_in_one_sentence(tmp_path, document, error):
    with pytest.raises(error) as caught:
        MachineProfile.load(write(tmp_path, document))
    assert "m.machine.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_a_format_error(tmp_path):
    with pytest.raises(FormatError):
        MachineProfile.load(tmp_path / "none.machine.json")


def test_a_curve_is_interpolated_in_logarithms():
    line = curve([(1024, 1e-9), (4096, 4e-9)])
    assert line.at(2048).seconds_per_reference == pytest.approx(2e-9)
    assert not line.at(2048).extrapolated


@pytest.mark.parametrize(("size", "seconds"), [(512, 1e-9), (8192, 4e-9)])
def test_outside_the_measured_range_the_end_is_held_and_flagged(size, seconds):
    rate = curve([(1024, 1e-9), (4096, 4e-9)]).at(size)
    assert rate.seconds_per_reference == seconds
    assert rate.extrapolated


@pytest.mark.parametrize(("level", "seconds"), [("L1", 1e-9), ("L2", 4e-9), ("memory", 60e-9)])
def test_each_level_has_its_plateau(level, seconds):
    rate = profile(maps=(curve(stepped()),)).plateau("unit", "load", level)
    assert rate.seconds_per_reference == seconds
    assert not rate.extrapolated


def test_one_disturbed_point_does_not_move_a_plateau():
    values = [(size, 9e-9 if size == 8192 else seconds) for size, seconds in stepped()]
    assert profile(maps=(curve(values),)).plateau("unit", "load", "L1").seconds_per_reference == 1e-9


def test_memory_beyond_the_measured_range_is_extrapolated():
    machine = profile(maps=(curve(stepped()[:8]),))
    assert machine.plateau("unit", "load", "memory").extrapolated


def test_levels_close_together_still_have_a_range():
    machine = MachineProfile.from_document(
        {
            **SMALLEST,
            "hierarchy": [
                {"level": "L1", "size_bytes": 32768, "ways": 8, "line_bytes": 64},
                {"level": "L2", "size_bytes": 40960, "ways": 8, "line_bytes": 64},
            ],
        }
    )
    low, high = working_set_range(machine.hierarchy, "L2")
    assert 0 < low <= high
    assert plateau(curve(stepped()), machine.hierarchy, "L2").seconds_per_reference == pytest.approx(1e-9)


def test_the_nearest_width_stride_and_chains_are_chosen():
    machine = profile(
        maps=(
            curve(stepped(), kernel="load"),
            curve(stepped(), kernel="load_vector", width_bytes=32),
            curve(stepped(), kernel="stride_2", pattern="stride", stride_bytes=16),
            curve(stepped(), kernel="stride_8", pattern="stride", stride_bytes=64),
            curve(stepped(), kernel="chase", pattern="chase"),
            curve(stepped(), kernel="chase_4", pattern="chase", chains=4),
        )
    )
    assert machine.curve("unit", "load", width_bytes=4).kernel == "load"
    assert machine.curve("unit", "load", width_bytes=64).kernel == "load_vector"
    assert machine.curve("stride", "load", stride_bytes=80).kernel == "stride_8"
    assert machine.plateau("chase", "load", "L1", chains=3).kernel == "chase_4"


def test_a_machine_without_maps_says_what_to_do():
    with pytest.raises(PredictionError, match="convolver probe"):
        profile().plateau("unit", "load", "L1")
    with pytest.raises(PredictionError, match="convolver probe"):
        profile().flop_rate()
    with pytest.raises(PredictionError, match="convolver probe"):
        _ = profile().instruction_seconds


def test_an_unknown_level_is_named_with_the_known_ones():
    with pytest.raises(PredictionError, match="L1, L2 and memory"):
        profile(maps=(curve(stepped()),)).plateau("unit", "load", "L9")


def test_flop_rate_is_flops_over_seconds_and_mixed_is_half_and_half():
    machine = profile(
        floating_point=(
            Throughput(kernel="add", operation="add", seconds=1e-9, flops=1),
            Throughput(kernel="add_v", operation="add", seconds=1e-9, flops=4, width_bytes=32),
            Throughput(kernel="mul", operation="multiply", seconds=3e-9, flops=1),
            Throughput(kernel="int", operation="instruction", seconds=2e-10),
        )
    )
    assert machine.flop_rate("add") == pytest.approx(1e9)
    assert machine.flop_rate("add", width_bytes=32) == pytest.approx(4e9)
    assert machine.flop_rate() == pytest.approx(2 / (1e-9 + 3e-9))
    assert machine.instruction_seconds == 2e-10
