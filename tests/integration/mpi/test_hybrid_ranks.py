"""Ranks with threads of their own: bursts are elapsed times of the threads."""

from __future__ import annotations

import subprocess

import pytest

from convolver.machine.catalog import find_machine
from convolver.mpi.capture import record
from convolver.mpi.network import Network, flat_configuration
from convolver.mpi.prediction import predict_parallel
from convolver.mpi.traced import record_blocks
from tests.integration.tool_runs import requires_tool

pytestmark = requires_tool
HYBRID = """
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
static double chain(long n)
{
    double x = 1;
    for (long i = 0; i < n; i++)
        x = x * 0.9999999 + 1e-9;
    return x;
}
int main(int argc, char **argv)
{
    int level, rank;
    double sum = 0, all;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < 10; step++) {
#pragma omp parallel num_threads(2) reduction(+ : sum)
        sum += chain(12000000L * (1 + 2 * omp_get_thread_num()));
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    if (!rank)
        printf("%g\\n", all);
    MPI_Finalize();
}
"""


@pytest.mark.slow
def test_bursts_of_a_rank_are_elapsed_times_of_its_threads(library, tmp_path):
    """One thread of each rank does a quarter of the work, the other the rest."""
    launcher, mpicc, _ = library
    (tmp_path / "hybrid.c").write_text(HYBRID)
    subprocess.run([mpicc, "-O2", "-w", "-fopenmp", "hybrid.c", "-o", "hybrid"], cwd=tmp_path, check=True)
    command, folder = [*launcher, "-np", "2", str(tmp_path / "hybrid")], tmp_path / "run.mpi"
    assert record(command, folder).exit_status == 0
    assert record_blocks(command, folder, executions=1).exit_status == 0
    net = Network(flat_configuration(2, latency_seconds=1e-6, bandwidth_bytes_per_second=1e9))
    base, target = find_machine("cloud-epyc-genoa"), find_machine("cloud-server")

    def predicted(cores):
        return predict_parallel(folder, base=base, target=target, base_network=net, target_network=net, cores=cores).document

    two, one = predicted(None), predicted(1)
    # Three quarters, and what the threads' meetings and the serial parts of a burst take: 0.01 to 0.04 more.
    assert 0.74 < two["predicted_burst_seconds"] / one["predicted_burst_seconds"] < 0.82
    assert two["burst_seconds"] > 0.9 * two["predicted_burst_seconds"]  # elapsed time, not that of the thread that calls MPI
    for row, alone in zip(two["ranks"], one["ranks"], strict=True):
        assert row["ratio"] == pytest.approx(alone["ratio"], rel=0.03)  # both machines wait for the longer thread
