#include "mixes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../clock.h"
#include "cycles.h"
#include "kinds.h"

#define LEAST_COPIES 192 /* instructions in a turn */
#define AMONG 23         /* slots beside one instruction whose own are asked for */
#define LENGTH 8         /* bytes of each instruction, with prefixes that say nothing */
#define MOST_OF_A_KIND 4 /* of one kind for each of the other */
#define WANTED 32        /* samples that count */
#define AT_ONCE 1        /* of them: what a core makes of a piece stays the same for a while, and is not always its best */
#define ATTEMPTS 12      /* of a piece in a round */
#define SECONDS 5.0
#define WIDE_SECONDS 2.5 /* more where there are vectors of 64 bytes */
#define CODE_BYTES ((size_t)1 << 16)
#define SAMPLE_CYCLES 24000

/* A piece: `count` of one kind with `other_count` of another, none: the kind alone. */
struct cv_mix {
    const struct cv_kind *kind, *other;
    unsigned count, other_count;
    struct cv_samples samples;
};

/* Eight in a line of code are what every front end we know brings at its full pace: those that fetch decoded code by entries of six or
 * eight want no more, and of shorter instructions, lines hold so many that the front end, not the ports, is what a mix waits for. */
static int cv_put_long(struct cv_code *code, struct cv_piece piece)
{
    static const unsigned char prefix = 0x2e;
    const struct cv_piece one = {&prefix, &prefix + 1};
    const size_t length = (size_t)(piece.end - piece.begin);
    return cv_code_put(code, one, length < LENGTH ? (unsigned)(LENGTH - length) : 0) || cv_code_put(code, piece, 1);
}

static int cv_widest(const struct cv_mix *mix) { return mix->kind->widest || (mix->other && mix->other->widest); }

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
    return cv_code_seal(code, cv_widest(mix) ? CV_WIDEST : 1) ? 0 : copies;
}

/* Takes samples of a piece until enough count, or other work takes too much. */
static void cv_sample_mix(struct cv_bench *bench, struct cv_mix *mix)
{
    const unsigned copies = cv_make_mix(&bench->code, mix);
    if (!copies)
        return;
    struct cv_registers registers = cv_start(bench->hot);
    const double first = cv_turns_cycles(bench, registers, 4) / 4;
    const uint64_t turns = 1 + (uint64_t)(SAMPLE_CYCLES / fmax(first, 1));
    bench->warm = cv_widest(mix) ? 1 + (uint64_t)(CV_WARM_CYCLES / fmax(first, 1)) : 0;
    const unsigned enough = cv_counted(bench, &mix->samples, NULL) + AT_ONCE;
    for (int attempt = 0; attempt < ATTEMPTS && cv_counted(bench, &mix->samples, NULL) < enough; attempt++)
        cv_sample(bench, &registers, turns, (double)(turns * copies), &mix->samples);
}

/* Rounds over all pieces, until each has samples that count or time is up. */
static void cv_rounds(struct cv_bench *bench, struct cv_mix *mixes, size_t count, double until, const volatile sig_atomic_t *stop)
{
    size_t missing;
    do {
        missing = 0;
        for (size_t i = 0; i < count && !*stop; i++)
            if (cv_counted(bench, &mixes[i].samples, NULL) < WANTED) {
                cv_sample_mix(bench, &mixes[i]);
                missing += cv_counted(bench, &mixes[i].samples, NULL) < WANTED;
            }
    } while (missing && cv_now() < until && !*stop);
}

static void cv_print_mix(const struct cv_bench *bench, const struct cv_mix *mix)
{
    char name[160];
    if (!mix->other)
        snprintf(name, sizeof name, "alone.%s", mix->kind->name);
    else if (mix->other == cv_kinds)
        snprintf(name, sizeof name, "slots.%s", mix->kind->name);
    else
        snprintf(name, sizeof name, "mix.%s.%u.%s.%u", mix->kind->name, mix->count, mix->other->name, mix->other_count);
    cv_print_samples(bench, name, 0, &mix->samples);
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

/* Which of the two rounds mixes these kinds: 1 with those of AVX-512, 0 without them; -1: none. */
static int cv_round_of(const struct cv_kind *kind, const struct cv_kind *other)
{
    if (kind->mixing == CV_ALONE || other->mixing == CV_ALONE)
        return -1;
    if (kind->mixing != CV_WIDE && other->mixing != CV_WIDE)
        return 0;
    return kind->mixing >= CV_BESIDE && other->mixing >= CV_BESIDE ? 1 : -1;
}

/* Appends the mixes of a round; returns how many there are now. The first `alone` are those of each kind alone. */
static size_t cv_add_mixes(const struct cv_bench *bench, struct cv_mix *mixes, size_t alone, size_t count, int round)
{
    for (size_t i = 1; i < alone; i++)
        for (size_t j = i + 1; j < alone; j++) {
            const double cycles = cv_middle(bench, &mixes[i].samples), others = cv_middle(bench, &mixes[j].samples);
            if (cv_round_of(mixes[i].kind, mixes[j].kind) != round || !(cycles > 0) || !(others > 0))
                continue;
            mixes[count] = (struct cv_mix){.kind = mixes[i].kind, .other = mixes[j].kind};
            cv_balance(&mixes[count++], cycles, others);
        }
    return count;
}

static int cv_run_mixes(struct cv_bench *bench, struct cv_mix *mixes, const volatile sig_atomic_t *stop)
{
    const double until = cv_now() + SECONDS;
    size_t alone = 0, count;
    for (size_t i = 0; i < cv_kind_count; i++)
        if (cv_supported(&cv_kinds[i]))
            mixes[alone++] = (struct cv_mix){.kind = &cv_kinds[i], .count = 1};
    count = alone;
    for (size_t i = 1; i < alone; i++)
        if (mixes[i].kind->mixing != CV_ALONE)
            mixes[count++] = (struct cv_mix){.kind = mixes[i].kind, .other = cv_kinds, .count = 1, .other_count = AMONG};
    cv_rounds(bench, mixes, count, until, stop);
    count = cv_add_mixes(bench, mixes, alone, count, 0);
    cv_rounds(bench, mixes, count, until, stop);
    const size_t narrow = count;
    count = cv_add_mixes(bench, mixes, alone, count, 1);
    bench->patience = WIDE_SECONDS;
    cv_rounds(bench, mixes + narrow, count - narrow, cv_now() + WIDE_SECONDS, stop);
    for (size_t i = 0; i < count && !*stop; i++)
        cv_print_mix(bench, &mixes[i]);
    cv_print_witness(bench);
    return 0;
}

int cv_mix_probe(struct cv_arena *arena, const volatile sig_atomic_t *stop)
{
    struct cv_bench bench;
    if (!cv_kind_count)
        return 0;
    struct cv_mix *const mixes = calloc(cv_kind_count * (cv_kind_count + 3) / 2 + 1, sizeof *mixes);
    if (!mixes)
        return 1;
    int failed = cv_bench_open(&bench, arena->hot, CODE_BYTES, SECONDS, stop);
    if (!failed) {
        failed = cv_run_mixes(&bench, mixes, stop);
        cv_bench_close(&bench);
    }
    free(mixes);
    return failed != 0;
}
