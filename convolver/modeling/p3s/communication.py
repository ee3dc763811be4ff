"""Local and general communication equations (section 3.2): who talks to whom at a process count, and at any count.

A local equation describes the partners of all ranks in one communication of a phase at one count: EC2 for static patterns, the
distances with their repetitions; EC1 for dynamic ones, exchange or permutation with the bits involved. A general equation is the
rule that gives the local ones of every traced count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from convolver.errors import ModelError
from convolver.modeling.p3s.rules import Partner, Rule, families
from convolver.modeling.p3s.weight import WeightLine, fit_weight

Partners = Sequence[Partner]
"""The partner of each rank in one communication, None for a null communication (the paper's X)."""


@dataclass(frozen=True)
class EC1:
    """A dynamic pattern: ``exchange`` (partners differ in the same bits) or ``permutation`` of the bits of the rank."""

    phase: int
    communication: int
    type: str
    bits: tuple[int, ...]


@dataclass(frozen=True)
class EC2:
    """A static pattern: the sequence of distances (None is a null communication) and how often it repeats over the ranks."""

    phase: int
    communication: int
    distances: tuple[Partner, ...]
    repetitions: int


def local_equation(partners: Partners, phase: int = 0, communication: int = 0) -> EC1 | EC2:
    """Return the local equation of one communication; an exchange of bits of more than neighbours is dynamic."""
    count = len(partners)
    if count & (count - 1) == 0 and count > 2:
        bits = _exchanged_bits(partners)
        if bits:
            return EC1(phase, communication, "exchange", bits)
        permuted = _permuted_bits(partners)
        if permuted:
            return EC1(phase, communication, "permutation", permuted)
    distances = tuple(None if to is None else to - rank for rank, to in enumerate(partners))
    period = next(n for n in range(1, count + 1) if count % n == 0 and distances == distances[:n] * (count // n))
    return EC2(phase, communication, distances[:period], count // period)


def _exchanged_bits(partners: Partners) -> tuple[int, ...]:
    masks = {None if to is None else rank ^ to for rank, to in enumerate(partners)}
    if len(masks) != 1 or None in masks or 0 in masks:
        return ()
    mask = masks.pop() or 0
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _permuted_bits(partners: Partners) -> tuple[int, ...]:
    """Return, for each bit of the partner, the bit of the rank that it is; empty where the pattern is no such permutation."""
    width = (len(partners) - 1).bit_length()
    if any(to is None for to in partners) or partners[0] != 0:
        return ()
    source = []
    for bit in range(width):
        wanted = [to >> bit & 1 for to in partners if to is not None]
        found = next((b for b in range(width) if all(rank >> b & 1 == w for rank, w in enumerate(wanted))), None)
        if found is None:
            return ()
        source.append(found)
    return tuple(source) if source != list(range(width)) else ()


def pad(lists: Sequence[Sequence[int]]) -> list[list[int | None]]:
    """Return the distance lists of all ranks completed with null communications to one length (border ranks, figure 5).

    The longest list is the pattern; the others are laid over it in order. Raises :class:`ModelError` when one does not fit.
    """
    longest = next(own for own in lists if len(own) == max(len(other) for other in lists))
    result: list[list[int | None]] = []
    for rank, own in enumerate(lists):
        rest = list(own)
        padded = [rest.pop(0) if rest and rest[0] == distance else None for distance in longest]
        if rest:
            raise ModelError(f"The communications of rank {rank} do not follow the order of the longest list of its phase.")
        result.append(padded)
    return result


def general_equation(partners: Mapping[int, Partners]) -> Rule:
    """Return the simplest rule that gives the partners of every rank at every traced count.

    Raises :class:`ModelError` when no family does: the pattern is irregular, and P3S does not apply.
    """
    for rule in families():
        if _explains(rule, partners):
            return rule
    counts = ", ".join(str(count) for count in partners)
    raise ModelError(f"No rule gives the partners at {counts} processes; the pattern is irregular or needs other counts.")


def _explains(rule: Rule, partners: Mapping[int, Partners]) -> bool:
    try:
        return all(rule(rank, count) == to for count, listed in partners.items() for rank, to in enumerate(listed))
    except ValueError:
        return False


@dataclass(frozen=True)
class Growing:
    """New communications (figure 7): their number at any count, and the rules in the order of the largest traced count."""

    count: WeightLine
    rules: tuple[Rule, ...]

    def at(self, processes: int) -> tuple[Rule, ...]:
        """Return the rules at a count; exchanges continue their sequence of bits beyond what was traced."""
        number = self.count(processes)
        rules = list(self.rules[:number])
        while len(rules) < number:
            last = rules[-1]
            if last.kind != "exchange":
                raise ModelError("Only exchanges can grow with the processes; other new communications are not predictable.")
            rules.append(Rule("exchange", last.grid, last.first + 1, 0, last.side))
        return tuple(rules)


def growing_equations(partners: Mapping[int, Sequence[Partners]]) -> Growing:
    """Return the rules of a phase whose communications grow in number with the processes.

    ``partners`` has the communications in order for each count. Each position is explained over the counts that have it; the
    number is a line over an index of the counts (log2(P) for exchanges).
    """
    number = fit_weight({count: len(listed) for count, listed in partners.items()})
    longest = max(len(listed) for listed in partners.values())
    rules: list[Rule] = []
    for position in range(longest):
        there = {count: listed[position] for count, listed in partners.items() if position < len(listed)}
        rules.append(_consistent(there, rules))
    return Growing(number, tuple(rules))


def _consistent(there: Mapping[int, Partners], before: Sequence[Rule]) -> Rule:
    """Return the rule of a position; the continuation of the exchanges before it is preferred over a coincidence."""
    if before and before[-1].kind == "exchange":
        following = Rule("exchange", before[-1].grid, before[-1].first + 1, 0, before[-1].side)
        if _explains(following, there):
            return following
    exchanges = [rule for rule in families() if rule.kind == "exchange" and _explains(rule, there)]
    return exchanges[0] if exchanges else general_equation(there)
