"""P3S communication: local equations, rules over process counts, borders, new communications, sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.errors import ModelError
from convolver.modeling.p3s.communication import EC1, EC2, general_equation, growing_equations, local_equation, pad
from convolver.modeling.p3s.rules import GRIDS, Rule, families
from convolver.modeling.p3s.volume import fit_volume


def partners(rule, *counts):
    return {count: [rule(rank, count) for rank in range(count)] for count in counts}


def test_the_paper_s_mesh_of_4_by_2_has_the_distances_1_1_1_minus_3_twice():
    ring_of_four = [rank // 4 * 4 + (rank + 1) % 4 for rank in range(8)]
    assert local_equation(ring_of_four, 1, 1) == EC2(1, 1, (1, 1, 1, -3), 2)


def test_an_exchange_is_dynamic_and_names_its_bits():
    assert local_equation([rank ^ 4 for rank in range(8)]) == EC1(0, 0, "exchange", (2,))
    assert local_equation([rank ^ 5 for rank in range(8)]) == EC1(0, 0, "exchange", (0, 2))


def test_a_transposition_is_a_permutation_of_bits():
    assert local_equation([rank % 4 * 4 + rank // 4 for rank in range(16)]) == EC1(0, 0, "permutation", (2, 3, 0, 1))


def test_borders_are_completed_with_null_communications_as_in_figure_5():
    assert pad([[1, 4, -1, -4], [4, -1]]) == [[1, 4, -1, -4], [None, 4, -1, None]]
    with pytest.raises(ModelError, match="rank 1"):
        pad([[1, 4], [4, 1]])


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


def test_new_exchanges_appear_with_the_logarithm_of_the_processes():
    def listed(count):
        return [[rank ^ (1 << bit) for rank in range(count)] for bit in range(count.bit_length() - 1)]

    growing = growing_equations({count: listed(count) for count in (4, 8, 16)})
    rules = growing.at(64)
    assert [partners(rule, 64)[64] for rule in rules] == listed(64)


def test_halving_exchanges_within_a_row_grow_too():
    def columns(count):
        return 2 ** ((count.bit_length()) // 2)

    def listed(count):
        steps = columns(count).bit_length() - 1
        return [[rank ^ (columns(count) >> (step + 1)) for rank in range(count)] for step in range(steps)]

    growing = growing_equations({count: listed(count) for count in (8, 16, 32)})
    assert [partners(rule, 128)[128] for rule in growing.at(128)] == listed(128)


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
