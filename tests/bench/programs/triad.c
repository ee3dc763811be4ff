/* STREAM's triad: a[i] = b[i] + factor * c[i] over vectors far larger than any cache. */
#include <stdio.h>
#include <stdlib.h>

#define ELEMENTS 4000000
#define TURNS 30

__attribute__((noinline)) static void triad(double *a, const double *b, const double *c, double factor)
{
    for (int i = 0; i < ELEMENTS; i++)
        a[i] = b[i] + factor * c[i];
}

int main(void)
{
    double *a = malloc(sizeof *a * ELEMENTS), *b = malloc(sizeof *b * ELEMENTS), *c = malloc(sizeof *c * ELEMENTS);
    if (!a || !b || !c)
        return 1;
    for (int i = 0; i < ELEMENTS; i++)
        a[i] = 0, b[i] = i, c[i] = 1;
    for (int turn = 0; turn < TURNS; turn++)
        triad(a, b, c, turn);
    printf("%g\n", a[ELEMENTS / 2]);
    return 0;
}
