/* A small halo exchange on a ring: posted receives (one by wildcard), a persistent pair, Sendrecv, split communicator, collectives in
 * all forms. Argument 1: steps; 2: "abort" or "kill" to end early; prints the elapsed time between Init and Finalize. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 4096 };

static double work(double *cells, int rounds)
{
    double sum = 0;
    for (int r = 0; r < rounds; r++)
        for (int i = 1; i < CELLS - 1; i++) {
            cells[i] = 0.25 * cells[i - 1] + 0.5 * cells[i] + 0.25 * cells[i + 1];
            sum += cells[i];
        }
    return sum;
}

int main(int argc, char **argv)
{
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 10;
    static double cells[CELLS], in[2][CELLS];
    MPI_Init(&argc, &argv);
    double begin = MPI_Wtime();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int i = 0; i < CELLS; i++)
        cells[i] = rank + i;
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Request persistent[2];
    MPI_Send_init(cells, 64, MPI_DOUBLE, right, 9, MPI_COMM_WORLD, &persistent[0]);
    MPI_Recv_init(in[0], 64, MPI_DOUBLE, left, 9, MPI_COMM_WORLD, &persistent[1]);
    double sum = 0, all = 0;
    for (int step = 0; step < steps; step++) {
        MPI_Request requests[4];
        MPI_Status statuses[4];
        sum = work(cells, 20);
        MPI_Irecv(in[0], CELLS, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(in[1], CELLS, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(cells, 512, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(cells, 512, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, statuses);
        sum += work(cells, 20);
        MPI_Sendrecv(cells, 8, MPI_DOUBLE, right, 3, in[0], 8, MPI_DOUBLE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Startall(2, persistent);
        MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Bcast(&all, 1, MPI_DOUBLE, 0, half);
        MPI_Request pending;
        MPI_Iallreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &pending);
        sum += work(cells, 5);
        MPI_Wait(&pending, MPI_STATUS_IGNORE);
        if (argc > 2 && step == steps / 2 && rank == 0) {
            if (strcmp(argv[2], "abort") == 0)
                MPI_Abort(MPI_COMM_WORLD, 3);
            if (strcmp(argv[2], "kill") == 0)
                raise(SIGKILL);
        }
    }
    if (rank == 0 && size > 1)
        MPI_Recv(in[0], CELLS, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (rank == 1)
        MPI_Send(cells, 100, MPI_DOUBLE, 0, 77, MPI_COMM_WORLD);
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Request_free(&persistent[0]);
    MPI_Request_free(&persistent[1]);
    MPI_Comm_free(&half);
    double end = MPI_Wtime();
    if (rank == 0)
        printf("%.9f %.17g\n", end - begin, all);
    MPI_Finalize();
    return 0;
}
