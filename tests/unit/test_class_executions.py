"""Executions of blocks by classes of threads' work, against the table in full."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convolver.tracing.class_executions import ClassExecutions

BLOCKS, CLASSES = 5, 4
ENTRIES = st.lists(st.tuples(st.integers(0, BLOCKS - 1), st.integers(0, CLASSES - 1), st.integers(0, 1 << 40)))


@given(ENTRIES, st.lists(st.integers(0, BLOCKS - 1)))
def test_executions_of_blocks_are_those_of_the_whole_table(entries, chosen):
    table = np.zeros((BLOCKS, CLASSES))
    for block, class_, executions in entries:
        table[block, class_] += executions
    columns = np.array(entries, dtype=np.int64).reshape(-1, 3).T
    found = ClassExecutions(columns[0], columns[1], columns[2].astype(float), (BLOCKS, CLASSES))
    assert (len(found), found.classes) == table.shape
    assert found.whole.tolist() == table.sum(axis=1).tolist()
    row, classes, executions = found.of_blocks(np.array(chosen, dtype=np.int64))
    seen = np.zeros((len(chosen), CLASSES))
    seen[row, classes] = executions
    assert seen.tolist() == table[np.array(chosen, dtype=np.int64)].tolist()
