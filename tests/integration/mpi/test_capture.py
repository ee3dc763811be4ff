"""Recording real MPI programs under the MPI libraries that are installed; each library that is not is skipped with its name."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from convolver.errors import FormatError, ToolNotFoundError, TracerError
from convolver.mpi.capture import find_mpicc, record
from convolver.mpi.dim import read_dim, write_dim
from convolver.mpi.events import EventKind, Op
from convolver.mpi.network import NEVER, Network, flat_configuration
from convolver.mpi.network_replay import replay
from convolver.mpi.recorded_ranks import read_rank, read_recording
from tests.mpi_strategies import outcome

HERE = Path(__file__).parent
STEPS = 6


def run(library, folder, ranks, *arguments):
    launcher, _, program = library
    return record([*launcher, "-np", str(ranks), str(program), *map(str, arguments)], folder)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_halo_exchange_is_recorded_whole_and_replays(library, tmp_path, ranks):
    done = run(library, tmp_path / "r", ranks, STEPS)
    assert (done.exit_status, len(done.files)) == (0, ranks)
    events = read_recording(tmp_path / "r")
    assert events.notes["complete"]
    kinds = events.columns["kind"]
    sends = ranks * (2 + 1 + 1) * STEPS + 1
    assert np.count_nonzero(kinds == EventKind.SEND) == sends
    assert np.count_nonzero((kinds == EventKind.RECV) | (kinds == EventKind.WAIT)) == sends
    assert np.count_nonzero(kinds == EventKind.IRECV) == ranks * 3 * STEPS
    received = np.isin(kinds, [EventKind.RECV, EventKind.IRECV, EventKind.WAIT])
    assert (events.columns["partner"][received] >= 0).all()
    collectives = kinds == EventKind.COLLECTIVE
    named = {op: np.count_nonzero(collectives & (events.columns["op"] == op)) for op in (Op.ALLREDUCE, Op.BCAST, Op.REDUCE)}
    assert named == {Op.ALLREDUCE: ranks * 3 * STEPS, Op.BCAST: ranks * STEPS, Op.REDUCE: ranks}
    sent, got = (
        events.columns["bytes"][mask].sum()
        for mask in (kinds == EventKind.SEND, (kinds == EventKind.RECV) | (kinds == EventKind.WAIT))
    )
    assert sent == got
    network = Network(flat_configuration(ranks, latency_seconds=1e-6, bandwidth_bytes_per_second=1e9), rendezvous_bytes=NEVER)
    timeline = replay(events, network)
    bursts = [events.columns["seconds"][events.first[r] : events.first[r + 1]].sum() for r in range(ranks)]
    assert timeline.predicted_seconds >= max(bursts)
    assert timeline.ranks["compute_seconds"].to_list() == pytest.approx(bursts)
    assert timeline.ranks["bytes_received"].sum() >= sent


def test_a_recording_survives_conversion_to_dim(library, tmp_path):
    run(library, tmp_path / "r", 2, STEPS)
    events = read_recording(tmp_path / "r", clock="wall")
    write_dim(events, tmp_path / "r.dim")
    network = Network(flat_configuration(2, latency_seconds=1e-6), rendezvous_bytes=NEVER)
    again = replay(read_dim(tmp_path / "r.dim"), network)
    assert again.predicted_seconds == pytest.approx(replay(events, network).predicted_seconds)


@pytest.mark.parametrize(("how", "end"), [("abort", "aborted"), ("kill", "killed")])
def test_a_run_that_dies_leaves_all_finished_calls(library, tmp_path, how, end):
    done = run(library, tmp_path / "r", 2, STEPS, how)
    assert done.exit_status != 0
    events = read_recording(tmp_path / "r")
    assert end in events.notes["ended"]
    assert not events.notes["complete"]
    first = slice(events.first[0], events.first[1])
    sends = np.count_nonzero(events.columns["kind"][first] == EventKind.SEND)
    assert sends == 4 * (STEPS // 2 + 1)


def test_the_command_line_records_and_reports_the_exit_status(library, tmp_path):
    launcher, _, program = library
    words = [sys.executable, "-m", "convolver", "mpi", "trace", "-o", str(tmp_path / "a.dim"), "--json", "--"]
    done = subprocess.run([*words, *launcher, "-np", "2", program, "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout[done.stdout.index("{") :])
    assert document["ranks"] == 2
    assert read_dim(tmp_path / "a.dim").ranks == 2


@pytest.mark.parametrize("source", ["ring.f90", "ring08.f90"])
def test_fortran_programs_are_recorded_once(library, tmp_path, source):
    launcher, mpicc, _ = library
    wrapper = mpicc.replace("mpicc", "mpif90")
    if shutil.which(wrapper) is None or shutil.which("gfortran") is None:
        pytest.skip("needs a Fortran compiler for this MPI library")
    subprocess.run([wrapper, "-w", HERE / source, "-o", tmp_path / "ring"], check=True)
    done = record([*launcher, "-np", "2", str(tmp_path / "ring")], tmp_path / "r")
    assert done.exit_status == 0
    events = read_recording(tmp_path / "r")
    kinds = events.columns["kind"]
    counts = {
        kind: int(np.count_nonzero(kinds == kind))
        for kind in (EventKind.SEND, EventKind.IRECV, EventKind.WAIT, EventKind.COLLECTIVE)
    }
    alone = int(source == "ring08.f90")
    assert counts == {EventKind.SEND: 10 + alone, EventKind.IRECV: 10, EventKind.WAIT: 10, EventKind.COLLECTIVE: 12}
    assert set(events.columns["bytes"][kinds == EventKind.WAIT]) == {800}
    assert events.columns["bytes"][kinds == EventKind.RECV].tolist() == [80] * alone


def test_one_sided_operations_are_opaque_and_their_time_counts(library, tmp_path):
    launcher, mpicc, _ = library
    subprocess.run([mpicc, "-w", HERE / "onesided.c", "-o", tmp_path / "onesided"], check=True)
    assert record([*launcher, "-np", "2", str(tmp_path / "onesided"), "3"], tmp_path / "r").exit_status == 0
    for rank in range(2):
        records = read_rank(tmp_path / "r" / f"rank-{rank:05d}.cvm").records
        codes = records["op"][records["call"] == 12].tolist()
        once = [4, 1, 4, 5, 3, 19, 6]
        assert codes == [26, *once * 3, 27, 0]
    events = read_recording(tmp_path / "r")
    assert events.notes["complete"]
    assert np.count_nonzero(events.columns["kind"] == EventKind.COLLECTIVE) == 2 * 3
    network = Network(flat_configuration(2, latency_seconds=1e-6), rendezvous_bytes=NEVER)
    opaque = sum(int(r["call_ns"]) for r in read_rank(tmp_path / "r/rank-00000.cvm").records if r["call"] == 12) * 1e-9
    assert replay(events, network).ranks["compute_seconds"][0] >= opaque


def test_damaged_recordings_are_read_or_refused(library, tmp_path):
    run(library, tmp_path / "r", 2, 1)
    path = tmp_path / "r" / "rank-00000.cvm"
    good = path.read_bytes()
    random = np.random.default_rng(7)
    for _ in range(200):
        content = bytearray(good)
        for _ in range(random.integers(1, 5)):
            content[random.integers(0, len(content))] = random.integers(0, 256)
        path.write_bytes(content[: random.integers(1, len(content) + 1)])
        found, message = outcome(read_rank, path)
        assert found is not None or str(path) in message


def test_a_missing_compiler_is_said_in_one_sentence(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ToolNotFoundError, match="No mpicc"):
        find_mpicc("mpirun")
    with pytest.raises(ToolNotFoundError, match="nowhere-mpicc is not installed"):
        find_mpicc("mpirun", "nowhere-mpicc")


def test_a_program_without_mpi_is_refused(library, tmp_path):
    launcher, mpicc, _ = library
    with pytest.raises(TracerError, match="no rank recorded"):
        record([*launcher, "-np", "1", "true"], tmp_path / "r", mpicc=mpicc)


@pytest.mark.parametrize("folder", ["/proc/app.mpi", "/proc/self", "file"])
def test_a_folder_that_takes_no_recording_is_refused_before_the_run(folder, library, tmp_path, convolver):
    launcher, mpicc, _ = library
    (tmp_path / "file").touch()
    words = ["--mpicc", mpicc, "--", *launcher, "-np", "1", "touch", tmp_path / "ran"]
    done = convolver("mpi", "trace", "-o", tmp_path / folder, *words, code=2)
    assert "Nothing can be recorded in" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_folder_without_a_recording_is_refused(tmp_path):
    with pytest.raises(FormatError, match="holds no rank"):
        read_recording(tmp_path)
    assert os.listdir(tmp_path) == []


@contextmanager
def _recording(library, folder, environment):
    """Record a long run; yields the verb and the process that launches the ranks once they run."""
    launcher, _, program = library
    words = [sys.executable, "-m", "convolver", "mpi", "trace", "-o", str(folder / "a.dim"), "--"]
    words += [*launcher, "-np", "2", str(program), "20000000"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=environment) as verb:
        try:
            end = time.monotonic() + 60
            while [path.stat().st_size > 4 << 20 for path in Path(environment["TMPDIR"]).glob("*/rank-*.cvm")] != [True, True]:
                assert verb.poll() is None
                assert time.monotonic() < end
                time.sleep(0.05)
            yield verb, int(Path(f"/proc/{verb.pid}/task/{verb.pid}/children").read_text().split()[0])
        finally:
            verb.terminate()


@pytest.fixture
def own_temporary(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    return {**os.environ, "TMPDIR": str(folder)}


def test_a_killed_launcher_leaves_the_recording_and_its_status(library, tmp_path, own_temporary):
    with _recording(library, tmp_path, own_temporary) as (verb, launcher):
        os.kill(launcher, signal.SIGKILL)
        said = verb.communicate(timeout=60)[1].decode()
    assert verb.returncode == 128 + signal.SIGKILL, said
    assert "ended with status 137; what its ranks had recorded by then is kept." in said
    assert read_dim(tmp_path / "a.dim").ranks == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_verb_that_is_ended_takes_launcher_and_folder_along(library, tmp_path, own_temporary, number):
    with _recording(library, tmp_path, own_temporary) as (verb, launcher):
        verb.send_signal(number)
        said = verb.communicate(timeout=60)[1].decode()
        assert verb.returncode == -number
    assert f"convolver: ended by {number.name}; whatever was named as written is complete." in said
    assert not list(Path(own_temporary["TMPDIR"]).glob("*/rank-*.cvm"))
    end = time.monotonic() + 60
    while Path(f"/proc/{launcher}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
