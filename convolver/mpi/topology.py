"""Links between the nodes of a torus or a fat tree, on which messages contend (routes and rule: csrc/replay/fabric.c)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from convolver._native._core import lib
from convolver.errors import ReplayError, UsageError

_CODES = {"torus": lib.CV_REPLAY_TORUS, "fat-tree": lib.CV_REPLAY_FAT_TREE}
_MOST_LEVELS: int = lib.CV_REPLAY_TOPOLOGY_LEVELS
_SIDES = r"(\d{1,9}(?:x\d{1,9})*)"
_FORM = re.compile(rf"(torus):{_SIDES}|fat-tree:{_SIDES}:{_SIDES}")


@dataclass(frozen=True)
class Topology:
    """``torus``: ``down`` has the nodes in each dimension. ``fat-tree``: children of a switch and parents of a node or switch by
    level, from the nodes on: the XGFT(n; m; w) of Oehring, Ibel, Das, Kumar (1995)."""

    kind: Literal["torus", "fat-tree"]
    down: tuple[int, ...]
    up: tuple[int, ...] = ()

    @property
    def nodes(self) -> int:
        """Return how many nodes it connects."""
        return math.prod(self.down)

    def native(self, used: int) -> dict[str, Any]:
        """Return the fields of ``cv_replay_network``; raises :class:`ReplayError` for a machine of more nodes."""
        if used > self.nodes:
            raise ReplayError(f"The {self} connects {self.nodes} nodes, but the machine has {used}: choose a larger one.")
        lists = {"topology_down": np.array(self.down, np.int32), "topology_up": np.array(self.up or (1,), np.int32)}
        return {"topology": _CODES[self.kind], "topology_levels": len(self.down), **lists}

    def __str__(self) -> str:
        return ":".join([self.kind, *("x".join(map(str, sizes)) for sizes in (self.down, self.up) if sizes)])


def parse_topology(text: str) -> Topology:
    """Return the topology in ``torus:4x4x2`` or ``fat-tree:16x8:1x8``; raises :class:`UsageError` for anything else."""
    match = _FORM.fullmatch(text)
    torus, down, children, parents = match.groups() if match else (None,) * 4
    sizes = tuple(map(int, (down or children or "0").split("x")))
    ups = tuple(map(int, parents.split("x"))) if parents else ()
    wires = math.prod(sizes) * math.prod(ups or (2,)) * len(sizes)
    fits = (torus or len(sizes) == len(ups)) and min((*sizes, *ups)) > 0 and len(sizes) <= _MOST_LEVELS and wires < 1 << 31
    if not match or not fits:
        raise UsageError(
            f"'{text}' is no topology; write torus:4x4x2 (nodes in each dimension) or fat-tree:16x8:1x8 (children of a switch "
            "and parents of a node or switch at each level, from the nodes on)."
        )
    return Topology("torus" if torus else "fat-tree", sizes, ups)
