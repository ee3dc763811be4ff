"""Runs under SimGrid SMPI with exact counts: the trace holds instructions, and the same ones every time."""

import shutil
import subprocess
import sys

import pytest

from convolver.mpi.time_independent import read_ti

PROGRAM = r"""
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, size;
    volatile double sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 100000 * (rank + 1); i++)
            sum += i;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("smpirun") is None, reason="needs SimGrid: apt install libsimgrid-dev")
def test_work_is_counted_in_instructions_and_repeats_exactly(tmp_path):
    (tmp_path / "p.c").write_text(PROGRAM)
    (tmp_path / "hosts").write_text("h0\nh1\n")
    (tmp_path / "p.xml").write_text(
        '<?xml version=\'1.0\'?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">'
        '<cluster id="c" prefix="h" suffix="" radical="0-1" speed="1Gf" bw="1GBps" lat="1us"/></platform>\n'
    )
    subprocess.run(["smpicc", "-O1", "p.c", "-o", "p"], cwd=tmp_path, check=True)
    run = ["smpirun", "-np", "2", "-platform", "p.xml", "-hostfile", "hosts", "--log=root.thresh:error", "./p"]
    traces = []
    for name in ("a.txt", "b.txt"):
        command = [sys.executable, "-m", "convolver", "mpi", "count", "-o", name, "--", *run]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=900)
        traces.append(read_ti(tmp_path / name))
    work = [[operation.work for operation in rank] for rank in traces[0]]
    assert [[operation.name for operation in rank] for rank in traces[0]] == [["barrier"] * 3] * 2
    # the second rank turns 100,000 times more, in a whole number of instructions; a call costs both the same
    per_turn = (work[1][1] - work[0][1]) / 1e5
    assert 4 <= round(per_turn) <= 9
    assert per_turn == pytest.approx(round(per_turn), abs=0.01)
    assert [[operation.work for operation in rank][1:] for rank in traces[1]] == [listed[1:] for listed in work]
