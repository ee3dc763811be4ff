"""Machines derived from public measurements: the changes, the files, and how a curve becomes latencies."""

import importlib.util
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.convolution.elapsed_replay import core_pairs, larger_than_known
from convolver.convolution.thread_costs import memory_capacity
from convolver.errors import SchemaError
from convolver.machine.catalog import find_machine, list_machines
from convolver.machine.cores import choose_core
from convolver.machine.derived import DERIVED_SUFFIX, Derivation
from convolver.machine.project import parse_changes, project

BUNDLED = [entry for entry in list_machines() if entry.path.name.endswith(DERIVED_SUFFIX)]


@pytest.fixture(scope="module")
def deriving():
    path = Path(__file__).parents[1] / "bench" / "cloud" / "derive_cloud_machines.py"
    spec = importlib.util.spec_from_file_location("derive_cloud_machines", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_derivation_without_changes_has_the_curves_of_its_base():
    base = find_machine("cloud-epyc-milan")
    found = Derivation(name="same", base=base.name, cpu=dict(base.cpu)).apply(base)
    assert found.projected
    assert found.provenance["kind"] == "derived"
    assert found.core == base.core
    for own, theirs in zip(found.maps, base.maps, strict=True):
        times = [[point.seconds_per_reference for point in one.points] for one in (own, theirs)]
        assert times[0] == pytest.approx(times[1], rel=0.05)


def test_memory_factors_scale_walks_and_widen_intervals():
    base = find_machine("cloud-epyc-milan")
    found = Derivation(name="m", base=base.name, cpu=dict(base.cpu), latencies={"memory": 0.5}, deviation=0.3).apply(base)
    assert found.calibration.walk_latency == pytest.approx(0.5 * base.calibration.walk_latency)
    assert found.calibration.latency[-1] == pytest.approx(0.5 * base.calibration.latency[-1])
    assert min(found.calibration.assumed) >= 0.3


def test_another_core_drops_the_figures_of_the_base():
    base = find_machine("cloud-server")
    cpu = {"model": "x", "vendor": "GenuineIntel", "family": "6", "model_number": "85", "vector_sets": ["avx", "avx2", "fma"]}
    found = Derivation(name="m", base=base.name, cpu=cpu).apply(base)
    assert not found.core
    assert choose_core(found.cpu)[0].name == "skylake"


def test_a_broadwell_of_the_cloud_has_its_own_core_without_avx512():
    found = find_machine("cloud-xeon-e5-2686-v4-230")
    assert choose_core(found.cpu)[0].name == "broadwell"
    assert "avx512f" not in found.cpu["vector_sets"]


def test_kernel_costs_come_from_the_machine_that_is_named():
    base, other = find_machine("cloud-epyc-turin"), find_machine("cloud-server")
    made = Derivation(name="m", base=base.name, cpu={}, kernel_base=other.name, kernel_clock=0.5, clock=0.5).apply(base, other)
    known, own, theirs = ({cost.name: cost.seconds for cost in one.kernel} for one in (made, base, other))
    assert {name: known[name] for name in theirs} == pytest.approx({name: 2 * seconds for name, seconds in theirs.items()})
    assert known["thread.wake"] == pytest.approx(2 * own["thread.wake"])  # which only the base knows: by the clock


def test_two_derived_machines_never_share_their_assumed_errors():
    base = find_machine("cloud-server")
    found = [Derivation(name=name, base=base.name, cpu={}, deviation=0.2).apply(base).calibration.assumed for name in "ab"]
    assert found[0] != found[1]
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_memory_gives_busy_cores_what_the_table_says():
    base = find_machine("cloud-epyc-milan")
    measured = {2: 1.5 * memory_capacity(base, 1)[0][0], 4: 1.6 * memory_capacity(base, 1)[0][0]}
    found = Derivation(name="m", base=base.name, cpu={}, memory_bandwidths=measured).apply(base)
    first, second, _, fourth, *more = memory_capacity(found, 32)[0] / memory_capacity(found, 1)[0][0]
    assert (first, second, fourth) == pytest.approx((1, 1.5, 1.6))
    assert more[3] == pytest.approx(3.2)
    assert more[11] == more[27] == pytest.approx(6.4)  # no more is believed than four times what was measured


def test_bundled_machines_say_how_many_threads_a_core_has():
    known = {entry.name: find_machine(entry.name) for entry in BUNDLED}
    assert core_pairs(known["cloud-epyc-9b45"], 8) == 4
    assert core_pairs(known["cloud-epyc-9575f"], 8) == 0
    assert {machine.cpu["threads_per_core"] for machine in known.values()} == {1, 2}
    assert len(memory_capacity(known["cloud-epyc-9b45"], 4)[0]) == 4


def test_bundled_machines_say_how_many_cpus_the_largest_has():
    known = {entry.name: find_machine(entry.name) for entry in BUNDLED}
    assert known["cloud-epyc-9b45"].known_cpus == 192  # all that a machine of the table has
    assert known["cloud-epyc-9t34"].known_cpus == 128  # a processor of 64 cores
    assert known["cloud-xeon-e5-2686-v4-230"].known_cpus == 0
    assert find_machine("cloud-server").known_cpus == 2
    assert larger_than_known(known["cloud-epyc-9b45"], 192) is None
    assert "192 CPUs, not 193" in larger_than_known(known["cloud-epyc-9b45"], 193)
    assert larger_than_known(find_machine("cloud-server"), 193) is None
    assert core_pairs(known["cloud-epyc-9b45"], 8) == 4  # of a machine of 8 CPUs, not of the largest


@pytest.mark.parametrize("cpus", ["many", None, [2], -3, 1.5])
def test_a_number_of_cpus_that_is_none_counts_as_unknown(cpus):
    machine = msgspec.structs.replace(find_machine("cloud-epyc-9b45"), cpu={"most_cpus": cpus})
    assert machine.known_cpus == 0
    assert machine.summary()["cpus"] is None
    assert larger_than_known(machine, 4096) is None


def test_the_largest_machine_is_of_a_row_or_one_named_processor(deriving):
    rows = [{"cpu": "a", "threads": one} for one in ("1", "all:4", "all:32")]
    assert deriving.machine_sizes([*rows, {"cpu": "b", "threads": "1"}]) == {"a": [4, 32]}
    unnamed, named = ({"cpu": cpu, "threads_per_core": "2"} for cpu in ("X 9B45", "X 64-Core Processor"))
    assert [deriving.most_cpus(unnamed, sizes) for sizes in ([], [4, 32])] == [0, 32]
    assert [deriving.most_cpus(named, sizes) for sizes in ([], [4, 32], [256])] == [128, 128, 256]


def test_every_bundled_derived_machine_loads_and_names_its_source():
    assert len(BUNDLED) >= 30
    for entry in BUNDLED:
        machine = find_machine(entry.name)
        assert machine.name == entry.name
        assert "CC BY-SA 4.0" in machine.provenance["note"]
        latencies = machine.calibration.latency
        assert machine.calibration.first_latency < latencies[0] < latencies[1] < latencies[2] + machine.calibration.walk_latency


@given(st.binary(max_size=200))
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("derived") / f"m{DERIVED_SUFFIX}"
    path.write_bytes(content)
    with pytest.raises(SchemaError, match="is no derived machine"):
        Derivation.load(path)


def test_a_derivation_survives_its_file(tmp_path):
    known = Derivation(name="m", base="cloud-server", cpu={"model": "x"}, sizes={"L3": 1 << 24}, latencies={"L3": 0.5}, clock=1.1)
    path = tmp_path / f"m{DERIVED_SUFFIX}"
    path.write_bytes(msgspec.json.encode(known))
    assert Derivation.load(path) == known


def walked_row(l1, l2, l3=14.0, memory=120.0, capacity=20 << 20, model=1):
    """Return a row of the public table with the curve that a random walk shows."""
    sizes = [16, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072]

    def time(size):
        ends = [min(1, one / size) for one in (32768, 524288, capacity)]
        return ends[0] * l1 + (ends[1] - ends[0]) * l2 + (ends[2] - ends[1]) * l3 + (1 - ends[2]) * memory

    row = {"family": "25", "model": str(model), "l1d_bytes": "32768", "l2_bytes": "524288", "l3_bytes": str(32 << 20)}
    return row | {"chase_ns_by_KiB": ";".join(f"{size}:{time(1024 * size):.4f}" for size in sizes)}


def test_latencies_and_capacity_come_back_from_their_curve(deriving):
    l1, l2, l3, memory, capacity = 1.2, 4.0, 14.0, 120.0, 20 << 20
    found = deriving.latencies(walked_row(l1, l2, l3, memory, capacity))
    assert (found.l1, found.l2, found.l3, found.memory) == pytest.approx((l1, l2, l3, memory), rel=0.05)
    assert found.capacity == pytest.approx(capacity, rel=0.06)


@pytest.mark.parametrize(
    ("family", "threads_per_core", "rows", "nanoseconds"),
    [
        ("25", "1", "16/write/1:48000", 1 / 3),
        ("25", "2", "16/write/2:24000", 2 / 3),
        ("25", "2", "16/write/2:60000;16/write/1:64000", 1 / 4),
        ("25", "1", "16/write/2:96000", None),  # of two cores
        ("25", "2", "16/read/1:48000;64/write/1:48000", None),
        ("6", "1", "16/write/1:48000", None),
    ],
)
def test_stores_to_the_first_level_tell_a_cycle(deriving, family, threads_per_core, rows, nanoseconds):
    row = {"family": family, "threads_per_core": threads_per_core, "MBps_by_KiB/operation/threads": rows}
    assert deriving.store_nanoseconds(row) == (nanoseconds and pytest.approx(nanoseconds))


@pytest.mark.parametrize("entry", BUNDLED, ids=lambda entry: entry.name)
def test_a_bundled_derivation_is_relative_to_the_present_base(entry):
    derivation = Derivation.load(entry.path)
    assert derivation.base_id == find_machine(derivation.base).id


def test_a_disturbed_walk_changes_no_cycles_of_its_core(deriving):
    rows = {str(ghz): walked_row(4 / ghz, 13 / ghz) for ghz in (2.5, 3.0, 3.5)} | {"slow L1": walked_row(3.0, 4.0)}
    assert deriving.walked_cycles(deriving.core(25, 1), rows) == pytest.approx(13, rel=0.02)


def test_a_core_with_few_cpus_takes_published_cycles_and_more(deriving):
    zen3, zen2 = deriving.core(25, 1), deriving.core(23, 49)
    rows = {deriving.MEASURED[zen3.base]: walked_row(1.0, 3.25), "one": walked_row(2.0, 4.0, model=49) | {"family": "23"}}
    assert deriving.walked_cycles(zen2, rows) == pytest.approx(zen2.cycles[1] + 1, rel=0.02)


def test_the_second_level_takes_the_cycles_of_its_own_core():
    derivation = Derivation.load(next(entry.path for entry in BUNDLED if entry.name == "cloud-xeon-platinum-8375c-290"))
    base = find_machine(derivation.base)
    seconds = derivation.apply(base).calibration.latency[0]
    assert seconds * derivation.clock == pytest.approx(base.calibration.latency[0] * 14 / 16, rel=0.01)


def test_a_projection_keeps_most_cpus_and_threads_of_a_core():
    base = find_machine("cloud-epyc-9b45")
    faster = project(base, "faster", parse_changes([], ["core.clock=2"]))
    assert faster.known_cpus == base.known_cpus == 192
    assert core_pairs(faster, 8) == core_pairs(base, 8) == 4
