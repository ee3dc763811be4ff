"""Checks for CI: limits, baselines, what is a regression and what is none, and the reports."""

import math
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.checking.comparison import compare, junit, markdown
from convolver.checking.limits import Limits, ProgramLimits
from convolver.checking.observed import CheckBaseline, FunctionTime, Observed, together
from convolver.convolution.block_times import BlockTimes
from convolver.errors import FormatError, ProvenanceError, UnknownMachineError, UsageError
from tests.artifact_chain import make_chain

LIMITS = ProgramLimits(threshold=0.01)


def observed(error=1e-6, **functions):
    rows = {name: FunctionTime(seconds, error, f"{name}.c:1") for name, seconds in functions.items()}
    whole = math.fsum(functions.values())
    return Observed(whole, math.hypot(*[error] * len(rows)), rows, {"instructions": 10, "memops": 5}, {"libc.so.6": "one"})


def checked(before, now, limits=LIMITS):
    return compare("app", "server", before, now, limits)


BASE = observed(solve=0.6, read=0.3, other=0.1)


def test_a_slower_function_is_a_regression_and_named():
    found = checked(BASE, observed(solve=0.612, read=0.3, other=0.1))
    assert (found.verdict, found.passed, found.culprits) == ("slower", False, ["solve"])
    assert "because of solve (solve.c:1), +2.00 %" in found.sentence


def test_a_function_with_little_of_the_time_counts_as_a_share_of_the_program():
    assert checked(BASE, observed(solve=0.6, read=0.306, other=0.1)).culprits == ["read"]
    assert checked(BASE, observed(solve=0.6, read=0.3, other=0.1, tiny=0.005)).passed


def test_time_that_moves_between_functions_is_no_regression():
    assert checked(BASE, observed(solve=0.5, read=0.399, other=0.1)).verdict == "unchanged"


def test_a_change_within_its_errors_cannot_be_distinguished():
    found = checked(BASE, observed(error=0.05, solve=0.65, read=0.3, other=0.1))
    assert (found.verdict, found.passed, found.functions) == ("cannot tell", True, {})


def test_a_faster_program_passes_and_says_why():
    found = checked(BASE, observed(solve=0.3, read=0.3, other=0.1))
    assert found.passed
    assert "faster: -30.00 %" in found.sentence
    assert "because of solve" in found.sentence


def test_a_limit_in_seconds_holds_without_a_baseline():
    assert not checked(None, BASE, LIMITS._replace(seconds=0.9)).passed
    assert checked(None, BASE, LIMITS._replace(seconds=1.1)).verdict == "new"


def test_libraries_of_another_build_are_named():
    assert checked(BASE, BASE._replace(modules={"libc.so.6": "two"})).notes == ("Libraries of another build: libc.so.6.",)


@given(st.floats(0.1, 10), st.floats(0, 1e-3), st.floats(0.001, 0.2))
def test_the_same_times_are_never_a_change(seconds, error, threshold):
    one = observed(error=error, solve=seconds)
    found = checked(one, one, ProgramLimits(threshold))
    assert (found.verdict, dict(found.functions)) == ("unchanged", {})


@given(st.lists(st.floats(0.9, 1.1), min_size=2, max_size=5))
def test_errors_of_several_runs_hold_their_spread(seconds):
    runs = [observed(error=0, solve=one) for one in seconds]
    whole = together(runs)
    assert min(seconds) - 1e-12 <= whole.seconds <= max(seconds) + 1e-12
    assert whole.error >= (max(seconds) - min(seconds)) / 2 / math.sqrt(len(seconds))


def test_reports_hold_verdict_and_cause():
    found = checked(BASE, observed(solve=0.612, read=0.3, other=0.1))
    assert "| `app` | server | 1 s | 1.01 s | +1.20 % |" in markdown([found])
    assert "| `solve` | `solve.c:1` | 600 ms | 612 ms | +2.00 % |" in markdown([found])
    suite = ElementTree.fromstring(junit([found, checked(None, BASE)]))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert "because of solve" in suite[0].find("failure").get("message")
    assert suite[1].find("failure") is None


def test_a_function_without_source_has_no_line(tmp_path):
    chain = make_chain(tmp_path)
    base = chain.prediction.base
    functions = Observed._of_times(BlockTimes(base.table.with_columns(file=pl.lit("")), base.header), chain.signature).functions
    assert {one.place for name, one in functions.items() if " in " in name} == {""}


def test_a_baseline_reads_back_what_it_was_given(tmp_path):
    machine = Limits().pinned()
    CheckBaseline(machine, {"app": BASE}).save(tmp_path / "base.json")
    (name, read), *rest = CheckBaseline.load(tmp_path / "base.json", machine).programs.items()
    assert (name, rest) == ("app", [])
    assert read.functions == BASE.functions
    assert read.seconds == pytest.approx(BASE.seconds, rel=1e-6)


def test_a_baseline_of_another_machine_is_refused_until_it_is_updated(tmp_path):
    path = tmp_path / "base.json"
    CheckBaseline(Limits().pinned(), {"app": BASE}).save(path)
    other = Limits(machine="cloud-epyc-genoa").pinned()
    with pytest.raises(ProvenanceError, match="another machine"):
        CheckBaseline.load(path, other)
    assert CheckBaseline.load(path, other, anew=True).programs == {}


@pytest.mark.parametrize("text", ["[]", "{}", '{"machine": 1', '{"machine":1,"machine_id":1,"convolver":1,"programs":{"a":{}}}'])
def test_what_is_no_baseline_is_refused(tmp_path, text):
    (tmp_path / "base.json").write_text(text)
    with pytest.raises(FormatError, match="no baseline"):
        CheckBaseline.load(tmp_path / "base.json", Limits().pinned())


def test_limits_are_read_by_program(tmp_path):
    (tmp_path / "limits.toml").write_text('machine = "server-hbm"\nthreshold = 0.02\n[program.cg]\nseconds = 1\n')
    limits = Limits.load(tmp_path / "limits.toml")
    assert limits.of("cg") == ProgramLimits(0.02, 1)
    assert limits.of("other") == ProgramLimits(0.02, None)
    assert limits.pinned().name == "server-hbm"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("threshold = 5", "no share"),
        ("treshold = 0.1", "unknown field 'treshold'"),
        ("program = 3", "wrong type"),
        ("[program.a]\nlimit = 3", "unknown field 'limit'"),
        ("[program.a]\nseconds = 0", "0 is no longest time"),
        ("machine = ", "not valid TOML"),
    ],
)
def test_wrong_limits_are_one_sentence(tmp_path, text, words):
    (tmp_path / "limits.toml").write_text(text)
    with pytest.raises(FormatError, match=words):
        Limits.load(tmp_path / "limits.toml")


def test_a_pinned_machine_is_the_bundled_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Limits(machine="server-hbm").pinned().save(tmp_path / "cloud-server.machine.json")
    assert Limits().pinned().name == "cloud-server"
    with pytest.raises(UsageError, match="another machine on each runner"):
        Limits(machine="host").pinned()
    with pytest.raises(UnknownMachineError, match="pinned"):
        Limits(machine="nosuch").pinned()
