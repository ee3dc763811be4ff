/* The plain triple loop, i-k-j: C += A B with 400 x 400 doubles; each row of B is reused 400 times. */
#include <stdio.h>
#include <stdlib.h>

#define N 400
#define TURNS 4

__attribute__((noinline)) static void multiply(const double *a, const double *b, double *c)
{
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            for (int j = 0; j < N; j++)
                c[i * N + j] += a[i * N + k] * b[k * N + j];
}

int main(void)
{
    double *a = calloc(N * N, sizeof *a), *b = calloc(N * N, sizeof *b), *c = calloc(N * N, sizeof *c);
    if (!a || !b || !c)
        return 1;
    for (int i = 0; i < N * N; i++)
        a[i] = i % 7, b[i] = i % 5;
    for (int turn = 0; turn < TURNS; turn++)
        multiply(a, b, c);
    printf("%g\n", c[N + 1]);
    return 0;
}
