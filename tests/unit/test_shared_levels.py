"""Threads and ranks that share a level."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from convolver._native.trace_decoder import WINDOW, Batch
from convolver.errors import SimulationError, UsageError
from convolver.simulation.one_pass import simulate_arrays
from convolver.simulation.shared import simulate_shared
from tests.oracle.detailed_oracle import Options, Run

L1, L2 = {"level": "L1", "size_bytes": 1024, "ways": 2}, {"level": "L2", "size_bytes": 16384, "ways": 4, "shared": True}
MACHINE = {"name": "m", "hierarchy": [L1, L2]}
OPTIONS = [Options(sets=8, ways=2), Options(sets=64, ways=4, shared=True)]


class Recorded:
    """A trace in memory: ``threads`` are lists of (address, size, write, site), recorded one thread after another in batches."""

    def __init__(self, threads, name="t"):
        self.threads, self.id, self.header = threads, name, {"sampling": None}
        self.site_blocks = np.array([0, 0, 1, 2], dtype=np.uint32)

    def batches(self):
        for thread, references in enumerate(self.threads):
            for start in range(0, len(references), 7):
                address, size, write, site = zip(*references[start : start + 7], strict=True)
                yield Batch(
                    WINDOW,
                    thread,
                    0,
                    False,
                    np.array(address, dtype=np.uint64),
                    np.array(site, dtype=np.uint32),
                    np.array(size, dtype=np.uint16),
                    np.array(write, dtype=bool),
                )


def _references(seed, count=900):
    random = np.random.default_rng(seed)
    columns = (random.integers(0, 1 << 15, count), np.full(count, 8), random.random(count) < 0.3, random.integers(0, 4, count))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _expected(streams, turn, spaces):
    """The slow model, turn by turn; owners are blocks, distinguished by process."""
    run = Run(OPTIONS, cores=len(streams))
    blocks = [0, 0, 1, 2]
    for start in range(0, max(map(len, streams)), turn):
        for core, references in enumerate(streams):
            space = spaces[core]
            part = references[start : start + turn]
            part = [(a ^ (space << 56), s, w, 10 * space + blocks[site]) for a, s, w, site in part]
            run.feed(part, core)
    return [(counts["accesses"], counts["misses"]) for counts in run.counts]


def _check(rates, run, space):
    for number, level in enumerate(("L1", "L2")):
        rows = rates.table.filter(pl.col("level") == level)
        for block, accesses, misses in rows.select("block", "accesses", "misses").iter_rows():
            assert accesses == run[number][0][10 * space + block]
            assert misses == run[number][1][10 * space + block]


@pytest.mark.parametrize("turn", [1, 10, 64])
def test_threads_in_turn_equal_the_slow_model(turn):
    streams = [_references(1), _references(2, 500), _references(3)]
    (rates,) = simulate_shared([Recorded(streams)], MACHINE, turn=turn)
    _check(rates, _expected(streams, turn, [0, 0, 0]), 0)
    assert rates.references == 2300
    assert rates.header["machines"][0]["sharing"] == {"cores": 3, "turn": turn, "by": "references"}


def test_the_last_of_several_levels_is_shared_unless_marked():
    streams = [_references(1), _references(2)]
    private = {"name": "m", "hierarchy": [L1, {name: value for name, value in L2.items() if name != "shared"}]}
    (found,), (marked,) = (simulate_shared([Recorded(streams)], machine) for machine in (private, MACHINE))
    assert found.table.equals(marked.table)


def test_ranks_share_a_level_but_no_line():
    streams = [_references(1), _references(1)]
    found = simulate_shared([Recorded([stream], str(k)) for k, stream in enumerate(streams)], MACHINE, turn=10)
    run = _expected(streams, 10, [0, 1])
    for space, rates in enumerate(found):
        _check(rates, run, space)
    alone = simulate_shared([Recorded([streams[0]])], MACHINE, turn=10)[0].totals("m")
    assert found[0].totals("m")[0]["misses"] == alone[0]["misses"]
    assert found[0].totals("m")[1]["misses"] > alone[1]["misses"]


def test_one_core_is_the_usual_simulation():
    references = _references(4)
    (rates,) = simulate_shared([Recorded([references])], MACHINE)
    address, _, write, _ = (np.array(column) for column in zip(*references, strict=True))
    sizes = np.full(len(address), 8, dtype=np.uint8)
    plain = simulate_arrays(address.astype(np.uint64), sizes=sizes, writes=write, machines=MACHINE)
    names = ("accesses", "misses", "write_backs")
    assert [[row[n] for n in names] for row in rates.totals("m")] == [[row[n] for n in names] for row in plain.totals("m")]


def test_turns_of_instructions_are_as_long_as_their_costs_say():
    streams = [_references(1), _references(2)]
    one, other = (
        simulate_shared([Recorded(streams)], MACHINE, turn=turn, costs=[np.full(4, cost)])[0].table
        for turn, cost in ((30, 3.0), (10, 1.0))
    )
    assert one.equals(other)


def test_what_cannot_be_shared_is_refused():
    with pytest.raises(UsageError, match="shared"):
        simulate_shared([Recorded([_references(1)])], {"name": "m", "hierarchy": [L1]})
    with pytest.raises(SimulationError, match="no references"):
        simulate_shared([Recorded([])], MACHINE)
    for turn in (0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="turn"):
            simulate_shared([Recorded([_references(1)])], MACHINE, turn=turn)
