"""P3S communication: rules over process counts, borders, sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import ModelError
from convolver.modeling.p3s.rules import GRIDS, Rule, families, general_equation
from convolver.modeling.p3s.volume import fit_volume


def partners(rule, *counts):
    return {count: [rule(rank, count) for rank in range(count)] for count in counts}


BT = {"x": (0, 1), "-x": (0, -1), "y": (1, 0), "-y": (-1, 0), "z": (1, -1), "-z": (-1, 1)}


@pytest.mark.parametrize("move", BT)
def test_every_peer_of_a_multi_partition_is_found_and_right_at_four_times_the_processes(move):
    truth = Rule("torus", "square", *BT[move])
    found = general_equation(partners(truth, 9, 16, 25))
    assert partners(found, 36, 49, 100) == partners(truth, 36, 49, 100)


@pytest.mark.parametrize("move", [(0, 1), (0, -1), (1, 0), (-1, 0)])
def test_a_mesh_with_borders_is_found_on_power_of_two_grids(move):
    truth = Rule("mesh", "powers", *move)
    found = general_equation(partners(truth, 8, 16, 32))
    assert partners(found, 64, 128) == partners(truth, 64, 128)


def test_transposition_on_square_and_oblong_grids_is_one_rule():
    truth = Rule("transpose", "powers")
    found = general_equation(partners(truth, 8, 16, 32))
    assert partners(found, 64, 128) == partners(truth, 64, 128)


def test_an_irregular_pattern_is_refused():
    with pytest.raises(ModelError, match="irregular"):
        general_equation({4: [2, 3, 1, 0], 8: [3, 1, 4, 1, 5, 2, 6, 5]})


@given(st.sampled_from(list(families())), st.integers(0, 40))
def test_a_rule_stays_among_the_processes(rule, position):
    for count in (9, 16, 32):
        if GRIDS[rule.grid](count) is not None:
            to = rule(position % count, count)
            assert to is None or 0 <= to < count


@given(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), st.sampled_from([9, 16, 25]))
def test_steps_on_a_torus_are_undone_by_the_opposite_step(move, count):
    there, back = Rule("torus", "square", *move), Rule("torus", "square", -move[0], -move[1])
    assert [back(there(rank, count), count) for rank in range(count)] == list(range(count))


def test_faces_of_a_block_follow_their_structured_form():
    def true(count):
        q = int(count**0.5)
        return 80.0 * (q - 1) * (64 / q) ** 2

    form = fit_volume({count: true(count) for count in (16, 64, 256)}, sizes_to_try=(64,))
    assert form(1024) == pytest.approx(true(1024), rel=1e-9)


def test_constant_and_null_sizes_stay_what_they_are():
    assert fit_volume({4: 8, 9: 8, 16: 8})(100) == pytest.approx(8)
    assert fit_volume({4: 0, 9: 0, 16: 0})(100) == 0
