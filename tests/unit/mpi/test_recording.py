"""Recordings of the interposer, made by hand: wildcards, communicators of several ranks, truncation, damage."""

from __future__ import annotations

import numpy as np
import pytest

from convolver._native.mpi_record import Call
from convolver.errors import FormatError, UnsupportedVersionError
from convolver.mpi import recorded_ranks as rec
from convolver.mpi.events import IMMEDIATE, EventKind, Sync
from convolver.mpi.recorded_ranks import read_recording


def comm(number, members):
    head = np.zeros(1 + -(-len(members) // 16), rec.RECORD)
    head[0]["call"], head[0]["comm"], head[0]["bytes"] = Call.COMM, number, len(members)
    payload = np.full(16 * (len(head) - 1), 0x07070707, np.int32)
    payload[: len(members)] = members
    head[1:] = np.frombuffer(payload.tobytes(), rec.RECORD)
    return head


def call(code, **fields):
    record = np.zeros(1, rec.RECORD)
    record["call"] = code
    for name, value in fields.items():
        record[name] = value
    return record


def write(folder, own, size, parts, **header):
    records = np.concatenate([comm(0, range(size)), comm(1, [own]), *parts])
    head = np.zeros(1, rec.HEADER)
    fields = {
        "magic": b"CVMPI01\n",
        "version": 1,
        "rank": own,
        "size": size,
        "used": records.nbytes,
        "end_ns": 5 * 10**9,
        "end": 1,
    }
    for name, value in {**fields, **header}.items():
        head[name] = value
    path = folder / f"rank-{own:05d}.cvm"
    path.write_bytes(head.tobytes().ljust(rec.HEADER_BYTES, b"\0") + records.tobytes())
    return path


def test_wildcards_are_resolved_by_their_completions(tmp_path):
    posts = [call(Call.IRECV, partner=-1, tag=-1, request=n, bytes=800) for n in (1, 2, 3)]
    done = [call(Call.DONE_RECV, partner=1, tag=n, request=n, bytes=8 * n) for n in (2, 1)]
    write(tmp_path, 0, 2, [*posts, *done, call(Call.FREED, request=3)])
    write(tmp_path, 1, 2, [call(Call.ISEND, partner=0, tag=n, request=n, bytes=8 * n) for n in (1, 2)])
    events = read_recording(tmp_path)
    assert [EventKind(k).name for k in events.columns["kind"]] == ["IRECV", "IRECV", "WAIT", "WAIT", "SEND", "SEND"]
    assert events.columns["partner"].tolist() == [1, 1, 1, 1, 0, 0]
    assert events.columns["tag"].tolist() == [1, 2, 2, 1, 1, 2]
    assert events.columns["bytes"].tolist() == [8, 16, 16, 8, 8, 16]
    assert events.columns["flags"].tolist() == [0, 0, 0, 0, IMMEDIATE, IMMEDIATE]


def test_bursts_are_cpu_or_wall_time_and_opaque_calls_count_as_computation(tmp_path):
    times = {"burst_ns": 3000, "burst_cpu_ns": 2000, "call_ns": 10**6}
    write(
        tmp_path,
        0,
        1,
        [call(Call.OPAQUE, op=4, **times), call(Call.COLLECTIVE, op=11, partner=-1, bytes=8, extra=8, **times)],
    )
    cpu, wall = (read_recording(tmp_path, clock=clock).columns["seconds"] for clock in ("cpu", "wall"))
    assert cpu.tolist() == pytest.approx([2e-6 + 1e-3, 2e-6, 0])
    assert wall.tolist() == pytest.approx([3e-6 + 1e-3, 3e-6, 0])


def test_communicators_get_one_id_on_all_ranks(tmp_path):
    def rank_parts(own):
        halves = [comm(2, [2, 0] if own in (0, 2) else [1]), comm(3, [0, 1, 2])]
        return [*halves, call(Call.COLLECTIVE, comm=3, op=0), call(Call.COLLECTIVE, comm=2, op=0)]

    for rank in range(3):
        write(tmp_path, rank, 3, rank_parts(rank))
    events = read_recording(tmp_path)
    used = events.comm_ids[events.columns["comm"]].reshape(3, 2)
    assert len(set(used[:, 0])) == 1
    assert used[0, 1] == used[2, 1] != used[1, 1]
    assert events.communicators()[used[0, 1]].tolist() == [0, 2]
    assert events.columns["flags"].tolist() == [Sync.BLOCKING] * 6


def test_messages_to_nobody_leave_only_their_burst(tmp_path):
    write(tmp_path, 0, 1, [call(Call.SEND, partner=-2, burst_cpu_ns=1000), call(Call.RECV, partner=-2)])
    assert read_recording(tmp_path).columns["kind"].tolist() == [EventKind.BURST]


def test_a_killed_run_is_read_up_to_its_last_whole_record(tmp_path):
    path = write(tmp_path, 0, 1, [call(Call.COLLECTIVE, op=0), call(Call.COLLECTIVE, op=0)], end=0, used=1 << 40)
    path.write_bytes(path.read_bytes()[:-1])
    events = read_recording(tmp_path)
    assert events.records == 1
    assert events.notes["ended"] == ["killed"]
    assert not events.notes["complete"]


def test_damaged_files_are_refused_with_the_reason(tmp_path):
    def message(**header):
        write(tmp_path, 0, 2, [], **header)
        with pytest.raises(FormatError) as caught:
            read_recording(tmp_path)
        return str(caught.value)

    assert "no MPI recording" in message(magic=b"else")
    assert "rank 7 of 2" in message(rank=7)
    assert "holds 1 of 2 ranks" in message()
    write(tmp_path, 0, 2, [], version=2)
    with pytest.raises(UnsupportedVersionError):
        read_recording(tmp_path)
    write(tmp_path, 0, 1, [call(99)])
    with pytest.raises(FormatError, match="unknown call 99"):
        read_recording(tmp_path)
    write(tmp_path, 0, 1, [comm(5, [0])])
    with pytest.raises(FormatError, match="damaged communicator"):
        read_recording(tmp_path)
    write(tmp_path, 0, 1, [comm(2, [4])])
    with pytest.raises(FormatError, match="outside the run"):
        read_recording(tmp_path)
