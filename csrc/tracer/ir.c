/* SPDX-License-Identifier: GPL-2.0-or-later
 * Small constructors of flat intermediate language: every operand is a temporary or a constant. */
#include "tracer.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_machine.h"

IRExpr *cv_ir_u64(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

IRExpr *cv_ir_assign(IRSB *block, IRExpr *expression)
{
    IRTemp temporary = newIRTemp(block->tyenv, typeOfIRExpr(block->tyenv, expression));
    addStmtToIRSB(block, IRStmt_WrTmp(temporary, expression));
    return IRExpr_RdTmp(temporary);
}

IRExpr *cv_ir_binary(IRSB *block, IROp op, IRExpr *a, IRExpr *b) { return cv_ir_assign(block, IRExpr_Binop(op, a, b)); }

IRExpr *cv_ir_get(IRSB *block, Int offset) { return cv_ir_assign(block, IRExpr_Get(offset, Ity_I64)); }

IRExpr *cv_ir_load64(IRSB *block, IRExpr *address) { return cv_ir_assign(block, IRExpr_Load(Iend_LE, Ity_I64, address)); }

void cv_ir_store64(IRSB *block, IRExpr *address, IRExpr *value) { addStmtToIRSB(block, IRStmt_Store(Iend_LE, address, value)); }

/* Calls a helper that neither reads nor writes guest state, when `guard` (NULL: always) holds. */
void cv_ir_call(IRSB *block, const HChar *name, void *function, IRExpr **arguments, IRExpr *guard)
{
    Int registers = 0;
    while (arguments[registers] && registers < 3)
        registers++;
    IRDirty *call = unsafeIRDirty_0_N(registers, name, VG_(fnptr_to_fnentry)(function), arguments);
    if (guard)
        call->guard = guard;
    addStmtToIRSB(block, IRStmt_Dirty(call));
}

static void prefetched(void) {}

/* Stands for a prefetch until its block is instrumented: a call that reads its address, and never happens. */
void cv_ir_prefetch(IRSB *block, IRExpr *address)
{
    cv_ir_call(block, "cv_prefetched", prefetched, mkIRExprVec_0(), NULL);
    IRDirty *call = block->stmts[block->stmts_used - 1]->Ist.Dirty.details;
    call->mFx = Ifx_Read;
    call->mAddr = address;
    call->mSize = 1;
}

Bool cv_ir_is_prefetch(const IRStmt *s)
{
    return s->tag == Ist_Dirty && s->Ist.Dirty.details->cee->addr == VG_(fnptr_to_fnentry)(prefetched);
}

void cv_ir_call_returned(IRSB *block, const HChar *name, void *function, const ULong *awaited)
{
    IRExpr *wanted = cv_ir_load64(block, cv_ir_u64((Addr)awaited));
    IRExpr *returned = cv_ir_binary(block, Iop_CmpEQ64, CV_GUEST(block, RSP), wanted);
    cv_ir_call(block, name, function, mkIRExprVec_2(CV_GUEST(block, RAX), block->next), returned);
}

IRExpr **cv_ir_operands(const IRExpr *e, IRExpr *parts[5])
{
    VG_(memset)(parts, 0, 5 * sizeof *parts);
    switch (e->tag) {
    case Iex_Unop: parts[0] = e->Iex.Unop.arg; break;
    case Iex_Binop:
        parts[0] = e->Iex.Binop.arg1;
        parts[1] = e->Iex.Binop.arg2;
        break;
    case Iex_Triop:
        parts[0] = e->Iex.Triop.details->arg2;
        parts[1] = e->Iex.Triop.details->arg3;
        break;
    case Iex_Qop:
        parts[0] = e->Iex.Qop.details->arg2;
        parts[1] = e->Iex.Qop.details->arg3;
        parts[2] = e->Iex.Qop.details->arg4;
        break;
    case Iex_ITE:
        parts[0] = e->Iex.ITE.cond;
        parts[1] = e->Iex.ITE.iftrue;
        parts[2] = e->Iex.ITE.iffalse;
        break;
    case Iex_Load: parts[0] = e->Iex.Load.addr; break;
    case Iex_CCall: return e->Iex.CCall.args;
    default: break; /* constants; registers */
    }
    return parts;
}
