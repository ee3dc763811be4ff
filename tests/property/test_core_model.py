"""Laws of the core model that hold exactly: chains, ports, widths, branches, memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver._native import core_walk as native
from convolver._native.branch_predictor import MISPREDICTED
from convolver._native.core_walk import Code, Core, PortClass
from convolver._native.path_builder import UNKNOWN, PathWindow
from convolver.execution.core_parameters import core_parameters
from convolver.machine.cores import find_core

PLAIN = {"loop_buffer": 0, "folded_period": 0, "fetch_width": 1000, "retire_width": 1000, "near_pages": 0, "lines_ahead": 0}
PARAMS = core_parameters(find_core("golden-cove")) | PLAIN
ALU, SLOW, FIRST = 1, 2, 3


def _op(class_=ALU, reads=(), addresses=(), writes=(), flags=0, slots=1):
    row = np.zeros(1, dtype=native.OP)[0]
    row["class"], row["flags"], row["slots"] = class_, flags, slots
    for name, registers in (("reads", reads), ("addresses", addresses), ("writes", writes)):
        row[f"n_{name}"] = len(registers)
        row[name][: len(registers)] = registers
    return row


def _walk(ops, visits, *, params=PARAMS, latency=1, ports=1, references=(), sites=(), flags=None, levels=None, latencies=None):
    """Return the cycles of each operation of one segment that is visited again and again; sites: (op, bytes, store)."""
    classes = [PortClass(0, 0, 0, 1), PortClass((1 << ports) - 1, latency, latency, 1), PortClass(1 << 20, 9, 9, 9)]
    classes.append(PortClass(1, latency, latency, 1))  # on the first of the ports only
    columns = list(zip(*sites, strict=True)) if sites else [(), (), ()]
    zero = np.zeros(1, dtype=np.uint64)
    code = Code(np.array([0, len(ops)]), zero, zero, np.array(ops, dtype=native.OP), *(np.array(c) for c in columns))
    core = Core(params, classes, code)
    if levels:
        core.levels(np.zeros(len(sites)), *levels, *(() if len(levels) == 3 else (np.zeros(1),)))
    per_visit = len(sites)
    first = np.arange(visits + 1) * per_visit
    tiled = np.tile(np.arange(per_visit), visits)
    window = PathWindow(0, 1, False, UNKNOWN, 0, np.zeros(visits), first, np.array(references), tiled)
    core.walk(window, flags, latencies)
    assert core.instructions == core.executions.sum() == visits * len(ops)
    return core.cycles


@given(st.integers(1, 300), st.integers(1, 20))
def test_a_chain_takes_the_sum_of_its_latencies(length, latency):
    cycles = _walk([_op(reads=(3,), writes=(3,))], length, latency=latency)
    assert cycles.sum() == length * latency


@given(st.integers(1, 300), st.integers(1, 5))
def test_independent_work_is_bounded_by_its_ports(length, ports):
    """Exactly while the scheduler holds all of them; after that one port may be given one more than another."""
    cycles = _walk([_op(writes=(3,))], length, ports=ports)
    least = -(-length // ports)
    assert least <= cycles.sum() <= least + (length > PARAMS["scheduler"])


@given(st.integers(1, 15))
def test_an_instruction_keeps_to_the_port_that_it_was_bound_to(pairs):
    """All wait for one result. Those with a choice leave a port to those without that were issued before; of those to come they
    know nothing."""
    slow, choosing, bound = _op(SLOW, writes=(3,)), _op(reads=(3,)), _op(FIRST, reads=(3,))
    assert _walk([slow, *[bound] * pairs, *[choosing] * pairs], 1, ports=2).sum() == 9 + pairs
    assert _walk([slow, *[choosing] * 2 * pairs, *[bound] * pairs], 1, ports=2).sum() == 9 + 2 * pairs


@given(st.lists(st.lists(st.sampled_from([ALU, SLOW, FIRST]), max_size=4), min_size=1, max_size=5), st.integers(0, 9), st.data())
def test_turns_of_a_segment_are_walks_of_it_alone(segments, warm, data):
    first = np.cumsum([0, *map(len, segments)])
    ops = np.array([_op(class_, reads=(3,), writes=(3,)) for one in segments for class_ in one], dtype=native.OP)
    address, none = 64 * np.arange(len(segments)), np.zeros(0)
    classes = [PortClass(0, 0, 0, 1), PortClass(7, 1, 1, 1), PortClass(1 << 20, 9, 9, 9), PortClass(1, 2, 2, 1)]
    one, other = (Core(PARAMS, classes, Code(first, address, address + 4, ops, none, none, none)) for _ in range(2))
    chosen = data.draw(st.lists(st.sampled_from(range(len(segments))), unique=True))
    one.turn(np.array(chosen, dtype=np.int64), warm, 7)
    for segment in chosen:
        visits = np.full(warm + 7, segment)
        other.walk(PathWindow(0, 1, False, UNKNOWN, warm, visits, np.zeros(warm + 8), none, none))
    assert np.array_equal(one.cycles, other.cycles)
    assert np.array_equal(one.executions, other.executions)


FILES = {
    "integer_registers": native.INTEGER_RESULT,
    "vector_registers": native.VECTOR_RESULT,
    "flag_registers": native.FLAG_RESULT,
}


@given(st.integers(2, 400), st.integers(1, 3), st.integers(64, 512))
def test_a_window_begins_with_a_full_store_buffer(turns, stores, entries):
    """Code that stores to more than a line a cycle is held up from its first turn, any other not at all."""
    other, store = _op(), _op(flags=native.STORE | native.NO_PORT)
    params = PARAMS | {"store_buffer": entries, "store_ports": 0b11}
    ops, sites = [other, other, *[store] * stores], [(2 + k, 8, True) for k in range(stores)]
    cycles = _walk(ops, turns, params=params, references=64 * np.arange(stores * turns), sites=sites, ports=1).sum()
    assert abs(cycles - turns * max(2, stores)) <= 4


@given(st.integers(1, 300), st.integers(1, 40), st.sampled_from(sorted(FILES)))
def test_as_many_results_are_underway_as_a_file_has_registers(length, registers, file):
    latency, rounds = 1000, -(-length // registers)
    cycles = _walk([_op(flags=FILES[file])], length, latency=latency, ports=20, params=PARAMS | {file: registers}).sum()
    assert rounds * latency <= cycles < rounds * (latency + registers)


@given(st.integers(1, 60), st.permutations(sorted(FILES)))
def test_results_wait_for_no_register_of_another_file(length, files):
    cycles = _walk([_op(flags=FILES[files[0]])], length, latency=1000, ports=20, params=PARAMS | {files[1]: 1, files[2]: 1}).sum()
    assert 1000 <= cycles < 1000 + length


@given(st.integers(1, 200), st.integers(0, 4))
def test_late_ports_never_delay_a_chain_while_one_is_free(length, others):
    chain, beside = _op(reads=(3,), writes=(3,)), [_op(writes=(4,))] * others
    assert _walk([chain, *beside], length, ports=1 + others, params=PARAMS | {"late_ports": 1}).sum() == length


@given(st.integers(1, 64))
def test_microcode_looks_once_at_a_long_string_instruction(turns):
    """One that moves 8 bytes a turn, before a chain of two that does not wait for it."""
    code = Code(
        np.array([0, 1, 3]),
        np.zeros(2, dtype=np.uint64),
        np.zeros(2, dtype=np.uint64),
        np.array([_op(flags=native.REPEATED), *[_op(reads=(3,), writes=(3,))] * 2], dtype=native.OP),
        np.array([0]),
        np.array([8]),
        np.array([1]),
    )

    def cycles(looks):
        core = Core(PARAMS | {"string_cycles": looks}, [PortClass(0, 0, 0, 1), PortClass(1, 1, 1, 1)], code)
        visits = np.array([0] * turns + [1, 1])
        zeros = np.zeros(turns)
        core.walk(PathWindow(0, 1, False, UNKNOWN, 0, visits, np.array([*range(turns + 1), turns, turns]), zeros, zeros), None)
        return core.cycles.sum()

    assert cycles(36) - cycles(0) == (36 if 8 * (turns - 1) > 2 * PARAMS["string_bytes"] else 0)


@given(st.integers(1, 15), st.integers(1, 30))
def test_ports_are_chosen_by_those_that_wait_not_by_those_that_were(pairs, before):
    """What has left the scheduler long ago counts no more."""
    past, pause = [_op(FIRST, writes=(4,))] * before, _op(0, flags=native.NO_PORT, slots=240)
    cycles = _walk([*past, pause, _op(SLOW, writes=(3,)), *[_op(reads=(3,))] * 2 * pairs], 1, ports=2)
    assert cycles[-2 * pairs :].sum() == pairs


@given(st.integers(1, 300), st.integers(1, 6))
def test_what_needs_no_port_is_bounded_by_the_issue_width(length, slots):
    cycles = _walk([_op(0, flags=native.NO_PORT, slots=slots)], length)
    assert cycles.sum() == max(0, -(-length * slots // PARAMS["issue_width"]) - 1)


@given(st.integers(1, 300), st.integers(1, 20))
def test_a_thread_beside_another_waits_no_longer_but_gets_half_the_width(length, latency):
    half = core_parameters(find_core("golden-cove").shared_by(2)) | PLAIN
    assert _walk([_op(reads=(3,), writes=(3,))], length, params=half, latency=latency).sum() == length * latency
    free = [_op(0, flags=native.NO_PORT)] * PARAMS["issue_width"]
    assert _walk(free, length, params=half).sum() == 2 * length - 1


@given(st.integers(1, 40))
def test_a_unit_that_is_not_pipelined_takes_one_after_the_other(length):
    assert _walk([_op(SLOW, writes=(3,))], length).sum() == 9 * length


@given(st.integers(2, 60), st.integers(0, 2), st.booleans())
def test_other_work_goes_on_beside_locked_instructions_of_some_cores(length, others, alone):
    """Each takes its latency (20 cycles on Zen 5, timed), its load included; two operations of 9 cycles beside it take none."""
    locked = _op(writes=(3,), addresses=(5,), flags=native.LOAD | native.STORE | native.LOCKED)
    chain = [_op(SLOW, reads=(4,), writes=(4,))] * others
    about = {"references": np.zeros(2 * length), "sites": [(0, 8, False), (0, 8, True)]}
    cycles = _walk([locked, *chain], length, params=PARAMS | {"locked_alone": int(alone)}, latency=20, **about)
    assert cycles.sum() == (20 + 9 * others * alone) * length


@given(st.integers(2, 60))
def test_a_chain_of_loads_takes_the_load_latency_each(length):
    chase = _op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)
    cycles = _walk([chase], length, references=64 * np.arange(length), sites=[(0, 8, False)])
    assert cycles.sum() == length * PARAMS["load_latency"]


@given(st.integers(2, 60), st.integers(0, 3))
def test_an_index_makes_a_load_wait_longer(length, more):
    chase = _op(0, addresses=(3, 4), writes=(3,), flags=native.LOAD | native.NO_PORT)
    params = PARAMS | {"index_cycles": more}
    cycles = _walk([chase], length, params=params, references=64 * np.arange(length), sites=[(0, 8, False)])
    assert cycles.sum() == length * (PARAMS["load_latency"] + more)


@given(st.integers(2, 60), st.integers(0, 3))
def test_a_compound_address_makes_a_load_wait_longer(length, more):
    chase = _op(0, addresses=(3, 4), writes=(3,), flags=native.LOAD | native.NO_PORT | native.COMPOUND)
    params = PARAMS | {"compound_cycles": more}
    cycles = _walk([chase], length, params=params, references=64 * np.arange(length), sites=[(0, 8, False)])
    assert cycles.sum() == length * (PARAMS["load_latency"] + more)


@given(st.integers(2, 60), st.integers(0, 3), st.booleans())
def test_a_sum_waits_longer_for_its_base_than_index(length, more, by_base):
    summed = _op(reads=(3,), addresses=(4,), writes=(4 if by_base else 3,), flags=native.COMPOUND)
    cycles = _walk([summed], length, params=PARAMS | {"base_cycles": more}).sum()
    assert cycles == length + more * (length if by_base else 1)


@given(st.integers(0, 3), st.integers(1, 5), st.integers(1, 9))
def test_a_page_costs_more_where_too_many_are_used_in_turn(power, turns, cycles):
    chase = _op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)
    kept = 8 << power
    params = PARAMS | {"near_pages": kept, "page_cycles": cycles}

    def total(pages):
        references = np.tile(4096 * np.arange(1, pages + 1), turns)
        return _walk([chase], turns * pages, params=params, references=references, sites=[(0, 8, False)]).sum()

    assert total(kept) == kept * (turns * PARAMS["load_latency"] + cycles)  # each is looked up once
    assert total(2 * kept) == 2 * kept * turns * (PARAMS["load_latency"] + cycles)


@given(st.integers(2, 30), st.integers(20, 200), st.integers(1, 9), st.booleans())
def test_the_latency_of_a_far_level_holds_its_pages(length, latency, cycles, far):
    chase = _op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)
    rates = np.array([[1.0 - far, float(far)]])
    params = PARAMS | {"near_pages": 8, "page_cycles": cycles}
    walked = {"references": FAR_APART * np.arange(1, length + 1), "sites": [(0, 8, False)]}
    total = _walk([chase], length, params=params, levels=(rates, np.full((1, 2), latency)), **walked).sum()
    assert total == length * (latency + (0 if far else cycles))


@given(st.integers(1, 60), st.booleans())
def test_vectors_are_loaded_through_their_own_ports_only(length, vector):
    load = _op(0, writes=(3,), flags=native.LOAD | native.NO_PORT | native.VECTOR * vector)
    params = PARAMS | {"load_ports": 0b111, "vector_load_ports": 0b1}
    cycles = _walk([load], length, params=params, references=np.zeros(length), sites=[(0, 8, False)])
    latency = PARAMS["vector_load_latency" if vector else "load_latency"]
    assert cycles.sum() == latency + (length if vector else -(-length // 3)) - 1


@given(st.booleans(), st.booleans())
def test_vectors_enter_the_cache_alone_where_the_core_says_so(vector, alone):
    store = _op(0, reads=(4,), flags=native.STORE | native.NO_PORT | native.VECTOR * vector)
    params = PARAMS | {"store_ports": 0b11, "lone_vector_stores": alone}
    cycles = [_walk([store], n, params=params, references=np.zeros(n), sites=[(0, 8, True)]).sum() for n in (600, 1000)]
    assert abs((cycles[1] - cycles[0]) / 400 - (1 if vector and alone else 0.5)) < 0.02


@given(st.booleans(), st.sampled_from((16, 32)))
def test_what_is_wider_than_a_port_takes_two_turns_of_it(stores, port_bytes):
    flag = native.STORE if stores else native.LOAD
    op = _op(0, reads=(4,), flags=flag | native.NO_PORT | native.VECTOR)
    params = PARAMS | {"load_ports": 0b11, "store_ports": 0b1, "port_bytes": port_bytes, "split_cycles": 0}
    lines = [64 * np.arange(n) for n in (600, 1000)]
    cycles = [_walk([op], len(at), params=params, references=at, sites=[(0, 32, stores)]).sum() for at in lines]
    assert abs((cycles[1] - cycles[0]) / 400 - (1 if stores else 0.5) * 32 / port_bytes) < 0.02


@given(st.integers(1, 40), st.sampled_from((0, 60, 1 << 20)))
def test_vectors_of_64_bytes_slow_down_others_for_a_while(chain, closed):
    """A chain of ten times as many cycles while ports are closed as while they are open."""
    length = 10 * chain
    open_, other, wide = (PortClass(0b11, 1, 1, 1, closed=2), PortClass(1, 10, 10, 1), PortClass(1, 1, 1, 1))
    ops = [_op(3, flags=native.VECTOR | native.WIDEST), *[_op(1, reads=(3,), writes=(3,), slots=6)] * length]
    zero = np.zeros(1, dtype=np.uint64)
    code = Code(np.array([0, len(ops)]), zero, zero, np.array(ops, dtype=native.OP), *(np.array(()) for _ in range(3)))
    core = Core(PARAMS | {"closed_cycles": closed, "scheduler": 8}, [PortClass(0, 0, 0, 1), open_, other, wide], code)
    core.walk(PathWindow(0, 1, False, UNKNOWN, 0, np.zeros(1), np.zeros(2), np.array(()), np.array(())))
    slow = {0: 0, 60: min(length, 6 + 8), 1 << 20: length}[closed]
    assert abs(core.cycles.sum() - (10 * slow + length - slow)) <= 90


EARLY = 6
"""Lines of a stream before a prefetcher follows it."""
FAR_APART = 1 << 20  # bytes: no stream goes so far
TOGETHER = 3
"""Cycles within which loads of one line get it at once."""


@given(st.integers(2, 60), st.integers(20, 400))
def test_a_chain_of_loads_from_farther_away_takes_that_latency_each(length, latency):
    chase = _op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)
    levels = (np.ones((1, 1)), np.full((1, 1), latency))
    cycles = _walk([chase], length, references=FAR_APART * np.arange(1, length + 1), sites=[(0, 8, False)], levels=levels)
    assert cycles.sum() == length * latency


@given(st.integers(0, 60), st.integers(80, 400))
def test_a_load_that_comes_later_looks_again_for_its_line(steps, latency):
    """One load brings a line; another needs it so many cycles later, while it is on its way."""
    first, step = _op(0, addresses=(9,), flags=native.LOAD | native.NO_PORT), _op(reads=(3,), writes=(3,))
    later = _op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)
    levels = (np.ones((1, 1)), np.full((1, 1), latency))
    references, sites = np.array([FAR_APART, FAR_APART + 8]), [(0, 8, False), (1 + steps, 8, False)]
    cycles = _walk([first, *[step] * steps, later], 1, references=references, sites=sites, levels=levels)
    assert cycles.sum() == latency + PARAMS["load_latency" if steps > TOGETHER else "met_cycles"]


@given(st.integers(2, 5), st.integers(1, 9))
def test_all_loads_of_a_page_wait_for_its_translation(turns, cycles):
    beside, chase = (_op(0, addresses=(3,), writes=written, flags=native.LOAD | native.NO_PORT) for written in ((), (3,)))
    params = PARAMS | {"near_pages": 8, "page_cycles": cycles}
    references = np.tile(np.repeat(4096 * np.arange(1, 17), 2), turns)
    total = _walk([beside, chase], 16 * turns, params=params, references=references, sites=[(0, 8, False), (1, 8, False)]).sum()
    assert total == 16 * turns * (PARAMS["load_latency"] + cycles)


@given(st.integers(2, 60), st.integers(20, 400), st.integers(1, 400))
def test_a_walk_comes_before_the_latency_of_a_chain(length, latency, walk):
    chase = _op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)
    levels = (np.ones((1, 1)), np.full((1, 1), latency), np.full(1, walk))
    cycles = _walk([chase], length, references=FAR_APART * np.arange(1, length + 1), sites=[(0, 8, False)], levels=levels)
    assert cycles.sum() == length * (latency + walk)


@given(st.integers(1, 6), st.integers(100, 400), st.integers(1, 400))
def test_a_load_holds_no_fill_buffer_while_its_page_is_looked_up(rounds, latency, walk):
    """Independent loads take turns in the fill buffers for their lines, while all their pages are looked up side by side."""
    load = _op(0, flags=native.LOAD | native.NO_PORT)
    length = rounds * PARAMS["fill_buffers"]
    far = {"references": FAR_APART * np.arange(1, length + 1), "sites": [(0, 8, False)]}
    rates, latencies = np.ones((1, 1)), np.full((1, 1), latency)
    near = _walk([load], length, levels=(rates, latencies, np.zeros(1)), **far).sum()
    assert near >= rounds * latency
    assert _walk([load], length, levels=(rates, latencies, np.full(1, walk)), **far).sum() == near + walk


@given(st.integers(1, 60), st.integers(1, 4))
def test_levels_share_the_loads_as_their_rates_say(quarters, part):
    """One load in four, two in four ... comes from farther away: exactly as many, evenly."""
    length, latency = 4 * quarters, 100
    chase = _op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)
    levels = (np.full((1, 1), part / 4), np.full((1, 1), latency))
    cycles = _walk([chase], length, references=FAR_APART * np.arange(1, length + 1), sites=[(0, 8, False)], levels=levels)
    assert cycles.sum() == part * quarters * latency + (4 - part) * quarters * PARAMS["load_latency"]


@given(st.integers(2, 60), st.integers(20, 400))
def test_a_stream_is_waited_for_until_it_is_followed(length, latency):
    """Five steps alike make a stream; a prefetcher has the lines after them."""
    chase = _op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)
    levels = (np.ones((1, 1)), np.full((1, 1), latency))
    cycles = _walk([chase], length, references=FAR_APART + 64 * np.arange(length), sites=[(0, 8, False)], levels=levels)
    waited = min(length, EARLY)
    assert cycles.sum() == waited * latency + (length - waited) * PARAMS["load_latency"]


@given(st.integers(1, 16), st.integers(1, 4), st.integers(20, 400))
def test_a_copy_through_several_pages_at_once_is_a_stream_a_page(turns, together, latency):
    """As glibc copies what is large: some lines from each of four pages in turn."""
    chase = _op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)
    levels = (np.ones((1, 1)), np.full((1, 1), latency))
    turn, page, line = (axis.ravel() for axis in np.meshgrid(np.arange(turns), np.arange(4), np.arange(together), indexing="ij"))
    references = FAR_APART + 4096 * page + 64 * (together * turn + line)
    cycles = _walk([chase], len(references), references=references, sites=[(0, 8, False)], levels=levels)
    waited = 4 * min(turns * together, EARLY)
    assert cycles.sum() == waited * latency + (len(references) - waited) * PARAMS["load_latency"]


@given(st.integers(2, 30))
def test_lines_that_stores_bring_pay_what_is_owed_and_nothing_waits(length):
    """Every reference owes half a line: the store after each load pays for both."""
    store = _op(0, addresses=(3,), flags=native.STORE | native.NO_PORT)
    chase = _op(0, addresses=(3,), writes=(3,), flags=native.LOAD | native.NO_PORT)
    levels = (np.full((1, 1), 0.5), np.full((1, 1), 300))
    sites = [(0, 8, False), (1, 8, True)]
    near = _walk([chase, store], length, references=FAR_APART * np.arange(1, 2 * length + 1), sites=sites)
    far = _walk([chase, store], length, references=FAR_APART * np.arange(1, 2 * length + 1), sites=sites, levels=levels)
    assert far.sum() == near.sum()


@given(st.integers(2, 60), st.booleans())
def test_a_value_passed_through_memory_takes_the_forwarding_latency(length, plain):
    """Load, add, store to one place: each turn waits for the one before."""
    flags = native.LOAD | native.STORE | (native.PLAIN if plain else 0)
    update = _op(addresses=(7,), writes=(3,), flags=flags)
    latency = PARAMS["fast_forward_latency" if plain else "forward_latency"]
    cycles = _walk([update], length, references=np.full(2 * length, 64), sites=[(0, 8, False), (0, 8, True)])
    assert cycles.sum() == PARAMS["load_latency"] + 1 + (length - 1) * (latency + 1)


UPDATE = native.LOAD | native.STORE | native.PLAIN


def _passed(row, rows):
    """Return the cycles of values that are passed from place to place, in rows whose first load reads what nobody stored."""
    places = 8 * (row + 2) * np.arange(rows)[:, np.newaxis] + 8 * np.arange(row)
    references = np.stack([places, places + 8], axis=-1).ravel()
    update = _op(addresses=(7,), writes=(3,), flags=UPDATE)
    params = PARAMS | {"fast_forward_latency": 0, "reorder_buffer": 64}
    return _walk([update], row * rows, params=params, references=references, sites=[(0, 8, False), (0, 8, True)]).sum()


def test_a_load_is_renamed_once_it_read_one_store_for_long():
    """Golden Cove takes 5.6 cycles a turn in rows of 64, and less than one in a row without end (timed)."""
    assert _passed(9000, 1) < 1.1 * 9000
    assert _passed(60, 150) > 2 * 9000
    assert _passed(3000, 3) < 1.1 * 9000


def _turn(ops, sites, params, addresses=lambda turn: 64):
    """Return the cycles of a turn of a loop, when everything was met before."""
    walked = [
        _walk(ops, n, params=params, references=np.repeat([addresses(turn) for turn in range(n)], len(sites)), sites=sites).sum()
        for n in (100, 300)
    ]
    return (walked[1] - walked[0]) / 200


@given(st.integers(1, 8))
def test_a_pair_that_is_always_as_far_apart_is_renamed(pairs):
    """Updates of one place in a row, by a changing register: as many as are remembered take what the addition takes."""
    ops = [_op(addresses=(7,), writes=(3, 7), flags=UPDATE)] * pairs
    sites = [site for number in range(pairs) for site in ((number, 8, False), (number, 8, True))]
    params = PARAMS | {"fast_forward_latency": 9}
    assert _turn(ops, sites, params | {"predicted_pairs": 8, "named_pairs": 2}) == pairs
    assert _turn(ops, sites, params | {"named_pairs": 2}) == _turn(ops, sites, params) == 10 * pairs


CHAINS = PARAMS | {"forward_eighths": 59, "vector_forward_latency": PARAMS["forward_latency"]}


@given(st.integers(0, 12), st.booleans(), st.booleans())
def test_turns_of_a_chain_through_memory_take_a_least_time(additions, vector, late):
    """As timed on Golden Cove, but for what it takes more with two to four additions. A move alone is faster, and so is a load
    whose address comes with the store's data."""
    kind = native.VECTOR if vector else 0
    load = _op(0, addresses=(3, 8) if late else (7, 8), writes=(3,), flags=native.LOAD | native.NO_PORT | kind)
    store = _op(0, reads=(3,), addresses=(7, 8), flags=native.STORE | native.NO_PORT | kind)
    ops = [load, *[_op(reads=(3,), writes=(3,))] * additions, store]
    sites = [(0, 8, False), (additions + 1, 8, True)]
    forwarded = PARAMS["forward_latency"] + additions
    least = 59 / 8 if (additions or vector) and not late else 0
    near = PARAMS["vector_load_latency"] + additions if late and vector else 0
    assert _turn(ops, sites, CHAINS) == pytest.approx(max(forwarded, least, near), abs=0.05)
    assert _turn(ops, sites, CHAINS | {"forward_eighths": 0}) == max(forwarded, near)


@pytest.mark.parametrize(("reads", "cycles"), [((), 1), ((9,), 1 + PARAMS["forward_latency"])])
def test_updates_of_memory_by_a_register_may_not_be_renamed(reads, cycles):
    """Timed on Golden Cove: `add $1` to memory takes a cycle, `add` of a register is forwarded."""
    update = [_op(addresses=(7,), reads=reads, writes=(3,), flags=UPDATE)]
    sites, params = [(0, 8, False), (0, 8, True)], PARAMS | {"fast_forward_latency": 0}
    assert _turn(update, sites, params | {"forwarded_updates": 1}) == pytest.approx(cycles, abs=0.02)
    assert _turn(update, sites, params) == pytest.approx(1, abs=0.02)


def test_a_pair_at_changing_distance_is_forwarded():
    update = [_op(addresses=(7,), writes=(3,), flags=UPDATE)]
    sites, params = [(0, 8, False), (0, 8, True)], PARAMS | {"fast_forward_latency": 9, "predicted_pairs": 16}
    assert _turn(update, sites, params, lambda turn: 64 * (turn // 3 % 2)) > 4
    assert _turn(update, sites, params) == 1


@pytest.mark.parametrize(
    ("flags", "addresses", "bytes_", "renamed"),
    [(0, (7,), 8, False), (native.MOVED, (7,), 8, True), (native.MOVED, (7,), 2, False), (0, (7, 8), 4, True)],
)
def test_some_cores_rename_moves_and_indexed_loads_alone(flags, addresses, bytes_, renamed):
    """Loops timed on Zen 3: an operand of an addition, a move, one of two bytes, an operand whose address has an index."""
    load = _op(reads=(3,), addresses=addresses, writes=(3,), flags=native.LOAD | flags)
    ops = [load, _op(0, reads=(3,), addresses=addresses, flags=native.STORE | native.NO_PORT)]
    sites, params = [(0, bytes_, False), (1, bytes_, True)], PARAMS | {"forward_latency": 6, "predicted_pairs": 16}
    assert _turn(ops, sites, params) == 1
    assert _turn(ops, sites, params | {"renamed_moves": 1}) == (1 if renamed else 7)


@given(st.sampled_from([4, 7]), st.integers(0, 2), st.booleans())
def test_a_pair_by_one_name_is_renamed_while_the_register_stays(register, named, rewritten):
    ops = [
        _op(addresses=(register,), writes=(3,), flags=UPDATE),
        _op(0, reads=(9,), writes=(register,) if rewritten else (10,), flags=native.NO_PORT),
    ]
    params = PARAMS | {"fast_forward_latency": 9, "named_pairs": named}
    followed = named and register == native.STACK_POINTER
    renamed = followed or (named == 2 and not rewritten)
    assert _turn(ops, [(0, 8, False), (0, 8, True)], params) == (1 if renamed else 10)


@given(st.integers(2, 40))
def test_a_load_wider_than_the_store_before_waits_for_the_cache(length):
    store = _op(0, flags=native.STORE | native.NO_PORT)
    load = _op(0, writes=(3,), flags=native.LOAD | native.NO_PORT)
    sites = [(0, 4, True), (1, 8, False)]
    narrow = _walk([store, load], length, references=np.full(2 * length, 64), sites=sites).sum()
    whole = _walk([store, load], length, references=np.full(2 * length, 64), sites=[(0, 8, True), (1, 8, False)]).sum()
    assert narrow >= whole + PARAMS["failed_forward_latency"] - PARAMS["forward_latency"]


@given(st.lists(st.booleans(), min_size=2, max_size=80))
def test_each_mispredicted_branch_costs_its_penalty(wrong):
    """Branches whose operands are there resolve as they are issued, so penalties add up; the last one's lies beyond the end."""
    flags = np.where(wrong, MISPREDICTED, 0)
    branch = _op(0, flags=native.NO_PORT, slots=6)
    with_them = _walk([branch], len(wrong), flags=flags).sum()
    assert with_them == len(wrong) - 1 + sum(wrong[:-1]) * (PARAMS["penalty"] - 1)


@given(st.permutations(range(8)), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=12))
def test_the_names_of_registers_do_not_matter(names, edges):
    plain = [_op(reads=(a,), writes=(b,)) for a, b in edges]
    renamed = [_op(reads=(names[a],), writes=(names[b],)) for a, b in edges]
    assert np.array_equal(_walk(plain, 20, latency=3), _walk(renamed, 20, latency=3))


def _independent(kind, count):
    zero = np.zeros(1, dtype=np.uint64)
    ops = np.array([_op(writes=(3,))] * count, dtype=native.OP)
    core = Core(
        PARAMS, [PortClass(0, 0, 0, 1), kind], Code(np.array([0, count]), zero, zero, ops, *(np.array(()) for _ in range(3)))
    )
    core.walk(PathWindow(0, 1, False, UNKNOWN, 0, np.zeros(1), np.zeros(2), np.array(()), np.array(())))
    return core.cycles.sum()


@given(st.integers(1, 60), st.integers(1, 9))
def test_a_unit_busy_for_half_cycles_takes_the_longer_time_every_second_time(count, busy):
    latency = 20
    assert _independent(PortClass(1, latency, latency, busy, half=1), count) == (count - 1) * busy + count // 2 + latency


@given(st.integers(1, 60), st.integers(1, 4))
def test_a_second_micro_operation_takes_a_port_of_its_own(count, ports):
    own = PortClass(1 << 4, 1, 1, 1, also=1 << 5)
    assert _independent(own, count) == count
    shared = _independent(PortClass((1 << ports) - 1, 1, 1, 1, also=(1 << ports) - 1), count)
    assert shared >= (2 * count - 1) / ports, "all but the last one's second micro-operation delay others"


@given(st.integers(1, 60), st.integers(2, 4))
def test_results_wait_for_the_scarcer_port_of_two_micro_operations(count, ports):
    scarce, plenty = 1 << 5, (1 << ports) - 1
    assert _independent(PortClass(plenty, 1, 1, 1, also=scarce), count) == count
    assert _independent(PortClass(scarce, 1, 1, 1, also=plenty), count) == count


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_prefetch_costs_what_its_line_needs_longer_than_the_work_before_its_use(chain, latency):
    """Nothing waits for the prefetch itself; what comes later than right after it looks again once the line is there."""
    ask, use = native.LOAD | native.NO_PORT | native.PREFETCH, native.LOAD | native.NO_PORT
    ops = [
        _op(0, addresses=(5,), flags=ask),
        *[_op(reads=(3,), writes=(3,))] * chain,
        _op(0, addresses=(3,), writes=(4,), flags=use),
    ]
    sites, near = [(0, 1, 0), (chain + 1, 8, 0)], PARAMS["load_latency"]
    wide = PARAMS | {"issue_width": 1000, "reorder_buffer": 1000, "scheduler": 1000, "queue": 1000}
    cycles = _walk(ops, 1, params=wide, references=[4096, 4096], sites=sites, latencies=np.array([latency, 0]))
    more = PARAMS["met_cycles"] if chain <= TOGETHER else near
    assert cycles.sum() == (latency + more if latency > chain + near else chain + near)


ROOT, DIVISION = 1, 2


def _divider(ops, turns):
    """Return the cycles of a turn of a loop of roots and divisions as of Zen 3: 8.5 and 4.5 cycles of one unit."""
    classes = [PortClass(0, 0, 0, 1), PortClass(1, 20, 20, 8, half=1), PortClass(1, 13, 13, 4, half=1)]
    zero, nothing = np.zeros(1, dtype=np.uint64), np.array(())
    code = Code(np.array([0, len(ops)]), zero, zero, np.array(ops, dtype=native.OP), nothing, nothing, nothing)
    core = Core(PARAMS, classes, code)
    core.walk(PathWindow(0, 1, False, UNKNOWN, 0, np.zeros(turns), np.zeros(turns + 1), nothing, nothing))
    return core.cycles.sum() / turns


@given(st.permutations([ROOT, DIVISION] * 3), st.integers(1, 6))
def test_roots_and_divisions_in_any_order_add_up(order, count):
    kinds = order[:count]
    cycles = _divider([_op(kind, writes=(kind,)) for kind in kinds], 60)
    assert abs(cycles - sum(8.5 if kind == ROOT else 4.5 for kind in kinds)) < 0.5


@given(st.integers(1, 5))
def test_divisions_start_in_no_gap_that_is_too_short(divisions):
    """A root waits 20 cycles for the one before, so that divisions are issued into the gaps between roots."""
    cycles = _divider([_op(ROOT, reads=(3,), writes=(3,)), *[_op(DIVISION, writes=(4,))] * divisions], 60)
    assert cycles == pytest.approx(max(20, 8.5 + 4.5 * divisions), rel=0.02)
