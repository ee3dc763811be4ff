/* What the parts of the decoder share: a word for each opcode that says which operands and flags it has. */
#ifndef CV_X86_OPCODES_H
#define CV_X86_OPCODES_H

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
    Z_DQ,    /* 16 */
    Z_QQ,    /* 32 */
    Z_X,     /* the vector's length */
    Z_H,     /* a half of it */
    Z_F,     /* a fourth */
    Z_E,     /* an eighth */
    Z_L,     /* one element: 4, or 8 with W */
    Z_M,     /* one small element: 1, or 2 with W */
    Z_P,     /* X, or 8 for an MMX instruction */
    Z_S,     /* X, or one element where the prefix says so: 4 with F3, 8 with F2 */
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

/* Sets of registers. */
enum { SET_RAX = 1, SET_RCX = 2, SET_RDX = 4, SET_RBX = 8, SET_RSP = 16, SET_RBP = 32, SET_RSI = 64, SET_RDI = 128, SET_R11 = 2048 };

static inline uint64_t bit(int reg) { return UINT64_C(1) << reg; }

static inline void add_reference(struct cv_x86 *x, int where, int access, int size)
{
    if (x->n_references < 2)
        x->references[x->n_references++] = (struct cv_x86_reference){(uint8_t)where, (uint8_t)access, (uint16_t)size};
}

/* The middle of the ModRM byte: a register, or an extension of the opcode. */
static inline int extension(const struct cv_x86 *x) { return x->modrm >> 3 & 7; }

/* Whether both operands are the same register. */
static inline int is_with_itself(const struct cv_x86 *x)
{
    return x->modrm >> 6 == 3 && extension(x) == (x->modrm & 7) && !!(x->rex & 4) == !!(x->rex & 1);
}

/* Fused multiplications and additions of the 0F38 map. */
static inline int is_fused(uint8_t opcode) { return opcode >= 0x96 && opcode <= 0xbf && (opcode & 15) >= 6; }

/* Compressed and expanded vectors of elements of four or eight bytes. */
static inline int is_packed(const struct cv_x86 *x) { return x->map == 2 && x->opcode >= 0x88 && x->opcode <= 0x8b; }

/* x86_opcodes.c: by the opcode, before the ModRM byte is read */
extern const uint32_t one_byte_words[256], two_byte_words[256];

/* x86_groups.c: what the ModRM byte and prefixes say beyond it; these may set `kind`, `refusal`, registers, flags and references */
uint32_t one_byte_special(struct cv_x86 *x, uint32_t e, int word, int repeat);
uint32_t two_byte_special(struct cv_x86 *x, uint32_t e, int wide);
void add_x87(struct cv_x86 *x);

/* x86_vectors.c: legacy, VEX and EVEX */
int is_mask(const struct cv_x86 *x);
int is_vector(const struct cv_x86 *x);
uint32_t mask_word(const struct cv_x86 *x);
uint32_t vector_word(const struct cv_x86 *x);
int vector_flops(const struct cv_x86 *x);
int masked_element_bytes(const struct cv_x86 *x);

#endif
