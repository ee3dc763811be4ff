/* SPDX-License-Identifier: GPL-2.0-or-later
 * Puts the lanes of packed fused multiply-adds together again. VEX (3.19) takes such an instruction apart into one MAddF64 or MAddF32
 * a lane and calls a helper for each, with all vector registers spilled around it. Here the whole instruction becomes one call that
 * works on memory: operands are taken from where their lanes already lie side by side (the guest's registers, the guest's memory,
 * the result of an earlier call), else their lanes are stored to a slot first; the result goes to a slot.
 *
 * Within one instruction the order of statements changes: first what does not depend on the result, then the call, then what does,
 * and all register writes. That is right when no register is read after it was written in the same instruction; otherwise, and
 * wherever anything else than reads, writes and arithmetic occurs, the instruction stays as it is. */
#include "tracer.h"
#include "pub_tool_machine.h"
#include "libvex_guest_amd64.h"

#define SLOTS 64
#define MAX_LANES 8
#define NO_SLOT (-1)
#define OFFSET_FLAG (1ULL << 63) /* an operand in the guest state is named by its offset */

typedef double two_doubles __attribute__((vector_size(16), aligned(8), may_alias));
typedef float four_floats __attribute__((vector_size(16), aligned(4), may_alias));

Bool cv_host_has_fma(void)
{
    static Int known = -1;
    if (known < 0) {
        UInt a = 1, b, c = 0, d;
        __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        known = (c >> 12 & 1) && (c >> 27 & 1); /* FMA, and the operating system saves wide registers */
    }
    return known;
}

struct slot {
    UChar bytes[4][32]; /* the result and up to three operands */
};

static struct slot slots[SLOTS] __attribute__((aligned(64)));

static inline const UChar *operand(const UChar *state, HWord where)
{
    return where & OFFSET_FLAG ? state + (where & ~OFFSET_FLAG) : (const UChar *)where;
}

#define FUSED __attribute__((target("fma"))) /* the halves, too: a function without it would call them instead of taking them in */

FUSED static inline void multiply_add_f64x2(UChar *to, const UChar *x, const UChar *y, const UChar *z)
{
    *(two_doubles *)to = __builtin_ia32_vfmaddpd(*(two_doubles *)x, *(two_doubles *)y, *(two_doubles *)z);
}

FUSED static inline void multiply_add_f32x4(UChar *to, const UChar *x, const UChar *y, const UChar *z)
{
    *(four_floats *)to = __builtin_ia32_vfmaddps(*(four_floats *)x, *(four_floats *)y, *(four_floats *)z);
}

#define HELPER(name, half, halves)                                                                                        \
    FUSED static void name(UChar *state, HWord x, HWord y, HWord z, UChar *to)                                            \
    {                                                                                                                     \
        const UChar *px = operand(state, x), *py = operand(state, y), *pz = operand(state, z);                            \
        _Pragma("GCC unroll 2") for (Int i = 0; i < halves;                                                               \
                                     i++) /* halves of 16 bytes, as Valgrind writes registers: wider loads would stall */ \
            half(to + 16 * i, px + 16 * i, py + 16 * i, pz + 16 * i);                                                     \
    }

HELPER(cv_multiply_add_f64x2, multiply_add_f64x2, 1)
HELPER(cv_multiply_add_f64x4, multiply_add_f64x2, 2)
HELPER(cv_multiply_add_f32x4, multiply_add_f32x4, 1)
HELPER(cv_multiply_add_f32x8, multiply_add_f32x4, 2)

static const struct shape {
    IROp op;
    Int lanes, width;
    const HChar *name;
    void *helper;
} shapes[] = {
    {Iop_MAddF64, 2, 8, "cv_multiply_add_f64x2", cv_multiply_add_f64x2},
    {Iop_MAddF64, 4, 8, "cv_multiply_add_f64x4", cv_multiply_add_f64x4},
    {Iop_MAddF32, 4, 4, "cv_multiply_add_f32x4", cv_multiply_add_f32x4},
    {Iop_MAddF32, 8, 4, "cv_multiply_add_f32x8", cv_multiply_add_f32x8},
};

UInt cv_packed_flops(const IRDirty *call)
{
    for (UInt i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (call->cee->addr == VG_(fnptr_to_fnentry)(shapes[i].helper))
            return 2 * shapes[i].lanes;
    return 0;
}

Bool cv_is_multiply_add(const IRStmt *statement)
{
    return (statement->tag == Ist_WrTmp && statement->Ist.WrTmp.data->tag == Iex_Qop) || cv_is_lane_call(statement) ||
           (statement->tag == Ist_Dirty && cv_packed_flops(statement->Ist.Dirty.details));
}

Bool cv_is_packed_slot(const IRExpr *address)
{
    return address->tag == Iex_Const && address->Iex.Const.con->Ico.U64 - (Addr)slots < sizeof slots;
}

/* What is known of a temporary. */
struct temporary {
    IRExpr *defined; /* NULL: not by an assignment */
    Int at;          /* statement */
    UInt uses;
    Int slot, lane; /* a lane of a result in a slot */
    Bool result;    /* depends on the multiply-adds of the instruction in question */
};

struct packing {
    IRSB *in, *out;
    struct temporary *temporaries;
    struct cv_linear *linears;
    Int used_slots;
};

/* Follows plain copies. */
static IRTemp source(const struct packing *p, const IRExpr *e)
{
    if (e->tag != Iex_RdTmp)
        return IRTemp_INVALID;
    IRTemp t = e->Iex.RdTmp.tmp;
    while (p->temporaries[t].defined && p->temporaries[t].defined->tag == Iex_RdTmp)
        t = p->temporaries[t].defined->Iex.RdTmp.tmp;
    return t;
}

static void visit_operands(struct packing *p, IRExpr *e, Bool *depends, Bool count)
{
    IRExpr *parts[5];
    if (e->tag == Iex_RdTmp) {
        p->temporaries[e->Iex.RdTmp.tmp].uses += count;
        *depends |= p->temporaries[e->Iex.RdTmp.tmp].result;
    }
    for (IRExpr **part = cv_ir_operands(e, parts); *part; part++)
        visit_operands(p, *part, depends, count);
}

static void index_temporaries(struct packing *p)
{
    Bool unused = False;
    for (Int t = 0; t < p->in->tyenv->types_used; t++)
        p->temporaries[t].slot = NO_SLOT;
    for (Int i = 0; i < p->in->stmts_used; i++) {
        IRStmt *s = p->in->stmts[i];
        if (s->tag == Ist_WrTmp) {
            p->temporaries[s->Ist.WrTmp.tmp].defined = s->Ist.WrTmp.data;
            p->temporaries[s->Ist.WrTmp.tmp].at = i;
            visit_operands(p, s->Ist.WrTmp.data, &unused, True);
        } else if (s->tag == Ist_Put) {
            visit_operands(p, s->Ist.Put.data, &unused, True);
        } else if (s->tag == Ist_Store) {
            visit_operands(p, s->Ist.Store.data, &unused, True);
        } else if (s->tag == Ist_StoreG) {
            visit_operands(p, s->Ist.StoreG.details->data, &unused, True);
        }
        /* What other statements use is no floating-point number, so no lane of a multiply-add. */
    }
}

static Bool writes(const IRSB *block, const IRStmt *s, Int offset, Int bytes)
{
    switch (s->tag) {
    case Ist_Put: {
        Int size = sizeofIRType(typeOfIRExpr(block->tyenv, s->Ist.Put.data));
        return s->Ist.Put.offset < offset + bytes && offset < s->Ist.Put.offset + size;
    }
    case Ist_PutI:
    case Ist_Dirty: return True;
    default: return False;
    }
}

/* The multiply-adds of one instruction: statements [first, end). */
struct group {
    Int first, end;
    Int lane[MAX_LANES]; /* their statements */
    Int lanes;
    const struct shape *shape;
};

static IRExpr *factor(const struct packing *p, const struct group *g, Int lane, Int which)
{
    const IRQop *q = p->in->stmts[g->lane[lane]]->Ist.WrTmp.data->Iex.Qop.details;
    return which == 0 ? q->arg2 : which == 1 ? q->arg3 : q->arg4;
}

static Bool find_group(const struct packing *p, Int mark, struct group *g)
{
    *g = (struct group){.first = mark + 1, .end = mark + 1};
    IROp op = Iop_INVALID;
    for (; g->end < p->in->stmts_used && p->in->stmts[g->end]->tag != Ist_IMark; g->end++) {
        const IRStmt *s = p->in->stmts[g->end];
        if (s->tag != Ist_WrTmp || s->Ist.WrTmp.data->tag != Iex_Qop)
            continue;
        if (g->lanes == MAX_LANES || (g->lanes && s->Ist.WrTmp.data->Iex.Qop.details->op != op))
            return False;
        op = s->Ist.WrTmp.data->Iex.Qop.details->op;
        g->lane[g->lanes++] = g->end;
    }
    for (UInt i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].op == op && shapes[i].lanes == g->lanes)
            g->shape = &shapes[i];
    return g->shape != NULL && p->used_slots < SLOTS;
}

/* Marks what depends on the results. May the statements be put in order as described above? */
static Bool can_reorder(struct packing *p, const struct group *g)
{
    for (Int t = 0; t < p->in->tyenv->types_used; t++)
        p->temporaries[t].result = False;
    for (Int i = g->first; i < g->end; i++) {
        IRStmt *s = p->in->stmts[i];
        Bool depends = False;
        if (s->tag == Ist_Put || s->tag == Ist_NoOp || s->tag == Ist_AbiHint)
            continue;
        if (s->tag != Ist_WrTmp || s->Ist.WrTmp.data->tag == Iex_GetI || s->Ist.WrTmp.data->tag == Iex_CCall)
            return False;
        IRExpr *e = s->Ist.WrTmp.data;
        visit_operands(p, e, &depends, False);
        if (depends && (e->tag == Iex_Qop || e->tag == Iex_Load))
            return False;
        p->temporaries[s->Ist.WrTmp.tmp].result = depends || e->tag == Iex_Qop;
        if (e->tag == Iex_Get)
            for (Int k = g->first; k < i; k++)
                if (writes(p->in, p->in->stmts[k], e->Iex.Get.offset, sizeofIRType(e->Iex.Get.ty)))
                    return False;
    }
    return True;
}

/* Operand `which` in the guest state: its offset; negative: not there. */
static Int in_state(const struct packing *p, const struct group *g, Int which)
{
    Int offset = -1, earliest = g->first;
    for (Int k = 0; k < g->lanes; k++) {
        IRTemp t = source(p, factor(p, g, k, which));
        const IRExpr *e = t == IRTemp_INVALID ? NULL : p->temporaries[t].defined;
        if (!e || e->tag != Iex_Get || (k && e->Iex.Get.offset != offset + k * g->shape->width))
            return -1;
        if (k == 0)
            offset = e->Iex.Get.offset;
        if (p->temporaries[t].at < earliest)
            earliest = p->temporaries[t].at;
    }
    for (Int i = earliest; i < g->first; i++)
        if (writes(p->in, p->in->stmts[i], offset, g->lanes * g->shape->width))
            return -1;
    return offset;
}

static Int in_slot(const struct packing *p, const struct group *g, Int which)
{
    Int slot = NO_SLOT;
    for (Int k = 0; k < g->lanes; k++) {
        IRTemp t = source(p, factor(p, g, k, which));
        if (t == IRTemp_INVALID || p->temporaries[t].slot == NO_SLOT || p->temporaries[t].lane != k ||
            (k && p->temporaries[t].slot != slot))
            return NO_SLOT;
        slot = p->temporaries[t].slot;
    }
    return slot;
}

/* Operand `which` as loads of this instruction that continue each other and are used for nothing else: the first one's address. */
static IRExpr *in_memory(const struct packing *p, const struct group *g, Int which)
{
    IRExpr *address = NULL;
    struct cv_linear first = {IRTemp_INVALID, 0};
    for (Int k = 0; k < g->lanes; k++) {
        const IRExpr *f = factor(p, g, k, which);
        const struct temporary *t = f->tag == Iex_RdTmp ? &p->temporaries[f->Iex.RdTmp.tmp] : NULL;
        if (!t || !t->defined || t->defined->tag != Iex_Load || t->at < g->first || t->uses != 1)
            return NULL;
        const struct cv_linear at = cv_linear_of(p->linears, t->defined->Iex.Load.addr);
        if (k == 0) {
            address = t->defined->Iex.Load.addr;
            first = at;
        } else if (at.base != first.base || at.displacement != first.displacement + k * g->shape->width) {
            return NULL;
        }
    }
    return address;
}

static IRExpr *slot_address(Int slot, Int part, Int byte) { return cv_ir_u64((Addr)&slots[slot].bytes[part][byte]); }

/* Returns how the helper finds operand `which`; stores its lanes to the slot where they lie nowhere together. */
static IRExpr *locate(struct packing *p, const struct group *g, Int which, Int slot, IRExpr **memory)
{
    Int offset = in_state(p, g, which), earlier = in_slot(p, g, which);
    if (offset >= 0)
        return cv_ir_u64(OFFSET_FLAG | (ULong)offset);
    if (earlier != NO_SLOT)
        return slot_address(earlier, 0, 0);
    if (!*memory && (*memory = in_memory(p, g, which)))
        return *memory;
    for (Int k = 0; k < g->lanes; k++)
        addStmtToIRSB(p->out, IRStmt_Store(Iend_LE, slot_address(slot, 1 + which, k * g->shape->width), factor(p, g, k, which)));
    return slot_address(slot, 1 + which, 0);
}

static void emit_call(struct packing *p, const struct group *g, Int slot)
{
    IRExpr *memory = NULL, *where[3];
    for (Int which = 0; which < 3; which++)
        where[which] = locate(p, g, which, slot, &memory);
    IRExpr **arguments = mkIRExprVec_5(IRExpr_GSPTR(), where[0], where[1], where[2], slot_address(slot, 0, 0));
    IRDirty *call = unsafeIRDirty_0_N(0, g->shape->name, VG_(fnptr_to_fnentry)(g->shape->helper), arguments);
    VG_(memset)(&call->fxState, 0, sizeof call->fxState);
    call->nFxState = 1;
    call->fxState[0].fx = Ifx_Read;
    call->fxState[0].offset = offsetof(VexGuestAMD64State, guest_YMM0);
    call->fxState[0].size = 16 * 32;
    if (memory) {
        call->mFx = Ifx_Read;
        call->mAddr = memory;
        call->mSize = g->lanes * g->shape->width;
    }
    addStmtToIRSB(p->out, IRStmt_Dirty(call));
    for (Int k = 0; k < g->lanes; k++) {
        IRTemp t = p->in->stmts[g->lane[k]]->Ist.WrTmp.tmp;
        IRType type = g->shape->width == 8 ? Ity_F64 : Ity_F32;
        addStmtToIRSB(p->out, IRStmt_WrTmp(t, IRExpr_Load(Iend_LE, type, slot_address(slot, 0, k * g->shape->width))));
        p->temporaries[t].slot = slot;
        p->temporaries[t].lane = k;
    }
}

/* Is this a load that the call has taken over? */
static Bool taken_over(const struct packing *p, const struct group *g, const IRStmt *s, const IRExpr *memory)
{
    if (!memory || s->tag != Ist_WrTmp || s->Ist.WrTmp.data->tag != Iex_Load)
        return False;
    for (Int which = 0; which < 3; which++)
        if (in_memory(p, g, which) == memory)
            for (Int k = 0; k < g->lanes; k++)
                if (factor(p, g, k, which)->Iex.RdTmp.tmp == s->Ist.WrTmp.tmp)
                    return True;
    return False;
}

static IRExpr *memory_operand(const struct packing *p, const struct group *g)
{
    for (Int which = 0; which < 3; which++)
        if (in_state(p, g, which) < 0 && in_slot(p, g, which) == NO_SLOT && in_memory(p, g, which))
            return in_memory(p, g, which);
    return NULL;
}

static Bool is_result(const struct packing *p, const IRStmt *s, Int slot, Int lane)
{
    if (s->tag != Ist_Put)
        return False;
    IRTemp t = source(p, s->Ist.Put.data);
    return t != IRTemp_INVALID && p->temporaries[t].slot == slot && p->temporaries[t].lane == lane;
}

/* Register writes of all lanes side by side become one. Returns False when they are not. */
static Bool emit_whole_write(struct packing *p, const struct group *g, Int slot)
{
    Int lane = 0, offset = 0;
    for (Int i = g->first; i < g->end; i++) {
        const IRStmt *s = p->in->stmts[i];
        if (lane == g->lanes || !is_result(p, s, slot, lane) || (lane && s->Ist.Put.offset != offset + lane * g->shape->width))
            continue;
        if (lane++ == 0)
            offset = s->Ist.Put.offset;
    }
    if (lane < g->lanes)
        return False;
    IRType type = g->lanes * g->shape->width == 32 ? Ity_V256 : Ity_V128;
    IRExpr *whole = cv_ir_assign(p->out, IRExpr_Load(Iend_LE, type, slot_address(slot, 0, 0)));
    addStmtToIRSB(p->out, IRStmt_Put(offset, whole));
    return True;
}

static void emit_group(struct packing *p, const struct group *g)
{
    Int slot = p->used_slots++;
    IRExpr *memory = memory_operand(p, g);
    for (Int i = g->first; i < g->end; i++) {
        IRStmt *s = p->in->stmts[i];
        if (s->tag == Ist_WrTmp && !p->temporaries[s->Ist.WrTmp.tmp].result && !taken_over(p, g, s, memory))
            addStmtToIRSB(p->out, s);
    }
    emit_call(p, g, slot);
    Bool whole = emit_whole_write(p, g, slot);
    for (Int i = g->first; i < g->end; i++) {
        IRStmt *s = p->in->stmts[i];
        Bool lane_write = False;
        for (Int k = 0; whole && k < g->lanes; k++)
            lane_write |= is_result(p, s, slot, k);
        Bool multiply_add = s->tag == Ist_WrTmp && s->Ist.WrTmp.data->tag == Iex_Qop;
        if (s->tag == Ist_WrTmp ? p->temporaries[s->Ist.WrTmp.tmp].result && !multiply_add : !lane_write)
            addStmtToIRSB(p->out, s);
    }
}

IRSB *cv_pack(IRSB *block)
{
    struct packing p = {.in = block, .out = deepCopyIRSBExceptStmts(block), .linears = cv_find_linears(block)};
    p.temporaries = VG_(calloc)("cv.pack", block->tyenv->types_used, sizeof *p.temporaries);
    index_temporaries(&p);
    for (Int i = 0; i < block->stmts_used; i++) {
        struct group g;
        addStmtToIRSB(p.out, block->stmts[i]);
        if (block->stmts[i]->tag == Ist_IMark && find_group(&p, i, &g) && can_reorder(&p, &g)) {
            emit_group(&p, &g);
            i = g.end - 1;
        }
    }
    VG_(free)(p.temporaries);
    VG_(free)(p.linears);
    return p.out;
}
