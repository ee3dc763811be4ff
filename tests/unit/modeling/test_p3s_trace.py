"""P3S on traces: loops folded, one scalable trace for all process counts, replayed; irregular programs refused."""

import functools
import math
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import ExtrapolationWarning, FormatError, ModelError
from convolver.modeling.model_artifact import Model
from convolver.modeling.p3s.fold import fold
from convolver.modeling.p3s.rules import Rule
from convolver.modeling.p3s.slt import build
from convolver.mpi.network import flat_configuration
from convolver.mpi.network_replay import Replayer
from convolver.mpi.time_independent import Operation, read_ti, to_events

MOVES = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1))
STEPS = 5
SIZE = 64


def multi_partition(count):
    """A program with the communication of BT: six sweeps of q - 1 stages a step on a square torus, blocks of a 64-cell grid."""
    q = math.isqrt(count)
    size = 240 * (SIZE // q + 1) ** 2
    work = 1e9 / (count * (q - 1) * STEPS)
    trace = []
    for rank in range(count):
        operations = [Operation("bcast", bytes=40, work=100.0 / count)]
        for _ in range(STEPS):
            for move in MOVES:
                to = Rule("torus", "square", *move)(rank, count)
                source = Rule("torus", "square", -move[0], -move[1])(rank, count)
                for stage in range(q - 1):
                    operations.append(Operation("isend", to, size, 100 + stage, work))
                    operations.append(Operation("irecv", source, size, 100 + stage))
                    operations.append(Operation("wait", source, 0, 100 + stage))
        operations.append(Operation("allreduce", bytes=8, work=50.0 / count))
        trace.append(operations)
    return trace


def seconds(trace, bandwidth=1e9):
    events = to_events(trace, seconds_per_work=1e-9)
    network = flat_configuration(len(trace), latency_seconds=5e-6, bandwidth_bytes_per_second=bandwidth)
    return float(Replayer(events).seconds(network).max())


@pytest.fixture(scope="module")
def scalable():
    return build({count: multi_partition(count) for count in (9, 16, 25)}, sizes_to_try=(SIZE,))


@pytest.mark.parametrize("count", [36, 64, 100])
def test_up_to_four_times_the_traced_processes_every_message_is_right(scalable, count):
    def messages(trace):
        return [[(o.name, o.partner, o.bytes) for o in rank] for rank in trace]

    expected = [[(o.name, o.partner, 0 if o.name == "wait" else o.bytes) for o in rank] for rank in multi_partition(count)]
    assert messages(scalable.at(count)) == expected


def test_the_predicted_trace_takes_the_time_of_the_real_one(scalable):
    for count in (36, 49):
        assert seconds(scalable.at(count)) == pytest.approx(seconds(multi_partition(count)), rel=1e-6)


def test_the_work_of_every_process_count_is_the_same_total(scalable):
    total = sum(o.work for rank in scalable.at(49) for o in rank)
    assert total == pytest.approx(sum(o.work for rank in multi_partition(25) for o in rank), rel=1e-9)
    assert scalable.drift() < 1e-9


def test_the_table_of_equations_names_rule_form_and_weight(scalable):
    row = next(row for row in scalable.equations() if row["operation"] == "isend")
    assert row["partner"] == "torus step (+0, +1) on the square grid"
    assert row["bytes"] == "240*(floor(N/q)+1)^2"
    assert row["weight"] == STEPS * 4


def test_counts_that_are_not_legal_are_refused(scalable):
    with pytest.raises(ModelError, match="not legal"):
        scalable.at(50)
    with pytest.raises(ModelError, match="not legal"):
        build({count: growing(count) for count in (4, 8, 16)}).at(48)


@pytest.mark.parametrize("count", [2, 4])
def test_fewer_processes_than_traced_are_refused(count):
    scalable = build({count: mesh(count) for count in (8, 16)}, sizes_to_try=(SIZE,))
    for asked in (scalable.at, scalable.instructions):
        with pytest.raises(ModelError, match="fewer than the traced 8, 16"):
            asked(count)


def test_more_than_four_times_the_traced_processes_is_said(scalable):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scalable.at(100)
        scalable.instructions(100)
    for asked in (scalable.at, scalable.instructions):
        with pytest.warns(ExtrapolationWarning, match="121 processes are more than 4 times the 25") as said:
            asked(121)
        assert len(said) == 1


def gathered(count):
    """What real ranks record of a gather of equal shares to rank 0, which receives as much as all of them send."""
    part = 6400 // count
    return [[Operation("gather", bytes=part * count if rank == 0 else part, work=1e6 / count)] * 3 for rank in range(count)]


@pytest.mark.parametrize("count", [32, 64])
def test_the_root_of_a_gather_has_the_bytes_of_all_processes(count):
    scalable = build({count: gathered(count) for count in (4, 8, 16)})
    assert [[o.bytes for o in rank] for rank in scalable.at(count)] == [[o.bytes for o in rank] for rank in gathered(count)]
    assert scalable.equations()[0]["bytes"] == "6400*1/P, *P at rank 0"


@given(st.lists(st.integers(0, 2), min_size=1, max_size=60))
def test_folding_keeps_every_operation_in_order(partners):
    operations = [Operation("send", p, 8, 0, float(i)) for i, p in enumerate(partners)]

    def unfolded(node):
        return [node.operation] if node.operation else [o for _ in range(node.count) for c in node.body for o in unfolded(c)]

    root = fold(operations)
    assert [operation.partner for operation in unfolded(root)] == partners
    assert sum(weights(root)) == len(partners)


def weights(node, weight=1):
    """The leaves' weights in order: the products of the counts of the loops around them."""
    return [weight] if node.operation else [w for child in node.body for w in weights(child, weight * node.count)]


def test_nested_loops_are_found_with_their_weights():
    inner = [Operation("send", 1, 8), Operation("recv", 1, 8)] * 4
    root = fold([*inner, Operation("barrier")] * 3)
    assert weights(root) == [12, 12, 3]
    assert root.shape() == ("loop", ("loop", ("loop", ("send",), ("recv",)), ("barrier",)))


def mesh(count):
    """A program with the communication of LU: two sweeps over a mesh, and a last exchange along the last column only."""
    grid = {4: (2, 2), 8: (2, 4), 16: (4, 4), 64: (8, 8)}[count]
    rows, columns = grid
    trace = []
    for rank in range(count):
        row, column = divmod(rank, columns)
        beside = {"N": row > 0 and rank - columns, "W": column > 0 and rank - 1}
        beside |= {"S": row + 1 < rows and rank + columns, "E": column + 1 < columns and rank + 1}
        there = {side: partner for side, partner in beside.items() if partner is not False}
        down = [("recv", "N"), ("recv", "W"), ("send", "S"), ("send", "E")]
        sweeps = down, [("recv", "S"), ("recv", "E"), ("send", "N"), ("send", "W")]
        operations = []
        for _ in range(STEPS):
            for sweep in sweeps:
                for _ in range(SIZE // 2):
                    operations += [Operation(name, there[side], 40, 0, 1e6 / count) for name, side in sweep if side in there]
        if column + 1 == columns:
            operations += [Operation("send", there["N"], 8)] if "N" in there else []
            operations += [Operation("recv", there["S"], 8)] if "S" in there else []
        trace.append([*operations, Operation("allreduce", bytes=8)])
    return trace


def growing(count):
    """A program with the communication of CG: exchanges over the bits of a row, falling and rising, and a transposed partner."""
    columns = 2 ** ((count.bit_length()) // 2)
    bits = [columns >> level for level in range(1, columns.bit_length())]
    trace = []
    for rank in range(count):

        def exchange(order, size, rank=rank):
            return [Operation(name, rank ^ bit, size, 0, 1e6 / count) for bit in order for name in ("irecv", "send", "wait")]

        to = Rule("transpose", "powers")(rank, count)
        step = [*exchange(reversed(bits), 8 * SIZE // columns), Operation("send", to, 8), Operation("recv", to, 8)]
        trace.append((step + exchange(bits, 8) + exchange(bits, 8)) * STEPS)
    return trace


@pytest.mark.parametrize("program", [mesh, growing])
def test_borders_and_growing_exchanges_are_right_at_four_times_the_processes(program):
    def calls(trace):
        return [[(o.name, o.partner) for o in rank] for rank in trace]

    scalable = build({count: program(count) for count in (4, 8, 16)}, sizes_to_try=(SIZE,))
    made, real = scalable.at(64), program(64)
    assert calls(made) == calls(real)
    assert [[o.bytes for o in rank if o.name != "wait"] for rank in made] == [
        [o.bytes for o in rank if o.name != "wait"] for rank in real
    ]
    assert seconds(made) == pytest.approx(seconds(real), rel=1e-6)


def faces(count):
    """A sweep over diagonal blocks of 30 cells a side that sends what the next block needs, one cell less at each border."""
    q = math.isqrt(count)

    def side(at):
        return 30 // q + (at < 30 % q) - (at in (0, q - 1))

    trace = []
    for rank in range(count):
        row, column = divmod(rank, q)
        to = row * q + (column + 1) % q
        sizes = [8 * side((row + turn) % q) * side((column - turn) % q) for turn in range(q - 1)]
        trace.append([Operation("barrier"), *(Operation("isend", to, size) for size in sizes)])
    return trace


@pytest.mark.parametrize("count", [25, 36, 49, 64])
def test_faces_of_blocks_that_differ_between_ranks_are_exact(count):
    scalable = build({count: faces(count) for count in (4, 9, 16)}, sizes_to_try=(30,))
    assert [[o.bytes for o in rank] for rank in scalable.at(count)] == [[o.bytes for o in rank] for rank in faces(count)]


def test_irregular_programs_are_refused_with_the_first_call_that_does_not_fit():
    chain = [[Operation("send", r + 1, 8)] * (r + 1 < 4) + [Operation("barrier")] for r in range(4)]
    with pytest.raises(ModelError, match="no known pattern"):
        build({4: chain, 8: chain * 2})
    with pytest.raises(ModelError, match="two counts"):
        build({4: chain})


def test_the_waiting_that_replays_show_is_found():
    def uneven(count):
        share = 1e6 / count
        return [[Operation("barrier", work=share * (1.5 if (r + n) % count == 0 else 1)) for n in range(8)] for r in range(count)]

    scalable = build({count: uneven(count) for count in (4, 9, 16)})
    assert seconds(scalable.at(36)) == pytest.approx(seconds(uneven(36)), rel=0.01)


def test_time_independent_traces_are_read_with_sizes_work_and_waits(tmp_path):
    (tmp_path / "r0.txt").write_text(
        "0 init\n0 compute 100\n0 compute 20\n0 isend 1 7 3 0\n0 wait 0 1 7\n0 bcast 2 0 1\n0 finalize\n"
    )
    (tmp_path / "r1.txt").write_text("1 init\n1 irecv 0 7 3 0\n1 compute 5\n1 wait 0 1 7\n1 bcast 2 0 1\n1 finalize\n")
    (tmp_path / "t.txt").write_text("r0.txt\nr1.txt\n")
    first, second = read_ti(tmp_path / "t.txt")
    assert first == [Operation("isend", 1, 24, 7, 120.0), Operation("bcast", -1, 8, 0, 0.0)]
    assert [o.name for o in second] == ["irecv", "wait", "bcast"]
    assert second[1].work == 5
    assert seconds([first, second]) > 120e-9


def test_broken_traces_are_format_errors(tmp_path):
    (tmp_path / "t.txt").write_text("r0.txt\n")
    with pytest.raises(FormatError):
        read_ti(tmp_path / "t.txt")
    (tmp_path / "r0.txt").write_text("0 init\n0 dance 1\n")
    with pytest.raises(FormatError, match="line 2"):
        read_ti(tmp_path / "t.txt")


def write_ti(trace, folder, name):
    files = []
    for rank, operations in enumerate(trace):
        lines = [f"{rank} init"]
        for o in operations:
            lines += [f"{rank} compute {o.work!r}"] if o.work else []
            if o.name in ("isend", "irecv"):
                lines.append(f"{rank} {o.name} {o.partner} {o.tag} {o.bytes // 8} 0")
            elif o.name == "wait":
                lines.append(f"{rank} wait {o.partner} {rank} {o.tag}")
            else:
                lines.append(f"{rank} {o.name} {o.bytes // 8} 0 0")
        (folder / f"{name}-{rank}.txt").write_text("\n".join(lines) + "\n")
        files.append(f"{name}-{rank}.txt")
    (folder / f"{name}.txt").write_text("\n".join(files) + "\n")


@pytest.mark.slow
def test_scale_sweep_and_fit_work_from_the_command_line(tmp_path, convolver):
    run = functools.partial(convolver, "model", cwd=tmp_path, code=0)

    for count in (9, 16, 25):
        write_ti(multi_partition(count), tmp_path, f"t{count}")
    for count in (16, 36, 49):
        run("scale", "t9.txt", "t16.txt", "t25.txt", "--at", str(count), "--size", str(SIZE), "-o", f"e{count}.parquet")
    swept = run("sweep", "e16.parquet", "e36.parquet", "e49.parquet", "-o", "s.parquet", "--points", "12")
    assert "-s locality=16:1,36:1,49:1" in swept.stderr
    run("fit", "s.parquet", "-k", "linear", "-y", "time", "-x", "P,L,BW", "-o", "m.json")
    model = Model.load(tmp_path / "m.json")
    truth = seconds(multi_partition(36), bandwidth=3e8)
    assert model.apply({"P": [36], "L": [5e-6], "BW": [3e8]})[0] == pytest.approx(truth, rel=0.1)
