/* SPDX-License-Identifier: GPL-2.0-or-later
 * Calls a fused multiply-add of one lane with the bits of its operands in integer registers. VEX passes the addresses of operands and
 * result on the stack instead: on the way from one multiply-add to the next a value is stored and read back twice more. Scalar
 * instructions are meant, and lanes that pack.c left alone.
 *
 * Operands become integers where they come from (a register, memory, a change of sign, an earlier result), because VEX moves bits
 * between kinds of temporaries through the stack, too. Reads of memory stay the one reference that they are; no statement changes
 * its place. What is no longer needed (a read of a register as a number) VEX itself removes after the instrumentation. */
#include "tracer.h"
#include "pub_tool_machine.h"

#define FUSED __attribute__((target("fma")))

FUSED static ULong cv_multiply_add_f64(ULong x, ULong y, ULong z)
{
    union {
        ULong bits;
        double value;
    } a = {x}, b = {y}, c = {z};
    a.value = __builtin_fma(a.value, b.value, c.value);
    return a.bits;
}

FUSED static ULong cv_multiply_add_f32(ULong x, ULong y, ULong z)
{
    union {
        UInt bits;
        float value;
    } a = {x}, b = {y}, c = {z};
    a.value = __builtin_fmaf(a.value, b.value, c.value);
    return a.bits;
}

struct calling {
    IRSB *in, *out;
    UChar *wanted; /* is a temporary an operand of a multiply-add, also through copies and changes of sign? */
    IRExpr **bits; /* a temporary's value as a 64-bit integer, above a single's 32 bits zero; NULL: not known */
};

static Bool is_lane(const IRStmt *s)
{
    return s->tag == Ist_WrTmp && s->Ist.WrTmp.data->tag == Iex_Qop &&
           (s->Ist.WrTmp.data->Iex.Qop.details->op == Iop_MAddF64 || s->Ist.WrTmp.data->Iex.Qop.details->op == Iop_MAddF32);
}

static Bool is_negation(const IRExpr *e) { return e->tag == Iex_Unop && (e->Iex.Unop.op == Iop_NegF64 || e->Iex.Unop.op == Iop_NegF32); }

static void want(struct calling *c, const IRExpr *e)
{
    if (e->tag == Iex_RdTmp)
        c->wanted[e->Iex.RdTmp.tmp] = True;
}

static void find_wanted(struct calling *c)
{
    for (Int i = c->in->stmts_used - 1; i >= 0; i--) { /* backwards: uses come before definitions */
        const IRStmt *s = c->in->stmts[i];
        if (is_lane(s)) {
            const IRQop *q = s->Ist.WrTmp.data->Iex.Qop.details;
            want(c, q->arg2);
            want(c, q->arg3);
            want(c, q->arg4);
        } else if (s->tag == Ist_WrTmp && c->wanted[s->Ist.WrTmp.tmp]) {
            if (s->Ist.WrTmp.data->tag == Iex_RdTmp)
                want(c, s->Ist.WrTmp.data);
            else if (is_negation(s->Ist.WrTmp.data))
                want(c, s->Ist.WrTmp.data->Iex.Unop.arg);
        }
    }
}

static IRExpr *unary(struct calling *c, IROp op, IRExpr *e) { return cv_ir_assign(c->out, IRExpr_Unop(op, e)); }

static IRExpr *widened(struct calling *c, IRExpr *e, Bool wide) { return wide ? e : unary(c, Iop_32Uto64, e); }

/* The number that these bits are. */
static IRExpr *number(struct calling *c, IRExpr *bits, Bool wide)
{
    return wide ? IRExpr_Unop(Iop_ReinterpI64asF64, bits) : IRExpr_Unop(Iop_ReinterpI32asF32, unary(c, Iop_64to32, bits));
}

static IRExpr *bits_of(struct calling *c, IRExpr *e, Bool wide)
{
    if (e->tag == Iex_RdTmp && c->bits[e->Iex.RdTmp.tmp])
        return c->bits[e->Iex.RdTmp.tmp];
    return widened(c, unary(c, wide ? Iop_ReinterpF64asI64 : Iop_ReinterpF32asI32, e), wide);
}

static IRExpr *call(struct calling *c, const IRQop *q, Bool wide)
{
    IRExpr **arguments = mkIRExprVec_3(bits_of(c, q->arg2, wide), bits_of(c, q->arg3, wide), bits_of(c, q->arg4, wide));
    const HChar *name = wide ? "cv_multiply_add_f64" : "cv_multiply_add_f32";
    void *helper = wide ? cv_multiply_add_f64 : cv_multiply_add_f32;
    return cv_ir_assign(c->out, mkIRExprCCall(Ity_I64, 3, name, VG_(fnptr_to_fnentry)(helper), arguments));
}

/* Emits the definition of a temporary that is an operand or a result of a multiply-add. */
static void define(struct calling *c, IRStmt *s)
{
    IRTemp t = s->Ist.WrTmp.tmp;
    IRExpr *e = s->Ist.WrTmp.data;
    Bool wide = typeOfIRTemp(c->in->tyenv, t) == Ity_F64;
    IRType type = wide ? Ity_I64 : Ity_I32;
    if (e->tag == Iex_Qop) {
        c->bits[t] = call(c, e->Iex.Qop.details, wide);
        e = number(c, c->bits[t], wide);
    } else if (e->tag == Iex_Load) { /* once: it is one reference */
        c->bits[t] = widened(c, cv_ir_assign(c->out, IRExpr_Load(e->Iex.Load.end, type, e->Iex.Load.addr)), wide);
        e = number(c, c->bits[t], wide);
    } else if (e->tag == Iex_Get) {
        c->bits[t] = widened(c, cv_ir_assign(c->out, IRExpr_Get(e->Iex.Get.offset, type)), wide);
    } else if (e->tag == Iex_RdTmp) {
        c->bits[t] = c->bits[e->Iex.RdTmp.tmp];
    } else if (is_negation(e)) {
        IRExpr *sign = cv_ir_u64(wide ? 1ULL << 63 : 1ULL << 31);
        c->bits[t] = cv_ir_assign(c->out, IRExpr_Binop(Iop_Xor64, bits_of(c, e->Iex.Unop.arg, wide), sign));
    }
    addStmtToIRSB(c->out, IRStmt_WrTmp(t, e));
}

static void lane_statement(struct calling *c, IRStmt *s)
{
    IRTemp t = s->tag == Ist_WrTmp ? s->Ist.WrTmp.tmp : IRTemp_INVALID;
    const IRExpr *written = s->tag == Ist_Put ? s->Ist.Put.data : s->tag == Ist_WrTmp ? s->Ist.WrTmp.data : NULL;
    IRExpr *known = written && written->tag == Iex_RdTmp ? c->bits[written->Iex.RdTmp.tmp] : NULL;
    if (t != IRTemp_INVALID && (is_lane(s) || known || c->wanted[t]))
        define(c, s);
    else if (known) /* a register takes the integer */
        addStmtToIRSB(c->out,
                      IRStmt_Put(s->Ist.Put.offset, typeOfIRExpr(c->in->tyenv, written) == Ity_F64 ? known : unary(c, Iop_64to32, known)));
    else
        addStmtToIRSB(c->out, s);
}

IRSB *cv_call_lanes(IRSB *block)
{
    UInt types = block->tyenv->types_used;
    struct calling c = {.in = block, .out = deepCopyIRSBExceptStmts(block)};
    c.wanted = VG_(calloc)("cv.lanes.wanted", types + 1, sizeof *c.wanted);
    c.bits = VG_(calloc)("cv.lanes.bits", types + 1, sizeof *c.bits);
    find_wanted(&c);
    for (Int i = 0; i < block->stmts_used; i++)
        lane_statement(&c, block->stmts[i]);
    VG_(free)(c.wanted);
    VG_(free)(c.bits);
    return c.out;
}

Bool cv_is_lane_call(const IRStmt *statement)
{
    if (statement->tag != Ist_WrTmp || statement->Ist.WrTmp.data->tag != Iex_CCall)
        return False;
    const void *called = statement->Ist.WrTmp.data->Iex.CCall.cee->addr;
    return called == VG_(fnptr_to_fnentry)(cv_multiply_add_f64) || called == VG_(fnptr_to_fnentry)(cv_multiply_add_f32);
}
