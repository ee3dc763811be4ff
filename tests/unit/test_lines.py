"""Line programs are decoded as pyelftools does, on what gcc writes for each DWARF version."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from elftools.elf.elffile import ELFFile

from convolver.tracing.lines import decode_program

SOURCE = (
    """
#include <stdio.h>
static inline int twice(int x) { return 2 * x; }
int work(int n) { int t = 0; for (int i = 0; i < n; i++) { t += twice(i) ^ (i >> 3); if (t % 7 == 0) puts("x"); } return t; }
__attribute__((section(".text.other"))) int other(int n) { return n > 3 ? work(n - 1) : 0; }
int main(int argc, char **argv) {\n"""
    + "\n" * 400
    + """ return other(argc); }
"""
)


def _expected(program):
    found, before = [], None
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if before is not None and state.address > before.address:
            found.append((before.address, state.address, before.file, before.line))
        before = None if state.end_sequence else state
    return found


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(
    "flags", ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -O0", "-gdwarf-5 -gno-as-loc-support"]
)
def test_rows_equal_those_of_pyelftools(tmp_path, flags):
    (tmp_path / "a.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O2", *flags.split(), "-o", tmp_path / "a", tmp_path / "a.c"], check=True)
    with open(tmp_path / "a", "rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        rows = 0
        for unit in dwarf.iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            program.stream.seek(program.program_start_offset)
            data = program.stream.read(program.program_end_offset - program.program_start_offset)
            found = decode_program(data, program.header)
            assert found == _expected(dwarf.line_program_for_CU(unit))
            rows += len(found)
    assert rows > 20
