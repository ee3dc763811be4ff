"""Reads what the interposer recorded (docs/formats/mpi_recording.md) and turns it into events: no Python loop over records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convolver._native.mpi_record import ENDS, HEADER, HEADER_BYTES, RECORD, SYNCHRONOUS, VERSION, Call
from convolver._native.replay_core import COLUMNS
from convolver.errors import FormatError, UnsupportedVersionError
from convolver.foreign_text import readable
from convolver.mpi.events import IMMEDIATE, RENDEZVOUS, WORLD, EventKind, Events, Op, Sync, make_events
from convolver.progress import SILENT, Progress, step

Clock = Literal["cpu", "wall"]
_KINDS = {
    Call.SEND: EventKind.SEND,
    Call.ISEND: EventKind.SEND,
    Call.RECV: EventKind.RECV,
    Call.IRECV: EventKind.IRECV,
    Call.DONE_SEND: EventKind.SEND_WAIT,
    Call.DONE_RECV: EventKind.WAIT,
    Call.COLLECTIVE: EventKind.COLLECTIVE,
    Call.ICOLLECTIVE: EventKind.COLLECTIVE,
    Call.DONE_COLLECTIVE: EventKind.COLLECTIVE,
}


@dataclass(frozen=True)
class RankRecording:
    """One rank's file: header fields, records without communicator payloads, the members of each communicator number, and the
    number that each record has in the file."""

    header: dict[str, Any]
    records: NDArray[Any]
    comms: list[tuple[int, ...]]
    numbers: NDArray[np.int64]


def read_rank(path: str | Path) -> RankRecording:
    """Read one file; raises :class:`FormatError` for a damaged one, naming file and record."""
    path = Path(path)
    with readable(path):
        content = path.read_bytes()
    if len(content) < HEADER_BYTES or content[:8] != b"CVMPI01\n":
        raise FormatError(f"{path} is no MPI recording: its first bytes are wrong.")
    raw = np.frombuffer(content, HEADER, 1)[0]
    header = {
        name: raw[name].decode(errors="replace") if raw[name].dtype.kind == "S" else int(raw[name]) for name in HEADER.names or ()
    }
    if header["version"] > VERSION:
        raise UnsupportedVersionError(
            f"{path} has version {header['version']}, but this Convolver reads up to {VERSION}: update Convolver, "
            "or record again with `convolver mpi trace`."
        )
    used = min(header["used"], len(content) - HEADER_BYTES) // RECORD.itemsize
    if header["rank"] >= header["size"] or not 1 <= header["size"] <= 1 << 24:
        raise FormatError(f"{path} is damaged: rank {header['rank']} of {header['size']}.")
    records = np.frombuffer(content, RECORD, used, HEADER_BYTES)
    return _without_payloads(path, header, records)


def _without_payloads(path: Path, header: dict[str, Any], records: NDArray[Any]) -> RankRecording:
    keep = np.ones(len(records), bool)
    comms: list[tuple[int, ...]] = []
    at = 0
    # A payload may hold any bytes: walk from one communicator to the next.
    found = np.flatnonzero(records["call"] == Call.COMM)
    for index in found:
        if index < at:
            continue
        size = int(records["bytes"][index])
        words = -(-size // 16)
        at = int(index) + 1 + words
        if not 0 < size <= header["size"] or at > len(records) or records["comm"][index] != len(comms):
            if at > len(records) and size > 0:
                keep[index:] = False
                break
            raise FormatError(f"{path}: record {index} is a damaged communicator.")
        members = np.frombuffer(records[index + 1 : at].tobytes(), "<i4", size)
        if members.min() < 0 or members.max() >= header["size"]:
            raise FormatError(f"{path}: record {index} is a communicator with members outside the run.")
        comms.append(tuple(members.tolist()))
        keep[index:at] = False
    kept = records[keep]
    bad = np.flatnonzero((kept["call"] == 0) | (kept["call"] > Call.FREED))
    if len(bad):
        raise FormatError(f"{path}: record {bad[0]} has the unknown call {kept['call'][bad[0]]}.")
    if len(comms) < 2 and len(kept):
        raise FormatError(f"{path}: the communicators of all tasks and of the own one are missing.")
    return RankRecording(header, kept, comms, np.flatnonzero(keep))


class _Numbering:
    """Numbers communicators alike for all ranks: by their members, and the how-manieth with these members."""

    def __init__(self, size: int) -> None:
        self.ids: dict[tuple[tuple[int, ...], int], int] = {(tuple(range(size)), 0): WORLD}

    def of_rank(self, comms: list[tuple[int, ...]]) -> list[int]:
        seen: dict[tuple[int, ...], int] = {}
        numbers = []
        for members in comms:
            ordered = tuple(sorted(set(members)))
            count = seen.get(ordered, 0)
            seen[ordered] = count + 1
            numbers.append(self.ids.setdefault((ordered, count), WORLD + len(self.ids)))
        return numbers

    def communicators(self) -> dict[int, tuple[int, ...]]:
        return {number: members for (members, _), number in self.ids.items()}


def read_recording(folder: str | Path, *, clock: Clock = "cpu", progress: Progress = SILENT) -> Events:
    """Read a folder of ``convolver mpi trace`` as events.

    ``clock`` says what a burst lasts: the thread's CPU time (whatever else runs) or elapsed time. Wildcard receives are resolved
    by their completions; sends whose completion is waited for are immediate; synchronous sends are rendezvous. A burst of a
    counted recording (:func:`convolver.mpi.traced.count`) lasts one nanosecond an instruction. Raises :class:`FormatError`
    when files are damaged or ranks are missing.
    """
    with step(progress, f"Reading {folder}"):
        return as_events(Path(folder).name, read_ranks(folder), clock)[0]


def read_ranks(folder: str | Path) -> list[RankRecording]:
    """Read the files of all ranks; raises :class:`FormatError` when files are damaged or ranks are missing."""
    folder = Path(folder)
    paths = sorted(folder.glob("rank-*.cvm"))
    if not paths:
        others = "`convolver report` shows a folder of `convolver predict`"
        raise FormatError(f"{folder} holds no rank-*.cvm file; make a recording with 'convolver mpi trace'. {others}.")
    ranks = [read_rank(path) for path in paths]
    size = ranks[0].header["size"]
    if [rank.header["rank"] for rank in ranks] != list(range(size)):
        raise FormatError(f"{folder} holds {len(ranks)} of {size} ranks; record the run again.")
    return ranks


def as_events(name: str, ranks: list[RankRecording], clock: Clock = "cpu") -> tuple[Events, NDArray[np.int64]]:
    """Return the events of a recording, and for each the number of the record in its rank's file that it comes from."""
    numbering = _Numbering(len(ranks))
    parts = [_convert(rank, numbering, clock) for rank in ranks]
    communicators = numbering.communicators()
    first = np.cumsum([0, *(len(part["kind"]) for part in parts)], dtype=np.int64)
    columns = {name: np.concatenate([part[name] for part in parts]).astype(dtype) for name, dtype in COLUMNS.items()}
    index = np.zeros(max(communicators) + 1, np.int32)
    index[sorted(communicators)] = np.arange(len(communicators))
    columns["comm"] = index[columns["comm"]]
    origins = np.concatenate([part["origin"] for part in parts])
    return make_events(name, first, columns, communicators, _notes(ranks, clock)), origins


def _notes(ranks: list[RankRecording], clock: Clock) -> dict[str, Any]:
    headers = [rank.header for rank in ranks]
    return {
        "library": headers[0]["library"],
        "hosts": sorted({h["host"] for h in headers}),
        "measured_seconds": max(h["end_ns"] - h["begin_ns"] for h in headers) * 1e-9,
        "ended": sorted({ENDS.get(h["end"], "unknown") for h in headers}),
        "complete": all(h["end"] == 1 and not h["lost"] for h in headers),
        "clock": "instructions" if headers[0]["counted"] else clock,
        "recorder_seconds": max(h["own_ns"] for h in headers) * 1e-9,
        "polled_seconds": max(h["polled_ns"] for h in headers) * 1e-9,
    }


def _resolve_wildcards(records: NDArray[Any]) -> NDArray[Any]:
    """Give each posted receive the partner, tag and size with which it completed; drop those that never did while still wild."""
    records = records.copy()
    done = records[records["call"] == Call.DONE_RECV]
    posts = np.flatnonzero(records["call"] == Call.IRECV)
    order = np.argsort(done["request"], kind="stable")
    requests = done["request"][order]
    at = np.minimum(np.searchsorted(requests, records["request"][posts]), max(len(requests) - 1, 0))
    matched = requests[at] == records["request"][posts] if len(requests) else np.zeros(len(posts), bool)
    source = order[at[matched]] if len(requests) else np.empty(0, int)
    for name in ("partner", "tag", "bytes"):
        records[name][posts[matched]] = done[name][source]
    wild = (records["partner"] == -1) & np.isin(records["call"], [Call.IRECV, Call.RECV])
    freed = records["request"][records["call"] == Call.FREED]
    gone = (records["call"] == Call.IRECV) & np.isin(records["request"], freed)
    records["partner"][wild | gone] = -2
    return records


def _convert(rank: RankRecording, numbering: _Numbering, clock: Clock) -> dict[str, NDArray[Any]]:
    records = _resolve_wildcards(rank.records)
    call, count = records["call"], len(records)
    numbers = np.array(numbering.of_rank(rank.comms) or [WORLD], np.int32)
    known = records["comm"] < len(numbers)
    point = np.isin(call, [Call.SEND, Call.ISEND, Call.RECV, Call.IRECV, Call.DONE_SEND, Call.DONE_RECV])
    kinds = np.zeros(Call.FREED + 1, np.uint8)
    kinds[list(_KINDS)] = list(_KINDS.values())
    kind = kinds[call]
    kind[(point & (records["partner"] < 0)) | ~known] = EventKind.NOOP
    burst = records["burst_cpu_ns" if clock == "cpu" or rank.header["counted"] else "burst_ns"] * 1e-9
    if not rank.header["counted"]:
        # A program that polls between pieces of work pays for it; one that does nothing but poll waits.
        burst = burst + np.minimum(records["polled_ns"] * 1e-9, burst)
        # What happens inside opaque calls cannot be replayed: it counts as computation of its recorded length.
        # Messages to nobody (MPI_PROC_NULL) take their time, too.
        alone = (call == Call.OPAQUE) | (point & (records["partner"] == -2) & ~np.isin(call, [Call.DONE_SEND, Call.DONE_RECV]))
        burst = burst + np.where(alone, records["call_ns"] * 1e-9, 0.0)
    own = _operation_columns(records, kind, numbers[np.where(known, records["comm"], 0)])
    # Each record becomes a burst and an operation; empty ones are dropped.
    pairs = {name: np.stack([np.zeros(count, COLUMNS[name]), own[name]], axis=1).reshape(-1) for name in COLUMNS}
    pairs["kind"][0::2] = np.where(burst > 0, EventKind.BURST, EventKind.NOOP)
    pairs["seconds"][0::2] = burst
    pairs["comm"][0::2] = WORLD
    pairs["origin"] = np.repeat(rank.numbers, 2)
    keep = pairs["kind"] != EventKind.NOOP
    return {name: column[keep] for name, column in pairs.items()}


def _operation_columns(records: NDArray[Any], kind: NDArray[np.uint8], comm: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    call, collective = records["call"], kind == EventKind.COLLECTIVE
    reduce = collective & (records["op"] == Op.REDUCE)
    sync = np.select(
        [call == Call.ICOLLECTIVE, call == Call.DONE_COLLECTIVE, reduce],
        [Sync.NONBLOCKING, Sync.WAIT, Sync.ROOT],
        default=Sync.BLOCKING,
    )
    send = np.where(np.isin(call, [Call.ISEND, Call.DONE_SEND]), IMMEDIATE, 0) | np.where(
        records["flags"] & SYNCHRONOUS, RENDEZVOUS, 0
    )
    flags = np.where(collective, sync, np.where(np.isin(kind, [EventKind.SEND, EventKind.SEND_WAIT]), send, 0))
    sent = records["bytes"]
    root_flag = (records["partner"] >= 0) & _is_own_root(records)
    partner = np.where(collective & ~reduce, root_flag, records["partner"])
    return {
        "kind": kind,
        "flags": flags.astype(np.uint8),
        "op": np.where(collective, records["op"], 0).astype(np.uint8),
        "partner": np.maximum(partner, 0).astype(np.int32),
        "tag": np.where(collective, 0, records["tag"]).astype(np.int32),
        "comm": comm,
        "bytes": np.maximum(sent, 0),
        "extra": np.where(collective, np.maximum(records["extra"], 0), 0),
        "seconds": np.zeros(len(records)),
    }


def _is_own_root(records: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether this task is the root: only the root of a Bcast or Scatter sends and only that of a Gather receives."""
    giver = np.isin(records["op"], [Op.BCAST, Op.SCATTER, Op.SCATTERV])
    taker = np.isin(records["op"], [Op.GATHER, Op.GATHERV])
    own: NDArray[np.bool_] = (giver & (records["bytes"] > 0)) | (taker & (records["extra"] > 0))
    return own
