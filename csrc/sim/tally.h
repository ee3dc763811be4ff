/* Counters by number, made for streams of numbers that repeat with a short period, as the references of a loop do.
 *
 * A counter is four lanes of 32 bits that are used in turn, because an increment has to wait for the one before it in the same
 * place; the lanes are folded into 64-bit totals before they can overflow. */
#ifndef CV_SIM_TALLY_H
#define CV_SIM_TALLY_H

#include "simd.h"

#define GROUP 16  /* numbers compared at once */
#define PERIOD 16 /* longest period seen */

/* Count the `n` numbers of a run with this period, given its first one's position. */
ALWAYS void tally_run(cv_tally *t, const uint32_t *id, size_t n, size_t period)
{
    size_t each = n / period, more = n % period;
    for (size_t j = 0; j < period; j++)
        t->lanes[id[j]][0] += (uint32_t)(each + (j < more));
}

ALWAYS bool repeats(const uint32_t *id, size_t period)
{
    uint32_t differing = 0;
    for (size_t j = 0; j < GROUP; j++)
        differing |= id[j] ^ id[(ptrdiff_t)j - (ptrdiff_t)period];
    return differing == 0;
}

/* Distance to the nearest earlier occurrence of the number, 0 if there is none within PERIOD. */
ALWAYS size_t distance(const uint32_t *id)
{
    for (size_t d = 1; d <= PERIOD; d++)
        if (id[-(ptrdiff_t)d] == id[0])
            return d;
    return 0;
}

ALWAYS void tally(cv_tally *t, const uint32_t *id, size_t n)
{
    size_t i = 0, patience = 0, rest = 0; /* groups to count plainly, more and more of them where nothing repeats */
    while (i < n) {
        size_t period = 0, start = i;
        if (rest)
            rest--;
        else if (i >= PERIOD && i + GROUP <= n)
            period = distance(id + i);
        if (period)
            for (; i + GROUP <= n && repeats(id + i, period); i += GROUP)
                __builtin_prefetch(id + i + BATCH); /* of the next batch, in arrays that go on */
        if (i > start) {
            tally_run(t, id + start, i - start, period);
            patience = 0;
            continue;
        }
        if (rest == 0 && i >= PERIOD)
            rest = patience < 8 ? patience++ : 8;
        size_t end = i + GROUP < n ? i + GROUP : n;
        for (; i < end; i++)
            t->lanes[id[i]][i % CV_TALLY_LANES]++;
    }
}

ALWAYS size_t number_of(const uint32_t *owner, uint64_t record)
{
    size_t number = record >> LINE_BITS; /* twice the label, and the flag */
    return owner ? 2 * (size_t)owner[number / 2] + number % 2 : number;
}

ALWAYS void charge(cv_tally *t, const uint32_t *owner, const uint64_t *out, size_t n)
{
    size_t i = 0;
    for (; i + CV_TALLY_LANES <= n; i += CV_TALLY_LANES)
        for (size_t lane = 0; lane < CV_TALLY_LANES; lane++)
            t->lanes[number_of(owner, out[i + lane])][lane]++;
    for (; i < n; i++)
        t->lanes[number_of(owner, out[i])][0]++;
}

#endif
