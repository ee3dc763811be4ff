"""Ctrl-C stops a simulation at once: of arrays and of traces, on one thread, on several, and in other processes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from convolver._native.trace_decoder import Decoder
from convolver.tracing.writer import TraceWriter
from tests.wire_streams import Segment, Site, Stream

CODE = """
import sys, time
import numpy as np
from convolver.machine.hierarchy import Level
from convolver.simulation.one_pass import simulate_arrays

class Reported:
    def start(self, label, total=None, unit=""): print("started", flush=True)
    def advance(self, amount, note=""): pass
    def finish(self): print(f"{time.process_time():.6f}", flush=True)

levels = [Level(level="L1", size_bytes=48 << 10, ways=12), Level(level="L2", size_bytes=32 << 20, ways=16)]
addresses = np.random.default_rng(1).integers(0, 1 << 28, 64 << 20, dtype=np.uint64)
simulate_arrays(addresses, machines=levels, jobs=JOBS, progress=Reported())
"""
"""Simulates for many seconds; tells when it began, and what processor time it had taken when it stopped."""

VERB = """
import sys
import convolver.reporting.console as console
from convolver.cli.app import main

class Reported:
    def start(self, label, total=None, unit=""): print("started", flush=True)
    def advance(self, amount, note=""): pass
    def finish(self): pass

console.terminal_progress = Reported
main()
"""
"""``convolver`` with its arguments; tells when the work begins."""


def processor_seconds(process):
    """Processor time of a running process: on a busy machine, unlike the elapsed time, the process's own."""
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def state(process):
    """State of a process: T is stopped."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_is_seen_within_a_fifth_of_a_second(jobs):
    process = subprocess.Popen(
        [sys.executable, "-c", CODE.replace("JOBS", str(jobs))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGSTOP)  # or it goes on while another process has this one's processor
    while state(process) != "T":
        time.sleep(0.001)
    taken = processor_seconds(process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    stopped = float(process.stdout.readline())
    process.communicate()
    assert process.returncode not in (0, None)
    assert stopped - taken < 0.2 * jobs


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace of a single chunk with 80 million references, which take half a minute in the detailed engine."""
    sites, visits = 4000, 20_000
    stream = Stream()
    stream.module("/usr/bin/some")
    stream.segment(Segment(0x400000, [4], [Site(displacement=64 * site) for site in range(sites)], words=1))
    stream.control(1, 1)
    for visit in range(visits):
        stream.visit(0, [0x10000 + 4096 * (visit % 97)])
    decoder = Decoder()
    decoder.record()
    decoder.feed(stream.bytes())
    path = tmp_path_factory.mktemp("ranks") / "app.0.cvt"
    writer = TraceWriter(path, {"command": ["x"], "sampling": {"mode": "full"}})
    writer.put_recorded(decoder.take())
    writer.put_counts(visits.to_bytes(8, "little"))
    writer.finish({"complete": True})
    return path


def running(group):
    """Processes of a group that do not wait for being reaped only."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of, *_ = path.read_text().rpartition(")")[2].split()
            found += [path] if int(of) == group and state != "Z" else []
    return found


def interrupted(arguments, wait=0.0):
    """Run ``convolver``, send SIGINT to it and its workers, as a terminal does, and wait until all have ended.

    Returns exit code and messages.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", VERB, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "started\n", process.stderr.read()
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGINT)
        _, messages = process.communicate(timeout=20)  # far less than the work takes
    finally:
        process.kill()
    while running(process.pid):
        time.sleep(0.02)
    return process.returncode, messages


SENTENCE = "convolver: interrupted; whatever was named as written is complete.\n"
MACHINES = ["-m", "server-hbm", "-m", "desktop-32m", "-m", "server-96m"]


@pytest.mark.parametrize("options", [MACHINES, [*MACHINES, "--jobs", "2"], ["-m", "server-hbm", "--causes"]])
def test_an_interrupted_simulation_of_a_trace_ends_without_a_traceback(trace, tmp_path, options):
    assert interrupted(["simulate", trace, *options, "-o", tmp_path / "out.parquet"], 0.1) == (130, SENTENCE)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_simulation_of_a_folder_ends_its_workers(trace, tmp_path):
    arguments = ["simulate", trace.parent, "-m", "server-hbm", "--jobs", "2", "-o", tmp_path / "out.parquet"]
    assert interrupted(arguments, 1.0) == (130, SENTENCE)
    assert {path.name for path in tmp_path.iterdir()} == {"out.parquet.journal", "out.parquet.parts"}
