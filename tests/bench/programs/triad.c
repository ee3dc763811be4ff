/* STREAM's triad: a[i] = b[i] + factor * c[i], by default over vectors far larger than any cache.
 * Usage: triad [elements] [turns] */
#include <stdio.h>
#include <stdlib.h>

#define ELEMENTS 4000000
#define TURNS 30

__attribute__((noinline)) static void triad(double *a, const double *b, const double *c, double factor, int elements)
{
    for (int i = 0; i < elements; i++)
        a[i] = b[i] + factor * c[i];
}

int main(int argc, char **argv)
{
    const int elements = argc > 1 ? atoi(argv[1]) : ELEMENTS, turns = argc > 2 ? atoi(argv[2]) : TURNS;
    const size_t bytes = sizeof(double) * (size_t)elements;
    double *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
    if (!a || !b || !c)
        return 1;
    for (int i = 0; i < elements; i++)
        a[i] = 0, b[i] = i, c[i] = 1;
    for (int turn = 0; turn < turns; turn++)
        triad(a, b, c, turn, elements);
    printf("%g\n", a[elements / 2]);
    return 0;
}
