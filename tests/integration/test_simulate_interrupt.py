"""Ctrl-C stops a simulation of arrays at once, on one thread and on several."""

import signal
import subprocess
import sys
import time

import pytest

CODE = """
import sys, time
import numpy as np
from convolver.machine.hierarchy import Level
from convolver.simulation.simulate import simulate_arrays

class Told:
    def start(self, label, total=None, unit=""): print("started", flush=True)
    def advance(self, amount, note=""): pass
    def finish(self): print(f"{time.monotonic():.6f}", flush=True)

levels = [Level(level="L1", size_bytes=48 << 10, ways=12), Level(level="L2", size_bytes=32 << 20, ways=16)]
addresses = np.random.default_rng(1).integers(0, 1 << 28, 64 << 20, dtype=np.uint64)
simulate_arrays(addresses, machines=levels, jobs=JOBS, progress=Told())
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_is_seen_within_a_fifth_of_a_second(jobs):
    process = subprocess.Popen(
        [sys.executable, "-c", CODE.replace("JOBS", str(jobs))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(0.1)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    stopped = float(process.stdout.readline())
    process.communicate()
    assert process.returncode not in (0, None)
    assert stopped - sent < 0.2
