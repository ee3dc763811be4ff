/* What instruction sets without a compressing store have in common: records one at a time, and no selection of eight at once. */
#ifndef CV_SIM_PACK_PLAIN_H
#define CV_SIM_PACK_PLAIN_H

#include "pack.h"
#include "select.h"

ALWAYS uint64_t *emit8(cv_pack_job *job, size_t i, uint32_t keep, uint64_t *out)
{
    for (; keep; keep &= keep - 1)
        *out++ = record_of(job, i + (size_t)__builtin_ctz(keep));
    return out;
}

ALWAYS bool append8(cv_lines *lines, const cv_refs *refs, size_t i, cv_selection selection) { return false; }

#endif
