"""Stack distances against their definition and against simulated caches."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver.errors import SimulationError
from convolver.machine.hierarchy import Level
from convolver.simulation.one_pass import simulate_arrays
from convolver.simulation.stack_distance import miss_curve, miss_curve_of_arrays
from tests.reference_streams import arrays, streams


def _lines(references, line_bytes):
    return [
        line
        for address, size, _, _ in references
        for line in range(address // line_bytes, (min(address + size, 1 << 64) - 1) // line_bytes + 1)
    ]


def _distances(lines):
    """By definition, with a list of the lines in recency order."""
    recent: list[int] = []
    for line in lines:
        yield recent.index(line) if line in recent else None
        if line in recent:
            recent.remove(line)
        recent.insert(0, line)


@settings(max_examples=60, deadline=None)
@given(streams(), st.sampled_from([8, 64, 4096]))
def test_the_histogram_is_that_of_the_definition(references, line_bytes):
    address, size, *_ = arrays(references).values()
    curve = miss_curve_of_arrays(address, sizes=size, line_bytes=line_bytes)
    distances = list(_distances(_lines(references, line_bytes)))
    expected = np.bincount([distance for distance in distances if distance is not None])
    assert curve.histogram.tolist() == expected.tolist()
    assert curve.cold == distances.count(None)
    assert curve.accesses == len(distances)


@settings(max_examples=30, deadline=None)
@given(streams(), st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True))
def test_it_has_the_misses_of_every_fully_associative_cache(references, ways):
    address, size, *_ = arrays(references).values()
    curve = miss_curve_of_arrays(address, sizes=size)
    machines = [{"name": str(n), "hierarchy": [{"level": "L1", "size_bytes": 64 * n, "ways": n}]} for n in ways]
    rates = simulate_arrays(address, sizes=size, machines=machines)
    assert [curve.misses(64 * n) for n in ways] == [rates.totals(str(n))[0]["misses"] for n in ways]


def test_times_and_tables_are_renewed_as_the_stream_and_its_footprint_grow():
    random = np.random.default_rng(2)
    address = (64 * random.integers(0, 50_000, 400_000)).astype(np.uint64)
    curve = miss_curve_of_arrays(address)
    assert curve.cold == len(np.unique(address))
    # Under the independent reference model, a cache with a share s of the lines misses a share of about 1 - s.
    assert curve.misses(64 * 25_000) / curve.accesses == pytest.approx(0.5, abs=0.07)
    assert curve.misses(curve.footprint_bytes) == curve.cold


def test_the_table_falls_from_every_access_to_the_cold_misses():
    curve = miss_curve_of_arrays((64 * np.tile(np.arange(100), 5)).astype(np.uint64))
    table = curve.table()
    assert table["misses"][0] == 500
    assert table["misses"][-1] == 100
    assert (table["misses"].diff().drop_nulls().cast(int) <= 0).all()
    assert curve.table([64 * 99, 64 * 100])["misses"].to_list() == [500, 100]


def test_nothing_gives_an_empty_curve():
    curve = miss_curve_of_arrays(np.empty(0, dtype=np.uint64))
    assert (curve.accesses, curve.footprint_bytes, curve.misses(4096)) == (0, 0, 0)
    assert curve.table()["miss_ratio"].to_list() == [None] * curve.table().height


def test_sampled_traces_and_odd_lines_are_refused():
    with pytest.raises(SimulationError, match="--full"):
        miss_curve(SimpleNamespace(header={"sampling": {"mode": "sample", "sample": 1, "interval": 2}}))
    with pytest.raises(SimulationError, match="48 bytes"):
        miss_curve_of_arrays(np.zeros(1, dtype=np.uint64), line_bytes=48)


def test_one_level_of_one_line_agrees():
    address = np.array([0, 64, 64, 0], dtype=np.uint64)
    rates = simulate_arrays(address, machines=[Level(level="L1", size_bytes=64, ways=1)])
    assert miss_curve_of_arrays(address).misses(64) == rates.totals("machine-1")[0]["misses"] == 3
