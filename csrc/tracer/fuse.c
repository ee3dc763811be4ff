/* SPDX-License-Identifier: GPL-2.0-or-later
 * A peephole on the block before it is instrumented. VEX writes parts of XMM registers (the low half, a zero into the rest) into the
 * guest state and reads the whole back: such loads cannot be forwarded from the store buffer and stall. Here parts are put together
 * in temporaries and written as whole 16-byte halves; scalar SSE code runs two to four times as fast as without.
 *
 * A half register (16 bytes; a YMM register is two) is in one of these states:
 *   whole         its value is known in a temporary, and is in the guest state
 *   zero pending  its value is zero, not yet written
 *   low pending   its low 8 bytes are known, not yet written; the rest is as `whole` or `zero pending` says, else in the guest state
 * Before anything that may look at the guest state (exits, helpers) everything pending is written. Memory accesses may fault with
 * something pending: then a signal handler sees old XMM contents, as with Valgrind's own default for registers in general. */
#include "tracer.h"
#include "libvex_guest_amd64.h"

#define FIRST ((Int)offsetof(VexGuestAMD64State, guest_YMM0))
#define HALVES 32

struct half {
    IRExpr *whole;
    IRExpr *low;
    Bool zero;
};

struct fusion {
    IRSB *out;
    struct half half[HALVES];
};

static Bool is_vector(Int offset) { return offset >= FIRST && offset < FIRST + HALVES * 16; }

static void put(struct fusion *f, Int h, IRExpr *value) { addStmtToIRSB(f->out, IRStmt_Put(FIRST + 16 * h, value)); }

static IRExpr *zero_extended(struct fusion *f, IRExpr *e)
{
    if (typeOfIRExpr(f->out->tyenv, e) == Ity_F64)
        e = cv_ir_assign(f->out, IRExpr_Unop(Iop_ReinterpF64asI64, e));
    return cv_ir_assign(f->out, IRExpr_Unop(Iop_64UtoV128, e));
}

static IRExpr *join_low(struct fusion *f, IRExpr *high, IRExpr *low)
{
    return cv_ir_assign(f->out, IRExpr_Binop(Iop_InterleaveLO64x2, high, low));
}

/* The whole of `value` with its low half replaced. */
static IRExpr *with_low(struct fusion *f, IRExpr *value, IRExpr *low)
{
    IRExpr *high = cv_ir_assign(f->out, IRExpr_Binop(Iop_InterleaveHI64x2, value, value));
    return join_low(f, high, zero_extended(f, low));
}

/* Brings the guest state up to date. `whole`: the caller is about to read all 16 bytes, so have them in a temporary. */
static void write_pending(struct fusion *f, Int h, Bool whole)
{
    struct half *half = &f->half[h];
    IRExpr *value = NULL;
    if (half->low) {
        if (half->zero)
            value = zero_extended(f, half->low);
        else if (half->whole)
            value = with_low(f, half->whole, half->low);
        else if (whole)
            value = with_low(f, cv_ir_assign(f->out, IRExpr_Get(FIRST + 16 * h, Ity_V128)), half->low);
        put(f, h, value ? value : half->low);
        *half = (struct half){.whole = value};
    } else if (half->zero) {
        put(f, h, IRExpr_Const(IRConst_V128(0)));
        *half = (struct half){0};
    }
}

static void write_all_pending(struct fusion *f)
{
    for (Int h = 0; h < HALVES; h++)
        write_pending(f, h, False);
}

/* Handles a write to (a part of) a vector register; returns False when it must stay as it is. */
static Bool fuse_put(struct fusion *f, Int h, Int within, IRExpr *data)
{
    struct half *half = &f->half[h];
    IRType type = typeOfIRExpr(f->out->tyenv, data);
    Bool eight = type == Ity_I64 || type == Ity_F64, four = type == Ity_I32 || type == Ity_F32;
    if (type == Ity_V256) {
        half[0] = half[1] = (struct half){0};
        return False;
    }
    if (type == Ity_V128 && within == 0) {
        Bool zero = data->tag == Iex_Const && data->Iex.Const.con->Ico.V128 == 0;
        *half = (struct half){.whole = data->tag == Iex_RdTmp ? data : NULL, .zero = zero};
        return zero;
    }
    if (eight && within == 0) {
        half->low = data;
        return True;
    }
    if (eight && within == 8 && (half->low || half->whole)) {
        IRExpr *low = half->low ? zero_extended(f, half->low) : half->whole;
        IRExpr *whole = join_low(f, zero_extended(f, data), low);
        *half = (struct half){.whole = whole};
        put(f, h, whole);
        return True;
    }
    if (four && within == 0 && half->zero && !half->low) {
        if (type == Ity_F32)
            data = cv_ir_assign(f->out, IRExpr_Unop(Iop_ReinterpF32asI32, data));
        *half = (struct half){.whole = cv_ir_assign(f->out, IRExpr_Unop(Iop_32UtoV128, data))};
        put(f, h, half->whole);
        return True;
    }
    write_pending(f, h, False);
    half->whole = NULL;
    return False;
}

static IRExpr *reinterpreted(const struct fusion *f, IRExpr *e, IRType type)
{
    if (typeOfIRExpr(f->out->tyenv, e) == type)
        return e;
    return IRExpr_Unop(type == Ity_F64 ? Iop_ReinterpI64asF64 : Iop_ReinterpF64asI64, e);
}

/* Returns what to assign in place of a read of (a part of) a vector register; NULL when it must stay as it is. */
static IRExpr *fuse_get(struct fusion *f, Int h, Int within, IRType type, IRTemp destination)
{
    struct half *half = &f->half[h];
    Bool eight = type == Ity_I64 || type == Ity_F64;
    if (type == Ity_V128 && within == 0) {
        if (half->low)
            write_pending(f, h, True);
        if (half->zero)
            return IRExpr_Const(IRConst_V128(0));
        if (half->whole)
            return half->whole;
        half->whole = IRExpr_RdTmp(destination);
        return NULL;
    }
    if (eight && within == 0 && half->low)
        return reinterpreted(f, half->low, type);
    if (eight && within == 8 && half->low && !half->zero && !half->whole)
        return NULL; /* the upper half in the guest state is right */
    if (type == Ity_V256)
        write_pending(f, h + 1, False);
    write_pending(f, h, False);
    return NULL;
}

static void fuse_statement(struct fusion *f, IRStmt *s)
{
    if (s->tag == Ist_Put && is_vector(s->Ist.Put.offset)) {
        Int at = s->Ist.Put.offset - FIRST;
        if (!fuse_put(f, at / 16, at % 16, s->Ist.Put.data))
            addStmtToIRSB(f->out, s);
        return;
    }
    if (s->tag == Ist_WrTmp && s->Ist.WrTmp.data->tag == Iex_Get && is_vector(s->Ist.WrTmp.data->Iex.Get.offset)) {
        Int at = s->Ist.WrTmp.data->Iex.Get.offset - FIRST;
        IRExpr *known = fuse_get(f, at / 16, at % 16, s->Ist.WrTmp.data->Iex.Get.ty, s->Ist.WrTmp.tmp);
        addStmtToIRSB(f->out, known ? IRStmt_WrTmp(s->Ist.WrTmp.tmp, known) : s);
        return;
    }
    Bool looks_at_state = !(s->tag == Ist_IMark || s->tag == Ist_AbiHint || s->tag == Ist_Put || s->tag == Ist_Store ||
                            (s->tag == Ist_WrTmp && s->Ist.WrTmp.data->tag != Iex_GetI));
    if (looks_at_state)
        write_all_pending(f);
    if (looks_at_state && s->tag != Ist_Exit) /* it may change the state, too */
        for (Int h = 0; h < HALVES; h++)
            f->half[h].whole = NULL;
    addStmtToIRSB(f->out, s);
}

Bool cv_has_multiply_add(const IRSB *block)
{
    for (Int i = 0; i < block->stmts_used; i++)
        if (block->stmts[i]->tag == Ist_WrTmp && block->stmts[i]->Ist.WrTmp.data->tag == Iex_Qop)
            return True;
    return False;
}

IRSB *cv_fuse(IRSB *block)
{
    if (cv_has_multiply_add(block)) /* VEX works on single lanes there: putting them together costs more than it gains */
        return block;
    struct fusion f;
    VG_(memset)(&f, 0, sizeof f);
    f.out = deepCopyIRSBExceptStmts(block);
    for (Int i = 0; i < block->stmts_used; i++)
        if (block->stmts[i]->tag != Ist_NoOp)
            fuse_statement(&f, block->stmts[i]);
    write_all_pending(&f);
    return f.out;
}
