"""Machines with options on the command line: simulate, share, explore, machine show; on a small trace file of two threads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from convolver._native.trace_decoder import Decoder
from convolver.simulation.hit_rates import HitRates
from convolver.tracing.writer import TraceWriter
from tests.wire_streams import Segment, Site, Stream

OPTIONS = Path(__file__).resolve().parents[2] / "examples" / "options.machine.json"
SMALL = {
    "schema": "convolver.machine",
    "version": 2,
    "name": "small",
    "hierarchy": [
        {"level": "L1", "size_bytes": 512, "ways": 2},
        {"level": "L2", "size_bytes": 4096, "ways": 4, "shared": True},
    ],
    "tlb": [{"level": "DTLB", "entries": 2, "ways": 2}, {"level": "DTLB", "entries": 2, "ways": 2, "page_bytes": 1 << 21}],
}


@pytest.fixture
def trace(tmp_path):
    """300 visits of a block with a store and a load 4 KiB above it, by two threads in turns of 50, each over lines of its own."""
    stream = Stream()
    stream.module("/usr/bin/some")
    stream.segment(Segment(0x400000, [4, 3], [Site(flags=1), Site(displacement=4096, instruction=1)], words=1))
    for visit in range(300):
        thread = visit // 50 % 2
        if visit % 50 == 0:
            stream.control(1, 1 + thread)
        stream.visit(0, [0x10000 + 0x4000 * thread + visit % 6 * 40])
    path = tmp_path / "app.cvt"
    decoder = Decoder()
    decoder.record()
    decoder.feed(stream.bytes())
    writer = TraceWriter(path, {"command": ["x"], "sampling": {"mode": "full"}})
    writer.put_recorded(decoder.take())
    writer.put_counts((300).to_bytes(8, "little"))
    writer.finish({"complete": True})
    (tmp_path / "small.machine.json").write_text(json.dumps(SMALL))
    return path


def test_simulate_shows_bytes_causes_pages_and_lines(trace, tmp_path, convolver):
    machine = tmp_path / "small.machine.json"
    shown = convolver("simulate", trace, "-m", machine, "--causes", "--lines", "3")
    assert shown.returncode == 0, shown.stderr
    assert all(word in shown.stdout for word in ("compulsory", "conflict", "DTLB", "4 KiB", "misses per thousand instructions"))
    as_json = json.loads(convolver("simulate", trace, "-m", machine, "--causes", "--lines", "3", "--json", "--force").stdout)[0]
    l1 = as_json["levels"][0]
    assert l1["compulsory"] + l1["capacity"] + l1["conflict"] == l1["misses"]
    assert sum(row["L1"] for row in as_json["lines"]) == l1["misses"]
    large = json.loads(convolver("simulate", trace, "-m", machine, "--page-size", "2M", "--json", "--force").stdout)[0]
    assert large["tlb"][0]["page_bytes"] == 1 << 21
    assert large["tlb"][0]["misses"] == 1 < as_json["tlb"][0]["misses"]


def test_semantics_of_another_simulator(trace, tmp_path, convolver):
    plain = tmp_path / "plain.machine.json"
    plain.write_text(json.dumps({**SMALL, "name": "plain", "tlb": []}))
    found = json.loads(convolver("simulate", trace, "-m", plain, "--semantics", "no-write-backs", "--json").stdout)[0]
    assert [level["write_backs"] for level in found["levels"]] == [0, 0]
    assert convolver("simulate", trace, "-m", plain, "--semantics", "guess", "--force").returncode == 2


def test_pages_are_of_three_sizes_and_for_machines_with_a_tlb(trace, tmp_path, convolver):
    machine, plain = tmp_path / "small.machine.json", tmp_path / "plain.machine.json"
    plain.write_text(json.dumps({**SMALL, "name": "plain", "tlb": []}))
    assert convolver("simulate", trace, "-m", machine, "--page-size", "3M").returncode == 2
    assert "no machine has a TLB" in convolver("simulate", trace, "-m", plain, "--page-size", "2M").stderr


def test_share_gives_each_thread_a_core(trace, tmp_path, convolver):
    machine = tmp_path / "small.machine.json"
    alone = json.loads(convolver("simulate", trace, "-m", machine, "--json").stdout)[0]["levels"]
    done = convolver("share", trace, "-m", machine, "--turn", "4", "--json")
    assert done.returncode == 0, done.stderr
    shared = json.loads(done.stdout)
    assert [row["accesses"] for row in shared[:1]] == [alone[0]["accesses"]]
    assert shared[0]["misses"] < alone[0]["misses"]
    rates = HitRates.load(tmp_path / "app.shared.hits.parquet")
    assert rates.header["machines"][0]["sharing"] == {"cores": 2, "turn": 4.0, "by": "references"}
    assert convolver("share", trace, "-m", machine, "--turns-in", "instructions", "--force").returncode == 0


def test_share_needs_a_shared_level_and_a_known_unit(trace, tmp_path, convolver):
    private = tmp_path / "private.machine.json"
    private.write_text(json.dumps({**SMALL, "name": "private", "hierarchy": SMALL["hierarchy"][:1]}))
    assert convolver("share", trace, "-m", private).returncode == 2
    assert convolver("share", trace, "-m", OPTIONS, "--turns-in", "seconds").returncode == 2


def test_share_writes_no_output_twice(trace, tmp_path, convolver):
    assert "given twice" in convolver("share", trace, trace, "-m", tmp_path / "small.machine.json").stderr
    assert not list(tmp_path.glob("*.shared.hits.parquet"))


def test_explore_refuses_a_level_that_is_not_possible_as_a_wrong_option(trace, tmp_path, convolver):
    refused = convolver("explore", trace, "-m", tmp_path / "small.machine.json", "--level", "L2", "--policies", "lru,foo")
    assert refused.returncode == 2
    assert "these are known: lru" in refused.stderr


def test_explore_sweeps_inclusions_and_prefetchers(trace, tmp_path, convolver):
    machine = tmp_path / "small.machine.json"
    sweep = ["--level", "L2", "--prefetchers", "none,next-line,stream", "--inclusions", "non-inclusive,inclusive"]
    out = tmp_path / "x.hits.parquet"
    done = convolver("explore", trace, "-m", machine, *sweep, "--json", "-o", out)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) == 6
    assert any(row["machine"].endswith("inclusive, stream") for row in rows)
    assert rows[1]["memory"] < rows[0]["memory"]
    picture = convolver("plot", "misses", out, "-o", tmp_path / "x.png")
    assert picture.returncode == 0, picture.stderr


def test_machine_show_prints_the_options(convolver):
    shown = convolver("machine", "show", OPTIONS)
    assert "L3: inclusion victim, index intel-slices, slices 8, shared true" in shown.stdout
    assert "DTLB: 32 pages of 2 MiB, 32 ways, lru" in shown.stdout
    document = json.loads(convolver("machine", "show", OPTIONS, "--json").stdout)
    assert document["levels"][2]["slices"] == 8
    assert len(document["tlb"]) == 4
