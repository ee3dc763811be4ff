"""Parts of a program's code, recorded apart: chosen blocks, phases, and phases joined again."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from convolver._native.trace_decoder import Decoder
from convolver.errors import ProvenanceError, UsageError
from convolver.tracing.merge_traces import merge_traces
from convolver.tracing.reader import Trace
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.selection import hot_blocks
from convolver.tracing.tracer import trace
from convolver.tracing.valgrind import tool_folder
from convolver.tracing.writer import TraceWriter
from tests.wire_streams import Segment, Site, Stream

CONVOLVER = [sys.executable, "-m", "convolver"]


@pytest.fixture(scope="module")
def _tool():
    try:
        tool_folder()
    except Exception as error:
        pytest.skip(str(error))


def made(path, stream, phase=None, counters=(5, 7, 9)):
    """Write a trace file of a made-up stream, of a phase of it where one is given."""
    decoder = Decoder()
    plan = SamplingPlan(mode="full", phase=phase)
    plan.choose(decoder)
    decoder.record()
    writer = TraceWriter(path, {"command": ["x"], "sampling": plan.document()})
    wire = stream.bytes()
    for start in range(0, len(wire), 1000):
        decoder.feed(wire[start : start + 1000])
        writer.put_recorded(decoder.take())
    writer.put_counts(np.array(counters, dtype="<u8").tobytes())
    writer.finish({"complete": True, "reason": "exited", "exit_status": 0})
    return Trace.load(path)


def busy_stream(seed=1):
    rng = np.random.default_rng(seed)
    stream = Stream()
    stream.module("/nowhere")
    for number in range(3):
        sites = [Site(base=b - 1) for b in range(number + 1)]
        stream.segment(Segment(0x400000 + 37 * number, [4, 3], sites, words=number, counter=number))
    for step in range(2000):
        number = int(rng.integers(0, 3))
        stream.visit(number, rng.integers(0, 1 << 40, number).tolist())
        if step % 50 == 0:
            stream.control(1, int(rng.integers(1, 4)))
        if step % 170 == 0:
            stream.control(2, step)
        if step % 7 == 0:
            stream.sampled(int(rng.integers(0, 6)), int(rng.integers(0, 1 << 40)))
    return stream


def content(trace):
    """References in order, by kind of batch, with thread and window."""
    found = {0: [], 1: []}
    for batch in trace.batches():
        rows = zip(batch.sites.tolist(), batch.addresses.tolist(), batch.sizes.tolist(), strict=True)
        found[batch.kind] += [(batch.thread, batch.window, *row) for row in rows]
    return found


def without_paths(trace):
    """Signature of a part of the blocks, which is no path: dependent references are not distinguished from random ones."""
    return trace.signature.table.with_columns(
        random_references=pl.col("random_references") + pl.col("dependent_references")
    ).drop("dependent_references")


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_joined_phases_are_the_trace_without_phases(tmp_path, count):
    stream = busy_stream()
    whole = made(tmp_path / "whole.cvt", stream)
    paths = [tmp_path / f"{number}.cvt" for number in range(1, count + 1)]
    parts = [made(path, stream, (number, count)) for number, path in enumerate(paths, 1)]
    assert sum(len(content(part)[0]) for part in parts) == len(content(whole)[0])
    merged = merge_traces(paths[::-1], output=tmp_path / "merged.cvt")
    merged.verify()
    assert content(merged) == content(whole)
    assert without_paths(merged).equals(without_paths(whole).select(without_paths(merged).columns))
    assert merged.inputs == {f"phase {number}": part.id for number, part in enumerate(parts, 1)}


def test_phases_that_do_not_belong_together_are_refused(tmp_path):
    stream = busy_stream()
    made(tmp_path / "1.cvt", stream, (1, 2))
    made(tmp_path / "2.cvt", stream, (2, 2), counters=(5, 7, 8))
    made(tmp_path / "whole.cvt", stream)
    with pytest.raises(ProvenanceError, match="their counts differ"):
        merge_traces([tmp_path / "1.cvt", tmp_path / "2.cvt"], output=tmp_path / "m.cvt")
    with pytest.raises(UsageError, match="All 2 phases are needed"):
        merge_traces([tmp_path / "1.cvt"], output=tmp_path / "m.cvt")
    with pytest.raises(UsageError, match="not a phase"):
        merge_traces([tmp_path / "whole.cvt"], output=tmp_path / "m.cvt")
    assert not (tmp_path / "m.cvt").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("_tool")
def test_phases_of_a_real_program_join_exactly(build, tmp_path):
    binary = str(build("loop"))
    words = [*CONVOLVER, "trace", "--full", "-o"]
    for number in (1, 2):
        subprocess.run([*words, f"{number}.cvt", "--phase", f"{number}/2", "--", binary, "300", "9"], cwd=tmp_path, check=True)
    subprocess.run([*words, "whole.cvt", "--", binary, "300", "9"], cwd=tmp_path, check=True)
    subprocess.run([*CONVOLVER, "merge", "-o", "merged.cvt", "1.cvt", "2.cvt"], cwd=tmp_path, check=True)
    merged, whole = (Trace.load(tmp_path / name) for name in ("merged.cvt", "whole.cvt"))
    one, other = content(merged)[0], content(whole)[0]
    assert [row[:3] for row in one] == [row[:3] for row in other]
    # glibc's strcspn reads beyond the end of a string: an address or two follow the kernel's random bytes.
    assert sum(a != b for a, b in zip(one, other, strict=True)) <= 5
    columns = ["offset", "executions", "memops", "sampled_references"]
    assert merged.signature.table.select(columns).equals(whole.signature.table.select(columns))


@pytest.mark.usefixtures("_tool")
def test_only_chosen_blocks_are_recorded_and_no_count_changes(build, tmp_path):
    command = [str(build("loop")), "300", "9"]
    counts = trace(command, output=tmp_path / "c.cvt", sampling=SamplingPlan(mode="counts"))
    hottest = counts.signature.table.sort("memops").row(-1, named=True)
    chosen = hot_blocks(counts.signature, top=1)
    assert chosen == ((hottest["module"], hottest["offset"], hottest["offset"] + hottest["length_bytes"]),)
    part = trace(command, output=tmp_path / "p.cvt", sampling=SamplingPlan(mode="full", blocks=chosen))
    table = part.signature.table
    assert table.drop("sampled_references").select("memops", "offset").equals(counts.signature.table.select("memops", "offset"))
    sampled = table.filter(pl.col("sampled_references") > 0)
    assert hottest["offset"] in sampled["offset"].to_list()
    assert sampled["module"].unique().to_list() == [hottest["module"]]
    assert part.header["recorded_references"] < counts.signature.totals["memops"]


@pytest.mark.usefixtures("_tool")
@pytest.mark.parametrize("flag", ["-O1", "-no-pie"])
def test_only_a_named_function_is_recorded(build, tmp_path, flag):
    binary = str(build("loop", flag))
    words = [*CONVOLVER, "trace", "--full", "-o", "a.cvt", "--function", "sum", "--", binary, "300", "9"]
    subprocess.run(words, cwd=tmp_path, check=True)
    table = Trace.load(tmp_path / "a.cvt").signature.table
    assert table.filter(pl.col("sampled_references") > 0)["function"].unique().to_list() == ["sum"]
    assert table.filter(pl.col("function") == "sum")["sampled_references"].sum() >= 300 * 9
    words[words.index("sum")] = "nowhere"
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "has no function nowhere" in done.stderr


@pytest.mark.usefixtures("_tool")
def test_a_share_of_the_references_is_covered_by_the_fewest_blocks(build, tmp_path):
    signature = trace([str(build("loop"))], output=tmp_path / "c.cvt", sampling=SamplingPlan(mode="counts")).signature
    for share in (0.5, 0.9, 1.0):
        chosen = hot_blocks(signature, cover=share)
        names = [(module, begin) for module, begin, _ in chosen]
        memops = {(row["module"], row["offset"]): row["memops"] for row in signature.table.iter_rows(named=True)}
        covered = sum(memops[name] for name in names)
        assert covered >= share * signature.totals["memops"] * 0.9999
        assert covered - memops[names[-1]] < share * signature.totals["memops"]
    with pytest.raises(UsageError, match="no possible choice"):
        hot_blocks(signature, cover=1.5)
    with pytest.raises(UsageError, match="not by both"):
        hot_blocks(signature)


@pytest.mark.usefixtures("_tool")
def test_blocks_of_another_build_are_refused(build, tmp_path):
    program = tmp_path / "program"
    program.write_bytes(build("loop").read_bytes())
    program.chmod(0o755)
    signature = trace([str(program)], output=tmp_path / "c.cvt", sampling=SamplingPlan(mode="counts")).signature
    program.write_bytes(build("random").read_bytes())
    with pytest.raises(ProvenanceError, match="built anew"):
        hot_blocks(signature, top=3)
    program.unlink()
    with pytest.raises(ProvenanceError, match="cannot be read now"):
        hot_blocks(signature, cover=1.0)
