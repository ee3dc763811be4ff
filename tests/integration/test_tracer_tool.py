"""The Valgrind tool counts and records what runs: equal to lackey, near cachegrind, exact where the answer is known."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.tool_runs import KERNELS, PROGRAMS, Traced, program, requires_tool
from tests.oracle import wire_oracle as wire

pytestmark = requires_tool


@pytest.fixture(scope="module")
def small(runner) -> str:
    return program(runner.folder, PROGRAMS / "ends.c")


@pytest.fixture(scope="module")
def bare(runner) -> str:
    """A program that references the same addresses in every run."""
    return program(runner.folder, PROGRAMS / "bare.c", "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector")


@pytest.fixture(scope="module")
def bare_full(runner, bare) -> Traced:
    return runner.trace([bare], "--mode=full")


@pytest.fixture(scope="module")
def full(runner, small) -> Traced:
    return runner.trace([small], "--mode=full")


def in_program(traced: Traced, name: str) -> set[int]:
    """Ids of the segments in the object file of this name."""
    modules = {module.id for module in traced.modules if Path(module.path).name == name}
    return {segment.id for segment in traced.segments if segment.module in modules}


def function_range(binary: str, function: str) -> range:
    """File offsets of a function; linked so that they equal its addresses in the file."""
    for line in subprocess.run(["nm", "-S", binary], capture_output=True, text=True, check=True).stdout.splitlines():
        fields = line.split()
        if fields[-1] == function:
            return range(int(fields[0], 16), int(fields[0], 16) + int(fields[1], 16))
    raise AssertionError(f"no function {function}")


def totals_of(traced: Traced, binary: str, function: str) -> wire.Totals:
    offsets = function_range(binary, function)
    ours = in_program(traced, Path(binary).name)
    chosen = [segment for segment in traced.segments if segment.id in ours and segment.file_offset in offsets]
    assert chosen
    return wire.totals(chosen, traced.counters)


@pytest.mark.slow
@pytest.mark.parametrize("command", [["/bin/echo", "hello"], ["/bin/ls", "/etc/default"], ["/usr/bin/sort", "/etc/passwd"]])
def test_counts_of_debian_binaries_equal_lackeys(runner, command):
    traced = runner.trace(command)
    lackey = Counter(kind for kind, _, _ in runner.lackey(command))
    assert (traced.totals.instructions, traced.totals.loads, traced.totals.stores) == (lackey["I"], lackey["L"], lackey["S"])


def test_the_full_address_stream_equals_lackeys(runner, bare, bare_full):
    theirs = [seen for seen in runner.lackey([bare]) if seen[0] != "I"]
    ours = [("S" if r.is_store else "L", r.address, r.size) for r in bare_full.references()]
    assert len(ours) > 10_000
    assert ours == theirs


@pytest.mark.slow
def test_a_dynamic_programs_stream_equals_lackeys_but_for_the_loaders_random_bytes(runner, small, full):
    theirs = [seen for seen in runner.lackey([small]) if seen[0] != "I"]
    ours = [("S" if r.is_store else "L", r.address, r.size) for r in full.references()]
    assert [(kind, size) for kind, _, size in ours] == [(kind, size) for kind, _, size in theirs]
    assert sum(mine != other for mine, other in zip(ours, theirs, strict=True)) < 20


@pytest.mark.slow
def test_each_instruction_is_counted_as_often_as_lackey_sees_it(runner, small, full):
    theirs = Counter(address for kind, address, _ in runner.lackey([small]) if kind == "I")
    ours: Counter[int] = Counter()
    for segment in full.segments:
        for instruction in segment.instructions:
            if not instruction.continued:
                ours[segment.address + instruction.offset] += full.executions(segment)
    assert +ours == theirs


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["triad", "spmv", "stencil"])
def test_counts_are_within_a_thousandth_of_cachegrinds(runner, kernel):
    command = [program(runner.folder, KERNELS / f"{kernel}.c", "-O2", "-fno-tree-vectorize"), "8"]
    totals = runner.trace(command).totals
    out = runner.folder / "cachegrind"
    runner.other("cachegrind", command, "--cache-sim=yes", f"--cachegrind-out-file={out}")
    lines = out.read_text().splitlines()
    names = next(line for line in lines if line.startswith("events:")).split()[1:]
    theirs = dict(zip(names, map(int, next(line for line in lines if line.startswith("summary:")).split()[1:]), strict=True))
    assert totals.instructions == pytest.approx(theirs["Ir"], rel=1e-3)
    # Cachegrind counts a read-modify-write as a read alone.
    assert totals.loads == pytest.approx(theirs["Dr"], rel=1e-3)
    assert totals.loads + totals.stores >= theirs["Dr"] + theirs["Dw"]


def test_counts_are_the_same_in_every_mode(runner, small, full):
    for options in (["--mode=counts"], ["--mode=sample", "--interval=5000", "--sample=500", "--sets=16"], ["--fuse=no"]):
        assert runner.trace([small], *options).totals == full.totals


def test_visits_equal_counters_in_a_full_stream(full):
    visits = Counter(visit.segment for visit in full.of(wire.Visit))
    for segment in full.segments:
        assert visits[segment.id] == (full.executions(segment) if segment.sites else 0)


def test_segments_hold_the_bytes_of_the_file(full, small):
    code = Path(small).read_bytes()
    ours = in_program(full, Path(small).name)
    assert len(ours) > 10
    for segment in (segment for segment in full.segments if segment.id in ours):
        assert segment.code == code[segment.file_offset : segment.file_offset + len(segment.code)]
        last = segment.instructions[-1]
        assert last.offset + last.length == len(segment.code)


def test_bursts_open_every_interval_and_last_one_sample(runner, bare):
    interval, sample = 2000, 150
    traced = runner.trace([bare], "--mode=sample", f"--interval={interval}", f"--sample={sample}")
    recorded: Counter[int] = Counter(reference.window for reference in traced.references())
    longest = max(len(segment.sites) for segment in traced.segments)
    opened, closed = traced.of(wire.WindowOpen), traced.of(wire.WindowClose)
    memops = traced.totals.loads + traced.totals.stores
    assert len(opened) == len(closed) == traced.end.windows == -(-memops // interval)
    for index, (start, stop) in enumerate(zip(opened, closed, strict=True)):
        assert index * interval - longest < start.memops <= index * interval
        assert recorded[index] == stop.memops - start.memops
        if index < len(opened) - 1:
            assert sample <= recorded[index] < sample + 2 * longest


def test_a_burst_holds_the_references_that_the_full_stream_has_at_its_place(runner, bare, bare_full):
    sampled = runner.trace([bare], "--mode=sample", "--interval=3000", "--sample=200")
    everything = [(r.address, r.size, r.is_store) for r in bare_full.references()]
    starts = [event.memops for event in sampled.of(wire.WindowOpen)]
    windows: dict[int, list] = {}
    for r in sampled.references():
        windows.setdefault(r.window, []).append((r.address, r.size, r.is_store))
    for window, references in windows.items():
        assert references == everything[starts[window] : starts[window] + len(references)]


@pytest.mark.parametrize(("sets", "set_class"), [(1, 0), (16, 5), (64, 21)])
def test_set_sampling_keeps_exactly_the_references_to_its_sets(runner, bare, bare_full, sets, set_class):
    traced = runner.trace([bare], "--mode=counts", f"--sets={sets}", f"--set-class={set_class}")
    expected = []
    sizes = {site.id: site for segment in bare_full.segments for site in segment.sites}
    for r in bare_full.references():
        lines = range(r.address >> 6, ((r.address + sizes[r.site].size_bytes - 1) >> 6) + 1)
        expected += [(r.site, line) for line in lines if line % sets == set_class]
    assert [(event.site, event.line) for event in traced.of(wire.SetReference)] == expected


def test_the_visit_limit_bounds_records_and_changes_no_count(runner, small, full):
    for options in (["--mode=full"], ["--mode=sample", "--interval=1000", "--sample=1000"]):
        traced = runner.trace([small], *options, "--block-limit=25")
        visits = Counter(visit.segment for visit in traced.of(wire.Visit))
        assert traced.totals == full.totals
        assert max(visits.values()) <= 25 + 2
        for segment in traced.segments:
            if segment.sites:
                assert visits[segment.id] >= min(25, traced.executions(segment))


def test_masked_vector_references_count_only_what_happened(runner):
    binary = program(runner.folder, PROGRAMS / "masked.c", "-mavx2", "-static-pie")
    traced = runner.trace([binary], "--mode=full")
    expected = sum(i % 5 for i in range(100))
    guarded = [site for segment in traced.segments for site in segment.sites if site.guarded and segment.id in
               in_program(traced, "masked")]  # fmt: skip
    for is_store in (False, True):
        counters = [traced.counters.values[site.guard_counter] for site in guarded if site.is_store == is_store]
        assert sum(counters) == expected
        ids = {site.id for site in guarded if site.is_store == is_store}
        assert sum(r.site in ids for r in traced.references()) == expected
    assert traced.stdout == subprocess.run([binary], capture_output=True, check=True).stdout


def test_fused_multiply_adds_count_their_operations_and_operands_exactly(runner):
    binary = program(runner.folder, PROGRAMS / "dgemm_fma.c", "-mavx2", "-mfma", "-static-pie")
    traced = runner.trace([binary])
    totals = totals_of(traced, binary, "dgemm")
    assert totals.flops == 2 * 32**3
    inner = 32 * 32 * 8
    assert totals.stores == inner
    assert totals.loads == pytest.approx(2 * inner + 32 * 32, abs=2)  # and the return address
    assert totals.load_bytes == pytest.approx(2 * inner * 32 + 32 * 32 * 8, abs=16)
    assert traced.stdout == subprocess.run([binary], capture_output=True, check=True).stdout


def test_every_form_of_fused_multiply_add_gives_the_processors_results(runner):
    binary = program(runner.folder, PROGRAMS / "fma_forms.c", "-mavx2", "-mfma", "-static-pie")
    native = subprocess.run([binary], capture_output=True, check=True).stdout
    packed, lanes = runner.trace([binary], "--mode=full"), runner.trace([binary], "--pack=no")
    assert packed.stdout == lanes.stdout == native
    assert packed.totals == lanes.totals


def test_operands_that_have_to_be_aligned_divide_no_segment(runner):
    source = runner.folder / "aligned.c"
    source.write_text(
        "#include <immintrin.h>\nfloat a[400] __attribute__((aligned(16))), b[400] __attribute__((aligned(16)));\n"
        "__attribute__((noinline)) void twice(void) { for (int i = 0; i < 400; i += 4)"
        " _mm_store_ps(b + i, _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(a + i))); }\n"
        "int main(void) { twice(); return b[7] != 0; }\n"
    )
    binary = program(runner.folder, source)
    traced = runner.trace([binary], "--mode=full")
    inside = in_program(traced, "aligned")
    turns = [s for s in traced.segments if s.id in inside and any(site.is_store and site.size_bytes == 16 for site in s.sites)]
    assert sum(traced.executions(s) for s in turns) == 100
    assert not any(i.continued for s in turns for i in s.instructions)
    assert all(any(not site.is_store for site in s.sites) for s in turns)  # the loads before the store are in its segment


def test_repeated_string_instructions_count_each_turn(runner):
    binary = program(runner.folder, PROGRAMS / "repeats.c", "-static-pie")
    totals = totals_of(runner.trace([binary]), binary, "string_operations")
    assert totals.stores == 150
    assert totals.loads in (50, 51)  # and the return address
    assert totals.store_bytes == 100 + 50 * 8


def test_rewritten_code_becomes_segments_of_its_own_and_old_code_keeps_its(runner):
    binary = program(runner.folder, PROGRAMS / "modifies.c", "-static-pie")
    traced = runner.trace([binary])
    assert traced.stdout == b"100\n"
    generated = [s for s in traced.segments if not traced.modules[s.module].path and s.code[:1] == b"\xb8" and len(s.code) == 6]
    assert sorted((segment.code[1], traced.executions(segment)) for segment in generated) == [(n, 10) for n in range(5)]


def test_a_loop_over_a_list_is_marked_as_dependent_and_one_over_an_array_is_not(runner):
    source = runner.folder / "chase.c"
    source.write_text(
        "struct n { struct n *next; } list[100]; long a[100];\n"
        "__attribute__((noinline)) void *chase(struct n *p) { while (p->next) p = p->next; return p; }\n"
        "__attribute__((noinline)) long sum(void) { long s = 0; for (int i = 0; i < 100; i++) s += a[i]; return s; }\n"
        "int main(void) { for (int i = 0; i < 99; i++) list[i].next = &list[i + 1]; chase(list); return sum(); }\n"
    )
    traced = runner.trace([program(runner.folder, source, "-static-pie")])
    flags = {}
    for function in ("chase", "sum"):
        offsets = function_range(str(runner.folder / "chase"), function)
        hot = [
            s
            for s in traced.segments
            if s.id in in_program(traced, "chase") and s.file_offset in offsets and traced.executions(s) > 90
        ]
        flags[function] = {bool(site.flags & wire.DEPENDENT) for segment in hot for site in segment.sites}
    assert flags == {"chase": {True}, "sum": {False}}
