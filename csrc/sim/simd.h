/* The functions that the tables of instruction sets are made of. */
#ifndef CV_SIM_SIMD_H
#define CV_SIM_SIMD_H

#include "sim.h"

void cv_lru_portable(cv_level *l);
void cv_lru_avx2(cv_level *l);
void cv_lru_avx512(cv_level *l);
size_t cv_pack_portable(cv_pack_job *job, unsigned lag, uint64_t *records);
size_t cv_pack_avx2(cv_pack_job *job, unsigned lag, uint64_t *records);
size_t cv_pack_avx512(cv_pack_job *job, unsigned lag, uint64_t *records);
void cv_select_portable(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor);
void cv_tally_portable(cv_tally *t, const uint32_t *id, size_t n, uint32_t largest);
void cv_charge_portable(cv_tally *t, const uint32_t *owner, const uint64_t *out, size_t n);
cv_survey cv_survey_portable(const cv_refs *refs, uint32_t line_shift, bool lines);
void cv_select_avx2(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor);
void cv_tally_avx2(cv_tally *t, const uint32_t *id, size_t n, uint32_t largest);
void cv_charge_avx2(cv_tally *t, const uint32_t *owner, const uint64_t *out, size_t n);
cv_survey cv_survey_avx2(const cv_refs *refs, uint32_t line_shift, bool lines);
void cv_select_avx512(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor);
void cv_tally_avx512(cv_tally *t, const uint32_t *id, size_t n, uint32_t largest);
void cv_charge_avx512(cv_tally *t, const uint32_t *owner, const uint64_t *out, size_t n);
cv_survey cv_survey_avx512(const cv_refs *refs, uint32_t line_shift, bool lines);

#ifndef ALWAYS
#define ALWAYS static inline __attribute__((always_inline))
#endif

#endif
