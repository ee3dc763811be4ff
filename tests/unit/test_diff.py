"""Differences of two runs: sums, matching, significance, and what is refused."""

import io
import json
import re

import polars as pl
import pytest
from hypothesis import given, settings

from convolver.errors import UsageError
from convolver.reporting.differences import difference
from convolver.units import format_seconds
from tests import synthetic
from tests.artifact_chain import CALLS, make_chain
from tests.strategies import signature_rows
from tests.synthetic import convolved


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    return make_chain(tmp_path_factory.mktemp("chain"))


@settings(max_examples=25)
@given(signature_rows(), signature_rows())
def test_changes_add_up_to_the_change_of_the_totals_however_blocks_are_matched(one, other):
    before, after = synthetic.signature(*one), synthetic.signature(*other)
    for by in (None, "line", "function"):
        found = difference(before, after, by=by, measure="memops")
        assert found.table["change"].sum() == after.totals["memops"] - before.totals["memops"]
        assert found.table["before"].sum() == before.totals["memops"]


@settings(max_examples=25)
@given(signature_rows())
def test_a_run_does_not_differ_from_itself(rows):
    found = difference(synthetic.signature(*rows), synthetic.signature(*rows))
    assert set(found.table["change"]) == {0.0}
    assert not found.table["significant"].any()


def test_two_machines_are_matched_by_block_and_the_largest_change_comes_first(chain):
    found = difference(chain.prediction.base, chain.prediction.target)
    assert found.matched_by == "block"
    assert found.ratio == pytest.approx(0.5)
    changes = found.table["change"].abs().to_list()
    assert changes == sorted(changes, reverse=True)


def test_a_change_within_the_errors_is_not_significant_and_one_beyond_them_is():
    spread = 0.2
    rows = [synthetic.loads(1000)]
    signature = synthetic.signature(*rows)
    sides = [synthetic.machine(name, scale=scale, spread=spread) for name, scale in (("a", 1.0), ("b", 1.1), ("c", 3.0))]
    hits = synthetic.hit_rates([(0, 1000, 200, 100)], *sides)
    one, near, far = (convolved(signature, hits, machine) for machine in sides)
    assert not difference(one, near).table["significant"].any()
    assert difference(one, far).table["significant"].all()


def test_blocks_of_two_builds_are_matched_by_line_in_whatever_folder_they_were_built():
    row = {"executions": 1, "loads": 10, "load_bytes": 80}
    before = synthetic.signature({**row, "build_id": "a" * 40, "file": "/old/app.c", "module": "/old/app"})
    after = synthetic.signature({**row, "build_id": "b" * 40, "file": "/new/app.c", "module": "/new/app", "offset": 4096})
    found = difference(before, after)
    assert found.matched_by == "line"
    assert found.table.height == 1
    assert found.table["change"].to_list() == [0.0]


def test_a_library_of_both_versions_does_not_make_them_one_build():
    library = synthetic.loads(100) | {
        "module": "/lib/libc.so.6",
        "build_id": "c" * 40,
        "function": "memcpy",
        "file": "",
        "line": 0,
    }
    row = synthetic.loads(1000) | {"file": "app.c", "line": 3, "module": "/bin/app"}
    before = synthetic.signature({**row, "build_id": "a" * 40}, library)
    after = synthetic.signature({**row, "build_id": "b" * 40, "offset": 4096}, library)
    found = difference(before, after)
    assert found.matched_by == "line"
    assert set(found.table["change"]) == {0.0}
    assert difference(before, before).matched_by == "block"


def test_builds_of_two_names_are_versions_of_one_program():
    library = synthetic.loads(100) | {"module": "/lib/libc.so.6", "build_id": "c" * 40, "function": "memcpy", "line": 0}
    row = synthetic.loads(1000) | {"file": "app.c", "line": 3}
    before = synthetic.signature({**row, "module": "/bin/old", "build_id": "a" * 40}, library, command=["./old"])
    after = synthetic.signature({**row, "module": "/bin/new", "build_id": "b" * 40}, library, command=["bin/new", "9"])
    found = difference(before, after)
    assert found.matched_by == "line"
    assert set(found.table["change"]) == {0.0}
    assert set(found.table["module"]) == {"old", "libc.so.6"}


def test_contradictions_are_refused(chain, tmp_path):
    other = make_chain(tmp_path, blocks=3)
    with pytest.raises(UsageError, match="two tables of block times or two signatures"):
        difference(chain.signature, chain.prediction.base)
    with pytest.raises(UsageError, match="numbers mean nothing"):
        difference(chain.prediction.base, other.prediction.base, by="block")
    with pytest.raises(UsageError, match="choose one of seconds"):
        difference(chain.prediction.base, chain.prediction.target, measure="joules")
    with pytest.raises(UsageError, match="choose one of block"):
        difference(chain.signature, chain.signature, by="color")


def test_two_equal_sides_are_said_to_be_so(chain, convolver):
    times = chain.path("app@base.times.parquet")
    text = convolver("diff", times, times).stdout
    assert (
        f"Nothing changed: {format_seconds(chain.prediction.base.seconds)} of user time before and after, in 12 blocks." in text
    )
    assert "->" not in text


def test_system_time_stands_beside_the_user_time_that_blocks_have(tmp_path, convolver):
    chain = make_chain(tmp_path, call_seconds=(2e-5, None), system=CALLS)
    sides = [chain.path(f"app@{machine}.times.parquet") for machine in ("base", "target")]
    text = convolver("diff", *sides, "--metric", "seconds").stdout
    assert f"User time: {format_seconds(chain.prediction.base.seconds)} -> " in text
    assert "System time: 2 ms -> not predicted." in text


def test_functions_are_named_with_their_module_and_counts_have_no_errors(tmp_path, convolver):
    for name, blocks in (("one", 12), ("other", 14)):
        (tmp_path / name).mkdir()
        make_chain(tmp_path / name, blocks=blocks)
    files = [str(tmp_path / name / "app.sig.parquet") for name in ("one", "other")]
    text = convolver("diff", *files, "--by", "function").stdout
    assert re.search(r"function +module +before", text)
    assert "app.c" not in text
    assert "2 of 7 functions changed; 100.0 % of the change shown." in text


def test_the_verb_prints_a_table_json_and_csv_that_agree(chain, convolver):
    words = ["diff", chain.path("app@base.times.parquet"), chain.path("app@target.times.parquet"), "--metric", "seconds"]
    text = convolver(*words, "--top", "2").stdout
    assert "matched by block" in text
    assert re.search(r"12 of 12 blocks changed, \d+ of them by more than the errors", text)
    document = json.loads(convolver(*words, "--json", "--top", "2").stdout)
    assert len(document["rows"]) == 2
    table = pl.read_csv(io.StringIO(convolver(*words, "--csv").stdout))
    assert table["after"].sum() == pytest.approx(document["after"])
    assert table.height == 12
