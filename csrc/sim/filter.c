/* A direct-mapped filter in front of the first levels.
 *
 * Slot s holds the last line whose number is s modulo the slots. When it comes again, no other line of its slot came between; where
 * the slots divide the number of sets, no other line of its set came between either: the line is the most recent of its set in
 * every first level, and the reference changes nothing unless it is the first write. */
#include "sim.h"

#define NO_LINE LINE_MASK /* no record has this line: regions end before it */

void cv_filter_reset(cv_filter *filter)
{
    for (size_t i = 0; i < FILTER_SLOTS; i++)
        filter->slot[i] = NO_LINE;
}

size_t cv_filter_run(cv_filter *filter, const uint64_t *in, size_t n, uint64_t *out)
{
    const uint64_t mask = filter->slots - 1;
    uint64_t *kept = out;
    for (size_t i = 0; i < n; i++) {
        uint64_t record = in[i], *slot = &filter->slot[record & mask], held = *slot;
        uint64_t other_line = (held ^ record) & LINE_MASK, first_write = record & ~held & FLAG;
        if (other_line | first_write) {
            *slot = record & (LINE_MASK | FLAG);
            /* A first write finds a clean line there, so nothing is lost by storing the record's own flag. */
            *kept++ = record;
        }
    }
    return (size_t)(kept - out);
}
