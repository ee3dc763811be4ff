"""Laws of the front end in the core model: targets that are near, lines of code that are not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver._native import core_walk as native
from convolver._native.branch_predictor import MISPREDICTED, OVERRIDDEN
from convolver._native.core_walk import Code, Core, PortClass
from convolver._native.path_builder import UNKNOWN, PathWindow
from convolver.machine.core_figures import FORESEEN
from convolver.probing.core_probe import capacity
from convolver.probing.front import FEW, JUMPS, MANY, front_figures, loop_figures
from tests.property.test_core_model import PARAMS, _op

LINE = 64
NEAR = PARAMS | {"near_targets": 0, "code_bytes": 0, "taken_cycles": 1}


def _rounds(params, jumps, rounds, flags=None, slots=1, op_flags=0, apart=2 * LINE, order=None, begin=LINE):
    """Return the cycles of so many rounds through segments of one instruction, each of which jumps to the next of an order."""
    op = np.array([_op(0, flags=native.NO_PORT | op_flags, slots=slots)] * jumps, dtype=native.OP)
    address = begin + apart * np.arange(jumps, dtype=np.uint64)
    none = np.zeros(0, dtype=np.uint16)
    code = Code(np.arange(jumps + 1), address, address + np.uint64(4), op, none, none, none)
    core = Core(params, [PortClass(0, 0, 0, 1)], code)
    visits = np.tile(np.arange(jumps) if order is None else order, rounds)
    zero = np.zeros(len(visits) + 1)
    window = PathWindow(0, 1, False, UNKNOWN, 0, visits, zero, none, none)
    core.walk(window, None if flags is None else np.full(len(visits), flags))
    return int(core.cycles.sum())


def _steady(params, jumps, **options):
    """Return the cycles of a round when everything was met before."""
    return (_rounds(params, jumps, 12, **options) - _rounds(params, jumps, 4, **options)) / 8


@given(st.integers(0, 4), st.integers(1, 6))
def test_taken_branches_that_are_near_end_a_cycle_and_all_others_more(power, far):
    """Every other line holds a jump, so that half of the table's sets are used."""
    entries = 8 << power
    params = NEAR | {"near_targets": entries, "far_taken_cycles": far}
    assert _steady(params, entries // 2) == entries // 2
    assert _steady(params, entries + 8) == (entries + 8) * far


@given(st.integers(2, 40), st.integers(2, 6))
def test_a_slow_target_costs_nothing_after_a_block_that_takes_as_long_to_fetch(jumps, far):
    params = NEAR | {"near_targets": 4, "far_taken_cycles": far, "issue_width": 1, "fetch_width": 1}
    jumps += 8
    assert _steady(params, jumps, slots=far) == _steady(params | {"near_targets": 0}, jumps, slots=far) == jumps * far


@given(st.integers(0, 3), st.integers(1, 9))
def test_lines_of_code_come_one_after_the_other_where_the_first_level_is_too_small(power, cycles):
    lines = 16 << power
    params = NEAR | {"code_bytes": lines * LINE, "code_line_cycles": cycles, "code_latency": 99}
    assert _steady(params, lines // 2) == lines // 2
    assert _steady(params, lines + 16) == (lines + 16) * cycles


@given(st.integers(1, 64), st.integers(1, 2**34), st.sampled_from([16, LINE, 3 * LINE]), st.randoms(use_true_random=False))
def test_code_shifted_by_whole_lines_takes_the_same_cycles(jumps, lines, apart, random):
    params = NEAR | {"near_targets": 16, "target_ways": 2, "far_taken_cycles": 3, "code_bytes": 16 * LINE, "code_line_cycles": 4}
    order = random.choices(range(jumps), k=jumps)
    first, shifted = (_rounds(params, jumps, 4, apart=apart, order=order, begin=begin) for begin in (LINE, LINE * (1 + lines)))
    assert first == shifted


@given(st.integers(1, 60))
def test_a_line_after_a_mispredicted_branch_is_waited_for_from_beginning_to_end(latency):
    params = NEAR | {"code_bytes": 8 * LINE, "code_line_cycles": 4, "code_latency": latency}
    jumps = 24
    near = _steady(params | {"code_bytes": 0}, jumps, flags=MISPREDICTED, slots=6)
    assert _steady(params, jumps, flags=MISPREDICTED, slots=6) == near + jumps * latency


def _turn(params, lines, turns=(12, 72)):
    """Return the cycles of a turn, of those between two, of a loop over lines of so many instructions of one slot each."""
    both = native.NEW_LINE | native.NEW_END
    new = [both * (line > 0 and i == 0) for line, slots in enumerate(lines) for i in range(slots)]
    op = np.array([_op(0, flags=native.NO_PORT | flag) for flag in new], dtype=native.OP)
    none, address = np.zeros(0, dtype=np.uint16), np.array([LINE], dtype=np.uint64)
    code = Code(np.array([0, len(op)]), address, address + np.uint64(LINE * len(lines)), op, none, none, none)

    def cycles(rounds):
        core = Core(params, [PortClass(0, 0, 0, 1)], code)
        core.walk(PathWindow(0, 1, False, UNKNOWN, 0, np.zeros(rounds), np.zeros(rounds + 1), none, none), None)
        return int(core.cycles.sum())

    first, last = turns
    return (cycles(last) - cycles(first)) / (last - first)


@given(st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_a_fetch_group_ends_where_a_line_of_code_does(lines, each, ends):
    steady = _turn(NEAR | {"near_targets": 1024, "code_window": LINE * ends}, [each] * lines)
    assert steady == (lines if ends else max(1, lines * each / PARAMS["issue_width"]))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(2, 40))
def test_a_predicted_line_takes_half_a_cycle_after_the_one_before(lines, ahead):
    """On Raptor Cove loops of five slots in two lines take one cycle a turn or two, those of fifteen what their issue takes."""
    params = NEAR | {"near_targets": 1024, "lines_ahead": ahead}
    few = _turn(params, lines, (7, 19))
    assert abs(few - max((len(lines) + 1) / 2, sum(lines) / PARAMS["issue_width"])) <= 1 / 6
    many = _turn(params, lines, (100, 160))
    assert abs(many - max(1, sum(lines) / PARAMS["issue_width"])) <= 1 / 6


@given(st.integers(21, 60), st.integers(2, 20))
def test_lines_of_a_loop_are_known_ahead_where_it_was_long_before(long, short):
    """On Raptor Cove nests of loops across two lines take a cycle a turn from about 20 turns on."""
    params = NEAR | {"lines_ahead": 16}
    within = {turns: _end(params, turns) for turns in (long, short)}
    across = {turns: _end(params, turns, lines=2) for turns in (long, short)}
    assert across[long] - within[long] <= 1
    assert across[short] - within[short] >= (short - 1) / 2


@given(st.integers(1, 6))
def test_a_branch_that_history_overrides_delays_what_is_predicted(more):
    params = NEAR | {"lines_ahead": 16, "override_cycles": more}
    assert _steady(params, 8, flags=OVERRIDDEN) == 8 * (1 + more)
    assert _steady(params, 8) == 8
    slots = PARAMS["issue_width"] * (1 + more)
    assert _steady(params, 8, flags=OVERRIDDEN, slots=slots) == 8 * (1 + more)


@given(st.integers(1, 4))
def test_an_indirect_jump_takes_longer_most_where_it_went_elsewhere(more):
    params = NEAR | {"indirect_cycles": more}
    assert _steady(params, 8, op_flags=native.INDIRECT) == 8 * (1 + more)
    assert _steady(params, 3, order=[0, 1, 0, 2], op_flags=native.INDIRECT) == 2 * (1 + 2 * more) + 2 * (1 + more)


@pytest.mark.parametrize(
    ("lines", "cycles"),
    [
        ([1], 1),
        ([12], 1),
        ([13], 3),
        ([24], 3),
        ([25], 5),
        ([30], 5),
        ([6, 6], 1),
        ([6, 7], 2),
        ([10, 9], 2),
        ([9, 9, 9, 9], 4),
        ([16, 1], 4),
    ],
)
def test_two_entries_of_decoded_code_come_in_a_cycle(lines, cycles):
    """Loops timed on Zen 5: instructions by line, and cycles a turn."""
    wide = {"issue_width": 1000, "fetch_width": 12, "entry_slots": 6, "code_window": LINE}
    assert _turn(NEAR | {"near_targets": 1024, **wide}, lines) == cycles


@given(st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_code_that_is_not_decoded_yet_comes_through_the_decoders(power, width, fits):
    """A loop over lines of four slots, each of which takes an entry of eight."""
    lines = 8 << power
    params = NEAR | {"near_targets": 1024, "decoded_ops": 8 * lines if fits else 4 * lines, "decode_width": width}
    assert abs(_turn(params, [4] * lines) - lines * 4 / (PARAMS["issue_width"] if fits else width)) <= 1


def _probe(targets, lines, far, line):
    """A core that is asked as the probe asks it, without noise."""

    def cycles(kind, count):
        each = 1.0 if count <= targets else far
        return [each if kind == JUMPS or count <= lines else max(each, line)] * 3

    return cycles


@given(st.sampled_from([128, 256, 512, 1024]), st.sampled_from([512, 768, 1024]), st.integers(2, 4), st.integers(6, 9))
def test_the_sizes_of_tables_are_found_as_they_are(targets, lines, far, line):
    near, crowded, many, last, found, code = front_figures(_probe(targets, lines, float(far), float(line)), capacity)
    found_cycles = [(one.name, one.value) for one in (near, crowded, many, last)]
    assert found_cycles == [("front.near", 1.0), ("front.crowded", 1.0), ("front.far", far), ("front.line", line)]
    assert (found.value, code.value) == (targets, lines)


def test_fewer_targets_than_the_few_that_are_near_are_none():
    """As timed on Emerald Rapids: 64 jumps took 1.2 cycles, 32 took 1.9."""

    def cycles(kind, count):
        return [{16: 1.0, 32: 1.9, FEW: 1.2}.get(count, 2.0 if kind == JUMPS else 4.0)] * 3

    assert front_figures(cycles, capacity)[4] is None


def test_a_core_that_follows_all_jumps_alike_has_no_table_that_shows():
    assert FEW < MANY
    *_, targets, code = front_figures(_probe(1 << 20, 512, 1.0, 4.0), capacity)
    assert targets is None
    assert code.value == 512


def test_a_probe_that_ended_tells_nothing():
    assert front_figures(lambda kind, count: [], capacity) == []


def _loops(params, turns, rounds, slots=1, flags=0, lines=1):
    """Return the cycles of so many rounds through a loop of one segment, an instruction in each of its lines of code, and a
    segment after it that jumps back to it."""
    new = native.NO_PORT | native.NEW_LINE | native.NEW_END
    loop = [_op(0, flags=new if line else native.NO_PORT, slots=slots) for line in range(lines)]
    op = np.array([*loop, _op(0, flags=native.NO_PORT)], dtype=native.OP)
    address = np.array([LINE, LINE * lines + 4], dtype=np.uint64)
    none = np.zeros(0, dtype=np.uint16)
    after = np.array([LINE * lines + 4, LINE * lines + 8], dtype=np.uint64)
    code = Code(np.array([0, lines, lines + 1]), address, after, op, none, none, none)
    core = Core(params, [PortClass(0, 0, 0, 1)], code)
    visits = np.tile(np.array([0] * turns + [1]), rounds)
    window = PathWindow(0, 1, False, UNKNOWN, 0, visits, np.zeros(len(visits) + 1), none, none)
    core.walk(window, None if flags is None else np.full(len(visits), flags))
    return int(core.cycles.sum())


def _end(params, turns, **options):
    """Return the cycles of a round more."""
    return (_loops(params, turns, 9, **options) - _loops(params, turns, 3, **options)) / 6


@given(st.integers(3, 50), st.integers(2, 50), st.integers(10, 40))
def test_the_end_of_a_loop_is_mispredicted_once_the_buffer_has_it(turns, buffered, penalty):
    params = NEAR | {"loop_buffer": 6, "loop_turns": buffered, "penalty": penalty, "issue_width": 1, "fetch_width": 1}
    without = _end(params | {"loop_buffer": 0}, turns)
    extra = _end(params, turns) - without
    assert extra >= penalty - 1 if turns > buffered else extra == 0
    assert _end(params, turns, slots=7) == _end(params | {"loop_buffer": 0}, turns, slots=7)
    assert _end(params, turns, flags=None) <= without


@given(st.integers(2, 8), st.integers(1, 60))
def test_a_loop_in_the_buffer_is_not_held_up_by_its_branch(far, more):
    """Six slots a cycle, in place of a turn in so many cycles."""
    params = NEAR | {"loop_buffer": 6, "loop_turns": 4, "taken_cycles": far, "far_taken_cycles": far}
    more *= PARAMS["issue_width"]
    assert _end(params, 120 + more, flags=None) - _end(params, 120, flags=None) == more / PARAMS["issue_width"]
    unbuffered = params | {"loop_buffer": 0}
    assert _end(unbuffered, 12 + more, flags=None) - _end(unbuffered, 12, flags=None) == more * far


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from([("return_cycles", native.RETURN), ("call_cycles", native.CALL)]))
def test_calls_and_returns_end_as_many_cycles_as_the_core_says(jump, more, kind):
    name, flag = kind
    params = NEAR | {"taken_cycles": jump, "far_taken_cycles": jump, name: jump + more}
    assert _steady(params, 8) == 8 * jump
    assert _steady(params, 8, op_flags=flag) == 8 * (jump + more)


@given(st.integers(2, 6))
def test_a_jump_that_went_elsewhere_before_is_a_far_one(far):
    """One jump goes to two others, which come back; a return is foreseen by where the call was."""
    params = NEAR | {"near_targets": 64, "far_taken_cycles": far}
    assert _steady(params, 3, order=[0, 1, 0, 2]) == 2 * far + 2
    assert _steady(params, 3, order=[0, 1, 0, 1]) == 4
    assert _steady(params | {"return_cycles": 1}, 3, order=[0, 1, 0, 2], op_flags=native.RETURN) == 4


@given(st.integers(1, 7), st.integers(2, 5))
def test_as_many_branches_of_a_line_are_near_as_it_has_ways(ways, far):
    params = NEAR | {"near_targets": 64 * ways, "target_ways": ways, "far_taken_cycles": far}
    assert _steady(params, ways, apart=8) == ways
    assert _steady(params, ways + 1, apart=8) == (ways + 1) * far


def _buffering(turns, slots, *, penalty=22.0):
    """A core with a loop buffer, asked as the probe asks it."""

    def cycles(kind, count):
        size = int(kind.removeprefix("loop."))
        return [count * max(size / 6, 1.0) + 3 + penalty * (count > turns and size <= slots)] * 3

    return cycles


@given(st.integers(17, 60), st.integers(2, 150))
def test_the_turns_and_the_size_of_a_loop_buffer_are_found(turns, slots):
    found = loop_figures(_buffering(turns, slots), capacity)
    assert [(one.name, one.value, one.low, one.high) for one in found] == [
        ("front.loop", turns, turns, turns),
        ("front.loop_slots", slots, slots, slots),
        ("front.end", 3, 3, 3),
    ]


def test_a_core_that_foresees_all_ends_has_no_loop_buffer():
    found, slots, end = loop_figures(_buffering(34, 0), capacity)
    assert (found.name, found.value, found.low, found.high, slots) == ("front.loop", FORESEEN, FORESEEN, FORESEEN, None)
    assert (end.name, end.value) == ("front.end", 3)


def test_a_core_that_foresees_no_end_shows_no_loop_buffer():
    assert loop_figures(_buffering(34, 1 << 20), capacity) == [None, None, None]


def test_turns_are_found_after_a_step_that_is_none_and_between_disturbances():
    """As on a core whose ends after 21 turns take longer, and whose co-runner makes every third look dearer."""
    clean, looks = _buffering(34, 40), itertools.count()

    def cycles(kind, count):
        return [one + 9 * (21 < count <= 34) + 25 * (next(looks) % 3 == 0) for one in clean(kind, count)]

    found = loop_figures(cycles, capacity)[0]
    assert (found.name, found.value, found.low, found.high) == ("front.loop", 34, 34, 34)


def test_ends_that_are_missed_now_and_then_show_no_turns():
    clean = _buffering(34, 40)

    def cycles(kind, count):
        return [one + 25 * (count < 34 and count % 3 == 0) for one in clean(kind, count)]

    assert loop_figures(cycles, capacity) == [None, None, None]


def test_a_probe_that_ended_tells_nothing_of_loops():
    assert loop_figures(lambda kind, count: [], capacity) == [None, None, None]
