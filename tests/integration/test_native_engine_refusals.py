"""What the native engine cannot copy: programs that have it run on natively, unharmed, and the log says why."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from convolver.tracing.native_engine import engine_program, refusal, went_native

C = Path(__file__).resolve().parent.parent / "c"
REFUSAL = refusal()
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
        pytest.skip("this kernel has no restartable sequences")
    assert natively == UNCOMMITTED
    status, output, reasons = _traced(tmp_path, [program, library], environment)
    assert (status, output) == UNCOMMITTED
    assert [reason.partition(" at ")[0] for reason in reasons] == [why]


@pytest.mark.parametrize("how", [(), ("--bursts-only=0.002", "--sample=1000")], ids=["counts", "bursts only"])
def test_attaching_in_a_restartable_sequence_aborts_it(how: tuple[str, ...], tmp_path: Path) -> None:
    program = subprocess.Popen([_compiled(tmp_path / "program", C / "restartable.c", "-DTIMES=1000000")], stdout=subprocess.PIPE)
    assert program.stdout is not None
    assert program.stdout.read(7) == b"begun, "
    attach = [engine_program(), f"--log-file={tmp_path / 'log'}", f"--attach={program.pid}", "--for=0.2", *how]
    subprocess.run(attach, capture_output=True, check=True)
    time.sleep(0.1)
    program.terminate()
    assert program.wait(10) == 0
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
    attach = [engine_program(), f"--log-file={tmp_path / 'log'}", f"--attach={receiver.pid}", "--for=0.1"]
    subprocess.run(attach, capture_output=True, check=True)
    assert sender.wait(60) == 0
    assert receiver.stdout.read() == b"0 of %d wrong, gs 0, mask 0\n" % SENT
    assert receiver.wait(10) == 0


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
        ;
    stop = 1;
    pthread_join(thread, 0);
    puts(turns > 1000000 ? "worked" : "was held up");
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
        command = [engine_program(), f"--attach={program.pid}", f"--log-file={log}", f"--dump={counts}", *options]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    for _ in range(3):
        assert attached("--for=0.2").wait(10) == 0
        assert max(int(line.split()[1]) for line in counts.read_text().splitlines()) > 1000
        assert attached("--for=0.2").wait(10) == 125
        assert "1 of its threads have slept since; they leave the engine when they wake up" in log.read_text()
        program.stdin.write(b"x")
        time.sleep(0.1)
    with attached("--for=2") as first:
        assert first.stderr is not None
        assert first.stderr.readline().startswith("Attached")
        assert attached("--for=0.2").wait(10) == 125
        assert "is in the engine of another trace already" in log.read_text()
    program.stdin.close()
    assert program.wait(10) == 0
    assert program.stdout.read() == b"worked\n"
