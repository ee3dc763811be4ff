"""Small programs, compiled once, for tests that trace."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.tool_runs import Runner

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def runner(tmp_path_factory) -> Runner:
    """Runs programs under the tracer in a folder of the module."""
    return Runner(tmp_path_factory.mktemp("runner"))


@pytest.fixture(scope="session")
def build(tmp_path_factory) -> Callable[..., Path]:
    """Return a function that compiles programs/NAME.c with extra flags and returns the binary."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("programs")

    def compile_program(name: str, *flags: str) -> Path:
        binary = folder / "_".join([name, *(flag.strip("-").replace("=", "").replace("/", "") for flag in flags)])[:80]
        if not binary.exists():
            subprocess.run(["gcc", "-O1", "-g", *flags, "-o", binary, PROGRAMS / f"{name}.c"], check=True)
        return binary

    return compile_program
