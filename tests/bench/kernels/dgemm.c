/* C += A B, row by row, the inner loop along a row of B. Usage: dgemm [repeats] */
#include <stdio.h>
#include <stdlib.h>

#define N 120

static double a[N][N], b[N][N], c[N][N];

__attribute__((noinline)) static void dgemm(void)
{
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            double s = a[i][k];
            for (int j = 0; j < N; j++)
                c[i][j] += s * b[k][j];
        }
}

int main(int argc, char **argv)
{
    int repeats = argc > 1 ? atoi(argv[1]) : 20;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = i + j;
            b[i][j] = i - j;
        }
    for (int r = 0; r < repeats; r++)
        dgemm();
    printf("%g\n", c[N / 2][1]);
    return 0;
}
