"""What a check of a profile finds, and the comparison of two."""

import msgspec
import pytest

from convolver.machine.calibration import Calibration
from convolver.machine.catalog import find_machine
from convolver.machine.hierarchy import Level
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.maps import Curve, Point
from convolver.machine.profile import DetectedLevel, MachineProfile, Throughput
from convolver.machine.profile_check import check_profile
from convolver.machine.project import parse_changes, project
from convolver.reporting.machine_tables import compare_rows, print_findings

CALIBRATION = Calibration(
    simulator="none",
    exponent=2.0,
    sequential=(1e-9, 4e-9),
    random=(3e-9, 40e-9),
    write_back=(1e-9, 5e-9),
    latency=(4e-9, 80e-9),
    first_latency=1e-9,
    between=0.5,
    coming=1e-10,
    window=100.0,
    points=0,
    median_error=0.0,
    mean_error=0.0,
    intervals={},
)
LEVELS = (Level(level="L1", size_bytes=32 << 10, ways=8), Level(level="L2", size_bytes=1 << 20, ways=16))


def curve(pattern, operation, times=(1e-9, 4e-9, 60e-9), largest=26):
    sizes = [1 << k for k in range(12, largest)]
    points = [(size, times[0] if size <= 32 << 10 else times[1] if size <= 1 << 20 else times[2]) for size in sizes]
    return Curve(
        kernel=f"{pattern}_{operation}",
        pattern=pattern,
        operation=operation,
        points=tuple(Point(working_set_bytes=a, seconds_per_reference=b) for a, b in points),
    )


def machine(**changes):
    fields = {
        "name": "m",
        "hierarchy": LEVELS,
        "maps": tuple(curve(*kind) for kind in (("unit", "load"), ("unit", "store"), ("random", "load"), ("chase", "load"))),
        "floating_point": (Throughput(kernel="add", operation="add", seconds=1e-9, flops=1),),
        "kernel": (KernelCost(name="page.few", seconds=1e-6, low=1e-6, high=1e-6),),
        "calibration": CALIBRATION,
    }
    return MachineProfile(**{**fields, **changes})


def sentences(profile, severity="warning"):
    return " ".join(finding.sentence for finding in check_profile(profile) if finding.severity == severity)


def test_a_clean_profile_has_no_findings():
    assert check_profile(machine()) == []


def test_one_finding_is_one(capsys):
    doubtful = machine(maps=())
    print_findings(doubtful, check_profile(doubtful)[:1])
    assert capsys.readouterr().out.startswith(f"{doubtful.name}: 1 finding\n")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"maps": ()}, "no measured maps"),
        ({"floating_point": ()}, "no measured instructions"),
        ({"maps": machine().maps[:3]}, "no chase load curve"),
        ({"maps": tuple(curve(c.pattern, c.operation, largest=20) for c in machine().maps)}, "end before memory"),
        ({"maps": (*machine().maps, curve("stride", "load", times=(9e-9, 4e-9, 60e-9)))}, "faster in L2 than in L1"),
        ({"provenance": {"load_before": [3.0, 1, 1]}, "cpu": {"cpus": 2}}, "busy"),
        ({"provenance": {"noise": {"unstable_share": 0.5}}}, "50 % of its points"),
        ({"provenance": {"noise": {"rejected_share": 0.3}}}, "interrupted"),
    ],
)
def test_each_doubt_is_a_warning(changes, words):
    assert words in sentences(machine(**changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cpu": {"hypervisor": "KVM"}}, "virtual machine"),
        ({"calibration": None}, "not calibrated"),
        (
            {"projected": True, "calibration": msgspec.structs.replace(CALIBRATION, assumed=(0.0, 0.25))},
            "than the base's: memory 25 %.",
        ),
        ({"provenance": {"noise": {"cycle_seconds_least": 2.5e-10, "cycle_seconds_median": 3e-10}}}, "clock moved"),
        ({"provenance": {"noise": {"neighbour_slowdown": 1.7}}}, "share cores"),
        (
            {"detected": (DetectedLevel(level="L1", size_bytes=8192, low_bytes=8000, high_bytes=9000, confidence=1.0),)},
            "L1 looks 4.0 times smaller",
        ),
    ],
)
def test_circumstances_are_notes(changes, words):
    assert words in sentences(machine(**changes), "note")


def test_a_projected_machine_says_so_and_the_bundled_ones_have_no_missing_curves():
    assert "projected from" in sentences(find_machine("server-hbm"), "note")
    assert "curve" not in sentences(find_machine("desktop-32m"))


def test_a_machine_compared_with_itself_has_ratios_of_one():
    rows = compare_rows(machine(), machine())
    assert len(rows) == 4 * 3 + 1 + 1  # curves in three levels, an instruction, a cost of the kernel
    assert {row["ratio"] for row in rows} == {1.0}


def test_a_ratio_above_one_means_the_second_is_faster_and_missing_levels_are_left_out():
    faster = project(machine(), "f", parse_changes([], ["memory.bandwidth=2"]))
    ratios = {(row["kernel"], row["level"]): row["ratio"] for row in compare_rows(machine(), faster)}
    assert ratios["unit_load", "memory"] == pytest.approx(2.0)
    assert ratios["chase_load", "memory"] == pytest.approx(1.0)
    shallow = msgspec.structs.replace(machine(), hierarchy=LEVELS[:1])
    assert {row["level"] for row in compare_rows(machine(), shallow)} == {"L1", "memory", "registers", "kernel"}
