"""Every command of the documentation (lines that begin with ``$``) runs and prints what the page shows, but for numbers.

Getting started comes first, then each page in one folder.
"""

import shutil
from pathlib import Path

import pytest

from convolver.machine.catalog import host_name
from tools import docs_outputs as documented

ROOT, DOCS, START = documented.ROOT, documented.DOCS, documented.START
PAGES = documented.pages()[1:]

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs gcc and valgrind: apt install gcc valgrind"
)


def run(page: Path, folder: Path) -> None:
    """Run the commands of a page for this machine, on a smaller problem so that the test stays short."""
    told = []
    for command in documented.commands(page):
        here = host_name()
        printed = documented.run(command.text.replace("cg 60", "cg 20").replace("@vm.", f"@{here}."), folder)
        shown = [line.replace(documented.HOST, here) for line in command.output]
        if not (command.varies or documented.agree(shown, printed)):
            told.append("\n".join([f"$ {command.text}", "shown, but not printed:", *documented.missing(shown, printed)]))
    assert not told, "\n\n".join([*told, "`make docs-outputs` writes what is printed now into the pages."])


@pytest.fixture(scope="module")
def started(tmp_path_factory) -> Path:
    """A folder in which the commands of getting started were run."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "examples").symlink_to(ROOT / "examples")
    run(START, folder)
    return folder


def test_pages_show_no_verb_that_is_not_there():
    from convolver.cli.app import VERBS

    known = {verb.rstrip("_") for verb in VERBS}
    lines = [command.text for page in (START, *PAGES) for command in documented.commands(page)]
    used = {words[1] for words in (line.split() for line in lines) if words[0] == "convolver"}
    assert {"doctor", "probe", "predict", "report", "plot", "diff", "export", "info"} <= used <= known


def test_most_verbs_show_what_they_print():
    shown = {words.split()[1] for page in PAGES for words in _with_output(page) if words.startswith("convolver ")}
    from convolver.cli.app import VERBS

    assert {verb.rstrip("_") for verb in VERBS} - {"doctor", "import"} <= shown  # in getting started, behind a pipe


def _with_output(page: Path) -> list[str]:
    return [command.text for command in documented.commands(page) if command.output]


def test_outputs_agree_in_words_and_not_in_numbers():
    printed = ["function  seconds", "multiply  592 ms", "dot  29 ms", "Total: 716 ms -> 343 ms, matched by block."]
    assert documented.agree(["function  seconds", "multiply  1.2 s", "...", "Total: 7 s -> 3 s, matched by block."], printed)
    assert documented.missing(["function  minutes"], printed) == ["function  minutes"]
    assert documented.words("add_scaled  cg.c:84  92 M  91.7 %  L3/memory  2.55 G") == {"add_scaled"}
    assert not documented.agree(["function  minutes"], printed)


def test_a_refreshed_page_holds_the_output_and_everything_else_as_it_was(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    rest = "\n\nAfter\n\n<!-- shown: 1+1 -->\n\n    $ seq 9\n"
    page.write_text("Before\n\n    $ seq 3\n    old\n\n    older\n    $ true\n    gone" + rest)
    monkeypatch.setattr(documented, "DOCS", tmp_path)
    once = documented.refreshed(page, tmp_path)
    assert once == f"Before\n\n    $ seq 3\n    1\n    2\n    3\n    $ true{rest}    1\n    ...\n    9\n"
    page.write_text(once)
    assert documented.refreshed(page, tmp_path) == once


@pytest.mark.slow
def test_getting_started_writes_what_it_promises(started):
    written = {path.name for path in started.iterdir()}
    assert {"cg.html", "maps.png", "blocks.png", "callgrind.out.cg", "blocks.csv", "twice.machine.json"} <= written


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(DOCS)) for page in PAGES])
def test_every_command_of_a_page_runs(page, started):
    text = " ".join(command.text for command in documented.commands(page))
    if "mpi" in text and not (shutil.which("mpicc") and shutil.which("mpirun")):
        pytest.skip("needs an MPI library: apt install libopenmpi-dev openmpi-bin")
    if "sqlite3" in text and not shutil.which("sqlite3"):
        pytest.skip("needs sqlite3: apt install sqlite3")
    run(page, started)
