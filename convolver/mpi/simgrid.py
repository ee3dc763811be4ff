"""SimGrid: time-independent traces and a platform file, for a cross-check with ``smpirun -replay``; a flop is a nanosecond."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from convolver.errors import UsageError
from convolver.mpi.events import IMMEDIATE, EventKind, Events, Op, Sync
from convolver.mpi.network import MIB, Network
from convolver.outputs import save_text

FLOPS_PER_SECOND = 1e9
_ACTIONS = {
    Op.BARRIER: "barrier",
    Op.BCAST: "bcast {sent} {root}",
    Op.GATHER: "gather {sent} {sent} {root}",
    Op.GATHERV: "gather {sent} {sent} {root}",
    Op.SCATTER: "scatter {part} {part} {root}",
    Op.SCATTERV: "scatter {part} {part} {root}",
    Op.ALLGATHER: "allgather {sent} {sent}",
    Op.ALLGATHERV: "allgather {sent} {sent}",
    Op.ALLTOALL: "alltoall {part} {part}",
    Op.ALLTOALLV: "alltoall {part} {part}",
    Op.ALLTOALLW: "alltoall {part} {part}",
    Op.REDUCE: "reduce {sent} 0 {root}",
    Op.ALLREDUCE: "allreduce {sent} 0",
    Op.REDUCE_SCATTER: "allreduce {sent} 0",
    Op.REDUCE_SCATTER_BLOCK: "allreduce {sent} 0",
    Op.SCAN: "scan {sent} 0",
}


def _collective(row: dict[str, Any], ranks: int, root: int) -> str:
    op, sent, received = Op(row["op"]), int(row["bytes"]), int(row["extra"])
    part = sent // ranks
    # what only the root gives has one size for all
    if op == Op.BCAST:
        sent = max(sent, received)
    elif op in (Op.SCATTER, Op.SCATTERV):
        part = max(part, received)
    return _ACTIONS[op].format(sent=sent, part=part, root=root)


def _lines(events: Events, rank: int) -> list[str]:
    lines = [f"{rank} init"]
    part = events.table.slice(int(events.first[rank]), int(events.first[rank + 1] - events.first[rank]))
    for row in part.iter_rows(named=True):
        kind = EventKind(row["kind"])
        if kind in (EventKind.BURST, EventKind.GPU):
            lines.append(f"{rank} compute {row['seconds'] * FLOPS_PER_SECOND:.3f}")
        elif kind == EventKind.SEND:
            name = "isend" if row["flags"] & IMMEDIATE else "send"
            lines.append(f"{rank} {name} {row['partner']} {row['tag']} {row['bytes']}")
        elif kind in (EventKind.RECV, EventKind.IRECV):
            name = "recv" if kind == EventKind.RECV else "irecv"
            lines.append(f"{rank} {name} {row['partner']} {row['tag']} {row['bytes']}")
        elif kind == EventKind.WAIT:
            lines.append(f"{rank} wait {row['partner']} {rank} {row['tag']}")
        elif kind == EventKind.COLLECTIVE:
            if row["flags"] not in (Sync.BLOCKING, Sync.ROOT) or _partial(events, row["comm"]):
                raise UsageError("SimGrid's traces know blocking collectives of all tasks only; this trace has others.")
            root = row["partner"] if row["op"] == Op.REDUCE else 0
            lines.append(f"{rank} {_collective(row, events.ranks, root)}")
    return [*lines, f"{rank} finalize"]


def _partial(events: Events, comm: int) -> bool:
    return bool(events.member_first[comm + 1] - events.member_first[comm] != events.ranks)


def write_ti(events: Events, folder: str | Path) -> Path:
    """Write a time-independent trace, one file a rank, and return the list file for ``smpirun -replay``.

    Raises :class:`UsageError` for what the format does not know: collectives of some tasks and non-blocking ones. Roots other
    than task 0 count as task 0 except for Reduce, because a .dim trace does not name them.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for rank in range(events.ranks):
        text = "\n".join(_lines(events, rank)) + "\n"
        path = folder / f"rank-{rank}.ti"
        save_text(path, text)
        names.append(path.name)
    listing = folder / "trace.txt"
    save_text(listing, "\n".join(names) + "\n")
    return listing


def format_platform(network: Network, ranks: int) -> str:
    """Return a SimGrid platform of the network: one cluster with a crossbar, one host a node; nodes must be equal."""
    config = network.configuration
    if len({(g.ratio, g.latency_inter_seconds) for g in config.nodes}) != 1:
        raise UsageError("A SimGrid cluster has equal nodes, but the configuration's differ; write the platform by hand.")
    group = config.nodes[0]
    rate = config.bandwidth_mib * MIB or 1e15
    speed = FLOPS_PER_SECOND * group.ratio
    cluster = {
        "id": config.name or "cluster",
        "prefix": "node-",
        "suffix": "",
        "radical": f"0-{config.node_count - 1}",
        "speed": f"{speed:.0f}f",
        "core": str(group.cpus),
        "bw": f"{rate:.0f}Bps",
        "lat": f"{group.latency_inter_seconds:.9g}s",
    }
    attributes = " ".join(f"{key}={quoteattr(value)}" for key, value in cluster.items())
    head = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
    return f'{head}<platform version="4.1">\n  <cluster {attributes}/>\n</platform>\n'


def write_platform(network: Network, ranks: int, path: str | Path) -> None:
    """Write :func:`format_platform` to a file."""
    save_text(path, format_platform(network, ranks))
