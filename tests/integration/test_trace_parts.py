"""Parts of a run on the command line: regions, ranges of code, warm-up, addresses joined to a counts pass."""

import functools
import subprocess
import sys

import polars as pl
import pytest

from convolver.errors import UsageError
from convolver.signature.signature import Signature
from convolver.tracing.native_engine import refusal
from convolver.tracing.reader import Trace
from convolver.tracing.selection import function_blocks
from tests.integration.tool_runs import requires_tool

pytestmark = requires_tool
N = 1000
ENGINES = ["valgrind", "native"] if refusal() is None else ["valgrind"]


@pytest.fixture
def run(convolver):
    return functools.partial(convolver, "trace")


def functions(path):
    """Executed stores of each function of the program."""
    table = Signature.load(path).table.group_by("function").agg(pl.col("stores").sum())
    return {name: count for name, count in table.iter_rows() if name in ("setup", "solve", "report") and count}


def symbol(binary, name):
    """Address and size of a function."""
    listed = subprocess.run(["nm", "-S", binary], capture_output=True, text=True, check=True).stdout
    words = next(line.split() for line in listed.splitlines() if line.endswith(f" {name}"))
    return int(words[0], 16), int(words[1], 16)


@pytest.fixture(scope="module", params=["-pie", "-no-pie"])
def binary(request, build):
    flags = ["-pie", "-fPIE"] if request.param == "-pie" else ["-no-pie"]
    return build("regions", *flags)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        ("marker", "marker", {"solve": 3 * N}),
        ("solve", "report", {"solve": 3 * N}),
        ("0x", None, {"solve": 3 * N, "report": N}),
        (None, "0x", {"setup": N}),
    ],
)
def test_a_region_is_all_that_is_counted(binary, tmp_path, start, stop, expected, run):
    address = f"0x{symbol(binary, 'solve')[0]:x}"
    options = ["--start-at", address if start == "0x" else start] if start else []
    options += ["--stop-at", address if stop == "0x" else stop] if stop else []
    done = run("-o", tmp_path / "a.cvt", *options, "--", binary)
    assert done.returncode == 10, done.stderr
    assert functions(tmp_path / "a.sig.parquet") == expected


def test_a_region_that_never_begins_is_said(binary, tmp_path, run):
    done = run("-o", tmp_path / "a.cvt", "--start-at", "nowhere", "--", binary)
    assert done.returncode == 10
    assert "never came to nowhere" in done.stderr


@pytest.mark.parametrize(("where", "missed"), [("nowhere", True), ("main", False)])
def test_a_region_that_never_ends_is_said(where, missed, binary, tmp_path, run):
    done = run("-o", tmp_path / "a.cvt", "--stop-at", where, "--", binary)
    assert ("never came to nowhere, so all is traced to its end" in done.stderr) == missed


AVOIDS = """
#include "convolver_markers.h"
static volatile int n;
__attribute__((noinline)) void avoided(void) { n++; CONVOLVER_STOP(); }
__attribute__((noinline)) void passed(void) { n--; }
int main(int count, char **words) { (void)words; if (count > 1) avoided(); passed(); return 0; }
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("words", [[], ["go"]])
def test_a_place_to_stop_at_that_never_comes_is_said(engine, words, tmp_path, run, convolver):
    (tmp_path / "a.c").write_text(AVOIDS)
    program = tmp_path / "a"
    subprocess.run(["gcc", "-O1", convolver("--includes", code=0).stdout.strip(), "-o", program, tmp_path / "a.c"], check=True)
    for place in ("marker", "avoided", f"{symbol(program, 'avoided')[0]:#x}"):
        for how in ([], ["--trace-children"]):
            command = ["-o", tmp_path / "%p.cvt", "--force", *how, "--engine", engine, "--stop-at", place, "--", program, *words]
            said = run(*command, code=0).stderr
            assert (f"the program never came to {place}, so all is traced to its end" in said) == (not words), (place, how)


MARKED = """
import sys
import convolver
def work():
    return sum(one * one for one in range(30000))
work()
for _ in range(int(sys.argv[1])):
    with convolver.marked():
        work()
work()
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_python_program_marks_what_is_traced(engine, tmp_path, run):
    (tmp_path / "marked.py").write_text(MARKED)

    def executed(turns):
        marks = ["--start-at", "marker", "--stop-at", "marker"]
        words = ["--counts-only", "--engine", engine, *marks, "-o", tmp_path / "m.cvt", "--force"]
        run(*words, "--", sys.executable, tmp_path / "marked.py", turns, code=0)
        return Signature.load(tmp_path / "m.sig.parquet").totals["instructions"]

    one, three = executed(1), executed(3)
    assert 30_000 < one < 20_000_000
    assert three == pytest.approx(3 * one, rel=0.05)


CLASSES = """
struct Grid {
    int set(long *cells, int n) { for (int i = 0; i < n; i++) cells[i] = i; return n; }
    int set(long *cells, long n) { return set(cells, int(n)) + 1; }
    int add(long *cells, int n);
};
__attribute__((noinline)) int Grid::add(long *cells, int n) { for (int i = 0; i < n; i++) cells[i] += n; return n; }
int main() { static long cells[1000]; Grid grid; return grid.set(cells, 1000L) + grid.add(cells, 1000) == 2001 ? 0 : 1; }
"""


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    (folder / "classes.cpp").write_text(CLASSES)
    subprocess.run(["g++", "-O0", "-o", folder / "classes", folder / "classes.cpp"], check=True)
    return folder / "classes"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["Grid::add", "Grid::add(long*, int)", "_ZN4Grid3addEPli"])
def test_a_cpp_function_is_named_as_shown_or_mangled(classes, name, engine, tmp_path, run):
    done = run("-o", tmp_path / "a.cvt", "--engine", engine, "--start-at", name, "--", classes)
    assert done.returncode == 0, done.stderr
    counted = Signature.load(tmp_path / "a.sig.parquet").table.filter(pl.col("stores") > 0)
    assert "Grid::add(long*, int)" in set(counted["function"])
    assert not any(function.startswith("Grid::set") for function in counted["function"])


def test_a_name_without_arguments_means_all_functions_of_it(classes):
    assert len(function_blocks(classes, ["Grid::set"])) == 2
    assert len(function_blocks(classes, ["Grid::set(long*, long)"])) == 1
    with pytest.raises(UsageError, match="no function Grid::se;"):
        function_blocks(classes, ["Grid::se"])


def test_a_range_of_addresses_is_recorded_alone(binary, tmp_path, run):
    first, size = symbol(binary, "report")
    done = run("-o", tmp_path / "a.cvt", "--full", "--range", f"{first:#x}-{first + size:#x}", "--", binary)
    assert done.returncode == 10, done.stderr
    sampled = Trace.load(tmp_path / "a.cvt").signature.table.filter(pl.col("sampled_references") > 0)
    assert set(sampled["function"]) == {"report"}
    assert sampled["sampled_references"].sum() == sampled["memops"].sum()


@pytest.mark.parametrize(
    "words", [["--range", "0x10"], ["--range", "0x2-0x1"], ["--start-at", "0xzz"], ["--start-at", "0x7fffffffffff"]]
)
def test_places_that_cannot_be_are_refused(binary, tmp_path, words, run):
    done = run("-o", tmp_path / "a.cvt", *words, "--", binary)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


def test_warm_up_is_a_share_or_a_number(build, tmp_path, run):
    for warmup in ("20%", "200"):
        bursts = ["--interval", 2000, "--sample", 1000, "--warmup", warmup]
        done = run("-o", tmp_path / "a.cvt", *bursts, "--force", "--", build("loop"))
        assert done.returncode == 0, done.stderr
        recorded = Trace.load(tmp_path / "a.cvt")
        assert recorded.header["sampling"]["warmup"] == 200
        batches = [batch for batch in recorded.batches() if batch.kind == 0]
        warm, counted = (sum(len(batch.addresses) for batch in batches if batch.warm == flag) for flag in (True, False))
        assert 0.15 < warm / (warm + counted) < 0.25


def test_addresses_take_the_counts_of_an_earlier_pass(build, tmp_path, run):
    binary = build("loop")
    assert run("-o", tmp_path / "c.cvt", "--counts-only", "--", binary, 5000, 20).returncode == 0
    counts = Signature.load(tmp_path / "c.sig.parquet")
    # Another input: loops turn more or less often, and code that only one of both runs executes splits blocks elsewhere.
    done = run("-o", tmp_path / "a.cvt", "--full", "--addresses", "--from", tmp_path / "c.sig.parquet", "--", binary, 300, 5, 0)
    assert done.returncode == 0, done.stderr
    joined = Signature.load(tmp_path / "a.sig.parquet")
    assert joined.inputs["counts"] == counts.id
    for name in ("instructions", "loads", "stores", "flops", "bytes"):
        now, then = (signature.table.filter(pl.col("build_id") != "")[name].sum() for signature in (joined, counts))
        assert now == then
    hot = joined.table.filter(pl.col("function") == "sum").sort("loads").row(-1, named=True)
    assert hot["executions"] == 100_000
    assert 0 < hot["sampled_references"] <= 1500


def test_counts_of_other_binaries_are_refused(build, tmp_path, run):
    assert run("-o", tmp_path / "c.cvt", "--counts-only", "--", build("bare", "-static", "-nostdlib")).returncode == 54
    done = run("-o", tmp_path / "a.cvt", "--addresses", "--from", tmp_path / "c.sig.parquet", "--", build("loop"))
    assert done.returncode == 3
    assert "no block is in both" in done.stderr
