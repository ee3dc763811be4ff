/* SPDX-License-Identifier: GPL-2.0-or-later
 * Software prefetches. Valgrind decodes them and forgets them, but where they are used they decide how long a program waits for memory.
 * The linker's --wrap sends the decoding of each instruction here. Before a prefetch goes on to Valgrind, a call that reads its address
 * is put into the block: the address lasts until the block is instrumented, where it becomes a reference, and the call goes. */
#include "tracer.h"
#include "libvex_guest_amd64.h"
#include "../engine/x86_decode.h"

/* VEX's DisResult of Valgrind 3.16 and later; build_tracer.py tries the linked tool. */
struct decoded {
    UInt length, next, kind, hint;
};

struct decoded __real_disInstr_AMD64(IRSB *block, const UChar *code, Long delta, Addr address, VexArch arch, const VexArchInfo *archinfo,
                                     const VexAbiInfo *abiinfo, VexEndness endness, Bool tells);
struct decoded __wrap_disInstr_AMD64(IRSB *block, const UChar *code, Long delta, Addr address, VexArch arch, const VexArchInfo *archinfo,
                                     const VexAbiInfo *abiinfo, VexEndness endness, Bool tells);

/* VEX has the registers in the order of their numbers. */
static IRExpr *numbered(IRSB *block, Int number) { return cv_ir_get(block, offsetof(VexGuestAMD64State, guest_RAX) + 8 * number); }

static IRExpr *operand_address(IRSB *block, const struct cv_x86 *x)
{
    const Addr next = x->base == CV_X86_RIP ? x->address + x->length : 0;
    IRExpr *address = cv_ir_u64(next + x->displacement);
    if (x->base >= 0)
        address = cv_ir_binary(block, Iop_Add64, numbered(block, x->base), address);
    if (x->index < 0)
        return address;
    IRExpr *times = IRExpr_Const(IRConst_U8(__builtin_ctz(x->scale)));
    IRExpr *scaled = cv_ir_binary(block, Iop_Shl64, numbered(block, x->index), times);
    return cv_ir_binary(block, Iop_Add64, address, scaled);
}

struct decoded __wrap_disInstr_AMD64(IRSB *block, const UChar *code, Long delta, Addr address, VexArch arch, const VexArchInfo *archinfo,
                                     const VexAbiInfo *abiinfo, VexEndness endness, Bool tells)
{
    struct cv_x86 x;
    if (cv_x86_decode(code + delta, 15, address, &x) && x.prefetches && !x.segment && !x.refusal)
        cv_ir_prefetch(block, operand_address(block, &x));
    return __real_disInstr_AMD64(block, code, delta, address, arch, archinfo, abiinfo, endness, tells);
}
