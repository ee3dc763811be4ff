"""Pools of workers: what becomes of them when their parent is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from convolver.errors import FormatError
from convolver.fanout import Journal

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


@pytest.mark.parametrize(
    "text",
    [b"", b"[]\n", b"{}\n", b"x\n", b"\xff\n", b'{"plan": "other"}\n', b'{"plan": "a"}\n{"rows": 1}\n', b"[" * 9999 + b"\n"],
)
def test_a_journal_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "journal").write_bytes(text)
    with pytest.raises(FormatError):
        Journal(tmp_path / "journal", "a")


def test_a_journal_goes_on_after_its_last_whole_line(tmp_path):
    path = tmp_path / "journal"
    Journal(path, "a").add(3, [1])
    with open(path, "a") as file:
        file.write('{"batch": 4, "ro')
    again = Journal(path, "a")
    again.add(5, [2])
    assert again.done == {3: [1], 5: [2]} == Journal(path, "a").done
