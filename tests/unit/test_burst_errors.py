"""How certain hit rates from bursts are: standard errors from the differences between bursts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convolver._native.simulator import GROUPS, Geometry, Simulator
from convolver._native.sinks import Decoded
from convolver._native.trace_decoder import WINDOW, Batch, Decoder
from convolver.progress import SILENT
from convolver.simulation.detailed import Details
from convolver.simulation.group import ratio_error
from convolver.simulation.one_pass import simulate, simulate_arrays
from convolver.simulation.shared import simulate_shared
from convolver.tracing.sampling import STALE
from tests.wire_streams import burst_stream

LEVELS = [Geometry(4, 2, 64), Geometry(8, 4, 64)]
MACHINE = {"name": "m", "hierarchy": [{"level": "L1", "size_bytes": 16 * 64, "ways": 4}]}
INTERVAL, SAMPLE, INTERVALS = 1000, 100, 160
PLAN = {"sampling": {"mode": "sample", "interval": INTERVAL, "sample": SAMPLE}}
COVERED = 1.895
"""Half width of an interval of 90 %, in standard errors: Student's t with seven degrees of freedom."""


def phased_program(random, phase=1500):
    """Random references to 8 lines or to 64 by turns of random lengths, which a small cache serves from its beginning on."""
    count = INTERVAL * INTERVALS
    lengths = random.geometric(1 / phase, 2 * count // phase)
    large = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)[:count]
    large = np.concatenate([large, np.zeros(count - len(large), dtype=bool)])
    return 64 * random.integers(0, np.where(large, 64, 8)).astype(np.uint64)


class Recorded(SimpleNamespace):
    """A stand-in for a trace of bursts: the references of every interval from ``offset`` on."""

    id, header, site_blocks = "t", PLAN, np.array([3], dtype=np.uint32)

    def bursts(self):
        for start in range(self.offset, len(self.addresses) - SAMPLE, INTERVAL):
            yield 1 + start // INTERVAL, self.addresses[start : start + SAMPLE]

    def feed(self, sinks, progress=SILENT):
        (simulator,) = sinks.windows
        for number, addresses in self.bursts():
            simulator.burst(number)
            simulator.feed(addresses)
        return Decoded(self.site_blocks)

    def batches(self):
        for number, addresses in self.bursts():
            nothing = np.zeros(len(addresses))
            yield Batch(
                *(WINDOW, 0, number, False, addresses),
                *(nothing.astype(np.uint32), nothing.astype(np.uint16) + 1, nothing.astype(bool)),
            )


@pytest.mark.parametrize(("phase", "least", "most"), [(100, 163, 196), pytest.param(1500, 163, 200, marks=pytest.mark.slow)])
def test_the_interval_of_ninety_per_cent_holds_the_true_miss_rate_as_often(phase, least, most):
    held, seeds = 0, 200
    for seed in range(seeds):
        random = np.random.default_rng([11, seed])
        addresses = phased_program(random, phase)
        true = simulate_arrays(addresses, machines=MACHINE).totals("m")[0]
        trace = Recorded(addresses=addresses, offset=int(random.integers(0, INTERVAL)))
        found = simulate(trace, MACHINE).totals("m")[0]
        assert found["sample"] == "bursts"
        off = found["misses"] / found["accesses"] - true["misses"] / true["accesses"]
        held += abs(off) <= COVERED * found["standard_error"]
    # 180 are expected where bursts are as good as independent; four standard deviations of a binomial below and above. Where
    # phases outlast an interval, the bursts lie more evenly over them than chance would put them: the interval holds more often.
    assert least <= held <= most


def moving_lines(random, count, mean=3000, used=16):
    """A program that uses a few lines at random for a while, then others."""
    begins = random.random(count) < 1 / mean
    return (used * np.cumsum(begins) + random.integers(0, used, count)).astype(np.int64)


def total_rate(data, stale, cache):
    """Return the miss rate of all bursts and its standard error."""
    decoder, simulator = Decoder(), Simulator([[cache]])
    simulator.group_bursts()
    decoder.stale(stale)
    decoder.add_simulator(simulator)
    decoder.feed(data)
    decoder.flush()
    counts = simulator.grouped_counts(0, 0)
    misses, accesses = counts.misses.sum(axis=0), counts.accesses.sum(axis=0)
    return misses.sum() / accesses.sum(), float(ratio_error(misses, accesses))


def test_the_interval_holds_where_caches_change_between_bursts():
    cache, interval, sample, seeds = Geometry(8, 8, 64), 3000, 300, 40
    held = {0: 0, sample // STALE: 0}
    for seed in range(seeds):
        random = np.random.default_rng([17, seed])
        lines = moving_lines(random, interval * 120)
        whole = Simulator([[cache]])
        whole.feed((64 * lines).astype(np.uint64))
        true = whole.counts(0, 0).misses.sum() / len(lines)
        data = stream(
            lines[begin : begin + sample].tolist() for begin in range(int(random.integers(interval)), len(lines), interval)
        )
        for stale in held:
            rate, error = total_rate(data, stale, cache)
            held[stale] += abs(rate - true) <= COVERED * error
    assert held[0] == 0
    assert held[sample // STALE] >= 30  # of 36 expected: three standard deviations below


def test_every_engine_tells_the_same_error():
    trace = Recorded(addresses=phased_program(np.random.default_rng(5)), offset=17)
    shared = {"name": "m", "hierarchy": [{**MACHINE["hierarchy"][0], "shared": True}]}
    fast, detailed = simulate(trace, MACHINE), simulate(trace, MACHINE, details=Details(causes=True))
    (turns,) = simulate_shared([trace], shared)
    errors = {rates.totals("m")[0]["standard_error"] for rates in (fast, detailed, turns)}
    assert len(errors) == 1
    assert errors.pop() == fast.table["standard_error"][0] > 0


windows = st.lists(st.lists(st.integers(0, 63), max_size=40), max_size=2 * GROUPS + 1)


def stream(bursts):
    return burst_stream((None, lines) for lines in bursts)


def fed(data, *simulators):
    decoder = Decoder()
    for simulator in simulators:
        decoder.add_simulator(simulator)
    decoder.feed(data)
    decoder.flush()


@settings(max_examples=60)
@given(windows)
def test_the_groups_are_bursts_and_add_up(bursts):
    plain, grouped = Simulator([LEVELS]), Simulator([LEVELS])
    grouped.group_bursts()
    fed(stream(bursts), plain, grouped)
    expected = np.zeros(GROUPS, dtype=np.uint64)
    for number, lines in enumerate(bursts, 1):
        expected[number % GROUPS] += len(lines)
    if plain.owners:
        assert np.array_equal(grouped.grouped_counts(0, 0).accesses[0], expected)
    for level in range(2):
        for one, other in zip(plain.counts(0, level), grouped.counts(0, level), strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("jobs", [1, 2])
def test_threads_keep_bursts_apart(jobs):
    random = np.random.default_rng(9)
    data = stream([random.integers(0, 512, 300).tolist() for _ in range(20)])

    class Streamed(SimpleNamespace):
        id, header, site_blocks = "t", PLAN, np.zeros(1, dtype=np.uint32)

        def feed(self, sinks, progress=SILENT):
            (simulator,) = sinks.windows
            fed(data, simulator)
            if hasattr(simulator, "drain"):
                simulator.drain()
            return Decoded(self.site_blocks)

    one, several = (simulate(Streamed(), MACHINE, jobs=n) for n in (1, jobs))
    assert several.id == one.id
    assert several.table["standard_error"][0] > 0


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 63)), max_size=200), st.booleans())
def test_groups_of_sparse_owners_add_up(references, by_sets):
    owner = np.array([owner for owner, _ in references], dtype=np.uint32)
    address = np.array([64 * line for _, line in references], dtype=np.uint64)
    plain, grouped = Simulator([LEVELS]), Simulator([LEVELS])
    if by_sets:
        grouped.group_sets(6)
    else:
        grouped.group_bursts()
    for simulator in (plain, grouped):
        simulator.feed(address, owners=owner)
    assert grouped.owners == plain.owners
    for level in range(2):
        for one, other in zip(plain.counts(0, level), grouped.counts(0, level), strict=True):
            assert np.array_equal(one, other)
