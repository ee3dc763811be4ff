"""Branch prediction along paths equals a slow model, and gets right what real predictors get right."""

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver._native import branch_predictor as native
from convolver._native.branch_predictor import CONDITIONAL, MISPREDICTED, OVERRIDDEN, TAKEN, Branches
from convolver._native.path_builder import Paths
from convolver._native.trace_decoder import Decoder
from tests.oracle import branches_oracle as oracle
from tests.oracle import paths_oracle as paths
from tests.path_pieces import PathCollector, walk
from tests.wire_streams import CLOSE, OPEN, THREAD, WARM, Segment, Stream

ENDS = {
    "fall": [b"\x90", b"\x48\x01\xd8", b"\xc5\xf8\x28\xc1", b"\xff\xc0"],
    "conditional": [b"\x74\x10", b"\x0f\x85\x00\x01\x00\x00", b"\x2e\x72\xf0", b"\xe3\x05", b"\xe2\xfe"],
    "jump": [b"\xeb\x20", b"\xe9\x40\x00\x00\x00"],
    "call": [b"\xe8\x10\x00\x00\x00", b"\x40\xe8\xf0\xff\xff\xff"],
    "indirect jump": [b"\xff\xe0", b"\x3e\xff\x24\xc5\x00\x00\x00\x00", b"\x41\xff\xe3"],
    "indirect call": [b"\xff\xd0", b"\xff\x15\x00\x00\x00\x00"],
    "return": [b"\xc3", b"\xf3\xc3", b"\xc2\x08\x00"],
    "repeat": [b"\xf3\x48\xa5", b"\xf2\xae"],
    "other": [b"\x0f\x05", b"\xcc", b"\xf4", b"\xff\x28"],
}
NUMBERS = [getattr(native.lib, f"CV_END_{kind.upper().replace(' ', '_')}") for kind in ENDS]


def _target(kind: str, code: bytes, after: int) -> int:
    if kind not in ("conditional", "jump", "call"):
        return 0
    short = code[-2] in (*range(0x70, 0x80), *range(0xE0, 0xE4), 0xEB) and len(code) < 5
    return after + (struct.unpack("<b", code[-1:])[0] if short else struct.unpack("<i", code[-4:])[0])


class Program:
    """Segments with known ends, and visits of them."""

    def __init__(self) -> None:
        self.stream = Stream()
        self.stream.module()
        self.ends: list[oracle.End] = []
        self.addresses: list[int] = []

    def segment(self, address: int, kind: str, code: bytes, continued: bool = False, alone: bool = False) -> int:
        """Define a segment: some instruction of 4 bytes, unless ``continued`` or ``alone``, and the one that ends it."""
        first = [] if continued or alone else [4]
        branch = address + sum(first)
        self.stream.segment(
            Segment(address, [*first, len(code)], code=bytes(sum(first)) + code, continued=continued, counter=len(self.ends))
        )
        after = branch + len(code)
        turn = continued and kind == "repeat"
        self.ends.append(oracle.End(kind, branch, after, _target(kind, code, after), turn))
        self.addresses.append(address)
        return len(self.ends) - 1


@st.composite
def programs(draw):
    program = Program()
    places = st.sampled_from([0x401000, 0x401010, 0x401020, 0x401030, 0x404000])
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(list(ENDS)))
        program.segment(draw(places), kind, draw(st.sampled_from(ENDS[kind])), draw(st.booleans()))
    for end in list(program.ends):  # so that branches reach somewhere
        for address in {end.after, end.target} - {0, *program.addresses}:
            if draw(st.booleans()):
                program.segment(address, "fall", b"\x90")
    walk = st.lists(st.integers(0, len(program.ends) - 1), max_size=40)
    for visits in draw(st.lists(walk, max_size=5)):
        control = draw(st.sampled_from([None, THREAD, OPEN, CLOSE, WARM]))
        if control:
            program.stream.control(control, draw(st.integers(1, 3)))
        for number in visits * draw(st.integers(1, 3)):
            program.stream.visit(number, [])
    return program


def walked(wire, max_visits=1 << 20, warmup=False):
    decoder = Decoder()
    built = Paths(decoder, max_visits, warmup=warmup)
    attached, by_hand, silent = Branches(decoder), Branches(decoder), Branches(decoder, flags_alone=True)
    attached.attach(built)
    collector = PathCollector(built)
    decoder.feed(wire)
    decoder.flush()
    pieces = collector.take()
    flags = [walk(by_hand, piece) for piece in pieces]
    assert [walk(silent, piece) for piece in pieces] == flags
    assert not silent.counts()["visits"].any()
    for own, other in ((by_hand.counts(), attached.counts()), (by_hand.edges(), attached.edges())):
        assert np.array_equal(own, other)
    return by_hand, flags


@given(programs(), st.integers(1, 30), st.booleans())
def test_flags_counts_and_successors_equal_the_slow_model(program, max_visits, warmup):
    wire = program.stream.bytes()
    found, flags = walked(wire, max_visits, warmup)
    model = oracle.Branches(program.ends, program.addresses)
    assert flags == [model.walk(piece) for piece in paths.pieces(wire, max_visits, warmup)]
    counts = found.counts()
    for number in range(len(counts)):
        assert {name: int(counts[name][number]) for name in native.COUNTS.names} == {
            name: model.counts[number, name] for name in native.COUNTS.names
        }
    assert {(row["from"], row["to"]): row["count"] for row in found.edges()} == dict(model.edges)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=3000), st.integers(0, 2**32))
def test_long_runs_of_a_few_branches_equal_the_slow_model(outcomes, seed):
    program = Program()
    branches = [program.segment(0x400000 + 0x2000 * i, "conditional", b"\x74\x20") for i in range(6)]
    sides = [
        [program.segment(a, "jump", b"\xe9\x00\x00\x00\x00") for a in (program.ends[b].after, program.ends[b].target)]
        for b in branches
    ]
    rng = random.Random(seed)
    outcomes = outcomes + [(rng.randrange(6), rng.random() < 0.8) for _ in range(300)]
    for number, taken in outcomes:
        program.stream.visit(branches[number], [])
        program.stream.visit(sides[number][taken], [])
    wire = program.stream.bytes()
    model = oracle.Branches(program.ends, program.addresses)
    assert walked(wire)[1] == [model.walk(piece) for piece in paths.pieces(wire, 1 << 20)]


@pytest.mark.parametrize("kind", ENDS)
def test_the_end_of_a_segment_is_read_from_its_code(kind):
    program = Program()
    for number, code in enumerate(ENDS[kind]):
        program.segment(0x400000 + 64 * number, kind, code)
    program.stream.visit(0, [])
    ends = walked(program.stream.bytes())[0].ends()
    assert set(ends["kind"].tolist()) == {NUMBERS[list(ENDS).index(kind)]}
    assert ends["branch"].tolist() == [end.branch for end in program.ends]
    assert ends["after"].tolist() == [end.after for end in program.ends]
    assert ends["target"].tolist() == [end.target for end in program.ends]


def _flags(outcomes):
    """Return the flags of the visits of one conditional branch with these outcomes."""
    program = Program()
    branch = program.segment(0x400000, "conditional", b"\x74\x20")
    sides = [program.segment(program.ends[0].after, "fall", b"\x90"), program.segment(program.ends[0].target, "fall", b"\x90")]
    for taken in outcomes:
        program.stream.visit(branch, [])
        program.stream.visit(sides[taken], [])
    flags = np.array(walked(program.stream.bytes())[1][0][::2])
    assert np.array_equal(flags & TAKEN != 0, outcomes)
    return flags


def _mispredicted(outcomes, skip):
    """Share of mispredictions of one conditional branch with these outcomes, the first ``skip`` apart."""
    return np.count_nonzero(_flags(outcomes)[skip:] & MISPREDICTED) / (len(outcomes) - skip)


@pytest.mark.parametrize("turns", [3, 7, 20, 100])
def test_the_exit_of_a_loop_is_foreseen_by_its_history_alone(turns):
    flags = _flags(([True] * (turns - 1) + [False]) * 200).reshape(200, turns)[100:]
    foreseen = flags[:, -1][flags[:, -1] & MISPREDICTED == 0]
    assert len(foreseen) > 90
    assert np.all(foreseen & OVERRIDDEN)
    assert not np.any(flags[:, :-1] & OVERRIDDEN)


@pytest.mark.parametrize("turns", [3, 7, 20, 100])
def test_the_exit_of_a_loop_with_a_fixed_number_of_turns_is_learned(turns):
    outcomes = ([True] * (turns - 1) + [False]) * 200
    assert _mispredicted(outcomes, len(outcomes) // 2) < 0.05 / turns


def test_the_exit_of_a_very_long_loop_is_missed_once_each_time():
    outcomes = ([True] * 999 + [False]) * 50
    assert _mispredicted(outcomes, 1000) == pytest.approx(0.001, rel=0.3)


@pytest.mark.parametrize(("share", "least", "most"), [(0.5, 0.45, 0.55), (0.1, 0.08, 0.15), (0.0, 0.0, 0.0)])
def test_a_random_branch_is_missed_as_often_as_chance_says(share, least, most):
    rng = random.Random(3)
    assert least <= _mispredicted([rng.random() < share for _ in range(20_000)], 2000) <= most


def test_a_branch_that_follows_another_is_learned_through_history():
    rng = random.Random(5)
    outcomes = [rng.random() < 0.5 for _ in range(6000)]
    assert _mispredicted([o for o in outcomes for _ in range(2)], 2000) == pytest.approx(0.25, abs=0.02)


def test_an_interpreters_dispatch_is_learned_when_its_program_repeats():
    program, rng = Program(), random.Random(2)
    handlers = [program.segment(0x400000 + 64 * i, "indirect jump", b"\xff\xe0") for i in range(24)]
    bytecode = [rng.choice(handlers) for _ in range(60)]
    for number in bytecode * 40 + [rng.choice(handlers) for _ in range(2400)]:
        program.stream.visit(number, [])
    flags = np.array(walked(program.stream.bytes())[1][0])
    assert np.count_nonzero(flags[1200:2400] & MISPREDICTED) < 12
    assert np.count_nonzero(flags[2400:] & MISPREDICTED) > 1800


@pytest.mark.parametrize(("length", "least", "most"), [(2048, 0.0, 0.01), (65_536, 0.4, 0.5)])
def test_a_random_pattern_is_learned_up_to_a_length(length, least, most):
    """Timed: Zen 3 learns one of 16,384 outcomes, Raptor Cove one of 4,096."""
    rng = random.Random(7)
    pattern = [rng.random() < 0.5 for _ in range(length)]
    times = max(3, 24_000 // length)
    assert least <= _mispredicted(pattern * times, (times - 1) * length) <= most


def _dispatched(targets, first):
    """Share of mispredictions of an indirect jump to these targets, from the first on; a branch before it is taken if odd."""
    program = Program()
    branch = program.segment(0x400000, "conditional", b"\x74\x20")
    sides = [program.segment(at, "jump", b"\xeb\x20") for at in (program.ends[0].after, program.ends[0].target)]
    dispatch = program.segment(0x410000, "indirect jump", b"\xff\xe0")
    handlers = [program.segment(0x500000 + 64 * i, "jump", b"\xeb\x20") for i in range(8)]
    for target in targets:
        for number in (branch, sides[target % 2], dispatch, handlers[target]):
            program.stream.visit(number, [])
    flags = np.array(walked(program.stream.bytes())[1][0][2::4])
    return np.count_nonzero(flags[first:] & MISPREDICTED) / (len(targets) - first)


@pytest.mark.parametrize(("length", "least", "most"), [(512, 0.0, 0.02), (4096, 0.6, 0.9)])
def test_a_pattern_of_targets_is_learned_up_to_a_length(length, least, most):
    """Timed: Raptor Cove learns one of 1,024 targets and half of 2,048."""
    rng = random.Random(11)
    pattern = [rng.randrange(8) for _ in range(length)]
    times = max(4, 24_000 // length)
    assert least <= _dispatched(pattern * times, (times - 1) * length) <= most


def test_a_jump_follows_the_branch_before_it():
    rng = random.Random(13)
    assert _dispatched([rng.randrange(2) for _ in range(4000)], 1000) < 0.02


def _placed(seed):
    """Return the shares of mispredictions of a machine of four operations, which three branches tell apart, each somewhere in
    4 KiB after the one before: when a program of 256 operations comes for the last time, and in a random one."""
    program, place, rng = Program(), random.Random(seed), random.Random(17)
    address, branches, sides = 0x400000, [], []
    for _ in range(3):
        address += 16 * place.randint(1, 256)
        branches.append(program.segment(address, "conditional", b"\x74\x20"))
        end = program.ends[branches[-1]]
        sides.append([program.segment(at, "jump", b"\xe9\x00\x00\x00\x00") for at in (end.after, end.target)])
    again, fresh = [rng.randrange(4) for _ in range(256)], [rng.randrange(4) for _ in range(6000)]
    known, new = ([(number, one == number) for one in ones for number in range(min(one + 1, 3))] for ones in (again, fresh))
    for number, taken in known * 24 + new:
        program.stream.visit(branches[number], [])
        program.stream.visit(sides[number][taken], [])
    flags = np.array(walked(program.stream.bytes())[1][0])[::2] & MISPREDICTED
    return flags[23 * len(known) : 24 * len(known)].mean() / MISPREDICTED, flags[24 * len(known) :].mean() / MISPREDICTED


def test_mispredictions_do_not_depend_on_where_code_lies():
    known, new = zip(*map(_placed, range(6)), strict=True)
    assert max(known) < 0.01
    assert max(new) - min(new) < 0.03 * min(new)


def _calls(depth):
    """Calls nested so deep, then as many returns; ten times."""
    program = Program()
    calls = [program.segment(0x400000 + 64 * i, "call", b"\xe8" + struct.pack("<i", 64 - 9)) for i in range(depth)]
    leaf = program.segment(0x400000 + 64 * depth, "return", b"\xc3")
    returns = [program.segment(program.ends[c].after, "return", b"\xc3") for c in reversed(calls)]
    program.ends[returns[-1]].kind = "fall"
    for _ in range(10):
        for number in (*calls, leaf, *returns):
            program.stream.visit(number, [])
    return walked(program.stream.bytes())[0].counts()["indirect_mispredicted"].sum()


def test_returns_are_predicted_down_to_the_depth_of_the_stack():
    assert _calls(30) == 0
    assert _calls(40) > 60


def test_a_repeated_string_instruction_is_no_branch_but_has_a_length():
    program = Program()
    first = program.segment(0x400000, "repeat", b"\xf3\x48\xa5")
    turn = program.segment(program.ends[first].branch, "repeat", b"\xf3\x48\xa5", continued=True)
    again = program.segment(program.ends[first].branch, "repeat", b"\xf3\x48\xa5", alone=True)
    after = program.segment(program.ends[first].after, "fall", b"\x90")
    for length in (5, 0, 3):
        for number in (first, *[turn, again] * length, after):
            program.stream.visit(number, [])
    counts = walked(program.stream.bytes())[0].counts()
    assert counts["turns"].tolist()[turn] == 8
    assert counts["repeats"].tolist()[first] == 3
    assert not counts["mispredicted"].any()


def test_repetitions_that_a_window_cuts_do_not_count():
    program = Program()
    first = program.segment(0x400000, "repeat", b"\xf3\x48\xa5")
    turn = program.segment(program.ends[first].branch, "repeat", b"\xf3\x48\xa5", continued=True)
    again = program.segment(program.ends[first].branch, "repeat", b"\xf3\x48\xa5", alone=True)
    after = program.segment(program.ends[first].after, "fall", b"\x90")
    whole = (first, *[turn, again] * 7, after)
    for beginning in ((turn, again) * 3, (again, turn) * 3 + (again,)):
        program.stream.control(OPEN, 1)
        for number in (*beginning, after, *whole, first, turn, again):
            program.stream.visit(number, [])
        program.stream.control(CLOSE, 1)
    counts = walked(program.stream.bytes())[0].counts()
    assert counts["repeats"].tolist() == [2, 0, 0, 0]
    assert counts["turns"].tolist() == [0, 14, 0, 0]


def test_what_follows_a_signal_handler_teaches_nothing():
    program = Program()
    branch = program.segment(0x400000, "conditional", b"\x74\x20")
    handler = program.segment(0x500000, "other", b"\x0f\x05")
    for number in (branch, handler):
        program.stream.visit(number, [])
    found, flags = walked(program.stream.bytes())
    assert flags == [[0, 0]]
    assert found.ends()["kind"].tolist()[0] == CONDITIONAL
    assert found.counts()["known"].tolist() == [0, 0]
