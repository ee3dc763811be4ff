/* Matrix product in the three versions of the CALL paper: the result is gathered at once, row by row, or element by element.
 *
 *     convolver instrument examples/call/product.c --cc mpicc --mpi -o product_call.c
 *     mpicc -O2 -Iconvolver-call product_call.c convolver-call/libconvolver_call.a -o product
 *     mkdir records; CONVOLVER_CALL_DIR=records mpirun -np 2 ./product 1 120
 *
 * Arguments: case (1, 2 or 3), N, repetitions. N is rounded up to a multiple of the number of ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static float row_times_column(const float *row, const float *b, int n, int column)
{
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += row[k] * b[k * n + column];
    return sum;
}

static void product(int version, int n, int rows, const float *part, const float *b, float *c, float *all)
{
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < n; j++) {
            c[i * n + j] = row_times_column(part + i * n, b, n, j);
            if (version == 3) {
                MPI_Gather(&c[i * n + j], 1, MPI_FLOAT, all, 1, MPI_FLOAT, 0, MPI_COMM_WORLD);
                MPI_Barrier(MPI_COMM_WORLD);
            }
        }
        if (version == 2) {
            MPI_Gather(c + i * n, n, MPI_FLOAT, all, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    if (version == 1) {
        MPI_Gather(c, rows * n, MPI_FLOAT, all, rows * n, MPI_FLOAT, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int P, rank, version = argc > 1 ? atoi(argv[1]) : 1, N = argc > 2 ? atoi(argv[2]) : 100;
    int repetitions = argc > 3 ? atoi(argv[3]) : 3;
    MPI_Init(&argc, &argv);
#pragma cll uses mpi nws
    MPI_Comm_size(MPI_COMM_WORLD, &P);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    N = (N + P - 1) / P * P;
    int rows = N / P;
    float *a = calloc((size_t)N * N, sizeof *a), *b = calloc((size_t)N * N, sizeof *b);
    float *part = calloc((size_t)rows * N, sizeof *part), *c = calloc((size_t)rows * N, sizeof *c);
    float *all = calloc((size_t)N * N, sizeof *all);
    for (int i = 0; i < N * N; i++) {
        a[i] = (float)(i % 7);
        b[i] = (float)(i % 5);
    }
    for (int i = 0; i < repetitions; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
#pragma cll product product[0] + product[1] * N * N * N / P
        MPI_Scatter(a, rows * N, MPI_FLOAT, part, rows * N, MPI_FLOAT, 0, MPI_COMM_WORLD);
        MPI_Bcast(b, N * N, MPI_FLOAT, 0, MPI_COMM_WORLD);
        product(version, N, rows, part, b, c, all);
#pragma cll end product
    }
    if (rank == 0 && all[0] < 0)
        puts("negative");
    free(a), free(b), free(part), free(c), free(all);
    MPI_Finalize();
    return 0;
}
