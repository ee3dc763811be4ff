/* Set selection: which of eight references are in the selected sets. Included with a function for the instruction set:
 *
 *   uint32_t selected8(address, selection)  bit j: address j's bits (selection in bits of addresses) are the wanted ones */
#ifndef CV_SIM_SELECT_H
#define CV_SIM_SELECT_H

#include "simd.h"

ALWAYS uint32_t selected8(const uint64_t *address, cv_selection selection);

ALWAYS void append(cv_lines *lines, const cv_refs *refs, size_t i) {
    lines->address[lines->count] = refs->address[i];
    lines->owner[lines->count] = refs->owner ? refs->owner[i] : 0;
    lines->write[lines->count++] = refs->write ? refs->write[i] : 0;
}

ALWAYS void select_lines(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor) {
    const cv_selection bits = {selection.mask << line_shift, selection.value << line_shift};
    size_t i = cursor->at;
    for (; i + 8 <= refs->count && lines->count + 8 <= BATCH; i += 8)
        for (uint32_t keep = selected8(refs->address + i, bits); keep; keep &= keep - 1)
            append(lines, refs, i + (size_t)__builtin_ctz(keep));
    for (; i < refs->count && i + 8 > refs->count && lines->count < BATCH; i++)
        if ((refs->address[i] & bits.mask) == bits.value)
            append(lines, refs, i);
    cursor->at = i;
}

#endif
