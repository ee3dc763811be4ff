"""Stores past the caches: recognized in code, and lines of theirs that come from memory and are never fetched."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from convolver.analyzing.analyze import analyze
from convolver.analyzing.falls import SEQUENTIAL
from convolver.analyzing.written_past import writes_past, written_past
from convolver.machine.catalog import find_machine
from convolver.tracing.branch_code import Codes
from convolver.tracing.tracer import trace

BYTES, TURNS = 2 << 20, 8
SOURCE = f"""
#include <emmintrin.h>
#include <stdlib.h>
#define FILL(name, store) __attribute__((noinline)) static void name(char *p) {{ \\
    for (int i = 0; i < {BYTES}; i += 32) {{ \\
        store((__m128i *)(p + i), _mm_setzero_si128()); _mm_store_si128((__m128i *)(p + i + 16), _mm_setzero_si128()); }} }}
FILL(ordinary, _mm_store_si128)
FILL(half_past, _mm_stream_si128)
int main(void) {{
    char *p = aligned_alloc(64, {BYTES});
    for (int i = 0; i < {TURNS}; i++) ordinary(p);
    for (int i = 0; i < {TURNS}; i++) half_past(p);
    return 0;
}}
"""
PAST = ["movntps %xmm1,(%rax)", "movntpd %xmm9,(%r9)", "movntdq %xmm1,8(%r12)", "movnti %eax,(%rcx)", "movnti %r9,(%rcx)"]
PAST += ["movntq %mm1,(%rax)", "vmovntps %ymm1,(%rax)", "vmovntdq %ymm9,(%r9)", "vmovntpd %zmm1,(%rax)", "vmovntdq %zmm17,(%r9)"]
ORDINARY = ["movaps %xmm1,(%rax)", "movdqa %xmm9,(%r9)", "mov %rax,(%rcx)", "vmovdqu %ymm1,(%rax)", "vmovdqa64 %zmm1,(%rax)"]
ORDINARY += ["vextracti128 $1,%ymm1,(%rax)", "lock xadd %rax,(%rcx)", "movb $0x2b,(%rax)", "vpextrb $1,%xmm2,(%rax)"]


@pytest.mark.skipif(not (shutil.which("as") and shutil.which("objcopy")), reason="no assembler")
def test_code_that_writes_past_the_caches_is_recognized(tmp_path):
    source, binary = tmp_path / "x.s", tmp_path / "x"
    source.write_text("".join(f".p2align 4; {one}\n" for one in PAST + ORDINARY))
    subprocess.run(["as", "-o", tmp_path / "x.o", source], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", tmp_path / "x.o", binary], check=True)
    code = binary.read_bytes()
    found = writes_past(Codes.of(code[first : first + 15] for first in range(0, len(code), 16)))
    assert found.tolist() == [True] * len(PAST) + [False] * len(ORDINARY)


@pytest.mark.skipif(not (shutil.which("valgrind") and shutil.which("gcc")), reason="needs valgrind and gcc")
def test_lines_written_past_go_to_memory_and_none_is_fetched(tmp_path):
    (tmp_path / "fills.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-o", tmp_path / "fills", tmp_path / "fills.c"], check=True)
    traced = trace([str(tmp_path / "fills")], output=tmp_path / "fills.cvt")
    machine = find_machine("cloud-epyc-milan")
    where, table = analyze(traced, machine).of(machine).falls, traced.signature.table
    past = written_past(traced)

    def block(name):
        return int(np.argmax(np.where(table["function"] == name, table["memops"], 0)))

    one, other = block("ordinary"), block("half_past")
    assert past.share[[one, other]] == pytest.approx([0.0, 0.5])
    assert past.bytes_each[other] == pytest.approx(8)
    assert where.served[one, 1:].sum() == pytest.approx(0.25, abs=0.02)  # a line every four stores, from L3
    assert where.served[one, -1] < 0.05
    lines = where.lines(np.ones(table.height))[other]
    assert lines[-1, SEQUENTIAL] == pytest.approx(0.125, abs=0.02)
    assert lines[:-1].sum() == pytest.approx(0.125, abs=0.02)
    assert where.written_back[other] == pytest.approx(where.written_back[one] / 2, abs=0.02)
    assert where.served[other].sum() == pytest.approx(1.0)
