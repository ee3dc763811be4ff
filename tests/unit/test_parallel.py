"""How machines are dealt out to threads."""

from __future__ import annotations

from convolver._native.simulator import Geometry
from convolver.simulation.parallel import dealt

SMALL, LARGE, OTHER = Geometry(64, 8, 64), Geometry(64, 12, 64), Geometry(64, 8, 64, policy=1)
L2, L3 = Geometry(1024, 8, 64), Geometry(2048, 16, 64)


def test_machines_with_equal_first_levels_stay_on_one_thread():
    assert dealt([(SMALL, L2), (LARGE, L2), (SMALL, L3)], 2) == [[0, 2], [1]]
    assert dealt([(SMALL, L2), (LARGE, L2), (SMALL, L3)], 8) == [[0, 2], [1]]
    assert dealt([(SMALL, L2), (SMALL, L3)], 2) == [[0, 1]]


def test_threads_get_about_as_many_machines_each():
    assert dealt([(SMALL,), (LARGE,), (OTHER,)], 2) == [[0, 2], [1]]
    assert sorted(map(len, dealt([(SMALL,), (SMALL, L2), (LARGE,), (OTHER,)], 2))) == [2, 2]


def test_one_thread_or_no_machine():
    assert dealt([(SMALL,), (LARGE,)], 1) == [[0, 1]]
    assert dealt([], 4) == []
