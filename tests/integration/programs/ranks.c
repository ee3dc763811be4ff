/* Every rank does the same work on data of its own, and as much more as its number; then all sum up. */
#include <mpi.h>
#include <stdio.h>

#define N 1000

static double values[N];

__attribute__((noinline)) double same(void)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += values[i] + i;
    return sum;
}

__attribute__((noinline)) void more(int rank)
{
    for (int i = 0; i < rank * N; i++)
        values[i % N] += i;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double mine = same(), sum = 0;
    more(rank);
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%g\n", sum);
    MPI_Finalize();
    return 0;
}
