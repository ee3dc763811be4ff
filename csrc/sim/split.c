/* References that touch more than one line are cut at line ends before they are simulated. */
#include "sim.h"

static inline uint64_t last_byte(const cv_refs *refs, size_t i) {
    uint64_t last = refs->address[i] + (refs->size[i] ? refs->size[i] - 1 : 0);
    return last >= refs->address[i] ? last : UINT64_MAX; /* nothing lies above the top of the address space */
}

size_t cv_split_lines(const cv_front *f, const cv_refs *refs, size_t *at, uint64_t *line) {
    size_t n = 0, i = *at;
    for (; i < refs->count; i++) {
        uint64_t first = refs->address[i] >> f->line_shift, last = last_byte(refs, i) >> f->line_shift;
        for (uint64_t k = *line > first ? *line : first; k <= last; k++) {
            if (n == BATCH) {
                *at = i;
                *line = k;
                return n;
            }
            f->address[n] = k << f->line_shift;
            f->owner[n] = refs->owner ? refs->owner[i] : 0;
            f->write[n++] = refs->write ? refs->write[i] : 0;
        }
        *line = 0;
    }
    *at = i;
    return n;
}
