"""Known loops over known memory: every reference is attributed to what it touches, and no count changes."""

from __future__ import annotations

import io
import subprocess

import polars as pl
import pytest
from msgspec.structs import replace

from convolver.errors import ChecksumError, UsageError
from convolver.machine.catalog import find_machine
from convolver.signature.data_objects import DataObjects
from convolver.simulation.one_pass import simulate, simulate_objects
from convolver.tracing import format as cvt
from convolver.tracing.children import trace_children
from convolver.tracing.native_engine import Attachment, refusal
from convolver.tracing.reader import Trace
from convolver.tracing.recording import objects_path
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import LiveTrace, trace
from tests.integration.tool_runs import PROGRAMS, requires_tool

pytestmark = requires_tool


@pytest.fixture(params=["valgrind", "native"])
def engine(request):
    """Both engines tell data objects."""
    if request.param == "native" and (why := refusal()) is not None:
        pytest.skip(f"the native engine cannot run here: {why}")
    return request.param


FULL = SamplingPlan(mode="full", data_objects=True)
N = 1000
LOOPS = {
    ("fill", "malloc in make_first"): (0, N),
    ("fill", "malloc in make_second"): (0, N),
    ("sum", "malloc in make_second"): (N, 0),
    ("sum", "calloc in make_zeroed"): (N, 0),
    ("fill", "realloc in make_longer"): (0, 4 * N),
    ("sum", "realloc in make_longer"): (N, 0),
    ("fill", "malloc in own_wrapper"): (0, N),
    ("fill", "mmap in map_memory"): (0, N),
    ("sum", "FILE"): (512, 0),
    ("fill", "table"): (0, N),
    ("fill", "stack of thread 1"): (0, N),
    ("fill", "stack of thread 2"): (0, N),
    ("sum", "stack of thread 2"): (N, 0),
}


def loops(recorded: Trace, binary: str = "") -> dict[tuple[str, str], tuple[int, int]]:
    """Loads and stores of the functions fill and sum by data object, without those of their own frames and return addresses."""
    objects = recorded.data_objects
    blocks = recorded.signature.table.select("block", "function", "loop_depth")
    inner = objects.table.join(blocks, on="block").filter(
        (pl.col("loop_depth") > 0) & pl.col("function").str.contains(r"^(fill|sum)($|\()")
    )
    found = {}
    for function, number, loads, stores in inner.select("function", "object", "loads", "stores").iter_rows():
        label = objects.objects[number]["label"].split(" (")[0]
        key = (function.split("(")[0], "FILE" if label == binary else label)
        before = found.get(key, (0, 0))
        found[key] = (before[0] + loads, before[1] + stores)
    return found


@pytest.mark.parametrize("flags", [("-fno-tree-vectorize", "-pthread"), ("-fno-tree-vectorize", "-pthread", "-static")])
def test_each_loop_touches_the_objects_that_it_is_given(build, tmp_path, flags, engine):
    binary = build("objects", *flags)
    recorded = trace([str(binary)], output=tmp_path / "a.cvt", sampling=replace(FULL, engine=engine))
    assert recorded.header["exit_status"] == 0
    recorded.verify()
    assert loops(recorded, binary.name) == LOOPS
    objects = recorded.data_objects
    assert objects.attributed_share == 1.0
    assert objects.table["memops"].sum() == recorded.signature.totals["memops"] == objects.table["references"].sum()
    saved = DataObjects.load(objects_path(tmp_path / "a.cvt"))
    assert saved.id == objects.id
    places = {row["label"].split(" (")[0]: (row["places"], row["peak_bytes"]) for row in saved.objects}
    assert places["malloc in make_first"] == (1, 8 * N)
    assert places["realloc in make_longer"] == (1, 32 * N)


def test_no_count_changes_and_the_wrapper_s_caller_is_found(build, tmp_path, engine):
    binary = build("objects", "-fno-tree-vectorize", "-pthread")
    tables = []
    for name, plan in (("a", replace(FULL, engine=engine)), ("b", SamplingPlan(mode="full", engine=engine))):
        recorded = trace([str(binary)], output=tmp_path / f"{name}.cvt", sampling=plan)
        own = recorded.signature.table.filter(pl.col("module") == str(binary.resolve()))
        tables.append(own.select("offset", "executions", "instructions", "loads", "stores", "bytes", "sampled_references"))
    assert tables[0].equals(tables[1])
    assert not objects_path(tmp_path / "b.cvt").exists()
    with pytest.raises(UsageError, match="--data-objects"):
        _ = recorded.data_objects
    plan = replace(FULL, engine=engine, allocators=("own_wrapper",))
    found = loops(trace([str(binary)], output=tmp_path / "c.cvt", sampling=plan))
    assert found["fill", "own_wrapper in make_wrapped"] == (0, N)


def test_samples_share_out_the_exact_counts(build, tmp_path, engine):
    binary = build("objects", "-fno-tree-vectorize", "-pthread")
    plan = SamplingPlan(interval=1000, sample=200, sets=4, data_objects=True, engine=engine)
    recorded = trace([str(binary)], output=tmp_path / "a.cvt", sampling=plan)
    objects = recorded.data_objects
    assert 0.5 < objects.attributed_share <= 1
    rows = objects.by_object().filter(pl.col("label").str.starts_with("realloc in make_longer"))
    assert rows["memops"].item() == pytest.approx(5 * N, rel=0.5)
    assert rows["set_references"].item() == pytest.approx(5 * N / 4, abs=20)
    assert rows["references"].item() < 5 * N
    if engine == "valgrind":  # the native engine's bursts come at random, with as many heads between at least
        assert rows["references"].item() > 0


TAKEN_IN_TURNS = """
#include <pthread.h>
#include <stdlib.h>
enum { N = 1000, TURNS = 40, WORKERS = 3 };
static long *volatile given;
static volatile int turn;
static int done;
__attribute__((noinline)) static long *make_odd(void) { return malloc(N * sizeof(long)); }
__attribute__((noinline)) static long *make_even(void) { return malloc(N * sizeof(long)); }
__attribute__((noinline)) static void fill(long *to)
{
    for (long i = 0; i < N; i++)
        to[i] = i;
}
static void *work(void *none)
{
    for (int k = 1; k <= TURNS; k++) {
        while (turn < k)
            ;
        fill(given);
        __atomic_add_fetch(&done, 1, __ATOMIC_ACQ_REL);
    }
    return none;
}
int main(void)
{
    pthread_t thread[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    for (int k = 1; k <= TURNS; k++) {
        given = k % 2 ? make_odd() : make_even();
        turn = k;
        while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) < k * WORKERS)
            ;
        free(given);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
"""


def test_threads_touch_what_another_one_allocated_and_frees_afterwards(tmp_path, engine):
    (tmp_path / "turns.c").write_text(TAKEN_IN_TURNS)
    options = ["-O1", "-g", "-fno-tree-vectorize", "-pthread"]
    subprocess.run(["gcc", *options, "-o", tmp_path / "turns", tmp_path / "turns.c"], check=True)
    plan = SamplingPlan(mode="full", data_objects=True, engine=engine)
    found = loops(trace([str(tmp_path / "turns")], output=tmp_path / "a.cvt", sampling=plan))
    assert found["fill", "malloc in make_odd"] == found["fill", "malloc in make_even"] == (0, 20 * 3 * N)


def test_a_simulated_run_tells_the_same_as_a_recorded_one(build, tmp_path, engine):
    full = replace(FULL, engine=engine)
    binary, machine = build("objects", "-fno-tree-vectorize", "-pthread"), find_machine("desktop-32m")
    live = LiveTrace([str(binary)], sampling=full)
    counts = []
    for source in (live, trace([str(binary)], output=tmp_path / "a.cvt", sampling=full)):
        rates, hits = simulate_objects(source, machine)
        assert hits.inputs == rates.inputs == {"trace": source.id}
        plain = None if source is live else simulate(source, machine).table
        level = hits.by_object().filter(level="L1")
        counts.append({label.split(" (")[0]: accesses for label, accesses in level.select("label", "accesses").iter_rows()})
        assert plain is None or plain.select("block", "misses").equals(rates.table.select("block", "misses"))
        assert source.data_objects.memops == source.signature.totals["memops"]
    for label in ("malloc in make_first", "realloc in make_longer", "table", "mmap in map_memory"):
        assert counts[0][label] == counts[1][label] > 0


def test_new_and_delete_and_an_exception_between(tmp_path, engine):
    binary = tmp_path / "objects"
    source = PROGRAMS / "objects.cpp"
    subprocess.run(["g++", "-O1", "-g", "-fno-tree-vectorize", "-std=c++17", "-o", binary, source], check=True)
    recorded = trace([str(binary)], output=tmp_path / "a.cvt", sampling=replace(FULL, engine=engine))
    found = loops(recorded)
    assert found["fill", "new[] in make_longs()"] == (0, N)
    assert found["fill", "new in make_wide()"] == (0, 8)
    # The block that could not be had is none: what main returns to afterwards is not the function that was left.
    assert all(row["peak_bytes"] < 1 << 20 for row in recorded.data_objects.objects if row["kind"] == "heap")


def test_a_file_that_was_cut_keeps_its_objects_and_a_damaged_one_is_refused(build, tmp_path):
    binary = build("objects", "-fno-tree-vectorize", "-pthread")
    path = tmp_path / "a.cvt"
    whole = trace([str(binary)], output=path, sampling=FULL)
    content, cut = path.read_bytes(), tmp_path / "cut.cvt"
    chunks = {chunk.kind: chunk.position for chunk in cvt.read_chunks(_after_header(path), "a")}
    assert cvt.EVENTS in chunks
    for end in (chunks[cvt.OBJECTS], chunks[cvt.ADDRESSES] - 1, chunks[cvt.TRAILER]):
        cut.write_bytes(content[:end])
        part = Trace.load(cut)
        assert not part.complete
        part.verify()
        if end > chunks[cvt.ADDRESSES]:
            assert part.data_objects.table.select("references").sum().equals(whole.data_objects.table.select("references").sum())
    for kind in (cvt.EVENTS, cvt.OBJECTS):
        at = chunks[kind] + 20
        cut.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        with pytest.raises(ChecksumError):
            Trace.load(cut).verify()


def _after_header(path):
    file = io.BytesIO(path.read_bytes())
    cvt.read_header(file, "a")
    return file


def test_a_forked_child_knows_the_blocks_of_its_parent(build, tmp_path):
    binary = build("objects", "-fno-tree-vectorize", "-pthread")
    _, traces = trace_children([str(binary), "fork"], output=str(tmp_path / "%p.cvt"), sampling=FULL)
    found = [loops(Trace.load(child.path)) for child in traces]
    assert sorted(one.get(("fill", "calloc in make_zeroed"), (0, 0)) for one in found) == [(0, 0), (0, N)]


def test_the_native_engine_tells_no_data_objects_of_several_processes(build, tmp_path):
    plan = replace(FULL, engine="native")
    with pytest.raises(UsageError, match="children"):
        trace_children([str(build("objects", "-pthread"))], output=str(tmp_path / "%p.cvt"), sampling=plan)
    with pytest.raises(UsageError, match="runs already"):
        trace(["x"], output=tmp_path / "a.cvt", sampling=plan, attachment=Attachment(1))


@pytest.mark.parametrize("more", [{"mode": "counts"}, {"phase": (1, 2)}])
def test_data_objects_need_addresses_of_one_run(more):
    with pytest.raises(UsageError, match="leave out"):
        SamplingPlan(data_objects=True, **more).check()
