"""Sizes of collectives with a root: what the root gathers or scatters is the part of one rank times the processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from convolver.modeling.p3s.face_forms import Sample
from convolver.modeling.p3s.volume import VolumeForm, fit_volume

ROOTED = ("gather", "gatherv", "scatter", "scatterv")


@dataclass(frozen=True)
class RootedForm:
    """Bytes of one rank's part by ``part``, those of all processes at ``root``."""

    root: int
    part: VolumeForm

    def __call__(self, processes: int, rank: int, turn: int) -> float:
        """Return the bytes of a rank; all turns are alike."""
        each = round(self.part(processes))
        return float(each * processes if rank == self.root else each)

    def __str__(self) -> str:
        """Return the form as text, as the table of equations prints it."""
        return f"{self.part}, *P at rank {self.root}"


def fit_rooted(samples: Mapping[int, Sequence[Sample]], sizes: tuple[int, ...]) -> RootedForm | None:
    """Return the form where one rank, the same at every count, has the bytes of all, which have one size; None elsewhere.

    ``samples`` are rank, turn and bytes of the collective by process count.
    """
    parts: dict[int, float] = {}
    roots = set()
    for processes, listed in samples.items():
        found = {rank: {size for r, _, size in listed if r == rank} for rank in range(processes)}
        most = max(found, key=lambda rank: max(found[rank], default=0))
        others = {size for rank, all_ in found.items() if rank != most for size in all_}
        if len(others) != 1 or found[most] != {processes * min(others)} or not min(others):
            return None
        roots.add(most)
        parts[processes] = float(min(others))
    return RootedForm(roots.pop(), fit_volume(parts, sizes_to_try=sizes)) if len(roots) == 1 else None
