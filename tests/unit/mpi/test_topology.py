"""Contention on tori and fat trees: known answers, and an oracle with routes and turns of its own on random messages."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import ReplayError, UsageError
from convolver.mpi.events import EventsBuilder
from convolver.mpi.network import NEVER, Network, flat_configuration, network_from_profile, parse_topology, what_if
from convolver.mpi.network_replay import replay


def network(text, nodes):
    """A byte takes a second; nodes have no links of their own."""
    topology = parse_topology(text) if text else None
    return Network(flat_configuration(nodes, bandwidth_bytes_per_second=1.0), rendezvous_bytes=NEVER, topology=topology)


def program(nodes, messages):
    builder = EventsBuilder(nodes)
    for tag, (source, destination, size) in enumerate(messages):
        builder.send(source, destination, size, tag=tag)
    for tag, (source, destination, size) in enumerate(messages):
        builder.receive(destination, source, size, tag=tag)
    return builder.build()


def arrivals(text, nodes, messages):
    """When each message is there; all are sent at time 0, in order of their senders."""
    table = replay(program(nodes, messages), network(text, nodes)).messages.sort("tag")
    return table["physical_receive"].to_list()


@pytest.mark.parametrize(
    ("text", "nodes", "pairs", "seconds"),
    [
        ("torus:4", 4, [(0, 2), (1, 2)], [1, 2]),  # both over 1 -> 2
        ("torus:4", 4, [(0, 3), (3, 0)], [1, 1]),  # one wire a direction
        ("torus:4", 4, [(0, 2), (2, 0)], [1, 1]),  # half way round: both upwards
        ("torus:3x3", 9, [(0, 4), (1, 4)], [1, 2]),  # first dimension first: over 1
        ("torus:3x3", 9, [(0, 4), (3, 4)], [1, 1]),
        ("torus:8", 8, [(0, 2), (1, 3), (2, 3)], [1, 2, 3]),  # 2 -> 3 is free at once, but wanted before
        ("torus:8", 8, [(0, 2), (1, 3), (4, 5)], [1, 2, 1]),
        ("fat-tree:2x2:1x1", 4, [(0, 2), (1, 3)], [1, 2]),  # one wire up from the switch
        ("fat-tree:2x2:1x2", 4, [(0, 2), (1, 3)], [1, 1]),  # two, chosen by destination
        ("fat-tree:2x2:1x2", 4, [(0, 2), (1, 2)], [1, 2]),  # the wire down to 2
        ("fat-tree:2x2:1x1", 4, [(0, 1), (1, 0), (2, 3)], [1, 1, 1]),  # below the switch
        ("fat-tree:2x2x2:1x1x1", 8, [(0, 4), (2, 6), (5, 1)], [1, 2, 1]),  # 0 and 2 meet below the root
    ],
)
def test_messages_that_share_a_wire_follow_each_other(text, nodes, pairs, seconds):
    assert arrivals(text, nodes, [(a, b, 1) for a, b in pairs]) == seconds


def torus_route(sizes, at, to):
    def coordinates(node):
        return [node // math.prod(sizes[:d]) % size for d, size in enumerate(sizes)]

    here, there, wires = coordinates(at), coordinates(to), set()
    for d, size in enumerate(sizes):
        while here[d] != there[d]:
            step = 1 if (there[d] - here[d]) % size * 2 <= size else -1
            wires.add((tuple(here), d, step))
            here[d] = (here[d] + step) % size
    return wires


def tree_route(down, up, at, to):
    """Switches are named by level, the nodes below them and the parents chosen on the way there."""

    def name(level, node, chosen):
        return (level, node // math.prod(down[:level]), tuple(chosen[:level]))

    chosen, width = [], 1
    for parents in up:
        chosen.append(to // width % parents)
        width *= parents
    top = next(level for level in range(len(down) + 1) if name(level, at, chosen) == name(level, to, chosen))
    climb = {(name(level, at, chosen), name(level + 1, at, chosen)) for level in range(top)}
    return climb | {(name(level + 1, to, chosen), name(level, to, chosen)) for level in range(top)}


def oracle(routes, sizes):
    """Simulate in steps of a second: first come, first served, nobody overtakes on a wire."""
    done, running, waiting, now = [0.0] * len(routes), [], list(range(len(routes))), 0
    while waiting or running:
        for end, number in [one for one in running if one[0] == now]:
            done[number] = float(end)
        running = [one for one in running if one[0] > now]
        wanted = set().union(*(routes[number] for _, number in running))
        for number in list(waiting):
            if not routes[number] & wanted:
                waiting.remove(number)
                running.append((now + sizes[number], number))
            wanted |= routes[number]
        now += 1
    return done


SHAPES = ["torus:5", "torus:4x3", "torus:2x3x2", "fat-tree:4x3:1x2", "fat-tree:2x3x2:1x2x1", "fat-tree:3x4:2x3"]


@given(
    st.sampled_from(SHAPES),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(1, 4)), min_size=1, max_size=25),
)
def test_random_messages_arrive_when_the_oracle_says(text, drawn):
    topology = parse_topology(text)
    nodes = topology.nodes
    messages = sorted(((a % nodes, b % nodes, size) for a, b, size in drawn if a % nodes != b % nodes), key=lambda one: one[0])
    if topology.kind == "torus":
        routes = [torus_route(topology.down, a, b) for a, b, _ in messages]
    else:
        routes = [tree_route(topology.down, topology.up, a, b) for a, b, _ in messages]
    assert arrivals(text, nodes, messages) == oracle(routes, [size for *_, size in messages])


def test_a_network_without_contention_has_no_topology_and_profiles_may_name_one():
    pairs = [(0, 2, 1), (1, 2, 1)]
    free = what_if(network("torus:4", 4), contention=False)
    assert replay(program(4, pairs), free).predicted_seconds == 1
    measured = {"latency_seconds": 0, "bandwidth_bytes_per_second": 1, "tasks_per_node": 1, "topology": "torus:4"}
    assert str(network_from_profile(measured, 4).topology) == "torus:4"


@pytest.mark.parametrize(
    "text",
    [f"torus:{'9' * 5000}", "ring:4", "torus:", "torus:0x4", "fat-tree:4x4:1", "fat-tree:4", "torus:99999x99999", "torus:4:4"],
)
def test_what_is_no_topology_is_refused(text):
    with pytest.raises(UsageError, match="no topology"):
        parse_topology(text)


def test_a_machine_larger_than_its_topology_is_refused():
    with pytest.raises(ReplayError, match="connects 4 nodes"):
        replay(program(5, [(0, 1, 1)]), network("torus:4", 5))
