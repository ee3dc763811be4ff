/* Decodes one instruction (x86_decode.h): prefixes, opcode, operands and immediates in the order of its bytes, then what it refers to. */
#include "x86_opcodes.h"

/* An instruction as far as it has been read. */
struct reading {
    const uint8_t *code;
    int size, at; /* bytes that are readable; those that have been read */
    int operand16, address32, repeat, locked, segment, rex, has_rex;
    int vvvv, opmask, merges, broadcast, index_high; /* of VEX and EVEX */
    int wide, narrow;                                /* operands of 8 bytes, of 2 */
    int vector;
    int64_t immediate;
};

/* ---- prefixes and opcode ---- */

static int is_prefix(uint8_t b)
{
    return b == 0x66 || b == 0x67 || b == 0xf2 || b == 0xf3 || b == 0xf0 || b == 0x64 || b == 0x65 || b == 0x2e || b == 0x36 || b == 0x3e ||
           b == 0x26;
}

static void note_prefix(struct reading *r, uint8_t b)
{
    if (b == 0x66)
        r->operand16 = 1;
    else if (b == 0x67)
        r->address32 = 1;
    else if (b == 0xf2 || b == 0xf3)
        r->repeat = b;
    else if (b == 0xf0)
        r->locked = 1;
    else if (b == 0x64 || b == 0x65)
        r->segment = b;
}

static int is_rex(const struct reading *r) { return r->at < r->size && (r->code[r->at] & 0xf0) == 0x40; }

static void read_prefixes(struct reading *r)
{
    while (r->at < r->size && r->at < 14 && is_prefix(r->code[r->at])) {
        note_prefix(r, r->code[r->at++]);
        r->rex = r->has_rex = 0;
        if (!is_rex(r))
            continue;
        r->rex = r->code[r->at++] & 15;
        r->has_rex = 1;
        if (r->at >= r->size || !is_prefix(r->code[r->at])) /* else it is no longer the last: without effect */
            break;
        r->rex = r->has_rex = 0;
    }
    for (; is_rex(r); r->at++) { /* of several, the last one counts */
        r->rex = r->code[r->at] & 15;
        r->has_rex = 1;
    }
}

static int read_vex(struct reading *r, struct cv_x86 *x)
{
    const int is_long = r->code[r->at] == 0xc4;
    uint8_t last = r->code[r->at + 1];
    x->encoding = CV_X86_VEX;
    x->rex = last & 0x80 ? 0 : 4;
    x->map = 1;
    if (is_long) {
        x->rex |= (uint8_t)((last & 0x40 ? 0 : 2) | (last & 0x20 ? 0 : 1));
        x->map = last & 31;
        last = r->code[r->at + 2];
        x->rex |= last & 0x80 ? 8 : 0;
    }
    x->prefix = last & 3;
    x->vector_bytes = last & 4 ? 32 : 16;
    r->vvvv = ~(last >> 3) & 15;
    r->at += is_long ? 3 : 2;
    return x->map >= 1 && x->map <= 3;
}

static int read_evex(struct reading *r, struct cv_x86 *x)
{
    const uint8_t p0 = r->code[r->at + 1], p1 = r->code[r->at + 2], p2 = r->code[r->at + 3];
    x->encoding = CV_X86_EVEX;
    x->rex = (uint8_t)((p0 & 0x80 ? 0 : 4) | (p0 & 0x40 ? 0 : 2) | (p0 & 0x20 ? 0 : 1) | (p1 & 0x80 ? 8 : 0));
    x->map = p0 & 7;
    x->prefix = p1 & 3;
    x->vector_bytes = (uint8_t)((p2 >> 5 & 3) == 0 ? 16 : (p2 >> 5 & 3) == 1 ? 32 : 64);
    r->index_high = p2 & 8 ? 0 : 16;
    r->vvvv = (~(p1 >> 3) & 15) | r->index_high;
    r->broadcast = p2 >> 4 & 1;
    r->opmask = p2 & 7;
    r->merges = r->opmask && !(p2 & 0x80);
    r->at += 4;
    return x->map >= 1 && x->map != 4 && x->map <= 6;
}

/* 0F, 0F 38, 0F 3A. */
static int read_escape(struct reading *r, struct cv_x86 *x)
{
    x->map = 1;
    if (++r->at >= r->size)
        return 0;
    if (r->code[r->at] == 0x38 || r->code[r->at] == 0x3a) {
        x->map = r->code[r->at] == 0x38 ? 2 : 3;
        r->at++;
    }
    return 1;
}

/* What comes before the opcode, and it. 0: none that is known. */
static int read_opcode(struct reading *r, struct cv_x86 *x)
{
    read_prefixes(r);
    if (r->at >= r->size)
        return 0;
    const uint8_t *const code = r->code + r->at;
    const int left = r->size - r->at;
    int known = 1;
    x->rex = (uint8_t)r->rex;
    x->segment = r->segment == 0x64 ? 0x64 : 0;
    x->locked = (uint8_t)r->locked;
    x->prefixes = (uint8_t)(r->at - r->has_rex);
    x->prefix = r->repeat == 0xf3 ? 2 : r->repeat == 0xf2 ? 3 : r->operand16 ? 1 : 0;
    if (code[0] == 0x0f)
        known = read_escape(r, x);
    else if ((code[0] == 0xc5 && left > 2) || (code[0] == 0xc4 && left > 3))
        known = read_vex(r, x);
    else if (code[0] == 0x62 && left > 4)
        known = read_evex(r, x);
    else if (code[0] == 0x8f && left > 3)
        known = (code[1] & 31) < 8; /* else XOP (AMD): the same layout as VEX */
    if (!known || r->at >= r->size)
        return 0;
    x->opcode = r->code[r->at++];
    return 1;
}

/* ---- operands ---- */

static int64_t number_at(const uint8_t *at, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return bytes == 8 ? (int64_t)v : bytes == 4 ? (int32_t)v : bytes == 2 ? (int16_t)v : (int8_t)v;
}

/* The SIB byte. Returns the base. */
static int read_index(struct reading *r, struct cv_x86 *x)
{
    const uint8_t sib = r->code[r->at++];
    const int index = (sib >> 3 & 7) | (x->rex & 2 ? 8 : 0);
    x->scale = (uint8_t)(1 << (sib >> 6));
    if (index != 4 || x->gathered)
        x->index = (int8_t)(x->gathered ? index | r->index_high : index);
    return sib & 7;
}

/* The ModRM byte and what follows it, up to the immediates. 0: the bytes end before. */
static int read_operand(struct reading *r, struct cv_x86 *x)
{
    if (r->at >= r->size)
        return 0;
    x->modrm_offset = (uint8_t)r->at;
    x->modrm = r->code[r->at++];
    const int mod = x->modrm >> 6, rm = x->modrm & 7;
    if (mod == 3)
        return 1;
    x->memory = 1;
    int base = rm, bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if (rm == 4) {
        if (r->at >= r->size)
            return 0;
        base = read_index(r, x);
    }
    if (base == 5 && mod == 0) { /* none, or the next instruction */
        bytes = 4;
        if (rm == 5) {
            x->base = CV_X86_RIP;
            x->displacement_offset = (uint8_t)r->at;
            if (r->address32)
                x->refusal = CV_X86_ADDRESS_SIZE;
        }
    } else {
        x->base = (int8_t)(base | (x->rex & 1 ? 8 : 0));
    }
    if (r->at + bytes > r->size)
        return 0;
    x->displacement = bytes ? number_at(r->code + r->at, bytes) : 0;
    r->at += bytes;
    return 1;
}

/* 0: the bytes end before. */
static int read_immediate(struct reading *r, const struct cv_x86 *x, uint32_t e)
{
    const int is_jump = x->map == 1 || (x->map == 0 && (x->opcode == 0xe8 || x->opcode == 0xe9)); /* those stay wide */
    int bytes = 0;
    if (e & IMM8)
        bytes += 1;
    if (e & IMM32)
        bytes += r->narrow && !is_jump ? 2 : 4;
    if (e & IMM16)
        bytes += 2;
    if (e & IMM64)
        bytes += r->wide ? 8 : r->narrow ? 2 : 4;
    if (e & MOFFS)
        bytes += r->address32 ? 4 : 8;
    if (r->at + bytes > r->size)
        return 0;
    r->immediate = bytes ? number_at(r->code + r->at, bytes == 3 ? 2 : bytes) : 0; /* 3: enter, of two */
    r->at += bytes;
    return 1;
}

static void use_immediate(const struct reading *r, struct cv_x86 *x, uint32_t e)
{
    if (x->kind == CV_X86_BRANCH || x->kind == CV_X86_LOOP || x->kind == CV_X86_JUMP || x->kind == CV_X86_CALL)
        x->target = x->address + (uint64_t)r->at + (uint64_t)r->immediate;
    if (x->kind == CV_X86_RETURN)
        x->pops = (uint16_t)(x->opcode == 0xc2 ? r->immediate : 0);
    if (e & MOFFS)
        x->displacement = r->address32 ? (int64_t)(uint32_t)r->immediate : r->immediate;
}

/* ---- flags and registers ---- */

/* Shifts by a constant that is not 0 write the flags; but OF only for some, which is undefined then. */
static uint32_t flags_of_shift(const struct reading *r, struct cv_x86 *x, uint32_t e)
{
    const int o = x->opcode, n = extension(x), constant = (int)r->immediate & (r->wide ? 63 : 31);
    if (x->map == 1 && !r->vector && (o == 0xa4 || o == 0xac) && constant)
        return e | F_SET;
    if (x->map != 0 || ((o & 0xfe) != 0xc0 && (o & 0xfc) != 0xd0))
        return e;
    if (n == 2 || n == 3)
        x->reads |= CV_X86_FLAGS_SET; /* rcl, rcr: CF */
    return n >= 4 && (o < 0xd0 ? constant : o < 0xd2) ? e | F_SET : e;
}

/* What of the table's word does not hold for a vector instruction. */
static uint32_t registers_of_vector(const struct reading *r, struct cv_x86 *x, uint32_t e)
{
    const int o = x->opcode;
    if (x->encoding == CV_X86_LEGACY) {
        const int is_zero = x->map == 1 && is_with_itself(x) && (o == 0xef || o == 0x57 || (o >= 0xf8 && o <= 0xfb));
        return is_zero ? e & ~(RM_R | REG_R) : e;
    }
    if (x->map == 2 && o == 0xf3)
        x->writes |= bit(r->vvvv & 15);
    const int reads_all = (x->map == 2 && o >= 0x90 && o <= 0xbf) || (x->map == 3 && x->encoding == CV_X86_EVEX && o == 0x25);
    return !reads_all && e & REG_W ? e & ~REG_R : e; /* three operands: the first is written only */
}

static void add_operands(struct cv_x86 *x, uint32_t e, int merges)
{
    const int reg = extension(x) | (x->rex & 4 ? 8 : 0), rm = (x->modrm & 7) | (x->rex & 1 ? 8 : 0);
    const uint64_t r = bit(e & REG_V ? CV_X86_VECTOR_SET + reg : reg), m = bit(e & RM_V ? CV_X86_VECTOR_SET + rm : rm);
    if (!(e & REG_0)) {
        x->reads |= (e & REG_R) || merges ? r : 0;
        x->writes |= e & REG_W ? r : 0;
    }
    if (!x->memory) {
        x->reads |= e & RM_R ? m : 0;
        x->writes |= e & RM_W ? m : 0;
        return;
    }
    x->reads |= x->base >= 0 ? bit(x->base) : 0;
    if (x->index >= 0)
        x->reads |= bit(x->gathered ? CV_X86_VECTOR_SET + (x->index & 15) : x->index);
}

/* Registers and flags that the table's word names. */
static void add_registers(const struct reading *r, struct cv_x86 *x, uint32_t e)
{
    const uint64_t low = bit((x->opcode & 7) | (x->rex & 1 ? 8 : 0));
    const uint64_t both = (e & AX ? SET_RAX : 0) | (e & (PUSHES | POPS) ? SET_RSP : 0);
    if (e & MODRM)
        add_operands(x, e, r->merges);
    if (x->encoding != CV_X86_LEGACY && r->vvvv)
        x->reads |= bit(e & REG_V ? CV_X86_VECTOR_SET + (r->vvvv & 15) : r->vvvv & 15);
    if (e & F_READ)
        x->reads_flags = 1;
    if (e & F_SET)
        x->sets_flags = 1;
    x->reads |= both | (e & OP_R ? low : 0) | (x->reads_flags ? CV_X86_FLAGS_SET : 0);
    x->writes |= both | (e & OP_W ? low : 0) | (e & (F_SET | F_SOME) ? CV_X86_FLAGS_SET : 0);
    x->keeps_carry = x->map == 0 && x->opcode >= 0xfe;
}

/* ---- references ---- */

static int size_bytes(uint32_t e, const struct cv_x86 *x, int wide, int narrow)
{
    const int vl = x->vector_bytes, mmx = x->encoding == CV_X86_LEGACY && !x->prefix;
    switch (SIZE_OF(e)) {
    case Z_B: return 1;
    case Z_W: return 2;
    case Z_D: return 4;
    case Z_Q: return 8;
    case Z_V: return wide ? 8 : narrow ? 2 : 4;
    case Z_Y:
    case Z_L: return wide ? 8 : 4;
    case Z_M: return wide ? 2 : 1;
    case Z_N: return narrow ? 2 : 8;
    case Z_DQ: return 16;
    case Z_QQ: return 32;
    case Z_X: return vl;
    case Z_H: return vl / 2;
    case Z_F: return vl / 4;
    case Z_E: return vl / 8;
    case Z_P: return mmx ? 8 : vl;
    case Z_S: return x->prefix < 2 ? vl : x->prefix == 2 ? 4 : 8;
    default: return 0;
    }
}

static void add_explicit(struct cv_x86 *x, uint32_t e, int bytes)
{
    if (x->memory == 1 && e & RM_RW)
        add_reference(x, CV_X86_OPERAND, (e & RM_R ? CV_X86_LOAD : 0) | (e & RM_W ? CV_X86_STORE : 0), bytes);
}

/* Of the operand, whose bytes EVEX may change, and what is pushed. */
static void add_general(const struct reading *r, struct cv_x86 *x, uint32_t e)
{
    const int packs = SIZE_OF(e) == Z_M || is_packed(x);
    int bytes = size_bytes(e, x, r->wide, r->narrow);
    if (r->broadcast && x->memory)
        bytes = x->map >= 5 ? 2 : r->wide ? 8 : 4;
    if (x->encoding == CV_X86_EVEX && x->memory && x->modrm >> 6 == 1)
        x->displacement *= bytes ? bytes : 1;
    if (packs && !x->gathered)
        bytes = x->vector_bytes; /* compressed and expanded: at most the whole vector */
    add_explicit(x, e, bytes);
    if (e & PUSHES)
        add_reference(x, CV_X86_PUSH, CV_X86_STORE, bytes);
    if (x->kind == CV_X86_CALL_INDIRECT)
        add_reference(x, CV_X86_PUSH, CV_X86_STORE, 8);
}

static void add_references(const struct reading *r, struct cv_x86 *x, uint32_t e)
{
    const int o = x->opcode;
    if (x->map == 0 && o >= 0xd8 && o <= 0xdf) {
        add_x87(x);
    } else if (x->map == 1 && o == 0xae && x->encoding == CV_X86_VEX) { /* vldmxcsr, vstmxcsr */
        add_reference(x, CV_X86_OPERAND, extension(x) == 3 ? CV_X86_STORE : CV_X86_LOAD, 4);
    } else if (x->map == 1 && r->vector && o == 0xf7) { /* maskmovdqu */
        x->reads |= SET_RDI;
        add_reference(x, CV_X86_TARGET, CV_X86_STORE, x->prefix ? 16 : 8);
    } else if (x->map == 2 && o == 0xf8 && x->encoding == CV_X86_LEGACY) { /* movdir64b */
        add_reference(x, CV_X86_OPERAND, CV_X86_LOAD, 64);
    } else if (e & POPS) {
        const int bytes = size_bytes(e, x, r->wide, r->narrow);
        add_reference(x, CV_X86_POP, CV_X86_LOAD, bytes);
        add_explicit(x, e, bytes);
        if (x->memory == 1 && x->base == 4)
            x->displacement += bytes; /* rsp has been popped when the address is made */
    } else {
        add_general(r, x, e);
    }
}

/* Gathers and scatters, and what moves or computes elements under a mask. */
static void add_lanes(const struct reading *r, struct cv_x86 *x)
{
    const int vex = x->encoding == CV_X86_VEX, bytes = vex || (r->opmask && !r->broadcast) ? masked_element_bytes(x) : 0;
    if (!bytes || x->memory != 1 || x->n_references != 1)
        return;
    x->index_bytes = !x->gathered ? 0 : x->opcode & 1 ? 8 : 4;
    x->lane_kind = x->gathered ? CV_X86_GATHERED : !vex && is_packed(x) ? CV_X86_PACKED : CV_X86_IN_ROW;
    x->lane_bytes = (uint8_t)bytes;
    x->lanes = (uint8_t)(x->vector_bytes / (x->index_bytes > bytes ? x->index_bytes : bytes));
    x->mask = (uint8_t)(vex ? r->vvvv : r->opmask);
    x->mask_bytes = (uint8_t)(vex ? bytes : 0);
}

/* ---- an instruction ---- */

/* vpgather and vpscatter have a vector as their index. */
static int is_gathered(const struct cv_x86 *x)
{
    const int o = x->opcode, evex = x->encoding == CV_X86_EVEX;
    return x->encoding != CV_X86_LEGACY && x->map == 2 &&
           ((o >= 0x90 && o <= 0x93) || (evex && ((o >= 0xa0 && o <= 0xa3) || o == 0xc6 || o == 0xc7)));
}

static uint32_t table_word(const struct cv_x86 *x)
{
    return x->map == 0 ? one_byte_words[x->opcode] : is_mask(x) ? mask_word(x) : is_vector(x) ? vector_word(x) : two_byte_words[x->opcode];
}

static uint32_t special_word(const struct reading *r, struct cv_x86 *x, uint32_t e)
{
    if (x->map == 0)
        return one_byte_special(x, e, r->wide ? 8 : r->narrow ? 2 : 4, r->repeat);
    return x->map == 1 && !r->vector && x->encoding == CV_X86_LEGACY ? two_byte_special(x, e, r->wide) : e;
}

static int finish(struct cv_x86 *x, int length, int refusal)
{
    x->length = (uint8_t)length;
    if (refusal)
        x->refusal = (uint8_t)refusal;
    if (x->refusal)
        x->kind = CV_X86_REFUSED;
    return length;
}

int cv_x86_decode(const uint8_t *code, int size, uint64_t address, struct cv_x86 *x)
{
    struct reading r = {.code = code, .size = size < 15 ? size : 15};
    *x = (struct cv_x86){.address = address, .base = CV_X86_NO_REGISTER, .index = CV_X86_NO_REGISTER, .scale = 1, .vector_bytes = 16};
    if (!read_opcode(&r, x))
        return finish(x, 0, CV_X86_UNKNOWN);
    r.wide = x->rex & 8;
    r.narrow = r.operand16 && !r.wide && x->encoding == CV_X86_LEGACY;
    r.vector = is_vector(x);
    x->gathered = (uint8_t)is_gathered(x);
    uint32_t e = table_word(x);
    if (e & BAD || (e & MODRM && !read_operand(&r, x)))
        return finish(x, 0, CV_X86_UNKNOWN);
    e = special_word(&r, x, e);
    if (e & BAD || !read_immediate(&r, x, e))
        return finish(x, 0, CV_X86_UNKNOWN);
    use_immediate(&r, x, e);
    e = flags_of_shift(&r, x, e);
    add_references(&r, x, e);
    if (r.vector) {
        add_lanes(&r, x);
        x->flops = (uint8_t)vector_flops(x);
        e = registers_of_vector(&r, x, e);
    }
    add_registers(&r, x, e);
    if (r.segment == 0x65 && x->memory == 1)
        x->refusal = CV_X86_GS;
    if (r.address32 && x->memory == 1 && (x->base >= 0 || x->index >= 0))
        x->refusal = CV_X86_ADDRESS_SIZE;
    return finish(x, r.at, 0);
}

int cv_x86_touches_rcx(const struct cv_x86 *x)
{
    const int o = x->opcode, registers_are_vectors = x->map == 1 && ((o >= 0x10 && o <= 0x17) || o == 0x28 || o == 0x29 || o == 0x2e ||
                                                                     o == 0x2f || (o >= 0x51 && o <= 0x6d) || o == 0x6f || o == 0x7f ||
                                                                     (o >= 0xd8 && o <= 0xef) || o == 0xd4 || o == 0xd6 || o >= 0xf8);
    const int fused = x->map == 2 && x->encoding != CV_X86_LEGACY && is_fused(x->opcode);
    if (x->base == 1 || x->index == 1 || x->kind == CV_X86_LOOP || x->kind == CV_X86_SYSCALL || x->kind == CV_X86_REQUEST || x->repeated ||
        x->compares)
        return 1;
    if (registers_are_vectors || fused)
        return 0;
    if (x->reads & 2 || x->writes & 2 || x->map > 1 || x->encoding != CV_X86_LEGACY)
        return 1;
    if (x->map == 1 && (o <= 0x0f || (o >= 0x30 && o <= 0x37) || o == 0xa2 || o == 0xa5 || o == 0xad || o == 0xae || o == 0xc7))
        return 1;
    if (x->map == 0 && (o == 0xd2 || o == 0xd3))
        return 1;
    const int legacy = x->rex ? 7 : 3; /* without REX number 5 may be ch */
    if (x->modrm_offset)
        return ((x->modrm >> 3 & legacy) == 1 && !(x->rex & 4)) || (x->modrm >> 6 == 3 && (x->modrm & legacy) == 1 && !(x->rex & 1));
    return (o & legacy) == 1 && !(x->rex & 1);
}
