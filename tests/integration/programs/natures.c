/* Kernels of known nature, by name: each spends nearly all of its time on one thing. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static NOINLINE void triad(double *a, const double *b, const double *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + 3.0 * c[i];
    __asm__ volatile("" : : "r"(a) : "memory");
}

/* The first half of each line only, so that the first level's ports do not have as much to do as what is after it. */
static NOINLINE void triad_lines(double *a, const double *b, const double *c, size_t n)
{
    typedef double four __attribute__((vector_size(32), aligned(8), may_alias));
#pragma GCC unroll 4
    for (size_t i = 0; i < n; i += 8)
        *(four *)&a[i] = *(const four *)&b[i] + 3.0 * *(const four *)&c[i];
    __asm__ volatile("" : : "r"(a) : "memory");
}

/* One cycle through all lines of a buffer, group after group in random order, and within a group (Sattolo). */
static NOINLINE void link_lines(void **at, size_t lines, size_t group)
{
    uint32_t *order = malloc(lines * sizeof *order);
    for (size_t i = 0; i < lines; i++)
        order[i] = (uint32_t)i;
    for (size_t i = lines - 1; i; i--) {
        const size_t k = i / group * group + next() % (i % group + 1);
        const uint32_t one = order[i];
        order[i] = order[k];
        order[k] = one;
    }
    for (size_t i = 0; i < lines; i++)
        at[8 * order[i]] = &at[8 * order[(i + 1) % lines]];
    free(order);
}

static NOINLINE void *chase(void **at, size_t steps)
{
    while (steps--)
        at = *at;
    return at;
}

static NOINLINE uint64_t branches(const uint8_t *bits, size_t n, int turns)
{
    uint64_t sum = 0;
    while (turns--)
        for (size_t i = 0; i < n; i++) {
            if (bits[i] & 1)
                __asm__ volatile("add $3, %0" : "+r"(sum));
            else
                __asm__ volatile("xor $5, %0" : "+r"(sum));
        }
    return sum;
}

static NOINLINE double divide(double x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x = 1.5 / x;
    return x;
}

static NOINLINE double gather(const double *x, const uint32_t *index, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[index[i]];
    return sum;
}

/* Four by twelve sums at a time, which stay in registers; b in panels of twelve columns. */
static NOINLINE void dgemm(const double *a, const double *b, double *c, size_t n)
{
    typedef double four __attribute__((vector_size(32), aligned(8), may_alias));
    for (size_t j = 0; j < n; j += 12)
        for (size_t i = 0; i < n; i += 4) {
            four s[4][3] = {0};
            for (size_t k = 0; k < n; k++)
                for (int r = 0; r < 4; r++)
                    for (int q = 0; q < 3; q++)
                        s[r][q] += a[(i + r) * n + k] * *(const four *)&b[j * n + 12 * k + 4 * q];
            for (int r = 0; r < 4; r++)
                for (int q = 0; q < 3; q++)
                    *(four *)&c[(i + r) * n + j + 4 * q] = s[r][q];
        }
    __asm__ volatile("" : : "r"(c) : "memory");
}

static double *numbers(size_t n)
{
    double *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = 1.0 + (double)(i & 7);
    return x;
}

static void triads(void (*one)(double *, const double *, const double *, size_t), size_t n, int turns)
{
    double *a = numbers(n), *b = numbers(n), *c = numbers(n);
    while (turns--)
        one(a, b, c, n);
}

static void chases(size_t bytes, size_t group, size_t steps)
{
    void **at = malloc(bytes);
    link_lines(at, bytes / 64, group);
    printf("%p\n", chase(at, steps));
}

int main(int argc, char **argv)
{
    const char *kernel = argc > 1 ? argv[1] : "";
    if (!strcmp(kernel, "triad-l2"))
        triads(triad_lines, 10000, 1000);
    else if (!strcmp(kernel, "triad-memory"))
        triads(triad, 4 << 20, 4);
    else if (!strcmp(kernel, "chase-l3"))
        chases(4 << 20, 1 << 16, 4000000);
    else if (!strcmp(kernel, "chase-memory"))
        chases(256 << 20, 64, 3000000);
    else if (!strcmp(kernel, "branches")) {
        static uint8_t bits[16 << 10];
        for (size_t i = 0; i < sizeof bits; i++)
            bits[i] = (uint8_t)(next() >> 20);
        printf("%lu\n", (unsigned long)branches(bits, sizeof bits, 200));
    } else if (!strcmp(kernel, "divide"))
        printf("%g\n", divide(1.25, 4000000));
    else if (!strcmp(kernel, "dgemm")) {
        double *a = numbers(240 * 240), *b = numbers(240 * 240), *c = numbers(240 * 240);
        dgemm(a, b, c, 240);
    } else if (!strcmp(kernel, "gather")) {
        const size_t n = 4 << 20;
        uint32_t *index = malloc(n * sizeof *index);
        for (size_t i = 0; i < n; i++)
            index[i] = (uint32_t)(next() % (24 << 20));
        printf("%g\n", gather(calloc(24 << 20, 8), index, n));
    } else
        return 2;
    return 0;
}
