"""Laws of the front end in the core model: targets that are near, lines of code that are not."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convolver._native import core as native
from convolver._native.branches import MISPREDICTED
from convolver._native.core import Code, Core, PortClass
from convolver._native.paths import UNKNOWN, PathWindow
from convolver.probing.core import capacity
from convolver.probing.front import FEW, JUMPS, MANY, front_figures
from tests.property.test_core_model import PARAMS, _op

LINE = 64
NEAR = PARAMS | {"near_targets": 0, "code_bytes": 0, "taken_cycles": 1}


def _rounds(params, jumps, rounds, flags=None, slots=1):
    """Return the cycles of so many rounds through segments of one instruction, one a line, each of which jumps to the next."""
    op = np.array([_op(0, flags=native.NO_PORT, slots=slots)] * jumps, dtype=native.OP)
    address = (1 + 2 * np.arange(jumps, dtype=np.uint64)) * LINE
    none = np.zeros(0, dtype=np.uint16)
    code = Code(np.arange(jumps + 1), address, address + np.uint64(4), op, none, none, none)
    core = Core(params, [PortClass(0, 0, 0, 1)], code)
    visits = np.tile(np.arange(jumps), rounds)
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
def test_a_slow_target_costs_nothing_behind_a_block_that_takes_as_long_to_fetch(jumps, far):
    params = NEAR | {"near_targets": 4, "far_taken_cycles": far, "issue_width": 1, "fetch_width": 1}
    jumps += 8
    assert _steady(params, jumps, slots=far) == _steady(params | {"near_targets": 0}, jumps, slots=far) == jumps * far


@given(st.integers(0, 3), st.integers(1, 9))
def test_lines_of_code_come_one_after_the_other_where_the_first_level_is_too_small(power, cycles):
    lines = 16 << power
    params = NEAR | {"code_bytes": lines * LINE, "code_line_cycles": cycles, "code_latency": 99}
    assert _steady(params, lines // 2) == lines // 2
    assert _steady(params, lines + 16) == (lines + 16) * cycles


@given(st.integers(1, 60))
def test_a_line_behind_a_mispredicted_branch_is_waited_for_from_beginning_to_end(latency):
    params = NEAR | {"code_bytes": 8 * LINE, "code_line_cycles": 4, "code_latency": latency}
    jumps = 24
    near = _steady(params | {"code_bytes": 0}, jumps, flags=MISPREDICTED, slots=6)
    assert _steady(params, jumps, flags=MISPREDICTED, slots=6) == near + jumps * latency


def _probe(targets, lines, far, line):
    """A core that is asked as the probe asks it, without noise."""

    def cycles(kind, count):
        each = 1.0 if count <= targets else far
        return [each if kind == JUMPS or count <= lines else max(each, line)] * 3

    return cycles


def _figure(name, samples):
    return (name, samples[0])


@given(st.sampled_from([128, 256, 512, 1024]), st.sampled_from([512, 768, 1024]), st.integers(2, 4), st.integers(6, 9))
def test_the_sizes_of_tables_are_found_as_they_are(targets, lines, far, line):
    near, many, last, found, code = front_figures(_probe(targets, lines, float(far), float(line)), capacity, _figure)
    assert (near, many, last) == (("front.near", 1.0), ("front.far", far), ("front.line", line))
    assert (found.value, code.value) == (targets, lines)


def test_a_core_that_follows_all_jumps_alike_has_no_table_that_shows():
    assert FEW < MANY
    *_, targets, code = front_figures(_probe(1 << 20, 512, 1.0, 4.0), capacity, _figure)
    assert targets is None
    assert code.value == 512


def test_a_probe_that_ended_tells_nothing():
    assert front_figures(lambda kind, count: [], capacity, _figure) == []
