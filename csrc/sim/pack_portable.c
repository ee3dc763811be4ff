/* Front of the simulator on any machine. */
#include "pack.h"
#include "select.h"
#include "survey.h"
#include "tally.h"

ALWAYS uint32_t differing8(const cv_pack_job *job, size_t i, unsigned lag) {
    uint32_t bits = 0;
    for (unsigned j = 0; j < 8; j++, i++) {
        uint64_t other_line = (job->address[i] ^ job->address[i - lag]) >> job->line_shift;
        bits |= (uint32_t)((other_line != 0) | (job->write[i] & ~job->write[i - lag] & 1)) << j;
    }
    return bits;
}

ALWAYS uint64_t *emit8(cv_pack_job *job, size_t i, uint32_t keep, uint64_t *out) {
    for (; keep; keep &= keep - 1)
        *out++ = record_of(job, i + (size_t)__builtin_ctz(keep));
    return out;
}

ALWAYS bool append8(cv_lines *lines, const cv_refs *refs, size_t i, cv_selection selection) { return false; }

ALWAYS uint32_t *places16(uint32_t *place, const uint64_t *address, uint32_t i, cv_selection selection) {
    for (uint32_t j = i; j < i + 16; j++) {
        *place = j;
        place += (address[j] & selection.mask) == selection.value;
    }
    return place;
}

size_t cv_pack_portable(cv_pack_job *job, unsigned lag, uint64_t *records) { return pack(job, lag, records); }
void cv_tally_portable(cv_tally *t, const uint32_t *id, size_t n, uint32_t largest) {
    (void)largest;
    tally(t, id, n);
}
void cv_charge_portable(cv_tally *t, const uint32_t *owner, const uint64_t *out, size_t n) { charge(t, owner, out, n); }
void cv_select_portable(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor) {
    select_lines(lines, refs, line_shift, selection, cursor);
}
cv_survey cv_survey_portable(const cv_refs *refs, uint32_t line_shift, bool lines) { return survey(refs, line_shift, lines); }
