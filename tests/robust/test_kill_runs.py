"""What is whole stays whole, and nothing of ours stays after, when a process of a long verb is killed at some moment."""

import subprocess
import sys

import pytest

from tests.integration.tool_runs import requires_tool
from tests.robust.kill_runs import COMMANDS


@pytest.mark.slow
@requires_tool
def test_one_kill_in_each_long_verb_leaves_whole_files_alone():
    """As a command, which has shared memory of its own: other tests trace meanwhile."""
    names = [name for name in COMMANDS if name not in ("probe", "mpi trace")]
    options = ["--kills", str(len(names)), "--seed", "3", "--longest", "4", *(f"--verb={name}" for name in names)]
    done = subprocess.run([sys.executable, "-m", "tests.robust.kill_runs", *options], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
