"""The executable signature: a trace whose long loops turn only a few times, with marks where phases begin, and the whole from it.

Performed on real ranks (the paper's synthetic signature) or replayed, it takes a few steps' time; each phase's time times its
weight, how often it occurs in the whole run, adds up to the predicted execution time (equation 6).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from convolver.errors import ModelError
from convolver.modeling.p3s.parts import Part, Step, Turn, turn_of
from convolver.modeling.p3s.points import Rates
from convolver.modeling.p3s.scaling_advice import predicted_time
from convolver.modeling.p3s.slt import ScalableTrace
from convolver.mpi.events import Events
from convolver.mpi.play import Marks
from convolver.mpi.time_independent import MARK, to_events

TURNS = 4
"""Turns of a long loop that are kept: its first, two middle ones and its last."""


@dataclass(frozen=True)
class Phase:
    """A stretch of the structure between two marks: its number, its operations in words, its turn and how often it occurs."""

    phase: int
    operations: str
    turn: str
    weight: int


@dataclass(frozen=True)
class PhaseTime:
    """A phase with the mean seconds that it took on the slowest rank, and the seconds of all its occurrences."""

    phase: int
    operations: str
    turn: str
    weight: int
    seconds: float
    total_seconds: float


def signature(
    scalable: ScalableTrace,
    processes: int,
    *,
    seconds_per_work: float = 1e-9,
    rates: Rates | None = None,
    turns: int = TURNS,
    name: str = "signature",
) -> Events:
    """Return the reduced trace at a process count as events; their notes hold the phases.

    Loops around the whole that turn more than ``turns`` times do so only that often: the first, middle ones and the last turn.
    Work becomes seconds by ``rates`` or, without them, ``seconds_per_work``. Raises :class:`ModelError` for fewer than three
    turns and what :meth:`ScalableTrace.at` raises.
    """
    if turns < 3:
        raise ModelError(f"{turns} turns have no first, middle and last one; keep three at least.")
    segments = _segments(scalable.root, processes, turns)
    phases = [phase for _, found in segments for phase in found.values()]
    trace = scalable.performed(processes, lambda rank: _reduced(segments, rank, processes, turns), rates)
    events = to_events(trace, seconds_per_work=1.0 if rates is not None else seconds_per_work, name=name)
    events.notes["phases"] = [asdict(phase) for phase in phases]
    return events


Segment = tuple[list[list[Part]], dict[tuple[int, Turn], Phase]]
"""A stretch of the whole: the pieces of a reduced loop's body, or one piece that runs once; and the phases of the pieces."""


def _segments(root: Part, processes: int, turns: int) -> list[Segment]:
    segments: list[Segment] = []
    number = 0
    for piece in _pieces(root.body, processes, turns):
        whole = piece[0].turns(processes) if _long(piece[0], processes, turns) else 1
        pieces = _pieces(piece[0].body, processes, 0) if whole > 1 else [piece]
        weights = {Turn.FIRST: 1, Turn.MIDDLE: whole - 2, Turn.LAST: 1} if whole > 1 else {Turn.FIRST: 1}
        phases = {}
        for turn, weight in weights.items():
            for index, parts in enumerate(pieces):
                said = "" if whole == 1 else turn.name.lower()
                phases[index, turn] = Phase(number, _words(parts), said, weight)
                number += 1
        segments.append((pieces, phases))
    return segments


def _long(part: Part, processes: int, turns: int) -> bool:
    return not part.name and part.span is None and part.turns(processes) > turns


def _pieces(body: list[Part], processes: int, turns: int) -> list[list[Part]]:
    """Return the parts of a body in pieces: each loop of more turns on its own, what lies between them together."""
    pieces: list[list[Part]] = []
    open_ = False
    for part in body:
        alone = _long(part, processes, turns)
        if alone or not open_:
            pieces.append([])
        pieces[-1].append(part)
        open_ = not alone
    return pieces


def _words(parts: list[Part]) -> str:
    names = [leaf.name for part in parts for leaf in part.leaves()]
    kinds = {name: names.count(name) for name in names}
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in kinds.items())


def _reduced(segments: list[Segment], rank: int, processes: int, turns: int) -> Iterator[Step]:
    for pieces, phases in segments:
        steps = turns if (0, Turn.LAST) in phases else 1
        for step in range(1, steps + 1):
            turn = turn_of(step, steps)
            for index, parts in enumerate(pieces):
                yield Part(name=MARK), phases[index, turn].phase, turn, step
                for part in parts:
                    yield from part.run(rank, processes, 0, turn, step)


def phase_times(phases: list[Mapping[str, Any]], marks: Marks) -> tuple[list[PhaseTime], float]:
    """Return the times of the phases and PET: the largest over the ranks of the phases' mean times times their weights.

    ``phases`` are those of the events' notes. A phase lasts until the next mark of its rank. Raises :class:`ModelError` for
    events without phases.
    """
    if not phases:
        raise ModelError("This trace has no phases; make a signature with 'convolver model scale --reduce'.")
    weights = {int(row["phase"]): int(row["weight"]) for row in phases}
    ranks = [_means(marks, rank) for rank in range(len(marks.ends))]
    wholes = [predicted_time(means, {phase: weights[phase] for phase in means}) for means in ranks]
    slowest = ranks[int(np.argmax(wholes))]
    rows = []
    for row in phases:
        seconds = slowest.get(int(row["phase"]), 0.0)
        rows.append(PhaseTime(**row, seconds=seconds, total_seconds=seconds * int(row["weight"])))
    return rows, max(wholes)


def _means(marks: Marks, rank: int) -> dict[int, float]:
    mine = marks.rank == rank
    begin = marks.seconds[mine]
    lasted = np.diff([*begin, marks.ends[rank]])
    times: dict[int, list[float]] = defaultdict(list)
    for phase, seconds in zip(marks.value[mine].tolist(), lasted.tolist(), strict=True):
        times[phase].append(seconds)
    return {phase: float(np.mean(listed)) for phase, listed in times.items()}
