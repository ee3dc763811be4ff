"""Laws of the convolution, whatever the program: additivity, monotony in the machine, and that probes give themselves back."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver.convolution.cpu_ratio import cpu_ratio
from convolver.simulation.one_pass import simulate_arrays
from tests.strategies import block_rows, signature_rows
from tests.synthetic import convolved, hit_rates, loads, machine, signature

M, SLOW = machine("m"), machine("slow", scale=2.0)


@st.composite
def programs(draw):
    """A signature with hit rates on both machines for every block that has a sample, and one that surely has."""
    rows = [loads(1000), *draw(signature_rows())]
    counts = [(0, 1000, 100, 10)]
    for block, row in enumerate(rows[1:], 1):
        if row["sampled_references"]:
            first = draw(st.integers(0, row["sampled_references"]))
            second = draw(st.integers(0, first))
            written = [draw(st.integers(0, first)), draw(st.integers(0, second))]
            counts.append((block, row["sampled_references"], first, second, written))
    return signature(*rows), hit_rates(counts, M, SLOW)


@given(programs())
def test_time_is_the_sum_over_blocks_and_shares_add_up(program):
    times = convolved(*program, M)
    assert times.seconds == pytest.approx(times.table["seconds"].sum())
    assert times.coverage + times.extrapolated_share == pytest.approx(1)
    assert (times.table["seconds"] >= times.table["memory_seconds"]).all()


@given(programs())
def test_halving_every_rate_doubles_every_time(program):
    fast, slow = convolved(*program, M), convolved(*program, SLOW)
    assert slow.seconds == pytest.approx(2 * fast.seconds)
    assert slow.table["memory_seconds"].sum() == pytest.approx(2 * fast.table["memory_seconds"].sum())


@given(programs())
def test_faster_everywhere_means_a_ratio_above_one_and_equal_machines_exactly_one(program):
    fast, slow = convolved(*program, M), convolved(*program, SLOW)
    assert cpu_ratio(slow, fast).total > 1
    assert cpu_ratio(fast, fast).total == 1.0
    assert set(cpu_ratio(fast, fast).table["ratio"].to_list()) <= {1.0, None}


@given(programs())
def test_the_less_overlaps_the_longer_it_takes(program):
    most, some, none = (convolved(*program, M, overlap=rule).seconds for rule in ("max", "norm", "sum"))
    assert most * (1 - 1e-12) <= some <= none * (1 + 1e-12)


@given(programs())
def test_convolution_is_a_function_of_its_inputs(program):
    before = program[0].table.clone()
    assert convolved(*program, M).id == convolved(*program, M).id
    assert program[0].table.equals(before)


@given(signature_rows(max_blocks=3), st.integers(0, 100), st.integers(0, 10))
def test_repeating_a_block_as_two_rows_changes_nothing(rows, l1_misses, l2_misses):
    row = {**loads(1000), **{name: rows[0][name] for name in ("instructions", "flops")}}
    whole = convolved(signature(row), hit_rates([(0, 1000, l1_misses, min(l1_misses, l2_misses))], M), M)
    table = pl.concat([block_rows([row]), block_rows([row]).with_columns(pl.lit(1, pl.UInt32).alias("block"))])
    from convolver.signature.signature import Signature

    counts = [(block, 1000, l1_misses, min(l1_misses, l2_misses)) for block in (0, 1)]
    assert convolved(Signature(table), hit_rates(counts, M), M).seconds == pytest.approx(2 * whole.seconds)


def _stream(pattern, working_set_bytes, references):
    rng = np.random.default_rng(1)
    if pattern == "unit":
        offsets = np.arange(references) * 8 % working_set_bytes
    elif pattern == "random":
        offsets = rng.integers(0, working_set_bytes // 8, references) * 8
    else:
        order = rng.permutation(working_set_bytes // 64) * 64
        offsets = order[np.arange(references) % len(order)]
    return (offsets + (1 << 20)).astype(np.uint64)


@settings(max_examples=25)
@given(st.sampled_from(["unit", "random", "chase"]), st.sampled_from([2048, 16384, 24576, 32768, 524288, 1 << 20]))
def test_a_probe_kernel_convolved_with_its_own_hit_rates_gives_its_own_time(pattern, working_set_bytes):
    references = max(200_000, 4 * working_set_bytes // 8)
    addresses = _stream(pattern, working_set_bytes, references)
    rates = simulate_arrays(addresses, sizes=np.full(references, 8, np.uint8), machines=M)
    kind = {"chase": "dependent"}.get(pattern, pattern)
    program = signature(loads(references, pattern=kind))
    measured = M.curve(pattern, "load").at(working_set_bytes).seconds_per_reference
    # Sets of few ways conflict a little under random addresses, and the first pass misses in all levels.
    assert convolved(program, rates, M).seconds / references == pytest.approx(measured, rel=0.12)
