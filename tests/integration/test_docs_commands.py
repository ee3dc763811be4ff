"""Every command of the documentation (lines that begin with ``$``) runs and prints what the page shows, but for numbers.

Getting started comes first, then each page in a copy of its folder.
"""

import re
import shutil
from pathlib import Path

import msgspec
import pytest

from convolver.machine.catalog import host_name
from convolver.machine.profile import SUFFIX, MachineProfile
from convolver.validating.campaign import Campaign
from tools import docs_outputs
from tools import docs_pages as documented

ROOT, DOCS, START = documented.ROOT, documented.DOCS, documented.START
PAGES = documented.pages()[1:]

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs gcc and valgrind: apt install gcc valgrind"
)


def smaller(command: str, page: Path) -> str:
    """Return a page's command for this machine, on a smaller problem so that the test stays short.

    Other rows come first there, and they change from probe to probe: a ``--top`` of a few becomes one of many. Predictions start
    from the profile of getting started: only that one reaches memory.
    """
    command = command.replace("cg 60", "cg 20").replace("@vm.", f"@{host_name()}.")
    if page != START:
        command = command.replace("probe --quick", "probe --quick --largest 1MiB")
    return re.sub(r"--top [1-9]\d*", "--top 50", command)


def run(page: Path, folder: Path) -> None:
    """Run the commands of a page, and compare what they print with what it shows."""
    problems = []
    for command in documented.commands(page):
        printed = docs_outputs.run(smaller(command.text, page), folder)
        shown = [line.replace(documented.HOST, host_name()) for line in command.output]
        if not (command.varies or documented.agree(shown, printed)):
            problems.append("\n".join([f"$ {command.text}", "shown, but not printed:", *documented.missing(shown, printed)]))
    assert not problems, "\n\n".join([*problems, "`make docs-outputs` writes what is printed now into the pages."])


@pytest.fixture(scope="module")
def started(tmp_path_factory) -> Path:
    """A folder in which the commands of getting started were run."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "examples", folder / "examples")
    run(START, folder)
    return folder


def test_pages_show_no_verb_that_is_not_there():
    from convolver.cli.app import VERBS

    known = {verb.rstrip("_").replace("_", "-") for verb in VERBS}
    lines = [command.text for page in (START, *PAGES) for command in documented.commands(page)]
    used = {words[1] for words in (line.split() for line in lines) if words[0] == "convolver"}
    assert {"doctor", "probe", "predict", "report", "plot", "diff", "export", "info"} <= used <= known


def test_most_verbs_show_what_they_print():
    shown = {words.split()[1] for page in PAGES for words in _with_output(page) if words.startswith("convolver ")}
    from convolver.cli.app import VERBS

    assert {verb.rstrip("_").replace("_", "-") for verb in VERBS} - {"doctor", "import"} <= shown  # in getting started


def _with_output(page: Path) -> list[str]:
    return [command.text for command in documented.commands(page) if command.output]


def test_outputs_agree_in_words_and_not_in_numbers():
    printed = ["function  seconds", "multiply  592 ms", "dot  29 ms", "Total: 716 ms -> 343 ms, matched by block."]
    assert documented.agree(["function  seconds", "multiply  1.2 s", "...", "Total: 7 s -> 3 s, matched by block."], printed)
    assert documented.missing(["function  minutes"], printed) == ["function  minutes"]
    assert documented.words("add_scaled  cg.c:84  92 M  91.7 %  L3/memory  2.55 G") == {"add_scaled"}
    assert not documented.agree(["function  minutes"], printed)


REST = "\n\nAfter\n\n<!-- shown: 1+1 -->\n\n    $ seq 9\n"
PAGE = "Before\n\n    $ seq 3\n    old\n\n    older\n    $ true\n    gone" + REST
WRITTEN = f"Before\n\n    $ seq 3\n    1\n    2\n    3\n    $ true{REST}    1\n    ...\n    9\n"


def test_a_refreshed_page_holds_the_output_and_everything_else_as_it_was(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    printed = [docs_outputs.run(command.text, tmp_path) for command in documented.commands(page)]
    once = documented.refreshed(page, printed, "host")
    assert once == WRITTEN
    page.write_text(once)
    assert documented.refreshed(page, printed, "host") == once


@pytest.fixture
def book(tmp_path, monkeypatch) -> tuple[docs_outputs.Outputs, Path, Path]:
    """What was printed so far (nothing), a first page that leaves a file, and one that reads it and counts how often it ran."""
    docs = tmp_path / "docs"
    (docs / "cli").mkdir(parents=True)
    start, page = docs / "start.md", docs / "cli" / "page.md"
    start.write_text("    $ date +%N > made\n    $ cat made\n")
    page.write_text(f"    $ cat made\n    $ echo more >> made\n    $ echo once >> {tmp_path / 'runs'}\n")
    for name, value in {"DOCS": docs, "START": start, "PICTURES": {}}.items():
        monkeypatch.setattr(docs_outputs, name, value)
    return docs_outputs.Outputs(tmp_path / "kept"), start, page


def test_pages_run_in_copies_of_the_first_ones_folder_and_once(book, tmp_path):
    outputs, start, page = book
    assert docs_outputs.write_all(outputs, [start, page]) == []
    shown = documented.commands(start)[1].output
    assert shown
    assert documented.commands(page)[0].output == shown
    assert (outputs.start / "made").read_text().split() == list(shown)
    assert docs_outputs.write_all(outputs, [start, page]) == []
    assert (tmp_path / "runs").read_text() == "once\n"


def test_pages_run_again_when_asked_when_changed_and_after_the_first_one(book, tmp_path):
    outputs, start, page = book
    docs_outputs.write_all(outputs, [start, page])
    outputs.forget(page)
    docs_outputs.write_all(outputs, [start, page])
    page.write_text(page.read_text() + "    $ true\n")
    docs_outputs.write_all(outputs, [start, page])
    outputs.forget(start)
    docs_outputs.write_all(outputs, [])
    assert outputs.printed(page) is None
    assert (tmp_path / "runs").read_text() == "once\n" * 3


def test_a_page_that_fails_is_reported_stays_and_does_not_keep_others_from_running(book):
    outputs, start, page = book
    broken = page.with_name("broken.md")
    broken.write_text("    $ no-such-command\n    as it was\n")
    (problem,) = docs_outputs.write_all(outputs, [start, broken, page])
    assert "no-such-command" in problem
    assert broken.read_text() == "    $ no-such-command\n    as it was\n"
    assert documented.commands(page)[0].output


@pytest.mark.slow
def test_getting_started_writes_what_it_promises(started):
    written = {path.name for path in started.iterdir()}
    assert {"cg.html", "maps.png", "callgrind.out.cg", "blocks.csv"} <= written


def shorten_campaign(folder: Path) -> None:
    """Make the pages' campaign one of a single round that was interrupted after its probes: those of getting started."""
    file, made, host = folder / "examples" / "campaign.toml", folder / "results" / "machines", folder / "host.machine.json"
    file.write_text(file.read_text().replace("runs = 3", "runs = 1"))
    made.mkdir(parents=True)
    for name in (condition.name for condition in Campaign.load(file).condition):
        msgspec.structs.replace(MachineProfile.load(host), name=name).save(made / f"{name}{SUFFIX}")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(DOCS)) for page in PAGES])
def test_every_command_of_a_page_runs(page, started, tmp_path):
    text = " ".join(command.text for command in documented.commands(page))
    if "mpi" in text and not (shutil.which("mpicc") and shutil.which("mpirun")):
        pytest.skip("needs an MPI library: apt install libopenmpi-dev openmpi-bin")
    if "sqlite3" in text and not shutil.which("sqlite3"):
        pytest.skip("needs sqlite3: apt install sqlite3")
    folder = tmp_path / "page"
    shutil.copytree(started, folder, symlinks=True)
    shorten_campaign(folder)
    run(page, folder)
