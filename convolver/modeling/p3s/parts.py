"""The parts of a scalable trace: loops and operations that hold for every process count, and what each rank runs of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeAlias

from convolver.errors import ModelError
from convolver.modeling.p3s.face_forms import EdgeForm, FaceForm, RootedForm
from convolver.modeling.p3s.nests import NestForm
from convolver.modeling.p3s.rules import Rule
from convolver.modeling.p3s.volume import VolumeForm, WeightLine
from convolver.modeling.p3s.work_forms import Place, WorkForm, place_of


class Turn(IntEnum):
    """Which turn of the innermost loop an operation is in; the only one is the first."""

    FIRST = 0
    MIDDLE = 1
    LAST = 2


@dataclass
class Part:
    """A node of the scalable trace: a loop (``count``) over ``body``, an exchange over all bits (``span``), or an operation.

    An exchange repeats ``body`` once for each bit of a side of the process grid; its operations' rules are of kind ``exchange``
    and take the bit of the turn: from the highest when ``falling``, else from the lowest. ``work`` is what precedes an operation
    in the first, the middle and the last turns of the loop around it: pipelines fill and drain, and blocks end at borders.
    ``nests`` is the same for a turn in which it is known for each rank.
    """

    name: str = ""
    count: WeightLine | None = None
    body: list[Part] = field(default_factory=list)
    rule: Rule | None = None
    places: frozenset[Place] | None = None
    span: Rule | None = None
    falling: bool = True
    volume: VolumeForm | None = None
    faces: FaceForm | EdgeForm | NestForm | RootedForm | None = None
    work: dict[Turn, WorkForm] = field(default_factory=dict)
    nests: dict[Turn, NestForm] = field(default_factory=dict)

    def leaves(self) -> Iterator[Part]:
        """Yield the operations in order."""
        if self.name:
            yield self
        for child in self.body:
            yield from child.leaves()

    def turns(self, processes: int) -> int:
        """Return how often the body runs; raises :class:`ModelError` for a count that is not legal."""
        if self.span is not None:
            return bits_of(self.span, processes)
        return self.count(processes) if self.count is not None else 1

    def run(self, rank: int, processes: int, bit: int = 0, turn: Turn = Turn.FIRST, number: int = 1) -> Iterator[Step]:
        """Yield what a rank runs: operations, their partners (-1: none), the turn of the loop around and its number.

        Null communications of borders are left out.
        """
        if self.name:
            if self.places is not None and self.rule is not None:
                sides = self.rule.sides(processes)
                if sides is None or place_of(rank, sides) not in self.places:
                    return
            rule = self.rule if self.rule is None or not bit else replace(self.rule, first=bit)
            partner = rule(rank, processes) if rule is not None else -1
            if partner is not None:
                yield self, partner, turn, number
            return
        turns = self.turns(processes)
        for step in range(1, turns + 1):
            inner = bit if self.span is None else step if self.falling else turns + 1 - step
            place = turn_of(step, turns)
            for child in self.body:
                yield from child.run(rank, processes, inner, place, step)

    def weight(self, processes: int, leaf: Part, *, bits: bool = True) -> int:
        """Return how often an operation of this part occurs in a whole run: the product of the counts around it.

        Without ``bits`` an exchange counts once: what it adds up does not shrink because there are more bits.
        """
        if self is leaf:
            return 1
        inner = sum(child.weight(processes, leaf, bits=bits) for child in self.body)
        turns = self.turns(processes) if inner and (bits or self.span is None) else 1
        return inner * turns


Step: TypeAlias = tuple[Part, int, Turn, int]
"""What a rank runs: an operation, its partner (-1: none), the turn of the loop around it and its number."""


def turn_of(step: int, turns: int) -> Turn:
    """Return which turn the step of a loop is, counted from 1."""
    return Turn.FIRST if step == 1 else Turn.LAST if step == turns else Turn.MIDDLE


def bits_of(rule: Rule, processes: int) -> int:
    """Return the number of bits that exchanges on a side of the grid flip: log2 of the side."""
    sides = rule.sides(processes)
    if sides is None:
        raise ModelError(f"{processes} processes are not legal here: they form no {rule.grid} grid.")
    side = {"C": sides[1], "R": sides[0], "P": processes}[rule.side]
    return side.bit_length() - 1
