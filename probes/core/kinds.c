#include "kinds.h"

#if defined(__x86_64__)

/* Sources are registers that nothing writes (code.c): rcx, r8, r9 = 0, xmm0 to xmm3. So no instruction waits for another of its piece. */
#define VARIANTS(name, registers, text)                                                                                    \
    __asm__(".pushsection .rodata\ncv_variants_" #name ":\n.irp r, " registers "\n.byte 2f - 1f\n1: " text "\n2:\n.endr\n" \
            ".byte 0\n.popsection\n");                                                                                     \
    extern const unsigned char cv_variants_##name[];
#define WIDE(name, text) VARIANTS(name, "rbx, rdx, rsi, r11, r12, r13, r14, r15", text)
#define BYTE(name, text) VARIANTS(name, "bl, dl, sil, r11b, r12b, r13b, r14b, r15b", text)
#define VECTOR(name, text) VARIANTS(name, "4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15", text)

WIDE(alu, "movslq %ecx, %\\r")
WIDE(lea, "lea (%rcx, %r9), %\\r")
WIDE(lea_parts, "lea 8(%rcx, %r9), %\\r")
WIDE(lea_slow, "lea 8(%rcx, %r9, 2), %\\r")
WIDE(shift, "shl $7, %\\r")
WIDE(shift_by_register, "shl %cl, %\\r")
WIDE(conditional, "cmovc %rcx, %\\r")
BYTE(conditional_set, "setc %\\r")
WIDE(byte_swap, "bswap %\\r")
WIDE(test_bit, "bt $3, %rcx # \\r")
WIDE(multiply, "imul $77, %rcx, %\\r")
WIDE(count, "popcnt %rcx, %\\r")
WIDE(count_trailing, "tzcnt %rcx, %\\r")
WIDE(branch, "test %rcx, %rcx\n .byte 0x74, 0 # \\r")
VECTOR(fp_add, "vaddsd %xmm1, %xmm0, %xmm\\r")
VECTOR(fp_multiply, "vmulsd %xmm1, %xmm0, %xmm\\r")
VECTOR(fp_fma, "vfmadd231sd %xmm1, %xmm2, %xmm\\r")
VECTOR(fp_minmax, "vmaxsd %xmm1, %xmm0, %xmm\\r")
VECTOR(fp_cmp, "vcmpltsd %xmm1, %xmm0, %xmm\\r")
VECTOR(fp_compare, "vucomisd %xmm1, %xmm0 # \\r")
VECTOR(fp_convert, "vcvttps2dq %xmm0, %xmm\\r")
VECTOR(fp_convert_wide, "vcvtps2pd %xmm0, %xmm\\r")
VECTOR(fp_round, "vroundsd $0, %xmm0, %xmm0, %xmm\\r")
VECTOR(general_to_fp, "vcvtsi2sd %rcx, %xmm0, %xmm\\r")
WIDE(fp_to_general, "vcvttsd2si %xmm0, %\\r")
VECTOR(v_integer, "vpaddd %xmm1, %xmm0, %xmm\\r")
VECTOR(v_logic, "vpand %xmm1, %xmm0, %xmm\\r")
VECTOR(v_blend, "vblendvpd %xmm2, %xmm1, %xmm0, %xmm\\r")
VECTOR(v_shift, "vpslld $1, %xmm0, %xmm\\r")
VECTOR(v_multiply, "vpmuludq %xmm1, %xmm0, %xmm\\r")
VECTOR(v_multiply_long, "vpmulld %xmm1, %xmm0, %xmm\\r")
VECTOR(v_shuffle, "vpshufd $27, %xmm1, %xmm\\r")
VECTOR(v_shuffle_fp, "vunpcklpd %xmm1, %xmm0, %xmm\\r")
VECTOR(v_lanes, "vperm2f128 $1, %ymm1, %ymm0, %ymm\\r")
WIDE(v_to_general, "vmovq %xmm0, %\\r")
VECTOR(general_to_v, "vmovq %rcx, %xmm\\r")
VECTOR(v_crypto, "vaesenc %xmm1, %xmm0, %xmm\\r")
VECTOR(divide_single_16, "vdivps %xmm2, %xmm1, %xmm\\r")
VECTOR(divide_single_32, "vdivps %ymm2, %ymm1, %ymm\\r")
VECTOR(divide_double, "vdivsd %xmm2, %xmm1, %xmm\\r")
VECTOR(divide_double_16, "vdivpd %xmm2, %xmm1, %xmm\\r")
VECTOR(divide_double_32, "vdivpd %ymm2, %ymm1, %ymm\\r")
VECTOR(root_single, "vsqrtss %xmm3, %xmm0, %xmm\\r")
VECTOR(root_single_16, "vsqrtps %xmm3, %xmm\\r")
VECTOR(root_single_32, "vsqrtps %ymm3, %ymm\\r")
/* Renames a register, and needs no port. No-operations are merged by some cores, and of vector registers Zen 5 renames six a cycle. */
VARIANTS(slot, "ebx, edx, esi, r11d", "xor %\\r, %\\r")

static int cv_has_vectors(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("aes");
}

#define MIXED(name, family) {#name, cv_variants_##name, family, 1, cv_has_vectors}
#define LONE(name) {#name, cv_variants_##name, CV_VECTOR, 0, cv_has_vectors}

const struct cv_kind cv_kinds[] = {
    {"slot", cv_variants_slot, CV_GENERAL, 0, cv_has_vectors}, /* the first: what the others are counted in */
    MIXED(alu, CV_GENERAL),
    MIXED(lea, CV_GENERAL),
    MIXED(lea_parts, CV_GENERAL),
    MIXED(lea_slow, CV_GENERAL),
    MIXED(shift, CV_GENERAL),
    MIXED(shift_by_register, CV_GENERAL),
    MIXED(conditional, CV_GENERAL),
    MIXED(conditional_set, CV_GENERAL),
    MIXED(byte_swap, CV_GENERAL),
    MIXED(test_bit, CV_GENERAL),
    MIXED(multiply, CV_GENERAL),
    MIXED(count, CV_GENERAL),
    MIXED(count_trailing, CV_GENERAL),
    MIXED(branch, CV_GENERAL),
    MIXED(fp_add, CV_VECTOR),
    MIXED(fp_multiply, CV_VECTOR),
    MIXED(fp_fma, CV_VECTOR),
    MIXED(fp_minmax, CV_VECTOR),
    MIXED(fp_cmp, CV_VECTOR),
    MIXED(fp_compare, CV_VECTOR),
    MIXED(fp_convert, CV_VECTOR),
    MIXED(fp_convert_wide, CV_VECTOR),
    MIXED(fp_round, CV_VECTOR),
    MIXED(general_to_fp, CV_VECTOR),
    MIXED(fp_to_general, CV_GENERAL),
    MIXED(v_integer, CV_VECTOR),
    MIXED(v_logic, CV_VECTOR),
    MIXED(v_blend, CV_VECTOR),
    MIXED(v_shift, CV_VECTOR),
    MIXED(v_multiply, CV_VECTOR),
    MIXED(v_multiply_long, CV_VECTOR),
    MIXED(v_shuffle, CV_VECTOR),
    MIXED(v_shuffle_fp, CV_VECTOR),
    MIXED(v_lanes, CV_VECTOR),
    MIXED(v_to_general, CV_GENERAL),
    MIXED(general_to_v, CV_VECTOR),
    MIXED(v_crypto, CV_VECTOR),
    LONE(divide_single_16),
    LONE(divide_single_32),
    LONE(divide_double),
    LONE(divide_double_16),
    LONE(divide_double_32),
    LONE(root_single),
    LONE(root_single_16),
    LONE(root_single_32),
};
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
