"""The core model in C under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
FLAGS = ("-std=gnu11", "-O1", "-g", *WARNINGS, "-fno-strict-aliasing", "-fsanitize=address,undefined", "-fno-sanitize-recover")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_core_model_is_clean_under_the_sanitizers(tmp_path):
    folders = ("common", "core", "trace", "sim")
    sources = [ROOT / "tests/c/core_driver.c", *(path for folder in folders for path in (ROOT / "csrc" / folder).glob("*.c"))]
    program = tmp_path / "core_driver"
    subprocess.run(["gcc", *FLAGS, "-I", ROOT / "csrc/include", *sources, "-lm", "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    walked, executed, cycles = (int(word) for word in done.stdout.split())
    assert walked > executed > 0
    assert cycles > 0
