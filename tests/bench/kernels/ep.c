/* Gaussian deviates by the polar method, counted in rings, as in NPB EP. Usage: ep [thousands of pairs] */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 65536
#define MASK ((UINT64_C(1) << 46) - 1)

static double numbers[2 * BATCH];
static long rings[16];

__attribute__((noinline)) static uint64_t draw(uint64_t state, int count)
{
    for (int i = 0; i < 2 * count; i++) {
        state = state * 1220703125u & MASK;
        numbers[i] = (double)state * 0x1p-46;
    }
    return state;
}

__attribute__((noinline)) static double deviate(int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        double a = 2 * numbers[2 * i] - 1, b = 2 * numbers[2 * i + 1] - 1, t = a * a + b * b;
        if (t > 1 || t == 0)
            continue;
        double scale = sqrt(-2 * log(t) / t), u = fabs(a * scale), v = fabs(b * scale);
        rings[(int)(u > v ? u : v) & 15]++;
        sum += u + v;
    }
    return sum;
}

int main(int argc, char **argv)
{
    long pairs = (argc > 1 ? atol(argv[1]) : 1000) * 1000;
    uint64_t state = 271828183;
    double sum = 0;
    for (; pairs > 0; pairs -= BATCH) {
        int count = pairs < BATCH ? (int)pairs : BATCH;
        state = draw(state, count);
        sum += deviate(count);
    }
    printf("%g %ld\n", sum, rings[0]);
    return 0;
}
