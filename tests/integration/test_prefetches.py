"""Software prefetches are recorded by both engines: what they ask for, in order."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from convolver._native.trace_decoder import WINDOW
from convolver.tracing.definitions import PREFETCH, STORE
from convolver.tracing.native_engine import refusal
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace
from tests.integration.tool_runs import PROGRAMS, requires_tool

TURNS = 50
native = pytest.mark.skipif(bool(refusal()), reason="the native engine cannot run here")


def asked_for(room: int) -> list[int]:
    """Return the addresses that programs/prefetches.S asks for."""
    found = []
    for turn in range(TURNS):
        rbx = room + 8 * turn
        found += [rbx, rbx + 64, rbx + 8 + 4096, rbx + 8 + 24, room + 16, room, room, room + 128, room + 256, room + 12]
        found += [room + TURNS - turn, 2**64 - 1]
    return found


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(SamplingPlan(mode="full"), marks=requires_tool, id="valgrind"),
        pytest.param(SamplingPlan(), marks=requires_tool, id="sampled"),
        pytest.param(SamplingPlan(mode="full", engine="native"), marks=native, id="native"),
    ],
)
def test_prefetches_are_references_to_what_they_ask_for(plan: SamplingPlan, tmp_path: Path) -> None:
    program, output = tmp_path / "prefetches", tmp_path / "prefetches.cvt"
    subprocess.run(["gcc", "-nostdlib", "-static", "-no-pie", "-o", program, PROGRAMS / "prefetches.S"], check=True)
    trace([str(program)], output=output, sampling=plan)
    taken = Trace.load(output)
    flags = taken.definitions.sites["flags"]
    assert not (flags[(flags & PREFETCH) != 0] & STORE).any()
    seen = [one.addresses[(flags[one.sites] & PREFETCH) != 0] for one in taken.batches() if one.kind == WINDOW]
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines()
    room = next(int(line.split()[0], 16) for line in symbols if line.endswith(" room"))
    assert np.concatenate(seen).tolist() == asked_for(room)
    assert taken.signature.totals["loads"] == len(asked_for(room))
