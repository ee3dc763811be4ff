"""A slow, obvious replay in plain Python objects: what the C core must agree with.

A rank is a generator: it yields a number of seconds to pass, or None to sleep until somebody calls ``wake``.
"""

import heapq
import itertools
import math

from convolver.mpi.events import EventKind, Op, Sync

MIB = float(1 << 20)


class Port:
    """Links of a node or, within a node, of a task."""

    def __init__(self, inputs, outputs):
        self.infinite = inputs == outputs == 0
        self.half = not self.infinite and 0 in (inputs, outputs)
        self.outs = max(inputs, outputs) if self.half else outputs
        self.ins = inputs
        self.want_out, self.want_in, self.holders = [], [], []

    def robbable(self):
        return next((m for m in self.holders if m.waits_in), None)

    def take_in(self):
        pool = "outs" if self.half else "ins"
        if getattr(self, pool) == 0:
            return False
        setattr(self, pool, getattr(self, pool) - 1)
        return True


class Message:
    def __init__(self, size, source, destination, arrived):
        self.size, self.source, self.destination, self.arrived = size, source, destination, arrived
        self.has_out = self.has_in = self.waits_in = self.on_bus = False
        self.resume = None


class Channel:
    def __init__(self):
        self.arrived, self.blocked, self.sleeper = [], [], None
        self.unpaired_sends, self.unpaired_receives = [], []


class Bus:
    def __init__(self, capacity):
        self.capacity, self.used, self.queue = capacity, 0, []


class Collective:
    def __init__(self, size, root):
        self.size, self.root, self.sleepers, self.arrived = size, root, [], 0
        self.done = self.rooted = self.root_sleeps = False
        self.bytes = self.root_rank = None
        self.buses = 0


class Simulator:
    def __init__(self, events, config, nodes, rendezvous=None):
        self.events, self.config, self.node, self.rendezvous = events, config, [int(n) for n in nodes], rendezvous
        self.groups = [g for g in config.nodes for _ in range(g.count)]
        self.heap, self.serial, self.now = [], itertools.count(), 0.0
        self.node_ports = [Port(g.in_inter, g.out_inter) for g in self.groups]
        self.task_ports = [Port(self.groups[n].in_intra, self.groups[n].out_intra) for n in self.node]
        self.bus, self.node_bus = Bus(config.buses), [Bus(g.buses_intra) for g in self.groups]
        self.channels, self.collectives = {}, {}
        self.finish, self.received = [None] * events.ranks, 0
        self.processes = [self.rank(r) for r in range(events.ranks)]

    def run(self):
        """Return the end of each rank; None for one that is blocked for ever."""
        for rank in range(self.events.ranks):
            self.wake(rank)
        while self.heap:
            self.now, _, action = heapq.heappop(self.heap)
            action()
        return self.finish

    def after(self, delay, action):
        heapq.heappush(self.heap, (self.now + delay, next(self.serial), action))

    def wake(self, rank):
        self.after(0.0, lambda: self.step(rank))

    def step(self, rank):
        for delay in self.processes[rank]:
            if delay is None:
                return
            if delay > 0:
                self.after(delay, lambda: self.step(rank))
                return

    # --- ranks

    def rank(self, rank):
        counters = {}
        for i in range(self.events.first[rank], self.events.first[rank + 1]):
            row = {name: column[i].item() for name, column in self.events.columns.items()}
            kind, ratio = EventKind(row["kind"]), self.groups[self.node[rank]].ratio
            if kind == EventKind.BURST:
                yield row["seconds"] / ratio if ratio else 0.0
            elif kind == EventKind.SEND:
                yield from self.send(rank, row)
            elif kind in (EventKind.RECV, EventKind.IRECV, EventKind.WAIT):
                yield from self.receive(rank, row, kind)
            elif kind == EventKind.COLLECTIVE:
                yield from self.collective(rank, row, counters)
        self.finish[rank] = self.now

    def latency(self, a, b):
        group = self.groups[self.node[a]]
        return group.latency_intra_seconds if self.node[a] == self.node[b] else group.latency_inter_seconds

    def send(self, rank, row):
        to = row["partner"]
        yield self.latency(rank, to)
        channel = self.channels.setdefault((rank, to, row["tag"], row["comm"]), Channel())
        limit = self.rendezvous
        meets = bool(row["flags"] & 1) if limit is None else row["bytes"] >= limit
        posted = False
        if channel.unpaired_receives:
            posted = channel.unpaired_receives.pop(0) == EventKind.IRECV
        else:
            channel.unpaired_sends.append(meets)
        message = Message(row["bytes"], rank, to, lambda: self.deliver(message, channel))
        if not meets or posted or channel.sleeper is not None:
            self.request(message)
            return
        channel.blocked.append(message)
        if not row["flags"] & 2:
            message.resume = rank
            yield None

    def start_blocked(self, channel):
        if channel.blocked:
            message = channel.blocked.pop(0)
            if message.resume is not None:
                self.wake(message.resume)
            self.request(message)

    def receive(self, rank, row, kind):
        source = row["partner"]
        channel = self.channels.setdefault((source, rank, row["tag"], row["comm"]), Channel())
        if kind != EventKind.IRECV:
            yield self.latency(source, rank)
        rendezvous_waits = False
        if kind != EventKind.WAIT:
            if channel.unpaired_sends:
                rendezvous_waits = channel.unpaired_sends.pop(0)
            else:
                channel.unpaired_receives.append(kind)
        if kind == EventKind.IRECV:
            if rendezvous_waits:
                self.start_blocked(channel)
            return
        if channel.arrived:
            self.received += channel.arrived.pop(0).size
            return
        self.start_blocked(channel)
        channel.sleeper = rank
        yield None

    def deliver(self, message, channel):
        if channel.sleeper is None:
            channel.arrived.append(message)
            return
        rank, channel.sleeper = channel.sleeper, None
        self.received += message.size
        self.step(rank)

    # --- transfers

    def inside(self, message):
        return self.node[message.source] == self.node[message.destination]

    def ports(self, message):
        table, index = (self.task_ports, lambda r: r) if self.inside(message) else (self.node_ports, lambda r: self.node[r])
        return table[index(message.source)], table[index(message.destination)]

    def request(self, message):
        message.waits_in = False
        if not (self.task_links(message) if self.inside(message) else self.node_links(message)):
            return
        bus = self.node_bus[self.node[message.source]] if self.inside(message) else self.bus
        if bus.capacity:
            if bus.used >= bus.capacity:
                bus.queue.append(message)
                return
            bus.used += 1
            message.on_bus = True
        mib = self.groups[self.node[message.source]].bandwidth_intra_mib if self.inside(message) else self.config.bandwidth_mib
        self.after(message.size / (mib * MIB) if mib else 0.0, lambda: self.end(message))

    def task_links(self, message):
        source, destination = self.ports(message)
        if message.source == message.destination or source.infinite:
            return True
        steps = [self.task_out, self.task_in]
        if source.half and message.source > message.destination:
            steps.reverse()
        return all(step(message, source, destination) for step in steps)

    def task_out(self, message, source, _):
        if not message.has_out:
            if source.outs == 0:
                source.want_out.append(message)
                return False
            source.outs -= 1
            message.has_out = True
        return True

    def task_in(self, message, _, destination):
        if not message.has_in:
            if not destination.take_in():
                destination.want_in.append(message)
                return False
            message.has_in = True
        return True

    def rob(self, port, heir):
        robbed = port.robbable()
        self.ports(robbed)[1].want_in.remove(robbed)
        robbed.has_out = robbed.waits_in = False
        if heir is None:
            port.holders.remove(robbed)
        else:
            port.holders[port.holders.index(robbed)] = heir
            heir.has_out = True
        port.want_out.insert(0, robbed)

    def node_links(self, message):
        source, destination = self.ports(message)
        robs = False
        if not source.infinite and not message.has_out:
            if source.outs > 0:
                source.outs -= 1
                source.holders.append(message)
                message.has_out = True
            elif source.robbable():
                robs = True
            else:
                source.want_out.append(message)
                return False
        if not destination.infinite and not message.has_in:
            taken = destination.take_in()
            if not taken and not (destination.half and destination.robbable()):
                message.waits_in = not robs
                (source.want_out if robs else destination.want_in).append(message)
                return False
            if robs:
                self.rob(source, message)
            if not taken:
                self.rob(destination, None)
            message.has_in = True
        elif robs:
            self.rob(source, message)
        return True

    def end(self, message):
        source, destination = self.ports(message)
        if message.has_out:
            message.has_out = False
            if message in source.holders:
                source.holders.remove(message)
            source.outs += 1
            for queue in ([source.want_in] if source.half else []) + [source.want_out]:
                if queue:
                    self.request(queue.pop(0))
        if message.has_in:
            message.has_in = False
            if destination.half:
                destination.outs += 1
            else:
                destination.ins += 1
            for queue in ([destination.want_out] if destination.half else []) + [destination.want_in]:
                if queue:
                    self.request(queue.pop(0))
        if message.on_bus:
            bus = self.node_bus[self.node[message.source]] if self.inside(message) else self.bus
            bus.used -= 1
            self.feed(bus)
        message.arrived()

    def feed(self, bus):
        if not bus.queue:
            return
        if isinstance(bus.queue[0], Message):
            self.request(bus.queue.pop(0))
            return
        collective, op = bus.queue[0]
        collective.buses += bus.capacity - bus.used
        bus.used = bus.capacity
        if collective.buses == bus.capacity:
            bus.queue.pop(0)
            self.begin(collective, op)

    # --- collectives

    def members(self, row):
        return self.events.communicators()[int(self.events.comm_ids[row["comm"]])].tolist()

    def collective_latency(self, rank, members):
        nodes = [self.node[m] for m in members]
        group = self.groups[self.node[rank]]
        between = group.latency_inter_seconds if len(set(nodes)) > 1 else 0.0
        return max(between, group.latency_intra_seconds if len(set(nodes)) < len(nodes) else 0.0)

    def find(self, row, counters, what):
        key = (row["comm"], what)
        counters[key] = counters.get(key, 0) + 1
        name = (*key, counters[key])
        if what == "wait":
            name = (row["comm"], Sync.NONBLOCKING, counters[key])
        if name not in self.collectives:
            self.collectives[name] = Collective(len(self.members(row)), row["partner"])
        return self.collectives[name]

    def collective(self, rank, row, counters):
        sync, members = Sync(row["flags"]), self.members(row)
        if sync != Sync.BLOCKING:
            yield self.collective_latency(rank, members)
        if sync == Sync.WAIT:
            one = self.find(row, counters, "wait")
            if not one.done:
                one.sleepers.append(rank)
                yield None
            return
        one = self.find(row, counters, sync)
        if sync == Sync.ROOT:
            yield from self.reduce(rank, row, one)
            return
        one.arrived += 1
        is_root = row["partner"] == rank if row["op"] == Op.REDUCE else row["partner"] != 0
        if is_root or not one.rooted:
            one.bytes, one.root_rank, one.rooted = (row["bytes"], row["extra"]), rank, is_root
        one.members = members
        if sync == Sync.BLOCKING:
            one.sleepers.append(rank)
        if one.arrived == one.size:
            self.start(one, row["op"])
        if sync == Sync.BLOCKING:
            yield None

    def reduce(self, rank, row, one):
        if rank != one.root:
            self.request(message := Message(row["bytes"], rank, one.root, lambda: self.contributed(message, one)))
            yield None
            return
        one.arrived += 1
        if one.arrived < one.size:
            one.root_sleeps = True
            yield None

    def contributed(self, message, one):
        self.received += message.size
        one.arrived += 1
        if one.arrived == one.size and one.root_sleeps:
            self.wake(one.root)
        self.wake(message.source)

    def start(self, one, op):
        if self.bus.capacity and self.bus.used:
            one.buses = self.bus.capacity - self.bus.used
            self.bus.used = self.bus.capacity
            self.bus.queue.append((one, op))
        else:
            self.bus.used = self.bus.capacity
            self.begin(one, op)

    def begin(self, one, op):
        self.after(collective_seconds(self.config, self.groups, self.node, one, op), lambda: self.finish_collective(one))

    def finish_collective(self, one):
        one.done = True
        if self.bus.capacity:
            self.bus.used = 0
            for _ in range(len(self.bus.queue)):
                if self.bus.used < self.bus.capacity and self.bus.queue:
                    self.feed(self.bus)
        for rank in one.sleepers:
            self.wake(rank)


def steps(n, buses):
    """Rounds of a logarithmic fan, message by message as REPLAY's formula counts them."""
    rounds = math.ceil(math.log2(n)) if n > 1 else 0
    if buses == 0:
        return rounds
    return sum(math.ceil(len(range(2**i - 1, n - 1, 2 ** (i + 1))) / buses) for i in range(rounds))


def fans(rule, sent, received, latency, mib, n, buses):
    """Seconds of fan-in plus fan-out of n participants."""
    total = 0.0
    for (model, size), own in zip((rule[:2], rule[2:]), (sent, received), strict=True):
        m = [own, min(sent, received), max(sent, received), (sent + received) // 2, 2 * max(sent, received), sent + received][
            size
        ]
        factor = {0: 0, 1: 1, 2: n - 1, 3: steps(n, buses)}[model]
        total += (latency + (m / (mib * MIB) if mib else 0.0)) * factor
    return total


def collective_seconds(config, groups, node, one, op):
    """Duration of a collective between its last arrival and its end."""
    model = config.collective_model
    rule = config.collectives.get(op, (model, 0, model, 0))
    used = [node[m] for m in one.members]
    seconds = 0.0
    if len(groups) > 1:
        latency = groups[node[one.root_rank]].latency_inter_seconds
        seconds += fans(rule, *one.bytes, latency, config.bandwidth_mib, len(set(used)), config.buses)
    return seconds + max(
        fans(rule, *one.bytes, groups[n].latency_intra_seconds, groups[n].bandwidth_intra_mib, used.count(n), 0)
        for n in set(used)
    )
