/* Counts of segments: from the exits of superblocks, which the engine counts, to the counters of the stream. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "engine_wire.h"

static const struct cv_blob_exit *all_exits(void) { return (const struct cv_blob_exit *)(target->memory + CV_OFF_EXITS); }

static const uint32_t *all_listed(void) { return (const uint32_t *)(target->memory + CV_OFF_LIST); }

static uint64_t *sums; /* of each exit over all slots */
static uint64_t sums_room;

static const uint64_t *counters_of(const struct cv_slot *slot) { return (const uint64_t *)((const uint8_t *)slot + CV_SLOT_COUNTERS); }

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
        const uint64_t *counter = counters_of(cv_slot_of(target, i));
        if (cv_slot_of(target, i)->guest)
            continue;
        for (uint64_t k = 1; k < n && inside; k++)
            sums[k] += counter[k];
    }
    return n;
}

/* References that each run of an exit's segments, each turn, or each of its masked elements stands for. */
static int32_t weight_of(const struct cv_blob_exit *e)
{
    const uint32_t *listed = all_listed();
    int32_t all = e->lanes;
    if (e->sign && !e->segments)
        return e->first < known ? e->sign * loads_stores[e->first] : 0;
    for (uint32_t i = 0; i < e->segments; i++) {
        const uint32_t s = listed[e->first + i];
        all += s < known && !segments[s].repeats ? loads_stores[s] : 0;
    }
    return all;
}

/* References that so many counters stand for. */
static uint64_t weighed(const int32_t *weights, const uint64_t *counter, uint64_t n)
{
    uint64_t all = 0;
    for (uint64_t k = 1; k < n; k++)
        all += (uint64_t)(int64_t)weights[k] * counter[k];
    return all;
}

double cv_wire_references(void)
{
    static int32_t *weights;
    static uint64_t room, have = 1;
    const struct cv_blob_exit *exits = all_exits();
    const uint64_t n = __atomic_load_n(&target->shared->exits, __ATOMIC_ACQUIRE),
                   slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    const uint64_t inside = __atomic_load_n(&target->shared->inside, __ATOMIC_ACQUIRE);
    uint64_t all = 0;
    cv_wire_definitions();
    if (n > room) {
        room = 2 * n;
        weights = realloc(weights, room * sizeof *weights);
    }
    for (; have < n; have++)
        weights[have] = weight_of(&exits[have]);
    if (cv_has_marks(target->shared))
        all = weighed(weights, (const uint64_t *)(target->memory + CV_OFF_BASE), n);
    for (uint64_t i = 0; i < slots && inside; i++)
        if (!cv_slot_of(target, i)->guest)
            all += weighed(weights, counters_of(cv_slot_of(target, i)), n);
    return (double)(int64_t)all;
}

/* Adds the counts of so many exits to the counters of the stream. */
static void count_exits(const uint64_t *by_exit, uint64_t n, uint64_t *counts)
{
    const struct cv_blob_exit *exits = all_exits();
    const uint32_t *listed = all_listed();
    for (uint64_t k = 1; k < n; k++) {
        const struct cv_blob_exit *e = &exits[k];
        if (!by_exit[k])
            continue;
        for (uint32_t i = 0; i < e->segments; i++)
            counts[segments[listed[e->first + i]].wire] += by_exit[k];
        if (e->segments)
            continue;
        uint64_t *const of = counts + segments[e->first].wire;
        for (uint32_t i = 0; i < e->lanes; i++)
            of[1 + e->lane + i] += by_exit[k];
        for (uint32_t i = 0; i < 2 && e->sign; i++) /* the first counter of a repeated one counts runs and turns */
            of[i] += e->sign > 0 ? by_exit[k] : -by_exit[k];
    }
}

/* The counters of the stream, from the counts of so many exits. */
static uint64_t *counts_of(const uint64_t *by_exit, uint64_t n)
{
    uint64_t *counts = calloc(__atomic_load_n(&target->shared->wire_numbers, __ATOMIC_ACQUIRE) + 1, sizeof *counts);
    if (!counts)
        abort();
    count_exits(by_exit, n, counts);
    return counts;
}

static uint64_t *counts_now(void)
{
    const uint64_t n = sum_up();
    return counts_of(sums, n);
}

size_t cv_wire_pairs(const uint64_t *by_exit, const uint64_t **pairs)
{
    static uint64_t *found;
    uint64_t *counts = counts_of(by_exit, target->shared->exits);
    size_t n = 0;
    free(found);
    *pairs = found = malloc((2 * (size_t)next_counter + 1) * sizeof *found);
    if (!found)
        abort();
    for (uint32_t i = 0; i < next_counter; i++)
        if (counts[i]) {
            found[n++] = i;
            found[n++] = counts[i];
        }
    free(counts);
    return n / 2;
}

void cv_wire_counters(int finished)
{
    if (!counters)
        return;
    cv_wire_definitions();
    uint64_t *counts = counts_now();
    memcpy(counters, counts, next_counter * sizeof *counters);
    free(counts);
    header->used = next_counter;
    header->finished = (uint64_t)finished;
}

int cv_wire_vector_sets(void)
{
    uint64_t *counts = counts_now();
    int found = 0;
    for (uint64_t s = 0; s < known; s++)
        found |= counts[segments[s].wire] ? (int)of_segment[s].encodings : 0;
    free(counts);
    return found;
}

int cv_wire_dump(const char *path)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return -1;
    uint64_t *counts = counts_now();
    for (uint64_t s = 0; s < target->shared->segments; s++) {
        const uint64_t *of = counts + segments[s].wire, turns = segments[s].repeats ? of[1] : 0;
        fprintf(out, "%lx %lu %lu", (unsigned long)segments[s].address, (unsigned long)(of[0] - turns), (unsigned long)turns);
        struct cv_x86 x;
        for (int at = 0; instruction_at(&segments[s], at, &x); at += x.length)
            fprintf(out, " %d", x.length);
        fputc('\n', out);
    }
    free(counts);
    return fclose(out);
}
