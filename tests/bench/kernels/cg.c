/* Conjugate gradients on a sparse matrix with pseudo-random columns, as in NPB CG. Usage: cg [turns] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS 14000
#define ENTRIES 13

static int column[ROWS][ENTRIES];
static double value[ROWS][ENTRIES], x[ROWS], r[ROWS], p[ROWS], q[ROWS];

static void make(void)
{
    unsigned state = 1;
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < ENTRIES; k++) {
            state = state * 1664525u + 1013904223u;
            column[i][k] = k ? (int)((state >> 8) % ROWS) : i;
            value[i][k] = k ? -1.0 / ENTRIES : 2.0;
        }
    }
}

static double begin(void)
{
    for (int i = 0; i < ROWS; i++) {
        x[i] = 0;
        r[i] = p[i] = 1;
    }
    return ROWS;
}

__attribute__((noinline)) static void multiply(void)
{
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        for (int k = 0; k < ENTRIES; k++)
            sum += value[i][k] * p[column[i][k]];
        q[i] = sum;
    }
}

__attribute__((noinline)) static double dot(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < ROWS; i++)
        sum += a[i] * b[i];
    return sum;
}

__attribute__((noinline)) static void update(double *y, double a, const double *b, double scale)
{
    for (int i = 0; i < ROWS; i++)
        y[i] = scale * y[i] + a * b[i];
}

int main(int argc, char **argv)
{
    int turns = argc > 1 ? atoi(argv[1]) : 25;
    make();
    double rho = begin();
    for (int turn = 0; turn < turns; turn++) {
        multiply();
        double alpha = rho / dot(p, q), before = rho;
        update(x, alpha, p, 1);
        update(r, -alpha, q, 1);
        rho = dot(r, r);
        update(p, 1, r, rho / before);
        if (!(rho > 1e-9))
            rho = begin();
    }
    printf("%g\n", sqrt(fabs(rho)));
    return 0;
}
