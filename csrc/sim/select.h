/* Set selection: the references to the selected sets, first their places, then what is needed of them, so that no branch depends on
 * the addresses. Included with a function for the instruction set:
 *
 *   uint32_t *places16(place, address, i, selection)  writes those of i .. i + 15 whose address's bits (the selection in bits of
 *                                                     addresses) are the wanted ones, to room for 16; returns their end
 *   bool append8(lines, refs, i, selection)           appends those of i .. i + 7, likewise, to room for 8; false where it cannot */
#ifndef CV_SIM_SELECT_H
#define CV_SIM_SELECT_H

#include "simd.h"

#define FAR 2048     /* addresses to prefetch ahead: this reads faster than the processor's own prefetching alone */
#define LARGE_PART 7 /* at most so many of the bits are compared: an eighth of the lines and more */
#define AHEAD 16     /* references to prefetch for: few are selected, so that they lie far from one another */

ALWAYS bool append8(cv_lines *lines, const cv_refs *refs, size_t i, cv_selection selection);
ALWAYS uint32_t *places16(uint32_t *place, const uint64_t *address, uint32_t i, cv_selection selection);

ALWAYS size_t places(uint32_t *place, const uint64_t *address, size_t begin, size_t end, cv_selection selection)
{
    uint32_t *at = place;
    size_t i = begin;
    for (; i + 16 <= end; i += 16) {
        __builtin_prefetch(address + i + FAR, 0, 2);
        __builtin_prefetch(address + i + 8 + FAR, 0, 2);
        at = places16(at, address, (uint32_t)i, selection);
    }
    for (; i < end; i++)
        if ((address[i] & selection.mask) == selection.value)
            *at++ = (uint32_t)i;
    return (size_t)(at - place);
}

ALWAYS void append(cv_lines *lines, const cv_refs *refs, const uint32_t *place, size_t n)
{
    uint64_t *address = lines->address + lines->count;
    uint32_t *owner = lines->owner + lines->count;
    uint8_t *write = lines->write + lines->count;
    for (size_t j = 0; j < n; j++) {
        const size_t i = place[j], soon = place[j + AHEAD];
        if (refs->owner)
            __builtin_prefetch(refs->owner + soon);
        if (refs->write)
            __builtin_prefetch(refs->write + soon);
        address[j] = refs->address[i];
        owner[j] = refs->owner ? refs->owner[i] : 0;
        write[j] = refs->write ? refs->write[i] : 0;
    }
    lines->count += n;
}

/* Where a large part is selected, with owners and writes: all at once, as long as the instruction set can. Returns how far it came. */
ALWAYS size_t append_many(cv_lines *lines, const cv_refs *refs, size_t begin, size_t end, cv_selection selection)
{
    size_t i = begin;
    for (; i + 8 <= end && append8(lines, refs, i, selection); i += 8) {
        __builtin_prefetch(refs->address + i + FAR, 0, 2);
        __builtin_prefetch(refs->owner + i + FAR, 0, 2);
        __builtin_prefetch(refs->write + i + FAR, 0, 2);
    }
    return i;
}

ALWAYS void select_lines(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor)
{
    const cv_selection bits = {selection.mask << line_shift, selection.value << line_shift};
    uint32_t place[BATCH + AHEAD];
    size_t room = BATCH - lines->count, left = refs->count - cursor->at, end = cursor->at + (left < room ? left : room);
    if (selection.mask <= LARGE_PART && refs->owner && refs->write)
        cursor->at = append_many(lines, refs, cursor->at, end, bits);
    size_t n = places(place, refs->address, cursor->at, end, bits);
    for (size_t j = n; j < n + AHEAD; j++)
        place[j] = (uint32_t)cursor->at;
    append(lines, refs, place, n);
    cursor->at = end;
}

#endif
