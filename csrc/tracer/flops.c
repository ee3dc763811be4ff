/* SPDX-License-Identifier: GPL-2.0-or-later
 * Floating-point operations in VEX's intermediate language: one for each lane of an addition, subtraction, multiplication,
 * division, square root, minimum, maximum or reciprocal estimate, and for an x87 transcendental; two for each lane of a fused
 * multiply-add. Comparisons, conversions, moves, sign changes and integer work count nothing. VEX gives scalar SSE instructions
 * operations of their own (F0x2, F0x4): one lane, as the processor does. */
#include "tracer.h"

static UInt lanes(IROp op)
{
    /* clang-format off: a line for each kind of operation */
    switch (op) {
    case Iop_AddF64:
    case Iop_SubF64:
    case Iop_MulF64:
    case Iop_DivF64:
    case Iop_SqrtF64:
    case Iop_AddF32:
    case Iop_SubF32:
    case Iop_MulF32:
    case Iop_DivF32:
    case Iop_SqrtF32:
    case Iop_SinF64:
    case Iop_CosF64:
    case Iop_TanF64:
    case Iop_AtanF64:
    case Iop_2xm1F64:
    case Iop_Yl2xF64:
    case Iop_Yl2xp1F64:
    case Iop_Add64F0x2:
    case Iop_Sub64F0x2:
    case Iop_Mul64F0x2:
    case Iop_Div64F0x2:
    case Iop_Sqrt64F0x2:
    case Iop_Max64F0x2:
    case Iop_Min64F0x2:
    case Iop_Add32F0x4:
    case Iop_Sub32F0x4:
    case Iop_Mul32F0x4:
    case Iop_Div32F0x4:
    case Iop_Sqrt32F0x4:
    case Iop_Max32F0x4:
    case Iop_Min32F0x4:
    case Iop_RecipEst32F0x4:
    case Iop_RSqrtEst32F0x4: return 1;
    case Iop_Add64Fx2:
    case Iop_Sub64Fx2:
    case Iop_Mul64Fx2:
    case Iop_Div64Fx2:
    case Iop_Sqrt64Fx2:
    case Iop_Max64Fx2:
    case Iop_Min64Fx2:
    case Iop_MAddF64:
    case Iop_MSubF64:
    case Iop_MAddF32:
    case Iop_MSubF32: return 2;
    case Iop_Add32Fx4:
    case Iop_Sub32Fx4:
    case Iop_Mul32Fx4:
    case Iop_Div32Fx4:
    case Iop_Sqrt32Fx4:
    case Iop_Max32Fx4:
    case Iop_Min32Fx4:
    case Iop_RecipEst32Fx4:
    case Iop_RSqrtEst32Fx4:
    case Iop_Add64Fx4:
    case Iop_Sub64Fx4:
    case Iop_Mul64Fx4:
    case Iop_Div64Fx4:
    case Iop_Sqrt64Fx4:
    case Iop_Max64Fx4:
    case Iop_Min64Fx4: return 4;
    case Iop_Add32Fx8:
    case Iop_Sub32Fx8:
    case Iop_Mul32Fx8:
    case Iop_Div32Fx8:
    case Iop_Sqrt32Fx8:
    case Iop_Max32Fx8:
    case Iop_Min32Fx8:
    case Iop_RecipEst32Fx8:
    case Iop_RSqrtEst32Fx8: return 8;
    default: return 0;
    }
    /* clang-format on */
}

UInt cv_statement_flops(const IRStmt *statement)
{
    if (statement->tag == Ist_Dirty)
        return cv_packed_flops(statement->Ist.Dirty.details);
    if (statement->tag != Ist_WrTmp)
        return 0;
    const IRExpr *e = statement->Ist.WrTmp.data;
    switch (e->tag) {
    case Iex_Unop: return lanes(e->Iex.Unop.op);
    case Iex_Binop: return lanes(e->Iex.Binop.op);
    case Iex_Triop: return lanes(e->Iex.Triop.details->op);
    case Iex_Qop: return lanes(e->Iex.Qop.details->op);
    case Iex_CCall: return cv_is_lane_call(statement) ? 2 : 0;
    default: return 0;
    }
}
