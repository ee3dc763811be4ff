"""Variants of one cache level."""

from __future__ import annotations

import numpy as np
import pytest

from convolver.errors import HierarchyError, UsageError
from convolver.simulation.level_variants import compared, variants
from convolver.simulation.one_pass import simulate_arrays

MACHINE = {
    "name": "m",
    "hierarchy": [{"level": "L1", "size_bytes": 1024, "ways": 2}, {"level": "L2", "size_bytes": 8192, "ways": 4}],
}


def test_the_machine_itself_comes_first_and_no_variant_twice():
    found = variants(MACHINE, "L2", sizes=[8192, 16384], ways=[4, 8])
    assert [(target.hierarchy[1].size_bytes, target.hierarchy[1].ways) for target in found] == [
        (8192, 4),
        (8192, 8),
        (16384, 4),
        (16384, 8),
    ]
    assert all(target.hierarchy[0] == found[0].hierarchy[0] for target in found)


def test_a_capacity_is_rounded_to_whole_sets():
    assert variants(MACHINE, "L1", sizes=[900])[1].hierarchy[0].size_bytes == 896


def test_variants_whose_ways_do_not_divide_them_have_names_of_their_own_and_fit_set_samples():
    own = {"level": "L1", "size_bytes": (16 << 20) // 960 * 960, "ways": 15}
    found = variants(
        {"name": "m", "hierarchy": [own]},
        "L1",
        sizes=[(16 << 20) - 1920, 8 << 20, (8 << 20) + 64, 32 << 20],
        policies=["lru", "fifo"],
    )
    assert len({each.name for each in found}) == len(found) == 7
    assert found[0].hierarchy[0].size_bytes == own["size_bytes"]
    assert all(each.hierarchy[0].sets % 256 == 0 for each in found[1:])


def test_a_larger_level_sends_less_to_memory_and_changes_nothing_before_it():
    addresses = np.random.default_rng(1).integers(0, 1 << 15, 20_000).astype(np.uint64)
    rates = simulate_arrays(addresses, machines=variants(MACHINE, "L2", sizes=[16384, 32768]))
    rows = compared(rates)
    assert len({row["missing"]["L1"] for row in rows}) == 1
    memory = [row["memory"] for row in rows]
    assert memory == sorted(memory, reverse=True)
    assert memory[-1] == pytest.approx(512 / 20_000)


@pytest.mark.parametrize(
    ("level", "changes", "error"),
    [
        ("L4", {}, UsageError),
        ("L2", {"sizes": [64]}, HierarchyError),
        ("L2", {"ways": [65]}, HierarchyError),
        ("L2", {"policies": ["clairvoyant"]}, HierarchyError),
        ("L2", {"sizes": range(4096, 4096 * 400, 4096)}, UsageError),
    ],
)
def test_impossible_variants_are_refused(level, changes, error):
    with pytest.raises(error):
        variants(MACHINE, level, **changes)
