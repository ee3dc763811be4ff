"""Typed wrapper of csrc/include/cv_branch.h: how segments end, and branch prediction along executed paths."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from convolver._native._core import lib
from convolver._native.layouts import layout
from convolver._native.path_builder import Paths
from convolver._native.status import owned
from convolver._native.trace_decoder import Decoder, column

CONDITIONAL: int = lib.CV_END_CONDITIONAL
CALL: int = lib.CV_END_CALL
INDIRECT_JUMP: int = lib.CV_END_INDIRECT_JUMP
INDIRECT_CALL: int = lib.CV_END_INDIRECT_CALL
RETURN: int = lib.CV_END_RETURN
REPEAT: int = lib.CV_END_REPEAT
INDIRECT = (INDIRECT_JUMP, INDIRECT_CALL, RETURN)
"""Kinds of ends whose target is not in the code."""

KNOWN: int = lib.CV_VISIT_KNOWN
TAKEN: int = lib.CV_VISIT_TAKEN
MISPREDICTED: int = lib.CV_VISIT_MISPREDICTED
OVERRIDDEN: int = lib.CV_VISIT_OVERRIDDEN

COUNTS = layout("cv_branch_counts")
END = layout("cv_segment_end")
EDGE = layout("cv_edge")


class Branches:
    """Predicts the branches of paths one after another: one predictor, whose state goes on from piece to piece."""

    def __init__(self, decoder: Decoder, *, flags_alone: bool = False) -> None:
        """``flags_alone``: nothing is counted."""
        self._trace = decoder.handle  # not the decoder: it keeps this, and a cycle would keep both
        self.handle: Any = owned(lib.cv_branches_new(decoder.handle), lib.cv_branches_free)
        if flags_alone:
            lib.cv_branches_flags_alone(self.handle)

    def attach(self, paths: Paths) -> None:
        """Walk all that is built from now on, in C. Readers in C that are added later find the flags of each piece."""
        paths.add_sink(lib.cv_branches_sink, self.handle, self)

    def counts(self) -> NDArray[Any]:
        """Return what the branches of each segment did (:data:`COUNTS`), for the segments known at the last walk."""
        return column(lib.cv_branches_counts, self.handle, COUNTS)

    def ends(self) -> NDArray[Any]:
        """Return how each segment ends (:data:`END`)."""
        return column(lib.cv_branches_ends, self.handle, END)

    def edges(self) -> NDArray[Any]:
        """Return which segment followed which how often (:data:`EDGE`)."""
        return column(lib.cv_branches_edges, self.handle, EDGE)
