/* Counts of segments: from the exits of superblocks, which the engine counts, to runs and turns of each segment. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "engine_wire.h"

static const struct cv_blob_exit *all_exits(void) { return (const struct cv_blob_exit *)(target->memory + CV_OFF_EXITS); }

static const uint32_t *all_listed(void) { return (const uint32_t *)(target->memory + CV_OFF_LIST); }

static uint64_t *sums; /* of each exit over all slots */
static uint64_t sums_room;

static uint64_t sum_up(void)
{
    const uint64_t n = __atomic_load_n(&target->shared->exits, __ATOMIC_ACQUIRE),
                   slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    if (n > sums_room) {
        sums_room = 2 * n;
        sums = realloc(sums, sums_room * sizeof *sums);
    }
    const uint64_t inside = __atomic_load_n(&target->shared->inside, __ATOMIC_ACQUIRE);
    if (cv_has_marks(target->shared))
        memcpy(sums, target->memory + CV_OFF_BASE, n * sizeof *sums);
    else
        memset(sums, 0, n * sizeof *sums);
    for (uint64_t i = 0; i < slots; i++) {
        const uint64_t *counter = (const uint64_t *)((const uint8_t *)cv_slot_of(target, i) + CV_SLOT_COUNTERS);
        if (cv_slot_of(target, i)->guest)
            continue;
        for (uint64_t k = 1; k < n && inside; k++)
            sums[k] += counter[k];
    }
    return n;
}

/* References that each run of an exit's segments, or each turn, stands for. */
static int32_t weight_of(const struct cv_blob_exit *e)
{
    const uint32_t *listed = all_listed();
    int32_t all = 0;
    if (!e->segments)
        return e->first < known ? e->sign * loads_stores[e->first] : 0;
    for (uint32_t i = 0; i < e->segments; i++) {
        const uint32_t s = listed[e->first + i];
        all += s < known && !segments[s].repeats ? loads_stores[s] : 0;
    }
    return all;
}

double cv_wire_references(void)
{
    static int32_t *weights;
    static uint64_t room, have = 1;
    const struct cv_blob_exit *exits = all_exits();
    const uint64_t n = sum_up();
    double all = 0;
    cv_wire_definitions();
    if (n > room) {
        room = 2 * n;
        weights = realloc(weights, room * sizeof *weights);
    }
    for (; have < n; have++)
        weights[have] = weight_of(&exits[have]);
    for (uint64_t k = 1; k < n; k++)
        all += weights[k] * (double)sums[k];
    return all;
}

/* Runs and turns of each segment, from the counts of so many exits. */
static void count_exits(const uint64_t *by_exit, uint64_t n, uint64_t *runs, uint64_t *turns)
{
    const struct cv_blob_exit *exits = all_exits();
    const uint32_t *listed = all_listed();
    for (uint64_t k = 1; k < n; k++) {
        const struct cv_blob_exit *e = &exits[k];
        if (!by_exit[k])
            continue;
        if (!e->segments)
            turns[e->first] += e->sign > 0 ? by_exit[k] : -by_exit[k];
        for (uint32_t i = 0; i < e->segments; i++)
            runs[listed[e->first + i]] += by_exit[k];
    }
}

static void count(uint64_t *runs, uint64_t *turns)
{
    const uint64_t n = sum_up();
    count_exits(sums, n, runs, turns);
}

size_t cv_wire_pairs(const uint64_t *by_exit, const uint64_t **pairs)
{
    static uint64_t *found;
    uint64_t *runs = calloc(2 * known + 2, sizeof *runs), *turns = runs + known + 1;
    size_t n = 0;
    free(found);
    *pairs = found = malloc((4 * known + 1) * sizeof *found);
    if (!runs || !found)
        abort();
    count_exits(by_exit, target->shared->exits, runs, turns);
    for (uint64_t s = 0; s < known; s++) {
        const uint64_t of[2] = {runs[s] + turns[s], segments[s].repeats ? turns[s] : 0};
        for (uint32_t i = 0; i < 2; i++)
            if (of[i]) {
                found[n++] = segments[s].wire + i;
                found[n++] = of[i];
            }
    }
    free(runs);
    return n / 2;
}

void cv_wire_counters(int finished)
{
    if (!counters)
        return;
    uint64_t *runs = calloc(2 * (target->shared->segments + 4096), sizeof *runs), *turns = runs + target->shared->segments + 4096;
    cv_wire_definitions();
    if (known < (uint64_t)(turns - runs)) {
        count(runs, turns);
        for (uint64_t s = 0; s < known; s++) {
            counters[segments[s].wire] = runs[s] + turns[s];
            if (segments[s].repeats)
                counters[segments[s].wire + 1] = turns[s];
        }
    }
    free(runs);
    header->used = next_id;
    header->finished = (uint64_t)finished;
}

int cv_wire_vector_sets(void)
{
    uint64_t *runs = calloc(2 * known + 2, sizeof *runs);
    int found = 0;
    if (!runs)
        return 0;
    count(runs, runs + known + 1);
    for (uint64_t s = 0; s < known; s++) {
        struct cv_x86 x;
        for (int at = 0; runs[s] && instruction_at(&segments[s], at, &x); at += x.length)
            found |= 1 << x.encoding;
    }
    free(runs);
    return found;
}

int cv_wire_dump(const char *path)
{
    FILE *out = fopen(path, "we");
    uint64_t *runs = calloc(2 * target->shared->segments + 2, sizeof *runs), *turns = runs + target->shared->segments;
    if (!out || !runs)
        return -1;
    count(runs, turns);
    for (uint64_t s = 0; s < target->shared->segments; s++) {
        fprintf(out, "%lx %lu %lu", (unsigned long)segments[s].address, (unsigned long)runs[s], (unsigned long)turns[s]);
        struct cv_x86 x;
        for (int at = 0; instruction_at(&segments[s], at, &x); at += x.length)
            fprintf(out, " %d", x.length);
        fputc('\n', out);
    }
    free(runs);
    return fclose(out);
}
