"""What is whole stays whole, and nothing of ours stays after, when a process of a long verb is killed at some moment."""

import pytest

from tests.integration.tool_runs import requires_tool
from tests.robust.kill_runs import COMMANDS, run


@pytest.mark.slow
@requires_tool
def test_one_kill_in_each_long_verb_leaves_whole_files_alone():
    said = []
    names = [name for name in COMMANDS if name not in ("probe", "mpi trace")]
    assert run(len(names), names, seed=3, longest=4.0, say=said.append) == 0, "\n".join(said)
