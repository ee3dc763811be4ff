/* What is executed between MPI calls (../mpi/cv_bursts.h): the interposer in the program says where bursts of computation begin and end.
 *
 * sums[i] gains the exits' counter i at an end and loses it at a beginning. What is taken is first added up by segments. */
#include "../mpi/cv_bursts.h"
#include "blob.h"

static int64_t *sums, *by_segment; /* two of each segment: its runs, and turns of a repeated one */
static uint64_t taken;

static int make_room(void)
{
    const uint64_t bytes = 8 * (uint64_t)(CV_MOST_EXITS + 2 * CV_MOST_SEGMENTS);
    if (!sums) {
        const int64_t at = cv_system(SYS_mmap, 0, bytes, 3, 0x4022, (uint64_t)-1, 0); /* without reserving */
        sums = at > 0 ? (int64_t *)at : 0;
        by_segment = sums + CV_MOST_EXITS;
    }
    return sums != 0;
}

void cv_forget_bursts(void)
{
    if (sums)
        cv_system(SYS_munmap, (uint64_t)sums, 8 * (uint64_t)(CV_MOST_EXITS + 2 * CV_MOST_SEGMENTS), 0, 0, 0, 0);
    sums = by_segment = 0;
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
        if (!e->segments) { /* the first counter of a repeated one counts runs and turns */
            by_segment[2 * e->first] += e->sign * sums[i];
            by_segment[2 * e->first + 1] += e->sign * sums[i];
        }
        for (uint32_t k = 0; sums[i] && k < e->segments; k++)
            by_segment[2 * LISTED[e->first + k]] += sums[i];
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
    while (n < room && taken < 2 * SHARED->segments) {
        int64_t *count = &by_segment[taken];
        if (*count > 0)
            words[n++] = word_of(count, SEGMENTS[taken / 2].wire + taken % 2);
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
