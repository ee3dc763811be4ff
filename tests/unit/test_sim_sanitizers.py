"""The C simulator under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
FLAGS = ("-std=gnu11", "-O1", "-g", *WARNINGS, "-fno-strict-aliasing", "-fsanitize=address,undefined", "-fno-sanitize-recover")


needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def _build(driver: str, folder: Path) -> Path:
    sources = [ROOT / "tests/c" / f"{driver}.c", ROOT / "csrc/common/status.c", *(ROOT / "csrc/sim").glob("*.c")]
    subprocess.run(["gcc", *FLAGS, "-I", ROOT / "csrc/include", *sources, "-o", folder / driver], check=True)
    return folder / driver


@needs_gcc
def test_the_detailed_engine_is_clean_under_the_sanitizers(tmp_path):
    done = subprocess.run([_build("detailed_driver", tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 200


@needs_gcc
def test_the_simulator_is_clean_under_the_sanitizers(tmp_path):
    program = _build("sim_driver", tmp_path)
    outputs = set()
    for simd in ("portable", "avx2", "avx512"):
        done = subprocess.run([program], capture_output=True, text=True, check=False, env={"CONVOLVER_SIMD": simd})
        assert (done.returncode, done.stderr) == (0, "")
        outputs.add(done.stdout)
    assert len(outputs) == 1
    counts = [[int(word) for word in line.split()] for line in outputs.pop().splitlines()]
    assert len(counts) == 13 + 4 * 4
    assert counts[13:17] == counts[17:21] == counts[:4]  # groups add up
    assert all(accesses >= misses > 0 for _, _, accesses, misses, _ in counts)
