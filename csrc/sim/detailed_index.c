/* Which set a line belongs to. */
#include "detailed.h"
#include "level.h"
#include "mix.h"

/* Exclusive or of all groups of log2(sets) bits of the line number. */
static uint64_t folded(const cv_node *n, uint64_t line)
{
    uint64_t set = 0;
    for (; n->set_bits && line; line >>= n->set_bits)
        set ^= line & (n->is.sets - 1);
    return set;
}

/* The last-level slice of Intel's processors with 2, 4 and 8 of them: each bit of its number is the parity of these address bits (C.
 * Maurice, N. Le Scouarnec, C. Neumann, O. Heen and A. Francillon, Reverse engineering Intel last-level cache complex addressing using
 * performance counters, RAID 2015, table 2). */
static uint64_t intel_slice(const cv_node *n, uint64_t line)
{
    static const uint64_t parity_of[] = {UINT64_C(0x1b5f575440), UINT64_C(0x2eb5faa880), UINT64_C(0x3cccc93100)};
    uint64_t address = line << n->line_shift, slice = 0;
    for (uint32_t bit = 0; (1u << bit) < n->is.slices; bit++)
        slice |= (uint64_t)__builtin_parityll(address & parity_of[bit]) << bit;
    return slice;
}

/* Any number of slices, evenly. */
static uint64_t mixed_slice(const cv_node *n, uint64_t line) { return cv_mixed(line) % n->is.slices; }

/* Lines of a page stay side by side, in the frame that it lies in. */
static uint64_t in_frame(const cv_node *n, uint64_t line)
{
    const uint32_t page_shift = PAGE_BITS - n->line_shift;
    const uint64_t within = (UINT64_C(1) << page_shift) - 1;
    const uint64_t frame = page_shift ? cv_frame_of(line >> page_shift) : line;
    return (frame << page_shift | (line & within)) & (n->is.sets - 1);
}

uint64_t cv_set_of(const cv_node *n, uint64_t line)
{
    uint64_t of_slice = n->is.sets / n->is.slices;
    switch (n->is.index) {
    case CV_INDEX_XOR: return folded(n, line);
    case CV_INDEX_INTEL_SLICES: return intel_slice(n, line) * of_slice + line % of_slice;
    case CV_INDEX_MIXED_SLICES: return mixed_slice(n, line) * of_slice + line % of_slice;
    case CV_INDEX_PAGE_FRAMES: return in_frame(n, line);
    default: return n->set_bits != NO_WAY ? line & (n->is.sets - 1) : line % n->is.sets;
    }
}
