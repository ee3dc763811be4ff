"""Signals end every call of the C core that can take long, at once: limits are processor time, as machines are busy."""

import signal
import time

import numpy as np
import pytest

from convolver._native.replay_core import COLUMNS, PackedEvents
from convolver._native.trace_decoder import Decoder
from tests.wire_streams import Segment, Site, Stream, varint

FIRST, LATEST = 0.03, 0.25
"""Seconds of processor time until the signal comes, and until the call has ended; each takes twice as long or more."""
BURST, SEND, RECEIVE, EVENT = 1, 2, 3, 7
HEAP, LOADED, FREED = 1, 5, 2


class SignalCameError(Exception):
    """Raised by the handler."""


def _columns(records, fill):
    columns = {name: np.zeros(2 * records, dtype) for name, dtype in COLUMNS.items()}
    fill(columns)
    return columns


def _packed(columns):
    records = len(columns["kind"])
    return PackedEvents(columns, np.array([0, records // 2, records]), np.array([0, 2]), np.array([0, 1], dtype=np.int32))


def _messages(columns):
    half = len(columns["kind"]) // 2
    columns["kind"][:half], columns["kind"][half:] = SEND, RECEIVE
    columns["partner"][:half], columns["partner"][half:] = 1, 0
    columns["bytes"][:] = 8


def _tagged(columns):
    _messages(columns)
    columns["tag"][:] = np.tile(np.arange(len(columns["tag"]) // 2), 2)


def _events(columns):
    columns["kind"][:], columns["bytes"][:], columns["extra"][:] = EVENT, 1, 9


def _network():
    per_node = {"latency_inter": 1e-6, "latency_intra": 0.0, "bytes_per_second_intra": 0.0}
    arrays = {name: np.full(2, value) for name, value in per_node.items()}
    names = ("buses_intra", "in_intra", "out_intra", "in_inter", "out_inter")
    arrays |= {name: np.zeros(2, np.int32) for name in names}
    arrays |= {"node_of_rank": np.arange(2, dtype=np.int32), "collectives": np.zeros(64, np.uint8)}
    return {"nodes": 2, "buses": 0, "bytes_per_second": 1e9, "rendezvous_bytes": -2, **arrays}


def _pack():
    columns = _columns(2_000_000, _tagged)
    return lambda: _packed(columns)


def _replay():
    events = _packed(_columns(4_000_000, _messages))
    return lambda: events.run(_network(), record=False)


def _begun():
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4], [Site(displacement=4096 * site) for site in range(50)], words=1))
    stream.control(1, 1)
    stream.object(HEAP)
    for number in range(100_000):
        stream.symbol(0x10000 + 64 * number, 32, "a")
    return stream.bytes()


def _visits(count):
    stream = Stream()
    stream.segments = [Segment(0, [4], words=1)]
    stream.parts = []
    for number in range(100):
        stream.visit(0, [4096 * number])
    return stream.bytes() * (count // 100)


def _feed():
    decoder = Decoder()
    decoder.feed(_begun())
    data = _visits(2_000_000)
    return lambda: decoder.feed(data)


def _unpack():
    recorder, decoder = Decoder(), Decoder()
    recorder.record()
    recorder.feed(_begun() + _visits(10_000))
    taken = recorder.take()
    decoder.define(taken.modules)
    decoder.define(taken.segments)
    return lambda: decoder.unpack(taken.addresses * 1000, 0)


def _attributing():
    decoder = Decoder()
    decoder.attribute()
    decoder.feed(_begun())
    return decoder


def _take_events():
    decoder, events = _attributing(), bytes([FREED, 0]) * 20_000_000
    return lambda: decoder.events(events)


def _apply_events():
    decoder = _attributing()
    decoder.events((bytes([LOADED]) + varint(1) + varint(100_000)) * 100)
    return decoder.flush


@pytest.mark.parametrize("call", [_pack, _replay, _feed, _unpack, _take_events, _apply_events])
def test_a_signal_ends_a_long_call_at_once(call):
    def came(number, frame):
        raise SignalCameError

    run = call()
    before = signal.signal(signal.SIGVTALRM, came)
    began = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, FIRST)
        with pytest.raises(SignalCameError):
            run()
        assert time.process_time() - began < LATEST
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
