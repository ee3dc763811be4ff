/* References that touch more than one line are cut at line ends, and lines that are not selected are left out. */
#include "sim.h"

cv_status cv_lines_new(cv_lines *lines)
{
    const size_t room = BATCH + 8; /* eight are written at once, of which some count */
    lines->address = malloc(room * sizeof *lines->address);
    lines->owner = malloc(room * sizeof *lines->owner);
    lines->write = malloc(room * sizeof *lines->write);
    return lines->address && lines->owner && lines->write ? CV_OK : CV_ERROR_MEMORY;
}

void cv_lines_free(cv_lines *lines)
{
    free(lines->address);
    free(lines->owner);
    free(lines->write);
}

static inline uint64_t last_byte(const cv_refs *refs, size_t i)
{
    uint64_t last = refs->address[i] + (refs->size && refs->size[i] ? refs->size[i] - 1 : 0);
    return last >= refs->address[i] ? last : UINT64_MAX; /* nothing lies above the top of the address space */
}

void cv_lines_split(cv_lines *lines, const cv_refs *refs, uint32_t line_shift, cv_selection selection, cv_cursor *cursor)
{
    for (; cursor->at < refs->count; cursor->at++, cursor->line = 0) {
        size_t i = cursor->at;
        uint64_t first = refs->address[i] >> line_shift, last = last_byte(refs, i) >> line_shift;
        for (uint64_t k = cursor->line > first ? cursor->line : first; k <= last; k++) {
            if ((k & selection.mask) != selection.value)
                continue;
            if (lines->count == BATCH) {
                cursor->line = k;
                return;
            }
            lines->address[lines->count] = k << line_shift;
            lines->owner[lines->count] = refs->owner ? refs->owner[i] : 0;
            lines->write[lines->count++] = refs->write ? refs->write[i] : 0;
        }
    }
}
