"""Keeps the addresses of a trace within a budget: samples are left out evenly, so that those that stay are spread over the run.

Intervals of the run count from 0. Each may have a burst. When the bytes of bursts pass twice their part of the budget, only every
other one is kept from then on, and of those that are there every other is dropped: a systematic sample of the run stays one
(Cochran, Sampling Techniques, chapter 8). Of set samples half of the sets go first, which leaves no gap in time, down to 1/256 of
all; then every other of their stretches of intervals. The tracer learns of it and slows down as little as it records. Where it
begins fewer because of what they cost it, the same are left out of those that are there. At the end what is above the budget
goes, evenly too: long runs leave the same, however long they are.

The first half of a stretch after a gap only fills the caches: what lay in them before is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import zstandard

from convolver._native._core import lib
from convolver._native.trace_decoder import Decoder, TracePayloads
from convolver.tracing.sampling import COARSEST_SETS, STRETCH, SamplingPlan

CHUNK_BYTES = 1 << 20
_HEAD = lib.CV_WIRE_UNIT << 2 | 2
"""First byte of a record of kind ``CV_WIRE_UNIT``."""
_WARM, _STRETCH, _GAPS_SHIFT = lib.CV_WIRE_UNIT_WARM, lib.CV_WIRE_UNIT_STRETCH, lib.CV_WIRE_UNIT_GAPS_SHIFT
WARM_INTERVALS = STRETCH // 2
"""Of a stretch after a gap, that are not counted."""
BURST_SHARE = 2 / 3
"""Of the budget, where the sets are sampled, too."""
HALVED = 0.7
"""Of its budget that a kind of samples fills in the mean whose halves go where it is above: half of it to all."""


class Unit(NamedTuple):
    """What was recorded of an interval, or a part of it: ``payload`` is compressed, ``size`` its bytes before."""

    interval: int
    payload: bytes
    size: int

    @classmethod
    def of(cls, interval: int, content: bytes) -> Unit:
        """Compress the content of a unit."""
        return cls(interval, zstandard.compress(content, 3), len(content))

    @property
    def content(self) -> bytes:
        """What was recorded."""
        return zstandard.decompress(self.payload, max_output_size=max(self.size, 1)) if self.size else b""


class Samples:
    """The units of one kind of samples; of ``every`` intervals the first ``length`` are wanted."""

    def __init__(self, length: int, budget: float) -> None:
        self.every = self.length = length
        self.units: list[Unit] = []
        self._budget, self._size = budget, 0

    def wants(self, interval: int) -> bool:
        """Return whether samples of an interval are kept."""
        return interval % self.every < self.length

    def wanted(self, content: bytes) -> bytes:
        """Return the part of a unit's content that is wanted now."""
        return content

    def add(self, unit: Unit) -> bool:
        """Keep a unit, where it is wanted; True when from now on fewer are."""
        if not self.wants(unit.interval):
            return False
        self.units.append(unit)
        self._size += unit.size
        fewer = False
        while self._too_much():
            self._halve()
            self._size = sum(one.size for one in self.units)
            fewer = True
        return fewer

    def _too_much(self) -> bool:
        if self._size <= 2 * self._budget:
            return False
        stretches: dict[int, int] = {}
        for unit in self.units:
            stretches[unit.interval // self.every] = stretches.get(unit.interval // self.every, 0) + unit.size
        return self._size - max(stretches.values()) > self._budget  # fewer would not help where one stretch is most of it

    def _halve(self) -> None:
        self._leave_out_intervals()

    def _leave_out_intervals(self) -> None:
        self.every *= 2
        self.units = [one for one in self.units if self.wants(one.interval)]

    def thin(self, every: int) -> None:
        """Keep only those that are wanted of a tracer that takes one in ``every``."""
        while self.every < every:
            self._leave_out_intervals()
        self._size = sum(one.size for one in self.units)

    def trim(self, part: float = 1.0) -> None:
        """Leave out what is above this part of the budget."""
        stretches = sorted({unit.interval // self.every for unit in self.units})
        share = min(1.0, part * self._budget / self._size) if self._size else 1.0
        kept = {one for number, one in enumerate(stretches) if int((number + 1) * share) > int(number * share)}
        self.units = [unit for unit in self.units if unit.interval // self.every in (kept or set(stretches[:1]))]

    @property
    def intervals(self) -> list[int]:
        """The intervals that have samples, rising."""
        return sorted({unit.interval for unit in self.units})


class SetSamples(Samples):
    """Those of one of ``classes`` of sets."""

    def __init__(self, plan: SamplingPlan, decoder: Decoder, budget: float) -> None:
        super().__init__(STRETCH, budget)
        self._least, self.classes, self._class = plan.sets, plan.sets, plan.chosen_class
        self._decoder = decoder

    def _too_much(self) -> bool:
        return self._size > self._budget if self.classes < COARSEST_SETS else super()._too_much()

    def _halve(self) -> None:
        if self.classes >= COARSEST_SETS:
            super()._halve()
            return
        self.classes *= 2
        self.units = [self._coarse(one) for one in self.units]

    def trim(self, part: float = 1.0) -> None:
        """Leave out stretches where there are too many, so that as much is left as in the mean of runs that have no gaps."""
        super().trim(HALVED * part if self._size > self._budget else part)

    def wanted(self, content: bytes) -> bytes:
        """Return the part of a unit's content that is wanted now: the tracer hears late that fewer sets are."""
        return content if self.classes == self._least else self._decoder.coarsen(content, self.classes, self._class)

    def _coarse(self, unit: Unit) -> Unit:
        return Unit.of(unit.interval, self.wanted(unit.content))

    def marked(self, total: int) -> dict[int, int]:
        """Return the argument of the record that begins each interval's set samples, in a run of ``total`` intervals."""
        intervals = self.intervals
        stretches = sorted({interval // self.every for interval in intervals})
        gapless = {one for before, one in pairwise([-1, *stretches]) if one == before + 1 and self.every == self.length} | {0}
        if gapless.issuperset(stretches):
            return dict.fromkeys(intervals, 0)
        one_in, first_gap = round(total / len(intervals)), min(one for one in stretches if one not in gapless)
        found, begun = {}, -1
        for interval in intervals:
            stretch, place = divmod(interval, self.every)
            warm, with_gaps = stretch not in gapless and place < WARM_INTERVALS, stretch >= first_gap and one_in > 1
            found[interval] = _WARM * warm | _STRETCH * (stretch != begun) | (one_in << _GAPS_SHIFT) * with_gaps
            begun = stretch
        return found


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def head(argument: int) -> bytes:
    """Return the record that begins a unit."""
    return bytes([_HEAD]) + _varint(argument)


class Thinning:
    """What is kept of a run so far; ``tell`` is called with how seldom bursts, stretches and sets are wanted, when it changes.

    ``asked`` returns how seldom the tracer takes bursts and stretches by itself.
    """

    def __init__(
        self,
        plan: SamplingPlan,
        decoder: Decoder,
        tell: Callable[[int, int, int], None],
        asked: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        share = BURST_SHARE if plan.sets else 1.0
        self._plan, self._decoder, self._tell, self._asked = plan, decoder, tell, asked
        self._bursts, self._sets = Samples(1, plan.kept_bytes * share), SetSamples(plan, decoder, plan.kept_bytes * (1 - share))
        self._total = 0

    def take(self) -> TracePayloads:
        """Take what the decoder recorded; returns it without the addresses that are not wanted."""
        self._thin()
        rows, payloads = self._decoder.units(), self._decoder.take()
        self._total = max(self._total, int(self._decoder.totals["intervals"]), 1)
        kept, fewer = [], False
        for name, samples in (("addresses", self._bursts), ("sets", self._sets)):
            content = getattr(payloads, name)
            ends = [*rows[name][1:].tolist(), len(content)]
            for interval, begin, end in zip(rows["interval"].tolist(), rows[name].tolist(), ends, strict=True):
                if begin < end and samples.wants(interval):
                    part = samples.wanted(content[begin:end])
                    fewer |= samples.add(Unit.of(interval, part))
                    kept.append(head(0) + part)
        if fewer:
            self._tell(self._bursts.every, self._sets.every, self._sets.classes)
        return payloads._replace(addresses=b"".join(kept), sets=b"")

    def _thin(self) -> None:
        for samples, every in zip((self._bursts, self._sets), self._asked(), strict=True):
            samples.thin(every)

    def finish(self) -> None:
        """The run has ended: leave out what is above the budget."""
        self._thin()
        self._bursts.trim()
        self._sets.trim()

    def document(self) -> dict[str, Any]:
        """Return the plan as a JSON-able document, with what became of it.

        ``burst_interval``: references from one burst to the next in the mean; ``set_share``: share of the run whose set samples
        are there and no warm-up.
        """
        plan = self._plan.document()
        bursts, marked = len(self._bursts.intervals), self._sets.marked(self._total)
        counted = sum(not argument & _WARM for argument in marked.values())
        return {
            **plan,
            "burst_interval": round(self._plan.interval * self._total / bursts) if bursts else self._plan.interval,
            "sets": self._sets.classes,
            "set_share": 1.0 if not any(marked.values()) else counted / self._total,
        }

    def chunks(self) -> Iterator[bytes]:
        """Yield the payloads of ADDR chunks with all that is kept, in the order of the intervals."""
        arguments, begun = self._sets.marked(self._total), set[int]()
        kinds = ((False, self._bursts), (True, self._sets))
        units = [(unit.interval, is_sets, unit) for is_sets, samples in kinds for unit in samples.units]
        parts: list[bytes] = []
        for interval, is_sets, unit in sorted(units, key=lambda one: one[:2]):
            argument = arguments[interval] if is_sets else 0
            if interval in begun:  # the rest of an interval begins nothing
                argument &= ~_STRETCH
            if is_sets:
                begun.add(interval)
            parts.append(head(argument) + unit.content)
            if sum(map(len, parts)) >= CHUNK_BYTES:
                yield b"".join(parts)
                parts = []
        if parts:
            yield b"".join(parts)
