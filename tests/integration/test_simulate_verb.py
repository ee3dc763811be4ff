"""``convolver simulate`` on a small trace file."""

import functools
import json

import pytest

from convolver._native.trace_decoder import Decoder
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.object_hits import ObjectHits
from convolver.tracing.writer import TraceWriter
from tests.wire_streams import Segment, Site, Stream

MACHINE = {
    "schema": "convolver.machine",
    "version": 1,
    "name": "m",
    "hierarchy": [
        {"level": "L1", "size_bytes": 128, "ways": 2, "line_bytes": 64},
        {"level": "L2", "size_bytes": 64 * 1024, "ways": 8, "line_bytes": 64},
    ],
}


@pytest.fixture
def trace(tmp_path):
    """200 visits of a block with a store and a load 4 KiB above it, over 25 lines."""
    stream = Stream()
    stream.module("/usr/bin/some")
    stream.segment(Segment(0x400000, [4, 3], [Site(flags=1), Site(displacement=4096, instruction=1)], words=1))
    stream.control(1, 1)
    for visit in range(200):
        stream.visit(0, [0x10000 + visit * 8])
    path = tmp_path / "app.cvt"
    decoder = Decoder()
    decoder.record()
    decoder.feed(stream.bytes())
    writer = TraceWriter(path, {"command": ["x"], "sampling": {"mode": "full"}})
    writer.put_recorded(decoder.take())
    writer.put_counts(bytes([200]) + bytes(7))
    writer.finish({"complete": True})
    (tmp_path / "m.machine.json").write_text(json.dumps(MACHINE))
    return path


@pytest.fixture
def objects_trace(tmp_path):
    """As ``trace``; the stores are to a heap block whose first half is freed halfway, the loads from a variable."""
    stream = Stream()
    stream.module("/usr/bin/some")
    stream.segment(Segment(0x400000, [4, 3], [Site(flags=1), Site(displacement=4096, instruction=1)], words=1))
    stream.object(1, "malloc")
    stream.object(4, "mmap")
    stream.symbol(0x11000, 1600, "table")
    stream.event(1, 1, 0x10000, 0x1000)
    stream.event(1, 0, 0x10000, 1600)
    stream.event(5, 2, 1)
    for visit in range(200):
        if visit == 160:
            stream.event(2, 0x10000)
        stream.visit(0, [0x10000 + visit * 8])
    path = tmp_path / "app.cvt"
    decoder = Decoder()
    decoder.record()
    decoder.feed(stream.bytes())
    writer = TraceWriter(path, {"command": ["x"], "sampling": {"mode": "full", "data_objects": True}})
    writer.put_recorded(decoder.take())
    writer.put_counts(bytes([200]) + bytes(7))
    writer.finish({"complete": True})
    (tmp_path / "m.machine.json").write_text(json.dumps(MACHINE))
    return path


@pytest.fixture(scope="session")
def run(convolver):
    return functools.partial(convolver, "simulate")


def test_it_prints_totals_as_json_and_writes_the_hit_rates(trace, tmp_path, run):
    exact = {"sample": "all", "standard_error": 0.0}
    done = run(trace, "-m", tmp_path / "m.machine.json", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        {
            "machine": "m",
            "levels": [
                {"level": "L1", "accesses": 400, "hits": 350, "misses": 50, "write_backs": 24, **exact},
                {"level": "L2", "accesses": 50, "hits": 0, "misses": 50, "write_backs": 0, **exact},
            ],
        }
    ]
    rates = HitRates.load(tmp_path / "app.hits.parquet")
    assert rates.totals("m")[0]["accesses"] == 400


def test_the_table_shows_each_level(trace, tmp_path, run):
    done = run(trace, "-m", tmp_path / "m.machine.json")
    assert done.returncode == 0, done.stderr
    assert "0.8750" in done.stdout
    assert "Wrote" in done.stderr


def test_by_object_says_what_each_data_object_has_of_the_counts(objects_trace, tmp_path, run):
    done = run(objects_trace, "-m", tmp_path / "m.machine.json", "--by", "object", "--json")
    assert done.returncode == 0, done.stderr
    found = {(row["label"], row["level"]): (row["accesses"], row["misses"]) for row in json.loads(done.stdout)}
    assert found == {
        ("anonymous memory (malloc)", "L1"): (160, 20),
        ("anonymous memory (malloc)", "L2"): (20, 20),
        ("anonymous memory (mmap)", "L1"): (40, 5),
        ("anonymous memory (mmap)", "L2"): (5, 5),
        ("table", "L1"): (200, 25),
        ("table", "L2"): (25, 25),
    }
    rates, hits = HitRates.load(tmp_path / "app.hits.parquet"), ObjectHits.load(tmp_path / "app.object-hits.parquet")
    assert hits.inputs == rates.inputs
    for level, total in zip(("L1", "L2"), rates.totals("m"), strict=True):
        sums = hits.table.filter(level=level).select("accesses", "hits", "misses", "write_backs").sum().row(0, named=True)
        assert sums == {name: total[name] for name in sums}
    shown = run(objects_trace, "-m", tmp_path / "m.machine.json", "--by", "object", "--force")
    assert "12.5 %" in shown.stdout
    csv = run(objects_trace, "-m", tmp_path / "m.machine.json", "--by", "object", "--csv", "--force")
    assert csv.stdout.startswith("machine,object,label,kind")


def test_by_object_of_a_trace_without_them_says_how_to_record_them(trace, tmp_path, run):
    refused = run(trace, "-m", tmp_path / "m.machine.json", "--by", "object")
    assert refused.returncode == 2
    assert "convolver trace --data-objects" in refused.stderr
    assert not (tmp_path / "app.hits.parquet").exists()


def test_it_does_not_overwrite_without_force(trace, tmp_path, run):
    (tmp_path / "app.hits.parquet").write_text("mine")
    refused = run(trace, "-m", tmp_path / "m.machine.json")
    assert refused.returncode == 2
    assert (tmp_path / "app.hits.parquet").read_text() == "mine"
    assert run(trace, "-m", tmp_path / "m.machine.json", "--force").returncode == 0


def test_unknown_machines_and_foreign_files_are_refused(trace, tmp_path, run):
    assert run(trace, "-m", "no-such-machine").returncode == 3
    assert run(tmp_path / "m.machine.json", "-m", tmp_path / "m.machine.json").returncode == 3
    assert run(trace).returncode == 2


def test_explore_compares_variants_of_a_level(trace, tmp_path, convolver):
    arguments = [trace, "-m", tmp_path / "m.machine.json", "--level", "L1", "--sizes", "128,4K", "--policies", "lru,fifo"]
    done = convolver("explore", *arguments, "--json", "-o", tmp_path / "x.hits.parquet")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["machine"].split(": ")[1] for row in rows] == [
        "L1 128 B, 2 ways, lru",
        "L1 128 B, 2 ways, fifo",
        "L1 4 KiB, 2 ways, lru",
        "L1 4 KiB, 2 ways, fifo",
    ]
    assert rows[0]["missing"] == {"L1": 0.125, "L2": 0.125}
    assert len(HitRates.load(tmp_path / "x.hits.parquet").machines) == 4
    shown = convolver("explore", *arguments)
    assert "relative" in shown.stdout
