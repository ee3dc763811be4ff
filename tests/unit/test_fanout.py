"""Pools of workers: what becomes of them when their parent is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import os, pathlib, sys, time
from convolver.fanout import Journal, run_missing

def work(folder, number):
    (pathlib.Path(folder) / f"worker-{os.getpid()}").touch()
    time.sleep(60)

if __name__ == "__main__":
    run_missing(work, {n: (sys.argv[1], n) for n in range(2)}, Journal(None, ""), jobs=2)
"""


def _alive(process: int) -> bool:
    """Tell whether a process runs; one that ended and is not yet waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("with_signal", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, with_signal):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path)])
    try:
        _wait(lambda: len(list(tmp_path.glob("worker-*"))) == 2)
        workers = [int(path.name.removeprefix("worker-")) for path in tmp_path.glob("worker-*")]
        assert all(map(_alive, workers))
        os.kill(parent.pid, with_signal)
        parent.wait()
        _wait(lambda: not any(map(_alive, workers)))
    finally:
        parent.kill()
        parent.wait()


def _wait(until, seconds=60.0):
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.05)
