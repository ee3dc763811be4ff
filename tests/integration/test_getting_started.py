"""Every command of docs/getting-started.md runs, in its order, in one folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from convolver.machine.catalog import host_name

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "getting-started.md"
PROMPT = "    $ "

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs gcc and valgrind: apt install gcc valgrind"
)


def commands() -> list[str]:
    """Return the commands of the page for this machine, on a smaller problem so that the test stays short."""
    lines = [line.removeprefix(PROMPT) for line in PAGE.read_text().splitlines() if line.startswith(PROMPT)]
    return [line.replace("./cg 60", "./cg 20").replace("@vm.", f"@{host_name()}.") for line in lines]


def test_the_page_has_commands_and_shows_no_verb_that_is_not_there():
    from convolver.cli.app import VERBS

    used = {line.split()[1] for line in commands() if line.startswith("convolver ")}
    assert {"doctor", "probe", "predict", "report", "plot", "diff", "export", "info"} <= used <= set(VERBS)


@pytest.mark.slow
def test_every_command_runs(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CONVOLVER_CACHE": str(tmp_path / "cache"),
    }
    for command in commands():
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    written = {path.name for path in tmp_path.iterdir()}
    assert {"cg.html", "maps.png", "blocks.png", "callgrind.out.cg", "blocks.csv", "twice.machine.json"} <= written
