"""``convolver replay``: JSON, files, what-ifs and exit codes."""

from __future__ import annotations

import json

import pytest

from convolver.mpi.cfg import write_cfg
from convolver.mpi.dim import write_dim
from convolver.mpi.events import RENDEZVOUS, EventsBuilder
from convolver.mpi.network import flat_configuration
from convolver.mpi.timeline import Timeline


@pytest.fixture
def files(tmp_path):
    builder = EventsBuilder(2, name="app")
    builder.burst(0, 1e-3).send(0, 1, 1 << 20, flags=RENDEZVOUS).burst(0, 2e-3)
    builder.burst(1, 0.0505).receive(1, 0, 1 << 20).burst(1, 1e-3)
    write_dim(builder.build(), tmp_path / "app.dim")
    rate = 100.0 * (1 << 20)
    write_cfg(flat_configuration(2, latency_seconds=1e-5, bandwidth_bytes_per_second=rate, links=1), tmp_path / "net.cfg")
    return tmp_path


def test_json_holds_the_prediction_and_the_shares_of_each_rank(files, convolver):
    out = json.loads(convolver("replay", files / "app.dim", "--config", files / "net.cfg", "--json").stdout)
    assert out["predicted_seconds"] == pytest.approx(0.06151, abs=2e-9)
    assert [set(rank) for rank in out["ranks"]] == [
        {"rank", "seconds", "compute_seconds", "transfer_seconds", "wait_seconds"}
    ] * 2
    assert out["ranks"][1]["compute_seconds"] == pytest.approx(0.0515)


def test_an_eager_limit_a_ratio_and_what_ifs_change_the_prediction(files, convolver):
    def seconds(*options):
        done = convolver("replay", files / "app.dim", "--config", files / "net.cfg", "--json", *options)
        return json.loads(done.stdout)["predicted_seconds"]

    assert seconds("--eager", "2MiB") == pytest.approx(0.05151, abs=2e-9)
    assert seconds("--never-rendezvous") == pytest.approx(0.05151, abs=2e-9)
    assert seconds("--latency", "0", "--bandwidth", "inf", "--cpu-ratio", "2") == pytest.approx(0.0505 / 2 + 0.002 / 2, abs=2e-9)


def test_a_timeline_and_a_paraver_trace_are_written_once(files, convolver):
    words = ("replay", files / "app.dim", "--config", files / "net.cfg", "-o", files / "t.parquet", "--prv", files / "t.prv")
    done = convolver(*words)
    assert "0.0615" in done.stdout or "61.5 ms" in done.stdout
    assert "Wrote" in done.stderr
    assert Timeline.load(files / "t.parquet").predicted_seconds == pytest.approx(0.06151, abs=2e-9)
    assert (files / "t.pcf").exists()
    assert "exists already" in convolver(*words, code=2).stderr
    convolver(*words, "--force")


def test_a_deadlock_ends_with_exit_code_5_and_names_the_cycle(files, convolver):
    builder = EventsBuilder(2)
    for rank in range(2):
        builder.send(rank, 1 - rank, 8, flags=RENDEZVOUS).receive(rank, 1 - rank, 8)
    write_dim(builder.build(), files / "dead.dim")
    done = convolver("replay", files / "dead.dim", "--config", files / "net.cfg", code=5)
    assert "Deadlock" in done.stderr
    assert "rank 0 at record 1 (send to 1 (tag 0)), waits for rank 1 at record 1" in done.stderr
    assert done.stdout == ""


def test_a_bad_trace_ends_with_exit_code_3_and_bad_options_with_2(files, convolver):
    (files / "bad.dim").write_text("nonsense\n")
    assert "bad.dim:1:" in convolver("replay", files / "bad.dim", "--config", files / "net.cfg", code=3).stderr
    words = ("replay", files / "app.dim", "--config", files / "net.cfg", "--eager", "1k", "--never-rendezvous")
    assert "contradict" in convolver(*words, code=2).stderr
