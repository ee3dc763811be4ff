"""The Valgrind tool records parts: ranges of code, regions between marks or functions, samples after their warm-up."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from tests.integration.tool_runs import PROGRAMS, Traced, program, requires_tool
from tests.oracle import wire_oracle as wire

pytestmark = requires_tool
N = 1000
FUNCTIONS = ("setup", "solve", "report")


@pytest.fixture(scope="module")
def binary(runner) -> str:
    return program(runner.folder, PROGRAMS / "regions.c", "-no-pie", "-static")


@pytest.fixture(scope="module")
def symbols(binary) -> dict[str, range]:
    """Address ranges of the program's functions and arrays."""
    lines = subprocess.run(["nm", "-S", binary], capture_output=True, text=True, check=True).stdout.splitlines()
    sized = [line.split() for line in lines if len(line.split()) == 4]
    return {name: range(int(at, 16), int(at, 16) + int(size, 16)) for at, size, _, name in sized}


@pytest.fixture(scope="module")
def whole(runner, binary) -> Traced:
    return runner.trace([binary], "--mode=full")


def offsets(traced: Traced, addresses: range) -> range:
    """The offsets in the file of these addresses of the program."""
    segment = next(segment for segment in traced.segments if segment.address in addresses)
    shift = segment.file_offset - segment.address
    return range(addresses.start + shift, addresses.stop + shift)


def stores(traced: Traced, symbols: dict[str, range]) -> Counter[str]:
    """Recorded stores to the array of each function."""
    seen: Counter[str] = Counter()
    for r in traced.references():
        for function in FUNCTIONS:
            if r.is_store and r.address in symbols[f"in_{function}"]:
                seen[function] += 1
    return seen


def counted(traced: Traced, symbols: dict[str, range]) -> dict[str, int]:
    """Counted stores of each function (to its array, its stack is not used)."""
    return {
        function: wire.totals([s for s in traced.segments if s.address in symbols[function]], traced.counters).stores
        for function in FUNCTIONS
    }


def test_the_whole_program_is_traced_when_nothing_is_selected(whole, symbols):
    assert stores(whole, symbols) == {"setup": N, "solve": 3 * N, "report": N}
    assert counted(whole, symbols) == {"setup": N, "solve": 3 * N, "report": N}


@pytest.mark.parametrize("any_file", [False, True])
def test_only_the_listed_ranges_are_recorded_and_everything_is_counted(runner, binary, whole, symbols, any_file):
    chosen = offsets(whole, symbols["solve"])
    only = runner.folder / "only"
    only.write_text(f"# first end path\n{chosen.start:x} {chosen.stop:x} {'*' if any_file else binary}\n0 10 /another/file\n")
    traced = runner.trace([binary], "--mode=full", f"--only={only}")
    assert stores(traced, symbols) == {"solve": 3 * N}
    assert traced.totals == whole.totals


def test_windows_lie_at_the_same_places_with_and_without_a_selection(runner, binary, whole, symbols):
    chosen = offsets(whole, symbols["solve"])
    only = runner.folder / "only"
    only.write_text(f"{chosen.start:x} {chosen.stop:x} {binary}\n")
    options = ["--mode=sample", "--interval=700", "--sample=100"]
    every, some = runner.trace([binary], *options), runner.trace([binary], *options, f"--only={only}")
    for kind in (wire.WindowOpen, wire.WindowClose):
        assert some.of(kind) == every.of(kind)
    assert stores(some, symbols)["solve"] == stores(every, symbols)["solve"] > 0


def test_a_bad_list_of_ranges_ends_with_a_sentence(runner, binary):
    only = runner.folder / "bad"
    only.write_text("10 nonsense\n")
    traced = runner.trace([binary], f"--only={only}")
    assert traced.returncode == 125
    assert b"a range must read FIRST END PATH: 10 nonsense" in traced.stderr


@pytest.mark.parametrize("mode", ["full", "counts"])
def test_between_marks_only_is_counted_and_recorded(runner, binary, symbols, mode):
    traced = runner.trace([binary], f"--mode={mode}", "--start-at=marker", "--stop-at=marker")
    assert counted(traced, symbols) == {"setup": 0, "solve": 3 * N, "report": 0}
    assert stores(traced, symbols) == ({"solve": 3 * N} if mode == "full" else {})
    visits = Counter(visit.segment for visit in traced.of(wire.Visit))
    assert mode == "counts" or all(visits[s.id] == traced.executions(s) for s in traced.segments if s.sites)


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        ("solve", "report", {"solve": 3 * N}),
        ("solve", None, {"solve": 3 * N, "report": N}),
        (None, "solve", {"setup": N}),
        ("report", None, {"report": N}),
    ],
)
def test_a_region_runs_from_the_entry_of_one_function_to_that_of_another(runner, binary, symbols, start, stop, expected):
    options = [f"--start-at={start}"] if start else []
    options += [f"--stop-at=0x{symbols[stop].start:x}"] if stop else []
    traced = runner.trace([binary], "--mode=full", *options)
    assert stores(traced, symbols) == expected
    assert counted(traced, symbols) == {function: expected.get(function, 0) for function in FUNCTIONS}
    assert traced.returncode == 10


def test_marks_mean_nothing_when_nobody_asks_for_them(runner, binary, symbols, whole):
    assert runner.trace([binary], "--mode=counts").totals == whole.totals


def test_windows_within_a_region_count_its_references_alone(runner, binary, symbols):
    region = ["--start-at=solve", "--stop-at=report"]
    everything = runner.trace([binary], "--mode=full", *region)
    traced = runner.trace([binary], "--mode=sample", "--interval=1000", "--sample=1000", *region)
    assert [r.address for r in traced.references()] == [r.address for r in everything.references()]
    assert traced.of(wire.WindowOpen)[0].memops == 0


def test_the_warm_up_of_each_sample_is_marked(runner, binary):
    traced = runner.trace([binary], "--mode=sample", "--interval=2000", "--sample=500", "--warmup=200")
    opened, warm, closed = (traced.of(kind) for kind in (wire.WindowOpen, wire.WindowWarm, wire.WindowClose))
    assert len(opened) == len(closed) > 5
    for start, middle in zip(opened, warm, strict=False):
        assert 200 <= middle.memops - start.memops < 220
    assert len(opened) - len(warm) in (0, 1)
