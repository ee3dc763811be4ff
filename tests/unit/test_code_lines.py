"""Where lines of code end fetch groups: loops timed on Zen 3, and what the model takes for their code."""

from __future__ import annotations

import numpy as np
import pytest

from convolver._native.core_walk import Core
from convolver._native.path_builder import UNKNOWN, PathWindow
from convolver._native.trace_decoder import INSTRUCTION, MODULE, SEGMENT, SITE
from convolver.execution.core_parameters import core_parameters
from convolver.execution.program import DecodedCode, operations, program_code
from convolver.machine.cores import find_core
from convolver.tracing.definitions import Definitions

TABLE = find_core("zen3")
NOP, LONG_NOP, LEA = b"\x90", b"\x0f\x1f\x80\0\0\0\0", b"\x48\x8d\x40\0"
DECREMENT, BRANCH = b"\x48\xff\xcf", b"\x75\xf0"


def _definitions(instructions, address=4096):
    """Return the definitions of a program of one segment."""
    rows = np.zeros(len(instructions), INSTRUCTION)
    rows["length"] = [len(one) for one in instructions]
    rows["offset"] = np.cumsum(rows["length"]) - rows["length"]
    segment = np.zeros(1, SEGMENT)
    segment["instructions"], segment["address"], segment["code_bytes"] = len(rows), address, rows["length"].sum()
    code = np.frombuffer(b"".join(instructions), dtype=np.uint8)
    return Definitions(np.zeros(0, MODULE), [], segment, rows, np.zeros(0, SITE), code)


def _turn(instructions, address):
    """Return the cycles of a turn of a loop of these instructions, the last of which jumps back to the first."""
    definitions = _definitions(instructions, address)
    decoded = DecodedCode(definitions)
    known = operations(decoded, TABLE)
    core = Core(core_parameters(TABLE), known.classes, program_code(definitions, known))
    none, turns = np.zeros(0, dtype=np.uint64), 100
    core.walk(PathWindow(0, 1, False, UNKNOWN, 20, np.zeros(20 + turns), np.zeros(21 + turns), none, none))
    return round(core.cycles.sum() / turns)


@pytest.mark.parametrize(
    ("instructions", "offset", "cycles"),
    [
        ([NOP] * 4 + [DECREMENT, BRANCH], 55, 1),
        ([NOP] * 4 + [DECREMENT, BRANCH], 56, 2),  # half of the branch
        ([NOP] * 4 + [DECREMENT, BRANCH], 57, 2),  # the branch, which is one with what is before it
        ([NOP] * 4 + [DECREMENT, BRANCH], 63, 2),
        ([NOP] * 4 + [DECREMENT, BRANCH], 64, 1),
        ([NOP, NOP, DECREMENT, LEA, BRANCH], 53, 1),
        ([NOP, NOP, DECREMENT, LEA, BRANCH], 54, 2),
        ([LONG_NOP, NOP, DECREMENT, BRANCH], 58, 2),  # the first instruction begins before the line of the others
        ([LONG_NOP, NOP, DECREMENT, BRANCH], 63, 2),
        ([LONG_NOP, NOP, DECREMENT, BRANCH], 64, 1),
    ],
)
def test_an_instruction_belongs_to_the_line_in_which_it_ends(instructions, offset, cycles):
    assert _turn(instructions, 4096 + offset) == cycles


def test_direct_branches_go_where_their_bytes_say():
    code = [b"\x75\xfe", b"\x75\x10", b"\xeb\x10", b"\x0f\x84\x00\x01\x00\x00", b"\xe8\xfb\xff\xff\xff", b"\xff\xe0", NOP]
    assert DecodedCode(_definitions(code)).target.tolist() == [0, 18, 18, 262, 0, 0, 0]
