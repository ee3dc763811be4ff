/* The functions that the tables of instruction sets are made of. */
#ifndef CV_SIM_SIMD_H
#define CV_SIM_SIMD_H

#include "sim.h"

#define CV_PATH(path)                                                                                                            \
    void cv_lru_##path(cv_level *l);                                                                                             \
    size_t cv_pack_##path(cv_pack_job *job, unsigned lag, uint64_t *records);                                                    \
    cv_survey cv_survey_##path(const cv_refs *refs, uint32_t line_shift, bool lines);                                            \
    void cv_select_##path(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor); \
    void cv_tally_##path(cv_tally *t, const uint32_t *id, size_t n, uint32_t largest);                                           \
    void cv_charge_##path(cv_tally *t, const uint32_t *owner, const uint64_t *out, size_t n);
CV_PATH(portable)
CV_PATH(avx2)
CV_PATH(avx512)

#ifndef ALWAYS
#define ALWAYS static inline __attribute__((always_inline))
#endif

#endif
