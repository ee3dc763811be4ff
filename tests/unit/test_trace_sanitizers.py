"""The C decoder under the address and undefined-behavior sanitizers, on whole and on damaged streams."""

from __future__ import annotations

import random
import struct
import subprocess

from tests.oracle.references import references
from tests.wire_streams import FLOW, Segment, Site, Stream


def _stream() -> Stream:
    rng = random.Random(7)
    stream = Stream()
    stream.module()
    stream.module("")
    for number in range(12):
        lengths = [rng.randint(1, 9) for _ in range(rng.randint(1, 8))]
        words = rng.randint(0, 4)
        sites = [
            Site(
                rng.randint(-99, 99),
                rng.choice([1, 4, 8, 64]),
                rng.randrange(len(lengths)),
                rng.randint(-1, words - 1),
                rng.randrange(8),
            )
            for _ in range(rng.randint(0, 6))
        ]
        stream.segment(Segment(0x400000 + 64 * number, lengths, sites, words, module=number % 2, counter=number))
    for number, segment in enumerate(stream.segments):
        places = [2 << 62 | rng.randrange(33) << 40 for _ in range(3)]
        places += [rng.randrange(2) << 62 | k << 40 for k in range(len(segment.sites))]
        flows = [(number, 0), *((rng.getrandbits(33) | place, rng.getrandbits(64)) for place in places)]
        stream.payload(FLOW, b"".join(struct.pack("<QQ", *flow) for flow in flows))
    for kind in (1, 1, 3, 4, 5, 6):
        stream.object(kind)
    stream.symbol(1 << 20, 1 << 10)
    for _ in range(600):
        if rng.random() < 0.4:
            _happen(stream, rng)
        segment = rng.randrange(12)
        stream.visit(segment, [rng.choice([rng.getrandbits(47), 1 << 62]) for _ in range(stream.segments[segment].words)])
        if rng.random() < 0.2:
            stream.sampled(rng.randrange(len(stream.sites)), rng.getrandbits(47))
        if rng.random() < 0.1:
            stream.control(rng.randint(1, 3), rng.randint(1, 3))
    stream.end()
    return stream


def _happen(stream: Stream, rng: random.Random) -> None:
    """Add an event of data objects."""
    first, second, size = rng.getrandbits(47), rng.getrandbits(21), rng.randint(1, 1 << rng.randint(1, 45))
    kind = rng.choice([1, 1, 1, 2, 3, 4, 5])
    words = {1: (rng.randrange(7), first, size), 2: (second,), 3: (first, size), 4: (first, second, size), 5: (5, 2)}
    stream.event(kind, *words[kind])


def test_the_decoder_is_clean_under_the_sanitizers(sanitized, tmp_path):
    wire = _stream().bytes()
    (tmp_path / "wire").write_bytes(wire)
    done = subprocess.run([sanitized("trace_driver"), tmp_path / "wire", "800"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) == len(references(wire))
