"""What the native engine cannot copy: programs that have it run on natively, unharmed, and the log says why."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from convolver.signature.signature import Signature
from convolver.tracing.native_engine import engine_program, refusal, went_native
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import signature_path, trace

C = Path(__file__).resolve().parent.parent / "c"
REFUSAL = refusal()
SYS_SCHED_GETATTR = 315
pytestmark = pytest.mark.skipif(REFUSAL is not None, reason=f"the native engine cannot run here: {REFUSAL}")


def _compiled(target: Path, source: str | Path, *options: str) -> Path:
    if isinstance(source, str):
        target.with_suffix(".c").write_text(source)
        source = target.with_suffix(".c")
    subprocess.run(["gcc", "-O2", "-o", target, source, *options], check=True)
    return target


def _natively(command: list[str | Path], environment: Mapping[str, str] = os.environ) -> tuple[int, bytes]:
    run = subprocess.run(command, env=environment, capture_output=True, check=False)
    return run.returncode, run.stdout


def _traced(folder: Path, command: list[str | Path], environment: Mapping[str, str] = os.environ) -> tuple[int, bytes, list[str]]:
    engine: list[str | Path] = [engine_program(), f"--log-file={folder / 'log'}", "--"]
    return *_natively([*engine, *command], environment), went_native(folder / "log")


NOT_GLIBCS = {**os.environ, "GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
UNCOMMITTED = (0, b"begun, 0 committed\n")


@pytest.mark.parametrize(
    ("options", "environment", "why"),
    [
        ((), os.environ, "restartable sequences (rseq)"),
        (("-static",), os.environ, "restartable sequences (rseq)"),
        (("-DSECTION=.data",), os.environ, "restartable sequences (rseq)"),
        ((), NOT_GLIBCS, "restartable sequences (rseq)"),
        (("-DSIGNATURE=0x12345678",), NOT_GLIBCS, "restartable sequences with a signature of its own (rseq)"),
        (("-DCALLER",), os.environ, "restartable sequences (rseq)"),
    ],
    ids=["usual", "static", "no section", "own area", "own signature", "library"],
)
def test_restartable_sequences_are_aborted_as_natively(
    options: tuple[str, ...], environment: Mapping[str, str], why: str, tmp_path: Path
) -> None:
    program = _compiled(tmp_path / "program", C / "restartable.c", *options)
    library = _compiled(tmp_path / "library.so", C / "restartable.c", "-shared", "-fPIC", "-DLIBRARY")
    natively = _natively([program, library], environment)
    if natively[0] == 77:
        pytest.skip("needs a kernel with restartable sequences (rseq)")
    assert natively == UNCOMMITTED
    status, output, reasons = _traced(tmp_path, [program, library], environment)
    assert (status, output) == UNCOMMITTED
    assert [reason.partition(" at ")[0] for reason in reasons] == [why]


@pytest.mark.parametrize("how", [(), ("--bursts-only=0.002", "--sample=1000")], ids=["counts", "bursts only"])
def test_attaching_in_a_restartable_sequence_aborts_it(how: tuple[str, ...], tmp_path: Path) -> None:
    program = subprocess.Popen([_compiled(tmp_path / "program", C / "restartable.c", "-DTIMES=1000000")], stdout=subprocess.PIPE)
    assert program.stdout is not None
    assert program.stdout.read(7) == b"begun, "
    attach: list[str | Path] = [engine_program(), f"--log-file={tmp_path / 'log'}", f"--attach={program.pid}", "--for=0.2", *how]
    subprocess.run(attach, capture_output=True, check=True)
    time.sleep(0.1)
    program.terminate()
    assert program.wait(100) == 0
    assert program.stdout.read() == b"0 committed\n"
    assert {reason.partition(" at ")[0] for reason in went_native(tmp_path / "log")} == {"restartable sequences (rseq)"}


SENT = 20_000


@pytest.mark.parametrize("options", [(), ("-DSLEEPS",)], ids=["computing", "sleeping"])
def test_no_queued_signal_is_lost_by_attaching_or_leaving(options: tuple[str, ...], tmp_path: Path) -> None:
    program = _compiled(tmp_path / "program", C / "queued.c", *options)
    receiver = subprocess.Popen([program], stdout=subprocess.PIPE)
    assert receiver.stdout is not None
    assert receiver.stdout.read(7) == b"begun, "
    sender = subprocess.Popen([program, str(receiver.pid), str(SENT)])
    attach: list[str | Path] = [engine_program(), f"--log-file={tmp_path / 'log'}", f"--attach={receiver.pid}", "--for=0.1"]
    subprocess.run(attach, capture_output=True, check=True)
    assert sender.wait(600) == 0
    assert receiver.stdout.read() == b"0 of %d wrong, gs 0, mask 0\n" % SENT
    assert receiver.wait(100) == 0


WORKER = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile long turns, stop;
static void *work(void *x)
{
    while (!stop)
        turns++;
    return x;
}
int main(void)
{
    char c;
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    if (write(1, "begun, ", 7) != 7)
        return 1;
    while (read(0, &c, 1) == 1)
        if (write(1, &c, 1) != 1)
            return 1;
    for (const long before = turns; turns < before + 1000000;)
        usleep(1000); /* for ever where the thread is held up */
    stop = 1;
    pthread_join(thread, 0);
    puts("worked");
    return 0;
}
"""


def test_a_process_can_be_attached_to_again_once_its_threads_have_left(tmp_path: Path) -> None:
    program = subprocess.Popen(
        [_compiled(tmp_path / "program", WORKER, "-lpthread")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stdout.read(7) == b"begun, "
    log, counts = tmp_path / "log", tmp_path / "counts"

    def attached(*options: str) -> subprocess.Popen[str]:
        command: list[str | Path] = [
            engine_program(),
            f"--attach={program.pid}",
            f"--log-file={log}",
            f"--dump={counts}",
            *options,
        ]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    for _ in range(3):
        while _state(program.pid) != "S":
            time.sleep(0.01)
        assert attached("--for=0.2").wait(100) == 0
        assert max(int(line.split()[1]) for line in counts.read_text().splitlines()) > 1000
        assert attached("--for=0.2").wait(100) == 125
        assert "1 of its threads have slept since; they leave the engine when they wake up" in log.read_text()
        program.stdin.write(b"x")
        assert program.stdout.read(1) == b"x"
    with attached("--for=600") as first:
        assert first.stderr is not None
        assert first.stderr.readline().startswith("Attached")
        assert attached("--for=0.2").wait(100) == 125
        assert "is in the engine of another trace already" in log.read_text()
        first.send_signal(signal.SIGTERM)
    program.stdin.close()
    assert program.wait(100) == 0
    assert program.stdout.read() == b"worked\n"


def _state(process: int) -> str:
    """Return the state of a process's first thread: S sleeps."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]


def _scheduling(process: int) -> bytes:
    """Return the process's ``struct sched_attr``: policy, flags, nice, priority, times."""
    attributes = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(SYS_SCHED_GETATTR, process, attributes, len(attributes), 0) == 0
    return attributes.raw


def _never_for_long() -> None:
    """Let the kernel end a process that computes for two seconds at real-time priority without a pause."""
    resource.setrlimit(resource.RLIMIT_RTTIME, (2_000_000, 2_000_000))


@pytest.mark.parametrize(
    "chosen",
    [
        ("nice", "-n", "7"),
        ("chrt", "--batch", "0"),
        ("chrt", "--idle", "0"),
        ("chrt", "--reset-on-fork", "--other", "0"),
        ("chrt", "--rr", "5"),
        ("chrt", "--fifo", "3"),
        ("chrt", "--deadline", "--sched-runtime=1000000", "--sched-deadline=9000000", "--sched-period=10000000", "0"),
    ],
    ids=["nice", "batch", "idle", "reset on fork", "round robin", "first in first out", "deadline"],
)
def test_attaching_leaves_the_scheduling_of_its_own_process(chosen: tuple[str, ...], tmp_path: Path) -> None:
    if subprocess.run([*chosen, "true"], capture_output=True, check=False).returncode:
        pytest.skip(f"needs the right to run '{' '.join(chosen)}'")
    program = subprocess.Popen(
        [_compiled(tmp_path / "program", WORKER, "-lpthread")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stdout.read(7) == b"begun, "
    engine = [*chosen, engine_program(), f"--log-file={tmp_path / 'log'}", f"--attach={program.pid}", "--for=600"]
    with (
        subprocess.Popen([*chosen, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as like,
        subprocess.Popen(engine, stderr=subprocess.PIPE, text=True, preexec_fn=_never_for_long) as attached,
    ):
        assert attached.stderr is not None
        assert like.stdin is not None
        assert like.stdout is not None
        like.stdin.write(b"x")
        assert like.stdout.read(1) == b"x"
        assert attached.stderr.readline().startswith("Attached")
        assert _scheduling(attached.pid) == _scheduling(like.pid)
        like.kill()
        attached.send_signal(signal.SIGTERM)
        assert attached.stderr.read().startswith("Detached")
    program.stdin.close()
    assert program.wait(100) == 0
    assert program.stdout.read() == b"worked\n"


BUSY = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile long turns[8], stop;
static void *work(void *mine)
{
    while (!stop)
        ++*(volatile long *)mine;
    return mine;
}
int main(void)
{
    char c;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], 0, work, (void *)&turns[i]);
    while (write(1, "x", 1) == 1 && read(0, &c, 1) == 1) {
        int moved = 0;
        long before[8];
        for (int i = 0; i < 8; i++)
            before[i] = turns[i];
        for (int looks = 0; looks < 1000 && moved < 8; looks++) {
            usleep(10000);
            moved = 0;
            for (int i = 0; i < 8; i++)
                moved += turns[i] > before[i];
        }
        if (moved < 8)
            return 1;
    }
    stop = 1;
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], 0);
    return 0;
}
"""


def test_busy_threads_are_left_and_go_on_again_and_again(tmp_path: Path) -> None:
    program = subprocess.Popen(
        [_compiled(tmp_path / "program", BUSY, "-lpthread")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert program.stdin is not None
    assert program.stdout is not None
    for _ in range(6):
        assert program.stdout.read(1) == b"x"
        engine = [engine_program(), f"--log-file={tmp_path / 'log'}", f"--attach={program.pid}", "--for=0.1"]
        said = subprocess.run(engine, stderr=subprocess.PIPE, text=True, check=True).stderr
        assert said.startswith("Attached: 9 threads")
        assert re.search(r"Detached( after|; threads that leave when they run next: 1)", said)
        program.stdin.write(b"x")
    assert program.stdout.read(1) == b"x"
    program.stdin.close()
    assert program.wait(300) == 0


REFUSED = """
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static long block[1] = {42};
static struct sock_filter every[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
static struct sock_fprog filter = {1, every};
static long from_gs(void)
{
    long value;
    __asm__ volatile("mov %%gs:0, %0" : "=r"(value));
    return value;
}
int main(void)
{
    long sum = from_gs == 0, value = 0;
    for (int i = 0; i < 1000; i++) {
        if (i == 500) {
            STATEMENT
        }
        sum += i ^ value;
    }
    printf("%ld\\n", sum);
    return 7;
}
"""
FILTERED = "value = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) |"


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("syscall(SYS_arch_prctl, 0x1001, block); value = from_gs();", "the program sets the gs segment"),
        ('__asm__ volatile("wrgsbase %0" : : "r"(block)); value = from_gs();', "an instruction that uses the gs segment"),
        (
            '__asm__ volatile("mov $20, %%eax\\nint $0x80" : "=a"(value)); value = value == getpid();',
            "an old system call (int or sysenter)",
        ),
        (f"{FILTERED} prctl(PR_SET_SECCOMP, 2, &filter);", "a filter of system calls (seccomp)"),
        (f"{FILTERED} syscall(SYS_seccomp, 1, 0, &filter);", "a filter of system calls (seccomp)"),
        (
            '__asm__ volatile("lea 1f(%%rip), %%rax\\nmov %%cs, %%ecx\\npush %%rcx\\npush %%rax\\nlretq\\n1: mov $5, %0"'
            ' : "=r"(value) : : "rax", "rcx");',
            "a far branch",
        ),
        ('__asm__ volatile("mov (%%edi), %%rax" : "=a"(value) : "D"(block));', "32-bit addresses"),
        ('if (__builtin_cpu_supports("rtm")) __asm__ volatile("xbegin 1f\\nxend\\n1:" : : : "rax");', "a memory transaction"),
    ],
    ids=["arch_prctl", "wrgsbase", "int 0x80", "prctl filter", "seccomp filter", "far branch", "32-bit addresses", "transaction"],
)
def test_what_cannot_be_copied_runs_natively_and_is_named(statement: str, why: str, tmp_path: Path) -> None:
    if why == "a memory transaction" and " rtm" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs a processor with memory transactions (rtm)")
    program = _compiled(tmp_path / "program", REFUSED.replace("STATEMENT", statement), "-mno-red-zone", "-no-pie", "-mfsgsbase")
    natively = _natively([program])
    if natively[0] == -signal.SIGSEGV:
        pytest.skip("needs a kernel with 32-bit system calls (int 0x80)")
    assert natively[0] == 7
    status, output, reasons = _traced(tmp_path, [program])
    assert (status, output) == natively
    assert [reason.partition(" at ")[0] for reason in reasons] == [why]


def _executions(folder: Path, command: list[str | Path], *functions: str) -> list[list[int]]:
    """Executions of each function's basic blocks, as they lie."""
    output = folder / "trace.cvt"
    trace([str(word) for word in command], output=output, sampling=SamplingPlan(mode="counts", engine="native"))
    blocks = (
        Signature.load(signature_path(output)).table.group_by("function", "offset").agg(pl.col("executions").sum()).sort("offset")
    )
    return [blocks.filter(pl.col("function") == function)["executions"].to_list() for function in functions]


OPENER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **libraries)
{
    long sum = 0;
    for (int i = 0; i < 200; i++) {
        void *library = dlopen(libraries[1 + i % 2], RTLD_NOW);
        int (*work)(int) = (int (*)(int))dlsym(library, i % 2 ? "second" : "first");
        for (int k = 0; k < 5; k++)
            sum += work(10 + k);
        dlclose(library);
    }
    printf("%ld\\n", sum);
    return count != 3;
}
"""
OPENED = """
__asm__(".globl NAME\\n.type NAME, @function\\n"
        "NAME: xor %eax, %eax\\n1: add %edi, %eax\\nEXTRA dec %edi\\njne 1b\\nret\\n.size NAME, .-NAME");
"""


def test_libraries_opened_and_closed_two_hundred_times_are_counted(tmp_path: Path) -> None:
    program = _compiled(tmp_path / "program", OPENER)
    libraries = [
        _compiled(tmp_path / f"{name}.so", OPENED.replace("NAME", name).replace("EXTRA", extra), "-shared", "-fPIC")
        for name, extra in (("first", ""), ("second", "add %edi, %eax\\n"))
    ]
    turns = range(10, 15)
    status, output, reasons = _traced(tmp_path, [program, *libraries])
    assert (status, output, reasons) == (0, b"%d\n" % (100 * 3 * sum(n * (n + 1) // 2 for n in turns)), [])
    executed = [500, 100 * sum(turns), 500]
    assert _executions(tmp_path, [program, *libraries], "first", "second") == [executed, executed]


THROWER = """
#include <cstdio>
#include <stdexcept>
extern "C" __attribute__((noinline)) void thrower(int i)
{
    if (i % 2)
        throw std::runtime_error("odd");
    throw i;
}
int main()
{
    long sum = 0;
    for (int i = 0; i < 10000; i++) {
        try {
            thrower(i);
        } catch (const std::exception &) {
            sum += 1000000;
        } catch (int value) {
            sum += value;
        }
    }
    std::printf("%ld\\n", sum);
}
"""


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_ten_thousand_exceptions_are_thrown_and_counted(tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(THROWER)
    program = tmp_path / "program"
    subprocess.run(["g++", "-O2", "-o", program, tmp_path / "program.cpp"], check=True)
    assert _traced(tmp_path, [program]) == (0, b"%d\n" % (5000 * 1_000_000 + sum(range(0, 10_000, 2))), [])
    ((entry, *others),) = _executions(tmp_path, [program], "thrower")
    assert entry == 10_000
    assert set(others) == {5000}


VSYSCALL = """
#include <time.h>
int main(void)
{
    time_t (*const old)(time_t *) = (time_t (*)(time_t *))0xffffffffff600400;
    time_t stored = 0;
    for (int i = 0; i < 1000; i++) {
        const time_t before = time(0), now = old(i % 2 ? &stored : 0);
        if (now < before - 1 || now > before + 2 || (i % 2 && stored != now))
            return 1;
    }
    return 7;
}
"""


def test_the_kernels_old_entries_answer(tmp_path: Path) -> None:
    if "[vsyscall]" not in Path("/proc/self/maps").read_text():
        pytest.skip("needs a kernel with a vsyscall page")
    program = _compiled(tmp_path / "program", VSYSCALL)
    if _natively([program]) != (7, b""):
        pytest.skip("needs a kernel whose vsyscall page programs may call")
    assert _traced(tmp_path, [program]) == (7, b"", [])


GO = """
package main

import "fmt"

func main() {
	results := make(chan int)
	for g := 0; g < 8; g++ {
		go func(g int) {
			defer func() { recover(); results <- g }()
			var nothing *int
			for i := 0; i < 100000; i++ {
				g += i & 3
			}
			*nothing = g
		}(g)
	}
	sum := 0
	for g := 0; g < 8; g++ {
		sum += <-results
	}
	fmt.Println(sum)
}
"""
RUST = """
use std::{panic, thread};
fn main() {
    panic::set_hook(Box::new(|_| {}));
    let work = |n: u64| thread::spawn(move || {
        let sum: u64 = (0..100_000u64).map(|i| i ^ n).sum();
        panic::catch_unwind(|| if n % 2 == 1 { panic!("odd") }).is_err() as u64 + sum
    });
    let threads: Vec<_> = (0..8).map(work).collect();
    println!("{}", threads.into_iter().map(|one| one.join().unwrap()).sum::<u64>());
}
"""


@pytest.mark.parametrize(
    ("compiler", "options", "suffix", "source"),
    [("go", ["build"], "go", GO), ("rustc", ["-O"], "rs", RUST)],
    ids=["Go", "Rust"],
)
def test_programs_with_runtimes_of_their_own_run_as_natively(
    compiler: str, options: list[str], suffix: str, source: str, tmp_path: Path
) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}")
    file, program = tmp_path / f"program.{suffix}", tmp_path / "program"
    file.write_text(source)
    subprocess.run([compiler, *options, "-o", program, file], check=True, capture_output=True)
    natively = _natively([program])
    assert natively[0] == 0
    assert _traced(tmp_path, [program]) == (*natively, [])
