/* Sums an array some times; arguments: elements, rounds, exit status or -signal. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) double sum(const double *values, int count)
{
    double total = 0;
    __asm__ volatile("" ::: "memory"); /* each call counts: no compiler may drop one */
    for (int i = 0; i < count; i++)
        total += values[i];
    return total;
}

__attribute__((noinline)) void fill(double *values, int count)
{
    for (int i = 0; i < count; i++)
        values[i] = i;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1000, rounds = argc > 2 ? atoi(argv[2]) : 10, status = argc > 3 ? atoi(argv[3]) : 0;
    double *values = malloc(count * sizeof *values), total = 0;
    fill(values, count);
    for (int round = 0; round < rounds; round++)
        total += sum(values, count);
    printf("%g\n", total);
    fflush(stdout);
    if (status < 0)
        raise(-status);
    return status;
}
