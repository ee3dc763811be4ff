/* The opcode maps as tables of what matters here (x86_decode.h). */
#include "x86_decode.h"

/* Codes of operand sizes. */
enum size {
    Z_B = 1, /* byte; 0: no operand has a size */
    Z_W,     /* 2 */
    Z_D,     /* 4 */
    Z_Q,     /* 8 */
    Z_V,     /* the operand size: 2, 4, 8 */
    Z_Y,     /* 4, or 8 with W */
    Z_N,     /* what a push moves: 8, or 2 */
    Z_T,     /* 10 */
    Z_DQ,    /* 16 */
    Z_QQ,    /* 32 */
    Z_X,     /* the vector's length */
    Z_H,     /* a half of it */
    Z_F,     /* a fourth */
    Z_E,     /* an eighth */
    Z_L,     /* one element: 4, or 8 with W */
    Z_M,     /* one small element: 1, or 2 with W */
    Z_P,     /* X, or 8 for an MMX instruction */
};

#define SIZE(z) ((uint32_t)(z))
#define SIZE_OF(e) ((e) & 31)
#define MODRM (1u << 5)
#define IMM8 (1u << 6)
#define IMM32 (1u << 7) /* 2 bytes with a 16-bit operand */
#define IMM16 (1u << 8)
#define IMM64 (1u << 9) /* as wide as the operand */
#define MOFFS (1u << 10)
#define RM_R (1u << 11)
#define RM_W (1u << 12)
#define REG_R (1u << 13)
#define REG_W (1u << 14)
#define RM_V (1u << 15)  /* the rm operand is a vector */
#define REG_V (1u << 16) /* the reg operand is one */
#define REG_0 (1u << 17) /* it is no register that is followed, or an extension of the opcode */
#define F_SET (1u << 18) /* writes all flags that inc writes, and reads none of them */
#define F_READ (1u << 19)
#define F_SOME (1u << 20) /* writes or may write some */
#define BAD (1u << 21)
#define AX (1u << 22)   /* reads and writes rax */
#define OP_R (1u << 23) /* the register in the opcode's low bits is read */
#define OP_W (1u << 24)
#define PUSHES (1u << 25)
#define POPS (1u << 26)
#define RM_RW (RM_R | RM_W)
#define REG_RW (REG_R | REG_W)
#define VECTORS (RM_V | REG_V)

#define EVEN(o, rm, reg) [o] = MODRM | SIZE(Z_B) | (rm) | (reg)
#define ARITHMETIC(o, rm)                                                                                         \
    [(o)] = MODRM | SIZE(Z_B) | (rm) | REG_R | F_SET, [(o) + 1] = MODRM | SIZE(Z_V) | (rm) | REG_R | F_SET,       \
    [(o) + 2] = MODRM | SIZE(Z_B) | RM_R | REG_RW | F_SET, [(o) + 3] = MODRM | SIZE(Z_V) | RM_R | REG_RW | F_SET, \
    [(o) + 4] = IMM8 | AX | F_SET, [(o) + 5] = IMM32 | AX | F_SET, [(o) + 6] = BAD, [(o) + 7] = BAD

static const uint32_t one_byte[256] = {
    ARITHMETIC(0x00, RM_RW),
    ARITHMETIC(0x08, RM_RW),
    ARITHMETIC(0x10, RM_RW),
    ARITHMETIC(0x18, RM_RW),
    ARITHMETIC(0x20, RM_RW),
    ARITHMETIC(0x28, RM_RW),
    ARITHMETIC(0x30, RM_RW),
    [0x38] = MODRM | SIZE(Z_B) | RM_R | REG_R | F_SET,
    [0x39] = MODRM | SIZE(Z_V) | RM_R | REG_R | F_SET,
    [0x3a] = MODRM | SIZE(Z_B) | RM_R | REG_R | F_SET,
    [0x3b] = MODRM | SIZE(Z_V) | RM_R | REG_R | F_SET,
    [0x3c] = IMM8 | AX | F_SET,
    [0x3d] = IMM32 | AX | F_SET,
    [0x3e ... 0x4f] = BAD,
    [0x50 ... 0x57] = SIZE(Z_N) | OP_R | PUSHES,
    [0x58 ... 0x5f] = SIZE(Z_N) | OP_W | POPS,
    [0x60 ... 0x62] = BAD,
    [0x63] = MODRM | SIZE(Z_D) | RM_R | REG_W,
    [0x64 ... 0x67] = BAD,
    [0x68] = IMM32 | SIZE(Z_N) | PUSHES,
    [0x69] = MODRM | IMM32 | SIZE(Z_V) | RM_R | REG_W | F_SOME,
    [0x6a] = IMM8 | SIZE(Z_N) | PUSHES,
    [0x6b] = MODRM | IMM8 | SIZE(Z_V) | RM_R | REG_W | F_SOME,
    [0x6c] = SIZE(Z_B),
    [0x6d] = SIZE(Z_V),
    [0x6e] = SIZE(Z_B),
    [0x6f] = SIZE(Z_V),
    [0x70 ... 0x7f] = IMM8,
    [0x80] = MODRM | IMM8 | SIZE(Z_B) | RM_RW | REG_0 | F_SET,
    [0x81] = MODRM | IMM32 | SIZE(Z_V) | RM_RW | REG_0 | F_SET,
    [0x82] = BAD,
    [0x83] = MODRM | IMM8 | SIZE(Z_V) | RM_RW | REG_0 | F_SET,
    [0x84] = MODRM | SIZE(Z_B) | RM_R | REG_R | F_SET,
    [0x85] = MODRM | SIZE(Z_V) | RM_R | REG_R | F_SET,
    [0x86] = MODRM | SIZE(Z_B) | RM_RW | REG_RW,
    [0x87] = MODRM | SIZE(Z_V) | RM_RW | REG_RW,
    [0x88] = MODRM | SIZE(Z_B) | RM_W | REG_R,
    [0x89] = MODRM | SIZE(Z_V) | RM_W | REG_R,
    [0x8a] = MODRM | SIZE(Z_B) | RM_R | REG_W,
    [0x8b] = MODRM | SIZE(Z_V) | RM_R | REG_W,
    [0x8c] = MODRM | SIZE(Z_W) | RM_W | REG_0,
    [0x8d] = MODRM | REG_W,
    [0x8e] = MODRM | SIZE(Z_W) | RM_R | REG_0,
    [0x8f] = MODRM | SIZE(Z_N) | RM_W | REG_0 | POPS,
    [0x90 ... 0x97] = AX | OP_R | OP_W,
    [0x98] = AX,
    [0x99] = AX,
    [0x9a] = BAD,
    [0x9b] = 0,
    [0x9c] = SIZE(Z_N) | PUSHES | F_READ,
    [0x9d] = SIZE(Z_N) | POPS | F_SET,
    [0x9e] = AX | F_SOME,
    [0x9f] = AX | F_READ,
    [0xa0] = MOFFS | SIZE(Z_B) | AX,
    [0xa1] = MOFFS | SIZE(Z_V) | AX,
    [0xa2] = MOFFS | SIZE(Z_B) | AX,
    [0xa3] = MOFFS | SIZE(Z_V) | AX,
    [0xa4] = SIZE(Z_B),
    [0xa5] = SIZE(Z_V),
    [0xa6] = SIZE(Z_B) | F_SET,
    [0xa7] = SIZE(Z_V) | F_SET,
    [0xa8] = IMM8 | AX | F_SET,
    [0xa9] = IMM32 | AX | F_SET,
    [0xaa] = SIZE(Z_B) | AX,
    [0xab] = SIZE(Z_V) | AX,
    [0xac] = SIZE(Z_B) | AX,
    [0xad] = SIZE(Z_V) | AX,
    [0xae] = SIZE(Z_B) | AX | F_SET,
    [0xaf] = SIZE(Z_V) | AX | F_SET,
    [0xb0 ... 0xb7] = IMM8 | OP_W,
    [0xb8 ... 0xbf] = IMM64 | OP_W,
    [0xc0] = MODRM | IMM8 | SIZE(Z_B) | RM_RW | REG_0 | F_SOME,
    [0xc1] = MODRM | IMM8 | SIZE(Z_V) | RM_RW | REG_0 | F_SOME,
    [0xc2] = IMM16 | SIZE(Z_Q),
    [0xc3] = SIZE(Z_Q),
    [0xc4 ... 0xc5] = BAD,
    [0xc6] = MODRM | IMM8 | SIZE(Z_B) | RM_W | REG_0,
    [0xc7] = MODRM | IMM32 | SIZE(Z_V) | RM_W | REG_0,
    [0xc8] = IMM16 | IMM8 | SIZE(Z_N) | PUSHES,
    [0xc9] = SIZE(Z_N),
    [0xca] = IMM16,
    [0xcb] = 0,
    [0xcc] = 0,
    [0xcd] = IMM8,
    [0xce] = BAD,
    [0xcf] = 0,
    [0xd0] = MODRM | SIZE(Z_B) | RM_RW | REG_0 | F_SOME,
    [0xd1] = MODRM | SIZE(Z_V) | RM_RW | REG_0 | F_SOME,
    [0xd2] = MODRM | SIZE(Z_B) | RM_RW | REG_0 | F_SOME,
    [0xd3] = MODRM | SIZE(Z_V) | RM_RW | REG_0 | F_SOME,
    [0xd4 ... 0xd6] = BAD,
    [0xd7] = SIZE(Z_B) | AX,
    [0xd8 ... 0xdf] = MODRM | REG_0,
    [0xe0 ... 0xe3] = IMM8,
    [0xe4 ... 0xe7] = IMM8 | AX,
    [0xe8 ... 0xe9] = IMM32,
    [0xea] = BAD,
    [0xeb] = IMM8,
    [0xec ... 0xef] = AX,
    [0xf0] = BAD,
    [0xf1] = 0,
    [0xf2 ... 0xf3] = BAD,
    [0xf4] = 0,
    [0xf5] = 0,
    [0xf6] = MODRM | SIZE(Z_B) | REG_0,
    [0xf7] = MODRM | SIZE(Z_V) | REG_0,
    [0xf8 ... 0xfd] = 0,
    [0xfe] = MODRM | SIZE(Z_B) | RM_RW | REG_0 | F_SET,
    [0xff] = MODRM | SIZE(Z_V) | REG_0,
};

/* General instructions of the 0F map; vector instructions are described by vector_operand(). */
static const uint32_t two_byte[256] = {
    [0x00] = MODRM | SIZE(Z_W) | RM_R | REG_0 | F_SOME,
    [0x01] = MODRM | REG_0,
    [0x02 ... 0x03] = MODRM | SIZE(Z_W) | RM_R | REG_W | F_SOME,
    [0x04] = BAD,
    [0x05 ... 0x09] = 0,
    [0x0a] = BAD,
    [0x0b] = 0,
    [0x0c] = BAD,
    [0x0d] = MODRM | REG_0,
    [0x0e] = 0,
    [0x0f] = MODRM | IMM8 | SIZE(Z_Q) | RM_R | REG_0,
    [0x18 ... 0x1f] = MODRM | REG_0,
    [0x20 ... 0x23] = MODRM | REG_0,
    [0x24 ... 0x27] = BAD,
    [0x30 ... 0x35] = 0,
    [0x36] = BAD,
    [0x37] = 0,
    [0x38 ... 0x3f] = BAD,
    [0x40 ... 0x4f] = MODRM | SIZE(Z_V) | RM_R | REG_RW,
    [0x80 ... 0x8f] = IMM32,
    [0x90 ... 0x9f] = MODRM | SIZE(Z_B) | RM_W | REG_0,
    [0xa0] = SIZE(Z_N) | PUSHES,
    [0xa1] = SIZE(Z_N) | POPS,
    [0xa2] = AX,
    [0xa3] = MODRM | SIZE(Z_V) | RM_R | REG_R | F_SOME,
    [0xa4] = MODRM | IMM8 | SIZE(Z_V) | RM_RW | REG_R | F_SOME,
    [0xa5] = MODRM | SIZE(Z_V) | RM_RW | REG_R | F_SOME,
    [0xa6 ... 0xa7] = BAD,
    [0xa8] = SIZE(Z_N) | PUSHES,
    [0xa9] = SIZE(Z_N) | POPS,
    [0xaa] = BAD,
    [0xab] = MODRM | SIZE(Z_V) | RM_RW | REG_R | F_SOME,
    [0xac] = MODRM | IMM8 | SIZE(Z_V) | RM_RW | REG_R | F_SOME,
    [0xad] = MODRM | SIZE(Z_V) | RM_RW | REG_R | F_SOME,
    [0xae] = MODRM | REG_0,
    [0xaf] = MODRM | SIZE(Z_V) | RM_R | REG_RW | F_SOME,
    [0xb0] = MODRM | SIZE(Z_B) | RM_RW | REG_R | AX | F_SET,
    [0xb1] = MODRM | SIZE(Z_V) | RM_RW | REG_R | AX | F_SET,
    [0xb2] = MODRM | SIZE(Z_V) | RM_R | REG_W,
    [0xb3] = MODRM | SIZE(Z_V) | RM_RW | REG_R | F_SOME,
    [0xb4 ... 0xb5] = MODRM | SIZE(Z_V) | RM_R | REG_W,
    [0xb6] = MODRM | SIZE(Z_B) | RM_R | REG_W,
    [0xb7] = MODRM | SIZE(Z_W) | RM_R | REG_W,
    [0xb8] = MODRM | SIZE(Z_V) | RM_R | REG_W | F_SET,
    [0xb9] = MODRM | REG_0,
    [0xba] = MODRM | IMM8 | SIZE(Z_V) | RM_RW | REG_0 | F_SOME,
    [0xbb] = MODRM | SIZE(Z_V) | RM_RW | REG_R | F_SOME,
    [0xbc ... 0xbd] = MODRM | SIZE(Z_V) | RM_R | REG_RW | F_SOME,
    [0xbe] = MODRM | SIZE(Z_B) | RM_R | REG_W,
    [0xbf] = MODRM | SIZE(Z_W) | RM_R | REG_W,
    [0xc0] = MODRM | SIZE(Z_B) | RM_RW | REG_RW | F_SET,
    [0xc1] = MODRM | SIZE(Z_V) | RM_RW | REG_RW | F_SET,
    [0xc3] = MODRM | SIZE(Z_Y) | RM_W | REG_R,
    [0xc7] = MODRM | REG_0 | F_SOME,
    [0xc8 ... 0xcf] = OP_R | OP_W,
    [0xff] = MODRM | REG_0,
};

/* A word for each of the prefixes (none, 66, F3, F2). */
#define FOUR(a, b, c, d) (((const uint8_t[4]){a, b, c, d})[x->prefix])

/* The memory operand of a vector instruction of the 0F map, legacy, VEX or EVEX: its size, RM_W where it is stored; other operands are
 * vectors unless flagged. */
static uint32_t vector_0f(const struct cv_x86 *x)
{
    const int w = x->rex & 8, evex = x->encoding == CV_X86_EVEX;
    const uint32_t load = MODRM | RM_R | VECTORS, move = load | REG_W, both = load | REG_RW, store = MODRM | RM_W | REG_R | VECTORS;
    switch (x->opcode) {
    case 0x10: return move | (FOUR(Z_X, Z_X, Z_D, Z_Q));
    case 0x11: return store | (FOUR(Z_X, Z_X, Z_D, Z_Q));
    case 0x12: return both | (x->prefix == 3 && x->vector_bytes > 16 ? Z_X : FOUR(Z_Q, Z_Q, Z_X, Z_Q));
    case 0x13:
    case 0x17: return store | Z_Q;
    case 0x14:
    case 0x15:
    case 0x54 ... 0x57:
    case 0xc6: return both | Z_X | (x->opcode == 0xc6 ? IMM8 : 0);
    case 0x16: return both | (FOUR(Z_Q, Z_Q, Z_X, Z_X));
    case 0x28:
    case 0x6f: return move | Z_P;
    case 0x29:
    case 0x2b:
    case 0x7f:
    case 0xe7:
        return store | (x->prefix == 2 && x->opcode == 0x2b   ? Z_D
                        : x->prefix == 3 && x->opcode == 0x2b ? Z_Q
                        : x->opcode < 0x30                    ? Z_X
                                                              : Z_P);
    case 0x2a: return (x->prefix < 2 ? move : both & ~RM_V) | (FOUR(Z_Q, Z_Q, Z_Y, Z_Y));
    case 0x2c:
    case 0x2d: return (x->prefix < 2 ? move : move & ~REG_V) | (FOUR(Z_Q, Z_DQ, Z_D, Z_Q));
    case 0x2e:
    case 0x2f: return load | REG_R | F_SET | (FOUR(Z_D, Z_Q, Z_D, Z_Q));
    case 0x50:
    case 0xd7: return move & ~REG_V;
    case 0x51: return (x->prefix < 2 ? move : both) | (FOUR(Z_X, Z_X, Z_D, Z_Q));
    case 0x52:
    case 0x53: return (x->prefix < 2 ? move : both) | (FOUR(Z_X, Z_X, Z_D, Z_Q));
    case 0x58:
    case 0x59:
    case 0x5c ... 0x5f: return both | (FOUR(Z_X, Z_X, Z_D, Z_Q));
    case 0xc2: return both | IMM8 | (FOUR(Z_X, Z_X, Z_D, Z_Q));
    case 0x5a: return (x->prefix < 2 ? move : both) | (FOUR(Z_H, Z_X, Z_D, Z_Q));
    case 0x5b: return move | Z_X;
    case 0x60 ... 0x62: return both | (x->encoding == CV_X86_LEGACY && !x->prefix ? Z_D : Z_P);
    case 0x6e: return (move & ~RM_V) | Z_Y;
    case 0x70: return move | IMM8 | Z_P;
    case 0x71 ... 0x73: return (evex ? load : load | RM_W) | REG_0 | IMM8 | Z_P;
    case 0x77: return 0;
    case 0x78:
    case 0x79:
        if (!evex)
            return x->opcode == 0x78 ? load | REG_RW | REG_0 | IMM16 : load | REG_RW; /* SSE4a */
        return x->prefix < 2 ? move | (x->prefix == 1 && !w ? Z_H : Z_X) : (move & ~REG_V) | (x->prefix == 2 ? Z_D : Z_Q);
    case 0x7a: return move | (w || x->prefix == 3 ? Z_X : Z_H);
    case 0x7b: return x->prefix < 2 ? move | (w ? Z_X : Z_H) : (both & ~RM_V) | Z_Y;
    case 0x7c:
    case 0x7d:
    case 0xd0: return both | Z_X;
    case 0x7e: return x->prefix == 2 ? move | Z_Q : (store & ~RM_V) | Z_Y;
    case 0xc4: return (both & ~RM_V) | IMM8 | Z_W;
    case 0xc5: return (move & ~REG_V) | IMM8;
    case 0xd1 ... 0xd3:
    case 0xe1:
    case 0xe2:
    case 0xf1 ... 0xf3: return both | (x->encoding == CV_X86_LEGACY ? Z_P : Z_DQ);
    case 0xd6: return x->prefix == 1 ? store | Z_Q : move;
    case 0xe6: return move | (FOUR(Z_X, Z_X, Z_H, Z_X));
    case 0xf0: return move | Z_X;
    case 0xf7: return load | REG_R;
    default: return both | Z_P; /* 63-6d, 74-76, d4-fe: packed integers */
    }
}

static uint32_t masks(const struct cv_x86 *x) /* of the 0F map with VEX: opmask registers, which are not followed */
{
    const int w = x->rex & 8;
    const uint32_t size = x->prefix ? w ? Z_D : Z_B : w ? Z_Q : Z_W;
    switch (x->opcode) {
    case 0x90: return MODRM | RM_R | RM_V | REG_0 | size;
    case 0x91: return MODRM | RM_W | RM_V | REG_0 | size;
    case 0x92: return MODRM | RM_R | REG_0;
    case 0x93: return MODRM | REG_W;
    case 0x98:
    case 0x99: return MODRM | REG_0 | F_SET;
    default: return MODRM | REG_0;
    }
}

static uint32_t vector_0f38(const struct cv_x86 *x)
{
    const int w = x->rex & 8, evex = x->encoding == CV_X86_EVEX, legacy = x->encoding == CV_X86_LEGACY;
    const uint32_t load = MODRM | RM_R | VECTORS, move = load | REG_W, both = load | REG_RW, store = MODRM | RM_W | REG_R | VECTORS;
    const uint8_t o = x->opcode;
    if (evex && x->prefix == 2 && ((o >= 0x10 && o <= 0x15) || (o >= 0x20 && o <= 0x25) || (o >= 0x30 && o <= 0x35))) {
        static const uint8_t narrow[6] = {Z_H, Z_F, Z_E, Z_H, Z_F, Z_H}; /* vpmov to smaller elements */
        return store | narrow[o & 15];
    }
    switch (o) {
    case 0x0c:
    case 0x0d:
    case 0x16:
    case 0x36: return both | Z_X;
    case 0x0e:
    case 0x0f:
    case 0x17: return load | REG_R | F_SET | Z_X;
    case 0x13: return evex && x->prefix == 2 ? store | Z_H : move | Z_H;
    case 0x18:
    case 0x58: return move | Z_D;
    case 0x19:
    case 0x59: return move | Z_Q;
    case 0x1a:
    case 0x5a: return move | Z_DQ;
    case 0x1b:
    case 0x5b: return move | Z_QQ;
    case 0x1c ... 0x1f: return move | Z_P;
    case 0x20:
    case 0x23:
    case 0x25:
    case 0x30:
    case 0x33:
    case 0x35: return move | Z_H;
    case 0x21:
    case 0x24:
    case 0x31:
    case 0x34: return move | Z_F;
    case 0x22:
    case 0x32: return move | Z_E;
    case 0x2a: return move | Z_X;
    case 0x2c:
    case 0x2d: return evex ? both | (o == 0x2c ? Z_X : Z_L) : both | Z_X;
    case 0x2e:
    case 0x2f:
    case 0x8e: return store | Z_X;
    case 0x41:
    case 0xdb: return move | Z_DQ;
    case 0x42:
    case 0x44:
    case 0x4c:
    case 0x4e:
    case 0x54:
    case 0x55:
    case 0xc4:
    case 0xc8 ... 0xcd: return legacy ? both | Z_DQ : o == 0xcb || o == 0xcd ? both | Z_L : move | Z_X;
    case 0x43:
    case 0x4d:
    case 0x4f: return both | Z_L;
    case 0x49:
    case 0x4b:
    case 0x5c:
    case 0x5e: return evex ? both | Z_X : MODRM | REG_0; /* AMX */
    case 0x62: return move | Z_M;
    case 0x63: return store | Z_M;
    case 0x78: return move | Z_B;
    case 0x79: return move | Z_W;
    case 0x7a ... 0x7c: return move & ~RM_V;
    case 0x80 ... 0x82: return evex ? both | Z_X : MODRM | RM_R | REG_R | Z_DQ;
    case 0x88:
    case 0x89: return move | Z_L;
    case 0x8a:
    case 0x8b: return store | Z_L;
    case 0x90 ... 0x93: return both | Z_L;
    case 0xa0 ... 0xa3: return store | Z_L;
    case 0x99:
    case 0x9b:
    case 0x9d:
    case 0x9f:
    case 0xa9:
    case 0xab:
    case 0xad:
    case 0xaf:
    case 0xb9:
    case 0xbb:
    case 0xbd:
    case 0xbf: return both | Z_L;
    case 0xc6:
    case 0xc7: return MODRM | REG_0 | Z_L; /* prefetches */
    case 0xf0: return x->prefix == 3 ? MODRM | RM_R | REG_RW | Z_B : MODRM | RM_R | REG_W | Z_V;
    case 0xf1: return x->prefix == 3 ? MODRM | RM_R | REG_RW | Z_V : MODRM | RM_W | REG_R | Z_V;
    case 0xf2:
    case 0xf7: return MODRM | RM_R | REG_W | Z_Y | (o == 0xf2 || !x->prefix ? F_SOME : 0);
    case 0xf3: return MODRM | RM_R | REG_0 | Z_Y | F_SOME;
    case 0xf5: return legacy ? MODRM | RM_W | REG_R | Z_Y : MODRM | RM_R | REG_W | Z_Y | (x->prefix ? 0 : F_SOME);
    case 0xf6: return MODRM | RM_R | REG_RW | Z_Y | (legacy ? F_READ | F_SOME : 0);
    case 0xf8: return MODRM | RM_R | REG_R | (x->prefix == 1 ? 0 : 0); /* movdir64b: 64 bytes, set by the caller */
    case 0xf9: return MODRM | RM_W | REG_R | Z_Y;
    default: (void)w; return both | Z_P;
    }
}

static uint32_t vector_0f3a(const struct cv_x86 *x)
{
    const uint32_t load = MODRM | IMM8 | RM_R | VECTORS, move = load | REG_W, both = load | REG_RW,
                   store = MODRM | IMM8 | RM_W | REG_R | VECTORS;
    switch (x->opcode) {
    case 0x00:
    case 0x01:
    case 0x04:
    case 0x05:
    case 0x08:
    case 0x09:
    case 0x26:
    case 0x56:
    case 0x66: return move | Z_X;
    case 0x0a: return both | Z_D;
    case 0x0b: return both | Z_Q;
    case 0x14: return (store & ~RM_V) | Z_B;
    case 0x15: return (store & ~RM_V) | Z_W;
    case 0x16: return (store & ~RM_V) | Z_Y;
    case 0x17: return (store & ~RM_V) | Z_D;
    case 0x18:
    case 0x38: return both | Z_DQ;
    case 0x19:
    case 0x39: return store | Z_DQ;
    case 0x1a:
    case 0x3a: return both | Z_QQ;
    case 0x1b:
    case 0x3b: return store | Z_QQ;
    case 0x1d: return store | Z_H;
    case 0x20: return (both & ~RM_V) | Z_B;
    case 0x21: return both | Z_D;
    case 0x22: return (both & ~RM_V) | Z_Y;
    case 0x27:
    case 0x51:
    case 0x55:
    case 0x57:
    case 0x67: return both | Z_L;
    case 0x30 ... 0x33: return MODRM | IMM8 | REG_0;
    case 0x60 ... 0x63: return load | REG_R | F_SET | Z_DQ;
    case 0xdf: return move | Z_DQ;
    case 0xf0: return MODRM | IMM8 | RM_R | REG_W | Z_Y;
    default: return both | Z_P;
    }
}

static uint32_t half_precision(const struct cv_x86 *x) /* maps 5 and 6 */
{
    const uint32_t load = MODRM | RM_R | VECTORS, both = load | REG_RW;
    if (x->map == 5 && x->opcode == 0x11)
        return MODRM | RM_W | REG_R | VECTORS | (x->prefix == 2 ? Z_W : Z_X);
    if (x->map == 5 && (x->opcode == 0x2e || x->opcode == 0x2f))
        return load | REG_R | F_SET | Z_W;
    if (x->map == 5 && (x->opcode == 0x6e || x->opcode == 0x7e))
        return x->opcode == 0x6e ? load | REG_W | Z_W : MODRM | RM_W | REG_R | VECTORS | Z_W;
    return both | (x->prefix >= 2 ? Z_W : Z_X);
}

static int size_bytes(uint32_t entry, const struct cv_x86 *x, int wide, int narrow)
{
    const int vl = x->vector_bytes, mmx = x->encoding == CV_X86_LEGACY && !x->prefix;
    switch (SIZE_OF(entry)) {
    case Z_B: return 1;
    case Z_W: return 2;
    case Z_D: return 4;
    case Z_Q: return 8;
    case Z_V: return wide ? 8 : narrow ? 2 : 4;
    case Z_Y:
    case Z_L: return wide ? 8 : 4;
    case Z_M: return wide ? 2 : 1;
    case Z_N: return narrow ? 2 : 8;
    case Z_T: return 10;
    case Z_DQ: return 16;
    case Z_QQ: return 32;
    case Z_X: return vl;
    case Z_H: return vl / 2;
    case Z_F: return vl / 4;
    case Z_E: return vl / 8;
    case Z_P: return mmx ? 8 : vl;
    default: return 0;
    }
}

/* ---- x87 ---- */

static void x87(struct cv_x86 *x, struct cv_x86_reference *r)
{
    static const uint8_t size[8][8] = {
        {4, 4, 4, 4, 4, 4, 4, 4}, {4, 0, 4, 4, 28, 2, 28, 2},   {4, 4, 4, 4, 4, 4, 4, 4}, {4, 4, 4, 4, 0, 10, 0, 10},
        {8, 8, 8, 8, 8, 8, 8, 8}, {8, 8, 8, 8, 108, 0, 108, 2}, {2, 2, 2, 2, 2, 2, 2, 2}, {2, 2, 2, 2, 10, 8, 10, 8},
    };
    static const uint8_t stores[8] = {0x00, 0xcc, 0x00, 0x8e,
                                      0x00, 0xce, 0x00, 0xce}; /* bit of /n; those of d9: fst, fstp, fnstenv, fnstcw */
    const int op = x->opcode & 7, n = x->modrm >> 3 & 7;
    if (x->memory) {
        r->size = size[op][n];
        r->access = stores[op] >> n & 1 ? CV_X86_STORE : CV_X86_LOAD;
        x->flops = !(op & 1) && n != 2 && n != 3;
        return;
    }
    if ((op == 3 && n >= 2 && n <= 6 && n != 4) || (op == 7 && (n == 5 || n == 6)) || (op == 2 && n < 4) || (op == 3 && n < 4)) {
        /* fcmov reads CF, ZF, PF; fcomi, fucomi write them and leave others */
        if ((op == 2 || op == 3) && n < 4)
            x->reads_flags = 1;
        x->reads |= CV_X86_FLAGS_SET;
        x->writes |= (op == 3 && n > 3) || op == 7 ? CV_X86_FLAGS_SET : 0;
    }
    if (op == 7 && n == 4 && x->modrm == 0xe0)
        x->writes |= 1; /* fnstsw ax */
    x->flops = ((op == 0 || op == 4 || op == 6) && n != 2 && n != 3) ||
               (op == 1 && n >= 6 && x->modrm != 0xf6 && x->modrm != 0xf7 && x->modrm != 0xf4 && x->modrm != 0xfc);
}

/* ---- floating-point operations: lanes of additions, multiplications, divisions, roots, minima, estimates; two for a fused one ---- */

static int lanes(const struct cv_x86 *x, int scalar, int bytes) { return scalar ? 1 : x->vector_bytes / bytes; }

static int flops(const struct cv_x86 *x)
{
    const int wide = x->rex & 8 ? 8 : 4;
    if (x->map == 1)
        switch (x->opcode) {
        case 0x51 ... 0x53:
        case 0x58:
        case 0x59:
        case 0x5c ... 0x5f: return lanes(x, x->prefix >= 2, x->prefix & 1 ? 8 : 4);
        case 0x7c:
        case 0x7d:
        case 0xd0: return x->prefix ? lanes(x, 0, x->prefix == 1 ? 8 : 4) : 0;
        default: return 0;
        }
    if (x->map == 2 && x->encoding != CV_X86_LEGACY) {
        if ((x->opcode & 15) >= 6 && x->opcode >= 0x96 && x->opcode <= 0xbf)
            return 2 * lanes(x, (x->opcode & 15) > 8 && (x->opcode & 1), wide);
        if (x->encoding == CV_X86_EVEX && (x->opcode == 0x4c || x->opcode == 0x4e || x->opcode == 0x2c))
            return lanes(x, 0, wide);
        if (x->encoding == CV_X86_EVEX && (x->opcode == 0x4d || x->opcode == 0x4f || x->opcode == 0x2d))
            return 1;
    }
    return 0;
}

/* ---- operands ---- */

static void add_reference(struct cv_x86 *x, int where, int access, int size)
{
    if (x->n_references < 2)
        x->references[x->n_references++] = (struct cv_x86_reference){(uint8_t)where, (uint8_t)access, (uint16_t)size};
}

static uint64_t bit(int reg) { return UINT64_C(1) << reg; }

/* The ModRM byte and what follows it. Returns where the immediates begin, 0 if the bytes end before. */
static int operand(const uint8_t *code, int size, int at, struct cv_x86 *x, int address32, int evex_x)
{
    if (at >= size)
        return 0;
    const uint8_t m = code[at];
    const int mod = m >> 6, rm = m & 7;
    x->modrm_offset = (uint8_t)at++;
    x->modrm = m;
    x->base = x->index = CV_X86_NO_REGISTER;
    x->scale = 1;
    if (mod == 3)
        return at;
    x->memory = 1;
    int base = rm, bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if (rm == 4) {
        if (at >= size)
            return 0;
        const uint8_t sib = code[at++];
        const int index = (sib >> 3 & 7) | (x->rex & 2 ? 8 : 0);
        base = sib & 7;
        x->scale = (uint8_t)(1 << (sib >> 6));
        if (index != 4 || x->gathered)
            x->index = (int8_t)(x->gathered ? index | evex_x : index);
        if (base == 5 && mod == 0) {
            base = -1;
            bytes = 4;
        }
    } else if (rm == 5 && mod == 0) {
        base = -2;
        bytes = 4;
    }
    if (base == -2) {
        x->base = CV_X86_RIP;
        x->displacement_offset = (uint8_t)at;
        if (address32)
            x->refusal = CV_X86_ADDRESS_SIZE;
    } else if (base >= 0) {
        x->base = (int8_t)(base | (x->rex & 1 ? 8 : 0));
    }
    if (at + bytes > size)
        return 0;
    if (bytes == 1)
        x->displacement = (int8_t)code[at];
    else if (bytes == 4)
        x->displacement =
            (int32_t)((uint32_t)code[at] | (uint32_t)code[at + 1] << 8 | (uint32_t)code[at + 2] << 16 | (uint32_t)code[at + 3] << 24);
    return at + bytes;
}

/* Registers of the operands that the table names. */
static void registers(struct cv_x86 *x, uint32_t e, int vvvv, int merges)
{
    const int reg = (x->modrm >> 3 & 7) | (x->rex & 4 ? 8 : 0), rm = (x->modrm & 7) | (x->rex & 1 ? 8 : 0);
    if (e & MODRM) {
        const uint64_t r = bit(e & REG_V ? CV_X86_VECTOR_SET + reg : reg), m = bit(e & RM_V ? CV_X86_VECTOR_SET + rm : rm);
        if (!(e & REG_0)) {
            x->reads |= (e & REG_R) || merges ? r : 0;
            x->writes |= e & REG_W ? r : 0;
        }
        if (!x->memory) {
            x->reads |= e & RM_R ? m : 0;
            x->writes |= e & RM_W ? m : 0;
        } else {
            x->reads |= x->base >= 0 ? bit(x->base) : 0;
            if (x->index >= 0)
                x->reads |= bit(x->gathered ? CV_X86_VECTOR_SET + (x->index & 15) : x->index);
        }
    }
    if (x->encoding != CV_X86_LEGACY && vvvv)
        x->reads |= bit(e & REG_V ? CV_X86_VECTOR_SET + (vvvv & 15) : vvvv & 15);
    const int low = (x->opcode & 7) | (x->rex & 1 ? 8 : 0);
    x->reads |= e & OP_R ? bit(low) : 0;
    x->writes |= e & OP_W ? bit(low) : 0;
    if (e & AX) {
        x->reads |= 1;
        x->writes |= 1;
    }
    if (e & (PUSHES | POPS)) {
        x->reads |= bit(4);
        x->writes |= bit(4);
    }
    if (e & F_READ || x->reads_flags)
        x->reads |= CV_X86_FLAGS_SET;
    if (e & (F_SET | F_SOME))
        x->writes |= CV_X86_FLAGS_SET;
    if (e & F_READ)
        x->reads_flags = 1;
    if (e & F_SET)
        x->sets_flags = 1;
}

/* Where the table's word is not enough: groups, string instructions, branches. May set `kind`, references and flags. */
static uint32_t one_byte_special(struct cv_x86 *x, uint32_t e, int wide, int narrow, int repeat)
{
    const int n = x->modrm >> 3 & 7, word = wide ? 8 : narrow ? 2 : 4, size = x->opcode & 1 ? word : 1;
    const uint64_t rsi = bit(6), rdi = bit(7), rcx = bit(1);
    switch (x->opcode) {
    case 0x10 ... 0x15:
    case 0x18 ... 0x1d: x->reads |= CV_X86_FLAGS_SET; return e; /* adc, sbb read CF alone */
    case 0x30 ... 0x33:
    case 0x28 ... 0x2b:
        if (!x->memory && (x->modrm >> 3 & 7) == (x->modrm & 7) && !!(x->rex & 4) == !!(x->rex & 1))
            return e & ~(RM_R | REG_R); /* a register with itself: zero */
        return e;
    case 0x63: return e;
    case 0x70 ... 0x7f:
        x->kind = CV_X86_BRANCH;
        x->condition = x->opcode & 15;
        x->reads_flags = (x->condition & ~1) != 2;
        x->reads |= CV_X86_FLAGS_SET;
        return e;
    case 0x80:
    case 0x81:
    case 0x83:
        if (n == 2 || n == 3)
            x->reads |= CV_X86_FLAGS_SET;
        return n == 7 ? e & ~RM_W : e;
    case 0x8d: x->memory = 2; return e; /* an address without an access */
    case 0x90: return x->rex & 1 ? e : e & ~(AX | OP_R | OP_W);
    case 0x98: return e;
    case 0x99: x->writes |= bit(2); return e;
    case 0x9d: return e;
    case 0x6c ... 0x6d:
        x->reads |= rdi;
        x->writes |= rdi;
        add_reference(x, CV_X86_TARGET, CV_X86_STORE, size);
        break;
    case 0x6e ... 0x6f:
        x->reads |= rsi;
        x->writes |= rsi;
        add_reference(x, CV_X86_SOURCE, CV_X86_LOAD, size);
        break;
    case 0xa4 ... 0xa5:
        x->reads |= rsi | rdi;
        x->writes |= rsi | rdi;
        add_reference(x, CV_X86_SOURCE, CV_X86_LOAD, size);
        add_reference(x, CV_X86_TARGET, CV_X86_STORE, size);
        break;
    case 0xa6 ... 0xa7:
        x->reads |= rsi | rdi;
        x->writes |= rsi | rdi;
        add_reference(x, CV_X86_SOURCE, CV_X86_LOAD, size);
        add_reference(x, CV_X86_TARGET, CV_X86_LOAD, size);
        break;
    case 0xaa ... 0xab:
        x->reads |= rdi;
        x->writes |= rdi;
        add_reference(x, CV_X86_TARGET, CV_X86_STORE, size);
        break;
    case 0xac ... 0xad:
        x->reads |= rsi;
        x->writes |= rsi;
        add_reference(x, CV_X86_SOURCE, CV_X86_LOAD, size);
        break;
    case 0xae ... 0xaf:
        x->reads |= rdi;
        x->writes |= rdi;
        add_reference(x, CV_X86_TARGET, CV_X86_LOAD, size);
        break;
    case 0x87: x->kind = x->modrm == 0xdb && x->rex == 8 ? CV_X86_REQUEST : x->kind; return e;
    case 0xa0 ... 0xa1: add_reference(x, CV_X86_ABSOLUTE, CV_X86_LOAD, size); return e;
    case 0xa2 ... 0xa3: add_reference(x, CV_X86_ABSOLUTE, CV_X86_STORE, size); return e;
    case 0xc2:
    case 0xc3:
        x->kind = CV_X86_RETURN;
        x->reads |= bit(4);
        x->writes |= bit(4);
        add_reference(x, CV_X86_POP, CV_X86_LOAD, 8);
        return e;
    case 0xc6:
    case 0xc7:
        if (x->modrm == 0xf8)
            x->refusal = CV_X86_TRANSACTION;
        return e;
    case 0xc9:
        x->reads |= bit(5);
        x->writes |= bit(4) | bit(5);
        add_reference(x, CV_X86_FRAME, CV_X86_LOAD, 8);
        return e;
    case 0xca:
    case 0xcb:
    case 0xcf: x->refusal = CV_X86_FAR; return e;
    case 0xcd: x->refusal = CV_X86_OLD_SYSCALL; return e;
    case 0xd2:
    case 0xd3: x->reads |= rcx; return e;
    case 0xd7:
        x->reads |= bit(3);
        add_reference(x, CV_X86_TABLE, CV_X86_LOAD, 1);
        return e;
    case 0xe0 ... 0xe3:
        x->kind = CV_X86_LOOP;
        x->reads_flags = x->opcode < 0xe2;
        x->reads |= rcx | (x->opcode < 0xe2 ? CV_X86_FLAGS_SET : 0);
        x->writes |= x->opcode < 0xe3 ? rcx : 0;
        return e;
    case 0xe8:
        x->kind = CV_X86_CALL;
        x->reads |= bit(4);
        x->writes |= bit(4);
        add_reference(x, CV_X86_PUSH, CV_X86_STORE, 8);
        return e;
    case 0xe9:
    case 0xeb: x->kind = CV_X86_JUMP; return e;
    case 0xf6:
    case 0xf7:
        if (n < 2)
            return e | RM_R | F_SET | (x->opcode == 0xf6 ? IMM8 : IMM32);
        if (n == 2)
            return e | RM_RW; /* not */
        if (n == 3)
            return e | RM_RW | F_SET;
        x->reads |= 1 | (n >= 6 ? bit(2) : 0);
        x->writes |= 1 | bit(2);
        return e | RM_R | F_SOME; /* mul, div: processors leave some of the undefined ones as they were */
    case 0xfe: return n < 2 ? e : BAD;
    case 0xff:
        switch (n) {
        case 0:
        case 1: return e | RM_RW | F_SET;
        case 2:
            x->kind = CV_X86_CALL_INDIRECT;
            x->reads |= bit(4);
            x->writes |= bit(4);
            return (e & ~31u) | SIZE(Z_Q) | RM_R;
        case 4: x->kind = CV_X86_JUMP_INDIRECT; return (e & ~31u) | SIZE(Z_Q) | RM_R;
        case 6: return (e & ~31u) | SIZE(Z_N) | RM_R | PUSHES;
        case 3:
        case 5: x->refusal = CV_X86_FAR; return e;
        default: return BAD;
        }
    default: return e;
    }
    /* string instructions */
    if (repeat) {
        x->compares = (x->opcode & 0xf6) == 0xa6;
        x->repeated = !x->compares;
        x->reads |= rcx;
        x->writes |= rcx;
        e = (e & ~F_SET) | (x->compares ? F_SOME : 0);
    }
    return e;
}

static uint32_t two_byte_special(struct cv_x86 *x, uint32_t e, int wide, int narrow)
{
    const int n = x->modrm >> 3 & 7;
    (void)narrow;
    switch (x->opcode) {
    case 0x00: return n < 2 ? (e & ~RM_R) | RM_W : e;
    case 0x01:
        if (x->memory) {
            static const uint8_t size[8] = {10, 10, 10, 10, 2, 8, 2, 0};
            if (n < 7)
                add_reference(x, CV_X86_OPERAND, n < 2 || n == 4 ? CV_X86_STORE : CV_X86_LOAD, size[n]);
            else
                x->memory = 2;
            return e;
        }
        if (x->modrm == 0xd0) { /* xgetbv */
            x->reads |= bit(1);
            x->writes |= bit(0) | bit(2);
        } else if (x->modrm == 0xd5 || x->modrm == 0xd6) {
            x->refusal = x->modrm == 0xd5 ? CV_X86_TRANSACTION : CV_X86_ACCEPTED;
            return x->modrm == 0xd6 ? e | F_SET : e;
        } else if (x->modrm == 0xf8) {
            x->refusal = CV_X86_GS;
        } else if (x->modrm == 0xf9) {
            x->writes |= bit(0) | bit(1) | bit(2);
        }
        return e;
    case 0x05:
        x->kind = CV_X86_SYSCALL;
        x->reads |= 1;
        x->writes |= bit(0) | bit(1) | bit(11);
        return e;
    case 0x07:
    case 0x34:
    case 0x35: x->refusal = CV_X86_OLD_SYSCALL; return e;
    case 0x0d:
    case 0x18 ... 0x1f: x->memory = x->memory ? 2 : 0; return e; /* prefetches and nops */
    case 0x31: x->writes |= bit(0) | bit(2); return e;
    case 0x40 ... 0x4f:
        x->reads_flags = (x->opcode & 14) != 2;
        x->reads |= CV_X86_FLAGS_SET;
        return e;
    case 0x80 ... 0x8f:
        x->kind = CV_X86_BRANCH;
        x->condition = x->opcode & 15;
        x->reads_flags = (x->condition & ~1) != 2;
        x->reads |= CV_X86_FLAGS_SET;
        return e;
    case 0x90 ... 0x9f:
        x->reads_flags = (x->opcode & 14) != 2;
        x->reads |= CV_X86_FLAGS_SET;
        return e;
    case 0xa2:
        x->reads |= bit(1);
        x->writes |= bit(0) | bit(1) | bit(2) | bit(3);
        return e;
    case 0xa8:
    case 0xa9: x->refusal = CV_X86_GS; return e;
    case 0xb2:
    case 0xb4:
    case 0xb5: x->refusal = x->opcode == 0xb5 ? CV_X86_GS : x->refusal; return e;
    case 0xa5:
    case 0xad: x->reads |= bit(1); return e;
    case 0xae:
        if (!x->memory) {
            if (x->prefix == 2 && n < 4) {
                if (n == 3 || n == 1)
                    x->refusal = CV_X86_GS;
                x->writes |= n < 2 ? bit((x->modrm & 7) | (x->rex & 1 ? 8 : 0)) : 0;
            }
            return e;
        }
        switch (n) {
        case 0:
        case 4:
        case 6: /* fxsave, xsave, xsaveopt; clwb */
            if (n == 6 && x->prefix) {
                x->memory = 2;
                return e;
            }
            add_reference(x, CV_X86_OPERAND, CV_X86_STORE, 512);
            x->reads |= n ? 1 | bit(2) : 0;
            return e;
        case 1:
        case 5:
            add_reference(x, CV_X86_OPERAND, CV_X86_LOAD, 512);
            x->reads |= n == 5 ? 1 | bit(2) : 0;
            return e;
        case 2: add_reference(x, CV_X86_OPERAND, CV_X86_LOAD, 4); return e;
        case 3: add_reference(x, CV_X86_OPERAND, CV_X86_STORE, 4); return e;
        default: x->memory = 2; return e; /* clflush */
        }
    case 0xb8: return x->prefix == 2 ? e : BAD;
    case 0xba: return n < 4 ? BAD : n == 4 ? e & ~RM_W : e;
    case 0xbc:
    case 0xbd: return e;
    case 0xc7:
        if (x->memory && n == 1) {
            x->reads |= bit(0) | bit(1) | bit(2) | bit(3);
            x->writes |= bit(0) | bit(2);
            add_reference(x, CV_X86_OPERAND, CV_X86_LOAD | CV_X86_STORE, wide ? 16 : 8);
        } else if (x->memory && n >= 3 && n <= 5) {
            add_reference(x, CV_X86_OPERAND, n == 3 ? CV_X86_LOAD : CV_X86_STORE, 512);
        } else if (!x->memory && n >= 6) {
            x->writes |= bit((x->modrm & 7) | (x->rex & 1 ? 8 : 0));
            return e | F_SET;
        }
        return e;
    default: return e;
    }
}

static int is_vector_0f(uint8_t o)
{
    return (o >= 0x10 && o <= 0x17) || (o >= 0x28 && o <= 0x2f) || (o >= 0x50 && o <= 0x7f) || o == 0xc2 || (o >= 0xc4 && o <= 0xc6) ||
           (o >= 0xd0 && o <= 0xfe);
}

/* Prefixes before an opcode, VEX or EVEX. */
struct prefixes {
    int at, operand16, address32, repeat, locked, rex, has_rex;
    uint8_t segment;
};

static struct prefixes read_prefixes(const uint8_t *code, int size)
{
    struct prefixes p = {0, 0, 0, 0, 0, 0, 0, 0};
    for (; p.at < size && p.at < 14; p.at++) {
        const uint8_t b = code[p.at];
        if (b == 0x66)
            p.operand16 = 1;
        else if (b == 0x67)
            p.address32 = 1;
        else if (b == 0xf2 || b == 0xf3)
            p.repeat = b;
        else if (b == 0xf0)
            p.locked = 1;
        else if (b == 0x64 || b == 0x65)
            p.segment = b;
        else if (b != 0x2e && b != 0x36 && b != 0x3e && b != 0x26)
            break;
        p.rex = p.has_rex = 0;
        if (p.at + 1 < size && (code[p.at + 1] & 0xf0) == 0x40) {
            p.rex = code[p.at + 1] & 15;
            p.has_rex = 1;
            p.at += 2;
            if (p.at < size) {
                const uint8_t next = code[p.at];
                if (next == 0x66 || next == 0x67 || next == 0xf2 || next == 0xf3 || next == 0xf0 || next == 0x64 || next == 0x65 ||
                    next == 0x2e || next == 0x36 || next == 0x3e || next == 0x26) { /* a REX that is no longer the last: without effect */
                    p.rex = p.has_rex = 0;
                    p.at--;
                    continue;
                }
            }
            break;
        }
    }
    while (p.at < size && (code[p.at] & 0xf0) == 0x40) { /* of several, the last one counts */
        p.rex = code[p.at] & 15;
        p.has_rex = 1;
        p.at++;
    }
    return p;
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

static int64_t immediate(const uint8_t *at, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << 8 * i;
    return bytes == 8 ? (int64_t)v : bytes == 4 ? (int32_t)v : bytes == 2 ? (int16_t)v : (int8_t)v;
}

static void explicit_reference(struct cv_x86 *x, uint32_t e, int bytes)
{
    if (x->memory != 1 || !(e & RM_RW))
        return;
    const int access = (e & RM_R ? CV_X86_LOAD : 0) | (e & RM_W ? CV_X86_STORE : 0);
    add_reference(x, CV_X86_OPERAND, access, bytes);
}

int cv_x86_decode(const uint8_t *code, int size, uint64_t address, struct cv_x86 *x)
{
    if (size > 15)
        size = 15;
    *x = (struct cv_x86){.address = address, .base = CV_X86_NO_REGISTER, .index = CV_X86_NO_REGISTER, .scale = 1, .vector_bytes = 16};
    const struct prefixes p = read_prefixes(code, size);
    int at = p.at, vvvv = 0, merges = 0, broadcast = 0, evex_x = 0, escape;
    if (at >= size)
        return finish(x, 0, CV_X86_UNKNOWN);
    x->rex = (uint8_t)p.rex;
    x->segment = p.segment == 0x64 ? p.segment : 0;
    x->locked = (uint8_t)p.locked;
    x->prefixes = (uint8_t)(at - p.has_rex);
    x->prefix = p.repeat == 0xf3 ? 2 : p.repeat == 0xf2 ? 3 : p.operand16 ? 1 : 0;
    escape = code[at];
    if (escape == 0x0f) {
        x->map = 1;
        if (++at >= size)
            return finish(x, 0, CV_X86_UNKNOWN);
        if (code[at] == 0x38 || code[at] == 0x3a) {
            x->map = code[at] == 0x38 ? 2 : 3;
            at++;
        }
    } else if ((escape == 0xc5 && at + 2 < size) || (escape == 0xc4 && at + 3 < size)) {
        x->encoding = CV_X86_VEX;
        uint8_t last = code[at + 1];
        x->rex = last & 0x80 ? 0 : 4;
        x->map = 1;
        if (escape == 0xc4) {
            x->rex |= (uint8_t)((last & 0x40 ? 0 : 2) | (last & 0x20 ? 0 : 1));
            x->map = last & 31;
            last = code[at + 2];
            x->rex |= last & 0x80 ? 8 : 0;
        }
        x->prefix = last & 3;
        x->vector_bytes = last & 4 ? 32 : 16;
        vvvv = ~(last >> 3) & 15;
        at += escape == 0xc4 ? 3 : 2;
        if (x->map < 1 || x->map > 3)
            return finish(x, 0, CV_X86_UNKNOWN);
    } else if (escape == 0x62 && at + 4 < size) {
        x->encoding = CV_X86_EVEX;
        const uint8_t p0 = code[at + 1], p1 = code[at + 2], p2 = code[at + 3];
        x->rex = (uint8_t)((p0 & 0x80 ? 0 : 4) | (p0 & 0x40 ? 0 : 2) | (p0 & 0x20 ? 0 : 1) | (p1 & 0x80 ? 8 : 0));
        x->map = p0 & 7;
        x->prefix = p1 & 3;
        vvvv = (~(p1 >> 3) & 15) | (p2 & 8 ? 0 : 16);
        evex_x = p2 & 8 ? 0 : 16;
        broadcast = p2 >> 4 & 1;
        merges = (p2 & 7) && !(p2 & 0x80);
        x->vector_bytes = (uint8_t)((p2 >> 5 & 3) == 0 ? 16 : (p2 >> 5 & 3) == 1 ? 32 : 64);
        at += 4;
        if (x->map < 1 || x->map == 4 || x->map > 6)
            return finish(x, 0, CV_X86_UNKNOWN);
    } else if (escape == 0x8f && at + 3 < size && (code[at + 1] & 31) >= 8) { /* XOP (AMD): the same layout as VEX */
        return finish(x, 0, CV_X86_UNKNOWN);
    }
    if (at >= size)
        return finish(x, 0, CV_X86_UNKNOWN);
    x->opcode = code[at++];

    const int wide = x->rex & 8, narrow = p.operand16 && !wide && x->encoding == CV_X86_LEGACY, o = x->opcode;
    /* vpgather and vpscatter have a vector as their index */
    x->gathered = x->encoding != CV_X86_LEGACY && x->map == 2 &&
                  ((o >= 0x90 && o <= 0x93) || (x->encoding == CV_X86_EVEX && ((o >= 0xa0 && o <= 0xa3) || o == 0xc6 || o == 0xc7)));
    uint32_t e;
    int vector = 0;
    if (x->map == 0) {
        e = one_byte[o];
    } else if (x->map == 1 && x->encoding == CV_X86_VEX && ((o >= 0x41 && o <= 0x4b) || (o >= 0x90 && o <= 0x99))) {
        e = masks(x);
    } else if (x->map == 1 && x->encoding == CV_X86_LEGACY && !is_vector_0f(x->opcode)) {
        e = two_byte[o];
    } else {
        vector = 1;
        e = x->map == 1   ? (o == 0xae ? MODRM | REG_0 : vector_0f(x))
            : x->map == 2 ? vector_0f38(x)
            : x->map == 3 ? vector_0f3a(x)
                          : half_precision(x);
        if (x->encoding == CV_X86_LEGACY && x->map == 1 && o == 0x78 && x->prefix != 1 && x->prefix != 3)
            e = BAD; /* vmread */
    }
    if (e & BAD)
        return finish(x, 0, CV_X86_UNKNOWN);
    if (e & MODRM) {
        at = operand(code, size, at, x, p.address32, evex_x);
        if (!at)
            return finish(x, 0, CV_X86_UNKNOWN);
    }
    if (x->map == 0)
        e = one_byte_special(x, e, wide, narrow, p.repeat);
    else if (x->map == 1 && !vector)
        e = x->encoding == CV_X86_LEGACY ? two_byte_special(x, e, wide, narrow) : e;
    if (e & BAD)
        return finish(x, 0, CV_X86_UNKNOWN);

    /* immediates */
    int bytes = 0;
    if (e & IMM8)
        bytes += 1;
    if (e & IMM32)
        bytes += narrow && !(o >= 0xe8 && o <= 0xe9 && x->map == 0) && !(x->map == 1) ? 2 : 4;
    if (e & IMM16)
        bytes += 2;
    if (e & IMM64)
        bytes += wide ? 8 : narrow ? 2 : 4;
    if (e & MOFFS)
        bytes += p.address32 ? 4 : 8;
    if (at + bytes > size)
        return finish(x, 0, CV_X86_UNKNOWN);
    const int64_t value = bytes ? immediate(code + at, bytes == 3 ? 2 : bytes) : 0;
    at += bytes;
    if (x->kind == CV_X86_BRANCH || x->kind == CV_X86_LOOP || x->kind == CV_X86_JUMP || x->kind == CV_X86_CALL)
        x->target = address + (uint64_t)at + (uint64_t)value;
    if (x->kind == CV_X86_RETURN)
        x->pops = (uint16_t)(o == 0xc2 ? value : 0);
    if (e & MOFFS)
        x->displacement = p.address32 ? (int64_t)(uint32_t)value : value;

    /* shifts by a constant that is not 0 write the flags; but OF only for some, which is undefined then */
    if (x->map == 0 && ((o & 0xfe) == 0xc0 || (o & 0xfc) == 0xd0)) {
        const int n = x->modrm >> 3 & 7, count = o >= 0xd2 ? 0 : o >= 0xd0 ? 1 : (int)value & (wide ? 63 : 31);
        if (count && n >= 4)
            e |= F_SET;
        if (n == 2 || n == 3)
            x->reads |= CV_X86_FLAGS_SET; /* rcl, rcr: CF */
    }
    if (x->map == 1 && !vector && (o == 0xa4 || o == 0xac) && (value & (wide ? 63 : 31)))
        e |= F_SET;

    /* memory */
    int n_bytes = size_bytes(e, x, wide, narrow);
    if (x->map == 0 && o >= 0xd8 && o <= 0xdf) {
        struct cv_x86_reference r = {CV_X86_OPERAND, 0, 0};
        x87(x, &r);
        if (r.access)
            add_reference(x, r.where, r.access, r.size);
    } else if (x->map == 1 && o == 0xae && x->encoding == CV_X86_VEX) {
        add_reference(x, CV_X86_OPERAND, (x->modrm >> 3 & 7) == 3 ? CV_X86_STORE : CV_X86_LOAD, 4);
    } else if (x->map == 1 && vector && o == 0xf7) {
        x->reads |= bit(7);
        add_reference(x, CV_X86_TARGET, CV_X86_STORE, x->prefix ? 16 : 8);
    } else if (x->map == 2 && o == 0xf8 && x->encoding == CV_X86_LEGACY) {
        add_reference(x, CV_X86_OPERAND, CV_X86_LOAD, 64);
    } else if (e & POPS) {
        add_reference(x, CV_X86_POP, CV_X86_LOAD, n_bytes);
        explicit_reference(x, e, n_bytes);
        if (x->memory == 1 && x->base == 4)
            x->displacement += n_bytes; /* rsp has been popped when the address is made */
    } else {
        if (broadcast && x->memory)
            n_bytes = x->map >= 5 ? 2 : wide ? 8 : 4;
        if (x->encoding == CV_X86_EVEX && x->memory && x->modrm >> 6 == 1)
            x->displacement *= n_bytes ? n_bytes : 1;
        if (SIZE_OF(e) == Z_M || (SIZE_OF(e) == Z_L && x->map == 2 && ((o >= 0x88 && o <= 0x8b) || x->gathered)))
            n_bytes = x->gathered ? n_bytes : x->vector_bytes; /* compressed and expanded: at most the whole vector */
        explicit_reference(x, e, n_bytes);
        if (e & PUSHES)
            add_reference(x, CV_X86_PUSH, CV_X86_STORE, n_bytes);
        if (x->kind == CV_X86_CALL_INDIRECT)
            add_reference(x, CV_X86_PUSH, CV_X86_STORE, 8);
    }
    if (vector) {
        x->flops = (uint8_t)flops(x);
        const int same = (x->modrm & 7) == (x->modrm >> 3 & 7) && x->modrm >> 6 == 3 && !!(x->rex & 4) == !!(x->rex & 1);
        if (x->map == 1 && x->encoding == CV_X86_LEGACY && same && (o == 0xef || o == 0x57 || (o >= 0xf8 && o <= 0xfb)))
            e &= ~(RM_R | REG_R);
        if (x->encoding != CV_X86_LEGACY && !(x->map == 2 && o >= 0x90 && o <= 0xbf) &&
            !(x->map == 3 && x->encoding == CV_X86_EVEX && o == 0x25) && (e & REG_W))
            e &= ~REG_R; /* three operands: the first is written only */
        if (x->encoding != CV_X86_LEGACY && x->map == 2 && o == 0xf3)
            x->writes |= bit(vvvv & 15);
    }
    x->keeps_carry = x->map == 0 && o >= 0xfe;
    if (x->map == 0 && o == 0xf5)
        x->reads |= CV_X86_FLAGS_SET; /* cmc */
    registers(x, e, vvvv, merges);
    if (p.segment == 0x65 && x->memory == 1)
        x->refusal = CV_X86_GS;
    if (p.address32 && x->memory == 1 && (x->base >= 0 || x->index >= 0))
        x->refusal = CV_X86_ADDRESS_SIZE;
    return finish(x, at, 0);
}

int cv_x86_touches_rcx(const struct cv_x86 *x)
{
    const int o = x->opcode, registers_are_vectors = x->map == 1 && ((o >= 0x10 && o <= 0x17) || o == 0x28 || o == 0x29 || o == 0x2e ||
                                                                     o == 0x2f || (o >= 0x51 && o <= 0x6d) || o == 0x6f || o == 0x7f ||
                                                                     (o >= 0xd8 && o <= 0xef) || o == 0xd4 || o == 0xd6 || o >= 0xf8);
    const int fused = x->map == 2 && x->encoding != CV_X86_LEGACY && o >= 0x96 && o <= 0xbf && (o & 15) >= 6;
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
