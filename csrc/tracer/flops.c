/* SPDX-License-Identifier: GPL-2.0-or-later
 * Floating-point operations in VEX's intermediate language: one for each lane of an addition, subtraction, multiplication,
 * division, square root, minimum, maximum or reciprocal estimate, and for an x87 transcendental; two for each lane of a fused
 * multiply-add. Comparisons, conversions, moves, sign changes and integer work count nothing. VEX gives scalar SSE instructions
 * operations of their own (F0x2, F0x4): one lane, as the processor does. */
#include "tracer.h"

/* clang-format off */
#define ARITHMETIC(of) case Iop_Add##of: case Iop_Sub##of: case Iop_Mul##of: case Iop_Div##of: case Iop_Sqrt##of
#define EXTREMES(of) case Iop_Max##of: case Iop_Min##of
#define ESTIMATES(of) case Iop_RecipEst##of: case Iop_RSqrtEst##of

static UInt lanes(IROp op)
{
    switch (op) {
    ARITHMETIC(F64): ARITHMETIC(F32):
    case Iop_SinF64: case Iop_CosF64: case Iop_TanF64: case Iop_AtanF64: case Iop_2xm1F64: case Iop_Yl2xF64: case Iop_Yl2xp1F64:
    ARITHMETIC(64F0x2): EXTREMES(64F0x2):
    ARITHMETIC(32F0x4): EXTREMES(32F0x4): ESTIMATES(32F0x4): return 1;
    ARITHMETIC(64Fx2): EXTREMES(64Fx2):
    case Iop_MAddF64: case Iop_MSubF64: case Iop_MAddF32: case Iop_MSubF32: return 2;
    ARITHMETIC(32Fx4): EXTREMES(32Fx4): ESTIMATES(32Fx4):
    ARITHMETIC(64Fx4): EXTREMES(64Fx4): return 4;
    ARITHMETIC(32Fx8): EXTREMES(32Fx8): ESTIMATES(32Fx8): return 8;
    default: return 0;
    }
}
/* clang-format on */

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
