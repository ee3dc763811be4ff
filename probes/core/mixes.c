#define _GNU_SOURCE
#include "mixes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../clock.h"
#include "cycles.h"
#include "kinds.h"

#define LEAST_COPIES 192 /* instructions in a turn */
#define AMONG 23         /* slots beside one instruction whose own are asked for */
#define LENGTH 8         /* bytes of each instruction, with prefixes that say nothing */
#define MOST_OF_A_KIND 4 /* of one kind for each of the other */
#define WANTED 9         /* samples that count */
#define KEPT 32
#define ATTEMPTS 12 /* of a piece in a round */
#define SECONDS 15.0
#define SAMPLE_CYCLES 24000
#define CLOCK_TURNS 48
#define SAME_CLOCK 0.04
#define WITNESS_TURNS 400
#define WITNESS_BYTES 55 /* before the loop of six instructions that it shares between two lines of code */
#define ALIKE 1.15
#define LOWEST 5
#define LOOKS 150 /* at the witness before all samples: others on the core stay for 100 ms and more */
#define PAUSE_NANOSECONDS 8000000

/* A piece: `count` of one kind with `other_count` of another, none: the kind alone. */
struct cv_mix {
    const struct cv_kind *kind, *other;
    unsigned count, other_count, kept, samples;
    double cycles[KEPT], witness[KEPT]; /* of a copy; the longer of the witnesses before and after it */
};

/* Nothing else runs on the core while a loop of taken branches takes no longer than it ever does: a busy sibling thread takes turns in the
 * prediction of branches, so that the loop takes twice as long, whatever else the thread does. */
struct cv_bench {
    struct cv_clock clock;
    struct cv_code code, witness;
    char *hot;
    double empty, least;   /* seconds that timing itself takes; cycles of the witness alone on its core */
    double lowest[LOWEST]; /* of the witness, ascending: the last of them counts, for a clock that stopped twice makes one too low */
};

static double cv_timed(const struct cv_bench *bench, const struct cv_code *code, uint64_t turns, uint64_t loops)
{
    struct cv_registers registers = cv_start(bench->hot);
    registers.rbp = loops ? loops : registers.rbp;
    return cv_seconds(code, &registers, turns) - bench->empty;
}

static double cv_clock_cycle(const struct cv_bench *bench)
{
    return cv_timed(bench, &bench->clock.code, CLOCK_TURNS, 0) / (bench->clock.cycles * CLOCK_TURNS);
}

static double cv_witness(const struct cv_bench *bench) { return cv_timed(bench, &bench->witness, 1, WITNESS_TURNS); }

/* Eight in a line of code are what every front end we know brings at its full pace: those that fetch decoded code by entries of six or
 * eight want no more, and of shorter instructions, lines hold so many that the front end, not the ports, is what a mix waits for. */
static int cv_put_long(struct cv_code *code, struct cv_piece piece)
{
    static const unsigned char prefix = 0x2e;
    const struct cv_piece one = {&prefix, &prefix + 1};
    const size_t length = (size_t)(piece.end - piece.begin);
    return cv_code_put(code, one, length < LENGTH ? (unsigned)(LENGTH - length) : 0) || cv_code_put(code, piece, 1);
}

static void cv_saw_witness(struct cv_bench *bench, double cycles)
{
    for (int i = 0; i < LOWEST; i++)
        if (cycles < bench->lowest[i]) {
            const double before = bench->lowest[i];
            bench->lowest[i] = cycles;
            cycles = before;
        }
    bench->least = bench->lowest[LOWEST - 1];
}

/* Copies of the mix, evenly interleaved; returns how many, 0 where code cannot be made. */
static unsigned cv_make_mix(struct cv_code *code, const struct cv_mix *mix)
{
    const unsigned each = mix->count + mix->other_count, copies = (LEAST_COPIES + each - 1) / each;
    unsigned written[CV_FAMILIES] = {0};
    if (cv_code_begin(code))
        return 0;
    for (unsigned i = 0; i < copies * each; i++) {
        const int other = (i + 1) * mix->other_count / each != i * mix->other_count / each;
        const struct cv_kind *const kind = other ? mix->other : mix->kind;
        if (cv_put_long(code, cv_variant(kind, written[kind->family]++)))
            return 0;
    }
    return cv_code_seal(code, 1) ? 0 : copies;
}

static unsigned cv_counted(const struct cv_bench *bench, const struct cv_mix *mix)
{
    unsigned count = 0;
    for (unsigned i = 0; i < mix->kept; i++)
        count += mix->witness[i] <= ALIKE * bench->least;
    return count;
}

/* Takes samples of a piece until enough count, or other work takes too much. */
static void cv_sample(struct cv_bench *bench, struct cv_mix *mix)
{
    const unsigned copies = cv_make_mix(&bench->code, mix);
    if (!copies)
        return;
    const double first = cv_timed(bench, &bench->code, 4, 0) / cv_clock_cycle(bench) / 4;
    const uint64_t turns = 1 + (uint64_t)(SAMPLE_CYCLES / fmax(first, 1));
    for (int attempt = 0; attempt < ATTEMPTS && cv_counted(bench, mix) < WANTED; attempt++) {
        double witness = cv_witness(bench);
        const double before = cv_clock_cycle(bench), seconds = cv_timed(bench, &bench->code, turns, 0), after = cv_clock_cycle(bench);
        witness = fmax(witness, cv_witness(bench));
        if (before > (1 + SAME_CLOCK) * after || after > (1 + SAME_CLOCK) * before)
            continue;
        const double cycle = (before + after) / 2;
        const unsigned at = mix->samples++ % KEPT;
        mix->cycles[at] = seconds / cycle / (double)(turns * copies);
        mix->witness[at] = witness / cycle;
        mix->kept = mix->kept < KEPT ? mix->kept + 1 : KEPT;
        cv_saw_witness(bench, mix->witness[at]);
    }
}

static int cv_ascending(const void *left, const void *right)
{
    const double one = *(const double *)left, two = *(const double *)right;
    return (one > two) - (one < two);
}

/* The median of the samples that count; 0 without any. */
static double cv_middle(const struct cv_bench *bench, const struct cv_mix *mix)
{
    double found[KEPT];
    unsigned count = 0;
    for (unsigned i = 0; i < mix->kept; i++)
        if (mix->witness[i] <= ALIKE * bench->least)
            found[count++] = mix->cycles[i];
    qsort(found, count, sizeof *found, cv_ascending);
    return count ? found[count / 2] : 0;
}

static void cv_look_around(struct cv_bench *bench, const volatile sig_atomic_t *stop)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NANOSECONDS};
    for (int i = 0; i < LOOKS && !*stop; i++) {
        for (int again = 0; again < 3; again++) {
            const double before = cv_clock_cycle(bench), witness = cv_witness(bench), after = cv_clock_cycle(bench);
            if (before < (1 + SAME_CLOCK) * after && after < (1 + SAME_CLOCK) * before)
                cv_saw_witness(bench, 2 * witness / (before + after));
        }
        nanosleep(&pause, NULL);
    }
}

/* Rounds over all pieces, until each has samples that count or time is up. */
static void cv_rounds(struct cv_bench *bench, struct cv_mix *mixes, size_t count, double until, const volatile sig_atomic_t *stop)
{
    size_t missing;
    do {
        missing = 0;
        for (size_t i = 0; i < count && !*stop; i++)
            if (cv_counted(bench, &mixes[i]) < WANTED) {
                cv_sample(bench, &mixes[i]);
                missing += cv_counted(bench, &mixes[i]) < WANTED;
            }
    } while (missing && cv_now() < until && !*stop);
}

static void cv_print_mix(const struct cv_bench *bench, const struct cv_mix *mix)
{
    if (!mix->other)
        printf("{\"name\": \"alone.%s\", \"cycles\": [", mix->kind->name);
    else if (mix->other == cv_kinds)
        printf("{\"name\": \"slots.%s\", \"cycles\": [", mix->kind->name);
    else
        printf("{\"name\": \"mix.%s.%u.%s.%u\", \"cycles\": [", mix->kind->name, mix->count, mix->other->name, mix->other_count);
    const char *between = "";
    for (unsigned i = 0; i < mix->kept; i++)
        if (mix->witness[i] <= ALIKE * bench->least) {
            printf("%s%.5g", between, mix->cycles[i]);
            between = ", ";
        }
    puts("]}");
}

/* Of each so many that both take equally long, in small numbers. */
static void cv_balance(struct cv_mix *mix, double cycles, double other_cycles)
{
    double best = HUGE_VAL;
    for (unsigned n = 1; n <= MOST_OF_A_KIND; n++)
        for (unsigned m = 1; m <= MOST_OF_A_KIND; m++) {
            const double apart = fabs(log(n * cycles / (m * other_cycles)));
            if (apart < 0.98 * best) {
                best = apart;
                mix->count = n, mix->other_count = m;
            }
        }
}

static int cv_supported(const struct cv_kind *kind) { return !kind->supported || kind->supported(); }

static int cv_run_mixes(struct cv_bench *bench, struct cv_mix *mixes, const volatile sig_atomic_t *stop)
{
    const double until = cv_now() + SECONDS;
    size_t alone = 0, count;
    for (size_t i = 0; i < cv_kind_count; i++)
        if (cv_supported(&cv_kinds[i]))
            mixes[alone++] = (struct cv_mix){.kind = &cv_kinds[i], .count = 1};
    count = alone;
    for (size_t i = 1; i < alone; i++)
        if (mixes[i].kind->mixed)
            mixes[count++] = (struct cv_mix){.kind = mixes[i].kind, .other = cv_kinds, .count = 1, .other_count = AMONG};
    cv_look_around(bench, stop);
    cv_rounds(bench, mixes, count, until, stop);
    for (size_t i = 1; i < alone; i++)
        for (size_t j = i + 1; j < alone; j++) {
            const double cycles = cv_middle(bench, &mixes[i]), others = cv_middle(bench, &mixes[j]);
            if (!mixes[i].kind->mixed || !mixes[j].kind->mixed || !(cycles > 0) || !(others > 0))
                continue;
            mixes[count] = (struct cv_mix){.kind = mixes[i].kind, .other = mixes[j].kind};
            cv_balance(&mixes[count++], cycles, others);
        }
    cv_rounds(bench, mixes, count, until, stop);
    for (size_t i = 0; i < count && !*stop; i++)
        cv_print_mix(bench, &mixes[i]);
    fflush(stdout);
    return 0;
}

/* The least of many times that timing nothing takes. */
static double cv_empty(void)
{
    double least = HUGE_VAL;
    for (int i = 0; i < 2000; i++) {
        const double begin = cv_now();
        least = fmin(least, cv_now() - begin);
    }
    return least;
}

int cv_mix_probe(struct cv_arena *arena, const volatile sig_atomic_t *stop)
{
    struct cv_bench bench = {.hot = arena->hot, .empty = cv_empty(), .least = HUGE_VAL};
    for (int i = 0; i < LOWEST; i++)
        bench.lowest[i] = HUGE_VAL;
    struct cv_code *const codes[] = {&bench.clock.code, &bench.code, &bench.witness};
    struct cv_mix *const mixes = calloc(cv_kind_count * (cv_kind_count + 3) / 2 + 1, sizeof *mixes);
    int failed = !mixes, opened = 0;
    for (; !failed && opened < 3; opened += !failed)
        failed = cv_code_open(codes[opened], 1 << 16);
    if (!failed && cv_kind_count)
        failed = cv_make_clock(&bench.clock, &bench.code, bench.hot) || cv_make_loop(&bench.witness, 5, WITNESS_BYTES) ||
                 cv_run_mixes(&bench, mixes, stop);
    while (opened--)
        cv_code_close(codes[opened]);
    free(mixes);
    return failed;
}
