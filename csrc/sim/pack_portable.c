/* Front of the simulator on any machine. */
#include "pack_plain.h"
#include "survey.h"
#include "tally.h"

ALWAYS uint32_t differing8(const cv_pack_job *job, size_t i, unsigned lag)
{
    uint32_t bits = 0;
    for (unsigned j = 0; j < 8; j++, i++) {
        uint64_t other_line = (job->address[i] ^ job->address[i - lag]) >> job->line_shift;
        bits |= (uint32_t)((other_line != 0) | (job->write[i] & ~job->write[i - lag] & 1)) << j;
    }
    return bits;
}

ALWAYS uint32_t *places16(uint32_t *place, const uint64_t *address, uint32_t i, cv_selection selection)
{
    for (uint32_t j = i; j < i + 16; j++) {
        *place = j;
        place += (address[j] & selection.mask) == selection.value;
    }
    return place;
}

/* Comparing one number with many gains nothing without vectors. */
ALWAYS void tally_few(cv_tally *t, const uint32_t *id, size_t n) { tally(t, id, n); }
ALWAYS void charge_few(cv_tally *t, const uint64_t *out, size_t n) { charge(t, NULL, out, n); }

#define PATH(name) cv_##name##_portable
#include "pack_path.h"
