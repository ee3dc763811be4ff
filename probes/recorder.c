#include "recorder.h"

#include <stdio.h>
#include <string.h>

#include "../csrc/include/cv_wire.h"

#define SITES 4096      /* at most in one source file of kernels */
#define RECENT 16       /* lines; fewer than any first-level cache keeps of them */
#define PIECE 768       /* references between two looks at what is done: whole turns of every kernel */
#define WARM_SITES 2    /* shared by all points: a load and a store */
#define NEAR_LINES 4096 /* fill any first-level cache */
#define SETS_FACTOR 4   /* set samples go on for so many times the references that count */

enum cv_phase {
    CV_WARM_SETS, /* set samples only: the larger caches are simulated from them */
    CV_WARM_NEAR, /* and windows */
    CV_COUNTED,
    CV_COUNTED_SETS
};

static struct {
    uint32_t known; /* sites defined */
    uint64_t point; /* number of the present point, from 1 */
    enum cv_phase phase;
    uint64_t brought;        /* lines in the present phase */
    uint32_t id[SITES];      /* of the present point's sites, + 1 */
    uint64_t recent[RECENT]; /* line << 1 | written, + 2 */
} cv_now;

static void cv_word(uint64_t word) { fwrite(&word, sizeof word, 1, stdout); }

static void cv_control(unsigned kind, uint64_t argument) { cv_word(CV_WIRE_CONTROL | (uint64_t)kind << 56 | argument); }

static uint32_t cv_define(uint64_t key, unsigned size, unsigned flags)
{
    const uint32_t id = cv_now.known++;
    const struct cv_wire_segment segment = {
        .address = key, .file_offset = key, .id = id, .first_site = id, .words = 1, .sites = 1, .instructions = 1};
    const struct cv_wire_instruction instruction = {.length = 1};
    const struct cv_wire_site site = {.size_bytes = (uint16_t)size, .flags = (uint8_t)flags};
    cv_control(CV_WIRE_SEGMENT, (sizeof segment + sizeof instruction + sizeof site) / 8);
    fwrite(&segment, sizeof segment, 1, stdout);
    fwrite(&instruction, sizeof instruction, 1, stdout);
    fwrite(&site, sizeof site, 1, stdout);
    return id;
}

static void cv_write(uint32_t id, uint64_t address)
{
    const uint64_t line = address / CV_LINE;
    if (cv_now.phase == CV_WARM_NEAR || cv_now.phase == CV_COUNTED) {
        const uint64_t record[2] = {CV_WIRE_VISIT | id, address};
        fwrite(record, sizeof record, 1, stdout);
    }
    if (line % CV_RECORD_CLASSES == 0)
        cv_word(line << CV_WIRE_SITE_BITS | id);
}

/* Of references that warm up, those that can change what a cache holds: an LRU cache of more lines does not see the others. */
static void cv_warm(uint64_t address, unsigned flags)
{
    const uint64_t line = address / CV_LINE, seen = (line << 1 | (flags & CV_RECORD_STORE)) + 2;
    uint64_t *const recent = &cv_now.recent[line % RECENT];
    if (*recent == seen || *recent == ((line << 1 | 1) + 2))
        return;
    cv_now.brought += *recent != (line << 1) + 2;
    *recent = seen;
    cv_write(flags & CV_RECORD_STORE ? 1 : 0, line * CV_LINE);
}

void cv_record(uint64_t address, unsigned size, unsigned flags, unsigned site)
{
    if (cv_now.phase < CV_COUNTED) {
        cv_warm(address, flags);
        return;
    }
    if (!cv_now.id[site])
        cv_now.id[site] = cv_define(cv_now.point << 16 | site, size, flags) + 1;
    cv_write(cv_now.id[site] - 1, address);
}

static void cv_module(uint64_t number, const void *address, size_t bytes)
{
    const struct cv_wire_module module = {.address = (uintptr_t)address, .size_bytes = bytes};
    cv_control(CV_WIRE_MODULE, number << 32 | sizeof module / 8);
    fwrite(&module, sizeof module, 1, stdout);
}

void cv_record_begin(const struct cv_arena *arena)
{
    cv_word(CV_WIRE_MAGIC);
    cv_word(CV_WIRE_VERSION);
    cv_module(0, arena->base, arena->bytes);
    cv_module(1, arena->hot, CV_HOT_BYTES + CV_OFFSETS * sizeof *arena->offsets);
    cv_module(2, arena->scratch, arena->scratch_bytes);
    for (unsigned flags = 0; flags < WARM_SITES; flags++)
        cv_define(flags, CV_LINE, flags);
}

static void cv_phase(enum cv_phase phase)
{
    cv_control(CV_WIRE_WINDOW_OPEN, 0);
    cv_now.phase = phase;
    cv_now.brought = 0;
}

/* Runs the kernel until it has brought so many lines, or gone through its working set. */
static void cv_bring(const struct cv_kernel *kernel, struct cv_state *state, uint64_t lines)
{
    const uint64_t pass = state->bytes / kernel->advance_bytes, most = kernel->content == CV_ANY ? pass : pass + pass / 2;
    for (uint64_t done = 0; cv_now.brought < lines && done < most;)
        done += kernel->record(state, PIECE);
}

/* Touches every line in order, then lets the kernel itself bring its lines into their steady order. */
static void cv_warm_up(const struct cv_kernel *kernel, struct cv_state *state, uint64_t lines)
{
    cv_phase(CV_WARM_SETS);
    for (uint64_t line = 0; line < state->bytes / CV_LINE && line < lines; line++)
        cv_warm((uintptr_t)state->base + line * CV_LINE, 0);
    for (size_t i = 0; i < state->index_count && i < lines * (CV_LINE / sizeof *state->indices); i += CV_LINE / sizeof *state->indices)
        cv_warm((uintptr_t)(state->indices + i), 0);
    cv_now.brought = 0;
    cv_bring(kernel, state, lines);
    cv_phase(CV_WARM_NEAR);
    cv_bring(kernel, state, NEAR_LINES);
}

void cv_record_point(const struct cv_kernel *kernel, struct cv_state *state, uint64_t wanted, uint64_t warm_lines)
{
    memset(cv_now.id, 0, sizeof cv_now.id);
    memset(cv_now.recent, 0, sizeof cv_now.recent);
    cv_now.point++;
    if (warm_lines)
        cv_warm_up(kernel, state, warm_lines);
    cv_phase(CV_COUNTED);
    kernel->record(state, wanted);
    if (!warm_lines)
        return;
    cv_now.phase = CV_COUNTED_SETS;
    kernel->record(state, (SETS_FACTOR - 1) * wanted);
}

int cv_record_end(void)
{
    const struct cv_wire_end end = {0};
    cv_control(CV_WIRE_END, sizeof end / 8);
    fwrite(&end, sizeof end, 1, stdout);
    return fflush(stdout);
}
