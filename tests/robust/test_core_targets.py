"""The parsers of the C core take every input that fuzzing kept, under the address and undefined-behavior sanitizers."""

import subprocess

import pytest

from tests.robust.fuzz_core import TARGETS, unpack


@pytest.mark.parametrize("target", TARGETS)
def test_kept_inputs_of_fuzzing_break_no_memory(sanitized, tmp_path, target):
    kept = unpack(target, tmp_path)
    assert len(kept) > 1
    done = subprocess.run([sanitized(f"fuzz/fuzz_{target}"), *kept], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
