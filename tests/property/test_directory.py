"""Lines that threads hand over equal what a look through all references says."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convolver._native.directory import LEAST_DISTANCE, NEVER, STORE, Directory
from tests.oracle.directory_oracle import Touch, handed_over

TOUCHES = st.lists(st.builds(Touch, st.integers(0, 3), st.integers(0, 11), st.booleans(), st.integers(0, 2)), max_size=120)


def stepped(distance):
    return NEVER if distance is None else int(np.searchsorted(LEAST_DISTANCE, distance, side="right")) - 1


def followed(touches, bytes_of=lambda one: (64 * one.line + 8 * one.owner, 8)):
    directory = Directory(64)
    for one in touches:
        address, size = bytes_of(one)
        parts = (np.array([address], np.uint64), np.array([size], np.uint16), np.array([one.write]))
        directory.feed(one.thread, *parts, np.array([one.owner], np.uint32))
    return counted(directory)


def counted(directory):
    found = Counter()
    for row in directory.counts():
        found[int(row["owner"]), row["kind"] == STORE, int(row["own"]), int(row["other"])] += int(row["count"])
    return found


@given(TOUCHES)
def test_lines_are_handed_over_as_the_oracle_says(touches):
    expected = Counter()
    for (owner, write, own, other), count in handed_over(touches).items():
        expected[owner, write, stepped(own), stepped(other)] += count
    assert followed(touches) == expected


@given(TOUCHES)
def test_one_thread_and_loads_alone_hand_over_nothing(touches):
    assert not followed([one._replace(thread=2) for one in touches])
    assert not followed([one._replace(write=False) for one in touches])


@given(TOUCHES, st.permutations(range(4)))
def test_the_numbers_of_threads_do_not_matter(touches, numbers):
    assert followed([one._replace(thread=numbers[one.thread]) for one in touches]) == followed(touches)


def test_references_that_straddle_lines_touch_both():
    touches = [Touch(0, 0, True, 0), Touch(1, 0, False, 1)]
    assert followed(touches, lambda _: (60, 8)) == {(1, False, NEVER, 1): 1, (1, False, NEVER, 0): 1}


def test_distances_count_lines_however_often_places_are_given_out_anew():
    lines, rounds = 3000, 4
    addresses = np.arange(lines, dtype=np.uint64) * np.uint64(64)
    directory, owners = Directory(64), np.zeros(lines, np.uint32)
    for _ in range(rounds):
        for thread, write in ((0, True), (1, False)):
            directory.feed(thread, addresses, None, np.full(lines, write), owners)
    far = stepped(lines - 1)
    assert LEAST_DISTANCE[far] <= lines - 1 < LEAST_DISTANCE[far + 1]
    by_own = Counter()
    for (_, write, own, _), count in counted(directory).items():
        by_own[write, own] += count
    assert by_own == {(False, NEVER): lines, (False, far): lines * (rounds - 1), (True, far): lines * (rounds - 1)}
