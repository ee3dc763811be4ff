"""SimGrid as an independent check: messages that do not overlap with others of their links take the same time there."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest

from convolver.mpi.events import IMMEDIATE, EventsBuilder, Op
from convolver.mpi.network import NEVER, Network, flat_configuration
from convolver.mpi.network_replay import replay
from convolver.mpi.time_independent import write_platform, write_ti

OPTIONS = ["network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0"]
OPTIONS += ["smpi/or:0:0:0", "smpi/os:0:0:0", "smpi/ois:0:0:0"]
OPTIONS += ["smpi/async-small-thresh:10000000", "smpi/send-is-detached-thresh:10000000"]


@pytest.mark.skipif(shutil.which("smpirun") is None, reason="needs SimGrid: apt install libsimgrid-dev")
@pytest.mark.parametrize("seed", [1, 2])
def test_simgrid_replays_phases_in_the_same_time(tmp_path, seed):
    random = np.random.default_rng(seed)
    builder = EventsBuilder(4)
    for _ in range(20):
        size = int(random.choice([100_000, 1_000_000, 3_000_000]))
        for rank in range(4):
            builder.burst(rank, random.uniform(1e-4, 5e-3)).collective(rank, Op.BARRIER)
        for rank in range(4):
            builder.send(rank, (rank + 1) % 4, size, flags=IMMEDIATE).receive(rank, (rank + 3) % 4, size)
    events = builder.build()
    configuration = flat_configuration(4, latency_seconds=1e-5, bandwidth_bytes_per_second=1e8, links=1)
    network = Network(configuration, rendezvous_bytes=NEVER)
    write_ti(events, tmp_path)
    write_platform(network, 4, tmp_path / "platform.xml")
    (tmp_path / "hosts").write_text("".join(f"node-{i}\n" for i in range(4)))
    words = ["smpirun", "-np", "4", "-platform", "platform.xml", "-hostfile", "hosts", "-replay", "trace.txt"]
    words += [*(f"--cfg={option}" for option in OPTIONS), "--log=replay.thresh:info"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = re.search(r"Simulation time ([0-9.e+-]+)", done.stdout + done.stderr)
    assert found, done.stderr
    assert replay(events, network).predicted_seconds == pytest.approx(float(found[1]), rel=2e-3)
