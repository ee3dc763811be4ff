"""Files of bursts, the place of the program in a launcher's command, clusters as modules."""

from __future__ import annotations

import struct
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import FormatError, UsageError
from convolver.mpi.burst_ratios import MAGIC, BurstRatios, read_bursts
from convolver.mpi.events import EventKind, EventsBuilder
from convolver.mpi.network import Network, flat_configuration
from convolver.mpi.network_replay import replay
from convolver.mpi.prediction import with_cluster_events
from convolver.mpi.traced import program_at
from tests.mpi_strategies import outcome


def content(*chunks):
    parts = [struct.pack("<8sII", MAGIC, 3, 0)]
    for first, last, words in chunks:
        parts.append(struct.pack("<QQQ", first, last, len(words)))
        parts.append(np.array([c << 40 | n for c, n in words], "<u8").tobytes())
    return b"".join(parts)


def test_chunks_of_one_range_become_one_group(tmp_path):
    (tmp_path / "b.cvb").write_bytes(content((4, 7, [(1, 10), (5, 2)]), (8, 8, [(1, 1)]), (8, 8, [(9, 3)]), (12, 20, [])))
    found = read_bursts(tmp_path / "b.cvb")
    assert (found.rank, found.first.tolist(), found.last.tolist()) == (3, [4, 8, 12], [7, 8, 20])
    assert (found.bounds.tolist(), found.counters.tolist(), found.counts.tolist()) == ([0, 2, 4, 4], [1, 5, 1, 9], [10, 2, 1, 3])
    assert found.groups_of(np.array([0, 4, 7, 8, 9, 12, 20, 21])).tolist() == [-1, 0, 0, 1, -1, 2, 2, -1]


def test_a_cut_off_file_keeps_whole_chunks_and_a_damaged_one_is_refused(tmp_path):
    path, whole = tmp_path / "b.cvb", content((0, 1, [(1, 1)]), (2, 3, [(2, 2)]))
    path.write_bytes(whole[:-1])
    assert read_bursts(path).last.tolist() == [1]
    path.write_bytes(content((5, 4, [])))
    with pytest.raises(FormatError, match=r"b\.cvb: chunk 0 is damaged"):
        read_bursts(path)
    path.write_bytes(b"something else entirely")
    with pytest.raises(FormatError, match="first bytes"):
        read_bursts(path)


@given(st.data())
def test_any_damage_is_read_or_refused_in_one_sentence(data):
    import tempfile
    from pathlib import Path

    good = bytearray(content((0, 1, [(1, 1), (7, 9)]), (2, 3, [(2, 2)]), (9, 12, [(4, 4)])))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "b.cvb"
        path.write_bytes(bytes(good[: data.draw(st.integers(0, len(good)))]))
        found, message = outcome(read_bursts, path)
        assert found is not None or str(path) in message


def test_the_program_is_found_after_the_launchers_options():
    program = sys.executable
    assert program_at(["mpirun", "-np", "4", "--bind-to", "core", "-x", "A=sh", program, "x"]) == 7
    assert program_at(["mpiexec", "-n", "2", "-genv", "sh", "sh", program]) == 6
    assert program_at(["srun", "--", program]) == 2
    with pytest.raises(UsageError, match="No program is seen"):
        program_at(["mpirun", "-np", "4"])


def test_clusters_as_modules_give_the_same_time_as_ratios_of_bursts():
    builder = EventsBuilder(2)
    for rank in range(2):
        builder.burst(rank, 1.0 + rank).send(rank, 1 - rank, 1000, flags=2).receive(rank, 1 - rank, 1000).burst(rank, 0.5)
    events = builder.build()
    bursts = np.flatnonzero(events.columns["kind"] == EventKind.BURST)
    cluster, ratio = np.full(events.records, -1), np.ones(events.records)
    cluster[bursts[:3]], ratio[bursts[:3]] = [0, 1, 0], [2.0, 0.5, 2.0]
    rows = [{"cluster": 0, "ratio": 2.0}, {"cluster": 1, "ratio": 0.5}]
    marked, modules = with_cluster_events(BurstRatios(events, ratio, cluster, [], rows, [], 0.0))
    network = flat_configuration(2, latency_seconds=1e-6, bandwidth_bytes_per_second=1e6)
    by_burst = replay(events, Network(network), burst_ratio=ratio)
    from dataclasses import replace

    by_module = replay(marked, Network(replace(network, modules=modules)))
    assert by_module.predicted_seconds == by_burst.predicted_seconds
    assert marked.records == events.records + 2 * 3
