"""Real collective algorithms: replaces blocking collectives by the messages that an MPI library would send.

Algorithms as in Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005). A schedule is
the list of steps of one member: (to, sent bytes, from, received bytes), with positions in the communicator and None where there
is nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convolver._native.replay_core import COLUMNS
from convolver.errors import UsageError
from convolver.mpi.events import IMMEDIATE, SPLIT, EventKind, Events, Op, Sync, columns_of, make_events

Step = tuple[int | None, int, int | None, int]
Schedule = Callable[[int, int, int, int], list[Step]]
"""(position, members, root, bytes) -> steps."""


def _log2(n: int) -> int:
    return (n - 1).bit_length()


def dissemination(i: int, p: int, root: int, size: int) -> list[Step]:
    """Barrier: in step k a message to the member 2^k further on (Hensgen, Finkel, Manber 1988)."""
    return [((i + (1 << k)) % p, 0, (i - (1 << k)) % p, 0) for k in range(_log2(p))]


def _binomial(i: int, p: int, root: int, sizes: Callable[[int], int]) -> list[Step]:
    """A binomial tree from the root; ``sizes`` gives the bytes to the root of a subtree of so many members."""
    me = (i - root) % p
    steps: list[Step] = []
    mask = 1
    while mask < p and not me & mask:
        mask <<= 1
    if me:
        steps.append((None, 0, (me - mask + root) % p, sizes(min(mask, p - me))))
    else:
        mask = 1 << _log2(p)
    while (mask := mask >> 1) > 0:
        if (child := me + mask) < p:
            steps.append(((child + root) % p, sizes(min(mask, p - child)), None, 0))
    return steps


def _backwards(steps: list[Step]) -> list[Step]:
    return [(source, received, to, sent) for to, sent, source, received in reversed(steps)]


def binomial_bcast(i: int, p: int, root: int, size: int) -> list[Step]:
    """A binomial tree from the root."""
    return _binomial(i, p, root, lambda members: size)


def binomial_reduce(i: int, p: int, root: int, size: int) -> list[Step]:
    """The broadcast's tree backwards."""
    return _backwards(binomial_bcast(i, p, root, size))


def binomial_scatter(i: int, p: int, root: int, size: int) -> list[Step]:
    """A binomial tree whose messages carry the blocks of a whole subtree; ``size`` is one block."""
    return _binomial(i, p, root, lambda members: members * size)


def binomial_gather(i: int, p: int, root: int, size: int) -> list[Step]:
    """The scatter's tree backwards."""
    return _backwards(binomial_scatter(i, p, root, size))


def ring_allgather(i: int, p: int, root: int, size: int) -> list[Step]:
    """p - 1 steps around a ring; ``size`` is one member's block."""
    return [((i + 1) % p, size, (i - 1) % p, size)] * (p - 1)


def ring_allreduce(i: int, p: int, root: int, size: int) -> list[Step]:
    """Reduce-scatter and allgather around a ring: 2 (p - 1) steps of size / p."""
    return ring_allgather(i, p, root, -(-size // p)) * 2


def _folded(i: int, p: int, size: int, inner: Callable[[int, int], list[Step]]) -> list[Step]:
    """Run ``inner`` on a power of two of members; the others hand their part to a neighbor and get the result back."""
    power = 1 << (p.bit_length() - 1)
    extra = p - power
    if i < 2 * extra and i % 2 == 0:
        return [(i + 1, size, None, 0), (None, 0, i + 1, size)]

    def place(position: int) -> int:
        return 2 * position + 1 if position < extra else position + extra

    me = i // 2 if i < 2 * extra else i - extra
    steps = [(place(t) if t is not None else None, a, place(f) if f is not None else None, b) for t, a, f, b in inner(me, power)]
    if i < 2 * extra:
        return [(None, 0, i - 1, size), *steps, (i - 1, size, None, 0)]
    return steps


def doubling_allreduce(i: int, p: int, root: int, size: int) -> list[Step]:
    """Recursive doubling: log2 p exchanges of everything."""
    return _folded(i, p, size, lambda me, power: [(me ^ (1 << k), size, me ^ (1 << k), size) for k in range(_log2(power))])


def rabenseifner(i: int, p: int, root: int, size: int) -> list[Step]:
    """Reduce-scatter by recursive halving, allgather by recursive doubling: 2 log2 p steps, 2 size (p - 1) / p bytes."""

    def inner(me: int, power: int) -> list[Step]:
        halving: list[Step] = []
        for k in range(_log2(power)):
            part, other = size >> (k + 1), me ^ (power >> (k + 1))
            halving.append((other, part, other, part))
        return halving + halving[::-1]

    return _folded(i, p, size, inner)


def pairwise_alltoall(i: int, p: int, root: int, size: int) -> list[Step]:
    """p - 1 exchanges, in step k with the members k before and after; ``size`` is one block."""
    return [((i + k) % p, size, (i - k) % p, size) for k in range(1, p)]


def doubling_scan(i: int, p: int, root: int, size: int) -> list[Step]:
    """Prefix sums by doubling the distance."""
    distances = [1 << k for k in range(_log2(p))]
    return [(i + d if i + d < p else None, size, i - d if i >= d else None, size) for d in distances if i + d < p or i >= d]


ALGORITHMS: dict[str, Schedule] = {
    "dissemination": dissemination,
    "binomial-bcast": binomial_bcast,
    "binomial-reduce": binomial_reduce,
    "binomial-gather": binomial_gather,
    "binomial-scatter": binomial_scatter,
    "ring-allgather": ring_allgather,
    "ring": ring_allreduce,
    "recursive-doubling": doubling_allreduce,
    "rabenseifner": rabenseifner,
    "pairwise": pairwise_alltoall,
    "doubling-scan": doubling_scan,
}

DEFAULTS: dict[Op, str] = {
    Op.BARRIER: "dissemination",
    Op.BCAST: "binomial-bcast",
    Op.GATHER: "binomial-gather",
    Op.GATHERV: "binomial-gather",
    Op.SCATTER: "binomial-scatter",
    Op.SCATTERV: "binomial-scatter",
    Op.ALLGATHER: "ring-allgather",
    Op.ALLGATHERV: "ring-allgather",
    Op.ALLTOALL: "pairwise",
    Op.ALLTOALLV: "pairwise",
    Op.ALLTOALLW: "pairwise",
    Op.REDUCE: "binomial-reduce",
    Op.ALLREDUCE: "recursive-doubling",
    Op.REDUCE_SCATTER: "pairwise",
    Op.REDUCE_SCATTER_BLOCK: "pairwise",
    Op.SCAN: "doubling-scan",
}


@dataclass
class _Instance:
    root: int | None = None
    size: int = 0


def _instances(events: Events) -> dict[int, tuple[_Instance, int]]:
    """Return for each blocking collective record its instance (the k-th on its communicator) and the member's position."""
    columns = events.columns
    blocking = (columns["kind"] == EventKind.COLLECTIVE) & np.isin(columns["flags"], [Sync.BLOCKING, Sync.ROOT])
    positions = [{int(m): i for i, m in enumerate(members)} for members in events.communicators().values()]
    found: dict[tuple[int, int], _Instance] = {}
    of_record = {}
    for rank in range(events.ranks):
        count: dict[int, int] = {}
        for record in events.first[rank] + np.flatnonzero(blocking[events.first[rank] : events.first[rank + 1]]):
            comm, op = int(columns["comm"][record]), Op(columns["op"][record])
            k = count.get(comm, 0)
            count[comm] = k + 1
            one = found.setdefault((comm, k), _Instance())
            position = positions[comm][rank]
            partner = int(columns["partner"][record])
            if op == Op.REDUCE:
                one.root = positions[comm].get(partner, 0)
            elif partner:
                one.root = position
            one.size = max(one.size, int(columns["bytes"][record]))
            of_record[int(record)] = (one, position)
    return of_record


def expand(events: Events, choice: dict[Op, str] | None = None) -> Events:
    """Return events whose blocking collectives are messages of the chosen algorithms (default: :data:`DEFAULTS`).

    Sizes that differ between members (the v forms) count with their greatest. Non-blocking collectives stay, for their progress
    is the library's. Raises :class:`UsageError` for an unknown algorithm.
    """
    names = {**DEFAULTS, **(choice or {})}
    if unknown := set(names.values()) - set(ALGORITHMS):
        raise UsageError(f"Unknown collective algorithms {', '.join(sorted(unknown))}; known are {', '.join(ALGORITHMS)}.")
    of_record = _instances(events)
    members = [m.tolist() for m in events.communicators().values()]
    rows: list[tuple[Any, ...]] = []
    first = [0]
    all_rows = list(zip(*(events.columns[name].tolist() for name in COLUMNS), strict=True))
    for rank in range(events.ranks):
        for record in range(events.first[rank], events.first[rank + 1]):
            if record in of_record:
                rows += _messages(all_rows[record], *of_record[record], members[all_rows[record][5]], names)
            else:
                rows.append(all_rows[record])
        first.append(len(rows))
    return make_events(events.name, np.array(first, np.int64), columns_of(rows), events.communicators(), events.notes)


def parse_choice(text: str) -> dict[Op, str]:
    """Return the choice in ``"default"`` or ``"allreduce=ring,bcast=binomial-bcast"``; raises :class:`UsageError` otherwise."""
    choice = {}
    for entry in () if text == "default" else text.split(","):
        name, _, algorithm = entry.partition("=")
        if name.strip().upper() not in Op.__members__ or algorithm.strip() not in ALGORITHMS:
            raise UsageError(f"'{entry}' is no OPERATION=ALGORITHM; the algorithms are {', '.join(ALGORITHMS)}.")
        choice[Op[name.strip().upper()]] = algorithm.strip()
    return choice


def _messages(
    row: tuple[Any, ...], one: _Instance, position: int, members: list[int], names: dict[Op, str]
) -> list[tuple[Any, ...]]:
    op, comm, p = Op(row[2]), row[5], len(members)
    size = one.size // p if op in SPLIT else one.size
    made: list[tuple[Any, ...]] = []
    # A negative tag is no program's own. One serves all steps: messages of a pair are matched in the order they were sent, and a
    # step's number would differ between the members of an uneven group.
    tag = -1 - op
    for to, sent, source, received in ALGORITHMS[names[op]](position, p, one.root or 0, size):
        if to is not None:
            made.append((EventKind.SEND, IMMEDIATE, 0, members[to], tag, comm, sent, 0, 0.0))
        if source is not None:
            made.append((EventKind.RECV, 0, 0, members[source], tag, comm, received, 0, 0.0))
    return made
