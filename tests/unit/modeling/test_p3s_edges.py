"""Sizes on meshes that do not divide the domain: exact for every rank at counts that were never seen."""

from __future__ import annotations

import pytest

from convolver.modeling.p3s.face_forms import fit_edges
from convolver.modeling.p3s.rules import GRIDS


def messages(processes, grid, cells, factor=40, first=1, last=1, around=0, axis=0):
    """Written out anew: cut ``cells`` into parts by dealing them out one after the other."""
    rows, columns = GRIDS[grid](processes)
    parts = columns if axis else rows
    dealt = [0] * parts
    for cell in range(cells):
        dealt[cell % parts] += 1
    result = []
    for rank in range(processes):
        at = rank % columns if axis else rank // columns
        side = dealt[at] + around - first * (at == 0) - last * (at == parts - 1)
        result.append((rank, 0, factor * side))
    return result


@pytest.mark.parametrize(("axis", "first", "last", "around"), [(0, 0, 0, 0), (1, 1, 1, 0), (0, 0, 1, 2), (1, 2, 1, 1)])
@pytest.mark.parametrize("grid", ["powers", "balanced"])
def test_every_message_at_untraced_counts_is_exact(grid, axis, first, last, around):
    options = {"axis": axis, "first": first, "last": last, "around": around}
    form = fit_edges({p: messages(p, grid, 33, **options) for p in (4, 8, 16)}, (64, 33), grid)
    assert form is not None
    for processes in (32, 64, 128):
        for rank, turn, size in messages(processes, grid, 33, **options):
            assert form(processes, rank, turn) == pytest.approx(size)


def test_equal_sizes_and_sizes_of_no_block_have_no_form():
    assert fit_edges({p: [(rank, 0, 264) for rank in range(p)] for p in (4, 8)}, (33,), "powers") is None
    odd = {p: [(rank, 0, 100 + rank * rank) for rank in range(p)] for p in (4, 8)}
    assert fit_edges(odd, (33,), "powers") is None
