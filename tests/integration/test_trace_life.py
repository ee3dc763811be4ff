"""A traced run that is asked to stop, or whose reader is killed, leaves whole files and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from convolver.tracing.reader import Trace
from convolver.tracing.run_folder import PREFIX, RunFolder, sweep
from tests.integration.tool_runs import requires_tool

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
static volatile double numbers[1 << 16];
int main(int argc, char **argv)
{
    for (long turn = 0; turn < atol(argv[2]); turn++) {
        for (int i = 0; i < 1 << 16; i++)
            numbers[i] += turn;
        if (!turn)
            fclose(fopen("running", "w"));
    }
    fclose(fopen("ended", "w"));
    return 0;
}
"""
SHORT, LONG = "2", "100000000"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("life")
    (folder / "turns.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-o", folder / "turns", folder / "turns.c"], check=True)
    return folder / "turns"


def begin(program, folder, turns):
    """Start a traced run in a session of its own."""
    command = [sys.executable, "-m", "convolver", "trace", "-o", "a.cvt", "--", program, "x", turns]

    def hang_up_ends() -> None:  # not so where the tests themselves were started by nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    return subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hang_up_ends
    )


def wait_for(test, process):
    while not test():
        assert process.poll() is None, "nothing happened"
        time.sleep(0.005)


def stop_while(test, process):
    """Stop a process once the test fails: it does not end while another process has this one's processor."""
    process.send_signal(signal.SIGSTOP)
    while test():
        process.send_signal(signal.SIGCONT)
        time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)


def folders_of(process):
    """The shared folders that the traced run of a process has, by the options of its tracer."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.getsid(int(entry.parent.name)) == process.pid:
            found |= {Path(os.fsdecode(word.split(b"=")[1])).parent for word in words if word.startswith(b"--counters=")}
    return found


def others_run(process):
    """Whether another process of the session runs: the traced program."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = entry.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == process.pid != int(entry.parent.name) and state != "Z":
            return True
    return False


@requires_tool
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("moment", ["running", "finishing"])
def test_a_signal_at_any_time_leaves_whole_files_and_nothing_else(program, tmp_path, number, moment):
    process = begin(program, tmp_path, LONG if moment == "running" else SHORT)
    wait_for((tmp_path / "running").exists, process)
    folders = folders_of(process)
    if moment == "finishing":
        wait_for((tmp_path / "ended").exists, process)
        stop_while(lambda: others_run(process), process)
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=900)
    assert process.returncode in (-number, 130), said
    recorded = Trace.load(tmp_path / "a.cvt")
    recorded.verify()
    assert recorded.complete == (moment == "finishing")
    assert sorted(path.name for path in tmp_path.glob("a.*")) == ["a.cvt", "a.sig.parquet"]
    assert not any(folder.exists() for folder in folders)


@requires_tool
def test_the_tracer_cleans_up_when_its_reader_was_killed(program, tmp_path):
    process = begin(program, tmp_path, "200")
    wait_for((tmp_path / "running").exists, process)
    folders = folders_of(process)
    os.kill(process.pid, signal.SIGKILL)
    _, said = process.communicate(timeout=900)  # the program has the descriptor, too: until its end
    assert "reader of the trace is gone" in said
    assert (tmp_path / "ended").exists()
    assert folders
    assert not any(folder.exists() for folder in folders)


def test_folders_of_dead_processes_are_swept_and_others_stay():
    with tempfile.TemporaryDirectory() as name, RunFolder() as mine:
        place = Path(name)
        dead, young, other = (place / f"{PREFIX}{which}" for which in ("dead", "young", "other"))
        for folder in (dead, young, other):
            folder.mkdir()
            (folder / "counters").touch()
        os.utime(dead, (1, 1))
        os.utime(mine, (1, 1))
        (place / f"{PREFIX}locked").symlink_to(mine)
        sweep(place)
        sweep(mine.parent)
        assert not dead.exists()
        assert young.exists()
        assert mine.exists()
