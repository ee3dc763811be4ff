"""The join on real programs: the interposer inside a traced run attributes exact block executions to bursts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from convolver.errors import FormatError, TracerError
from convolver.machine.catalog import find_machine
from convolver.mpi.burst_ratios import rank_bursts
from convolver.mpi.capture import record
from convolver.mpi.events import EventKind
from convolver.mpi.network import Network, flat_configuration
from convolver.mpi.prediction import block_times, predict_parallel
from convolver.mpi.recorded_ranks import as_events, read_ranks
from convolver.mpi.traced import record_blocks
from convolver.tracing.native_engine import refusal

STEPS = 4
CELLS = 4094

pytestmark = pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")


def recorded(library, folder, engine):
    launcher, _, program = library
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
        patch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        command = [*launcher, "-np", "2", str(program), str(STEPS)]
        assert record(command, folder).exit_status == 0
        assert record_blocks(command, folder, executions=1, options=["--engine", engine]).exit_status == 0
    return folder


@pytest.fixture(scope="module")
def run(library, tmp_path_factory):
    return recorded(library, tmp_path_factory.mktemp("join") / "app.mpi", "valgrind")


def machines():
    return find_machine("server-96m"), find_machine("desktop-32m")


def network():
    return Network(flat_configuration(2, latency_seconds=1e-6, bandwidth_bytes_per_second=1e9))


def assert_exact(run):
    for rank in range(2):
        groups, counts = rank_bursts(run / "traced", rank, block_times(*machines()))
        mine = np.array([module.endswith("halo") and function == "main" for module, function, _ in groups.names])
        loops = groups.executions[:, np.flatnonzero(mine)].toarray()
        # The function with the loop is inlined three times. Compilers may unroll, but each burst's share of the 45 rounds stays.
        loop = loops[:, np.argsort(loops.sum(axis=0))[-3:]].sum(axis=1)
        per_round = loop.sum() / (45 * STEPS)
        assert CELLS / 8 <= per_round <= CELLS
        assert sorted((loop[loop > 0] / per_round).tolist()) == pytest.approx(sorted([5.0, 20.0, 20.0] * STEPS))
        events, origins = as_events("run", read_ranks(run))
        part = slice(events.first[rank], events.first[rank + 1])
        bursts = events.columns["kind"][part] == EventKind.BURST
        assert (counts.groups_of(origins[part])[bursts] >= 0).all()


@pytest.mark.slow
def test_executions_of_the_inner_loop_are_attributed_exactly(run):
    assert_exact(run)


@pytest.mark.slow
@pytest.mark.skipif(refusal() is not None, reason="the native engine cannot run here")
def test_the_native_engine_attributes_the_inner_loop_exactly(library, tmp_path):
    reason = ""
    try:
        run = recorded(library, tmp_path / "app.mpi", "native")
    except TracerError as error:  # MPICH over UCX patches the C library's code while it starts
        reason = str(error)
    if reason:
        assert "mpich" in library[0][0]
        assert "because of code that the program made itself" in reason
    else:
        assert_exact(run)


@pytest.mark.slow
def test_a_run_on_the_base_itself_has_ratio_one_and_the_same_time(run):
    base, _ = machines()
    found = predict_parallel(run, base=base, target=base, base_network=network(), target_network=network())
    assert {row["ratio"] for row in found.document["clusters"]} == {1.0}
    assert found.seconds == found.document["base_seconds"]
    assert found.document["attributed_share"] == pytest.approx(1.0)


@pytest.mark.slow
def test_ratios_by_rank_cluster_and_module_agree_with_their_sums(run):
    base, target = machines()
    found = predict_parallel(run, base=base, target=target, base_network=network(), target_network=network())
    document = found.document
    for table in ("ranks", "clusters", "modules"):
        sums = [sum(row[f"{side}_seconds"] for row in document[table]) for side in ("base", "target")]
        assert sums[0] == pytest.approx(document["predicted_burst_seconds"])
        for row in document[table]:
            assert row["ratio"] == pytest.approx(row["base_seconds"] / row["target_seconds"])
    assert document["modules"][0]["module"].endswith("halo")
    assert not any("libconvolver-mpi" in row["module"] for row in document["modules"])
    assert document["interval_seconds"][0] <= found.seconds <= document["interval_seconds"][1]


@pytest.mark.slow
def test_the_command_line_predicts_and_keeps_the_artifacts(run, tmp_path):
    from convolver.mpi.cfg import write_cfg

    write_cfg(flat_configuration(2, latency_seconds=1e-6), tmp_path / "net.cfg")
    words = ["predict", "--mpi", str(run), "--base", "server-96m", "--target", "desktop-32m", "--json"]
    words += ["--network", str(tmp_path / "net.cfg"), "-o", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-m", "convolver", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["target"] == "desktop-32m"
    assert len(document["ranks"]) == 2
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {f"app@desktop-32m{end}" for end in (".run.json", ".timeline.parquet", ".ranks.png", ".dim", ".cfg")}
    # Dimemas' modules in the exported trace say the same as the ratios of the bursts.
    words = ["replay", str(tmp_path / "out/app@desktop-32m.dim"), "--config", str(tmp_path / "out/app@desktop-32m.cfg"), "--json"]
    done = subprocess.run([sys.executable, "-m", "convolver", *words], capture_output=True, text=True, check=False)
    ranks = json.loads(done.stdout)["ranks"]
    replayed = {row["rank"]: row["compute_seconds"] for row in ranks}
    for row in document["ranks"]:
        assert replayed[row["rank"]] == pytest.approx(row["recorded_seconds"] / row["ratio"], rel=0.2)


def test_a_recording_without_a_traced_run_is_refused(library, tmp_path):
    launcher, _, program = library
    record([*launcher, "-np", "2", str(program), "1"], tmp_path / "r")
    with pytest.raises(FormatError, match="--signature"):
        predict_parallel(
            tmp_path / "r", base=machines()[0], target=machines()[1], base_network=network(), target_network=network()
        )
