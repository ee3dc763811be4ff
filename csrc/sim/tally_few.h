/* Counting numbers of 16 bits of which few are different, 64 at a time: one is compared with all, and again with those that are left.
 * Included with a function for the instruction set:
 *
 *   uint64_t equal64(numbers, wanted)  bit j: numbers[j] is the wanted one */
#ifndef CV_SIM_TALLY_FEW_H
#define CV_SIM_TALLY_FEW_H

#include "tally.h"

#define MANY 12 /* different ones of 64 that are compared; the others are counted one by one */
#define REST 8  /* groups of 64 that are counted one by one after a group with many */

ALWAYS uint64_t equal64(const uint16_t *number, uint16_t wanted);

/* Count 64 numbers; false if there were many. */
ALWAYS bool count64(cv_tally *t, const uint16_t *number)
{
    uint64_t left = UINT64_MAX;
    for (int different = 0; left; different++) {
        uint16_t one = number[__builtin_ctzll(left)];
        if (different == MANY)
            break;
        uint64_t found = equal64(number, one);
        t->lanes[one][0] += (uint32_t)__builtin_popcountll(found);
        left &= ~found;
    }
    bool few = left == 0;
    for (; left; left &= left - 1)
        t->lanes[number[__builtin_ctzll(left)]][1]++;
    return few;
}

/* All ids are below 2^16. */
ALWAYS void tally_few(cv_tally *t, const uint32_t *id, size_t n)
{
    uint16_t number[64] __attribute__((aligned(64)));
    size_t i = 0;
    while (i + 64 <= n) {
        for (size_t j = 0; j < 64; j++)
            number[j] = (uint16_t)id[i + j];
        for (size_t j = 0; j < 64; j += 16)
            __builtin_prefetch(id + i + j + BATCH, 0, 2); /* of the next batch, in arrays that go on */
        size_t plain = count64(t, number) ? 0 : REST;
        for (i += 64; plain && i + 64 <= n; plain--)
            for (size_t end = i + 64; i < end; i++)
                t->lanes[id[i]][i % CV_TALLY_LANES]++;
    }
    for (; i < n; i++)
        t->lanes[id[i]][0]++;
}

/* Labels are owners. */
ALWAYS void charge_few(cv_tally *t, const uint64_t *out, size_t n)
{
    uint16_t number[64] __attribute__((aligned(64)));
    size_t i = 0;
    while (i + 64 <= n) {
        for (size_t j = 0; j < 64; j++)
            number[j] = (uint16_t)(out[i + j] >> LINE_BITS);
        size_t plain = count64(t, number) ? 0 : 64 * REST;
        i += 64;
        plain = plain < n - i ? plain : n - i;
        charge(t, NULL, out + i, plain);
        i += plain;
    }
    charge(t, NULL, out + i, n - i);
}

#endif
