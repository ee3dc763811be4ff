#include "core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../clock.h"
#include "bodies.h"
#include "cycles.h"

#define CODE_BYTES ((size_t)1 << 20)
#define LONGEST_LOOP 4096 /* bytes of a piece's copies: far inside the first level, and the cache of decoded instructions */
#define SAMPLE_CYCLES 60000
#define SAMPLES 9
#define ROUNDS 3             /* over all bodies, until each has its samples */
#define ATTEMPTS 30          /* of a body in a round */
#define PATIENCE_SECONDS 2.5 /* with what is timed of itself, and twice that with what is asked for */
#define WINDOW_SAMPLES 5
#define WINDOW_TURNS 700
#define JUMPS 40000      /* about as many in a sample */
#define LOOP_SLOTS 30000 /* of all turns of a loop in a sample */

static int cv_supported(const struct cv_body *body) { return !body->supported || body->supported(); }

/* Times a body until enough samples count. */
static void cv_time_body(struct cv_bench *bench, const struct cv_body *body, struct cv_samples *samples, const volatile sig_atomic_t *stop)
{
    const size_t length = (size_t)(body->piece.end - body->piece.begin);
    const unsigned usual = length * 64 > LONGEST_LOOP ? (unsigned)(LONGEST_LOOP / length) : 64;
    const unsigned copies = body->copies ? body->copies : usual;
    if (cv_make(&bench->code, body->piece, copies, body->wide))
        return;
    struct cv_registers registers = cv_start(bench->hot);
    uint64_t turns = 4;
    while (cv_turns_cycles(bench, registers, turns) < SAMPLE_CYCLES / 2)
        turns *= 2;
    bench->warm = body->wide == CV_WIDEST ? turns * CV_WARM_CYCLES / SAMPLE_CYCLES : 0;
    registers.rax += 1 + samples->taken; /* other random numbers than those that predictors have seen */
    for (int attempt = 0; attempt < ATTEMPTS && cv_counted(bench, samples, NULL) < SAMPLES && !*stop; attempt++)
        cv_sample(bench, &registers, turns, (double)(turns * copies * body->instructions), samples);
}

/* Times all bodies. Some samples of the first ones may turn out to be of a core that others shared, so there is another round. */
static int cv_time_bodies(struct cv_bench *bench, const volatile sig_atomic_t *stop)
{
    struct cv_samples *const samples = calloc(cv_body_count, sizeof *samples);
    if (!samples)
        return -1;
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < cv_body_count && !*stop; i++)
            if (cv_supported(&cv_bodies[i]) && cv_counted(bench, &samples[i], NULL) < SAMPLES)
                cv_time_body(bench, &cv_bodies[i], &samples[i], stop);
    for (size_t i = 0; i < cv_body_count && !*stop; i++)
        if (cv_supported(&cv_bodies[i]))
            cv_print_samples(bench, cv_bodies[i].name, 0, &samples[i]);
    bench->warm = 0;
    cv_print_witness(bench);
    free(samples);
    return 0;
}

/* Times what was made for an answer until enough samples count, and prints them. */
static void cv_answer(struct cv_bench *bench, const char *name, unsigned filled, struct cv_registers *registers, uint64_t turns,
                      double each, const volatile sig_atomic_t *stop)
{
    struct cv_samples samples = {0};
    for (int attempt = 0; each > 0 && attempt < ATTEMPTS && cv_counted(bench, &samples, NULL) < WINDOW_SAMPLES && !*stop; attempt++)
        cv_sample(bench, registers, turns, each, &samples);
    cv_print_samples(bench, name, filled, &samples);
}

/* Turns of two loads that each go on in a chain of their own through memory, with `filled` fillers after each. */
static void cv_answer_window(struct cv_bench *bench, const struct cv_filler *filler, unsigned filled, struct cv_registers *chains,
                             const volatile sig_atomic_t *stop)
{
    struct cv_code *const code = &bench->code;
    const unsigned copies = filled / filler->instructions;
    const int failed = cv_code_begin(code) || cv_code_put(code, cv_first_load, 1) || cv_code_put(code, filler->first, copies) ||
                       cv_code_put(code, cv_second_load, 1) || cv_code_put(code, filler->second, copies) || cv_code_seal(code, 0);
    cv_answer(bench, filler->name, filled, chains, WINDOW_TURNS, failed ? 0 : WINDOW_TURNS, stop);
}

/* So many jumps, each to the next. */
static void cv_answer_jumps(struct cv_bench *bench, const struct cv_jump *jump, unsigned jumps, const volatile sig_atomic_t *stop)
{
    struct cv_registers registers = cv_start(bench->hot);
    const int failed = !jumps || cv_make(&bench->code, jump->piece, jumps, 0);
    const uint64_t turns = failed ? 0 : 1 + JUMPS / jumps;
    if (!failed)
        cv_turns_cycles(bench, registers, turns); /* so that all jumps are known */
    cv_answer(bench, jump->name, jumps, &registers, turns, (double)(turns * jumps), stop);
}

/* Runs of a loop of so many slots and turns. */
static void cv_answer_loop(struct cv_bench *bench, const char *name, unsigned slots, unsigned turns, const volatile sig_atomic_t *stop)
{
    struct cv_registers registers = cv_start(bench->hot);
    const int failed = !slots || !turns || cv_make_loop(&bench->code, slots, 0);
    const uint64_t runs = failed ? 0 : 10 + LOOP_SLOTS / slots / turns;
    registers.rbp = turns;
    if (!failed)
        cv_turns_cycles(bench, registers, runs); /* so that its branches are known */
    cv_answer(bench, name, turns, &registers, runs, (double)runs, stop);
}

/* Answers lines from the standard input until it ends. */
static void cv_answers(struct cv_bench *bench, struct cv_arena *arena, size_t bytes, const volatile sig_atomic_t *stop)
{
    char line[128], name[64];
    unsigned filled, slots;
    struct cv_state state;
    cv_prepare(arena, cv_find_kernel("chase_2"), bytes / CV_LINE * CV_LINE, &state);
    struct cv_registers chains = cv_start(arena->hot);
    chains.rdi = (uintptr_t)state.cursor[0], chains.rbp = (uintptr_t)state.cursor[1];
    while (!*stop && fgets(line, sizeof line, stdin) && sscanf(line, "%63s %u", name, &filled) == 2) {
        for (size_t i = 0; i < cv_filler_count; i++)
            if (!strcmp(name, cv_fillers[i].name))
                cv_answer_window(bench, &cv_fillers[i], filled, &chains, stop);
        for (size_t i = 0; i < cv_jump_count; i++)
            if (!strcmp(name, cv_jumps[i].name))
                cv_answer_jumps(bench, &cv_jumps[i], filled, stop);
        if (sscanf(name, "loop.%u", &slots) == 1)
            cv_answer_loop(bench, name, slots, filled, stop);
    }
}

int cv_core_probe(struct cv_arena *arena, size_t bytes, const volatile sig_atomic_t *stop)
{
    struct cv_bench bench;
    if (!cv_body_count)
        return 0;
    if (cv_bench_open(&bench, arena->hot, CODE_BYTES, PATIENCE_SECONDS, stop))
        return 1;
    const int failed = cv_time_bodies(&bench, stop);
    bench.patience = 2 * PATIENCE_SECONDS;
    if (!failed)
        cv_answers(&bench, arena, bytes, stop);
    cv_bench_close(&bench);
    return failed != 0;
}
