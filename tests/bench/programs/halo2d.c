/* Jacobi relaxation of an N x N grid split by rows; neighbors exchange a row each step. Arguments: N, steps. Prints the seconds of the
 * loop and the sum of the grid. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void relax(const double *from, double *to, int rows, int n)
{
    for (int i = 1; i <= rows; i++)
        for (int j = 1; j < n - 1; j++)
            to[(size_t)i * n + j] = 0.25 * (from[(size_t)(i - 1) * n + j] + from[(size_t)(i + 1) * n + j] + from[(size_t)i * n + j - 1] +
                                            from[(size_t)i * n + j + 1]);
}

int main(int argc, char **argv)
{
    int rank, size, n = argc > 1 ? atoi(argv[1]) : 1500, steps = argc > 2 ? atoi(argv[2]) : 40;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rows = n / size, up = rank ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    size_t cells = (size_t)(rows + 2) * (size_t)n;
    double *a = calloc(cells, sizeof *a), *b = calloc(cells, sizeof *b), own = 0, all = 0;
    for (size_t i = 0; i < cells; i++)
        a[i] = b[i] = (double)((i * 2654435761u + (size_t)rank) % 1000) / 1000;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        MPI_Request q[4];
        MPI_Status states[4];
        MPI_Irecv(a, n, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &q[0]);
        MPI_Irecv(a + (size_t)(rows + 1) * n, n, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &q[1]);
        MPI_Isend(a + n, n, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &q[2]);
        MPI_Isend(a + (size_t)rows * n, n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &q[3]);
        MPI_Waitall(4, q, states);
        relax(a, b, rows, n);
        double *other = a;
        a = b;
        b = other;
        if (step % 10 == 9) {
            own = a[(size_t)rows * n / 2];
            MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
    }
    double spent = MPI_Wtime() - begin;
    own = 0;
    for (size_t i = (size_t)n; i < cells - (size_t)n; i++)
        own += a[i];
    MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.6f %.10g\n", spent, all);
    MPI_Finalize();
    free(a);
    free(b);
    return 0;
}
