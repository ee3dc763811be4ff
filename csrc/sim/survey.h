/* What must be known of a batch before it is simulated, as plain loops that the compiler vectorizes for each instruction set. */
#ifndef CV_SIM_SURVEY_H
#define CV_SIM_SURVEY_H

#include "simd.h"

ALWAYS uint64_t all_addresses(const uint64_t *restrict address, size_t n)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= address[i];
    return all;
}

ALWAYS uint32_t largest(const uint32_t *restrict owner, size_t n)
{
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++)
        found = owner[i] > found ? owner[i] : found;
    return found;
}

/* A size of 0 counts as crossing here: the exact treatment (split.c) makes a byte of it. */
ALWAYS bool crossing(const uint64_t *restrict address, const uint16_t *restrict size, size_t n, uint32_t line_shift)
{
    const uint64_t within = (UINT64_C(1) << line_shift) - 1;
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++)
        last |= (address[i] & within) + size[i] - 1;
    return last >> line_shift;
}

ALWAYS cv_survey survey(const cv_refs *refs, uint32_t line_shift, bool lines)
{
    return (cv_survey){
        .lines = lines ? all_addresses(refs->address, refs->count) >> line_shift : 0,
        .max_owner = refs->owner ? largest(refs->owner, refs->count) : 0,
        .straddles = refs->size && crossing(refs->address, refs->size, refs->count, line_shift),
    };
}

#endif
