/* SPDX-License-Identifier: GPL-2.0-or-later
 * Small constructors of flat intermediate language: every operand is a temporary or a constant. */
#include "tracer.h"
#include "pub_tool_machine.h"

IRExpr *cv_ir_u64(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

IRExpr *cv_ir_assign(IRSB *block, IRExpr *expression)
{
    IRTemp temporary = newIRTemp(block->tyenv, typeOfIRExpr(block->tyenv, expression));
    addStmtToIRSB(block, IRStmt_WrTmp(temporary, expression));
    return IRExpr_RdTmp(temporary);
}

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
