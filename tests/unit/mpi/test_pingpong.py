"""Fitting a network to ping-pong lines, and measuring a real one where MPI is installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from convolver.errors import ProbeError
from convolver.machine.profile import MachineProfile
from convolver.mpi.events import EventsBuilder
from convolver.mpi.network import NEVER
from convolver.mpi.network_replay import replay
from convolver.mpi.pingpong import fit_network, why_it_failed


def lines(latency=2e-6, rate=1e9, eager=8192):
    sizes = [0, *(1 << k for k in range(23))]
    yield {"kind": "hosts", "same": False}
    for size in sizes:
        for noise in (1.0, 1.3, 1.01):
            yield {"kind": "pingpong", "bytes": size, "seconds": (latency + size / rate) * noise}
        yield {"kind": "overhead", "bytes": size, "seconds": 3e-7}
        for late in (2e-3, 2.1e-3):
            yield {"kind": "late", "bytes": size, "seconds": late if size >= eager else 4e-7}


def test_latency_bandwidth_and_eager_limit_are_found_from_the_fastest_samples():
    found = fit_network(list(lines()))
    assert found["latency_seconds"] == pytest.approx(2e-6, rel=0.03)
    assert found["bandwidth_bytes_per_second"] == pytest.approx(1e9, rel=1e-6)
    assert found["eager_limit_bytes"] == 8192
    assert found["overhead_seconds"] == pytest.approx(3e-7)
    assert len(found["samples_seconds"]["1024"]) == 3
    assert fit_network(list(lines(eager=1 << 40)))["eager_limit_bytes"] == NEVER


def test_a_ping_pong_replayed_on_its_own_network_takes_its_own_time():
    builder = EventsBuilder(2)
    for _ in range(10):
        builder.send(0, 1, 4096).receive(1, 0, 4096).send(1, 0, 4096).receive(0, 1, 4096)
    network = {**fit_network(list(lines())), "tasks_per_node": 1}
    machine = MachineProfile(name="m", hierarchy=(), network=network)
    measured = 20 * (network["latency_seconds"] + 4096 / 1e9)
    assert replay(builder.build(), machine).predicted_seconds == pytest.approx(measured, rel=1e-6)


def test_a_launcher_that_refuses_is_explained_with_the_remedy():
    rule = "-" * 40
    assert "OMPI_ALLOW_RUN_AS_ROOT=1" in why_it_failed(
        "mpirun -np 2", 1, f"{rule}\nmpirun has detected an attempt to run as root.\n{rule}"
    )
    assert "--oversubscribe" in why_it_failed("mpirun -np 2", 1, f"{rule}\nThere are not enough slots available\n{rule}\n")
    assert "-np 2" in why_it_failed("mpirun", 2, "the ping-pong needs exactly two tasks")
    assert why_it_failed("x", 3, f"no such host.\n{rule}\n") == "The ping-pong under 'x' ended with status 3: no such host."
    assert why_it_failed("x", 3, "").endswith("it said nothing.")


def test_the_share_of_the_processors_is_what_both_tasks_got():
    busy = [{"kind": "busy", "bytes": 0, "seconds": 0.5}]
    assert fit_network([*lines(), *busy], 2)["cpu_share"] == 0.5
    assert fit_network([*lines(), *busy], 1)["cpu_share"] == 1.0
    assert "cpu_share" not in fit_network(list(lines()))
    builder = EventsBuilder(2).burst(0, 1.0)
    half = MachineProfile(name="m", hierarchy=(), network={**fit_network([*lines(), *busy]), "tasks_per_node": 1})
    assert replay(builder.build(), half).predicted_seconds == 2.0


def test_handing_over_is_what_a_message_takes_longer_on_one_processor():
    shared = [{"kind": "handover", "bytes": 0, "seconds": seconds} for seconds in (5e-6, 4e-6, 9e-6)]
    assert fit_network([*lines(), *shared])["handover_seconds"] == pytest.approx(5e-6 - 2e-6)


def test_a_disturbed_ping_pong_is_refused():
    with pytest.raises(ProbeError, match="too few sizes"):
        fit_network([{"kind": "pingpong", "bytes": 1, "seconds": 1e-6}])
    flat = [{"kind": "pingpong", "bytes": 1 << k, "seconds": 1e-3 / (k + 1)} for k in range(23)]
    with pytest.raises(ProbeError, match="no longer than small"):
        fit_network(flat)


def test_the_command_line_says_what_is_missing(tmp_path):
    words = [
        sys.executable,
        "-m",
        "convolver",
        "mpi",
        "network",
        "-o",
        str(tmp_path / "n.json"),
        "--mpicc",
        "no-such-mpicc",
        "--",
        "true",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "no-such-mpicc is not installed" in done.stderr
    assert json.dumps(done.stdout) == '""'
