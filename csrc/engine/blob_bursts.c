/* What is executed between MPI calls (../mpi/cv_bursts.h): the interposer in the program says where bursts of computation begin and end.
 *
 * sums[i] gains the exits' counter i at an end and loses it at a beginning. What is taken is first added up by the stream's counters. */
#include "../mpi/cv_bursts.h"
#include "blob.h"

static int64_t *sums, *by_counter; /* of the stream */
static uint64_t taken;

static int make_room(void)
{
    const uint64_t bytes = 8 * (uint64_t)(CV_MOST_EXITS + CV_MOST_COUNTERS);
    if (!sums) {
        const int64_t at = cv_system(SYS_mmap, 0, bytes, 3, 0x4022, (uint64_t)-1, 0); /* without reserving */
        sums = at > 0 ? (int64_t *)at : 0;
        by_counter = sums + CV_MOST_EXITS;
    }
    return sums != 0;
}

void cv_forget_bursts(void)
{
    if (sums)
        cv_system(SYS_munmap, (uint64_t)sums, 8 * (uint64_t)(CV_MOST_EXITS + CV_MOST_COUNTERS), 0, 0, 0, 0);
    sums = by_counter = 0;
    taken = 0;
}

void cv_add_counters(int64_t *to, int sign)
{
    const uint64_t n = SHARED->exits;
    for (uint64_t t = 0; t < SHARED->slots; t++) {
        const struct cv_slot *slot = cv_slot_at(t);
        const int64_t *counter = (const int64_t *)(slot->self + CV_SLOT_COUNTERS);
        for (uint64_t i = 1; i < n && !slot->guest; i++)
            to[i] += sign * counter[i];
    }
}

/* What the sums are at an end. */
static uint64_t total(void)
{
    const uint64_t n = SHARED->exits;
    uint64_t all = 0;
    cv_add_counters(sums, 1);
    for (uint64_t i = 1; i < n; i++)
        all += (uint64_t)sums[i] * EXITS[i].segments;
    return all;
}

static void add_up(void)
{
    for (uint64_t i = 1; i < SHARED->exits; i++) {
        const struct cv_blob_exit *e = &EXITS[i];
        int64_t *const of = by_counter + (e->segments ? 0 : SEGMENTS[e->first].wire);
        for (uint32_t k = 0; k < e->lanes; k++)
            of[1 + e->lane + k] += sums[i];
        if (e->sign && !e->segments) { /* the first counter of a repeated one counts runs and turns */
            of[0] += e->sign * sums[i];
            of[1] += e->sign * sums[i];
        }
        for (uint32_t k = 0; sums[i] && k < e->segments; k++)
            of[SEGMENTS[LISTED[e->first + k]].wire] += sums[i];
        sums[i] = 0;
    }
}

/* Up to the largest part of a count goes into a word; what is left follows in others. */
static uint64_t word_of(int64_t *count, uint64_t counter)
{
    const int64_t largest = (INT64_C(1) << CV_BURSTS_COUNT_BITS) - 1, part = *count < largest ? *count : largest;
    *count -= part;
    return counter << CV_BURSTS_COUNT_BITS | (uint64_t)part;
}

static uint64_t take(uint64_t *words, uint64_t room)
{
    uint64_t n = 0;
    if (!taken)
        add_up();
    while (n < room && taken < SHARED->wire_numbers) {
        int64_t *count = &by_counter[taken];
        if (*count > 0)
            words[n++] = word_of(count, taken);
        if (*count > 0)
            continue;
        *count = 0;
        taken++;
    }
    if (n < room)
        taken = 0;
    return n;
}

void cv_bursts_asked(const uint64_t *arguments, uint64_t *answer)
{
    switch (arguments[0]) {
    case CV_BURSTS_HERE: *answer = !SHARED->bursts_only && !cv_has_marks(SHARED) && make_room(); break;
    case CV_BURSTS_BEGIN: cv_add_counters(sums, -1); break;
    case CV_BURSTS_END: *answer = total(); break;
    case CV_BURSTS_TAKE: *answer = take((uint64_t *)arguments[1], arguments[2]); break;
    default: break;
    }
}
