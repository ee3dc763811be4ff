/* a = b + s * c, over arrays that fit the second-level cache. Usage: triad [repeats] */
#include <stdio.h>
#include <stdlib.h>

#define N 20000

static double a[N], b[N], c[N];

__attribute__((noinline)) static void triad(double s)
{
    for (int i = 0; i < N; i++)
        a[i] = b[i] + s * c[i];
}

int main(int argc, char **argv)
{
    int repeats = argc > 1 ? atoi(argv[1]) : 1000;
    for (int i = 0; i < N; i++) {
        b[i] = i;
        c[i] = 0.5 * i;
    }
    for (int r = 0; r < repeats; r++)
        triad(1.0 + r);
    printf("%g\n", a[N / 2]);
    return 0;
}
