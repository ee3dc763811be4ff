/* One-sided operations in all three kinds of synchronization. Argument 1: rounds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, rounds = argc > 1 ? atoi(argv[1]) : 3;
    double *window, value = 1, got = 0;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(64 * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    int next = (rank + 1) % size;
    for (int r = 0; r < rounds; r++) {
        MPI_Win_fence(0, win);
        MPI_Put(&value, 1, MPI_DOUBLE, next, rank, 1, MPI_DOUBLE, win);
        MPI_Win_fence(0, win);
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
        MPI_Accumulate(&value, 1, MPI_DOUBLE, next, 8, 1, MPI_DOUBLE, MPI_SUM, win);
        MPI_Request q;
        MPI_Rget(&got, 1, MPI_DOUBLE, next, 8, 1, MPI_DOUBLE, win, &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        MPI_Win_unlock(next, win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}
