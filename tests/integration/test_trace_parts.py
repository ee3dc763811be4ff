"""Parts of a run on the command line: regions, ranges of code, warm-up, addresses joined to a counts pass."""

import functools
import subprocess

import polars as pl
import pytest

from convolver.signature.signature import Signature
from convolver.tracing.reader import Trace
from tests.integration.tool_runs import requires_tool

pytestmark = requires_tool
N = 1000


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
