"""Loops of made-up graphs and of a real program."""

from __future__ import annotations

import subprocess

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.signature.signature import hottest_loops
from convolver.tracing.branch_code import Codes, branches
from convolver.tracing.loops import NOT_IN_A_LOOP, nest
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace
from tests.integration.tool_runs import requires_tool

graphs = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3, unique=True), min_size=n, max_size=n)
)


def reach(after):
    """Which nodes each node reaches in one step or more."""
    reached = {node: set(follow) for node, follow in after.items()}
    for middle in after:
        for node in after:
            if middle in reached[node]:
                reached[node] |= reached[middle]
    return reached


def edges_of(after):
    return np.array([(node, other) for node, follow in after.items() for other in follow], dtype=np.int64).reshape(-1, 2)


def nested(nodes, after):
    """Depth and head of each node: loops are sets of nodes that reach each other, those within without the way to the head."""
    reached, found = reach(after), {}
    for part in {frozenset(m for m in nodes if m in reached[n] and n in reached[m]) for n in nodes if n in reached[n]}:
        entered = [other for node in nodes if node not in part for other in after[node] if other in part]
        first = min(entered or part)
        inner = nested(part, {node: [other for other in after[node] if other in part and other != first] for node in part})
        found |= {node: (inner[node][0] + 1, inner[node][1]) if node in inner else (1, first) for node in part}
    return found


@given(graphs)
def test_loops_nest_as_their_definition_says(lists):
    after = dict(enumerate(lists))
    loops, expected = nest(len(lists), edges_of(after)), nested(list(after), after)
    for node in after:
        assert (loops.depth[node], loops.head[node]) == expected.get(node, (0, NOT_IN_A_LOOP))


@given(graphs)
def test_a_block_is_in_a_loop_exactly_when_it_reaches_itself(lists):
    after = dict(enumerate(lists))
    loops, reached = nest(len(lists), edges_of(after)), reach(after)
    for node in after:
        assert (loops.depth[node] > 0) == (node in reached[node]) == (loops.head[node] != NOT_IN_A_LOOP)
        if loops.depth[node]:
            assert loops.depth[loops.head[node]] <= loops.depth[node]


def test_nested_loops_have_their_depths_and_heads():
    #   0 -> 1 -> 2 -> 3 -> 3 (itself), 3 -> 2, 2 -> 1, 1 -> 4
    loops = nest(5, edges_of({0: [1], 1: [2, 4], 2: [3, 1], 3: [3, 2], 4: []}))
    assert loops.depth.tolist() == [0, 1, 2, 3, 0]
    assert loops.head.tolist() == [NOT_IN_A_LOOP, 1, 2, 3, NOT_IN_A_LOOP]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("75fe", (-2, True)),
        ("0f8410000000", (16, True)),
        ("3e75fe", (-2, True)),
        ("eb05", (5, False)),
        ("e9fbffffff", (-5, False)),
        ("e2fc", (-4, True)),
        ("c3", (None, False)),
        ("ffe0", (None, False)),
        ("41ffd4", (None, True)),
        ("e800000000", (None, True)),
        ("4801c8", (None, True)),
        ("", (None, True)),
    ],
)
def test_branches_are_read_from_their_bytes(code, expected):
    distance, known, goes_on = (array[0] for array in branches(Codes.of([bytes.fromhex(code)])))
    assert (distance if known else None, goes_on) == expected


@requires_tool
def test_a_real_program_has_the_loops_of_its_source(tmp_path):
    source = tmp_path / "nest.c"
    source.write_text(
        "volatile int sink;\n"
        "__attribute__((noinline)) void deep(int n)\n{\n"
        "    for (int i = 0; i < n; i++)\n        for (int j = 0; j < n; j++)\n            for (int k = 0; k < n; k++)\n"
        "                sink += k;\n}\n"
        "int main(void)\n{\n    deep(10);\n    return 0;\n}\n"
    )
    subprocess.run(["gcc", "-O1", "-g", "-o", tmp_path / "nest", source], check=True)
    recorded = trace([str(tmp_path / "nest")], output=tmp_path / "a.cvt", sampling=SamplingPlan(mode="counts"))
    table = recorded.signature.table
    deep = table.filter((pl.col("function") == "deep") & (pl.col("executions") > 0))
    assert deep["loop_depth"].max() == 3
    inner = deep.filter(pl.col("loop_depth") == 3)
    assert inner["executions"].max() == 1000
    assert set(inner["loop_head"]) <= set(deep["block"])
    assert deep.filter(pl.col("executions") == 1)["loop_depth"].to_list().count(0) >= 1
    assert table.filter(pl.col("function") == "main")["loop_depth"].max() == 0
    assert any(loop["function"] == "deep" and loop["depth"] == 3 and loop["turns"] == 1000 for loop in hottest_loops(table))
