"""Laws of what limits a program: shares add up, and the core's causes are those that code was made to have."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from convolver._native import core_walk as native
from convolver._native.branch_predictor import MISPREDICTED
from convolver._native.core_walk import FIRST_PORT, SECOND_LEVEL, Code, Core, PortClass
from convolver._native.path_builder import UNKNOWN, PathWindow
from convolver.convolution.block_times import BlockTimes
from convolver.convolution.limit_shares import LIMIT
from convolver.convolution.rates import contributions, joined
from convolver.errors import SchemaError
from tests.property.test_convolution_laws import M, programs
from tests.property.test_core_model import ALU, PARAMS, SLOW, _op
from tests.synthetic import convolved, hit_rates, loads, signature

EXPONENTS = st.sampled_from([1.0, 1.7, 2.7, 8.0, np.inf])


@given(
    st.integers(8, 10).flatmap(lambda parts: arrays.arrays(float, (parts, 5), elements=st.floats(0, 1e3, allow_subnormal=False))),
    EXPONENTS,
    EXPONENTS,
)
def test_contributions_add_up_to_the_time_whatever_the_parts(parts, near, exponent):
    given_ = contributions(parts, near, exponent)
    assert (given_ >= 0).all()
    assert (given_[parts == 0] == 0).all()
    np.testing.assert_allclose(given_.sum(axis=0), joined(parts, near, exponent), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("method", ["curves", "paper"])
@given(program=programs(), overlap=st.sampled_from(["norm", "max", "sum"]))
def test_limits_of_random_blocks_add_up_to_their_seconds(method, program, overlap):
    table = convolved(*program, M, method=method, overlap=overlap).table
    sums = sum(table[name].to_numpy() for name in table.columns if name.startswith(LIMIT))
    np.testing.assert_allclose(sums, table["seconds"].to_numpy(), rtol=1e-9, atol=1e-300)


def test_causes_that_are_no_numbers_are_refused():
    times = convolved(signature(loads(1000)), hit_rates([(0, 1000, 100, 10)], M), M)
    name = next(name for name in times.table.columns if name.startswith(LIMIT))
    with pytest.raises(SchemaError, match=name):
        BlockTimes(times.table.with_columns(pl.lit("much").alias(name)), times.header)


def causes(ops, visits=400, warm=200, flags=None, sites=(), step=64, latency=4, latencies=None):
    """Return the shares of causes of a loop, and its cycles beyond the warm-up."""
    classes = [PortClass(0, 0, 0, 1), PortClass(0b11, latency, latency, 1), PortClass(1 << 20, 9, 9, 9)]
    columns = list(zip(*sites, strict=True)) if sites else [(), (), ()]
    zero = np.zeros(1, dtype=np.uint64)
    code = Code(np.array([0, len(ops)]), zero, zero, np.array(ops, dtype=native.OP), *(np.array(c) for c in columns))
    core = Core(PARAMS, classes, code)
    core.blame(np.zeros(len(ops), dtype=np.uint32), 1)
    first, each = np.arange(visits + 1) * len(sites), np.tile(np.arange(len(sites)), visits)
    references = step * np.arange(visits * len(sites))
    far = None if latencies is None else np.full(len(references), latencies)
    core.walk(PathWindow(0, 1, False, UNKNOWN, warm, np.zeros(visits), first, references, each), flags, far)
    found = core.causes[0].astype(float)
    return found / found.sum(), found.sum(), core.cycles.sum()


@pytest.mark.parametrize(
    ("ops", "cause", "options"),
    [
        ([_op(ALU, reads=(3,), writes=(3,))], native.DEPENDENT_CAUSE, {}),
        ([_op(SLOW, writes=(3,))], FIRST_PORT + 20, {}),
        ([_op(ALU, writes=(3,))] * 6, FIRST_PORT, {}),
        ([_op(0, flags=native.NO_PORT)], native.WIDTH_CAUSE, {"visits": 4000}),
        ([_op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)], SECOND_LEVEL - 1, {"sites": [(0, 8, False)]}),
        (
            [_op(0, writes=(3,), flags=native.LOAD | native.NO_PORT), *[_op(0, flags=native.NO_PORT)] * 30],
            SECOND_LEVEL,
            {"sites": [(0, 8, False)], "latencies": 300},
        ),
    ],
    ids=["chain", "divider", "two ports", "width", "first level", "far lines"],
)
def test_the_core_says_what_a_loop_was_made_to_wait_for(ops, cause, options):
    shares, counted, _ = causes(ops, **options)
    both = shares[FIRST_PORT] + shares[FIRST_PORT + 1] if cause == FIRST_PORT else shares[cause]
    assert both > 0.9
    assert counted > 0


def test_mispredicted_branches_are_to_blame_for_what_they_cost():
    flags = np.full(400, MISPREDICTED, dtype=np.uint8)
    shares, counted, cycles = causes([_op(ALU, writes=(3,))], flags=flags)
    assert shares[1] > 0.95
    assert counted == pytest.approx(cycles, rel=0.05)


@given(st.integers(1, 12), st.integers(1, 9), st.booleans())
def test_causes_add_up_to_the_cycles_of_a_long_walk(length, latency, chained):
    ops = [_op(ALU, reads=(3,) if chained else (), writes=(3,))] * length
    _, counted, cycles = causes(ops, visits=3000, warm=1000, latency=latency)
    assert counted == pytest.approx(cycles, rel=0.02, abs=PARAMS["scheduler"] + 10)
