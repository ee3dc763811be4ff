/* SPDX-License-Identifier: GPL-2.0-or-later
 * Segments: their definitions in the stream, their ids and counters.
 *
 * A segment is known by its content: module, address, code bytes, instructions and references. Valgrind throws translations away
 * and makes them anew, so the content's 128-bit hash finds the id and the counters again; other code at the same address (a JIT,
 * a library loaded over another) gets an id of its own. Nothing is ever freed: counters are read when the program has ended. */
#include "tracer.h"

struct known {
    ULong hash[2];
    UInt id, counter, first_site;
};

struct cv_segment_info *cv_segment_infos;

static struct known *table; /* open addressing, at most half full; id + 1, 0: empty */
static UInt table_size;
static UInt n_segments, infos_room, n_sites;

/* Segments are defined one at a time, so one buffer serves. 60 instructions fit many times. */
static UChar payload[2 * CV_RECORD_WORDS * sizeof(ULong) - 64];

static ULong mix(ULong h, ULong word)
{
    h = (h ^ word) * 0x9E3779B97F4A7C15ULL;
    return h ^ h >> 29;
}

static void hash_payload(const ULong *words, SizeT n, ULong hash[2])
{
    hash[0] = 1;
    hash[1] = 2;
    for (SizeT i = 0; i < n; i++) {
        hash[0] = mix(hash[0], words[i]);
        hash[1] = mix(hash[1] ^ hash[0], words[i] + i);
    }
}

static struct known *slot_of(const ULong hash[2])
{
    UInt at = hash[0] & (table_size - 1);
    while (table[at].id && (table[at].hash[0] != hash[0] || table[at].hash[1] != hash[1]))
        at = (at + 1) & (table_size - 1);
    return &table[at];
}

static void grow(void)
{
    if (2 * n_segments >= table_size) {
        struct known *old = table;
        UInt old_size = table_size;
        table_size = old_size ? 2 * old_size : 1 << 13;
        table = VG_(calloc)("cv.segments", table_size, sizeof *table);
        for (UInt i = 0; i < old_size; i++)
            if (old[i].id)
                *slot_of(old[i].hash) = old[i];
        if (old)
            VG_(free)(old);
    }
    cv_segment_infos = cv_with_room(cv_segment_infos, &infos_room, n_segments + 1, sizeof *cv_segment_infos);
}

/* The instructions of a segment. One that an exit divides (rep, for example) comes back in the next segment, flagged, when there
 * is something left to count in it. */
static UInt describe_instructions(const IRSB *block, Int first, Int end, Bool continued, Addr *start, Addr *stop,
                                  struct cv_wire_instruction *out)
{
    UInt n = 0;
    for (Int i = first; i < end; i++) {
        const IRStmt *s = block->stmts[i];
        if (s->tag == Ist_IMark) {
            if (n == 0)
                *start = s->Ist.IMark.addr;
            *stop = s->Ist.IMark.addr + s->Ist.IMark.len;
            out[n] = (struct cv_wire_instruction){.offset = s->Ist.IMark.addr - *start, .length = s->Ist.IMark.len};
            n++;
        } else if (n == 0 && continued) {
            out[0] = (struct cv_wire_instruction){.length = *stop - *start, .flags = CV_WIRE_CONTINUED};
            n = 1;
        }
        if (n)
            out[n - 1].flops += cv_statement_flops(s);
    }
    return n;
}

/* Is there anything to count before the first instruction mark? If so, where is the instruction that it belongs to? */
static Bool continues_instruction(const IRSB *block, Int first, Int end, Bool has_references, Addr *start, Addr *stop)
{
    Bool needed = has_references;
    for (Int i = first; i < end && block->stmts[i]->tag != Ist_IMark; i++)
        needed |= cv_statement_flops(block->stmts[i]) > 0;
    for (Int i = first - 1; needed && i >= 0; i--)
        if (block->stmts[i]->tag == Ist_IMark) {
            *start = block->stmts[i]->Ist.IMark.addr;
            *stop = *start + block->stmts[i]->Ist.IMark.len;
            return True;
        }
    return False;
}

static Int word_of(struct cv_segment *segment, const struct cv_reference *r, Int reference)
{
    if (!r->guard)
        for (Int w = 0; w < segment->words; w++)
            if (!segment->word[w].guard && segment->word[w].value->Iex.RdTmp.tmp == r->base)
                return w;
    tl_assert(segment->words < CV_MAX_WORDS);
    segment->word[segment->words] = (struct cv_word){reference, r->guard ? r->address : IRExpr_RdTmp(r->base), r->guard};
    return segment->words++;
}

static UInt describe_sites(const IRSB *block, Int first, const struct cv_references *references, Int from, Int to, Bool continued,
                           struct cv_segment *segment, struct cv_wire_site *out)
{
    UInt guarded = 0;
    Int instruction = continued ? 0 : -1, at = first;
    for (Int k = from; k < to; k++) {
        const struct cv_reference *r = &references->all[k];
        for (; at <= r->statement; at++)
            instruction += block->stmts[at]->tag == Ist_IMark;
        struct cv_wire_site *site = &out[k - from];
        *site = (struct cv_wire_site){.displacement = r->guard ? 0 : r->displacement,
                                      .size_bytes = r->size_bytes,
                                      .instruction = instruction,
                                      .base = -1,
                                      .flags = r->flags};
        if (r->guard)
            site->guard_counter = guarded++; /* from the segment's first; made absolute once it is known */
        if (r->guard || r->base != IRTemp_INVALID)
            site->base = word_of(segment, r, k);
    }
    return guarded;
}

/* Copies the code as the translator just read it. */
static UInt copy_code(UChar *out, Addr start, Addr stop)
{
    UInt bytes = stop - start;
    VG_(memset)(out, 0, (bytes + 7) / 8 * 8);
    VG_(memcpy)(out, (void *)start, bytes);
    return bytes;
}

static void define(struct cv_wire_segment *head, struct cv_wire_site *sites, UInt guarded, SizeT bytes, struct known *known,
                   const ULong hash[2])
{
    *known = (struct known){{hash[0], hash[1]}, n_segments + 1, cv_counters_allocate(1 + guarded), n_sites};
    head->id = n_segments;
    head->counter = known->counter;
    head->first_site = known->first_site;
    for (UInt k = 0; k < head->sites; k++)
        if (sites[k].flags & CV_WIRE_GUARDED)
            sites[k].guard_counter += known->counter + 1;
    cv_stream_record(CV_WIRE_SEGMENT, 0, payload, bytes);
    cv_segment_infos[n_segments++] =
        (struct cv_segment_info){.address = head->address,
                                 .references = head->sites,
                                 .first_site = head->first_site,
                                 .words = head->words,
                                 .sites = cv_options.sets && head->sites ? cv_sets_sites(sites, head->sites) : NULL,
                                 .selected = cv_selected(cv_module_path(head->module), head->file_offset)};
    n_sites += head->sites;
}

Bool cv_segment_make(const IRSB *block, Int first, Int end, const struct cv_references *references, Int from, Int to,
                     struct cv_segment *segment)
{
    Addr start = 0, stop = 0;
    struct cv_wire_segment *head = (struct cv_wire_segment *)payload;
    struct cv_wire_instruction *instructions = (struct cv_wire_instruction *)(head + 1);
    Int mark = first;
    while (mark < end && block->stmts[mark]->tag != Ist_IMark)
        mark++;
    Bool continued = continues_instruction(block, first, end, from < to && references->all[from].statement < mark, &start, &stop);
    UInt n = describe_instructions(block, first, end, continued, &start, &stop, instructions);
    if (n == 0)
        return False;
    segment->words = 0;
    struct cv_wire_site *sites = (struct cv_wire_site *)(instructions + n);
    UInt guarded = describe_sites(block, first, references, from, to, continued, segment, sites);
    UChar *code = (UChar *)(sites + (to - from));
    *head = (struct cv_wire_segment){.address = start, .words = segment->words, .sites = to - from, .instructions = n};
    head->module = cv_module_of(start, &head->file_offset);
    head->code_bytes = copy_code(code, start, stop);
    SizeT bytes = code + (head->code_bytes + 7) / 8 * 8 - payload;
    tl_assert(bytes <= sizeof payload);

    ULong hash[2];
    grow();
    hash_payload((const ULong *)payload, bytes / 8, hash);
    struct known *known = slot_of(hash);
    if (!known->id) {
        define(head, sites, guarded, bytes, known, hash);
        cv_flow_write(block, first, end, references, from, to, head->id);
    }
    segment->id = known->id - 1;
    segment->counter = known->counter;
    segment->begins = n - (instructions[0].flags & CV_WIRE_CONTINUED ? 1 : 0);
    segment->first_site = known->first_site;
    segment->first_guard_counter = known->counter + 1;
    return True;
}
