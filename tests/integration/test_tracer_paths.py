"""Bursts hold the executed path: every visit is followed by what was executed next, and its code is known."""

from __future__ import annotations

import itertools
import struct
import subprocess
from pathlib import Path

from convolver.tracing.branch_code import Codes, transfers
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace
from tests.integration.tool_runs import PROGRAMS, program, requires_tool
from tests.oracle import wire_oracle as wire
from tests.path_pieces import pieces_of

pytestmark = requires_tool
BARE = ("-O2", "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector")
BURSTS = ("--mode=sample", "--interval=1000", "--sample=100")


def _successors(segment: wire.Segment) -> set[int] | None:
    """Where control can go after a segment; None: anywhere."""
    last = segment.instructions[-1]
    end = segment.address + last.offset + last.length
    code = segment.code[last.offset : last.offset + last.length]
    if not transfers(Codes.of([code]))[0]:
        return {end, segment.address + last.offset}  # a divided instruction (rep) comes again
    if 0x70 <= code[0] < 0x80 or code[0] == 0xEB:
        return {end + struct.unpack("<b", code[1:2])[0]} | ({end} if code[0] != 0xEB else set())
    if code[0] in (0xE8, 0xE9):
        return {end + struct.unpack("<i", code[1:5])[0]}
    if code[0] == 0x0F and 0x80 <= code[1] < 0x90:
        return {end + struct.unpack("<i", code[2:6])[0], end}
    return None


def _windows(events: list[wire.Event]) -> list[list[int]]:
    windows: list[list[int]] = []
    for event in events:
        if isinstance(event, wire.WindowOpen):
            windows.append([])
        elif isinstance(event, wire.Visit):
            windows[-1].append(event.segment)
    return windows


def test_each_visit_of_a_burst_is_followed_by_what_was_executed_next(runner):
    traced = runner.trace([program(runner.folder, PROGRAMS / "bare.c", *BARE)], *BURSTS)
    direct = 0
    for visits in _windows(traced.events):
        for here, there in itertools.pairwise(traced.segments[number] for number in visits):
            possible = _successors(here)
            direct += possible is not None
            assert possible is None or there.address in possible
    assert direct > 1000


def test_a_loop_without_references_closes_its_window(runner):
    binary = program(runner.folder, PROGRAMS / "spin.c", *BARE)
    windows = _windows(runner.trace([binary], *BURSTS).events)
    assert len(windows) > 15
    assert max(len(visits) for visits in windows) <= 16 * 100 + 2
    assert sum(len(visits) > 1000 for visits in windows) > 0


def test_paths_can_be_left_out(runner):
    binary = program(runner.folder, PROGRAMS / "spin.c", *BARE)
    traced = runner.trace([binary], *BURSTS, "--all-visits=no")
    assert all(traced.segments[visit.segment].sites for visit in traced.of(wire.Visit))


def test_the_table_of_segments_holds_the_code(tmp_path):
    binary = program(tmp_path, PROGRAMS / "spin.c", *BARE)
    recorded = trace([binary], output=tmp_path / "spin.cvt", sampling=SamplingPlan(interval=1000, sample=100))
    assert recorded.whole_paths
    table = recorded.segments
    own = table.filter(table["executions"] > 0)
    binary_bytes = Path(binary).read_bytes()
    for offset, code in own.select("offset", "code").iter_rows():
        assert code
        assert binary_bytes[offset : offset + len(code)] == code
    loop = own.filter(own["executions"] > 20 * 90_000).row(0, named=True)
    disassembled = subprocess.run(["objdump", "-d", binary], capture_output=True, text=True, check=True).stdout
    assert f"{loop['address']:x}:\t{loop['code'][:3].hex(' ')}" in disassembled
    assert recorded.signature.table["executions"][loop["block"]] == 20 * 100_000


def test_windows_of_a_trace_file_hold_its_references_and_its_path(tmp_path):
    binary = program(tmp_path, PROGRAMS / "spin.c", *BARE)
    recorded = trace([binary], output=tmp_path / "spin.cvt", sampling=SamplingPlan(interval=1000, sample=100))
    windows = pieces_of(recorded, 64)
    assert max(len(window.segments) for window in windows) == 64
    assert sum(len(window.addresses) for window in windows) == recorded.header["recorded_references"]
    assert {window.window for window in windows} == set(range(1, recorded.header["windows"] + 1))


def test_generated_code_keeps_its_bytes(tmp_path):
    binary = program(tmp_path, PROGRAMS / "modifies.c", "-static")
    recorded = trace([binary], output=tmp_path / "modifies.cvt", sampling=SamplingPlan(interval=1000, sample=100))
    codes = recorded.segments.filter(recorded.segments["module"] == "")["code"].to_list()
    assert {b"\xb8" + struct.pack("<i", number) + b"\xc3" for number in range(5)} <= set(codes)
