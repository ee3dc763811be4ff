"""P3S on multi-partitioned domains: what each rank's block costs and what it sends, exact at four times the traced processes."""

import math

import pytest

from convolver.modeling.p3s.nests import fit_nest
from convolver.modeling.p3s.slt import build
from convolver.mpi.time_independent import Operation

SIZE = 30


def side(at, q):
    return SIZE // q + (at < SIZE % q)


def inner(at, q):
    return side(at, q) - (at == 0) - (at == q - 1)


def blocks(rank, q):
    row, column = divmod(rank, q)
    return [((column + c) % q, (row - c) % q, c) for c in range(q)]


def sweeping(count):
    """A program like SP: all blocks once, then a sweep along x in q - 1 turns, then a message of the faces of all blocks."""
    q = math.isqrt(count)
    trace = []
    for rank in range(count):
        row, column = divmod(rank, q)
        mine = {x: (x, y, z) for x, y, z in blocks(rank, q)}
        whole = sum(7.0 * side(x, q) * side(y, q) * side(z, q) + 90.0 * side(z, q) for x, y, z in mine.values()) + 5000.0
        operations = [Operation("barrier", work=whole)]
        for turn in range(q - 1):
            x, y, z = mine[turn]
            work = 31.0 * inner(x, q) * inner(y, q) * inner(z, q) + 17.0 * inner(x, q) * inner(z, q) + 400.0
            sent = 8 * inner(y, q) * inner(z, q)
            operations.append(Operation("isend", row * q + (column + 1) % q, sent, 0, work if turn else work + whole))
        faces = sum(16 * side(y, q) * side(z, q) for x, y, z in mine.values() if x < q - 1)
        operations.append(Operation("isend", (row + 1) % q * q + column, faces, 0, 12.5 * faces))
        trace.append([*operations, Operation("barrier")])
    return trace


@pytest.fixture(scope="module")
def scalable():
    return build({count: sweeping(count) for count in (4, 9, 16)}, sizes_to_try=(SIZE,))


@pytest.mark.parametrize("count", [25, 36, 49, 64])
def test_each_ranks_work_and_bytes_in_each_turn_are_exact(scalable, count):
    real, made = sweeping(count), scalable.at(count)
    assert [[(o.name, o.partner, o.bytes) for o in rank] for rank in made] == [
        [(o.name, o.partner, o.bytes) for o in rank] for rank in real
    ]
    # Works of first turns add the block of the turn to all blocks, which three counts distinguish only roughly.
    assert [o.work for rank in made for o in rank] == pytest.approx([o.work for rank in real for o in rank], rel=0.04)
    ours, theirs = ([operation.work for rank in trace for operation in rank[2:-1]] for trace in (made, real))
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_the_instructions_of_a_process_are_the_mean_of_the_trace(scalable):
    trace = scalable.at(36)
    assert scalable.instructions(36) == pytest.approx(sum(o.work for rank in trace for o in rank) / 36)


def test_the_equations_name_the_loop_nest_and_its_sweep(scalable):
    sweep = next(row for row in scalable.equations() if row["operation"] == "isend")
    assert "sweep +x" in sweep["work"]["middle"]
    assert f"block of {SIZE}" in sweep["work"]["middle"]


def test_a_form_needs_more_works_that_differ_than_terms_and_square_counts():
    def works(counts, cost):
        return {p: {(rank, 0): cost(p, rank) for rank in range(p)} for p in counts}

    assert fit_nest(works((4, 9), lambda p, rank: 100.0 + rank * 37 % 11 * 50), (SIZE,), turning=False) is None
    assert fit_nest(works((4, 8, 16), lambda p, rank: 1e6 / p), (SIZE,), turning=False) is None
    assert fit_nest(works((4,), lambda p, rank: 1e6 / p), (SIZE,), turning=False) is None
    assert fit_nest(works((4, 9, 16), lambda p, rank: 0.0), (SIZE,), turning=False) is None
    same = fit_nest(works((4, 9, 16), lambda p, rank: 1000.0), (SIZE,), turning=False)
    assert same is None or same(64, 5, 0) == pytest.approx(1000.0)
