"""The scalable logical trace: one tree of loops and operations for any process count, made from traces at a few.

Phases are related by their order in the tree (functional similarity). Each loop's count is a line in an index of the counts, each
operation has a rule for its partner, a form for its size and its share of the constant total of work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convolver.errors import ModelError
from convolver.modeling.p3s.communication import general_equation
from convolver.modeling.p3s.fold import Node, fold
from convolver.modeling.p3s.rules import Rule
from convolver.modeling.p3s.trace import Operation, Trace
from convolver.modeling.p3s.volume import VolumeForm, fit_volume
from convolver.modeling.p3s.weight import WeightLine, fit_weight


@dataclass
class Part:
    """A node of the scalable trace: a loop (``count``) over ``body``, or an operation (``name``) with its models.

    ``total_work`` is the work of all ranks and repetitions before the operation, that of the largest traced count.
    """

    name: str = ""
    count: WeightLine | None = None
    body: list[Part] = field(default_factory=list)
    rule: Rule | None = None
    volume: VolumeForm | None = None
    total_work: float = 0.0
    work_drift: float = 0.0


@dataclass(frozen=True)
class ScalableTrace:
    """The trace for any process count: :meth:`at` makes it for one (the paper's ST4NP)."""

    root: Part
    counts: tuple[int, ...]

    def at(self, processes: int) -> Trace:
        """Return the operations of every rank at a process count, work included."""
        return [list(_expand(self.root, rank, processes, 1)) for rank in range(processes)]

    def equations(self) -> list[dict[str, Any]]:
        """Return one row an operation: name, partner rule, size form, weight at the largest traced count."""
        return list(_rows(self.root, max(self.counts), 1))

    def drift(self) -> float:
        """Return the largest change of the total work before an operation over the traced counts, weighted by its share."""
        parts = [part for part in _leaves(self.root) if part.total_work > 0]
        total = sum(part.total_work for part in parts)
        return sum(part.work_drift * part.total_work for part in parts) / total if total else 0.0


def build(traces: Mapping[int, Trace], *, sizes_to_try: tuple[int, ...] = (), window: int = 160) -> ScalableTrace:
    """Return the scalable trace of traces at three or more process counts.

    ``sizes_to_try`` are problem sizes for structured message sizes. Raises :class:`ModelError` when ranks or counts differ in the
    structure of their loops, or when a partner, a size or a count follows no rule: then P3S does not apply.
    """
    if len(traces) < 2:
        raise ModelError("P3S relates phases over process counts; give traces at two counts at least, better three.")
    trees = {count: [fold(operations, window) for operations in traces[count]] for count in sorted(traces)}
    shapes = {count: {tree.shape() for tree in listed} for count, listed in trees.items()}
    different = [count for count, found in shapes.items() if len(found) > 1]
    if different:
        raise ModelError(
            f"The ranks at {different[0]} processes run loops of {len(shapes[different[0]])} different structures; "
            "border ranks that leave communications out are not related yet."
        )
    if len(set.union(*shapes.values())) > 1:
        raise ModelError(
            f"The loops at {', '.join(map(str, trees))} processes differ in structure; the phases cannot be related."
        )
    return ScalableTrace(_related(trees, dict.fromkeys(trees, 1), sizes_to_try), tuple(trees))


Trees = Mapping[int, Sequence[Node]]


def _related(trees: Trees, weights: Mapping[int, int], sizes: tuple[int, ...]) -> Part:
    first = next(iter(trees.values()))[0]
    if first.leaf:
        return _operation(trees, weights, sizes)
    counts = {}
    for processes, nodes in trees.items():
        found = {node.count for node in nodes}
        if len(found) > 1:
            raise ModelError(f"The ranks at {processes} processes run the same loop {min(found)} to {max(found)} times.")
        counts[processes] = found.pop()
    inner = {processes: weights[processes] * counts[processes] for processes in trees}
    children = range(len(first.body))
    body = [_related({p: [n.body[i] for n in nodes] for p, nodes in trees.items()}, inner, sizes) for i in children]
    return Part(count=fit_weight(counts), body=body)


def _operation(trees: Trees, weights: Mapping[int, int], sizes: tuple[int, ...]) -> Part:
    operations = {p: [node.operation for node in nodes if node.operation] for p, nodes in trees.items()}
    name = next(iter(operations.values()))[0].name
    part = Part(name=name)
    if operations[min(operations)][0].partner >= 0:
        part.rule = general_equation({p: [o.partner for o in listed] for p, listed in operations.items()})
    if name != "wait":
        part.volume = fit_volume({p: float(np.mean([n.bytes for n in nodes])) for p, nodes in trees.items()}, sizes_to_try=sizes)
    totals = [sum(node.work for node in nodes) * weights[p] for p, nodes in trees.items()]
    part.total_work = totals[-1]
    part.work_drift = (max(totals) - min(totals)) / min(totals) if min(totals) > 0 else 0.0
    return part


def _expand(part: Part, rank: int, processes: int, weight: int) -> Iterator[Operation]:
    if part.count is not None:
        times = part.count(processes)
        for _ in range(times):
            for child in part.body:
                yield from _expand(child, rank, processes, weight * times)
        return
    work = part.total_work / (processes * weight)
    partner = part.rule(rank, processes) if part.rule else -1
    size = round(part.volume(processes)) if part.volume else 0
    if partner is not None:
        yield Operation(part.name, partner, size, 0, work)
    elif work > 0:
        yield Operation("none", work=work)


def _leaves(part: Part) -> Iterator[Part]:
    if part.count is None:
        yield part
    for child in part.body:
        yield from _leaves(child)


def _rows(part: Part, processes: int, weight: int) -> Iterator[dict[str, Any]]:
    if part.count is not None:
        for child in part.body:
            yield from _rows(child, processes, weight * part.count(processes))
        return
    volume = part.volume
    form = "" if volume is None else f"{volume.factor:.6g}*P^{volume.power:.4g}" if volume.power is not None else ""
    if volume is not None and volume.power is None:
        form = f"{volume.factor:.6g}*{volume.shape}" + (f" + {volume.offset:.6g}" if volume.offset else "")
    yield {"operation": part.name, "partner": str(part.rule or ""), "bytes": form, "weight": weight}
