"""Simulators on threads beside a decoder: the threads end before anything that they use is freed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from convolver._native.relay import Relay
from convolver._native.simulator import Geometry, Simulator
from convolver._native.trace_decoder import Decoder
from convolver.errors import SimulationError
from tests.wire_streams import Segment, Site, Stream

LEVELS = [[Geometry(64 << number, 8, 64)] for number in range(12)]
"""Enough for a tenth of a second after the last reference was fed."""
LEFT = """
import gc
from tests.unit.test_relay import relayed
for _ in range(3):
    unreachable = [relayed()]
    unreachable.append(unreachable)
    del unreachable
    gc.collect()
left = relayed()
"""
"""Leaves relays with much to do to the collector, then to the end of the process."""


def relayed():
    """Return what takes part while two threads simulate a million references."""
    stream = Stream()
    stream.module()
    stream.segment(Segment(0x400000, [4], [Site(displacement=4160 * site) for site in range(1000)], words=1))
    stream.control(1, 1)
    for visit in range(1000):
        stream.visit(0, [1 << 24 | visit << 12])
    simulators = [Simulator(LEVELS) for _ in range(2)]
    decoder, relay = Decoder(), Relay(simulators)
    decoder.add_simulator(relay)
    decoder.feed(stream.bytes())
    return simulators, decoder, relay


def test_threads_that_nobody_ended_outlive_nothing_that_they_use():
    subprocess.run([sys.executable, "-c", LEFT], cwd=Path(__file__).parents[2], check=True)


def test_what_is_fed_after_the_end_is_refused():
    _, decoder, relay = relayed()
    relay.close()
    relay.close()
    with pytest.raises(SimulationError):
        decoder.flush()
