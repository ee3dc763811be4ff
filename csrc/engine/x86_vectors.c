/* Vector instructions, legacy, VEX and EVEX: their operands, how wide a memory operand is, and their floating-point operations. */
#include "x86_opcodes.h"

/* Operands are vectors unless flagged; a destination that is also read is one of legacy code. */
#define LOADS (MODRM | RM_R | VECTORS)
#define MOVES (LOADS | REG_W)
#define BOTH (LOADS | REG_RW)
#define STORES (MODRM | RM_W | REG_R | VECTORS)

/* A size for each of the prefixes (none, 66, F3, F2). */
#define FOUR(a, b, c, d) (((const uint8_t[4]){a, b, c, d})[x->prefix])

/* ---- the 0F map ---- */

/* 0: packed integers, or by prefix and encoding. */
static const uint32_t vectors_0f[256] = {
    [0x10] = MOVES | Z_S,
    [0x11] = STORES | Z_S,
    [0x13] = STORES | Z_Q,
    [0x14 ... 0x15] = BOTH | Z_X,
    [0x17] = STORES | Z_Q,
    [0x28] = MOVES | Z_P,
    [0x29] = STORES | Z_X,
    [0x2b] = STORES | Z_S,
    [0x50] = MOVES & ~REG_V,
    [0x54 ... 0x57] = BOTH | Z_X,
    [0x58 ... 0x59] = BOTH | Z_S,
    [0x5b] = MOVES | Z_X,
    [0x5c ... 0x5f] = BOTH | Z_S,
    [0x6e] = (MOVES & ~RM_V) | Z_Y,
    [0x6f] = MOVES | Z_P,
    [0x70] = MOVES | IMM8 | Z_P,
    [0x7c ... 0x7d] = BOTH | Z_X,
    [0x7f] = STORES | Z_P,
    [0xae] = MODRM | REG_0,
    [0xc2] = BOTH | IMM8 | Z_S,
    [0xc4] = (BOTH & ~RM_V) | IMM8 | Z_W,
    [0xc5] = (MOVES & ~REG_V) | IMM8,
    [0xc6] = BOTH | IMM8 | Z_X,
    [0xd0] = BOTH | Z_X,
    [0xd7] = MOVES & ~REG_V,
    [0xe7] = STORES | Z_P,
    [0xf0] = MOVES | Z_X,
    [0xf7] = LOADS | REG_R,
};

/* 78 to 7b: conversions of AVX-512, whose numbers SSE4a and vmread have, too. */
static uint32_t conversion(const struct cv_x86 *x)
{
    const int w = x->rex & 8;
    if (x->opcode == 0x7a)
        return MOVES | (w || x->prefix == 3 ? Z_X : Z_H);
    if (x->opcode == 0x7b)
        return x->prefix < 2 ? MOVES | (w ? Z_X : Z_H) : (BOTH & ~RM_V) | Z_Y;
    if (x->encoding == CV_X86_LEGACY && x->opcode == 0x78 && x->prefix != 1 && x->prefix != 3)
        return BAD; /* vmread */
    if (x->encoding != CV_X86_EVEX)
        return LOADS | REG_RW | (x->opcode == 0x78 ? REG_0 | IMM16 : 0);
    return x->prefix < 2 ? MOVES | (x->prefix == 1 && !w ? Z_H : Z_X) : (MOVES & ~REG_V) | (x->prefix == 2 ? Z_D : Z_Q);
}

static uint32_t vector_0f(const struct cv_x86 *x)
{
    const int packed = x->prefix < 2, legacy = x->encoding == CV_X86_LEGACY;
    switch (x->opcode) {
    case 0x12: return BOTH | (x->prefix == 3 && x->vector_bytes > 16 ? Z_X : FOUR(Z_Q, Z_Q, Z_X, Z_Q));
    case 0x16: return BOTH | (FOUR(Z_Q, Z_Q, Z_X, Z_X));
    case 0x2a: return (packed ? MOVES : BOTH & ~RM_V) | (FOUR(Z_Q, Z_Q, Z_Y, Z_Y));
    case 0x2c ... 0x2d: return (packed ? MOVES : MOVES & ~REG_V) | (FOUR(Z_Q, Z_DQ, Z_D, Z_Q));
    case 0x2e ... 0x2f: return LOADS | REG_R | F_SET | (FOUR(Z_D, Z_Q, Z_D, Z_Q));
    case 0x51 ... 0x53: return (packed ? MOVES : BOTH) | Z_S;
    case 0x5a: return (packed ? MOVES : BOTH) | (FOUR(Z_H, Z_X, Z_D, Z_Q));
    case 0x60 ... 0x62: return BOTH | (legacy && !x->prefix ? Z_D : Z_P);
    case 0x71 ... 0x73: return LOADS | (x->encoding == CV_X86_EVEX ? 0 : RM_W) | REG_0 | IMM8 | Z_P;
    case 0x77: return 0;
    case 0x78 ... 0x7b: return conversion(x);
    case 0x7e: return x->prefix == 2 ? MOVES | Z_Q : (STORES & ~RM_V) | Z_Y;
    case 0xd1 ... 0xd3:
    case 0xe1 ... 0xe2:
    case 0xf1 ... 0xf3: return BOTH | (legacy ? Z_P : Z_DQ);
    case 0xd6: return x->prefix == 1 ? STORES | Z_Q : MOVES;
    case 0xe6: return MOVES | (FOUR(Z_X, Z_X, Z_H, Z_X));
    default: return vectors_0f[x->opcode] ? vectors_0f[x->opcode] : BOTH | Z_P; /* 63-6d, 74-76, d4-fe: packed integers */
    }
}

int is_vector(const struct cv_x86 *x)
{
    const int o = x->opcode;
    if (x->map != 1 || x->encoding != CV_X86_LEGACY)
        return x->map > 0 && !is_mask(x);
    return (o >= 0x10 && o <= 0x17) || (o >= 0x28 && o <= 0x2f) || (o >= 0x50 && o <= 0x7f) || o == 0xc2 || (o >= 0xc4 && o <= 0xc6) ||
           (o >= 0xd0 && o <= 0xfe);
}

/* Of opmask registers, which are not followed. */
int is_mask(const struct cv_x86 *x)
{
    const int o = x->opcode;
    return x->map == 1 && x->encoding == CV_X86_VEX && ((o >= 0x41 && o <= 0x4b) || (o >= 0x90 && o <= 0x99));
}

uint32_t mask_word(const struct cv_x86 *x)
{
    const int w = x->rex & 8;
    const uint32_t size = x->prefix ? w ? Z_D : Z_B : w ? Z_Q : Z_W;
    switch (x->opcode) {
    case 0x90: return MODRM | RM_R | RM_V | REG_0 | size;
    case 0x91: return MODRM | RM_W | RM_V | REG_0 | size;
    case 0x92: return MODRM | RM_R | REG_0;
    case 0x93: return MODRM | REG_W;
    case 0x98 ... 0x99: return MODRM | REG_0 | F_SET;
    default: return MODRM | REG_0;
    }
}

/* ---- the 0F38 map ---- */

#define BROADCASTS(o) [(o)] = MOVES | Z_D, [(o) + 1] = MOVES | Z_Q, [(o) + 2] = MOVES | Z_DQ, [(o) + 3] = MOVES | Z_QQ
#define WIDENS(o)                                                                                                            \
    [(o)] = MOVES | Z_H, [(o) + 1] = MOVES | Z_F, [(o) + 2] = MOVES | Z_E, [(o) + 3] = MOVES | Z_H, [(o) + 4] = MOVES | Z_F, \
    [(o) + 5] = MOVES | Z_H

/* 0: packed integers, or by prefix and encoding. */
static const uint32_t vectors_0f38[256] = {
    [0x0c ... 0x0d] = BOTH | Z_X,
    [0x0e ... 0x0f] = LOADS | REG_R | F_SET | Z_X,
    [0x13] = MOVES | Z_H,
    [0x16] = BOTH | Z_X,
    [0x17] = LOADS | REG_R | F_SET | Z_X,
    BROADCASTS(0x18),
    [0x1c ... 0x1f] = MOVES | Z_P,
    WIDENS(0x20),
    [0x2a] = MOVES | Z_X,
    [0x2c] = BOTH | Z_X,
    [0x2e ... 0x2f] = STORES | Z_X,
    WIDENS(0x30),
    [0x36] = BOTH | Z_X,
    [0x41] = MOVES | Z_DQ,
    [0x43] = BOTH | Z_L,
    [0x4d] = BOTH | Z_L,
    [0x4f] = BOTH | Z_L,
    BROADCASTS(0x58),
    [0x62] = MOVES | Z_M,
    [0x63] = STORES | Z_M,
    [0x78] = MOVES | Z_B,
    [0x79] = MOVES | Z_W,
    [0x7a ... 0x7c] = MOVES & ~RM_V,
    [0x88 ... 0x89] = MOVES | Z_L,
    [0x8a ... 0x8b] = STORES | Z_L,
    [0x8e] = STORES | Z_X,
    [0x90 ... 0x93] = BOTH | Z_L,
    [0xa0 ... 0xa3] = STORES | Z_L,
    [0xc6 ... 0xc7] = MODRM | REG_0 | Z_L, /* prefetches */
    [0xdb] = MOVES | Z_DQ,
    [0xf3] = MODRM | RM_R | REG_0 | Z_Y | F_SOME,
    [0xf8] = MODRM | RM_R | REG_R, /* movdir64b: add_references knows its size */
    [0xf9] = MODRM | RM_W | REG_R | Z_Y,
};

/* Of fused ones: those that are even are of vectors, odd ones from 99 of one element. */
static int is_of_one_element(uint8_t o) { return (o & 15) > 8 && (o & 1); }

static uint32_t vector_0f38(const struct cv_x86 *x)
{
    static const uint8_t narrow[6] = {Z_H, Z_F, Z_E, Z_H, Z_F, Z_H}; /* vpmov to smaller elements */
    const int evex = x->encoding == CV_X86_EVEX, legacy = x->encoding == CV_X86_LEGACY;
    const uint8_t o = x->opcode;
    if (evex && x->prefix == 2 && (o & 15) < 6 && o >= 0x10 && o < 0x40)
        return STORES | narrow[o & 15];
    if (is_fused(o) && is_of_one_element(o))
        return BOTH | Z_L;
    switch (o) {
    case 0x2d: return BOTH | (evex ? Z_L : Z_X);
    case 0x42:
    case 0x44:
    case 0x4c:
    case 0x4e:
    case 0x54 ... 0x55:
    case 0xc4:
    case 0xc8 ... 0xcd: return legacy ? BOTH | Z_DQ : o == 0xcb || o == 0xcd ? BOTH | Z_L : MOVES | Z_X;
    case 0x49:
    case 0x4b:
    case 0x5c:
    case 0x5e: return evex ? BOTH | Z_X : MODRM | REG_0; /* AMX */
    case 0x80 ... 0x82: return evex ? BOTH | Z_X : MODRM | RM_R | REG_R | Z_DQ;
    case 0xf0: return x->prefix == 3 ? MODRM | RM_R | REG_RW | Z_B : MODRM | RM_R | REG_W | Z_V; /* from here of general registers */
    case 0xf1: return x->prefix == 3 ? MODRM | RM_R | REG_RW | Z_V : MODRM | RM_W | REG_R | Z_V;
    case 0xf2: return MODRM | RM_R | REG_W | Z_Y | F_SOME;
    case 0xf5: return legacy ? MODRM | RM_W | REG_R | Z_Y : MODRM | RM_R | REG_W | Z_Y | (x->prefix ? 0 : F_SOME);
    case 0xf6: return MODRM | RM_R | REG_RW | Z_Y | (legacy ? F_READ | F_SOME : 0);
    case 0xf7: return MODRM | RM_R | REG_W | Z_Y | (x->prefix ? 0 : F_SOME);
    default: return vectors_0f38[o] ? vectors_0f38[o] : BOTH | Z_P;
    }
}

/* ---- the 0F3A map ---- */

/* All have an immediate; 0: packed integers. */
static const uint32_t vectors_0f3a[256] = {
    [0x00 ... 0x01] = MOVES | Z_X,
    [0x04 ... 0x05] = MOVES | Z_X,
    [0x08 ... 0x09] = MOVES | Z_X,
    [0x0a] = BOTH | Z_D,
    [0x0b] = BOTH | Z_Q,
    [0x14] = (STORES & ~RM_V) | Z_B,
    [0x15] = (STORES & ~RM_V) | Z_W,
    [0x16] = (STORES & ~RM_V) | Z_Y,
    [0x17] = (STORES & ~RM_V) | Z_D,
    [0x18] = BOTH | Z_DQ,
    [0x19] = STORES | Z_DQ,
    [0x1a] = BOTH | Z_QQ,
    [0x1b] = STORES | Z_QQ,
    [0x1d] = STORES | Z_H,
    [0x20] = (BOTH & ~RM_V) | Z_B,
    [0x21] = BOTH | Z_D,
    [0x22] = (BOTH & ~RM_V) | Z_Y,
    [0x26] = MOVES | Z_X,
    [0x27] = BOTH | Z_L,
    [0x30 ... 0x33] = MODRM | REG_0,
    [0x38] = BOTH | Z_DQ,
    [0x39] = STORES | Z_DQ,
    [0x3a] = BOTH | Z_QQ,
    [0x3b] = STORES | Z_QQ,
    [0x51] = BOTH | Z_L,
    [0x55] = BOTH | Z_L,
    [0x56] = MOVES | Z_X,
    [0x57] = BOTH | Z_L,
    [0x60 ... 0x63] = LOADS | REG_R | F_SET | Z_DQ,
    [0x66] = MOVES | Z_X,
    [0x67] = BOTH | Z_L,
    [0xdf] = MOVES | Z_DQ,
    [0xf0] = MODRM | RM_R | REG_W | Z_Y,
};

/* ---- all maps ---- */

static uint32_t half_precision(const struct cv_x86 *x) /* maps 5 and 6 */
{
    if (x->map == 5 && x->opcode == 0x11)
        return STORES | (x->prefix == 2 ? Z_W : Z_X);
    if (x->map == 5 && (x->opcode == 0x2e || x->opcode == 0x2f))
        return LOADS | REG_R | F_SET | Z_W;
    if (x->map == 5 && (x->opcode == 0x6e || x->opcode == 0x7e))
        return (x->opcode == 0x6e ? MOVES : STORES) | Z_W;
    return BOTH | (x->prefix >= 2 ? Z_W : Z_X);
}

uint32_t vector_word(const struct cv_x86 *x)
{
    switch (x->map) {
    case 1: return vector_0f(x);
    case 2: return vector_0f38(x);
    case 3: return IMM8 | (vectors_0f3a[x->opcode] ? vectors_0f3a[x->opcode] : BOTH | Z_P);
    default: return half_precision(x);
    }
}

/* Lanes of additions, multiplications, divisions, roots, minima and estimates; two for a fused one. */
int vector_flops(const struct cv_x86 *x)
{
    const int o = x->opcode, lanes = x->vector_bytes / (x->rex & 8 ? 8 : 4);
    if (x->map == 1)
        switch (o) {
        case 0x51 ... 0x53:
        case 0x58 ... 0x59:
        case 0x5c ... 0x5f: return x->prefix >= 2 ? 1 : x->vector_bytes / (x->prefix ? 8 : 4);
        case 0x7c ... 0x7d:
        case 0xd0: return x->prefix ? x->vector_bytes / (x->prefix == 1 ? 8 : 4) : 0;
        default: return 0;
        }
    if (x->map != 2 || x->encoding == CV_X86_LEGACY)
        return 0;
    if (is_fused(x->opcode))
        return is_of_one_element(x->opcode) ? 2 : 2 * lanes;
    if (x->encoding != CV_X86_EVEX)
        return 0;
    return o == 0x4c || o == 0x4e || o == 0x2c ? lanes : o == 0x4d || o == 0x4f || o == 0x2d;
}

/* Bytes of an element of an operand in memory that a mask may choose; 0: of an instruction whose operand is one reference, or has other
 * elements than the mask. */
int masked_element_bytes(const struct cv_x86 *x)
{
    const int o = x->opcode, by_w = x->rex & 8 ? 8 : 4, by_prefix = x->prefix == 0 ? 4 : x->prefix == 1 ? 8 : 0;
    if (x->gathered)
        return by_w;
    if (x->encoding == CV_X86_VEX) { /* vmaskmov, vpmaskmov */
        if (x->map != 2 || x->prefix != 1)
            return 0;
        return o >= 0x2c && o <= 0x2f ? (o & 1 ? 8 : 4) : o == 0x8c || o == 0x8e ? by_w : 0;
    }
    if (x->map == 1)
        switch (o) {
        case 0x10 ... 0x11:
        case 0x28 ... 0x29:
        case 0x51:
        case 0x54 ... 0x59:
        case 0x5c ... 0x5f: return by_prefix;
        case 0x6f:
        case 0x7f: return x->prefix == 1 || x->prefix == 2 ? by_w : 0; /* smaller ones: as many as 64 */
        default: return 0;
        }
    return x->map == 2 && x->prefix == 1 && (is_packed(x) || (is_fused(x->opcode) && !is_of_one_element(x->opcode))) ? by_w : 0;
}
