"""Pools of workers: what becomes of them when their parent is killed."""

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from convolver.errors import ConvolverError, FormatError, UsageError
from convolver.fanout import Journal, run_missing

PARENT = """
import sys
from convolver.fanout import Journal, run_missing
from tests.unit.test_fanout import rest

run_missing(rest, {n: (sys.argv[1], n) for n in range(2)}, Journal(None, ""), jobs=2)
"""


def rest(folder, _number):
    """What a worker does that is ended."""
    (Path(folder) / f"worker-{os.getpid()}").touch()
    time.sleep(60)


def large(folder, number):
    """Return more than a pipe holds; the first time that number 0 is asked for, die after half of it was sent."""
    half = Path(folder) / "half"
    if number == 0 and not half.exists():
        half.touch()
        handle = int(sys.argv[1])
        os.write(handle, struct.pack("!i", 1 << 20) + bytes(1000))
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes([number]) * (1 << 20)


def die(_number):
    """Die by a signal."""
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(number):
    """Raise an error of our own."""
    raise UsageError(f"{number} is refused.")


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
    paths = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env=paths)
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


def test_a_worker_that_dies_within_its_answer_holds_nobody_up(tmp_path):
    journal = Journal(None, "")
    run_missing(large, {n: (str(tmp_path), n) for n in range(6)}, journal, keep=lambda _task, result: len(result), jobs=2)
    assert (tmp_path / "half").exists()
    assert journal.done == dict.fromkeys(range(6), 1 << 20)


def test_workers_that_die_again_and_again_end_with_a_sentence():
    with pytest.raises(ConvolverError, match="4 workers died"):
        run_missing(die, {0: (0,)}, Journal(None, ""), jobs=1)


def test_what_a_task_raises_is_raised():
    with pytest.raises(UsageError, match="7 is refused"):
        run_missing(refuse, dict.fromkeys(range(3), (7,)), Journal(None, ""), jobs=2)


def _wait(until, seconds=60.0):
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    "text",
    [b"[]\n", b"{}\n", b"x\n", b"\xff\n", b'{"plan": "other"}\n', b'{"plan": "a"}\n{"rows": 1}\n', b"[" * 9999 + b"\n"],
)
def test_a_journal_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "journal").write_bytes(text)
    with pytest.raises(FormatError):
        Journal(tmp_path / "journal", "a")


def test_a_journal_that_a_crash_left_empty_begins_anew(tmp_path):
    (tmp_path / "journal").touch()
    Journal(tmp_path / "journal", "a").add(3, [1])
    assert Journal(tmp_path / "journal", "a").done == {3: [1]}


def test_a_journal_goes_on_after_its_last_whole_line(tmp_path):
    path = tmp_path / "journal"
    Journal(path, "a").add(3, [1])
    with open(path, "a") as file:
        file.write('{"batch": 4, "ro')
    again = Journal(path, "a")
    again.add(5, [2])
    assert again.done == {3: [1], 5: [2]} == Journal(path, "a").done
