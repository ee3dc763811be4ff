/* SPDX-License-Identifier: GPL-2.0-or-later
 * Software prefetches. Valgrind decodes them and forgets them, but where they are used they decide how long a program waits for memory.
 * The linker's --wrap sends the decoding of each instruction here. Before a prefetch goes on to Valgrind, a call that reads its address
 * is put into the block: the address lasts until the block is instrumented, where it becomes a reference, and the call goes. */
#include "tracer.h"
#include "libvex_guest_amd64.h"

/* VEX's DisResult of Valgrind 3.16 and later; build_tracer.py tries the linked tool. */
struct decoded {
    UInt length, next, kind, hint;
};

struct decoded __real_disInstr_AMD64(IRSB *block, const UChar *code, Long delta, Addr address, VexArch arch, const VexArchInfo *archinfo,
                                     const VexAbiInfo *abiinfo, VexEndness endness, Bool tells);
struct decoded __wrap_disInstr_AMD64(IRSB *block, const UChar *code, Long delta, Addr address, VexArch arch, const VexArchInfo *archinfo,
                                     const VexAbiInfo *abiinfo, VexEndness endness, Bool tells);

static const Int register_offset[16] = {
    offsetof(VexGuestAMD64State, guest_RAX), offsetof(VexGuestAMD64State, guest_RCX), offsetof(VexGuestAMD64State, guest_RDX),
    offsetof(VexGuestAMD64State, guest_RBX), offsetof(VexGuestAMD64State, guest_RSP), offsetof(VexGuestAMD64State, guest_RBP),
    offsetof(VexGuestAMD64State, guest_RSI), offsetof(VexGuestAMD64State, guest_RDI), offsetof(VexGuestAMD64State, guest_R8),
    offsetof(VexGuestAMD64State, guest_R9),  offsetof(VexGuestAMD64State, guest_R10), offsetof(VexGuestAMD64State, guest_R11),
    offsetof(VexGuestAMD64State, guest_R12), offsetof(VexGuestAMD64State, guest_R13), offsetof(VexGuestAMD64State, guest_R14),
    offsetof(VexGuestAMD64State, guest_R15),
};

static IRExpr *value_of(IRSB *block, Int number) { return cv_ir_assign(block, IRExpr_Get(register_offset[number], Ity_I64)); }

static IRExpr *sum(IRSB *block, IRExpr *a, IRExpr *b) { return a ? cv_ir_assign(block, IRExpr_Binop(Iop_Add64, a, b)) : b; }

static ULong displacement_at(const UChar *code, Int bytes)
{
    UInt found = 0;
    for (Int i = 0; i < bytes; i++)
        found |= (UInt)code[i] << 8 * i;
    return bytes == 1 ? (ULong)(Long)(Char)found : (ULong)(Long)(Int)found;
}

/* The address of the memory operand whose ModRM byte is at `code`; `begin`: of its instruction, at address `at`. */
static IRExpr *operand_address(IRSB *block, const UChar *begin, Addr at, const UChar *code, UChar rex)
{
    const UChar mode = *code >> 6, low = *code & 7, has_index = low == 4, sib = has_index ? code[1] : 0;
    const UChar base = has_index ? sib & 7 : low, index = (sib >> 3 & 7) | (rex & 2 ? 8 : 0);
    const Int bytes = mode == 1 ? 1 : mode == 2 || base == 5 ? 4 : 0;
    IRExpr *address = NULL;
    code += 1 + has_index;
    if (mode || base != 5)
        address = value_of(block, base | (rex & 1 ? 8 : 0));
    else if (!has_index)
        address = cv_ir_u64(at + (Addr)(code + bytes - begin));
    if (has_index && index != 4) {
        IRExpr *scaled = IRExpr_Binop(Iop_Shl64, value_of(block, index), IRExpr_Const(IRConst_U8(sib >> 6)));
        address = sum(block, address, cv_ir_assign(block, scaled));
    }
    return bytes || !address ? sum(block, address, cv_ir_u64(displacement_at(code, bytes))) : address;
}

static void note_prefetch(IRSB *block, const UChar *code, Addr at)
{
    const UChar *byte = code;
    const UChar rex = (*byte & 0xf0) == 0x40 ? *byte++ : 0;
    if (byte[0] != 0x0f || (byte[1] != 0x18 && byte[1] != 0x0d) || byte[2] >> 6 == 3 || (byte[2] >> 3 & 7) > (byte[1] == 0x18 ? 3 : 2))
        return;
    cv_ir_prefetch(block, operand_address(block, code, at, byte + 2, rex));
}

struct decoded __wrap_disInstr_AMD64(IRSB *block, const UChar *code, Long delta, Addr address, VexArch arch, const VexArchInfo *archinfo,
                                     const VexAbiInfo *abiinfo, VexEndness endness, Bool tells)
{
    note_prefetch(block, code + delta, address);
    return __real_disInstr_AMD64(block, code, delta, address, arch, archinfo, abiinfo, endness, tells);
}
