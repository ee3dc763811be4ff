/* Runs the functions: `measure SET CALLS` prints the name and the cycles of a call, the least of many samples over a chain of
 * multiplications timed beside each, of those during which nothing else ran on the core (0: there were none); `run SET CALLS` calls each so
 * many times, for the tracer.
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
#define SECONDS 1.0    /* of a function, on a core that others share */
#define FUNCTIONS 64   /* most of a set */
#define TURNS_LOOK 400 /* of the witness */
#define PIECES 3       /* of the clock's chain */
#define ALIKE 1.15     /* as in the probe */

/* Of a function, with the longer of the witnesses before and after each sample. */
static struct samples {
    double cycles[SAMPLES], witness[SAMPLES];
    int taken;
} all[FUNCTIONS];
static double least = 1e9; /* of the witness: on a core alone */

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

/* Seconds of a cycle: dependent multiplications take three each. (Additions, one each, lose turns to a busy sibling thread.) The least of
 * some pieces: an interruption that both clocks of a sample saw would make all but that sample look shared. */
static double cycle(void)
{
    uint64_t r = 1, one = 1;
    double shortest = 1e9;
    for (int piece = 0; piece < PIECES; piece++) {
        const double begin = now();
        for (int i = 0; i < 1000; i++)
            __asm__ volatile(EIGHT("imul %1,%0\n") : "+r"(r) : "r"(one));
        const double seconds = now() - begin;
        shortest = seconds < shortest ? seconds : shortest;
    }
    return shortest / (1000 * 8 * 3);
}

/* Seconds of a loop of taken branches across two lines of code: twice as many while another thread runs on the core (probes/core). */
static __attribute__((noinline)) double witness(void)
{
    uint64_t turns = TURNS_LOOK;
    const double begin = now();
    __asm__ volatile(".p2align 6\n .skip 58, 0x90\n 1: nop\n nop\n nop\n nop\n dec %0\n .byte 0x0f, 0x85\n .long 1b - . - 4\n"
                     : "+r"(turns));
    return now() - begin;
}

static int ascending(const void *left, const void *right)
{
    const double p = *(const double *)left, q = *(const double *)right;
    return (p > q) - (p < q);
}

static void measure(function run, int calls, struct samples *found)
{
    const double end = now() + SECONDS;
    while (found->taken < SAMPLES && now() < end) {
        prepare();
        for (int i = 0; i < calls; i++)
            sink = run();
        const double first = witness(), before = cycle(), begin = now();
        for (int i = 0; i < calls; i++)
            sink = run();
        const double seconds = (now() - begin) / calls, after = cycle(), last = witness();
        const double look = (first > last ? first : last) / (before + after);
        /* A clock that changed between the two says nothing. */
        if (before > 1.01 * after || after > 1.01 * before)
            continue;
        least = look < least ? look : least;
        if (look < ALIKE * least) {
            found->cycles[found->taken] = 2 * seconds / (before + after);
            found->witness[found->taken++] = look;
        }
    }
}

/* The 10th percentile: disturbances add time to a sample, more rarely to the clock's own chain beside it. */
static double cycles_of(const struct samples *found)
{
    double counted[SAMPLES];
    int count = 0;
    for (int i = 0; i < found->taken; i++)
        if (found->witness[i] < ALIKE * least)
            counted[count++] = found->cycles[i];
    qsort(counted, (size_t)count, sizeof *counted, ascending);
    return count ? counted[count / 10] : 0;
}

int main(int count, char **words_)
{
    const struct entry *const set = count > 2 && !strcmp(words_[2], "frozen") ? frozen : looked_at;
    for (const struct entry *e = set; e->name; e++)
        if (!strcmp(words_[1], "measure")) {
            measure(e->run, atoi(words_[3]), &all[e - set]);
        } else {
            prepare();
            for (int i = 0; i < atoi(words_[3]); i++)
                sink = e->run();
        }
    for (const struct entry *e = set; e->name && !strcmp(words_[1], "measure"); e++)
        printf("%s %.1f\n", e->name, cycles_of(&all[e - set]));
    return 0;
}
