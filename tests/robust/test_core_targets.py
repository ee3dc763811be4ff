"""The parsers of the C core take every input that fuzzing kept, under the address and undefined-behavior sanitizers."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.robust.fuzz_core import TARGETS, fuzz, processor_seconds, unpack

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("target", TARGETS)
def test_kept_inputs_of_fuzzing_break_no_memory(sanitized, tmp_path, target):
    kept = unpack(target, tmp_path)
    assert len(kept) > 1
    done = subprocess.run([sanitized(f"fuzz/fuzz_{target}"), *kept], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("input", "status"), [("wait", 0), ("spin", -signal.SIGABRT)])
def test_the_limit_of_a_target_is_processor_time(tmp_path, input, status):
    program, source = tmp_path / "program", ROOT / "tests" / "c" / "fuzz" / "wait_or_spin.c"
    subprocess.run(["gcc", "-o", program, source], check=True)
    (tmp_path / "input").write_text(input)
    assert subprocess.run([program, tmp_path / "input"], stderr=subprocess.DEVNULL, check=False).returncode == status


def test_fuzzing_goes_on_until_its_processor_time_is_spent(tmp_path, capsys):
    """libFuzzer ends after elapsed time, in which a process that was stopped computed little."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\ni=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo Done 5 runs >&2")
    program.chmod(0o755)
    began = processor_seconds()
    assert fuzz("dim", program, tmp_path, 1.0, keep=False)
    assert processor_seconds() - began > 1
    runs = int(capsys.readouterr().out.split()[1])
    assert runs >= 10
    assert runs % 5 == 0
