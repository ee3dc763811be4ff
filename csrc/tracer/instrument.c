/* SPDX-License-Identifier: GPL-2.0-or-later
 * Adds the inline code to a block: a counter for each segment, address words and the end of the record, tests for set sampling.
 *
 * Recording every address, a visit record is written straight into the stream's buffer, which moves on only at the segment's end:
 * a segment that faults in the middle leaves no record. Sampling, one guarded call at the segment's end, for bursts and sampled sets
 * together, takes up to four words as arguments; more go to a scratch area at all times, which costs a store each, and the call copies
 * them when a window is open. */
#include "tracer.h"
#include "pub_tool_machine.h"
#include "libvex_guest_amd64.h"

#define ARGUMENTS 4

/* The segment being emitted. */
struct emission {
    IRSB *out;
    const struct cv_references *references;
    struct cv_segment *segment;
    Int from, to;       /* its references */
    Int next_reference; /* not yet emitted */
    Int next_word;
    Int next_guard;
    IRExpr *executions;          /* the counter's new value */
    IRExpr *argument[ARGUMENTS]; /* the address words, where they are few */
    IRExpr *call;                /* negative: cv_visit is to be called; NULL: never */
    IRExpr *record;              /* address of the visit record, where every address is recorded */
};

ULong cv_executed_parts[CV_EXECUTED_PARTS];

static IRExpr *increment(IRSB *out, Addr counter, IRExpr *by)
{
    IRExpr *sum = cv_ir_binary(out, Iop_Add64, cv_ir_load64(out, cv_ir_u64(counter)), by);
    cv_ir_store64(out, cv_ir_u64(counter), sum);
    return sum;
}

static Bool wants_record(const struct emission *e) { return e->segment->recorded && (e->to > e->from || cv_options.all_visits); }

/* Are the address words of the segment used for anything? */
static Bool takes_words(const struct emission *e)
{
    return wants_record(e) && e->to > e->from && (cv_options.mode != CV_COUNTS || cv_options.sets);
}

static void begin(struct emission *e)
{
    e->executions = increment(e->out, cv_counter_address(e->segment->counter), cv_ir_u64(1));
    if (cv_options.total)
        increment(e->out, (Addr)&cv_executed_parts[e->segment->counter % CV_EXECUTED_PARTS], cv_ir_u64(e->segment->begins));
    if (cv_options.mode == CV_FULL && wants_record(e)) {
        e->record = cv_ir_load64(e->out, cv_ir_u64((Addr)&cv_next));
        cv_ir_store64(e->out, e->record, cv_ir_u64(CV_WIRE_VISIT | e->segment->id));
    }
}

static void emit_word(struct emission *e, const struct cv_word *word, Int index)
{
    IRExpr *value = word->value;
    if (word->guard)
        value = cv_ir_assign(e->out, IRExpr_ITE(word->guard, word->value, cv_ir_u64(CV_WIRE_NOT_EXECUTED)));
    e->argument[index < ARGUMENTS ? index : 0] = value;
    if (cv_options.mode == CV_FULL)
        cv_ir_store64(e->out, cv_ir_binary(e->out, Iop_Add64, e->record, cv_ir_u64(8 * (1 + index))), value);
    else if (e->segment->words > ARGUMENTS)
        cv_ir_store64(e->out, cv_ir_u64((Addr)&cv_scratch[index]), value);
    if (cv_options.sets)
        e->call = cv_sets_test(e->out, e->references, e->from, e->to, word, value, e->call);
}

/* Everything that belongs before statement `at`. */
static void emit_references(struct emission *e, Int at)
{
    for (; e->next_reference < e->to && e->references->all[e->next_reference].statement == at; e->next_reference++) {
        const struct cv_reference *r = &e->references->all[e->next_reference];
        if (r->guard)
            increment(e->out, cv_counter_address(e->segment->first_guard_counter + e->next_guard++),
                      cv_ir_assign(e->out, IRExpr_Unop(Iop_1Uto64, r->guard)));
        if (!takes_words(e))
            continue;
        for (; e->next_word < e->segment->words && e->segment->word[e->next_word].reference == e->next_reference; e->next_word++)
            emit_word(e, &e->segment->word[e->next_word], e->next_word);
    }
}

static void call_limit(struct emission *e, IRExpr *guard)
{
    cv_ir_call(e->out, "cv_limit_reached", cv_limit_reached, mkIRExprVec_2(IRExpr_GSPTR(), cv_ir_u64(e->segment->id)), guard);
    IRDirty *call = e->out->stmts[e->out->stmts_used - 1]->Ist.Dirty.details;
    VG_(memset)(&call->fxState, 0, sizeof call->fxState);
    call->nFxState = 1;
    call->fxState[0].fx = Ifx_Modify;
    call->fxState[0].offset = offsetof(VexGuestAMD64State, host_EvC_COUNTER);
    call->fxState[0].size = sizeof(UInt);
}

static void finish_full(struct emission *e)
{
    IRExpr *next = cv_ir_binary(e->out, Iop_Add64, e->record, cv_ir_u64(8 * (1 + e->segment->words)));
    cv_ir_store64(e->out, cv_ir_u64((Addr)&cv_next), next);
    IRExpr *full = cv_ir_binary(e->out, Iop_And64, next, cv_ir_u64(cv_output_full_bit()));
    cv_ir_call(e->out, "cv_flush", cv_flush, mkIRExprVec_0(), cv_ir_assign(e->out, IRExpr_Unop(Iop_CmpNEZ64, full)));
    if (cv_options.block_limit)
        call_limit(e, cv_ir_binary(e->out, Iop_CmpLE64U, cv_ir_u64(cv_options.block_limit), e->executions));
}

static void count_down(struct emission *e)
{
    Addr countdown = (Addr)&cv_countdown;
    IRExpr *left =
        e->to > e->from ? increment(e->out, countdown, cv_ir_u64(-(ULong)(e->to - e->from))) : cv_ir_load64(e->out, cv_ir_u64(countdown));
    e->call = e->call ? cv_ir_binary(e->out, Iop_Or64, left, e->call) : left;
}

static void call_visit(struct emission *e)
{
    IRExpr *guard = cv_ir_binary(e->out, Iop_CmpLT64S, e->call, cv_ir_u64(0)), *id = cv_ir_u64(e->segment->id), **a = e->argument;
    switch (takes_words(e) ? e->segment->words : 0) {
    case 1: cv_ir_call(e->out, "cv_visit_1", cv_visit_1, mkIRExprVec_2(id, a[0]), guard); break;
    case 2: cv_ir_call(e->out, "cv_visit_2", cv_visit_2, mkIRExprVec_3(id, a[0], a[1]), guard); break;
    case 3: cv_ir_call(e->out, "cv_visit_3", cv_visit_3, mkIRExprVec_4(id, a[0], a[1], a[2]), guard); break;
    case 4: cv_ir_call(e->out, "cv_visit_4", cv_visit_4, mkIRExprVec_5(id, a[0], a[1], a[2], a[3]), guard); break;
    default: cv_ir_call(e->out, "cv_visit", cv_visit, mkIRExprVec_1(id), guard);
    }
}

/* Just before the exit that ends the segment. */
static void finish(struct emission *e)
{
    if (cv_options.mode == CV_FULL && wants_record(e))
        finish_full(e);
    /* Segments that are not recorded count, too, or windows would lie elsewhere than without the selection. */
    if (cv_options.mode == CV_SAMPLE && cv_options.interval && (e->to > e->from || wants_record(e)))
        count_down(e);
    if (e->call)
        call_visit(e);
}

/* Does control leave the block here? An exit that stands for a fault (an operand that is not aligned) ends no segment, as a fault of
 * a memory access does not. */
static Bool leaves(const IRStmt *s) { return s->tag == Ist_Exit && s->Ist.Exit.jk != Ijk_SigSEGV && s->Ist.Exit.jk != Ijk_SigBUS; }

static void keep(IRSB *out, IRStmt *s)
{
    if (!cv_ir_is_prefetch(s))
        addStmtToIRSB(out, s);
}

static void emit_segment(const IRSB *in, Int first, Int end, struct emission *e)
{
    e->next_reference = e->from;
    e->next_word = e->next_guard = 0;
    e->record = e->call = NULL;
    begin(e);
    if (cv_options.sets && takes_words(e))
        e->call = cv_sets_test(e->out, e->references, e->from, e->to, NULL, NULL, NULL);
    for (Int i = first; i < end; i++) {
        emit_references(e, i);
        if (leaves(in->stmts[i]))
            finish(e);
        keep(e->out, in->stmts[i]);
    }
    if (!leaves(in->stmts[end - 1]))
        finish(e);
}

static Int segment_end(const IRSB *in, Int first)
{
    Int end = first;
    while (end < in->stmts_used && !leaves(in->stmts[end]))
        end++;
    return end < in->stmts_used ? end + 1 : end;
}

static void emit_block(const IRSB *in, Int first, IRSB *out, Addr start)
{
    static struct cv_segment segment; /* large; translation does not nest */
    struct cv_references references = cv_analyse(in, first, start);
    struct emission e = {.out = out, .references = &references, .segment = &segment};
    for (Int end; first < in->stmts_used; first = end) {
        end = segment_end(in, first);
        for (e.from = e.to; e.to < references.count && references.all[e.to].statement < end;)
            e.to++;
        if (cv_segment_make(in, first, end, &references, e.from, e.to, &segment)) {
            segment.recorded = cv_segment_infos[segment.id].selected && !cv_segment_infos[segment.id].stopped;
            emit_segment(in, first, end, &e);
        } else {
            for (Int i = first; i < end; i++)
                keep(out, in->stmts[i]);
        }
    }
    cv_references_free(&references);
}

IRSB *cv_instrument(VgCallbackClosure *closure, IRSB *block, const VexGuestLayout *layout, const VexGuestExtents *extents,
                    const VexArchInfo *archinfo, IRType guest_word, IRType host_word)
{
    Int first = 0;
    if (cv_options.pack && cv_has_multiply_add(block))
        block = cv_pack(block);
    if (cv_options.pack && cv_has_multiply_add(block))
        block = cv_call_lanes(block);
    if (cv_options.fuse)
        block = cv_fuse(block);
    IRSB *out = deepCopyIRSBExceptStmts(block);
    /* What precedes the first instruction is Valgrind's check for modified code: it must stay as it is, and uncounted. */
    while (first < block->stmts_used && block->stmts[first]->tag != Ist_IMark)
        addStmtToIRSB(out, block->stmts[first++]);
    cv_region_instrument(out, extents->base[0]);
    cv_objects_instrument_entry(out, extents->base[0]);
    cv_synchronization_instrument_entry(out, extents->base[0]);
    if (first < block->stmts_used)
        emit_block(block, first, out, extents->base[0]);
    cv_objects_instrument_end(out);
    cv_synchronization_instrument_end(out);
    cv_stream_publish();
    return out;
}
