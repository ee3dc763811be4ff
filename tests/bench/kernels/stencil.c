/* Five-point Jacobi sweeps. Usage: stencil [repeats] */
#include <stdio.h>
#include <stdlib.h>

#define N 300

static double old[N][N], new[N][N];

__attribute__((noinline)) static void sweep(double (*to)[N], double (*from)[N])
{
    for (int i = 1; i < N - 1; i++)
        for (int j = 1; j < N - 1; j++)
            to[i][j] = 0.2 * (from[i][j] + from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1]);
}

int main(int argc, char **argv)
{
    int repeats = argc > 1 ? atoi(argv[1]) : 200;
    for (int i = 0; i < N; i++)
        old[i][0] = new[i][0] = i;
    for (int r = 0; r < repeats; r++) {
        sweep(new, old);
        sweep(old, new);
    }
    printf("%g\n", old[N / 2][1]);
    return 0;
}
