"""Misses per block, line and thousand instructions; bytes between levels."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from convolver.errors import ProvenanceError
from convolver.signature.signature import Signature
from convolver.simulation.misses import block_misses, line_misses, mpki, traffic
from convolver.simulation.one_pass import simulate_arrays
from tests.strategies import block_rows

L1, L2 = {"level": "L1", "size_bytes": 1024, "ways": 2}, {"level": "L2", "size_bytes": 8192, "ways": 4}
MACHINE = {"name": "m", "hierarchy": [L1, L2]}
ROWS = [
    {"loads": 3000, "instructions": 9000, "line": 7},
    {"loads": 3000, "instructions": 6000, "line": 7},
    {"loads": 4000, "instructions": 5000, "line": 9},
    {"loads": 0, "instructions": 100, "line": 11},
]


@pytest.fixture
def signature():
    return Signature(block_rows(ROWS), inputs={"trace": "t"})


def _rates(machine=MACHINE, **more):
    random = np.random.default_rng(1)
    blocks = np.repeat(np.arange(3, dtype=np.uint32), [3000, 3000, 4000])
    addresses = (random.integers(0, 4096, 10_000) * 8).astype(np.uint64)
    return simulate_arrays(addresses, blocks=blocks, machines=machine, **more)


def test_misses_of_all_references_are_those_that_were_counted(signature):
    rates = _rates()
    misses = block_misses(signature, rates, "m")
    for level in ("L1", "L2"):
        rows = rates.table.filter(pl.col("level") == level)
        assert misses[level].to_list() == [*rows["misses"].to_list(), 0]


def test_lines_are_the_sums_of_their_blocks_and_the_worst_comes_first(signature):
    rates = _rates()
    lines = line_misses(signature, rates, "m")
    misses = block_misses(signature, rates, "m")["L2"].to_list()
    assert dict(zip(lines["line"], lines["L2"], strict=True)) == {7: misses[0] + misses[1], 9: misses[2], 11: 0}
    assert lines["L2"].is_sorted(descending=True)
    assert lines.filter(pl.col("line") == 7)["instructions"].item() == 15_000


def test_misses_per_thousand_instructions(signature):
    rates = _rates({**MACHINE, "tlb": [{"level": "DTLB", "entries": 4, "ways": 4}]})
    found = mpki(signature, rates, "m")
    assert found["L2"] == pytest.approx(1000 * rates.totals("m")[1]["misses"] / 20_100)
    assert found["DTLB"] == pytest.approx(1000 * rates.tlb_totals("m")[0]["misses"] / 20_100)


def test_a_sample_stands_for_the_memops_of_its_blocks(signature):
    rates = _rates(sets=2, set_class=1)
    misses = block_misses(signature, rates, "m")
    table = rates.table.filter((pl.col("level") == "L2") & (pl.col("block") == 2))
    first = rates.table.filter((pl.col("level") == "L1") & (pl.col("block") == 2))
    reach = first["misses"].item() / first["accesses"].item() * table["misses"].item() / table["accesses"].item()
    assert misses["L2"][2] == pytest.approx(4000 * reach)


def test_bytes_of_the_fast_engine_are_those_of_the_detailed_one():
    plain, seeded = _rates(), _rates({**MACHINE, "hierarchy": [{**L1, "seed": 1}, L2]})
    assert traffic(plain, "m") == traffic(seeded, "m")
    assert traffic(plain, "m")[0]["bytes_read"] == 64 * plain.totals("m")[0]["misses"]


def test_another_trace_is_refused(signature):
    rates = _rates()
    rates.header["inputs"] = {"trace": "another"}
    with pytest.raises(ProvenanceError, match="another"):
        mpki(signature, rates, "m")
