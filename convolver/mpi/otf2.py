"""Reads MPI events from OTF2 archives (Score-P) through the optional ``otf2`` package: about 60,000 events a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convolver.errors import FormatError, ToolNotFoundError
from convolver.mpi.events import IMMEDIATE, WORLD, EventKind, Events, EventsBuilder, Op, Sync

_OPS = {**Op.__members__, "EXSCAN": Op.SCAN}


class _Rank:
    """Turns the events of one location into rows. A posted receive is known only when it completes, so rows wait for the end."""

    def __init__(self, number: int, scale: float) -> None:
        self.number, self.scale = number, scale
        self.rows: list[tuple[str, dict[str, Any]]] = []
        self.depth, self.last = 0, -1
        self.posts: dict[int, int] = {}
        self.sends: dict[int, dict[str, Any]] = {}

    def enter(self, time: int) -> None:
        if self.depth == 0 and self.last >= 0 and time > self.last:
            self.rows.append(("burst", {"seconds": (time - self.last) * self.scale}))
        self.depth += 1

    def leave(self, time: int) -> None:
        self.depth -= 1
        self.last = time

    def add(self, what: str, **fields: Any) -> None:
        self.rows.append((what, fields))

    def post(self, request: int) -> None:
        self.posts[request] = len(self.rows)
        self.rows.append(("nothing", {}))

    def complete(self, request: int, what: str, fields: dict[str, Any], begins: dict[str, Any], ends: dict[str, Any]) -> bool:
        """Fill the row of the request, add that of its completion; return False where nothing was posted under this number."""
        at = self.posts.pop(request, None)
        if at is None:
            return False
        self.rows[at] = (what, fields | begins)
        self.add(what, **(fields | ends))
        return True

    def build(self, builder: EventsBuilder) -> None:
        for what, fields in self.rows:
            if what != "nothing":
                getattr(builder, what)(self.number, **fields)


class _Archive:
    def __init__(self, trace: Any, package: Any) -> None:
        self.trace, self.events = trace, package.events
        groups = [g for g in trace.definitions.groups if g.group_type == package.GroupType.COMM_LOCATIONS]
        mpi = [g for g in groups if g.paradigm == package.Paradigm.MPI]
        if not mpi:
            raise FormatError("the archive has no MPI ranks")
        self.paradigm = package.Paradigm.MPI
        scale = 1.0 / trace.definitions.clock_properties.timer_resolution
        self.members = {location: rank for rank, location in enumerate(mpi[0].members)}
        self.ranks = {location: _Rank(rank, scale) for location, rank in self.members.items()}
        self.comms: dict[Any, int] = {}
        self.tasks: dict[int, list[int]] = {}

    def comm(self, definition: Any) -> int:
        if definition not in self.comms:
            members = sorted(self.members[location] for location in definition.group.members)
            whole = len(members) == len(self.members) and WORLD not in self.comms.values()
            number = WORLD if whole else WORLD + 1 + len(self.comms)
            self.comms[definition] = number
            self.tasks[number] = members
        return self.comms[definition]

    def partner(self, definition: Any, rank: int) -> int:
        return self.members[definition.location(rank)]

    def read(self) -> Events:
        for location, event in self.trace.events:
            rank = self.ranks.get(location)
            if rank is not None:
                self.event(rank, event)
        builder = EventsBuilder(len(self.members), self.tasks, name="otf2")
        for rank in self.ranks.values():
            rank.build(builder)
        return builder.build()

    def event(self, rank: _Rank, event: Any) -> None:
        kinds = self.events
        if isinstance(event, (kinds.Enter, kinds.Leave)):
            if event.region.paradigm == self.paradigm:
                (rank.enter if isinstance(event, kinds.Enter) else rank.leave)(event.time)
        elif isinstance(event, (kinds.MpiSend, kinds.MpiIsend)):
            self._send(rank, event, isinstance(event, kinds.MpiIsend))
        elif isinstance(event, kinds.MpiIsendComplete):
            if fields := rank.sends.pop(event.request_id, None):
                rank.add("wait_send", **fields)
        elif isinstance(event, (kinds.MpiIrecvRequest, kinds.NonBlockingCollectiveRequest)):
            rank.post(event.request_id)
        elif isinstance(event, (kinds.MpiRecv, kinds.MpiIrecv)):
            fields = {"source": self.partner(event.communicator, event.sender), **self._message(event)}
            kind, wait = {"kind": EventKind.IRECV}, {"kind": EventKind.WAIT}
            posted = isinstance(event, kinds.MpiIrecv) and rank.complete(event.request_id, "receive", fields, kind, wait)
            if not posted:
                rank.add("receive", **fields)
        elif isinstance(event, (kinds.MpiCollectiveEnd, kinds.NonBlockingCollectiveComplete)):
            self._collective(rank, event)

    def _send(self, rank: _Rank, event: Any, immediate: bool) -> None:
        fields = {"to": self.partner(event.communicator, event.receiver), **self._message(event)}
        rank.add("send", **fields, flags=IMMEDIATE if immediate else 0)
        if immediate:
            rank.sends[event.request_id] = fields

    def _message(self, event: Any) -> dict[str, Any]:
        return {"size": event.msg_length, "tag": event.msg_tag, "comm": self.comm(event.communicator)}

    def _collective(self, rank: _Rank, event: Any) -> None:
        op = _OPS.get(str(event.collective_op).rsplit(".", 1)[-1])
        if op is None:
            return
        rooted = isinstance(event.root, int) and 0 <= event.root < len(event.communicator.group.members)
        root = self.partner(event.communicator, event.root) if rooted else -1
        flag = max(root, 0) if op == Op.REDUCE else int(root == rank.number)
        fields = {"sent": event.size_sent, "received": event.size_received, "comm": self.comm(event.communicator)}
        fields |= {"op": op, "root": flag}
        if isinstance(event, self.events.NonBlockingCollectiveComplete):
            begins, ends = {"sync": Sync.NONBLOCKING}, {"sync": Sync.WAIT}
            if rank.complete(event.request_id, "collective", fields, begins, ends):
                return
        rank.add("collective", **fields, sync=Sync.ROOT if op == Op.REDUCE else Sync.BLOCKING)


def read_otf2(path: str | Path) -> Events:
    """Read the MPI events of an OTF2 archive (its anchor file, ``traces.otf2``); bursts are the gaps between MPI regions.

    One-sided operations are left out. Raises :class:`ToolNotFoundError` where the ``otf2`` package
    is not installed, :class:`FormatError` for an archive that it cannot read.
    """
    try:
        import otf2
    except ImportError as error:
        raise ToolNotFoundError("The otf2 package is not installed; install it with: pip install 'convolver[otf2]'.") from error
    try:
        with otf2.reader.open(str(path)) as trace:
            return _Archive(trace, otf2).read()
    except Exception as error:  # the package raises classes of its own making, and names no common one
        raise FormatError(f"{path} cannot be read as an OTF2 archive: {error}.") from error
