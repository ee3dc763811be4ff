"""What the signature says from executed paths, on programs of which it is known."""

from __future__ import annotations

import gc

import polars as pl
import pytest

from convolver._native.simulator import Simulator
from convolver._native.trace_decoder import Decoder
from convolver.analyzing.analyze import analyze
from convolver.convolution.memory import patterns
from convolver.machine.catalog import find_machine
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import LiveTrace, trace
from tests.integration.tool_runs import PROGRAMS, program, requires_tool

pytestmark = requires_tool
PLAN = SamplingPlan(interval=20_000, sample=10_000)


def _by_function(table: pl.DataFrame) -> dict[str, dict[str, int]]:
    sums = table.group_by("function").agg(pl.col(pl.UInt64).exclude("offset").sum())
    return {row["function"]: row for row in sums.iter_rows(named=True)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("features")


@pytest.fixture(scope="module")
def chases(folder):
    return trace([program(folder, PROGRAMS / "chases.c", "-static"), "20"], output=folder / "chases.cvt", sampling=PLAN)


@pytest.fixture(scope="module")
def branches(folder):
    return trace([program(folder, PROGRAMS / "branches.c"), "40"], output=folder / "branches.cvt", sampling=PLAN)


@pytest.mark.parametrize(
    ("function", "least", "most"),
    [
        ("walk_list", 0.97, 1.0),  # one load a node, each waits for the one before
        ("walk_list_across_blocks", 0.37, 0.42),  # of key, next and (half the time) sink, one waits
        ("walk_four_lists", 0.24, 0.26),  # four chains side by side
        ("gather", 0.0, 0.02),  # an index, then its value: two of a stretch
        ("stream", 0.0, 0.02),
        ("search_tree", 0.1, 0.25),  # searches follow each other independently
        ("follow_hash_chains", 0.1, 0.2),
        ("forward", 0.0, 0.01),  # its loads come from its stores
    ],
)
def test_references_that_wait_for_each_other_are_distinguished_from_those_that_do_not(chases, function, least, most):
    found = _by_function(chases.signature.table)[function]
    assert found["path_references"] > 5000
    assert least <= found["serial_references"] / found["path_references"] <= most


def test_a_chase_over_several_blocks_is_chased_and_a_gather_is_not(chases):
    table = chases.signature.table
    shares = patterns(table)
    table = table.with_columns(chased=pl.Series(shares.chased), random=pl.Series(shares.random))
    hot = table.filter(pl.col("random_references") + pl.col("dependent_references") > 5000)

    def most(function: str, column: str) -> float:
        return float(hot.filter(pl.col("function") == function)[column].max())  # type: ignore[arg-type]

    assert most("walk_list", "chased") > 0.95
    assert most("walk_list_across_blocks", "chased") > 0.9
    assert most("walk_four_lists", "chased") == pytest.approx(0.25, abs=0.03)
    assert most("gather", "chased") < 0.05
    assert most("gather", "random") > 0.4


def test_forwarded_and_split_references_are_counted(chases):
    functions = _by_function(chases.signature.table)
    assert functions["forward"]["forwarded_references"] / functions["forward"]["path_references"] == pytest.approx(0.5, abs=0.02)
    assert functions["split"]["split_references"] / functions["split"]["path_references"] > 0.95
    assert functions["stream"]["split_references"] == functions["stream"]["forwarded_references"] == 0


def test_the_live_trace_has_the_same_columns(chases, folder):
    from convolver.machine.catalog import find_machine
    from convolver.simulation.one_pass import simulate

    live = LiveTrace([str(folder / "chases"), "20"], sampling=PLAN)
    simulate(live, [find_machine("desktop-32m")])
    columns = ["function", "path_references", "serial_references", "mispredicted_conditional", "successors"]
    assert live.signature.table.columns == chases.signature.table.columns
    found, known = (_by_function(t.signature.table)["walk_list"] for t in (live, chases))
    assert {c: found[c] for c in columns[1:3]} == pytest.approx({c: known[c] for c in columns[1:3]}, rel=0.05)


def _missed(found: dict[str, int]) -> float:
    return found["mispredicted_conditional"] / found["conditional_branches"]


def test_predictable_branches_are_predicted_and_random_ones_are_not(branches):
    functions = _by_function(branches.signature.table)
    assert functions["fixed_loop"]["conditional_branches"] > 3000
    assert _missed(functions["fixed_loop"]) < 0.01
    assert 0.2 < _missed(functions["above_half"]) < 0.3  # every second one is random, the other is the loop's
    assert _missed(functions["above_half_sorted"]) < 0.01


def test_dispatch_and_returns_are_predicted(branches):
    functions = _by_function(branches.signature.table)
    assert functions["interpret"]["indirect_branches"] > 3000
    assert functions["interpret"]["mispredicted_indirect"] / functions["interpret"]["indirect_branches"] < 0.05
    assert functions["nest"]["indirect_branches"] > 50
    assert functions["nest"]["mispredicted_indirect"] == 0


def test_the_length_of_repeated_instructions_is_known(branches):
    found = _by_function(branches.signature.table)["copy_bytes"]
    assert found["repeats"] > 5
    assert found["repeat_turns"] / found["repeats"] == 100


def test_successors_add_up(branches):
    table = branches.signature.table.filter(pl.col("path_visits") > 0)
    assert (table["first_successor_visits"] >= table["second_successor_visits"]).all()
    assert (table["first_successor_visits"] + table["second_successor_visits"] <= table["path_visits"]).all()
    two = table.filter(pl.col("successors") <= 2)
    assert (two["first_successor_visits"] + two["second_successor_visits"] == two["path_visits"]).all()
    assert (table["conditional_branches"] + table["indirect_branches"] <= table["path_visits"]).all()
    assert (table["path_visits"] <= table["executions"]).all()
    loop = table.filter(pl.col("function") == "fixed_loop").sort("executions").row(-1, named=True)
    assert loop["first_successor"] == loop["block"]
    assert loop["first_successor_visits"] / loop["path_visits"] == pytest.approx(0.9, abs=0.01)


def test_a_trace_that_was_cut_before_its_signature_gives_the_same_columns(branches, tmp_path):
    from convolver.tracing import format as cvt
    from convolver.tracing.reader import Trace

    data = branches.path.read_bytes()
    with branches.path.open("rb") as file:
        cvt.read_header(file, "it")
        end = next(c.position for c in cvt.read_chunks(file, "it") if c.kind == cvt.SIGNATURE)
    cut = tmp_path / "cut.cvt"
    cut.write_bytes(data[:end])
    names = ["path_visits", "taken_branches", "mispredicted_conditional", "serial_references", "forwarded_references"]
    assert Trace.load(cut).signature.table.select(names).equals(branches.signature.table.select(names))


def test_info_shows_what_the_paths_say(branches, convolver):
    import json

    for file in (branches.path, branches.path.with_suffix(".sig.parquet")):
        shown = convolver("info", file, "--json")
        paths = json.loads(shown.stdout)["paths"]
        assert 0.4 < paths["walked_share"] < 0.6
        assert 0 < paths["mispredicted_conditional"] < 0.3


def test_what_decodes_a_trace_is_freed_at_once(chases):
    """Decoders and simulators hold hundreds of megabytes outside of Python, which its collector of cycles does not see."""
    gc.collect()
    gc.disable()
    try:
        analyze(chases.path, [find_machine("cloud-server"), find_machine("cloud-epyc-milan")])
        assert not [one for one in gc.get_objects() if isinstance(one, (Decoder, Simulator))]
    finally:
        gc.enable()
