#include "kinds.h"

#if defined(__x86_64__)

/* Sources are registers that nothing writes (code.c): rcx, r8, r9 = 0, xmm0 to xmm3. So no instruction waits for another of its piece. */
#define VARIANTS(name, registers, text)                                                                                    \
    __asm__(".pushsection .rodata\ncv_variants_" #name ":\n.irp r, " registers "\n.byte 2f - 1f\n1: " text "\n2:\n.endr\n" \
            ".byte 0\n.popsection\n");                                                                                     \
    extern const unsigned char cv_variants_##name[];
#define GENERAL_REGISTERS "rbx, rdx, rsi, r11, r12, r13, r14, r15"
#define BYTE_REGISTERS "bl, dl, sil, r11b, r12b, r13b, r14b, r15b"
#define VECTOR_REGISTERS "4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15"

/* A list of X(which registers they write, name, mixed, code). */
#define KINDS(X)                                                    \
    X(GENERAL, alu, 1, "movslq %ecx, %\\r")                         \
    X(GENERAL, lea, 1, "lea (%rcx, %r9), %\\r")                     \
    X(GENERAL, lea_parts, 1, "lea 8(%rcx, %r9), %\\r")              \
    X(GENERAL, lea_slow, 1, "lea 8(%rcx, %r9, 2), %\\r")            \
    X(GENERAL, shift, 1, "shl $7, %\\r")                            \
    X(GENERAL, shift_by_register, 1, "shl %cl, %\\r")               \
    X(GENERAL, conditional, 1, "cmovc %rcx, %\\r")                  \
    X(BYTE, conditional_set, 1, "setc %\\r")                        \
    X(GENERAL, byte_swap, 1, "bswap %\\r")                          \
    X(GENERAL, test_bit, 1, "bt $3, %rcx # \\r")                    \
    X(GENERAL, multiply, 1, "imul $77, %rcx, %\\r")                 \
    X(GENERAL, count, 1, "popcnt %rcx, %\\r")                       \
    X(GENERAL, count_trailing, 1, "tzcnt %rcx, %\\r")               \
    X(GENERAL, branch, 1, "test %rcx, %rcx\n .byte 0x74, 0 # \\r")  \
    X(VECTOR, fp_add, 1, "vaddsd %xmm1, %xmm0, %xmm\\r")            \
    X(VECTOR, fp_multiply, 1, "vmulsd %xmm1, %xmm0, %xmm\\r")       \
    X(VECTOR, fp_fma, 1, "vfmadd231sd %xmm1, %xmm2, %xmm\\r")       \
    X(VECTOR, fp_minmax, 1, "vmaxsd %xmm1, %xmm0, %xmm\\r")         \
    X(VECTOR, fp_cmp, 1, "vcmpltsd %xmm1, %xmm0, %xmm\\r")          \
    X(VECTOR, fp_compare, 1, "vucomisd %xmm1, %xmm0 # \\r")         \
    X(VECTOR, fp_convert, 1, "vcvttps2dq %xmm0, %xmm\\r")           \
    X(VECTOR, fp_convert_wide, 1, "vcvtps2pd %xmm0, %xmm\\r")       \
    X(VECTOR, fp_round, 1, "vroundsd $0, %xmm0, %xmm0, %xmm\\r")    \
    X(VECTOR, general_to_fp, 1, "vcvtsi2sd %rcx, %xmm0, %xmm\\r")   \
    X(GENERAL, fp_to_general, 1, "vcvttsd2si %xmm0, %\\r")          \
    X(VECTOR, v_integer, 1, "vpaddd %xmm1, %xmm0, %xmm\\r")         \
    X(VECTOR, v_logic, 1, "vpand %xmm1, %xmm0, %xmm\\r")            \
    X(VECTOR, v_blend, 1, "vblendvpd %xmm2, %xmm1, %xmm0, %xmm\\r") \
    X(VECTOR, v_shift, 1, "vpslld $1, %xmm0, %xmm\\r")              \
    X(VECTOR, v_multiply, 1, "vpmuludq %xmm1, %xmm0, %xmm\\r")      \
    X(VECTOR, v_multiply_long, 1, "vpmulld %xmm1, %xmm0, %xmm\\r")  \
    X(VECTOR, v_shuffle, 1, "vpshufd $27, %xmm1, %xmm\\r")          \
    X(VECTOR, v_shuffle_fp, 1, "vunpcklpd %xmm1, %xmm0, %xmm\\r")   \
    X(VECTOR, v_lanes, 1, "vperm2f128 $1, %ymm1, %ymm0, %ymm\\r")   \
    X(GENERAL, v_to_general, 1, "vmovq %xmm0, %\\r")                \
    X(VECTOR, general_to_v, 1, "vmovq %rcx, %xmm\\r")               \
    X(VECTOR, v_crypto, 1, "vaesenc %xmm1, %xmm0, %xmm\\r")         \
    X(VECTOR, divide_single_16, 0, "vdivps %xmm2, %xmm1, %xmm\\r")  \
    X(VECTOR, divide_single_32, 0, "vdivps %ymm2, %ymm1, %ymm\\r")  \
    X(VECTOR, divide_double, 0, "vdivsd %xmm2, %xmm1, %xmm\\r")     \
    X(VECTOR, divide_double_16, 0, "vdivpd %xmm2, %xmm1, %xmm\\r")  \
    X(VECTOR, divide_double_32, 0, "vdivpd %ymm2, %ymm1, %ymm\\r")  \
    X(VECTOR, root_single, 0, "vsqrtss %xmm3, %xmm0, %xmm\\r")      \
    X(VECTOR, root_single_16, 0, "vsqrtps %xmm3, %xmm\\r")          \
    X(VECTOR, root_single_32, 0, "vsqrtps %ymm3, %ymm\\r")

#define CODE(registers, name, mixed, text) VARIANTS(name, registers##_REGISTERS, text)
KINDS(CODE)
/* Renames a register, and needs no port. No-operations are merged by some cores, and of vector registers Zen 5 renames six a cycle. */
VARIANTS(slot, "ebx, edx, esi, r11d", "xor %\\r, %\\r")

static int cv_has_vectors(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("aes");
}

#define GENERAL_FAMILY CV_GENERAL
#define BYTE_FAMILY CV_GENERAL
#define VECTOR_FAMILY CV_VECTOR
#define ROW(registers, name, mixed, text) {#name, cv_variants_##name, registers##_FAMILY, mixed, cv_has_vectors},

const struct cv_kind cv_kinds[] = {
    {"slot", cv_variants_slot, CV_GENERAL, 0, cv_has_vectors}, /* the first: what the others are counted in */
    KINDS(ROW)};
const size_t cv_kind_count = sizeof cv_kinds / sizeof *cv_kinds;

#else

const struct cv_kind cv_kinds[] = {{0}};
const size_t cv_kind_count = 0;

#endif

struct cv_piece cv_variant(const struct cv_kind *kind, unsigned number)
{
    unsigned count = 0;
    const unsigned char *at = kind->variants;
    for (; *at; at += 1 + *at)
        count++;
    at = kind->variants;
    for (number %= count; number; number--)
        at += 1 + *at;
    return (struct cv_piece){at + 1, at + 1 + *at};
}
