"""How much of a shared last level a program keeps, and what predictions make of it."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver._native.sinks import Decoded
from convolver._native.thread_replay import RECORD
from convolver.analyzing.analyze import analyze
from convolver.analyzing.falls import Falls, blended
from convolver.analyzing.kept import asked_of_last, kept_lines, miss_ratio, size_shares
from convolver.machine.catalog import find_machine
from convolver.machine.profile import Residency
from convolver.tracing.thread_log import ThreadLog
from tests.synthetic import loads, signature

SIZES = [1000.0, 2000.0, 4000.0, 8000.0]
ratios = st.lists(st.floats(0, 1), min_size=4, max_size=4).map(lambda found: sorted(found, reverse=True))


@given(st.floats(0, 1e6), ratios)
def test_a_program_keeps_no_more_than_it_asks_for_or_than_there_is(asked, found):
    assert 0 <= kept_lines(asked, SIZES, found) <= min(asked, SIZES[-1]) * (1 + 1e-9)


@given(st.floats(0, 1e5), st.floats(0, 1e5), ratios)
def test_a_program_that_asks_for_more_keeps_no_less(asked, more, found):
    assert kept_lines(asked + more, SIZES, found) >= kept_lines(asked, SIZES, found) * (1 - 1e-9)


@given(st.floats(0, 8000))
def test_lines_that_are_all_different_are_all_kept(asked):
    assert kept_lines(asked, SIZES, [1.0] * 4) == pytest.approx(asked)


def test_lines_that_a_smaller_level_holds_are_not_counted_again():
    assert kept_lines(1e6, SIZES, [0.5, 0.0, 0.0, 0.0]) < 2100


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 1)), min_size=1, max_size=5), ratios)
def test_what_lines_of_several_lives_find_is_their_mean(lives, found):
    whole = sum(share for _, share in lives)
    lives = [(seconds, share / whole) for seconds, share in lives]
    shares = size_shares(1e5, lives, SIZES, found)
    kept = sum(share * max(kept_lines(1e5 * seconds, SIZES, found), SIZES[0]) for seconds, share in lives)
    assert sum(shares) == pytest.approx(1)
    assert np.dot(shares, SIZES) == pytest.approx(kept)


def _lives(*points):
    return Residency(seconds=0.004, at_least=False, working_set_bytes=1 << 20, points=points).lives


def test_lines_live_a_turn_and_until_between_the_pauses():
    turn = (1 << 20) / 64 * 1e-8
    found = [*_lives((0.0, 1e-8), (0.002, 1e-8), (0.004, 6e-8), (0.008, 11e-8), (0.016, 10e-8))]
    assert found == [pytest.approx((turn + 0.003, 0.5)), pytest.approx((turn + 0.006, 0.5))]


@pytest.mark.parametrize("points", [(), ((0.0, 1e-8), (0.008, 1e-8))])
def test_lines_live_as_long_as_stated_where_points_lack(points):
    assert _lives(*points) == ((0.004, 1.0),)


def _falls(served, brought):
    share = np.array([served])
    return Falls(np.ones(1, bool), share, 1 - share, share[:, :-1], share, np.array([brought]))


def test_shares_between_two_levels_run_from_one_to_the_other():
    one = _falls([0.5, 0.3, 0.2], [[1.0, 0, 0, 0], [0, 0, 1.0, 0]])
    other = _falls([0.5, 0.1, 0.4], [[0, 0, 1.0, 0], [0, 0, 1.0, 0]])
    for shares, end in (((1, 0), one), ((0, 1), other)):
        found = blended([one, other], shares)
        assert np.allclose(found.served, end.served)
        assert np.allclose(found.brought, end.brought)
    half = blended([one, other], [0.5, 0.5])
    assert np.allclose(half.served, [[0.5, 0.2, 0.3]])
    assert np.allclose(half.brought.sum(axis=2), 1)
    assert asked_of_last(np.array([10.0]), half) == pytest.approx(5)
    assert miss_ratio(np.array([10.0]), half) == pytest.approx(0.6)


def _left(seconds):
    machine = find_machine("cloud-epyc-milan")
    lives = None if seconds is None else Residency(seconds=seconds, at_least=False, working_set_bytes=1 << 20)
    return msgspec.structs.replace(machine, residency=lives)


def test_the_levels_that_may_be_left_end_at_the_one_before():
    sizes = [system.hierarchy[-1].size_bytes for system in _left(0.004).left_systems]
    assert sizes == sorted(sizes, reverse=True)
    assert _left(0.004).hierarchy[-2].size_bytes <= sizes[-1] < sizes[0] < _left(0.004).hierarchy[-1].size_bytes
    assert _left(None).left_systems == ()


class Walk:
    """A megabyte, read line by line, ten times."""

    id = "walk"
    site_blocks = np.array([0], np.uint32)
    header = {"sampling": None}  # noqa: RUF012
    thread_log = None
    signature = signature(loads(163_840, instructions=491_520), inputs={"trace": id}, command=["./walk"])

    def feed(self, sinks, progress=None):
        addresses = np.arange(163_840, dtype=np.uint64) % 16384 * 64
        for simulator in sinks.windows:
            simulator.feed(addresses, np.full(163_840, 8, np.uint16), None, np.zeros(163_840, np.uint32))
        return Decoded(self.site_blocks)


def test_lines_that_survive_for_a_shorter_time_are_found_less_often(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVOLVER_CACHE", str(tmp_path / "cache"))
    machines = [_left(None), _left(1.0), _left(5e-6)]
    far = [float(analyze(Walk(), [machine]).of(machine).falls.served[0, -1]) for machine in machines]
    assert far[0] == pytest.approx(far[1]) == pytest.approx(0.1, abs=0.01)  # the first time
    assert far[2] > 0.5


class Threads(Walk):
    """The same walk, with what several threads did of it."""

    def __init__(self, *work):
        records = np.zeros(len(work), RECORD)
        records["thread"], records["instructions"] = np.arange(len(work)), work
        self.thread_log = ThreadLog(records)
        self.id = f"walk of {work}"
        self.signature = signature(loads(163_840, instructions=491_520), inputs={"trace": self.id}, command=["./walk"])


def test_threads_that_run_at_once_keep_more_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("CONVOLVER_CACHE", str(tmp_path / "cache"))

    def far(program, cpus):
        machine = msgspec.structs.replace(_left(5e-6), cpu={"cpus": cpus})
        return float(analyze(program, [machine]).of(machine).falls.served[0, -1])

    assert Threads(5, 5).thread_log.at_once == 2
    assert Threads(1, 3, 1).thread_log.at_once == pytest.approx(5 / 3)
    alone, two = far(Threads(9), 4), far(Threads(5, 5), 4)
    assert two < alone
    assert far(Threads(5, 5), 1) == pytest.approx(alone)  # in turn
    assert alone > far(Threads(5, 4, 4, 4), 4)
