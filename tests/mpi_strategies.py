"""Random but finite MPI traces and networks for the replay's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from convolver.errors import FormatError
from convolver.mpi.cfg import Configuration, Nodes
from convolver.mpi.events import EventKind, Events, EventsBuilder, Op, Sync

SIZES = st.one_of(st.sampled_from([0, 1, 1024, 65536, 1 << 20]), st.integers(0, 1 << 22))


def outcome(read: Callable[[Path], Any], path: Path) -> tuple[Any, str]:
    """Return what ``read`` makes of a file and "", or None and the message of its :class:`FormatError`."""
    try:
        return read(path), ""
    except FormatError as error:
        return None, str(error)


class _Trace:
    """Adds whole operations, so that every message that is sent is received and no cycle can block."""

    def __init__(self, draw: st.DrawFn, ranks: int) -> None:
        self.draw, self.ranks = draw, ranks
        half = list(range(0, ranks, 2))
        self.comms = {1: list(range(ranks)), 2: half}
        self.builder = EventsBuilder(ranks, {2: half}, name="random")
        self.open: list[tuple[int, int, int, int]] = []
        self.count = 0
        for rank in range(ranks):
            self.burst(rank)

    def burst(self, rank: int) -> None:
        # A fraction that no other burst shares keeps two ranks from ever acting at the same time.
        self.count += 1
        self.builder.burst(rank, self.draw(st.integers(0, 1000)) * 1e-6 + self.count * 1.37e-11 + 1e-9)

    def point(self) -> None:
        source, other = self.draw(st.integers(0, self.ranks - 1)), self.draw(st.integers(1, self.ranks - 1))
        to, size, tag = (source + other) % self.ranks, self.draw(SIZES), self.draw(st.integers(0, 1))
        flags, posted = self.draw(st.integers(0, 3)), self.draw(st.booleans())
        if posted:
            self.builder.receive(to, source, size, tag=tag, kind=EventKind.IRECV)
        self.builder.send(source, to, size, tag=tag, flags=flags)
        if posted:
            self.open.append((to, source, size, tag))
        else:
            self.builder.receive(to, source, size, tag=tag)
        self.burst(source)
        self.burst(to)

    def wait(self) -> None:
        if self.open:
            to, source, size, tag = self.open.pop(0)
            self.builder.receive(to, source, size, tag=tag, kind=EventKind.WAIT)
            self.burst(to)

    def collective(self) -> None:
        op, comm = Op(self.draw(st.integers(0, 15))), self.draw(st.sampled_from([1, 2]))
        sync = self.draw(st.sampled_from([Sync.BLOCKING, Sync.NONBLOCKING, *([Sync.ROOT] if op == Op.REDUCE else [])]))
        root = self.draw(st.sampled_from(self.comms[comm]))
        for rank in self.comms[comm]:
            flag = root if op == Op.REDUCE else int(rank == root and op in (Op.BCAST, Op.GATHER, Op.SCATTER))
            sent, received = self.draw(SIZES), self.draw(SIZES)
            self.builder.collective(rank, op, sent=sent, received=received, comm=comm, root=flag, sync=sync)
            self.burst(rank)
        if sync == Sync.NONBLOCKING:
            for rank in self.comms[comm]:
                self.builder.collective(rank, op, comm=comm, sync=Sync.WAIT)
                self.burst(rank)


@st.composite
def traces(draw: st.DrawFn, *, min_ranks: int = 2, max_ranks: int = 6, collectives: bool = True) -> Events:
    """Events of a run that may deadlock only by blocking sends that nobody has received yet."""
    trace = _Trace(draw, draw(st.integers(min_ranks, max_ranks)))
    kinds = [trace.point, trace.point, trace.wait, *([trace.collective] if collectives else [])]
    for _ in range(draw(st.integers(0, 14))):
        draw(st.sampled_from(kinds))()
    while trace.open:
        trace.wait()
    return trace.builder.build()


@st.composite
def configurations(draw: st.DrawFn, ranks: int, *, contention: bool = True) -> Configuration:
    """Machines of two kinds of nodes; without contention all links and buses are unlimited."""
    links = st.integers(0, 2) if contention else st.just(0)
    per_node = draw(st.integers(1, 3))
    count = -(-ranks // per_node)
    latency = st.sampled_from([0.0, 1e-6, 7.3e-6])
    rate = st.sampled_from([0.0, 100.0, 1234.5])

    def group(n: int) -> Nodes:
        return Nodes(
            n,
            per_node,
            draw(st.sampled_from([0.5, 1.0, 3.0])),
            draw(latency),
            draw(rate),
            draw(links),
            draw(links),
            draw(links),
            draw(latency),
            draw(links),
            draw(links),
        )

    return Configuration(
        tuple(group(n) for n in (count, 1)),
        bandwidth_mib=draw(rate),
        buses=draw(links),
        collective_model=draw(st.integers(1, 3)),
        mapping=draw(st.sampled_from([f"{per_node} TASKS_PER_NODE", "FILL_NODES", "INTERLEAVED"])),
    )
