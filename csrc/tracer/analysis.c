/* SPDX-License-Identifier: GPL-2.0-or-later
 * The memory references of a block of flat intermediate language.
 *
 * Rules: a read-modify-write is a load and a store; a compare-and-swap is a load and a store of one address; loads of one fused
 * multiply-add that continue each other are one reference, because VEX splits its memory operand into lanes; instruction fetches
 * are no references. Addresses are written as base temporary plus constant, so that references that differ in
 * the constant alone share one address word. */
#include "tracer.h"
#include "libvex_guest_amd64.h"

#define STATE_WORDS (sizeof(VexGuestAMD64State) / 8 + 8)

/* Whether values were computed from loaded ones: of temporaries, and of the words of the guest's registers. */
struct taint {
    UChar *temporaries;
    UChar registers[STATE_WORDS];
};

struct cv_linear cv_linear_of(const struct cv_linear *linears, const IRExpr *e)
{
    if (e->tag == Iex_RdTmp)
        return linears[e->Iex.RdTmp.tmp];
    tl_assert(e->tag == Iex_Const && e->Iex.Const.con->tag == Ico_U64);
    return (struct cv_linear){IRTemp_INVALID, e->Iex.Const.con->Ico.U64};
}

struct cv_linear *cv_find_linears(const IRSB *block)
{
    struct cv_linear *linears = VG_(malloc)("cv.linears", block->tyenv->types_used * sizeof *linears);
    for (Int t = 0; t < block->tyenv->types_used; t++)
        linears[t] = (struct cv_linear){t, 0};
    for (Int i = 0; i < block->stmts_used; i++) {
        const IRStmt *s = block->stmts[i];
        if (s->tag != Ist_WrTmp)
            continue;
        const IRExpr *e = s->Ist.WrTmp.data;
        if (e->tag == Iex_RdTmp)
            linears[s->Ist.WrTmp.tmp] = linears[e->Iex.RdTmp.tmp];
        if (e->tag != Iex_Binop || (e->Iex.Binop.op != Iop_Add64 && e->Iex.Binop.op != Iop_Sub64) || e->Iex.Binop.arg1->tag != Iex_RdTmp ||
            e->Iex.Binop.arg2->tag != Iex_Const)
            continue;
        struct cv_linear from = linears[e->Iex.Binop.arg1->Iex.RdTmp.tmp];
        Long constant = e->Iex.Binop.arg2->Iex.Const.con->Ico.U64;
        from.displacement += e->Iex.Binop.op == Iop_Add64 ? constant : -constant;
        linears[s->Ist.WrTmp.tmp] = from;
    }
    return linears;
}

static Bool expression_tainted(const struct taint *taint, const IRExpr *e)
{
    switch (e->tag) {
    case Iex_RdTmp: return taint->temporaries[e->Iex.RdTmp.tmp];
    case Iex_Load: return True;
    case Iex_Get: return taint->registers[e->Iex.Get.offset / 8];
    case Iex_Unop: return expression_tainted(taint, e->Iex.Unop.arg);
    case Iex_Binop: return expression_tainted(taint, e->Iex.Binop.arg1) || expression_tainted(taint, e->Iex.Binop.arg2);
    case Iex_ITE:
        return expression_tainted(taint, e->Iex.ITE.cond) || expression_tainted(taint, e->Iex.ITE.iftrue) ||
               expression_tainted(taint, e->Iex.ITE.iffalse);
    default: return False; /* floating point, flag helpers: no address is made of them */
    }
}

static void taint_put(const IRSB *block, struct taint *taint, const IRStmt *s)
{
    Int size = sizeofIRType(typeOfIRExpr(block->tyenv, s->Ist.Put.data));
    Bool tainted = expression_tainted(taint, s->Ist.Put.data);
    for (Int at = s->Ist.Put.offset; at < s->Ist.Put.offset + size; at += 8) {
        UChar *word = &taint->registers[at / 8];
        *word = size >= 8 ? tainted : (*word || tainted); /* a part written leaves the rest as it was */
    }
}

static void taint_statement(const IRSB *block, struct taint *taint, const IRStmt *s)
{
    switch (s->tag) {
    case Ist_WrTmp: taint->temporaries[s->Ist.WrTmp.tmp] = expression_tainted(taint, s->Ist.WrTmp.data); break;
    case Ist_Put: taint_put(block, taint, s); break;
    case Ist_LoadG: taint->temporaries[s->Ist.LoadG.details->dst] = True; break;
    case Ist_CAS:
        taint->temporaries[s->Ist.CAS.details->oldLo] = True;
        if (s->Ist.CAS.details->oldHi != IRTemp_INVALID)
            taint->temporaries[s->Ist.CAS.details->oldHi] = True;
        break;
    default: break;
    }
}

static Bool jumps_to(const IRSB *block, Addr target)
{
    if (block->next->tag == Iex_Const && block->next->Iex.Const.con->Ico.U64 == target)
        return True;
    for (Int i = 0; i < block->stmts_used; i++)
        if (block->stmts[i]->tag == Ist_Exit && block->stmts[i]->Ist.Exit.dst->Ico.U64 == target)
            return True;
    return False;
}

/* A block that loops onto itself carries values from one turn to the next (p = p->next): go round once more with them. */
static struct taint find_taint(const IRSB *block, Int first, Addr start)
{
    struct taint taint;
    VG_(memset)(&taint, 0, sizeof taint);
    taint.temporaries = VG_(calloc)("cv.taint", block->tyenv->types_used, 1);
    Int rounds = jumps_to(block, start) ? 2 : 1;
    for (Int round = 0; round < rounds; round++)
        for (Int i = first; i < block->stmts_used; i++)
            taint_statement(block, &taint, block->stmts[i]);
    return taint;
}

/* Writes the references of one statement (at most two) to `out`, without base and displacement; returns their number. */
static Int collect(const IRTypeEnv *types, const IRStmt *s, struct cv_reference *out)
{
    VG_(memset)(out, 0, 2 * sizeof *out);
    switch (s->tag) {
    case Ist_WrTmp: {
        const IRExpr *e = s->Ist.WrTmp.data;
        if (e->tag != Iex_Load || cv_is_packed_slot(e->Iex.Load.addr))
            return 0;
        out->address = e->Iex.Load.addr;
        out->size_bytes = sizeofIRType(e->Iex.Load.ty);
        return 1;
    }
    case Ist_Store:
        if (cv_is_packed_slot(s->Ist.Store.addr))
            return 0;
        out->address = s->Ist.Store.addr;
        out->size_bytes = sizeofIRType(typeOfIRExpr(types, s->Ist.Store.data));
        out->flags = CV_WIRE_STORE;
        return 1;
    case Ist_StoreG: {
        const IRStoreG *g = s->Ist.StoreG.details;
        out->address = g->addr;
        out->guard = g->guard;
        out->size_bytes = sizeofIRType(typeOfIRExpr(types, g->data));
        out->flags = CV_WIRE_STORE | CV_WIRE_GUARDED;
        return 1;
    }
    case Ist_LoadG: {
        const IRLoadG *g = s->Ist.LoadG.details;
        IRType result, loaded;
        typeOfIRLoadGOp(g->cvt, &result, &loaded);
        out->address = g->addr;
        out->guard = g->guard;
        out->size_bytes = sizeofIRType(loaded);
        out->flags = CV_WIRE_GUARDED;
        return 1;
    }
    case Ist_Dirty: {
        const IRDirty *d = s->Ist.Dirty.details;
        if (d->mFx == Ifx_None)
            return 0;
        out->address = d->mAddr;
        out->size_bytes = d->mSize;
        if (cv_ir_is_prefetch(s))
            out->flags = CV_WIRE_PREFETCH;
        if (d->guard && d->guard->tag != Iex_Const) {
            out->guard = d->guard;
            out->flags = CV_WIRE_GUARDED;
        }
        out[1] = out[0];
        if (d->mFx != Ifx_Read)
            out[d->mFx == Ifx_Modify].flags |= CV_WIRE_STORE;
        return d->mFx == Ifx_Modify ? 2 : 1;
    }
    case Ist_CAS: {
        const IRCAS *c = s->Ist.CAS.details;
        out->address = c->addr;
        out->size_bytes = sizeofIRType(typeOfIRExpr(types, c->dataLo)) * (c->dataHi ? 2 : 1);
        out->flags = CV_WIRE_ATOMIC;
        out[1] = out[0];
        out[1].flags |= CV_WIRE_STORE;
        return 2;
    }
    default: return 0;
    }
}

/* Is the instruction whose mark is statement `mark` a fused multiply-add? */
static Bool is_fused_multiply_add(const IRSB *block, Int mark)
{
    for (Int i = mark + 1; i < block->stmts_used && block->stmts[i]->tag != Ist_IMark; i++)
        if (cv_is_multiply_add(block->stmts[i]))
            return True;
    return False;
}

/* A plain load that begins where the previous load of the same instruction ends. */
static Bool continues(const struct cv_reference *last, const struct cv_reference *next)
{
    return !last->flags && !next->flags && last->base == next->base && last->displacement + last->size_bytes == next->displacement;
}

struct cv_references cv_analyse(const IRSB *block, Int first, Addr start)
{
    struct cv_linear *linears = cv_find_linears(block);
    struct taint taint = find_taint(block, first, start);
    struct cv_references found = {VG_(malloc)("cv.references", (2 * block->stmts_used + 2) * sizeof *found.all), 0};
    Bool merging = False;
    Int mergeable = -1; /* the previous load of this instruction */
    for (Int i = first; i < block->stmts_used; i++) {
        if (block->stmts[i]->tag == Ist_IMark) {
            merging = is_fused_multiply_add(block, i);
            mergeable = -1;
        } else if (block->stmts[i]->tag == Ist_Exit) {
            mergeable = -1;
        }
        struct cv_reference *next = &found.all[found.count];
        Int n = collect(block->tyenv, block->stmts[i], next);
        for (Int k = 0; k < n; k++) {
            struct cv_linear l = cv_linear_of(linears, next[k].address);
            next[k].statement = i;
            next[k].base = l.base;
            next[k].displacement = l.displacement;
        }
        if (n == 1 && mergeable >= 0 && continues(&found.all[mergeable], next)) {
            found.all[mergeable].size_bytes += next->size_bytes;
            continue;
        }
        if (n)
            mergeable = merging && n == 1 && !next->flags ? found.count : -1;
        found.count += n;
    }
    /* Only now: the loop-carried taint must not prevent merging, which compares the flags of plain loads with 0. */
    for (Int k = 0; k < found.count; k++)
        if (expression_tainted(&taint, found.all[k].address))
            found.all[k].flags |= CV_WIRE_DEPENDENT;
    VG_(free)(linears);
    VG_(free)(taint.temporaries);
    return found;
}

void cv_references_free(struct cv_references *references) { VG_(free)(references->all); }
