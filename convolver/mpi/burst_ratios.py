"""Block executions of each burst times block times on two machines: CPU ratios per burst, cluster of bursts, rank and module.

What the traced program executed in each burst lies in ``rank-NNNNN.cvb`` (csrc/mpi/cv_bursts.h).
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convolver.convolution.block_times import BlockTimes
from convolver.convolution.choice import compared
from convolver.errors import ConvolverWarning, FormatError, UsageError
from convolver.foreign_text import readable
from convolver.mpi.events import EventKind, Events
from convolver.mpi.recorded_ranks import Clock, RankRecording, as_events, read_ranks
from convolver.mpi.traced import FOLDER
from convolver.progress import SILENT, Progress, step
from convolver.tracing.attribution import executions_by_counter
from convolver.tracing.reader import Trace

if TYPE_CHECKING:
    from scipy.sparse import csr_array


MAGIC = b"CVBURST1"
COUNT_BITS = 40
_HEADER = struct.Struct("<8sII")
_CHUNK = struct.Struct("<QQQ")


@dataclass(frozen=True)
class BurstCounts:
    """Counters by groups of adjacent bursts of one rank.

    Group g covers the bursts before the records ``first[g]`` to ``last[g]`` of the rank's recording; its executions are
    ``counts[k]`` of counter ``counters[k]`` for k from ``bounds[g]`` to ``bounds[g + 1]``.
    """

    rank: int
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    bounds: NDArray[np.int64]
    counters: NDArray[np.int64]
    counts: NDArray[np.int64]

    def groups_of(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the group of each record number, -1 where none covers it."""
        if not len(self.first):
            return np.full(len(records), -1)
        at = np.searchsorted(self.first, records, side="right") - 1
        inside = (at >= 0) & (records <= self.last[np.maximum(at, 0)])
        return np.where(inside, at, -1)


def read_bursts(path: str | Path) -> BurstCounts:
    """Read one file; a cut-off end is left out. Raises :class:`FormatError` for a damaged one, naming file, chunk and reason."""
    path = Path(path)
    with readable(path):
        content = path.read_bytes()
    if len(content) < _HEADER.size or content[:8] != MAGIC:
        raise FormatError(f"{path} is no file of bursts: its first bytes are wrong.")
    rank = _HEADER.unpack_from(content)[1]
    ranges, words = _chunks(content, path)
    whole = np.concatenate(words) if words else np.zeros(0, np.uint64)
    bounds = np.cumsum([0, *map(len, words)], dtype=np.int64)
    counts = (whole & np.uint64((1 << COUNT_BITS) - 1)).astype(np.int64)
    first, last = np.array(ranges, np.int64).reshape(-1, 2).T
    return BurstCounts(rank, first, last, bounds, (whole >> np.uint64(COUNT_BITS)).astype(np.int64), counts)


def _chunks(content: bytes, path: Path) -> tuple[list[tuple[int, int]], list[NDArray[np.uint64]]]:
    """Return the ranges of records and the words of each; chunks of one range (a long one is written in parts) become one."""
    ranges: list[tuple[int, int]] = []
    words: list[NDArray[np.uint64]] = []
    at, number = _HEADER.size, 0
    while at + _CHUNK.size <= len(content):
        first, last, count = _CHUNK.unpack_from(content, at)
        at += _CHUNK.size
        if first > last or last >= 1 << 62 or (ranges and first < ranges[-1][0]) or count >= 1 << 32:
            raise FormatError(f"{path}: chunk {number} is damaged: {count} words for the records {first} to {last}.")
        if at + 8 * count > len(content):
            break
        part = np.frombuffer(content, "<u8", count, at)
        if ranges and ranges[-1] == (first, last):
            words[-1] = np.concatenate([words[-1], part])
        else:
            ranges.append((first, last))
            words.append(part)
        at, number = at + 8 * count, number + 1
    return ranges, words


CLUSTERS = 8
MIX_BLOCKS = 256
"""Blocks by which bursts are clustered: those with most of the bursts' time."""
OWN = "libconvolver-mpi"
Times = Callable[[Trace], tuple[BlockTimes, BlockTimes]]
"""What gives the times of a trace's blocks on the base and on the target."""


@dataclass(frozen=True)
class RankBursts:
    """Groups of bursts of one rank: executions of each block (rows of its signature), and the seconds of a block's execution.

    ``interval``: ends of the 90 % interval of the rank's CPU ratio as factors on it; None where the times were not drawn.
    """

    executions: csr_array
    base: NDArray[np.float64]
    target: NDArray[np.float64]
    base_errors: NDArray[np.float64]
    target_errors: NDArray[np.float64]
    modules: list[str]
    names: list[tuple[str, str, int]]
    interval: tuple[float, float] | None = None

    def seconds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the seconds of each group on the base and on the target."""
        return self.executions @ self.base, self.executions @ self.target


@dataclass(frozen=True)
class BurstRatios:
    """CPU ratios of a parallel run: ``burst_ratio`` (one a record of the events), tables by rank, cluster and module, and the
    relative error of the ratio by what is known of the block times. ``cluster`` is the cluster of each record, -1 for none."""

    events: Events
    burst_ratio: NDArray[np.float64]
    cluster: NDArray[np.int64]
    ranks: list[dict[str, Any]]
    clusters: list[dict[str, Any]]
    modules: list[dict[str, Any]]
    error: float


def _per_execution(times: BlockTimes, blocks: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the seconds of an execution of each block and their errors; where several threads ran, what it adds to elapsed time,
    as much for each of its seconds as in the whole run."""
    seconds, errors = np.zeros(blocks), np.zeros(blocks)
    table, rows = times.table, times.table["block"].to_numpy()
    executions = table["executions"].to_numpy()
    seconds[rows] = table["seconds"].to_numpy() / executions
    errors[rows] = table["error_seconds"].to_numpy() / executions
    stretch = 1.0 if times.elapsed is None or not times.total[0] else times.awaited[0] / times.total[0]
    return stretch * seconds, stretch * errors


def rank_bursts(folder: Path, rank: int, times: Times) -> tuple[RankBursts, Any]:
    """Read the traced run of one rank; return its groups and its :class:`BurstCounts`. What the interposer ran is left out."""
    from scipy.sparse import csr_array

    counts = read_bursts(folder / f"rank-{rank:05d}.cvb")
    trace = Trace.load(folder / f"rank-{rank}.cvt")
    table = trace.signature.table
    known = len(trace.counters)
    if len(counts.counters) and counts.counters.max() >= known:
        raise FormatError(f"The bursts of rank {rank} in {folder} belong to another trace; record the run again.")
    matrix = executions_by_counter(trace.definitions, trace.blocks, known)
    mix = csr_array((counts.counts.astype(float), counts.counters, counts.bounds), shape=(len(counts.first), known))
    base, target = times(trace)
    modules = table["module"].to_list()
    own = np.array([OWN in module for module in modules])
    columns = [np.where(own, 0.0, part) for side in (base, target) for part in _per_execution(side, table.height)]
    names = list(zip(modules, table["function"].to_list(), table["offset"].to_list(), strict=True))
    executions = csr_array(mix @ matrix.T)
    whole, ends = compared(base, target)
    interval = None if ends is None else (ends[0] / whole, ends[1] / whole)
    return RankBursts(executions, columns[0], columns[2], columns[1], columns[3], modules, names, interval), counts


def same_calls(native: RankRecording, traced: RankRecording) -> bool:
    """Whether two runs of a rank made the same MPI calls in the same order, so that their bursts correspond."""
    a, b = native.records, traced.records
    fields = ("call", "op", "comm")
    return len(a) == len(b) and np.array_equal(native.numbers, traced.numbers) and all(np.array_equal(a[f], b[f]) for f in fields)


def cluster_bursts(mixes: NDArray[np.float64], clusters: int) -> NDArray[np.int64]:
    """Group bursts that execute blocks in the same proportions; return a label for each.

    ``mixes`` (bursts x blocks) counts the executions of each block in each burst; only proportions matter. K-means on the
    normalized rows, with a fixed seed; there are never more labels than distinct rows.
    """
    from scipy.cluster.vq import kmeans2

    if mixes.ndim != 2 or clusters < 1 or not np.all(mixes >= 0):
        raise UsageError("Burst mixes are a table of counts, bursts by blocks, and at least one cluster is needed.")
    total = mixes.sum(axis=1, keepdims=True)
    shares = np.divide(mixes, total, out=np.zeros_like(mixes, dtype=float), where=total > 0)
    distinct, inverse = np.unique(np.round(shares, 12), axis=0, return_inverse=True)
    if len(distinct) <= clusters:
        return np.asarray(inverse.reshape(-1), np.int64)
    _, labels = kmeans2(shares, clusters, minit="++", seed=0)
    return np.asarray(labels, np.int64)


def _mixes(ranks: list[RankBursts], blocks: int) -> NDArray[np.float64]:
    """Return base seconds by block for the groups of all ranks, for the blocks with most of them."""
    number: dict[tuple[str, str, int], int] = {}
    weights: list[float] = []
    columns = []
    for one in ranks:
        seconds = np.asarray(one.executions.sum(axis=0)).ravel() * one.base
        at = np.array([number.setdefault(name, len(number)) for name in one.names], np.int64)
        weights += [0.0] * (len(number) - len(weights))
        np.add.at(together := np.array(weights), at, seconds)
        weights = together.tolist()
        columns.append(at)
    chosen = np.argsort(weights)[::-1][:blocks]
    place = np.full(len(weights), -1)
    place[chosen] = np.arange(len(chosen))
    rows = []
    for one, at in zip(ranks, columns, strict=True):
        mine = np.flatnonzero(place[at] >= 0)
        part = np.zeros((one.executions.shape[0], len(chosen)))
        part[:, place[at[mine]]] = one.executions[:, mine].toarray() * one.base[mine]
        rows.append(part)
    return np.vstack(rows)


def _ratio(base: float, target: float) -> float | None:
    return base / target if target > 0 else None


def _by_cluster(labels: NDArray[np.int64], base: NDArray[np.float64], target: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Return the clusters by falling base time; labels are those of the groups."""
    rows: list[dict[str, Any]] = []
    for label in np.unique(labels):
        mine = labels == label
        sums = float(base[mine].sum()), float(target[mine].sum())
        rows.append({"label": int(label), "groups": int(mine.sum()), "base_seconds": sums[0], "target_seconds": sums[1]})
    rows.sort(key=lambda row: -row["base_seconds"])
    return [{"cluster": n, **row, "ratio": _ratio(row["base_seconds"], row["target_seconds"])} for n, row in enumerate(rows)]


def _by_module(ranks: list[RankBursts]) -> list[dict[str, Any]]:
    sums: dict[str, list[float]] = {}
    for one in ranks:
        total = np.asarray(one.executions.sum(axis=0)).ravel()
        for module, base, target in zip(one.modules, (total * one.base).tolist(), (total * one.target).tolist(), strict=True):
            both = sums.setdefault(module, [0.0, 0.0])
            both[0] += base
            both[1] += target
    rows = [{"module": m, "base_seconds": b, "target_seconds": t, "ratio": _ratio(b, t)} for m, (b, t) in sums.items() if b > 0]
    return sorted(rows, key=lambda row: -float(row["base_seconds"] or 0))


def _error(ranks: list[RankBursts]) -> float:
    """Return the relative error of the ratio: those of the two sums of block times, which are independent."""
    totals = [np.asarray(one.executions.sum(axis=0)).ravel() for one in ranks]
    base, target = (
        sum(float(total @ getattr(one, f"{side}_errors")) for one, total in zip(ranks, totals, strict=True))
        / (sum(float(total @ getattr(one, side)) for one, total in zip(ranks, totals, strict=True)) or 1.0)
        for side in ("base", "target")
    )
    return float(np.hypot(base, target))


def burst_cpu_ratios(folder: str | Path, times: Times, *, clusters: int = CLUSTERS, progress: Progress = SILENT) -> BurstRatios:
    """Join a recording (``convolver mpi trace --signature``) with block times; ``times`` gives those of a rank's trace.

    Bursts with the same mix of blocks form a cluster and share its ratio, base time / target time. Bursts that no count covers,
    and all bursts of a rank whose traced run made other MPI calls (warned of), get their rank's ratio. Bursts are CPU time of the
    thread that calls MPI, or elapsed time where a rank had more threads. Raises
    :class:`FormatError` where the traced run is missing or damaged.
    """
    folder = Path(folder)
    native = read_ranks(folder)
    if not (folder / FOLDER).is_dir():
        raise FormatError(f"{folder} holds no traced run; record it with 'convolver mpi trace --signature'.")
    clock: Clock = "wall" if _threads_ran(folder / FOLDER, len(native)) else "cpu"
    events, origins = as_events(folder.name, native, clock)
    traced = read_ranks(folder / FOLDER)
    if len(traced) != len(native):
        raise FormatError(f"{folder} was recorded with {len(native)} ranks and traced with {len(traced)}; record it again.")
    read = []
    with step(progress, "Attributing blocks to bursts", len(native)):
        for rank in range(len(native)):
            read.append(rank_bursts(folder / FOLDER, rank, times))
            progress.advance(1)
    ranks = [one for one, _ in read]
    base, target = (np.concatenate(side) for side in zip(*(one.seconds() for one in ranks), strict=True))
    labels = cluster_bursts(_mixes(ranks, MIX_BLOCKS), clusters)
    rows = _by_cluster(labels, base, target)
    renumber = {row.pop("label"): row["cluster"] for row in rows}
    numbers = np.array([renumber[int(label)] for label in labels] or [-1], np.int64)
    where = _group_of_record(events, origins, native, traced, read)
    cluster = np.where(where >= 0, numbers[where], -1)
    by_rank = _by_rank(events, ranks)
    ratio = _record_ratios(events, cluster, by_rank, rows)
    return BurstRatios(events, ratio, cluster, by_rank, rows, _by_module(ranks), _error(ranks))


def _threads_ran(folder: Path, ranks: int) -> bool:
    """Whether a rank had a second thread; the clock of the one that calls MPI knows nothing of it."""
    traces = (folder / f"rank-{rank}.cvt" for rank in range(ranks))
    return any(Trace.load(path).thread_log is not None for path in traces if path.exists())


def _record_ratios(
    events: Events, cluster: NDArray[np.int64], by_rank: list[dict[str, Any]], clusters: list[dict[str, Any]]
) -> NDArray[np.float64]:
    """Return the ratio of each record, and note in the clusters how many bursts they are and how long these were recorded."""
    ratio = np.repeat([row["ratio"] or 1.0 for row in by_rank], np.diff(events.first))
    for row in clusters:
        mine = cluster == row["cluster"]
        row |= {"bursts": int(mine.sum()), "recorded_seconds": float(events.columns["seconds"][mine].sum())}
        ratio[mine] = row["ratio"] or ratio[mine]
    return ratio


def _by_rank(events: Events, ranks: list[RankBursts]) -> list[dict[str, Any]]:
    rows = []
    for rank, one in enumerate(ranks):
        base, target = (float(side.sum()) for side in one.seconds())
        recorded = float(events.columns["seconds"][events.first[rank] : events.first[rank + 1]].sum())
        sums = {"recorded_seconds": recorded, "base_seconds": base, "target_seconds": target}
        ratio = _ratio(base, target)
        ends = None if ratio is None or one.interval is None else [ratio * end for end in one.interval]
        rows.append({"rank": rank, **sums, "ratio": ratio, "ratio_interval": ends})
    return rows


def _group_of_record(
    events: Events, origins: NDArray[np.int64], native: list[RankRecording], traced: list[RankRecording], read: list[Any]
) -> NDArray[np.int64]:
    """Return the group (numbered through all ranks) of each burst among the events, -1 for other records."""
    found = np.full(events.records, -1, np.int64)
    first = 0
    for rank, (one, counts) in enumerate(read):
        part = slice(int(events.first[rank]), int(events.first[rank + 1]))
        if same_calls(native[rank], traced[rank]):
            group = counts.groups_of(origins[part])
            burst = events.columns["kind"][part] == EventKind.BURST
            found[part] = np.where((group >= 0) & burst, group + first, -1)
        else:
            warnings.warn(
                f"Rank {rank} made other MPI calls when it was traced: its bursts share the rank's CPU ratio.",
                ConvolverWarning,
                stacklevel=3,
            )
        first += one.executions.shape[0]
    return found
