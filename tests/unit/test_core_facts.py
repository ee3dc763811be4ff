"""What was measured of a Zen 3 server's core, one kind of instruction after the other, against its table and the walk.

``zen3-facts.json`` holds the machine code of pieces and what was timed beside a clock and a witness of the other thread:
``alone``, 24 copies that wait for nothing, in cycles a copy; ``chain``, a piece whose copies wait for each other, in cycles a
piece. ``slots`` of copies alone are from one among 23 no-operations.
"""

from __future__ import annotations

import json
from pathlib import Path

import capstone
import numpy as np
import pytest

from convolver._native.core_walk import Core
from convolver._native.path_builder import UNKNOWN, PathWindow
from convolver._native.trace_decoder import INSTRUCTION, MODULE, SEGMENT, SITE
from convolver.execution.core_parameters import core_parameters
from convolver.execution.instructions import decode
from convolver.execution.program import DecodedCode, operations, program_code
from convolver.machine.cores import find_core
from convolver.tracing.definitions import STORE, Definitions

FACTS = json.loads(Path(__file__).with_name("zen3-facts.json").read_text())
LOOP = bytes.fromhex("49ffcb0f8500000000")
"""Counts r11 down; where its branch goes is said by the path."""
ALONE_COPIES, CHAIN_COPIES = 24, 48
WARM, TURNS = 8, 24
MEMORY = 1 << 20
WITHIN = 0.09
"""Latencies that are no whole number of cycles, and units that are not busy for half cycles, are rounded in the table."""


def _loop(code):
    """Return the definitions of a loop, and the addresses of a turn's references."""
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    rows, sites, addresses = [], [], []
    for number, found in enumerate(engine.disasm(code, 0)):
        known = decode(bytes(found.bytes))
        rows.append((found.address, found.size))
        for one in found.operands:
            if one.type == capstone.x86.X86_OP_MEM and (known.loads or known.stores):
                sites.append((number, one.size, STORE if known.stores else 0))
                addresses.append(MEMORY + one.mem.disp)
    segment, instructions, places = np.zeros(1, SEGMENT), np.zeros(len(rows), INSTRUCTION), np.zeros(len(sites), SITE)
    segment["instructions"], segment["sites"], segment["address"], segment["code_bytes"] = (
        len(rows),
        len(sites),
        1 << 16,
        len(code),
    )
    instructions["offset"], instructions["length"] = np.array(rows).T
    if sites:
        places["instruction"], places["size_bytes"], places["flags"] = np.array(sites).T
    text = np.frombuffer(code, dtype=np.uint8)
    return Definitions(np.zeros(0, MODULE), [], segment, instructions, places, text), np.array(addresses, dtype=np.uint64)


def _cycles(code, table):
    """Return the cycles of a turn of a loop in the walk over a table."""
    definitions, addresses = _loop(code + LOOP)
    known = operations(DecodedCode(definitions), table)
    core = Core(core_parameters(table), known.classes, program_code(definitions, known))
    turns, count = WARM + TURNS, len(addresses)
    sites = np.tile(np.arange(count), turns)
    core.walk(
        PathWindow(0, 1, False, UNKNOWN, WARM, np.zeros(turns), np.arange(turns + 1) * count, np.tile(addresses, turns), sites)
    )
    return core.cycles.sum() / TURNS


@pytest.mark.parametrize("name", FACTS["alone"])
def test_a_kind_alone_takes_what_was_measured(name):
    code, measured = FACTS["alone"][name]
    assert _cycles(4 * bytes.fromhex(code), find_core("zen3")) / (4 * ALONE_COPIES) == pytest.approx(measured, rel=WITHIN)


@pytest.mark.parametrize("name", FACTS["chain"])
def test_a_chain_takes_what_was_measured(name):
    code, measured = FACTS["chain"][name]
    assert _cycles(CHAIN_COPIES * bytes.fromhex(code), find_core("zen3")) / CHAIN_COPIES == pytest.approx(measured, rel=WITHIN)


@pytest.mark.parametrize("name", FACTS["slots"])
def test_a_kind_takes_as_many_slots_as_measured(name):
    definitions, _ = _loop(bytes.fromhex(FACTS["alone"][name][0]))
    assert operations(DecodedCode(definitions), find_core("zen3")).op["slots"].sum() == ALONE_COPIES * FACTS["slots"][name]


def test_forwarding_takes_what_was_measured():
    """Cycles of a store and its load in a chain of 96: 6.1 of general registers, 9.0 of vectors, 17.9 where it fails."""
    params = core_parameters(find_core("zen3"))
    assert (params["forward_latency"], params["vector_forward_latency"], params["failed_forward_latency"] + 2) == (6, 9, 18)
    assert params["split_store_cycles"] == 2, "a store across a line takes 2.0 cycles"


def test_control_words_cost_less_than_microcode_that_waits_for_all():
    """On Zen 3 stmxcsr takes 15.1 cycles and ldmxcsr 1.5; Intel's take 1.0 (LLVM's scheduling models)."""
    for name in ("skylake", "broadwell", "ice-lake", "golden-cove"):
        for code in ("0fae5f40", "0fae5740"):
            assert _cycles(ALONE_COPIES * bytes.fromhex(code), find_core(name)) / ALONE_COPIES == pytest.approx(1, rel=WITHIN)
