"""Loop folding: a rank's operations as a tree of loops, whose leaves are the phases' operations and whose counts the weights.

Equal adjacent blocks are folded as they arrive, inner loops first (regular section descriptors as in ScalaTrace). Work, sizes
and tags are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from convolver.mpi.time_independent import Operation

WINDOW = 160


@dataclass
class Node:
    """A leaf (``operation`` set) or a loop over ``body``."""

    operation: Operation | None = None
    count: int = 1
    body: list[Node] = field(default_factory=list)

    def shape(self) -> tuple[object, ...]:
        """Return the structure without counts, partners and sizes: what stays when the processes change."""
        return (self.operation.name,) if self.operation else ("loop", *(child.shape() for child in self.body))


class _Folder:
    """Keeps the sequence folded so far as ids of equal structures."""

    def __init__(self) -> None:
        self.ids: dict[object, int] = {}
        self.tail: list[int] = []
        self.parts: dict[int, tuple[tuple[int, ...], int] | Operation] = {}

    def id_of(self, key: object, part: tuple[tuple[int, ...], int] | Operation) -> int:
        found = self.ids.setdefault(key, len(self.ids))
        self.parts.setdefault(found, part)
        return found

    def add(self, operation: Operation) -> None:
        self.tail.append(self.id_of(operation.key, operation))
        while self._fold():
            pass

    def _fold(self) -> bool:
        tail = self.tail
        for length in range(1, min(WINDOW, len(tail) - 1) + 1):
            loop = self.parts[tail[-1 - length]]
            if isinstance(loop, tuple) and len(loop[0]) == length and tuple(tail[-length:]) == loop[0]:
                del tail[-length - 1 :]
                tail.append(self.id_of((loop[0], loop[1] + 1), (loop[0], loop[1] + 1)))
                return True
            if tail[-1] == tail[-1 - length] and 2 * length <= len(tail) and tail[-length:] == tail[-2 * length : -length]:
                body = tuple(tail[-length:])
                del tail[-2 * length :]
                tail.append(self.id_of((body, 2), (body, 2)))
                return True
        return False

    def node(self, identity: int) -> Node:
        part = self.parts[identity]
        if isinstance(part, Operation):
            return Node(operation=part)
        return Node(count=part[1], body=[self.node(child) for child in part[0]])


def fold(operations: Sequence[Operation]) -> Node:
    """Return the operations of one rank as a tree; its root is a loop of count 1."""
    folder = _Folder()
    for operation in operations:
        folder.add(operation)
    return Node(body=[folder.node(identity) for identity in folder.tail])
