"""Pages in frames at random, as the curve of dependent loads shows them, against the simulator and the bundled machines."""

import numpy as np
import pytest

from convolver._native.simulator import Geometry, Simulator
from convolver.machine.catalog import as_machine
from convolver.machine.hierarchy import POLICIES, Level
from convolver.machine.page_frames import lost_in_frames
from convolver.simulation.group import Group
from convolver.simulation.parallel import shares
from convolver.simulation.targets import targets

L2 = Level(level="L2", size_bytes=1 << 20, ways=8)


def chased(size_bytes: int, turns: int) -> np.ndarray:
    """Addresses of all lines of a working set, in one random order again and again."""
    lines = np.random.default_rng(7).permutation(size_bytes // 64).astype(np.uint64) * np.uint64(64)
    return np.tile(lines, turns)


def missed(geometry: Geometry, size_bytes: int) -> float:
    """The share of a chase's accesses that miss, after turns that fill the level."""
    simulator = Simulator([[geometry]])
    simulator.feed(chased(size_bytes, 10))
    before = simulator.counts(0, 0).misses.sum()
    simulator.feed(chased(size_bytes, 10))
    return float(simulator.counts(0, 0).misses.sum() - before) / (10 * size_bytes / 64)


@pytest.mark.parametrize("part", [0.5, 0.75, 1.0, 1.5])
def test_a_simulated_chase_misses_as_the_formula_says(part):
    size = int(part * L2.size_bytes)
    geometry = Geometry(L2.sets, L2.ways, 64, POLICIES.index("random"), frames=True)
    assert missed(geometry, size) == pytest.approx(lost_in_frames(size, L2), abs=0.05)


def test_pages_in_the_order_of_addresses_all_fit():
    assert missed(Geometry(L2.sets, L2.ways, 64, POLICIES.index("random")), L2.size_bytes) == 0


def test_the_share_that_misses_grows_with_the_working_set():
    lost = [lost_in_frames(size << 18, L2) for size in range(1, 12)]
    assert lost == sorted(lost)
    assert lost[0] < 0.01
    assert lost[-1] > 0.9


@pytest.mark.parametrize("name", ["cloud-server", "cloud-epyc-milan", "cloud-epyc-genoa", "cloud-epyc-turin"])
def test_machines_whose_chases_slow_down_early_have_frames(name):
    machine = as_machine(name)
    assert [level.index for level in machine.framed_system.hierarchy] == ["modulo", "page-frames", "modulo"]
    assert machine.framed_system.hierarchy[1].policy == "random"
    assert machine.hierarchy[1].policy == "lru"


def test_a_machine_with_a_sharp_edge_has_none():
    assert as_machine("cloud-xeon-emerald").framed_system is None


def test_threads_never_cut_a_page_lines_apart():
    geometry = Geometry(2048, 8, 64, POLICIES.index("random"), frames=True)
    assert shares([[geometry]], 1024) == 64
    assert shares([[geometry._replace(frames=False)]], 1024) == 1024


@pytest.mark.parametrize("classes", [32, 256])
def test_a_sample_of_pages_misses_as_all_of_them(classes):
    level = {"level": "L2", "size_bytes": 1 << 24, "ways": 8, "index": "page-frames", "policy": "random"}
    machines = targets([{"name": "framed", "hierarchy": [level]}])
    addresses = chased(3 << 22, 10)
    sampled = addresses[addresses // np.uint64(64) % np.uint64(classes) == 5]
    found = []
    for group, some in ((Group(machines), addresses), (Group(machines, classes=classes), sampled)):
        group.simulator.feed(some, None, None, np.zeros(len(some), dtype=np.uint32))
        found.append(group.simulator.counts(0, 0).misses.sum() / len(some))
    assert found[0] == pytest.approx(found[1], abs=0.02)
