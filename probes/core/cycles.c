#define _GNU_SOURCE
#include "cycles.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../clock.h"
#include "bodies.h"

#define CLOCK_COPIES 64
#define CLOCK_TURNS 96
#define CLOCK_LOOKS 40
#define LEAST_MULTIPLICATION 3 /* cycles: no x86-64 core takes fewer; a sibling that is busy all the time makes it look like two */
#define SAME_CLOCK 0.02        /* a clock that changed more between two looks says nothing of the time between them */
#define WITNESS_SLOTS 5
#define WITNESS_TURNS 400
#define WITNESS_BYTES 55         /* before the loop of six instructions that it shares between two lines of code */
#define ALIKE 1.15               /* as in convolver/probing/samples.py */
#define LOOKS 60                 /* at the witness before all samples: others on the core stay for 100 ms and more */
#define LOOK_NANOSECONDS 4000000 /* between them */
#define WAIT_NANOSECONDS 100000  /* between looks while others share the core, which they leave for some ms or less at a time */

/* A double whose lower half is the same number as a single. */
static uint64_t cv_both(double value)
{
    uint64_t bits;
    uint32_t low;
    const float single = (float)value;
    memcpy(&bits, &value, sizeof bits);
    memcpy(&low, &single, sizeof low);
    return (bits & ~(uint64_t)UINT32_MAX) | low;
}

struct cv_registers cv_start(char *hot)
{
    *(void **)hot = hot;
    return (struct cv_registers){.rax = 0x9e3779b97f4a7c15,
                                 .rcx = 1,
                                 .r8 = 6364136223846793005,
                                 .r9 = 0,
                                 .r10 = 1442695040888963407,
                                 .rdi = (uintptr_t)hot,
                                 .rbp = (uintptr_t)hot,
                                 .xmm = {cv_both(1.69), cv_both(1.1), cv_both(1 / 1.1), cv_both(1.3)}};
}

int cv_make(struct cv_code *code, struct cv_piece piece, unsigned copies, int wide)
{
    return cv_code_begin(code) || cv_code_put(code, piece, copies) || cv_code_seal(code, wide);
}

/* A slot each but for the last one's two instructions, which are one. */
int cv_make_loop(struct cv_code *code, unsigned slots, unsigned skipped)
{
    if (cv_code_begin(code) || cv_code_put(code, cv_loop_slot, skipped) || cv_code_put(code, cv_loop_begin, 1))
        return -1;
    const size_t head = code->used;
    if (cv_code_put(code, cv_loop_slot, slots - 1) || cv_code_put(code, cv_loop_end, 1))
        return -1;
    const int32_t back = (int32_t)((int64_t)head - (int64_t)(code->used + sizeof back));
    const struct cv_piece distance = {(const unsigned char *)&back, (const unsigned char *)(&back + 1)};
    return cv_code_put(code, distance, 1) || cv_code_seal(code, 0);
}

static double cv_seconds(const struct cv_code *code, struct cv_registers *registers, uint64_t turns)
{
    const double begin = cv_now();
    cv_code_run(code, registers, turns);
    return cv_now() - begin;
}

static int cv_make_clock(struct cv_clock *clock, struct cv_code *other, char *hot)
{
    if (cv_make(other, cv_addition, CLOCK_COPIES, 0) || cv_make(&clock->code, cv_multiplication, CLOCK_COPIES, 0))
        return -1;
    struct cv_registers registers = cv_start(hot);
    double one = HUGE_VAL, several = HUGE_VAL; /* in turns, so that both meet the same clocks */
    for (int i = 0; i < CLOCK_LOOKS; i++) {
        one = fmin(one, cv_seconds(other, &registers, CLOCK_TURNS));
        several = fmin(several, cv_seconds(&clock->code, &registers, CLOCK_TURNS));
    }
    clock->cycles = CLOCK_COPIES * fmax(round(several / one), LEAST_MULTIPLICATION);
    return 0;
}

/* Seconds of a cycle now. */
static double cv_cycle(const struct cv_bench *bench)
{
    struct cv_registers registers = cv_start(bench->hot);
    return (cv_seconds(&bench->clock.code, &registers, CLOCK_TURNS) - bench->empty) / (bench->clock.cycles * CLOCK_TURNS);
}

/* Seconds of the witness now. */
static double cv_witness(const struct cv_bench *bench)
{
    struct cv_registers registers = cv_start(bench->hot);
    registers.rbp = WITNESS_TURNS;
    return cv_seconds(&bench->witness, &registers, 1) - bench->empty;
}

static int cv_same_clock(double one, double other) { return one < (1 + SAME_CLOCK) * other && other < (1 + SAME_CLOCK) * one; }

static void cv_saw_witness(struct cv_bench *bench, double cycles)
{
    for (int i = 0; i < CV_LOWEST; i++)
        if (cycles < bench->lowest[i]) {
            const double before = bench->lowest[i];
            bench->lowest[i] = cycles;
            cycles = before;
        }
    bench->least = bench->lowest[CV_LOWEST - 1];
}

static void cv_pause(long nanoseconds) { nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL); }

static void cv_look_around(struct cv_bench *bench, const volatile sig_atomic_t *stop)
{
    for (int i = 0; i < LOOKS && !*stop; i++) {
        for (int again = 0; again < 3; again++) {
            const double before = cv_cycle(bench), witness = cv_witness(bench), after = cv_cycle(bench);
            if (cv_same_clock(before, after))
                cv_saw_witness(bench, 2 * witness / (before + after));
        }
        cv_pause(LOOK_NANOSECONDS);
    }
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

int cv_bench_open(struct cv_bench *bench, char *hot, size_t room, double patience, const volatile sig_atomic_t *stop)
{
    *bench = (struct cv_bench){.hot = hot, .empty = cv_empty(), .least = HUGE_VAL, .patience = patience};
    for (int i = 0; i < CV_LOWEST; i++)
        bench->lowest[i] = HUGE_VAL;
    if (cv_code_open(&bench->code, room))
        return -1;
    if (cv_code_open(&bench->clock.code, 1 << 16)) {
        cv_code_close(&bench->code);
        return -1;
    }
    if (cv_code_open(&bench->witness, 1 << 16)) {
        cv_code_close(&bench->code);
        cv_code_close(&bench->clock.code);
        return -1;
    }
    if (cv_make_clock(&bench->clock, &bench->code, hot) || cv_make_loop(&bench->witness, WITNESS_SLOTS, WITNESS_BYTES)) {
        cv_bench_close(bench);
        return -1;
    }
    cv_look_around(bench, stop);
    return 0;
}

void cv_bench_close(struct cv_bench *bench)
{
    cv_code_close(&bench->witness);
    cv_code_close(&bench->clock.code);
    cv_code_close(&bench->code);
}

double cv_turns_cycles(struct cv_bench *bench, struct cv_registers registers, uint64_t turns)
{
    return (cv_seconds(&bench->code, &registers, turns) - bench->empty) / cv_cycle(bench);
}

/* Waits until nothing else runs on the core; returns the witness's seconds then, or 0 when patience is at an end. */
static double cv_wait(struct cv_bench *bench)
{
    for (;;) {
        const double witness = cv_witness(bench);
        if (witness <= ALIKE * bench->least * cv_cycle(bench))
            return witness;
        if (bench->patience <= 0)
            return 0;
        const double begin = cv_now();
        cv_pause(WAIT_NANOSECONDS);
        bench->patience -= cv_now() - begin;
    }
}

void cv_sample(struct cv_bench *bench, struct cv_registers *registers, uint64_t turns, double each, struct cv_samples *samples)
{
    const double first = cv_wait(bench);
    if (!(first > 0))
        return;
    const long switches = cv_switches();
    const double before = cv_cycle(bench);
    if (bench->warm)
        cv_code_run(&bench->code, registers, bench->warm);
    const double seconds = cv_seconds(&bench->code, registers, turns) - bench->empty, after = cv_cycle(bench);
    const double witness = fmax(first, cv_witness(bench)), cycle = (before + after) / 2;
    if (cv_switches() != switches || !cv_same_clock(before, after))
        return;
    const unsigned at = samples->taken++ % CV_KEPT;
    samples->cycles[at] = seconds / cycle / each;
    samples->witness[at] = witness / cycle;
    samples->kept = samples->kept < CV_KEPT ? samples->kept + 1 : CV_KEPT;
    cv_saw_witness(bench, samples->witness[at]);
}

unsigned cv_counted(const struct cv_bench *bench, const struct cv_samples *samples, double *counted)
{
    unsigned count = 0;
    for (unsigned i = 0; i < samples->kept; i++)
        if (samples->witness[i] <= ALIKE * bench->least) {
            if (counted)
                counted[count] = samples->cycles[i];
            count++;
        }
    return count;
}

static int cv_ascending(const void *left, const void *right)
{
    const double one = *(const double *)left, two = *(const double *)right;
    return (one > two) - (one < two);
}

double cv_middle(const struct cv_bench *bench, const struct cv_samples *samples)
{
    double found[CV_KEPT];
    const unsigned count = cv_counted(bench, samples, found);
    qsort(found, count, sizeof *found, cv_ascending);
    return count ? found[count / 2] : 0;
}

static void cv_print(const char *name, unsigned filled, const double *cycles, unsigned count)
{
    printf("{\"name\": \"%s\", \"filled\": %u, \"cycles\": [", name, filled);
    for (unsigned i = 0; i < count; i++)
        printf("%s%.5g", i ? ", " : "", cycles[i]);
    puts("]}");
    fflush(stdout);
}

void cv_print_samples(const struct cv_bench *bench, const char *name, unsigned filled, const struct cv_samples *samples)
{
    double found[CV_KEPT];
    cv_print(name, filled, found, cv_counted(bench, samples, found));
}

void cv_print_witness(const struct cv_bench *bench)
{
    const double turn = bench->least / WITNESS_TURNS;
    cv_print("witness.taken", 0, &turn, isfinite(turn));
}
