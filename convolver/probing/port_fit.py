"""Which ports instructions start on, from how long mixes of two kinds take: no counter of the hardware is read.

A kind is one or two micro-operations, each of which starts on any of a set of unnamed ports. A mix takes as long as its most
loaded ports: the most, over all unions of the sets, of micro-operations that lie in the union for each of its ports. That is the
conjunctive form of Derumigny et al., "PALMED" (CGO 2022), exact where each starts on whichever port is free. Cores bind some
instructions to a port before they know which will be free; then every port gets its share of each kind. Either may explain a mix.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.machine.core_figures import is_widest, of_vectors

PORTS = 10
"""Ports of a core that are not those of memory."""
ALIKE = 6
"""Most of them that a kind may start on: Zen 5 has six for additions."""
SECOND = 0.1
"""What a second micro-operation has to explain, in squared logarithms."""
ALONE = 9.0
"""Weight of a kind alone, against one of its mixes."""
EVEN = 0.05
"""Share of a mix's time by which it must err less where ports get even shares."""
CAP = 0.16
"""Most that one mix counts: some are explained by no set of ports."""
APART, TOGETHER = 0.06, 0.2
"""Mixes that take no longer than their slower kind are of kinds that share no port: a fit that says otherwise, by so much more
time, contradicts them."""
CONTRADICTION = 0.5
SHARED = 0.005
"""Cost of kinds that share ports though no time of their mix says so: where the issue width hides it, they have their own."""
CLOSED = 1.0
"""What a closed port has to explain, in squared logarithms: several mixes as badly as they count."""
BESIDE_WIDEST = " beside 64"
"""What the name of a kind ends with where it stands for itself beside vectors of 64 bytes."""
STARTS = ((False, (True,)), (True, (True,)), (False, (False, True)))
"""Searches: in a random order or not, and whether kinds may have second micro-operations. Those explain much that one elsewhere
explains better, so that a search begins without them."""
LOOK = ((False, (False,)),)
"""The search that tells which port is closed."""
SWEEPS = 6
SEED = 21

Ports = tuple[int, ...]
"""A kind's micro-operations, each a bit mask of ports."""


class Mix(NamedTuple):
    """Cycles of so many copies of one kind with so many of another, evenly interleaved."""

    kind: str
    copies: int
    other: str
    other_copies: int
    cycles: float


class PortFit(NamedTuple):
    """Ports by kind, and how far each mix is from what they say: shares of its time."""

    ports: dict[str, Ports]
    errors: NDArray[np.float64]


class WideFit(NamedTuple):
    """Ports of the kinds of AVX-512, errors of their mixes, and a mask of the ports that vectors of 64 bytes close to others."""

    ports: dict[str, Ports]
    errors: NDArray[np.float64]
    closed: int


_SIZES = np.array([max(value.bit_count(), 1) for value in range(1 << PORTS)], dtype=np.float64)
_HAS = np.array([[float(value >> port & 1) for value in range(1 << PORTS)] for port in range(PORTS)])

Masks = Sequence[NDArray[np.int16]]
"""Ports of one micro-operation after the other, as arrays that broadcast."""
Counts = Sequence[NDArray[np.float64]]
"""How many there are of each."""


def _ideal_cycles(masks: Masks, counts: Counts) -> NDArray[np.float64]:
    """Return the cycles of mixes whose micro-operations start on whichever port is free."""
    most = np.zeros(())
    for chosen in range(1, 1 << len(masks)):
        union = reduce(np.bitwise_or, [mask for number, mask in enumerate(masks) if chosen >> number & 1])
        inside = [
            count if chosen >> number & 1 else np.where(mask & ~union, 0.0, count)
            for number, (mask, count) in enumerate(zip(masks, counts, strict=True))
        ]
        most = np.maximum(most, reduce(np.add, inside) / _SIZES[union])
    return most


def _even_cycles(masks: Masks, counts: Counts) -> NDArray[np.float64]:
    """Return the cycles of mixes where each port gets its share of each micro-operation."""
    shares = [count / _SIZES[mask] for mask, count in zip(masks, counts, strict=True)]
    most = np.zeros(())
    for port in range(PORTS):
        loads = [share * _HAS[port][mask] for mask, share in zip(masks, shares, strict=True)]
        most = np.maximum(most, reduce(np.add, loads))
    return most


def mix_cycles(first: Ports, other: Ports, counts: tuple[float, float], *, even: bool = False) -> float:
    """Return the cycles of a mix of two kinds, so many of each; ``even``: each port gets its share of each micro-operation."""
    masks = [np.array(mask, dtype=np.int16) for mask in (*first, *other)]
    own = [np.array(float(count)) for count in (*[counts[0]] * len(first), *[counts[1]] * len(other))]
    return float((_even_cycles if even else _ideal_cycles)(masks, own))


@lru_cache(maxsize=4096)
def kind_cycles(ports: Ports) -> float:
    """Return the cycles of one of many instructions of a kind."""
    return mix_cycles(ports, (), (1.0, 0.0))


def _by_length(kinds: Sequence[Ports]) -> list[tuple[NDArray[np.intp], list[NDArray[np.int16]]]]:
    """Return the places of kinds with one micro-operation and of those with two, and the ports of each of these."""
    lengths = np.array([len(ports) for ports in kinds], dtype=np.intp)
    places = [np.flatnonzero(lengths == length) for length in (1, 2)]
    found = [[kinds[place] for place in one.tolist()] for one in places]
    return [(one, list(np.array(own, dtype=np.int16).T)) for one, own in zip(places, found, strict=True) if own]


def _pair_cycles(
    options: Sequence[Ports], others: Sequence[Ports], counts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cycles of each option with each other kind, so many of both (counts: others, 2), where micro-operations start on
    whichever port is free, and where each port gets its share."""
    ideal, even = np.zeros((2, len(options), len(others)))
    for rows, own in _by_length(options):
        for columns, their in _by_length(others):
            masks = [mask[:, None] for mask in own] + [mask[None] for mask in their]
            number = [counts[columns, which][None] for which in (*[0] * len(own), *[1] * len(their))]
            place = np.ix_(rows, columns)
            ideal[place], even[place] = _ideal_cycles(masks, number), _even_cycles(masks, number)
    return ideal, even


def _share(beyond: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """Return how far a value is beyond a limit, of none to all: a step would part two probes of one core by their noise."""
    return np.clip(0.5 + beyond / width, 0.0, 1.0)


def _all_ports(kinds: Sequence[Ports]) -> NDArray[np.int16]:
    return np.array([reduce(operator.or_, ports, 0) for ports in kinds], dtype=np.int16)


class _Search:
    """The search for the ports of all kinds: one kind after the other takes those that explain its mixes best."""

    def __init__(self, alone: Mapping[str, float], mixes: Sequence[Mix], slots: Mapping[str, int], width: int) -> None:
        self.alone, self.slots, self.width = alone, slots, width
        self.partners: dict[str, list[tuple[str, int, int, float]]] = {kind: [] for kind in alone}
        for mix in mixes:
            self.partners[mix.kind].append((mix.other, mix.copies, mix.other_copies, mix.cycles))
            self.partners[mix.other].append((mix.kind, mix.other_copies, mix.copies, mix.cycles))
        self.masks = {size: [mask for mask in range(1 << PORTS) if mask.bit_count() == size] for size in range(1, ALIKE + 1)}
        self.placed: dict[str, Ports] = {}
        self.pairs = True

    def logarithms(self, kind: str, options: Sequence[Ports]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return by how much each option errs on each mix with a placed kind, and what it costs beside: (options, mixes)."""
        known = [one for one in self.partners[kind] if one[0] in self.placed]
        mixes: dict[tuple[Ports, int, int], int] = {}  # many kinds have the same ports
        which = [mixes.setdefault((self.placed[other], count, others), len(mixes)) for other, count, others, _ in known]
        partners, counts = [ports for ports, *_ in mixes], np.array([numbers for _, *numbers in mixes], dtype=float)
        measured = np.array([cycles for *_, cycles in known])
        issued = (
            np.array([count * self.slots[kind] + others * self.slots[other] for other, count, others, _ in known]) / self.width
        )
        ideal, even = (np.maximum(way[:, which], issued) for way in _pair_cycles(options, partners, counts))
        slower = np.array([max(count * self.alone[kind], others * self.alone[other]) for other, count, others, _ in known])
        apart = _share(1 + APART - measured / np.maximum(slower, issued), APART)
        wrong = apart * _share(ideal / measured - 1 - TOGETHER, TOGETHER)
        errors = np.minimum(np.abs(np.log(ideal / measured)), np.abs(np.log(even / measured)) + EVEN)
        shared = apart * ((_all_ports(options)[:, None] & _all_ports(partners)[which]) > 0)
        return np.where(wrong > 0.5, np.abs(np.log(ideal / measured)), errors), CONTRADICTION * wrong + SHARED * shared

    def costs(self, kind: str, options: Sequence[Ports]) -> NDArray[np.float64]:
        """Return what each option leaves unexplained."""
        least = self.slots[kind] / self.width
        alone = np.array([max(kind_cycles(ports), least) for ports in options])
        cost = ALONE * np.log(alone / max(self.alone[kind], least)) ** 2 + SECOND * (np.array([len(o) for o in options]) - 1)
        if any(other in self.placed for other, *_ in self.partners[kind]):
            errors, beside = self.logarithms(kind, options)
            cost = cost + (np.minimum(errors**2, CAP) + beside).sum(axis=1)
        return np.asarray(cost)

    def options(self, kind: str) -> list[Ports]:
        """Return what a kind may be: all sets of the size that its own time says, and pairs of sets that are in use. Of ports
        that nobody uses only the first are tried, for they are alike."""
        cycles = self.alone[kind]
        used = {mask for ports in self.placed.values() for mask in ports}
        size = min(max(round(1 / cycles), 1), ALIKE)
        found: list[Ports] = [(mask,) for mask in self.masks[size]]
        if cycles > 0.4 and self.pairs:
            pool = sorted(used | set(self.masks[1]))
            found += itertools.combinations_with_replacement(pool, 2)
        seen = 0
        for mask in used:
            seen |= mask
        free = [1 << port for port in range(PORTS) if not seen >> port & 1]
        first_ones = {sum(free[:count]) for count in range(len(free) + 1)}
        return [ports for ports, own in zip(found, _all_ports(found).tolist(), strict=True) if own & ~seen in first_ones]

    def place(self, kind: str) -> bool:
        """Give a kind the ports that explain it best; returns whether they are others than before."""
        before = self.placed.pop(kind, None)
        options = self.options(kind) + ([before] if before else [])
        self.placed[kind] = options[int(np.argmin(self.costs(kind, options)))]
        return self.placed[kind] != before

    def run(self, order: Sequence[str], phases: Sequence[bool], known: Mapping[str, Ports]) -> float:
        """Place kinds beside known ones until nothing changes, in each phase, with or without second micro-operations; returns
        what is left unexplained."""
        self.placed = dict(known)
        for self.pairs in phases:
            for _ in range(SWEEPS):
                if not sum([self.place(kind) for kind in order]):
                    break
        return float(sum(self.costs(kind, [self.placed[kind]])[0] for kind in order))


def fit_ports(alone: Mapping[str, float], mixes: Sequence[Mix], slots: Mapping[str, int], width: int) -> PortFit:
    """Return the ports of kinds from the cycles of each alone (at most 2) and of mixes, the slots of each, and the issue width.

    The search begins anew (:data:`STARTS`), and keeps what explains most. Names of ports mean nothing.
    """
    return _fit(_Search(alone, mixes, slots, width), [*alone], {}, STARTS)[1]


def _fit(
    search: _Search, kinds: Sequence[str], known: Mapping[str, Ports], starts: Sequence[tuple[bool, Sequence[bool]]]
) -> tuple[float, PortFit]:
    """Return the ports of some kinds beside known ones, and what is left unexplained."""
    alone = search.alone
    shared = {
        kind: sum(cycles > 1.15 * max(n * alone[kind], m * alone[other]) for other, n, m, cycles in search.partners[kind])
        for kind in kinds
    }
    random = np.random.default_rng(SEED)
    best: tuple[float, dict[str, Ports]] = (math.inf, {})
    for shuffled, phases in starts:
        ties = dict(zip(kinds, random.permutation(len(kinds)), strict=True)) if shuffled else {k: -n for k, n in shared.items()}
        order = sorted(kinds, key=lambda kind: (-round(1 / alone[kind]), ties[kind]))
        cost = search.run(order, phases, known)
        best = min(best, (cost, search.placed), key=lambda one: one[0])
    search.placed = best[1]
    errors = [search.logarithms(kind, [search.placed[kind]])[0][0] for kind in kinds if search.partners[kind]]
    ports = {kind: best[1][kind] for kind in kinds}
    return best[0], PortFit(ports, np.expm1(np.concatenate(errors)) if errors else np.zeros(0))


def fit_wide(
    known: Mapping[str, Ports], alone: Mapping[str, float], mixes: Sequence[Mix], slots: Mapping[str, int], width: int
) -> WideFit:
    """Return the ports of the kinds of AVX-512, beside those of other kinds that are ``known``.

    ``alone`` and ``slots`` are of all kinds. A port that vectors of 64 bytes close is one without which the narrower vectors
    that they are mixed with explain the mixes best.
    """
    kinds = [kind for kind in alone if kind not in known]

    def beside(kind: str, other: str) -> str:
        return f"{other}{BESIDE_WIDEST}" if is_widest(kind) and other in known and of_vectors(other) else other

    named = [mix._replace(kind=beside(mix.other, mix.kind), other=beside(mix.kind, mix.other)) for mix in mixes]
    copies = {f"{kind}{BESIDE_WIDEST}": kind for kind in known}
    search = _Search(
        {**alone, **{copy: alone[kind] for copy, kind in copies.items()}},
        named,
        {**slots, **{copy: slots[kind] for copy, kind in copies.items()}},
        width,
    )
    used = reduce(operator.or_, (mask for kind in known if of_vectors(kind) for mask in known[kind]), 0)

    def beside_closed(port: int) -> dict[str, Ports]:
        return {**known, **{copy: tuple(mask & ~port or mask for mask in known[kind]) for copy, kind in copies.items()}}

    def cost(port: int) -> float:
        return _fit(search, kinds, beside_closed(port), LOOK)[0] - CLOSED * (not port)

    closed = min((0, *(1 << port for port in range(PORTS) if used >> port & 1)), key=cost)
    return WideFit(*_fit(search, kinds, beside_closed(closed), STARTS[-1:])[1], closed)
