/* SPDX-License-Identifier: GPL-2.0-or-later
 * Where a segment's addresses, stored values and final registers come from: from the registers with which it begins and from what its
 * own references load. Whoever walks the executed segments with this can follow a pointer through any number of them.
 *
 * Temporaries live on after an exit into the next segment of the block. Such a one counts as a register where it is a copy of one that
 * was not written since; otherwise its origin is forgotten, which only loses a dependence. */
#include "tracer.h"
#include "libvex_guest_amd64.h"

#define REGISTER_BYTES 8
#define FIRST_GENERAL offsetof(VexGuestAMD64State, guest_RAX)
#define END_GENERAL (offsetof(VexGuestAMD64State, guest_R15) + 8)
#define FIRST_FLAGS offsetof(VexGuestAMD64State, guest_CC_OP)
#define END_FLAGS (offsetof(VexGuestAMD64State, guest_CC_NDEP) + 8)
#define FIRST_VECTOR offsetof(VexGuestAMD64State, guest_YMM0)
#define VECTOR_BYTES 32
#define END_VECTOR (FIRST_VECTOR + 16 * VECTOR_BYTES)
#define STATE_WORDS (sizeof(VexGuestAMD64State) / REGISTER_BYTES + 8)
#define MOST_ENTRIES 4000 /* that fit in a record; 60 instructions need far fewer */

struct origin {
    ULong registers;  /* one bit each: enum cv_wire_flow_register */
    ULong references; /* loads of the segment, by number; those after the 64th are not followed */
};

struct flow {
    const IRSB *block;
    const struct cv_references *references;
    Int from, to; /* the segment's */
    Int next;     /* reference not yet come to */
    Int loading;  /* the last one that loads */
    struct origin *temporaries;
    struct origin words[STATE_WORDS]; /* of the guest's state */
    UChar written[STATE_WORDS];
    struct cv_wire_flow *out;
    UInt count;
};

/* The register that a word of the guest's state belongs to; -1: none that addresses are made of. */
static Int register_of(Int word)
{
    Int offset = word * REGISTER_BYTES;
    if (offset >= FIRST_GENERAL && offset < END_GENERAL)
        return (offset - FIRST_GENERAL) / REGISTER_BYTES;
    if (offset >= FIRST_FLAGS && offset < END_FLAGS)
        return CV_WIRE_FLOW_FLAGS;
    if (offset >= FIRST_VECTOR && offset < END_VECTOR)
        return CV_WIRE_FLOW_VECTOR + (offset - FIRST_VECTOR) / VECTOR_BYTES;
    return -1;
}

static void join(struct origin *to, struct origin from)
{
    to->registers |= from.registers;
    to->references |= from.references;
}

static struct origin loaded(const struct flow *flow)
{
    Int number = flow->loading - flow->from;
    struct origin origin = {0, 0};
    if (flow->loading >= 0 && number < 64)
        origin.references = 1ULL << number;
    return origin;
}

static struct origin origin_of(const struct flow *flow, const IRExpr *e)
{
    struct origin origin = {0, 0};
    IRExpr *parts[5];
    if (e->tag == Iex_RdTmp)
        return flow->temporaries[e->Iex.RdTmp.tmp];
    if (e->tag == Iex_Get)
        return flow->words[e->Iex.Get.offset / REGISTER_BYTES];
    if (e->tag == Iex_Load)
        return loaded(flow);
    for (IRExpr **part = cv_ir_operands(e, parts); *part; part++)
        join(&origin, origin_of(flow, *part));
    return origin; /* none: constants, x87 registers */
}

static void put(struct flow *flow, Int offset, Int bytes, struct origin origin)
{
    for (Int at = offset; at < offset + bytes; at += REGISTER_BYTES) {
        Int word = at / REGISTER_BYTES;
        if (bytes < REGISTER_BYTES)
            join(&flow->words[word], origin); /* a part written leaves the rest as it was */
        else
            flow->words[word] = origin;
        flow->written[word] = True;
    }
}

/* A call into the tool's or Valgrind's helpers: its result and what it changes come from its arguments and from what it reads. */
static void call(struct flow *flow, const IRDirty *call)
{
    struct origin origin = {0, 0};
    for (Int i = 0; call->args[i]; i++)
        if (!is_IRExpr_VECRET_or_GSPTR(call->args[i]))
            join(&origin, origin_of(flow, call->args[i]));
    if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
        join(&origin, loaded(flow));
    if (call->tmp != IRTemp_INVALID)
        flow->temporaries[call->tmp] = origin;
    for (Int i = 0; i < call->nFxState; i++)
        if (call->fxState[i].fx != Ifx_Read)
            for (Int r = 0; r <= call->fxState[i].nRepeats; r++)
                put(flow, call->fxState[i].offset + r * call->fxState[i].repeatLen, call->fxState[i].size, origin);
}

static void statement(struct flow *flow, const IRStmt *s)
{
    struct origin origin = {0, 0};
    switch (s->tag) {
    case Ist_WrTmp: flow->temporaries[s->Ist.WrTmp.tmp] = origin_of(flow, s->Ist.WrTmp.data); break;
    case Ist_Put:
        put(flow, s->Ist.Put.offset, sizeofIRType(typeOfIRExpr(flow->block->tyenv, s->Ist.Put.data)), origin_of(flow, s->Ist.Put.data));
        break;
    case Ist_LoadG:
        origin = origin_of(flow, s->Ist.LoadG.details->alt);
        join(&origin, loaded(flow));
        flow->temporaries[s->Ist.LoadG.details->dst] = origin;
        break;
    case Ist_CAS:
        flow->temporaries[s->Ist.CAS.details->oldLo] = loaded(flow);
        if (s->Ist.CAS.details->oldHi != IRTemp_INVALID)
            flow->temporaries[s->Ist.CAS.details->oldHi] = loaded(flow);
        break;
    case Ist_Dirty: call(flow, s->Ist.Dirty.details); break;
    default: break;
    }
}

/* Which register each temporary is a copy of where statement `first` begins; -1: none. */
static void find_copies(const IRSB *block, Int first, Int *copy_of)
{
    for (Int t = 0; t < block->tyenv->types_used; t++)
        copy_of[t] = -1;
    for (Int i = 0; i < first; i++) {
        const IRStmt *s = block->stmts[i];
        if (s->tag == Ist_WrTmp && s->Ist.WrTmp.data->tag == Iex_Get) {
            copy_of[s->Ist.WrTmp.tmp] = register_of(s->Ist.WrTmp.data->Iex.Get.offset / REGISTER_BYTES);
        } else if (s->tag == Ist_Put) {
            Int r = register_of(s->Ist.Put.offset / REGISTER_BYTES);
            for (Int t = 0; t < block->tyenv->types_used; t++)
                if (copy_of[t] == r)
                    copy_of[t] = -1;
            if (s->Ist.Put.data->tag == Iex_RdTmp)
                copy_of[s->Ist.Put.data->Iex.RdTmp.tmp] = r;
        }
    }
}

static void take_copies(struct flow *flow, Int first)
{
    Int types = flow->block->tyenv->types_used;
    Int *copy_of = VG_(malloc)("cv.flow.copies", (types + 1) * sizeof *copy_of);
    find_copies(flow->block, first, copy_of);
    for (Int t = 0; t < types; t++)
        if (copy_of[t] >= 0)
            flow->temporaries[t].registers = 1ULL << copy_of[t];
    VG_(free)(copy_of);
}

static void write(struct flow *flow, enum cv_wire_flow_kind kind, UInt index, struct origin origin)
{
    flow->out[flow->count++] =
        (struct cv_wire_flow){.registers = origin.registers | (ULong)kind << 62 | (ULong)index << 40, .references = origin.references};
}

static const IRExpr *stored(const IRStmt *s)
{
    return s->tag == Ist_Store    ? s->Ist.Store.data
           : s->tag == Ist_StoreG ? s->Ist.StoreG.details->data
           : s->tag == Ist_CAS    ? s->Ist.CAS.details->dataLo
                                  : NULL;
}

/* What the references of one statement need; only what depends on anything is written. */
static void references_at(struct flow *flow, Int at)
{
    for (; flow->next < flow->to && flow->references->all[flow->next].statement == at; flow->next++) {
        const struct cv_reference *r = &flow->references->all[flow->next];
        Bool stores = r->flags & CV_WIRE_STORE;
        struct origin address = origin_of(flow, r->address);
        if (address.registers || address.references)
            write(flow, CV_WIRE_FLOW_ADDRESS, flow->next - flow->from, address);
        const IRExpr *data = stores ? stored(flow->block->stmts[at]) : NULL;
        struct origin value = data ? origin_of(flow, data) : (struct origin){0, 0};
        if (value.registers || value.references)
            write(flow, CV_WIRE_FLOW_VALUE, flow->next - flow->from, value);
        if (!stores)
            flow->loading = flow->next;
    }
}

static void registers_at_end(struct flow *flow)
{
    struct origin origins[CV_WIRE_FLOW_REGISTERS];
    UChar written[CV_WIRE_FLOW_REGISTERS];
    VG_(memset)(origins, 0, sizeof origins);
    VG_(memset)(written, 0, sizeof written);
    for (Int word = 0; word < STATE_WORDS; word++) {
        Int r = register_of(word);
        if (r < 0 || (r >= CV_WIRE_FLOW_VECTOR && (word * REGISTER_BYTES - FIRST_VECTOR) % VECTOR_BYTES >= 16))
            continue; /* pointers in the high half of a vector register are not followed */
        join(&origins[r], flow->words[word]);
        written[r] |= flow->written[word];
    }
    for (Int r = 0; r < CV_WIRE_FLOW_REGISTERS; r++)
        if (written[r] && (origins[r].registers != 1ULL << r || origins[r].references))
            write(flow, CV_WIRE_FLOW_REGISTER, r, origins[r]);
}

void cv_flow_write(const IRSB *block, Int first, Int end, const struct cv_references *references, Int from, Int to, UInt segment)
{
    static struct flow flow; /* large; translation does not nest */
    VG_(memset)(&flow, 0, sizeof flow);
    flow.block = block;
    flow.references = references;
    flow.from = from;
    flow.to = to;
    flow.next = from;
    flow.loading = -1;
    if (2 * (to - from) + CV_WIRE_FLOW_REGISTERS + 1 > MOST_ENTRIES)
        return;
    flow.temporaries = VG_(calloc)("cv.flow", block->tyenv->types_used + 1, sizeof *flow.temporaries);
    flow.out = VG_(malloc)("cv.flow.out", (2 * (to - from) + CV_WIRE_FLOW_REGISTERS + 1) * sizeof *flow.out);
    flow.out[flow.count++] = (struct cv_wire_flow){segment, 0};
    for (Int word = 0; word < STATE_WORDS; word++)
        if (register_of(word) >= 0)
            flow.words[word].registers = 1ULL << register_of(word);
    take_copies(&flow, first);
    for (Int i = first; i < end; i++) {
        references_at(&flow, i);
        statement(&flow, block->stmts[i]);
    }
    registers_at_end(&flow);
    cv_stream_record(CV_WIRE_FLOW, 0, flow.out, flow.count * sizeof *flow.out);
    VG_(free)(flow.temporaries);
    VG_(free)(flow.out);
}
