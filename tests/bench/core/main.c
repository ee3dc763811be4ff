/* Runs the functions: `measure SET CALLS` prints the name and the cycles of a call, the least of many samples over a chain of
 * multiplications timed beside each; `run SET CALLS` calls each so many times, for the tracer.
 *
 * Functions change their data, and some run out of work: a heap whose largest value is replaced again and again holds only small ones
 * in the end. So a sample is of the same calls that are traced: those from CALLS to twice CALLS since the data were made. Only random
 * numbers go on from sample to sample, or predictors would learn them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "functions.h"

/* Lengths that are no powers of two: loads and stores at the same place in two pages look alike to the store buffer. */
double x[N + 9], y[N + 27], z[N + 45];
float f[N + 20], g[N + 60], h[N + 100];
int a[N + 24], b[N + 56], c[N + 88];
unsigned char s[N + 96], t[N + 160];
uint32_t words[256 + 24];
uint64_t random_state = 1;
static volatile double sink;

#define SAMPLES 200

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void prepare(void)
{
    const uint64_t random = random_state;
    random_state = 12345;
    for (int i = 0; i < N; i++) {
        x[i] = fresh() % 1000 / 1000.0 + 0.5, y[i] = fresh() % 1000 / 1000.0, f[i] = (float)x[i], g[i] = (float)y[i];
        a[i] = (int)(fresh() % 100000), c[i] = 4 * i;
        b[i] = (i * 167 + 13) & (N - 1);
        s[i] = (unsigned char)(fresh() % 96 + 32), t[i] = (unsigned char)(fresh() % 96 + 32);
    }
    for (int i = 0; i < 256; i++)
        words[i] = fresh();
    memset(z, 0, sizeof z), memset(h, 0, sizeof h);
    random_state = random;
}

#define EIGHT(text) text text text text text text text text

/* Seconds of a cycle: dependent multiplications take three each. (Additions, one each, lose turns to a busy sibling thread.) */
static double cycle(void)
{
    uint64_t r = 1, one = 1;
    const double begin = now();
    for (int i = 0; i < 1000; i++)
        __asm__ volatile(EIGHT("imul %1,%0\n") : "+r"(r) : "r"(one));
    return (now() - begin) / (1000 * 8 * 3);
}

static int ascending(const void *left, const void *right)
{
    const double p = *(const double *)left, q = *(const double *)right;
    return (p > q) - (p < q);
}

/* The 10th percentile: disturbances add time to a sample, more rarely to the clock's own chain beside it. */
static double measure(function run, int calls)
{
    double cycles[SAMPLES];
    int taken = 0;
    for (int turn = 0; turn < 10 * SAMPLES && taken < SAMPLES; turn++) {
        prepare();
        for (int i = 0; i < calls; i++)
            sink = run();
        const double before = cycle(), begin = now();
        for (int i = 0; i < calls; i++)
            sink = run();
        const double seconds = (now() - begin) / calls, after = cycle();
        /* A clock that changed between the two says nothing. */
        if (before < 1.01 * after && after < 1.01 * before)
            cycles[taken++] = 2 * seconds / (before + after);
    }
    qsort(cycles, (size_t)taken, sizeof *cycles, ascending);
    return taken ? cycles[taken / 10] : 0;
}

int main(int count, char **words_)
{
    const struct entry *const set = count > 2 && !strcmp(words_[2], "frozen") ? frozen : looked_at;
    for (const struct entry *e = set; e->name; e++)
        if (!strcmp(words_[1], "measure")) {
            printf("%s %.1f\n", e->name, measure(e->run, atoi(words_[3])));
            fflush(stdout);
        } else {
            prepare();
            for (int i = 0; i < atoi(words_[3]); i++)
                sink = e->run();
        }
    return 0;
}
