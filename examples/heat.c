/* Heat on a torus of N x N cells, rows cut among the ranks: a program whose work a rank shrinks with the ranks and whose messages do
 * not. Argument 1: N, a multiple of the ranks; 2: steps. Prints the heat left and the seconds of the steps. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, ranks, side = argc > 1 ? atoi(argv[1]) : 512, steps = argc > 2 ? atoi(argv[2]) : 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int rows = side / ranks, up = (rank + ranks - 1) % ranks, down = (rank + 1) % ranks;
    size_t cells = (size_t)(rows + 2) * side;
    double *now = calloc(cells, sizeof *now), *next = calloc(cells, sizeof *next);
    if (!now || !next)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = side; i < (rows + 1) * side; i++)
        now[i] = (rank * rows * side + i) % 7;
    double begin = MPI_Wtime(), heat = 0;
    for (int step = 0; step < steps; step++) {
        MPI_Request requests[4];
        MPI_Irecv(now, side, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(now + (rows + 1) * side, side, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(now + rows * side, side, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(now + side, side, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        double sum = 0;
        for (int row = 1; row <= rows; row++)
            for (int column = 0; column < side; column++) {
                double *cell = now + row * side + column;
                double left = column ? cell[-1] : cell[side - 1], right = column < side - 1 ? cell[1] : cell[1 - side];
                sum += next[row * side + column] = 0.25 * (cell[-side] + cell[side] + left + right);
            }
        double *old = now;
        now = next, next = old;
        MPI_Allreduce(&sum, &heat, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    double seconds = MPI_Wtime() - begin;
    if (rank == 0)
        printf("heat %.0f after %d steps, %.6f s\n", heat, steps, seconds);
    free(now);
    free(next);
    MPI_Finalize();
    return 0;
}
