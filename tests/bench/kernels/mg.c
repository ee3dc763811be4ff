/* Multigrid V-cycles for a Poisson problem on a cube, as in NPB MG. Usage: mg [cycles] */
#include <stdio.h>
#include <stdlib.h>

#define LEVELS 5
#define LARGEST 66 /* 64 points and a border */

static double *u[LEVELS], *f[LEVELS], *rest[LEVELS];

#define AT(a, n, i, j, k) (a)[((i) * (n) + (j)) * (n) + (k)]

__attribute__((noinline)) static void smooth(double *a, const double *b, int n)
{
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++)
                AT(a, n, i, j, k) = (AT(a, n, i - 1, j, k) + AT(a, n, i + 1, j, k) + AT(a, n, i, j - 1, k) + AT(a, n, i, j + 1, k) +
                                     AT(a, n, i, j, k - 1) + AT(a, n, i, j, k + 1) + AT(b, n, i, j, k)) /
                                    6;
}

__attribute__((noinline)) static void residual(double *r, const double *a, const double *b, int n)
{
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++)
                AT(r, n, i, j, k) = AT(b, n, i, j, k) + AT(a, n, i - 1, j, k) + AT(a, n, i + 1, j, k) + AT(a, n, i, j - 1, k) +
                                    AT(a, n, i, j + 1, k) + AT(a, n, i, j, k - 1) + AT(a, n, i, j, k + 1) - 6 * AT(a, n, i, j, k);
}

__attribute__((noinline)) static void restrict_to(double *coarse, const double *fine, int n, int m)
{
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++)
                AT(coarse, n, i, j, k) = 4 * AT(fine, m, 2 * i - 1, 2 * j - 1, 2 * k - 1);
}

__attribute__((noinline)) static void correct(double *fine, const double *coarse, int n, int m)
{
    for (int i = 1; i < m - 1; i++)
        for (int j = 1; j < m - 1; j++)
            for (int k = 1; k < m - 1; k++)
                AT(fine, m, i, j, k) += AT(coarse, n, (i + 1) / 2, (j + 1) / 2, (k + 1) / 2);
}

static int side(int level) { return ((LARGEST - 2) >> level) + 2; }

static void cycle(int level)
{
    int n = side(level);
    smooth(u[level], f[level], n);
    if (level == LEVELS - 1)
        return;
    int coarse = side(level + 1);
    residual(rest[level], u[level], f[level], n);
    restrict_to(f[level + 1], rest[level], coarse, n);
    for (int i = 0; i < coarse * coarse * coarse; i++)
        u[level + 1][i] = 0;
    cycle(level + 1);
    correct(u[level], u[level + 1], coarse, n);
    smooth(u[level], f[level], n);
}

int main(int argc, char **argv)
{
    int cycles = argc > 1 ? atoi(argv[1]) : 3;
    for (int level = 0; level < LEVELS; level++) {
        size_t points = (size_t)side(level) * side(level) * side(level);
        u[level] = calloc(points, sizeof(double));
        f[level] = calloc(points, sizeof(double));
        rest[level] = calloc(points, sizeof(double));
        if (!u[level] || !f[level] || !rest[level])
            return 1;
    }
    AT(f[0], LARGEST, 20, 30, 40) = 1;
    AT(f[0], LARGEST, 50, 10, 20) = -1;
    for (int c = 0; c < cycles; c++)
        cycle(0);
    printf("%g\n", AT(u[0], LARGEST, 20, 30, 40));
    return 0;
}
