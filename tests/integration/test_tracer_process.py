"""The Valgrind tool and the life of the process: exits, crashes, kills, threads, fork, exec, a reader that goes away."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from convolver.tracing import valgrind
from tests.integration.tool_runs import KERNELS, PROGRAMS, Runner, program, requires_tool
from tests.oracle import wire_oracle as wire

pytestmark = requires_tool
EXITED, SIGNALED, EXECED = 0, 1, 2


@pytest.fixture(scope="module")
def ends(runner) -> str:
    return program(runner.folder, PROGRAMS / "ends.c", "-static")


@pytest.mark.parametrize(
    ("way", "reason", "code", "returncode"),
    [
        ("exit", EXITED, 7, 7),
        ("segv", SIGNALED, signal.SIGSEGV, -signal.SIGSEGV),
        ("abort", SIGNALED, signal.SIGABRT, -signal.SIGABRT),
        ("handler", EXITED, 3, 3),
        ("badexec", EXITED, 9, 9),
        ("exec", EXECED, 0, 0),
    ],
)
def test_the_last_record_and_the_exit_status_say_how_the_program_ended(runner, ends, way, reason, code, returncode):
    traced = runner.trace([ends, way], "--mode=full")
    assert (traced.end.reason, traced.end.code, traced.returncode) == (reason, code, returncode)
    assert traced.counters.finished
    assert traced.totals.loads > 5120  # do_work's at least
    assert traced.stdout == (b"hello\n" if way == "exec" else b"")


def test_a_forked_child_adds_nothing_to_its_parents_stream_or_counters(runner, ends):
    alone, forked = (runner.trace([ends, way], "--mode=full") for way in ("exit", "fork"))
    assert forked.returncode == 5
    assert len(forked.of(wire.End)) == 1
    # The child works a hundred times as much as parent and child-less run together.
    assert forked.totals.instructions < 2 * alone.totals.instructions
    visits = Counter(visit.segment for visit in forked.of(wire.Visit))
    assert all(visits[s.id] == forked.executions(s) for s in forked.segments if s.sites)


def test_threads_are_distinguished(runner):
    traced = runner.trace([program(runner.folder, PROGRAMS / "own_arrays.c")], "--mode=full")
    assert traced.stdout == b"59940\n"
    stores: dict[int, Counter[int]] = {}
    for r in traced.references():
        if r.is_store:
            stores.setdefault(r.thread, Counter())[r.address] += 1
    assert set(stores) == {1, 2, 3, 4}
    # Each worker stores twenty times to each element of an array of its own.
    owned = [{address for address, n in stores[thread].items() if n == 20} for thread in (2, 3, 4)]
    assert all(len(addresses) >= 1000 for addresses in owned)
    assert not owned[0] & owned[1] & owned[2]


def start(runner: Runner, command: list[str], stream: int, counters: Path, *options: str, **popen) -> subprocess.Popen:
    tool = valgrind.tool_command([f"--wire-fd={stream}", f"--counters={counters}", *options])
    return subprocess.Popen([*tool, *command], env=runner.environment, pass_fds=[stream], stdout=subprocess.PIPE, **popen)


def test_counters_and_definitions_survive_sigkill(runner, ends, tmp_path):
    with (tmp_path / "stream").open("wb") as out:
        process = start(runner, [ends, "forever"], out.fileno(), tmp_path / "counters")
        assert process.stdout
        assert process.stdout.readline() == b"started\n"
        time.sleep(0.3)
        process.kill()
        process.communicate()
    _, segments, events = wire.read_stream((tmp_path / "stream").read_bytes())
    counters = wire.read_counters(tmp_path / "counters")
    assert not [event for event in events if isinstance(event, wire.End)]
    assert not counters.finished
    assert counters.pid == process.pid
    assert counters.used == len(segments) + sum(site.guarded for segment in segments for site in segment.sites)
    assert wire.totals(segments, counters).loads > 512_000


def test_a_reader_that_goes_away_does_not_disturb_the_program(runner, ends, tmp_path):
    read_end, write_end = os.pipe()
    process = start(runner, [ends, "exit"], write_end, tmp_path / "counters", "--mode=full", stderr=subprocess.PIPE)
    os.close(write_end)
    os.read(read_end, 100)
    os.close(read_end)
    out, err = process.communicate(timeout=900)
    assert (process.returncode, out, err) == (7, b"", b"")
    assert wire.read_counters(tmp_path / "counters").finished


def read_slowly(pipe: int, most: int, *, every: int, pause: float) -> bytes:
    """Read a pipe to its end in pieces of at most so many bytes, with a pause where the bytes so far divide by ``every``."""
    data = bytearray()
    while piece := os.read(pipe, most):
        data += piece
        if len(data) % every == 0:
            time.sleep(pause)
    os.close(pipe)
    return bytes(data)


def test_a_slow_reader_of_a_nonblocking_pipe_gets_everything(runner, ends, tmp_path):
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    process = start(runner, [ends, "exit"], write_end, tmp_path / "counters", "--mode=full")
    os.close(write_end)
    data = read_slowly(read_end, 7001, every=5, pause=0.001)
    process.communicate(timeout=900)
    _, segments, events = wire.read_stream(data)
    counters = wire.read_counters(tmp_path / "counters")
    visits = Counter(event.segment for event in events if isinstance(event, wire.Visit))
    assert all(visits[s.id] == counters.values[s.counter] for s in segments if s.sites)


def test_a_pipe_whose_reader_falls_behind_gets_the_bytes_of_a_file(runner, tmp_path):
    command = [program(runner.folder, KERNELS / "triad.c", "-static"), "4"]  # 4 MB of records: static, or addresses differ
    expected = runner.trace(command, "--mode=full").stream
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 1 << 20)
    process = start(runner, command, write_end, tmp_path / "counters", "--mode=full")
    os.close(write_end)
    data = read_slowly(read_end, 100_003, every=3, pause=0.02)
    process.communicate(timeout=900)
    assert len(expected) > 3 << 20
    assert data == expected


def test_a_forked_child_does_not_disturb_what_lies_in_its_parents_pipe(runner, ends, tmp_path):
    read_end, write_end = os.pipe()
    process = start(runner, [ends, "fork"], write_end, tmp_path / "counters", "--mode=full")
    os.close(write_end)
    data = bytearray()
    while piece := os.read(read_end, 5000):
        data += piece
        time.sleep(0.0001)
    os.close(read_end)
    process.communicate(timeout=900)
    _, segments, events = wire.read_stream(bytes(data))
    counters = wire.read_counters(tmp_path / "counters")
    visits = Counter(event.segment for event in events if isinstance(event, wire.Visit))
    assert all(visits[s.id] == counters.values[s.counter] for s in segments if s.sites)


def test_the_streams_descriptor_is_moved_out_of_the_programs_sight(runner, tmp_path):
    with (tmp_path / "stream").open("wb") as out:
        process = start(runner, ["/bin/ls", "/proc/self/fd"], out.fileno(), tmp_path / "counters", close_fds=True)
        listed, _ = process.communicate(timeout=900)
    # 3 is the folder that ls reads; the kernel also lists Valgrind's own, high ones, which the program cannot use.
    assert [n for n in map(int, listed.split()) if n < 1000] == [0, 1, 2, 3]


def blocks_program(folder: Path, blocks: int) -> str:
    """A program of this many blocks, each a jump to the next."""
    source = folder / f"blocks{blocks}.S"
    source.write_text(
        '.section .note.GNU-stack,"",@progbits\n.text\n.globl _start\n_start:\n'
        f".rept {blocks}\nnop\njmp 1f\n1:\n.endr\nmov $60, %eax\nmov $4, %edi\nsyscall\n"
    )
    binary = folder / f"blocks{blocks}"
    subprocess.run(["gcc", "-nostdlib", "-static", "-o", binary, source], check=True)
    return str(binary)


def test_more_than_a_hundred_thousand_blocks_are_counted(runner):
    blocks = 110_000
    traced = runner.trace([blocks_program(runner.folder, blocks)])
    assert traced.returncode == 4
    assert traced.totals.instructions == 2 * blocks + 3
    assert traced.counters.used >= blocks


def test_too_many_blocks_end_with_a_sentence(runner):
    traced = runner.trace([blocks_program(runner.folder, 300)], "--max-counters=100")
    assert traced.returncode == 125
    assert traced.stderr.count(b"\n") <= 2
    assert b"more than 100 counted blocks" in traced.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--wire-fd=77"], b"--wire-fd=77 is not an open descriptor"),
        (["--counters=/dev/null/file"], b"cannot create the counter file /dev/null/file"),
        (["--sets=3"], b"--sets=3 is not a power of two"),
    ],
)
def test_impossible_options_end_with_a_sentence(runner, options, sentence):
    done = subprocess.run(
        [*valgrind.tool_command(options), "/bin/true"], env=runner.environment, capture_output=True, check=False
    )
    assert done.returncode == 125
    assert sentence in done.stderr


def test_a_program_that_is_executed_next_inherits_no_stream_and_no_counters(runner, ends, tmp_path):
    with (tmp_path / "stream").open("wb") as out:
        process = start(runner, [ends, "exec"], out.fileno(), tmp_path / "counters", "--trace-children=yes")
        listed, _ = process.communicate(timeout=900)
    assert (process.returncode, listed) == (0, b"hello\n")
    _, segments, events = wire.read_stream((tmp_path / "stream").read_bytes())
    assert events[-1] == wire.End(EXECED, 0, 0)
    assert wire.read_counters(tmp_path / "counters").used <= sum(1 + sum(x.guarded for x in s.sites) for s in segments)
