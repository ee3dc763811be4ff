"""What the Valgrind tool counts of the kernel's work: pages, system calls, bytes, of programs that ask for known amounts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from convolver._native.trace_decoder import Decoder
from convolver.tracing.children import trace_children
from convolver.tracing.kernel_use import faults, system_document
from convolver.tracing.reader import Trace
from convolver.tracing.tracer import trace
from tests.integration.tool_runs import PROGRAMS, Runner, program, requires_tool

pytestmark = requires_tool
PAGE = 4096


@pytest.fixture(scope="module")
def asks(runner) -> str:
    return program(runner.folder, PROGRAMS / "asks.c", "-static")  # which starts in a fifth of the time


def had(runner: Runner, command: list[str], *options: str) -> dict[str, Any]:
    decoder = Decoder()
    decoder.feed(runner.trace(command, *options).stream)
    return system_document(decoder.system())


def more_pages(runner: Runner, asks: str, what: str, n: int, *path: str) -> Counter[str]:
    """Pages of `asks WHAT N` beyond those of `asks WHAT 0`, which are those of the start."""
    some, none = (had(runner, [asks, what, number, *path])["pages"] for number in (str(n), "0"))
    assert faults(some) - faults(none) == sum(some[name] - none[name] for name in ("anonymous", "windows", "shared"))
    return Counter({name: some[name] - none[name] for name in some if some[name] != none[name]})


@pytest.mark.parametrize(
    ("what", "times"),
    [("kept", 1), ("unmapped", 1), ("replaced", 2), ("discarded", 2), ("moved", 1), ("heap", 2)],
)
def test_pages_are_counted_each_time_that_they_come(runner, asks, what, times):
    assert more_pages(runner, asks, what, 300)["anonymous"] == times * 300


def test_a_heap_grows_by_more_than_valgrind_gives_it(runner, asks):
    assert more_pages(runner, asks, "heap", 10_000)["anonymous"] == 20_000


def test_pages_that_the_kernel_fills_ahead_are_distinguished(runner, asks):
    filled = more_pages(runner, asks, "filled", 300)
    assert (filled["anonymous"], filled["populated"]) == (300, 300)


def test_shared_memory_is_distinguished(runner, asks):
    shared = more_pages(runner, asks, "shared", 300)
    assert (shared["shared"], shared["anonymous"]) == (300, 0)


def test_regions_of_huge_pages_are_reported_where_they_were_asked_for(runner, asks):
    pages = more_pages(runner, asks, "advised", 1024)
    assert (pages["anonymous"], pages["advised_pages"], pages["advised_regions"]) == (1024, 1024, 2)


@pytest.mark.parametrize(("what", "allocated"), [("malloc", True), ("advised", True), ("static", False), ("kept", False)])
def test_only_what_the_allocator_mapped_or_the_program_asked_for_can_be_huge(runner, asks, what, allocated):
    pages = more_pages(runner, asks, what, 1024)
    assert pages["huge_regions"] >= 1
    assert (pages["heap_pages"], pages["heap_regions"]) == ((pages["huge_pages"], pages["huge_regions"]) if allocated else (0, 0))


def test_the_heap_ends_with_a_whole_huge_page(runner, asks):
    pages = more_pages(runner, asks, "heap", 700)
    assert pages["heap_pages"] >= 2 * (700 - 512)
    assert pages["heap_regions"] >= 2


def test_pages_of_files_are_counted_by_the_windows_that_the_kernel_maps(runner, asks, tmp_path):
    (tmp_path / "data").write_bytes(bytes(64 * 16 * PAGE))
    pages = more_pages(runner, asks, "file", 64 * 16, str(tmp_path / "data"))
    assert pages["file"] == 64 * 16
    assert pages["windows"] in (64, 65)  # the mapping need not begin with a window
    assert pages["anonymous"] == 0


def calls_of(system: dict[str, Any], name: str) -> dict[str, tuple[int, int]]:
    return {one["target"]: (one["calls"], one["bytes"]) for one in system["calls"] if one["call"] == name}


def test_calls_are_counted_by_name(runner, asks):
    assert calls_of(had(runner, [asks, "call", "1234"]), "getpid") == {"": (1234, 0)}


@pytest.mark.parametrize(("path", "target"), [("/dev/null", "null"), ("data", "file")])
def test_bytes_are_counted_by_what_they_go_to(runner, asks, tmp_path, path, target):
    system = had(runner, [asks, "write", "123456", str(tmp_path / path)])
    assert calls_of(system, "write") == {target: (124, 123456)}


def test_both_ends_of_a_pipe_are_counted(runner, asks):
    system = had(runner, [asks, "pipe", "50000"])
    assert calls_of(system, "write") == {"pipe": (50, 50000)}
    assert calls_of(system, "read")["pipe"] == (50, 50000)


def test_valgrinds_own_calls_are_left_out(runner, tmp_path):
    dynamic = program(tmp_path, PROGRAMS / "asks.c")
    calls = Counter(one["call"] for one in had(runner, [dynamic, "call", "0"])["calls"] for _ in range(one["calls"]))
    assert calls["openat"] == 2  # ld.so.cache and libc
    assert not calls["clock_gettime"]


def test_a_forked_child_has_what_it_asked_for_itself(runner, asks):
    forked = had(runner, [asks, "fork", "3000"])
    assert forked["forks"] == 1
    assert forked["pages"]["anonymous"] < 3000


def test_a_forked_child_with_a_trace_of_its_own_has_its_own_pages(asks, tmp_path):
    _, (parent, child) = trace_children([asks, "fork", "3000"], output=str(tmp_path / "%p.cvt"))
    had_by_child = Trace.load(child.path).header["system"]
    assert 3000 <= had_by_child["pages"]["anonymous"] < 3100
    assert not calls_of(had_by_child, "execve")
    assert Trace.load(parent.path).header["system"]["pages"]["anonymous"] < 3000


def test_a_traced_region_has_what_happened_in_it(runner, asks):
    whole, region = (had(runner, [asks, "heap", "300"], *options) for options in ((), ("--start-at=heap",)))
    assert region["pages"]["anonymous"] in range(600, 610)
    assert region["pages"]["anonymous"] < whole["pages"]["anonymous"]
    assert not calls_of(region, "openat")


def test_a_trace_and_its_signature_say_what_the_program_had_of_the_kernel(asks, tmp_path):
    traced = trace([asks, "call", "77"], output=tmp_path / "asks.cvt")
    assert calls_of(traced.header["system"], "getpid") == {"": (77, 0)}
    assert traced.signature.header["system"] == traced.header["system"]
    assert traced.summary()["system"] == traced.header["system"]
