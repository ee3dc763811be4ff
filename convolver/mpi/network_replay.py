"""Replays MPI events on a network: Dimemas' model (docs/theory/replay.md), run by the C core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.replay_core import PackedEvents, RunResult
from convolver.errors import ReplayError, UsageError
from convolver.machine.catalog import MachineName, as_machine
from convolver.mpi.cfg import Configuration, read_cfg
from convolver.mpi.events import EventKind, Events, Op, Sync
from convolver.mpi.network import Network, network_from_profile
from convolver.mpi.sources import load_events
from convolver.mpi.timeline import Timeline, make_timeline
from convolver.progress import SILENT, Progress, step

Ratio = float | NDArray[np.float64]
CONFIGURATION = ".cfg"
"""End of the name of a Dimemas configuration."""


def replay(
    events: Events | str | Path,
    machine: Network | Configuration | MachineName,
    ratio: Ratio = 1.0,
    *,
    burst_ratio: NDArray[np.float64] | None = None,
    record: bool = True,
    progress: Progress = SILENT,
) -> Timeline:
    """Predict a parallel run: divide its computation by the CPU ratio and replay its communication on a network.

    ``machine`` may be the path of a Dimemas configuration (.cfg), too. ``ratio`` is one number or one a rank, ``burst_ratio`` one
    a record (only bursts count); both divide, so 2.0 is twice as fast, and multiply with the machine's own node and module
    ratios. Without ``record`` only the per-rank totals are kept.
    Raises :class:`ReplayError` for a deadlock (naming the cycle of ranks and records) or a machine that is too small,
    :class:`FormatError` for contradictory events, and :class:`UsageError` for what is no events or no machine.
    """
    if isinstance(events, (str, Path)):
        events = load_events(events)
    if not isinstance(events, Events):
        raise UsageError(f"{type(events).__name__} is no recorded run; give its events or the path of its file.")
    with step(progress, "Replaying", events.records):
        return Replayer(events).run(as_network(machine, events.ranks), ratio, burst_ratio=burst_ratio, record=record)


def as_network(machine: Network | Configuration | MachineName, ranks: int) -> Network:
    """Return the network of a machine for a run of ``ranks`` tasks; raises :class:`ReplayError` for a profile without one and
    :class:`UsageError` for what is no machine."""
    if isinstance(machine, (Network, Configuration)):
        return machine if isinstance(machine, Network) else Network(machine)
    if isinstance(machine, (str, Path)) and Path(machine).suffix == CONFIGURATION:
        return Network(read_cfg(machine))
    profile = as_machine(machine)
    if not profile.network:
        raise ReplayError(f"The machine '{profile.name}' has no network section; measure one with 'convolver mpi network'.")
    return network_from_profile(dict(profile.network), ranks)


class Replayer:
    """Packs events once and replays them on many networks, one after the other."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.packed: PackedEvents = events.pack()
        self._quirky: PackedEvents | None = None

    def _packed_for(self, network: Network) -> PackedEvents:
        if not network.quirks or 0 not in self.events.comm_ids:
            return self.packed
        if self._quirky is None:
            columns = self.events.columns
            ignored = (columns["kind"] == EventKind.COLLECTIVE) & (self.events.comm_ids[columns["comm"]] == 0)
            kind = np.where(ignored, EventKind.NOOP, columns["kind"]).astype(np.uint8)
            self._quirky = self.events.with_columns(kind=kind).pack()
        return self._quirky

    def run(
        self,
        network: Network | Configuration,
        ratio: Ratio = 1.0,
        *,
        burst_ratio: NDArray[np.float64] | None = None,
        record: bool = False,
    ) -> Timeline:
        """Replay once; arguments and errors as of :func:`replay`."""
        result, notes = self._run(network, ratio, burst_ratio, record)
        return make_timeline(result.ranks, result.intervals, result.messages, notes, {"events": self.events.name})

    def _run(
        self, network: Network | Configuration, ratio: Ratio, burst_ratio: NDArray[np.float64] | None, record: bool
    ) -> tuple[RunResult, dict[str, Any]]:
        net = network if isinstance(network, Network) else Network(network)
        ranks = self.events.ranks
        native = net.native(ranks)
        own = np.asarray(ratio, np.float64)
        if own.ndim and own.shape != (ranks,):
            raise UsageError(f"There are {own.size} CPU ratios for {ranks} ranks; give one number or one a rank.")
        if burst_ratio is not None and burst_ratio.shape != (self.events.records,):
            raise UsageError(f"There are {burst_ratio.size} burst ratios for {self.events.records} records; give one a record.")
        if not np.all(own >= 0) or (burst_ratio is not None and not np.all(burst_ratio >= 0)):
            raise UsageError("A CPU ratio is negative or not a number; ratios divide burst durations and must be >= 0.")
        packed = self._packed_for(net)
        packed.scale(net.rank_ratios(ranks) * own, burst_ratio, net.configuration.modules)
        result = packed.run(native, record)
        if result.deadlock:
            raise ReplayError(explain_deadlock(self.events, result.ranks))
        if not np.all(np.isfinite(result.ranks["seconds"])):
            raise ReplayError(
                f"{self.events.name} has no finite time here: its bursts, divided by the ratios given, or its messages at the "
                "network's latencies and bandwidths, last longer than any number; correct these."
            )
        return result, {"name": self.events.name, "records": self.events.records, "queue_events": result.events}

    def seconds(self, network: Network | Configuration, ratio: Ratio = 1.0) -> NDArray[np.float64]:
        """Return only the seconds of each rank: what a sweep needs."""
        result, _ = self._run(network, ratio, None, False)
        seconds: NDArray[np.float64] = result.ranks["seconds"]
        return seconds


def describe_record(events: Events, rank: int, record: int) -> str:
    """Return a record in words, for example ``recv from 3 (tag 7)``."""
    row = {name: column[events.first[rank] + record] for name, column in events.columns.items()}
    kind = EventKind(row["kind"])
    if kind == EventKind.COLLECTIVE:
        what = f"{Op(row['op']).name.capitalize()} on communicator {events.comm_ids[row['comm']]}"
        return f"wait for {what}" if row["flags"] == Sync.WAIT else what
    if kind == EventKind.SEND_WAIT:
        return f"wait for the send to {row['partner']} (tag {row['tag']})"
    preposition = "to" if kind == EventKind.SEND else "from"
    return f"{kind.name.lower()} {preposition} {row['partner']} (tag {row['tag']})"


def explain_deadlock(events: Events, ranks: NDArray[Any]) -> str:
    """Return one sentence that names the cycle of blocked ranks and records, or the rank that finished without answering."""
    blocked = ranks["blocked_record"]
    chain = [int(np.flatnonzero(blocked >= 0)[0])]
    while True:
        following = int(ranks["blocked_on"][chain[-1]])
        if following in chain:
            chain = chain[chain.index(following) :]
            break
        if following < 0 or blocked[following] < 0:
            break
        chain.append(following)
    shown = chain if len(chain) <= 12 else chain[:12]
    steps = [f"rank {r} at record {blocked[r]} ({describe_record(events, r, int(blocked[r]))})" for r in shown]
    text = ", waits for ".join(steps) + (f", ... ({len(chain)} ranks)" if len(shown) < len(chain) else "")
    last = int(ranks["blocked_on"][chain[-1]])
    end = f"rank {last}" if last in chain else f"rank {last}, which has finished" if last >= 0 else "nobody"
    count = int(np.count_nonzero(blocked >= 0))
    who = f"{count} of {len(ranks)} ranks of {events.name}"
    return f"Deadlock: {who} are blocked for ever: {text}, waits for {end}; check the trace."
