"""Promises of the pages: their figures come from result files, and their words keep to a budget."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import result_tables

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIGURE = re.compile(r"\d[\d.,]*\s?(?:%|ns\b|us\b|ms\b|GB/s|million\b|times\b|x\b(?!\s\d))")
BUDGET = 30_000


def outside(text: str) -> str:
    """Return a page's text without generated blocks and code."""
    text = result_tables.VALUE.sub("", result_tables.BLOCK.sub("", text))
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.sub(r"^ {4}.*$|`[^`]*`", "", text, flags=re.M)


def test_pages_show_what_result_files_hold():
    checked = subprocess.run([sys.executable, "tools/result_tables.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


DEFINITIONS = {
    "90 %",  # the level of intervals
    "95 %",
    "3 ms",  # how often campaigns sample the core
    "100 %",
    *("1 %", "5 %", "3 %", "10 %", "64 times"),  # thresholds of a check, limits of a profile's points and a signature's pages
    *("0.8 %", "15 %", "1.5 times"),  # when a walk and native runs stop, what a ratio means
    *("80 %", "200 times"),  # the budget's part of bursts, draws of a prediction
}
"""Figures that are no measurement, wherever they stand."""


def test_a_figure_after_code_is_seen():
    assert FIGURE.search(outside("Text `code`\n\n    $ command\n\nis 7 % slower"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_measured_figure_is_generated(page):
    found = [match[0] for match in FIGURE.finditer(outside(page.read_text()))]
    assert set(found) <= DEFINITIONS, "figures that no result file holds"


def test_pages_keep_to_their_budget_of_words():
    assert sum(len(page.read_text().split()) for page in PAGES) <= BUDGET  # as wc -w counts: numbers and a table's bars, too
    assert len((ROOT / "README.md").read_text().splitlines()) <= 60
    assert all(len(line) <= 160 for line in (ROOT / "CHANGELOG.md").read_text().splitlines())


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_that_pages_of_developers_name_are_there(page):
    named = set(re.findall(r"`([\w./*]+/[\w./*]*)`", (ROOT / page).read_text()))
    patterns = {name: re.sub(r"\b[A-Z]+\b|(?<=_)[A-Z]+", "*", name).rstrip("/") for name in named}
    assert named
    assert not [name for name, one in patterns.items() if not [*ROOT.glob(one), *(ROOT / "convolver").glob(one)]]


def test_a_result_that_is_missing_is_named():
    with pytest.raises(result_tables.StaleResultError, match="no-such-result"):
        result_tables.current("<!-- result no-such-result: table -->\n<!-- /result -->")


def test_a_table_shows_the_wanted_rows_only():
    result = {"name": "r", "columns": ["a", "b"], "rows": [["1", "x"], ["2", "y"]]}
    assert result_tables.table(result, "a where b=y").splitlines()[2:] == ["| 2 |"]
    assert result_tables.table(result, "a,b where b=y and a=2").splitlines()[2:] == ["2 | y"]
    with pytest.raises(result_tables.StaleResultError, match="no row with b=z"):
        result_tables.table(result, "a where b=z")


def test_a_column_that_is_missing_is_named():
    with pytest.raises(result_tables.StaleResultError, match="no column nothing"):
        result_tables.current("<!-- result tracer-slowdown: table nothing -->\n<!-- /result -->")
