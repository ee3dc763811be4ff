/* SPDX-License-Identifier: GPL-2.0-or-later
 * Continuous set sampling: all references to the lines of one class.
 *
 * Inline code asks for each address word, once for all references that lie close to each other after it, whether a line of the class
 * may be touched, and puts the answers together; only then, when the segment ends, it calls cv_visit, which looks at each
 * reference in program order. */
#include "tracer.h"
#include "../common/cv_front_line.h"

static Bool is_on = True;
static struct cv_front_line front = {.line = ~0ULL};
static ULong last_class; /* of the classes that are distinguished now; 0: as many as at first */

#define TESTED_BYTES 64 /* together: two tests of so few bytes are true as often as one */

/* [address, address + size) touches a line of the class: with x = address + size - 1 relative to the class's line, modulo the
 * distance of two such lines, it does exactly when x < 64 + size - 1. Below: x = address + offset. */
struct cv_set_site {
    ULong offset;
    Long displacement;
    UInt limit, size_bytes;
    Bool guarded, store;
    Int base; /* CV_MAX_WORDS, a word that is always 0, where the address is constant */
};

static ULong distance(void) { return 64 * (ULong)cv_options.sets; }

static ULong offset_of(Long displacement, UInt size_bytes) { return displacement + size_bytes - 1 - 64 * (ULong)cv_options.set_class; }

struct cv_set_site *cv_sets_sites(const struct cv_wire_site *sites, UInt n)
{
    struct cv_set_site *out = VG_(malloc)("cv.set_sites", (n + 1) * sizeof *out);
    for (UInt k = 0; k < n; k++)
        out[k] = (struct cv_set_site){.offset = offset_of(sites[k].displacement, sites[k].size_bytes),
                                      .displacement = sites[k].displacement,
                                      .limit = 63 + sites[k].size_bytes,
                                      .size_bytes = sites[k].size_bytes,
                                      .guarded = (sites[k].flags & CV_WIRE_GUARDED) != 0,
                                      .store = (sites[k].flags & CV_WIRE_STORE) != 0,
                                      .base = sites[k].base < 0 ? CV_MAX_WORDS : sites[k].base};
    return out;
}

/* `before`, negative now, too, where [word + first, word + end) touches a line of the class. */
static IRExpr *test(IRSB *out, IRExpr *word, Long first, Long end, IRExpr *before)
{
    UInt size = end - first;
    IRExpr *x =
        cv_ir_binary(out, Iop_And64, cv_ir_binary(out, Iop_Add64, word, cv_ir_u64(offset_of(first, size))), cv_ir_u64(distance() - 1));
    IRExpr *below = cv_ir_binary(out, Iop_Sub64, x, cv_ir_u64(63 + size));
    return before ? cv_ir_binary(out, Iop_Or64, before, below) : below;
}

/* The displacements of the references that share a base, in rising order; returns their number. */
static UInt displacements_of(const struct cv_references *references, Int from, Int to, IRTemp base, Long (*out)[2])
{
    UInt n = 0;
    for (Int k = from; k < to; k++) {
        const struct cv_reference *r = &references->all[k];
        if (r->guard || r->base != base)
            continue;
        UInt at = n++;
        for (; at && out[at - 1][0] > r->displacement; at--) {
            out[at][0] = out[at - 1][0];
            out[at][1] = out[at - 1][1];
        }
        out[at][0] = r->displacement;
        out[at][1] = r->displacement + r->size_bytes;
    }
    return n;
}

IRExpr *cv_sets_test(IRSB *out, const struct cv_references *references, Int from, Int to, const struct cv_word *word, IRExpr *value,
                     IRExpr *before)
{
    if (word && word->guard)
        return test(out, value, 0, references->all[word->reference].size_bytes, before);
    Long(*ranges)[2] = VG_(malloc)("cv.set_ranges", (to - from) * sizeof *ranges);
    UInt n = displacements_of(references, from, to, word ? word->value->Iex.RdTmp.tmp : IRTemp_INVALID, ranges);
    for (UInt k = 0; k < n;) {
        Long first = ranges[k][0], end = ranges[k][1];
        for (k++; k < n && ranges[k][1] - first <= TESTED_BYTES; k++)
            end = ranges[k][1] > end ? ranges[k][1] : end;
        before = test(out, word ? value : cv_ir_u64(0), first, end, before);
    }
    VG_(free)(ranges);
    return before;
}

static Bool is_repeated(ULong line, Bool store) { return cv_front_line_has(&front, line, store) && last_class >= CV_WIRE_REPEATED_CLASSES; }

static void record(ULong address, UInt size_bytes, UInt site, Bool store)
{
    ULong last = (address + size_bytes - 1) >> 6;
    for (ULong line = address >> 6; line <= last; line++) {
        if ((line & (last_class | (cv_options.sets - 1))) != (ULong)cv_options.set_class)
            continue;
        if (is_repeated(line, store))
            continue;
        if (site >> CV_WIRE_SITE_BITS == 0) {
            *cv_next++ = (line << CV_WIRE_SITE_BITS | site) & ~CV_WIRE_VISIT;
        } else {
            *cv_next++ = CV_WIRE_CONTROL | (ULong)CV_WIRE_SETS_LOST << 56 | site;
            *cv_next++ = line << 6;
        }
    }
    if (cv_next >= cv_high_mark)
        cv_flush();
}

void cv_sets_visit(const struct cv_segment_info *segment)
{
    ULong mask = distance() - 1;
    if (!is_on || !segment->selected || !cv_recording)
        return;
    for (UInt k = 0; k < segment->references; k++) {
        const struct cv_set_site *site = &segment->sites[k];
        ULong word = cv_scratch[site->base];
        if (((word + site->offset) & mask) < site->limit && !(site->guarded && word == CV_WIRE_NOT_EXECUTED))
            record(word + site->displacement, site->size_bytes, segment->first_site + k, site->store);
    }
}

void cv_sets_switch(Bool on)
{
    is_on = on;
    front.line = ~0ULL;
    last_class = cv_options.sets ? cv_counters_every(CV_EVERY_SET) - 1 : 0;
}
