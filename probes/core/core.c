#include "core.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../clock.h"
#include "bodies.h"
#include "cycles.h"

#define CODE_BYTES ((size_t)1 << 20)
#define LONGEST_LOOP 4096 /* bytes of a piece's copies: far inside the first level, and the cache of decoded instructions */
#define CLOCK_COPIES 64
#define CLOCK_TURNS 300
#define CLOCK_LOOKS 40
#define LEAST_MULTIPLICATION 3 /* cycles: no x86-64 core takes fewer; a sibling that is busy all the time makes it look like two */
#define SAMPLE_SECONDS 60e-6
#define SAMPLES 9
#define ATTEMPTS 60
#define SAME_CLOCK 0.02 /* a clock that changed more between two looks says nothing of the time between them */
#define WINDOW_SAMPLES 5
#define WINDOW_TURNS 700
#define JUMPS 40000      /* about as many in a sample */
#define LOOP_SLOTS 30000 /* of all turns of a loop in a sample */

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

double cv_seconds(const struct cv_code *code, struct cv_registers *registers, uint64_t turns)
{
    const double begin = cv_now();
    cv_code_run(code, registers, turns);
    return cv_now() - begin;
}

static double cv_cycle(const struct cv_clock *clock, struct cv_registers registers)
{
    return cv_seconds(&clock->code, &registers, CLOCK_TURNS) / (clock->cycles * CLOCK_TURNS);
}

int cv_make(struct cv_code *code, struct cv_piece piece, unsigned copies, int wide)
{
    return cv_code_begin(code) || cv_code_put(code, piece, copies) || cv_code_seal(code, wide);
}

int cv_make_clock(struct cv_clock *clock, struct cv_code *other, char *hot)
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

/* Times a body; returns the number of samples. */
static int cv_time_body(const struct cv_body *body, const struct cv_clock *clock, struct cv_code *code, char *hot, double *cycles,
                        const volatile sig_atomic_t *stop)
{
    const size_t length = (size_t)(body->piece.end - body->piece.begin);
    const unsigned usual = length * 64 > LONGEST_LOOP ? (unsigned)(LONGEST_LOOP / length) : 64;
    const unsigned copies = body->copies ? body->copies : usual;
    if (cv_make(code, body->piece, copies, body->avx))
        return 0;
    struct cv_registers registers = cv_start(hot);
    uint64_t turns = 4;
    while (cv_seconds(code, &registers, turns) < SAMPLE_SECONDS / 2)
        turns *= 2;
    int count = 0;
    for (int attempt = 0; attempt < ATTEMPTS && count < SAMPLES && !*stop; attempt++) {
        const long switches = cv_switches();
        const double before = cv_cycle(clock, registers), seconds = cv_seconds(code, &registers, turns);
        const double after = cv_cycle(clock, registers), cycle = (before + after) / 2;
        if (cv_switches() == switches && before < (1 + SAME_CLOCK) * after && after < (1 + SAME_CLOCK) * before)
            cycles[count++] = seconds / cycle / (double)(turns * copies * body->instructions);
    }
    return count;
}

static void cv_print_cycles(const char *name, unsigned filled, const double *cycles, int count)
{
    printf("{\"name\": \"%s\", \"filled\": %u, \"cycles\": [", name, filled);
    for (int i = 0; i < count; i++)
        printf("%s%.5g", i ? ", " : "", cycles[i]);
    puts("]}");
    fflush(stdout);
}

/* Times turns of two loads that each go on in a chain of their own through memory, with `filled` fillers after each. */
static int cv_time_window(const struct cv_filler *filler, unsigned filled, const struct cv_clock *clock, struct cv_code *code,
                          struct cv_registers *chains, double *cycles, const volatile sig_atomic_t *stop)
{
    const unsigned copies = filled / filler->instructions;
    if (cv_code_begin(code) || cv_code_put(code, cv_first_load, 1) || cv_code_put(code, filler->first, copies) ||
        cv_code_put(code, cv_second_load, 1) || cv_code_put(code, filler->second, copies) || cv_code_seal(code, 0))
        return 0;
    int count = 0;
    for (int attempt = 0; attempt < ATTEMPTS && count < WINDOW_SAMPLES && !*stop; attempt++) {
        const long switches = cv_switches();
        const double cycle = cv_cycle(clock, *chains), seconds = cv_seconds(code, chains, WINDOW_TURNS);
        if (cv_switches() == switches)
            cycles[count++] = seconds / cycle / WINDOW_TURNS;
    }
    return count;
}

/* Times so many jumps, each to the next. */
static int cv_time_jumps(struct cv_piece piece, unsigned jumps, const struct cv_clock *clock, struct cv_code *code,
                         struct cv_registers registers, double *cycles, const volatile sig_atomic_t *stop)
{
    if (!jumps || cv_make(code, piece, jumps, 0))
        return 0;
    const uint64_t turns = 1 + JUMPS / jumps;
    int count = 0;
    cv_seconds(code, &registers, turns); /* so that all jumps are known */
    for (int attempt = 0; attempt < ATTEMPTS && count < WINDOW_SAMPLES && !*stop; attempt++) {
        const long switches = cv_switches();
        const double before = cv_cycle(clock, registers), seconds = cv_seconds(code, &registers, turns);
        const double after = cv_cycle(clock, registers);
        if (cv_switches() == switches && before < (1 + SAME_CLOCK) * after && after < (1 + SAME_CLOCK) * before)
            cycles[count++] = seconds / ((before + after) / 2) / (double)(turns * jumps);
    }
    return count;
}

/* Copies of a loop's body, a slot each but for the last one's two instructions, which are one. */
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

/* Times runs of a loop of so many slots and turns, cycles of a run. */
static int cv_time_loop(unsigned slots, unsigned turns, const struct cv_clock *clock, struct cv_code *code, struct cv_registers registers,
                        double *cycles, const volatile sig_atomic_t *stop)
{
    if (!slots || !turns || cv_make_loop(code, slots, 0))
        return 0;
    const uint64_t runs = 10 + LOOP_SLOTS / slots / turns;
    int count = 0;
    registers.rbp = turns;
    cv_seconds(code, &registers, runs); /* so that its branches are known */
    for (int attempt = 0; attempt < ATTEMPTS && count < WINDOW_SAMPLES && !*stop; attempt++) {
        const long switches = cv_switches();
        registers.rbp = turns;
        const double before = cv_cycle(clock, registers), seconds = cv_seconds(code, &registers, runs);
        const double after = cv_cycle(clock, registers);
        if (cv_switches() == switches && before < (1 + SAME_CLOCK) * after && after < (1 + SAME_CLOCK) * before)
            cycles[count++] = seconds / ((before + after) / 2) / (double)runs;
    }
    return count;
}

/* Answers lines from the standard input until it ends. */
static void cv_windows(struct cv_arena *arena, size_t bytes, const struct cv_clock *clock, struct cv_code *code,
                       const volatile sig_atomic_t *stop)
{
    char line[128], name[64];
    unsigned filled, slots;
    double cycles[WINDOW_SAMPLES];
    struct cv_state state;
    cv_prepare(arena, cv_find_kernel("chase_2"), bytes / CV_LINE * CV_LINE, &state);
    struct cv_registers chains = cv_start(arena->hot);
    chains.rdi = (uintptr_t)state.cursor[0], chains.rbp = (uintptr_t)state.cursor[1];
    while (!*stop && fgets(line, sizeof line, stdin) && sscanf(line, "%63s %u", name, &filled) == 2) {
        for (size_t i = 0; i < cv_filler_count; i++)
            if (!strcmp(name, cv_fillers[i].name))
                cv_print_cycles(name, filled, cycles, cv_time_window(&cv_fillers[i], filled, clock, code, &chains, cycles, stop));
        for (size_t i = 0; i < cv_jump_count; i++)
            if (!strcmp(name, cv_jumps[i].name))
                cv_print_cycles(name, filled, cycles, cv_time_jumps(cv_jumps[i].piece, filled, clock, code, chains, cycles, stop));
        if (sscanf(name, "loop.%u", &slots) == 1)
            cv_print_cycles(name, filled, cycles, cv_time_loop(slots, filled, clock, code, chains, cycles, stop));
    }
}

int cv_core_probe(struct cv_arena *arena, size_t bytes, const volatile sig_atomic_t *stop)
{
    struct cv_clock clock;
    struct cv_code code;
    double cycles[SAMPLES];
    if (!cv_body_count)
        return 0;
    if (cv_code_open(&clock.code, 1 << 16))
        return 1;
    if (cv_code_open(&code, CODE_BYTES)) {
        cv_code_close(&clock.code);
        return 1;
    }
    const int failed = cv_make_clock(&clock, &code, arena->hot);
    for (size_t i = 0; i < cv_body_count && !failed && !*stop; i++)
        if (!cv_bodies[i].supported || cv_bodies[i].supported())
            cv_print_cycles(cv_bodies[i].name, 0, cycles, cv_time_body(&cv_bodies[i], &clock, &code, arena->hot, cycles, stop));
    if (!failed)
        cv_windows(arena, bytes, &clock, &code, stop);
    cv_code_close(&code);
    cv_code_close(&clock.code);
    return failed;
}
