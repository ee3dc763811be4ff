/* y = A x, A in compressed rows with pseudo-random columns. Usage: spmv [repeats] */
#include <stdio.h>
#include <stdlib.h>

#define ROWS 20000
#define ENTRIES 7

static int start[ROWS + 1], column[ROWS * ENTRIES];
static double value[ROWS * ENTRIES], x[ROWS], y[ROWS];

__attribute__((noinline)) static void spmv(void)
{
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int k = start[i]; k < start[i + 1]; k++)
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}

int main(int argc, char **argv)
{
    int repeats = argc > 1 ? atoi(argv[1]) : 100;
    unsigned state = 1;
    for (int i = 0; i < ROWS; i++) {
        x[i] = i;
        start[i + 1] = start[i] + ENTRIES;
        for (int k = start[i]; k < start[i + 1]; k++) {
            state = state * 1664525u + 1013904223u;
            column[k] = (state >> 8) % ROWS;
            value[k] = 1.0 / (k + 1);
        }
    }
    for (int r = 0; r < repeats; r++)
        spmv();
    printf("%g\n", y[ROWS / 2]);
    return 0;
}
