/* What a table of opcodes cannot say of general instructions: groups by the ModRM byte, strings, branches, and registers without a name in
 * the code. */
#include "x86_opcodes.h"

static void read_and_write(struct cv_x86 *x, uint64_t set)
{
    x->reads |= set;
    x->writes |= set;
}

/* Conditions b and ae are CF alone, which inc does not write. */
static void read_condition(struct cv_x86 *x)
{
    x->reads_flags = (x->opcode & 14) != 2;
    x->reads |= CV_X86_FLAGS_SET;
}

static void branch_on_condition(struct cv_x86 *x)
{
    x->kind = CV_X86_BRANCH;
    x->condition = x->opcode & 15;
    read_condition(x);
}

static uint64_t register_of_rm(const struct cv_x86 *x) { return bit((x->modrm & 7) | (x->rex & 1 ? 8 : 0)); }

/* ---- one byte ---- */

/* What string instructions do by rsi and rdi; 0: no string instruction. */
enum { SOURCE_LOAD = 1, TARGET_LOAD = 2, TARGET_STORE = 4 };
static const uint8_t strings[256] = {
    [0x6c ... 0x6d] = TARGET_STORE,               /* ins */
    [0x6e ... 0x6f] = SOURCE_LOAD,                /* outs */
    [0xa4 ... 0xa5] = SOURCE_LOAD | TARGET_STORE, /* movs */
    [0xa6 ... 0xa7] = SOURCE_LOAD | TARGET_LOAD,  /* cmps */
    [0xaa ... 0xab] = TARGET_STORE,               /* stos */
    [0xac ... 0xad] = SOURCE_LOAD,                /* lods */
    [0xae ... 0xaf] = TARGET_LOAD,                /* scas */
};

static uint32_t string_special(struct cv_x86 *x, uint32_t e, int size, int repeat)
{
    const int does = strings[x->opcode];
    if (does & SOURCE_LOAD) {
        read_and_write(x, SET_RSI);
        add_reference(x, CV_X86_SOURCE, CV_X86_LOAD, size);
    }
    if (does & (TARGET_LOAD | TARGET_STORE)) {
        read_and_write(x, SET_RDI);
        add_reference(x, CV_X86_TARGET, does & TARGET_LOAD ? CV_X86_LOAD : CV_X86_STORE, size);
    }
    if (!repeat)
        return e;
    x->compares = (x->opcode & 0xf6) == 0xa6;
    x->repeated = !x->compares;
    read_and_write(x, SET_RCX);
    return (e & ~F_SET) | (x->compares ? F_SOME : 0);
}

static void go_elsewhere(struct cv_x86 *x)
{
    switch (x->opcode) {
    case 0x70 ... 0x7f: branch_on_condition(x); break;
    case 0xc2 ... 0xc3:
        x->kind = CV_X86_RETURN;
        read_and_write(x, SET_RSP);
        add_reference(x, CV_X86_POP, CV_X86_LOAD, 8);
        break;
    case 0xca ... 0xcb:
    case 0xcf: x->refusal = CV_X86_FAR; break;
    case 0xcd: x->refusal = CV_X86_OLD_SYSCALL; break;
    case 0xe0 ... 0xe3:
        x->kind = CV_X86_LOOP;
        x->reads_flags = x->opcode < 0xe2;
        x->reads |= SET_RCX | (x->reads_flags ? CV_X86_FLAGS_SET : 0);
        x->writes |= x->opcode < 0xe3 ? SET_RCX : 0;
        break;
    case 0xe8:
        x->kind = CV_X86_CALL;
        read_and_write(x, SET_RSP);
        add_reference(x, CV_X86_PUSH, CV_X86_STORE, 8);
        break;
    case 0xe9:
    case 0xeb: x->kind = CV_X86_JUMP; break;
    default: break;
    }
}

/* Groups 1, 3, 4, 5 and 11. */
static uint32_t one_byte_group(struct cv_x86 *x, uint32_t e)
{
    const int n = extension(x);
    switch (x->opcode) {
    case 0x80 ... 0x83:
        if (n == 2 || n == 3) /* adc, sbb */
            x->reads |= CV_X86_FLAGS_SET;
        return n == 7 ? e & ~RM_W : e;
    case 0xc6 ... 0xc7:
        if (x->modrm == 0xf8)
            x->refusal = CV_X86_TRANSACTION;
        return e;
    case 0xf6 ... 0xf7:
        if (n < 2)
            return e | RM_R | F_SET | (x->opcode == 0xf6 ? IMM8 : IMM32);
        if (n < 4)
            return e | RM_RW | (n == 3 ? F_SET : 0); /* not, neg */
        x->reads |= SET_RAX | (n >= 6 ? SET_RDX : 0);
        x->writes |= SET_RAX | SET_RDX;
        return e | RM_R | F_SOME; /* mul, div: processors leave some of the undefined ones as they were */
    case 0xfe: return n < 2 ? e : BAD;
    default: break;
    }
    switch (n) { /* ff */
    case 0:
    case 1: return e | RM_RW | F_SET;
    case 2:
        x->kind = CV_X86_CALL_INDIRECT;
        read_and_write(x, SET_RSP);
        return (e & ~31u) | SIZE(Z_Q) | RM_R;
    case 4: x->kind = CV_X86_JUMP_INDIRECT; return (e & ~31u) | SIZE(Z_Q) | RM_R;
    case 6: return (e & ~31u) | SIZE(Z_N) | RM_R | PUSHES;
    case 3:
    case 5: x->refusal = CV_X86_FAR; return e;
    default: return BAD;
    }
}

uint32_t one_byte_special(struct cv_x86 *x, uint32_t e, int word, int repeat)
{
    const int size = x->opcode & 1 ? word : 1;
    if (strings[x->opcode])
        return string_special(x, e, size, repeat);
    switch (x->opcode) {
    case 0x10 ... 0x15:
    case 0x18 ... 0x1d:
    case 0xf5: x->reads |= CV_X86_FLAGS_SET; return e; /* adc, sbb and cmc read CF alone */
    case 0x28 ... 0x2b:
    case 0x30 ... 0x33: return is_with_itself(x) ? e & ~(RM_R | REG_R) : e; /* zero */
    case 0x80 ... 0x83:
    case 0xc6 ... 0xc7:
    case 0xf6 ... 0xf7:
    case 0xfe ... 0xff: return one_byte_group(x, e);
    case 0x87:
        if (x->modrm == 0xdb && x->rex == 8)
            x->kind = CV_X86_REQUEST;
        return e;
    case 0x8d: x->memory = 2; return e; /* an address without an access */
    case 0x90: return x->rex & 1 ? e : e & ~(AX | OP_R | OP_W);
    case 0x99: x->writes |= SET_RDX; return e;
    case 0xa0 ... 0xa1: add_reference(x, CV_X86_ABSOLUTE, CV_X86_LOAD, size); return e;
    case 0xa2 ... 0xa3: add_reference(x, CV_X86_ABSOLUTE, CV_X86_STORE, size); return e;
    case 0xc9:
        x->reads |= SET_RBP;
        x->writes |= SET_RSP | SET_RBP;
        add_reference(x, CV_X86_FRAME, CV_X86_LOAD, 8);
        return e;
    case 0xd2 ... 0xd3: x->reads |= SET_RCX; return e;
    case 0xd7:
        x->reads |= SET_RBX;
        add_reference(x, CV_X86_TABLE, CV_X86_LOAD, 1);
        return e;
    default: go_elsewhere(x); return e;
    }
}

/* ---- two bytes ---- */

/* 0F 01: descriptor tables, and instructions without an operand. */
static uint32_t system_group(struct cv_x86 *x, uint32_t e)
{
    static const uint8_t size[8] = {10, 10, 10, 10, 2, 8, 2, 0};
    const int n = extension(x);
    if (x->memory) {
        if (n < 7)
            add_reference(x, CV_X86_OPERAND, n < 2 || n == 4 ? CV_X86_STORE : CV_X86_LOAD, size[n]);
        else
            x->memory = 2;
        return e;
    }
    switch (x->modrm) {
    case 0xd0: /* xgetbv */
        x->reads |= SET_RCX;
        x->writes |= SET_RAX | SET_RDX;
        return e;
    case 0xd5: x->refusal = CV_X86_TRANSACTION; return e;
    case 0xd6: return e | F_SET;                 /* xtest */
    case 0xf8: x->refusal = CV_X86_GS; return e; /* swapgs */
    case 0xf9: x->writes |= SET_RAX | SET_RCX | SET_RDX; return e;
    default: return e;
    }
}

/* 0F AE: the processor's state as a whole, lines of caches, bases of segments. */
static void state_group(struct cv_x86 *x)
{
    const int n = extension(x);
    if (!x->memory) {
        if (x->prefix != 2 || n > 3)
            return;
        if (n == 3 || n == 1)
            x->refusal = CV_X86_GS;
        x->writes |= n < 2 ? register_of_rm(x) : 0;
        return;
    }
    if (n == 7 || (n == 6 && x->prefix)) { /* clflush, clwb */
        x->memory = 2;
        return;
    }
    add_reference(x, CV_X86_OPERAND, n == 1 || n == 2 || n == 5 ? CV_X86_LOAD : CV_X86_STORE, n == 2 || n == 3 ? 4 : 512);
    x->reads |= n >= 4 ? SET_RAX | SET_RDX : 0;
}

/* 0F C7: cmpxchg8b, cmpxchg16b; xsavec and its like; rdrand, rdseed. */
static uint32_t exchange_group(struct cv_x86 *x, uint32_t e, int wide)
{
    const int n = extension(x);
    if (x->memory && n == 1) {
        x->reads |= SET_RAX | SET_RCX | SET_RDX | SET_RBX;
        x->writes |= SET_RAX | SET_RDX;
        add_reference(x, CV_X86_OPERAND, CV_X86_LOAD | CV_X86_STORE, wide ? 16 : 8);
    } else if (x->memory && n >= 3 && n <= 5) {
        add_reference(x, CV_X86_OPERAND, n == 3 ? CV_X86_LOAD : CV_X86_STORE, 512);
    } else if (!x->memory && n >= 6) {
        x->writes |= register_of_rm(x);
        return e | F_SET;
    }
    return e;
}

static uint32_t prefetch_or_nop(struct cv_x86 *x, uint32_t e)
{
    const int hints = x->opcode == 0x18 ? 4 : x->opcode == 0x0d ? 3 : 0;
    x->prefetches = x->memory && extension(x) < hints;
    if (x->prefetches)
        return e | RM_R | SIZE(Z_B);
    x->memory = x->memory ? 2 : 0;
    return e;
}

uint32_t two_byte_special(struct cv_x86 *x, uint32_t e, int wide)
{
    const int n = extension(x);
    switch (x->opcode) {
    case 0x00: return n < 2 ? (e & ~RM_R) | RM_W : e;
    case 0x01: return system_group(x, e);
    case 0x05:
        x->kind = CV_X86_SYSCALL;
        x->reads |= SET_RAX;
        x->writes |= SET_RAX | SET_RCX | SET_R11;
        return e;
    case 0x07:
    case 0x34 ... 0x35: x->refusal = CV_X86_OLD_SYSCALL; return e;
    case 0x0d:
    case 0x18 ... 0x1f: return prefetch_or_nop(x, e);
    case 0x31: x->writes |= SET_RAX | SET_RDX; return e;
    case 0x40 ... 0x4f:
    case 0x90 ... 0x9f: read_condition(x); return e;
    case 0x80 ... 0x8f: branch_on_condition(x); return e;
    case 0xa2:
        x->reads |= SET_RCX;
        x->writes |= SET_RAX | SET_RCX | SET_RDX | SET_RBX;
        return e;
    case 0xa5:
    case 0xad: x->reads |= SET_RCX; return e;
    case 0xa8 ... 0xa9:
    case 0xb5: x->refusal = CV_X86_GS; return e;
    case 0xae: state_group(x); return e;
    case 0xb8: return x->prefix == 2 ? e : BAD;
    case 0xba: return n < 4 ? BAD : n == 4 ? e & ~RM_W : e;
    case 0xc7: return exchange_group(x, e, wide);
    default: return e;
    }
}

/* ---- x87 ---- */

void add_x87(struct cv_x86 *x)
{
    static const uint8_t size[8][8] = {
        {4, 4, 4, 4, 4, 4, 4, 4}, {4, 0, 4, 4, 28, 2, 28, 2},   {4, 4, 4, 4, 4, 4, 4, 4}, {4, 4, 4, 4, 0, 10, 0, 10},
        {8, 8, 8, 8, 8, 8, 8, 8}, {8, 8, 8, 8, 108, 0, 108, 2}, {2, 2, 2, 2, 2, 2, 2, 2}, {2, 2, 2, 2, 10, 8, 10, 8},
    };
    static const uint8_t stores[8] = {0x00, 0xcc, 0x00, 0x8e, 0x00, 0xce, 0x00, 0xce}; /* by n; those of d9: fst, fstp, fnstenv, fnstcw */
    const int op = x->opcode & 7, n = extension(x);
    if (x->memory) {
        add_reference(x, CV_X86_OPERAND, stores[op] >> n & 1 ? CV_X86_STORE : CV_X86_LOAD, size[op][n]);
        x->flops = !(op & 1) && n != 2 && n != 3;
        return;
    }
    if ((op == 2 || op == 3) && n < 4) { /* fcmov: CF, ZF, PF */
        x->reads_flags = 1;
        x->reads |= CV_X86_FLAGS_SET;
    }
    if ((op == 3 || op == 7) && (n == 5 || n == 6)) /* fcomi, fucomi write them and leave others */
        read_and_write(x, CV_X86_FLAGS_SET);
    if (x->modrm == 0xe0 && op == 7)
        x->writes |= SET_RAX; /* fnstsw ax */
    x->flops = ((op == 0 || op == 4 || op == 6) && n != 2 && n != 3) ||
               (op == 1 && n >= 6 && x->modrm != 0xf6 && x->modrm != 0xf7 && x->modrm != 0xf4 && x->modrm != 0xfc);
}
