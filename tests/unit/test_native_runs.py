"""Native runs beside a prediction: their median, and what is said of runs that differ."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from convolver.child_processes import interrupted_later
from convolver.errors import NoiseWarning
from convolver.tracing.measure import Measurement, measure

BURN = """
import pathlib, sys, time
turn = pathlib.Path(sys.argv[1])
number = int(turn.read_text()) if turn.exists() else 0
turn.write_text(str(number + 1))
while time.process_time() < max(0.2, 0.6 + number * float(sys.argv[2])):
    pass
"""


def burning(tmp_path, more_each_time):
    return [sys.executable, "-c", BURN, str(tmp_path / "turn"), str(more_each_time)]


@pytest.mark.parametrize(
    ("seconds", "disturbed"),
    [((1.0, 1.1, 1.14), False), ((1.0, 1.0, 1.2), True), ((0.001, 0.002, 0.009), False), ((2.0,), False), ((0.1, 0.13), True)],
)
def test_runs_differ_by_a_share_and_by_more_than_short_programs_do(seconds, disturbed):
    assert Measurement(seconds, seconds, 0).disturbed == disturbed


def test_the_shortest_runs_count():
    assert Measurement((9, 9, 9, 9), (1.0, 1.5, 1.1, 1.05), 0, 3).seconds == 1.05
    assert not Measurement((9, 9, 9, 9), (1.0, 1.5, 1.1, 1.05), 0, 3).disturbed


def test_time_of_processes_that_a_command_starts_is_known(tmp_path):
    burn = burning(tmp_path, 0)
    assert measure(burn, runs=1).children_share == 0
    assert 0.9 < measure(["sh", "-c", '"$@"; true', "sh", *burn], runs=1).children_share <= 1


def _ended(process: Path) -> bool:
    """Tell whether a process is gone, or waits to be collected by init, which takes its time on some machines."""
    try:
        return (process / "stat").read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_program_ends_with_the_process_that_measures_it(tmp_path):
    said = tmp_path / "pid"
    watcher = f"""
import os, signal, threading, time
from pathlib import Path
said = Path({str(said)!r})
def stop():
    while not said.exists() or not said.read_text().endswith("\\n"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=stop, daemon=True).start()
from convolver.tracing.measure import measure
measure(["sh", "-c", "echo $$ > {said}; exec sleep 600"])
"""
    done = subprocess.run([sys.executable, "-c", watcher], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT, done.stderr
    program, deadline = Path(f"/proc/{int(said.read_text())}"), time.monotonic() + 30
    while not _ended(program) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _ended(program)


def test_ctrl_c_while_a_child_starts_comes_once_it_has():
    with interrupted_later() as catch_up:
        signal.raise_signal(signal.SIGINT)
        child = subprocess.Popen(["true"])
    assert child.wait() == 0
    with pytest.raises(KeyboardInterrupt):
        catch_up()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_child_started_with_ctrl_c_put_off_hears_it():
    with interrupted_later():
        child = subprocess.Popen(["sleep", "600"])
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == -signal.SIGINT


@pytest.mark.slow
def test_runs_that_differ_are_repeated_and_said(tmp_path):
    with pytest.warns(NoiseWarning, match=r"The [4-9] native runs took 0\.\d+ to \d\.\d+ s"):
        found = measure(burning(tmp_path, 0.3))
    assert found.seconds == pytest.approx(0.9, abs=0.1)
    assert 4 <= len(found.wall_seconds) <= 9


def test_a_disturbance_that_ends_leaves_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = measure(burning(tmp_path, -0.2))
    assert found.seconds == pytest.approx(0.2, abs=0.05)
    assert len(found.wall_seconds) > 3


def test_runs_that_agree_are_not(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measure(burning(tmp_path, 0.0)).seconds == pytest.approx(0.6, abs=0.1)


def test_what_a_program_sleeps_is_its_waiting():
    found = measure(["sleep", "0.2"], runs=1)
    assert found.waiting_seconds == pytest.approx(0.2, abs=0.05)


def test_a_program_in_a_queue_for_the_processor_does_not_wait(tmp_path):
    command = f"import os; os.sched_setaffinity(0, {{{max(os.sched_getaffinity(0))}}}); exec({BURN!r})"
    argv = [sys.executable, "-c", command, str(tmp_path / "turn"), "0"]
    with subprocess.Popen([*argv[:3], str(tmp_path / "other"), "9"]) as other:
        found = measure(argv, runs=1)
        other.kill()
    assert found.waiting_seconds < 0.1
    assert found.queued_share > 0.2
