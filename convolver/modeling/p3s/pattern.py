"""The structure that all ranks share at every process count: found at the largest count, held against every trace.

Three families of programs are known. Ranks that all make the same calls (BT, SP) are folded together, call by call. Exchanges
over the bits of a side of the grid (CG) grow in number with it: a run of them is one part. On a mesh (LU, Sweep3D) ranks at the
border leave communications out; the rank with the most calls shows the whole, the others are the same without their null
communications. Whatever the small counts do not show as loops (q - 1 = 1 turns) is found by running the structure there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from convolver.errors import ModelError
from convolver.modeling.p3s.fold import Node, fold
from convolver.modeling.p3s.matching import equal_pairs
from convolver.modeling.p3s.parts import Part, bits_of
from convolver.modeling.p3s.rules import GRIDS, Partner, Rule, general_equation
from convolver.modeling.p3s.volume import DISPLACEMENTS, fit_weight
from convolver.modeling.p3s.work_forms import Place, place_of
from convolver.mpi.time_independent import Operation, Trace

Traces = Mapping[int, Trace]
Leaf = Callable[[Mapping[int, Operation]], Part]
"""Makes a part of one operation of the folded sequence at several counts."""
_LONGEST_UNIT = 6
_SPANS = [Rule("exchange", grid, 0, 0, side) for grid in ("powers", "powers tall") for side in ("C", "R", "P")]


def find_pattern(traces: Traces) -> Part:
    """Return the structure that gives every call and partner of every rank of every trace.

    Raises :class:`ModelError` with the nearest miss when no family does: then P3S does not apply.
    """
    reasons = ["no family applies."]
    for trees, leaf in _families(traces):
        for index in (None, *DISPLACEMENTS):
            try:
                root = _related(trees, leaf, index)
                check(root, traces)
                return root
            except ModelError as error:
                reasons.append(str(error))
    raise ModelError(f"The calls of the ranks follow no known pattern: {reasons[-1]}")


def check(root: Part, traces: Traces) -> None:
    """Raise :class:`ModelError` at the first rank whose calls the structure does not give."""
    for processes, trace in traces.items():
        for rank, operations in enumerate(trace):
            calls = iter(operations)
            number = 0
            for number, (part, partner, _, _) in enumerate(root.run(rank, processes), 1):
                found = next(calls, None)
                if found is None or (found.name, found.partner) != (part.name, partner):
                    said = f"{found.name} with {found.partner}" if found else "has ended"
                    raise ModelError(
                        f"rank {rank} of {processes}, call {number}: {part.name} with {partner} expected, the trace: {said}."
                    )
            if next(calls, None) is not None:
                raise ModelError(f"rank {rank} of {processes} goes on after its last expected call ({number}).")


def _families(traces: Traces) -> Iterator[tuple[Mapping[int, Node], Leaf]]:
    """Yield the folded trees of each family with what makes parts of their leaves."""
    if all(_alike(trace) for trace in traces.values()):
        yield _together(traces, exchanges=False)
        yield _together(traces, exchanges=True)
        return
    for grid in GRIDS:
        sides = {processes: GRIDS[grid](processes) for processes in traces}
        steps = {p: _steps(trace, both) for (p, trace), both in zip(traces.items(), sides.values(), strict=True) if both}
        if len(steps) == len(traces) and all(taken <= steps[max(steps)] for taken in steps.values()):
            yield _on_mesh(traces, grid)


def _steps(trace: Trace, sides: tuple[int, int]) -> set[tuple[int, int]]:
    return {_step(rank, o.partner, sides[1]) for rank, listed in enumerate(trace) for o in listed if o.partner >= 0}


def _alike(trace: Trace) -> bool:
    first = [operation.name for operation in trace[0]]
    return all([operation.name for operation in rank] == first for rank in trace)


def _together(traces: Traces, *, exchanges: bool) -> tuple[Mapping[int, Node], Leaf]:
    """Fold ranks in lockstep: the partners of all ranks in a call are one symbol."""
    vectors: dict[int, list[tuple[Partner, ...]]] = {}
    trees = {}
    for processes, trace in traces.items():
        symbols: dict[tuple[Partner, ...], int] = {}
        calls = [
            (at[0].name, symbols.setdefault(tuple(None if o.partner < 0 else o.partner for o in at), len(symbols)))
            for at in zip(*trace, strict=True)
        ]
        vectors[processes] = list(symbols)
        words = [Operation(name, symbol) for name, symbol in calls]
        trees[processes] = fold(_with_runs(words, vectors[processes]) if exchanges else words)

    def leaf(operations: Mapping[int, Operation]) -> Part:
        name = operations[max(operations)].name
        if name.startswith("exchange"):
            return _exchange(operations, traces)
        partners = {processes: vectors[processes][o.partner] for processes, o in operations.items()}
        return Part(name=name, rule=None if partners[max(partners)][0] is None else general_equation(partners))

    return trees, leaf


def _related(trees: Mapping[int, Node], leaf: Leaf, index: str | None) -> Part:
    """Return the parts of the largest count's tree; counts whose tree has the same shape say how loops grow."""
    largest = trees[max(trees)].shape()
    same = {processes: tree for processes, tree in trees.items() if tree.shape() == largest}

    def part(nodes: Mapping[int, Node]) -> Part:
        first = nodes[max(nodes)]
        if first.operation is not None:
            return leaf({processes: node.operation for processes, node in nodes.items() if node.operation})
        body = [part({p: node.body[i] for p, node in nodes.items()}) for i in range(len(first.body))]
        return Part(count=fit_weight({p: node.count for p, node in nodes.items()}, index=index), body=body)

    return part(same)


def _mask(vector: Sequence[Partner]) -> int:
    """Return the bits in which every rank's partner differs from it, 0 where ranks differ in that."""
    masks = {-1 if to is None else rank ^ to for rank, to in enumerate(vector)}
    mask = masks.pop() if len(masks) == 1 else 0
    return mask if mask > 0 and mask & (mask - 1) == 0 else 0


def _with_runs(words: Sequence[Operation], vectors: Sequence[Sequence[Partner]]) -> list[Operation]:
    """Return the calls with each run of exchanges over halving or doubling bits as one call named by its unit and bits."""
    masks = [_mask(vectors[word.partner]) for word in words]
    result: list[Operation] = []
    at = 0
    while at < len(words):
        unit, bits = _run_at(words, masks, at)
        if unit:
            names = "+".join(word.name for word in words[at : at + unit])
            way = "falling" if bits[0] > bits[1] else "rising"
            result.append(Operation(f"exchange {way} {names}", max(bits) << 8 | min(bits).bit_length()))
            at += unit * len(bits)
        else:
            result.append(words[at])
            at += 1
    return result


def _run_at(words: Sequence[Operation], masks: Sequence[int], at: int) -> tuple[int, list[int]]:
    """Return the length of the unit and the masks of the run of exchanges that begins here; 0 where none does."""
    for unit in range(1, _LONGEST_UNIT + 1):
        names = [word.name for word in words[at : at + unit]]
        bits: list[int] = []
        place = at
        while [word.name for word in words[place : place + unit]] == names and len(set(masks[place : place + unit])) == 1:
            mask = masks[place]
            if not mask or (len(bits) == 1 and mask not in (bits[0] * 2, bits[0] // 2)):
                break
            if len(bits) > 1 and mask * bits[0] != bits[1] * bits[-1]:
                break
            bits.append(mask)
            place += unit
        if len(bits) > 1:
            return unit, bits
    return 0, []


def _exchange(operations: Mapping[int, Operation], traces: Traces) -> Part:
    """Return the part of a run: the side of the grid whose bits are those of the run at every count."""
    _, way, names = operations[max(operations)].name.split(" ")
    for span in _SPANS:
        if all(span.sides(processes) and _covers(span, processes, o.partner) for processes, o in operations.items()):
            body = [Part(name=name, rule=Rule("exchange", span.grid, 1, 0, span.side)) for name in names.split("+")]
            return Part(span=span, falling=way == "falling", body=body)
    raise ModelError(f"exchanges at {', '.join(map(str, operations))} processes cover the bits of no side of a grid.")


def _covers(span: Rule, processes: int, packed: int) -> bool:
    unit = (span.sides(processes) or (1, 1))[1] if span.side == "R" else 1
    return (packed >> 8, packed & 255) == (unit << bits_of(span, processes) - 1, unit.bit_length())


def _on_mesh(traces: Traces, grid: str) -> tuple[Mapping[int, Node], Leaf]:
    """Fold ranks on a grid with borders: the calls of all places of it, joined at each count."""
    joined = {processes: _joined(trace, GRIDS[grid](processes) or (1, 1)) for processes, trace in traces.items()}
    symbols: dict[_Call, int] = {}
    trees = {
        processes: fold([Operation(call.name, symbols.setdefault(call, len(symbols))) for call in calls])
        for processes, calls in joined.items()
    }
    known = list(symbols)

    def leaf(operations: Mapping[int, Operation]) -> Part:
        call = known[operations[max(operations)].partner]
        return Part(name=call.name, rule=Rule("mesh", grid, *call.step) if call.step else None, places=call.only)

    return trees, leaf


@dataclass(frozen=True)
class _Call:
    """A call as a step on the grid (None: no partner), and the only places that make it (None: all that have the partner)."""

    name: str
    step: tuple[int, int] | None
    only: frozenset[Place] | None = None

    def made_at(self, rank: int, sides: tuple[int, int]) -> bool:
        """Return whether a rank makes this call: it is at one of the places, and its partner exists."""
        if self.only is not None and place_of(rank, sides) not in self.only:
            return False
        if self.step is None:
            return True
        row, column = rank // sides[1] + self.step[0], rank % sides[1] + self.step[1]
        return 0 <= row < sides[0] and 0 <= column < sides[1]


def _joined(trace: Trace, sides: tuple[int, int]) -> list[_Call]:
    """Return one sequence of calls in which each place of the grid finds its own: the fullest rank's and what others add."""
    ranks: dict[Place, int] = {}
    for rank in sorted(range(len(trace)), key=lambda rank: -len(trace[rank])):
        ranks.setdefault(place_of(rank, sides), rank)
    joined: list[_Call] = []
    seen: set[Place] = set()
    for place, rank in ranks.items():
        own = [_Call(o.name, None if o.partner < 0 else _step(rank, o.partner, sides[1])) for o in trace[rank]]
        joined = _with_place(joined, own, rank, sides, frozenset(seen)) if seen else own
        seen.add(place)
    return joined


def _step(rank: int, partner: int, columns: int) -> tuple[int, int]:
    return partner // columns - rank // columns, partner % columns - rank % columns


def _with_place(
    joined: list[_Call], own: Sequence[_Call], rank: int, sides: tuple[int, int], seen: frozenset[Place]
) -> list[_Call]:
    """Lay the calls of a rank at a new place over the joined ones: what it leaves out and what it adds is bound to places."""
    place = place_of(rank, sides)
    shared = [number for number, call in enumerate(joined) if replace(call, only=None).made_at(rank, sides)]
    theirs = [replace(joined[number], only=None) for number in shared]
    same = equal_pairs(theirs, own)
    made, open_ = {shared[a] for a, _ in same}, set(shared)
    result: list[_Call] = []
    taken = 0
    partner_of = {shared[a]: b for a, b in same}
    for number, call in enumerate(joined):
        if number in made:
            result += [replace(new, only=frozenset({place})) for new in own[taken : partner_of[number]]]
            taken = partner_of[number] + 1
            result.append(call if call.only is None else replace(call, only=call.only | {place}))
        elif number in open_:
            result.append(replace(call, only=call.only if call.only is not None else seen))
        else:
            result.append(call)
    return result + [replace(new, only=frozenset({place})) for new in own[taken:]]
