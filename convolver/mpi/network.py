"""The network as the replay sees it: per-node arrays in SI units, where the tasks sit, links between nodes, and the what-ifs."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import lib
from convolver.errors import ConvolverWarning, ReplayError, UsageError
from convolver.mpi.cfg import Configuration, Nodes

_CODES = {"torus": lib.CV_REPLAY_TORUS, "fat-tree": lib.CV_REPLAY_FAT_TREE}
_MOST_LEVELS: int = lib.CV_REPLAY_TOPOLOGY_LEVELS
_SIDES = r"(\d{1,9}(?:x\d{1,9})*)"
_FORM = re.compile(rf"(torus):{_SIDES}|fat-tree:{_SIDES}:{_SIDES}")


@dataclass(frozen=True)
class Topology:
    """``torus``: ``down`` has the nodes in each dimension. ``fat-tree``: children of a switch and parents of a node or switch by
    level, from the nodes on: the XGFT(n; m; w) of Oehring, Ibel, Das, Kumar (1995)."""

    kind: Literal["torus", "fat-tree"]
    down: tuple[int, ...]
    up: tuple[int, ...] = ()

    @property
    def nodes(self) -> int:
        """Return how many nodes it connects."""
        return math.prod(self.down)

    def native(self, used: int) -> dict[str, Any]:
        """Return the fields of ``cv_replay_network``; raises :class:`ReplayError` for a machine of more nodes."""
        if used > self.nodes:
            raise ReplayError(f"The {self} connects {self.nodes} nodes, but the machine has {used}: choose a larger one.")
        lists = {"topology_down": np.array(self.down, np.int32), "topology_up": np.array(self.up or (1,), np.int32)}
        return {"topology": _CODES[self.kind], "topology_levels": len(self.down), **lists}

    def __str__(self) -> str:
        return ":".join([self.kind, *("x".join(map(str, sizes)) for sizes in (self.down, self.up) if sizes)])


def parse_topology(text: str) -> Topology:
    """Return the topology in ``torus:4x4x2`` or ``fat-tree:16x8:1x8``; raises :class:`UsageError` for anything else."""
    match = _FORM.fullmatch(text)
    torus, down, children, parents = match.groups() if match else (None,) * 4
    sizes = tuple(map(int, (down or children or "0").split("x")))
    ups = tuple(map(int, parents.split("x"))) if parents else ()
    wires = math.prod(sizes) * math.prod(ups or (2,)) * len(sizes)
    fits = (torus or len(sizes) == len(ups)) and min((*sizes, *ups)) > 0 and len(sizes) <= _MOST_LEVELS and wires < 1 << 31
    if not match or not fits:
        raise UsageError(
            f"'{text}' is no topology; write torus:4x4x2 (nodes in each dimension) or fat-tree:16x8:1x8 (children of a switch "
            "and parents of a node or switch at each level, from the nodes on)."
        )
    return Topology("torus" if torus else "fat-tree", sizes, ups)


MIB = float(1 << 20)
TRUST_TRACE: int = lib.CV_REPLAY_TRUST_TRACE
NEVER: int = lib.CV_REPLAY_NEVER
_NODE_FIELDS = {
    "latency_inter": ("latency_inter_seconds", np.float64),
    "latency_intra": ("latency_intra_seconds", np.float64),
    "buses_intra": ("buses_intra", np.int32),
    "in_intra": ("in_intra", np.int32),
    "out_intra": ("out_intra", np.int32),
    "in_inter": ("in_inter", np.int32),
    "out_inter": ("out_inter", np.int32),
}


@dataclass(frozen=True)
class MessageCosts:
    """What messages of some sizes were measured to cost, linear in between: seconds that the sender is busy, from then to the
    arrival, and that the receiver is busy once the message is there; ``post_seconds`` is what posting a receive takes."""

    sizes: tuple[float, ...]
    send: tuple[float, ...]
    transfer: tuple[float, ...]
    receive: tuple[float, ...]
    post_seconds: float = 0.0

    def scaled(self, latency: float, transfer: float) -> MessageCosts:
        """Return the costs with factors on what a message of no bytes takes, and on what its bytes add."""

        def one(values: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(max(0.0, values[0] * latency + (x - values[0]) * transfer) for x in values)

        return MessageCosts(self.sizes, one(self.send), one(self.transfer), one(self.receive), self.post_seconds * latency)

    def at(self, latency_seconds: float | None, bandwidth_bytes_per_second: float | None) -> MessageCosts:
        """Return the costs scaled so that the smallest message takes this latency and the largest travel at this bandwidth."""
        smallest, largest = (sum(values[end] for values in (self.send, self.transfer, self.receive)) for end in (0, -1))
        per_byte = (largest - smallest) / self.sizes[-1] if self.sizes[-1] else 0.0
        latency = 1.0 if latency_seconds is None or not smallest else latency_seconds / smallest
        given = bandwidth_bytes_per_second
        return self.scaled(latency, 1.0 if given is None or not per_byte else 1 / (given * per_byte) if given else 0.0)

    def native(self) -> dict[str, Any]:
        """Return the fields of ``cv_replay_network``."""
        columns = {"bytes": self.sizes, "send": self.send, "transfer": self.transfer, "receive": self.receive}
        arrays: dict[str, Any] = {f"cost_{name}": np.array(values, np.float64) for name, values in columns.items()}
        return {"cost_points": len(self.sizes), **arrays, "cost_post": self.post_seconds}


@dataclass(frozen=True)
class Network:
    """A parallel machine for :func:`convolver.mpi.network_replay.replay`.

    ``rendezvous_bytes``: messages of at least so many bytes wait for their receiver; ``TRUST_TRACE`` takes the trace's own bit,
    ``NEVER`` makes all sends eager. ``wire_latency_seconds`` (between the end of a transfer and its arrival) and ``gap_seconds``
    (shortest time for which a message holds its links) are not in Dimemas; with ``latency = o``, ``bandwidth = 1/G`` they make
    the LogGP model (Alexandrov et al., SPAA 1995). ``costs`` replace latency and bandwidth of point-to-point messages by measured
    ones; ``share_cpus``: the tasks of a node take turns on its processors, and handing one over takes ``handover_seconds``;
    ``cpu_share`` is how much of a processor a computing task gets (quotas, other programs); ``sends_wait``: a rendezvous send, or
    the wait for it, ends when its receiver has copied, as in real libraries (Dimemas: a blocking one when that may begin);
    ``topology``: links between the nodes.
    """

    configuration: Configuration
    rendezvous_bytes: int = TRUST_TRACE
    wire_latency_seconds: float = 0.0
    gap_seconds: float = 0.0
    quirks: bool = False
    costs: MessageCosts | None = None
    sends_wait: bool = False
    share_cpus: bool = False
    handover_seconds: float = 0.0
    cpu_share: float = 1.0
    topology: Topology | None = None
    _cache: dict[int, dict[str, Any]] = field(default_factory=dict, init=False, compare=False, repr=False)

    def placement(self, ranks: int) -> NDArray[np.int32]:
        """Return the node of each task; raises :class:`ReplayError` when the machine is too small."""
        return place(self.configuration, ranks, self.share_cpus)

    def rank_ratios(self, ranks: int) -> NDArray[np.float64]:
        """Return the node ratio of each task times the share of a processor that it gets."""
        own: NDArray[np.float64] = _per_node(self.configuration, "ratio", np.dtype(np.float64))[self.placement(ranks)]
        return own * self.cpu_share

    def native(self, ranks: int) -> dict[str, Any]:
        """Return the fields of ``cv_replay_network`` for a number of tasks."""
        if ranks in self._cache:
            return self._cache[ranks]
        config = self.configuration
        fields: dict[str, Any] = {
            name: _per_node(config, attribute, np.dtype(dtype)) for name, (attribute, dtype) in _NODE_FIELDS.items()
        }
        fields |= {
            "nodes": config.node_count,
            "buses": config.buses,
            "bytes_per_second": config.bandwidth_mib * MIB,
            "bytes_per_second_intra": _per_node(config, "bandwidth_intra_mib", np.dtype(np.float64)) * MIB,
            "node_of_rank": self.placement(ranks),
            "collectives": _collectives(config),
            "rendezvous_bytes": self.rendezvous_bytes,
            "wire_latency": self.wire_latency_seconds,
            "gap": self.gap_seconds,
            "quirks": lib.CV_REPLAY_QUIRK_ANY_COLLECTIVE_WAIT if self.quirks else 0,
            "sends_wait": int(self.sends_wait),
            **(self.costs.native() if self.costs else {}),
            **({"cpus": _per_node(config, "cpus", np.dtype(np.int32))} if self.share_cpus else {}),
            "handover": self.handover_seconds if self.share_cpus else 0.0,
            **(self.topology.native(config.node_count) if self.topology else {}),
        }
        self._cache[ranks] = fields
        return fields


def _per_node(config: Configuration, attribute: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    values = [getattr(group, attribute) for group in config.nodes]
    return np.repeat(np.array(values, dtype), [group.count for group in config.nodes])


def _collectives(config: Configuration) -> NDArray[np.uint8]:
    model = config.collective_model
    rules = np.tile(np.array([model, 0, model, 0], np.uint8), (lib.CV_OPS, 1))
    for op, rule in config.collectives.items():
        rules[op] = rule
    return np.ascontiguousarray(rules.reshape(-1))


def place(config: Configuration, ranks: int, share_cpus: bool = False) -> NDArray[np.int32]:
    """Return the node of each task by the configuration's mapping.

    Raises :class:`ReplayError` when the machine is too small or an explicit mapping is for another number of tasks; warns where a
    node gets more tasks than it has processors, because the replay gives each task a processor of its own unless they share.
    """
    cpus = _per_node(config, "cpus", np.dtype(np.int64))
    if not isinstance(config.mapping, str):
        nodes = np.array(config.mapping, np.int64)
        if len(nodes) != ranks:
            raise ReplayError(f"The configuration maps {len(nodes)} tasks, but the trace has {ranks}: change its mapping.")
    elif config.mapping == "INTERLEAVED":
        nodes = np.arange(ranks) % config.node_count
    elif config.mapping == "FILL_NODES":
        nodes = np.searchsorted(np.cumsum(cpus), np.arange(ranks), side="right")
    else:
        nodes = np.arange(ranks) // int(config.mapping.split()[0])
    if nodes.max(initial=0) >= config.node_count:
        raise ReplayError(
            f"{ranks} tasks do not fit on the {config.node_count} nodes of the configuration by its mapping "
            f"'{config.mapping}': add nodes or change the mapping."
        )
    if not share_cpus and np.any(np.bincount(nodes, minlength=config.node_count) > cpus):
        warnings.warn(
            "A node has fewer processors than tasks; the replay gives every task a processor of its own (--share-cpus: not).",
            ConvolverWarning,
            stacklevel=2,
        )
    return nodes.astype(np.int32)


def flat_configuration(
    ranks: int,
    *,
    latency_seconds: float = 0.0,
    bandwidth_bytes_per_second: float = 0.0,
    tasks_per_node: int = 1,
    links: int = 0,
    buses: int = 0,
    collective_model: int = 3,
    intra: tuple[float, float] = (0.0, 0.0),
    ratio: float = 1.0,
    cpus: int | None = None,
) -> Configuration:
    """Return a machine of equal nodes just large enough for ``ranks`` tasks; ``intra`` is (latency, bytes/s) within a node."""
    nodes = Nodes(
        count=math.ceil(ranks / tasks_per_node),
        cpus=cpus or tasks_per_node,
        ratio=ratio,
        latency_intra_seconds=intra[0],
        bandwidth_intra_mib=intra[1] / MIB,
        latency_inter_seconds=latency_seconds,
        in_inter=links,
        out_inter=links,
    )
    return Configuration(
        (nodes,),
        bandwidth_mib=bandwidth_bytes_per_second / MIB,
        buses=buses,
        collective_model=collective_model,
        mapping=f"{tasks_per_node} TASKS_PER_NODE",
    )


def network_from_profile(measured: dict[str, Any], ranks: int, tasks_per_node: int | None = None) -> Network:
    """Return a network from the ``network`` section of a machine profile.

    Needs ``latency_seconds`` (one way, as a ping-pong measures it) and ``bandwidth_bytes_per_second``; ``eager_limit_bytes``,
    ``overhead_seconds``, ``tasks_per_node``, ``cpus`` (of a node, which more tasks share), ``handover_seconds``, ``cpu_share``,
    ``costs`` (:class:`MessageCosts`), ``intra_latency_seconds`` and ``intra_bandwidth_bytes_per_second`` are used where given.
    Between nodes the overhead is the startup that both sides pay, and the rest of the latency is spent on the wire.
    """
    try:
        per_node = tasks_per_node or int(measured.get("tasks_per_node", ranks))
        latency, rate = float(measured["latency_seconds"]), float(measured["bandwidth_bytes_per_second"])
        overhead = min(float(measured.get("overhead_seconds", latency)), latency)
        within = (
            float(measured.get("intra_latency_seconds", latency)),
            float(measured.get("intra_bandwidth_bytes_per_second", rate)),
        )
        cpus = min(int(measured.get("cpus", per_node)), per_node)
        eager = int(measured.get("eager_limit_bytes", TRUST_TRACE))
        handover = float(measured.get("handover_seconds", 0.0))
        share = float(measured.get("cpu_share", 1.0))
        topology = parse_topology(str(measured["topology"])) if "topology" in measured else None
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"The machine's network section cannot be used: {error!r}; measure it with 'convolver mpi network'."
        ) from error
    config = flat_configuration(
        ranks,
        latency_seconds=overhead,
        bandwidth_bytes_per_second=rate,
        tasks_per_node=per_node,
        links=1,
        intra=within,
        cpus=cpus,
    )
    costs = _measured_costs(measured, ranks, per_node)
    wire = latency - overhead
    shares = cpus < per_node
    return Network(
        config,
        rendezvous_bytes=eager,
        wire_latency_seconds=wire,
        costs=costs,
        sends_wait=costs is not None,
        share_cpus=shares,
        handover_seconds=handover,
        cpu_share=share,
        topology=topology,
    )


def _measured_costs(measured: dict[str, Any], ranks: int, per_node: int) -> MessageCosts | None:
    """Return the measured costs of messages where they hold for all pairs of tasks: all on one node, or each on its own."""
    found = measured.get("costs")
    if not found or not (per_node >= ranks if measured.get("same_host") else per_node == 1):
        return None
    try:
        sizes = tuple(map(float, found["bytes"]))
        send, transfer, receive = (tuple(map(float, found[f"{name}_seconds"])) for name in ("send", "transfer", "receive"))
        costs = MessageCosts(sizes, send, transfer, receive, float(found["post_seconds"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"The costs in the machine's network section cannot be used: {error!r}; measure it again.") from error
    rising = costs.sizes[:1] == (0.0,) and all(a < b for a, b in zip(costs.sizes, costs.sizes[1:], strict=False))
    if not rising or any(len(c) != len(costs.sizes) or min(c) < 0 for c in (send, transfer, receive)):
        raise UsageError("The costs in the machine's network section are no curves over rising sizes from 0; measure it again.")
    return costs


def what_if(
    network: Network,
    *,
    latency_seconds: float | None = None,
    wire_latency_seconds: float | None = None,
    bandwidth_bytes_per_second: float | None = None,
    contention: bool = True,
) -> Network:
    """Return a copy of the network with some parameters replaced everywhere (also within nodes).

    An infinite bandwidth becomes the 0 that means instantaneous; ``contention=False`` removes links, buses and topology.
    """
    config = network.configuration
    changes: dict[str, Any] = {}
    if network.costs is not None:
        network = replace(network, costs=network.costs.at(latency_seconds, bandwidth_bytes_per_second))
    if wire_latency_seconds is not None:
        network = replace(network, wire_latency_seconds=wire_latency_seconds)
    if latency_seconds is not None:
        changes |= {"latency_intra_seconds": latency_seconds, "latency_inter_seconds": latency_seconds}
    if bandwidth_bytes_per_second is not None:
        mib = 0.0 if math.isinf(bandwidth_bytes_per_second) else bandwidth_bytes_per_second / MIB
        changes["bandwidth_intra_mib"] = mib
        config = replace(config, bandwidth_mib=mib)
    if not contention:
        changes |= {"buses_intra": 0, "in_intra": 0, "out_intra": 0, "in_inter": 0, "out_inter": 0}
        config = replace(config, buses=0)
        network = replace(network, topology=None)
    config = replace(config, nodes=tuple(replace(group, **changes) for group in config.nodes))
    return replace(network, configuration=config)
