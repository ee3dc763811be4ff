"""Every command of the documentation (lines that begin with ``$``) runs: getting started first, then each page in one folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from convolver.machine.catalog import host_name

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
START = DOCS / "getting-started.md"
PROMPT = "    $ "
PAGES = sorted(page for page in DOCS.rglob("*.md") if page != START and PROMPT in page.read_text())

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs gcc and valgrind: apt install gcc valgrind"
)


def commands(page: Path) -> list[str]:
    """Return the commands of a page for this machine, on smaller problems so that the test stays short."""
    lines = [line.removeprefix(PROMPT) for line in page.read_text().splitlines() if line.startswith(PROMPT)]
    return [line.replace("./cg 60", "./cg 20").replace("@vm.", f"@{host_name()}.") for line in lines]


def run(page: Path, folder: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CONVOLVER_CACHE": str(folder / "cache"),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    for command in commands(page):
        done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


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
    lines = [line for page in (START, *PAGES) for line in commands(page)]
    used = {words[1] for words in (line.split() for line in lines) if words[0] == "convolver"}
    assert {"doctor", "probe", "predict", "report", "plot", "diff", "export", "info"} <= used <= known


@pytest.mark.slow
def test_getting_started_writes_what_it_promises(started):
    written = {path.name for path in started.iterdir()}
    assert {"cg.html", "maps.png", "blocks.png", "callgrind.out.cg", "blocks.csv", "twice.machine.json"} <= written


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(DOCS)) for page in PAGES])
def test_every_command_of_a_page_runs(page, started):
    text = " ".join(commands(page))
    if "mpi" in text and not (shutil.which("mpicc") and shutil.which("mpirun")):
        pytest.skip("needs an MPI library: apt install libopenmpi-dev openmpi-bin")
    if "sqlite3" in text and not shutil.which("sqlite3"):
        pytest.skip("needs sqlite3: apt install sqlite3")
    run(page, started)
