"""Sections with code of shared objects, beside pyelftools."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from convolver._native import _core
from convolver.tracing.code_sections import shared_code
from convolver.tracing.elf import executable_sections, open_elf

OBJECTS = [Path(str(_core.__file__)), Path(shutil.which("sh") or "/bin/sh").resolve()]


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.name)
def test_code_of_an_object_is_what_pyelftools_finds(path):
    with path.open("rb") as file:
        known = [code.tobytes() for _, code in executable_sections(open_elf(file))]
    assert known
    assert [code.tobytes() for code in shared_code(path)] == known


@pytest.mark.parametrize("length", [0, 5, 63, 64, 4096])
def test_an_object_that_is_cut_off_has_no_code(tmp_path, length):
    cut = tmp_path / "cut"
    cut.write_bytes(OBJECTS[0].read_bytes()[:length])
    assert shared_code(cut) == []


def test_bytes_of_damaged_headers_end_with_the_file(tmp_path):
    content, damaged = np.frombuffer(OBJECTS[0].read_bytes(), dtype=np.uint8), tmp_path / "damaged"
    random = np.random.default_rng(5)
    table = int(content[40:48].view("<u8")[0])
    for _ in range(50):
        changed = content.copy()
        changed[random.integers(table, len(content), 40)] = 0xFF
        changed.tofile(damaged)
        assert sum(map(len, shared_code(damaged))) <= 40 * len(content)
