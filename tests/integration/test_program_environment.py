"""Programs that are traced and measured get the environment and the input that the command had."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.tool_runs import PROGRAMS, program, requires_tool

GIVEN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "ODD": "a b=\udcff"}
"""No locale is set: Python puts LC_CTYPE into its own environment then."""
OF_VALGRIND = ("VALGRIND_LIB=", "LD_PRELOAD=")


def runs(path):
    """What each run of the program found, without what Valgrind needs."""
    found = path.read_text(errors="surrogateescape").split("\n.\n")[:-1]
    return [[line for line in run.splitlines() if not line.startswith(OF_VALGRIND)] for run in found]


@requires_tool
@pytest.mark.parametrize("verb", [["trace"], ["predict", "--measure", "2", "--base", "cloud-server", "--target", "cloud-server"]])
def test_programs_get_the_environment_and_input_of_the_command(tmp_path, verb):
    dump = program(tmp_path, PROGRAMS / "dump_environment.c")
    numbers = tmp_path / "numbers"
    numbers.write_text("12345")
    command = [sys.executable, "-m", "convolver", *verb, "--", dump, tmp_path / "traced"]
    for argv in ([dump, tmp_path / "natively"], command):
        with open(numbers) as file:
            done = subprocess.run(argv, stdin=file, env=GIVEN, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    (native,) = runs(tmp_path / "natively")
    traced = runs(tmp_path / "traced")
    assert len(traced) == 1 if verb == ["trace"] else len(traced) >= 3
    assert all(run == native for run in traced)
