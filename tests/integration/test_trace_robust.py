"""Unusual programs under the tracer: musl, static, more than 100,000 blocks of code, a heap of 10 GiB."""

import shutil
import subprocess

import polars as pl
import pytest

from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace
from tests.integration.conftest import PROGRAMS
from tests.integration.tool_runs import requires_tool

pytestmark = requires_tool
HUGE = """
#include <stdlib.h>
int main(void)
{
    size_t step = 16 << 20, size = (size_t)10 << 30;
    volatile char *heap = malloc(size);
    for (size_t at = 0; heap && at < size; at += step)
        heap[at] = 1;
    return heap ? 0 : 1;
}
"""
COUNTS = SamplingPlan(mode="counts")


def sums(recorded):
    """Executions of the hot block of loop.c."""
    return recorded.signature.table.filter(pl.col("function") == "sum").sort("loads")["executions"][-1]


@pytest.mark.parametrize("compiler", [["gcc", "-static"], ["musl-gcc"], ["musl-gcc", "-static"]])
def test_static_and_musl_programs_have_exact_counts(tmp_path, compiler):
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"needs {compiler[0]}")
    subprocess.run([*compiler, "-O1", "-g", "-o", tmp_path / "loop", PROGRAMS / "loop.c"], check=True)
    recorded = trace([str(tmp_path / "loop"), "500", "6", "3"], output=tmp_path / "a.cvt", sampling=SamplingPlan(mode="full"))
    assert (recorded.header["exit_status"], recorded.complete, sums(recorded)) == (3, True, 3000)
    assert recorded.header["recorded_references"] == recorded.signature.totals["memops"]


def test_more_than_a_hundred_thousand_blocks(tmp_path):
    count = 52_000
    lines = [".globl main", ".type main, @function", "main:", "xor %eax, %eax"]
    for number in range(count):  # each executed branch ends a block
        lines += ["cmp $1, %eax", f"je .Lend{number}", f".Lend{number}:", f"jmp .Lnext{number}", f".Lnext{number}:"]
    lines += ["ret", '.section .note.GNU-stack,"",@progbits']
    (tmp_path / "many.s").write_text("\n".join(lines) + "\n")
    subprocess.run(["gcc", "-o", tmp_path / "many", tmp_path / "many.s"], check=True)
    recorded = trace([str(tmp_path / "many")], output=tmp_path / "a.cvt", sampling=COUNTS)
    own = recorded.signature.table.filter((pl.col("module") == str(tmp_path / "many")) & (pl.col("function") == "main"))
    assert own.height >= 2 * count
    assert own["instructions"].sum() == 3 * count + 2


def test_a_heap_of_ten_gibibytes_that_is_touched_here_and_there(tmp_path):
    (tmp_path / "huge.c").write_text(HUGE)
    subprocess.run(["gcc", "-O1", "-g", "-o", tmp_path / "huge", tmp_path / "huge.c"], check=True)
    recorded = trace([str(tmp_path / "huge")], output=tmp_path / "a.cvt", sampling=SamplingPlan(mode="full"))
    if recorded.header["exit_status"]:
        pytest.skip("needs 10 GiB of address space")
    assert recorded.complete
    main = recorded.signature.table.filter(pl.col("function") == "main").sort("stores")
    assert main["stores"][-1] == 640
