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
#define MASK_REGISTERS "2, 3, 4, 5, 6, 7"

/* Lists of X(which registers they write, name, what they are mixed with, code). */
#define KINDS(X)                                                        \
    X(GENERAL, alu, MIXED, "movslq %ecx, %\\r")                         \
    X(GENERAL, lea, MIXED, "lea (%rcx, %r9), %\\r")                     \
    X(GENERAL, lea_parts, MIXED, "lea 8(%rcx, %r9), %\\r")              \
    X(GENERAL, lea_slow, BESIDE, "lea 8(%rcx, %r9, 2), %\\r")           \
    X(GENERAL, shift, BESIDE, "shl $7, %\\r")                           \
    X(GENERAL, shift_by_register, MIXED, "shl %cl, %\\r")               \
    X(GENERAL, conditional, MIXED, "cmovc %rcx, %\\r")                  \
    X(BYTE, conditional_set, MIXED, "setc %\\r")                        \
    X(GENERAL, byte_swap, MIXED, "bswap %\\r")                          \
    X(GENERAL, test_bit, MIXED, "bt $3, %rcx # \\r")                    \
    X(GENERAL, multiply, BESIDE, "imul $77, %rcx, %\\r")                \
    X(GENERAL, count, MIXED, "popcnt %rcx, %\\r")                       \
    X(GENERAL, count_trailing, MIXED, "tzcnt %rcx, %\\r")               \
    X(GENERAL, branch, BESIDE, "test %rcx, %rcx\n .byte 0x74, 0 # \\r") \
    X(VECTOR, fp_add, BESIDE, "vaddsd %xmm1, %xmm0, %xmm\\r")           \
    X(VECTOR, fp_multiply, BESIDE, "vmulsd %xmm1, %xmm0, %xmm\\r")      \
    X(VECTOR, fp_fma, MIXED, "vfmadd231sd %xmm1, %xmm2, %xmm\\r")       \
    X(VECTOR, fp_minmax, MIXED, "vmaxsd %xmm1, %xmm0, %xmm\\r")         \
    X(VECTOR, fp_cmp, MIXED, "vcmpltsd %xmm1, %xmm0, %xmm\\r")          \
    X(VECTOR, fp_compare, MIXED, "vucomisd %xmm1, %xmm0 # \\r")         \
    X(VECTOR, fp_convert, MIXED, "vcvttps2dq %xmm0, %xmm\\r")           \
    X(VECTOR, fp_convert_wide, MIXED, "vcvtps2pd %xmm0, %xmm\\r")       \
    X(VECTOR, fp_round, MIXED, "vroundsd $0, %xmm0, %xmm0, %xmm\\r")    \
    X(VECTOR, general_to_fp, MIXED, "vcvtsi2sd %rcx, %xmm0, %xmm\\r")   \
    X(GENERAL, fp_to_general, MIXED, "vcvttsd2si %xmm0, %\\r")          \
    X(VECTOR, v_integer, BESIDE, "vpaddd %xmm1, %xmm0, %xmm\\r")        \
    X(VECTOR, v_logic, MIXED, "vpand %xmm1, %xmm0, %xmm\\r")            \
    X(VECTOR, v_blend, MIXED, "vblendvpd %xmm2, %xmm1, %xmm0, %xmm\\r") \
    X(VECTOR, v_shift, BESIDE, "vpslld $1, %xmm0, %xmm\\r")             \
    X(VECTOR, v_multiply, MIXED, "vpmuludq %xmm1, %xmm0, %xmm\\r")      \
    X(VECTOR, v_multiply_long, MIXED, "vpmulld %xmm1, %xmm0, %xmm\\r")  \
    X(VECTOR, v_shuffle, BESIDE, "vpshufd $27, %xmm1, %xmm\\r")         \
    X(VECTOR, v_shuffle_fp, BESIDE, "vunpcklpd %xmm1, %xmm0, %xmm\\r")  \
    X(VECTOR, v_lanes, BESIDE, "vperm2f128 $1, %ymm1, %ymm0, %ymm\\r")  \
    X(GENERAL, v_to_general, MIXED, "vmovq %xmm0, %\\r")                \
    X(VECTOR, general_to_v, BESIDE, "vmovq %rcx, %xmm\\r")              \
    X(VECTOR, v_crypto, MIXED, "vaesenc %xmm1, %xmm0, %xmm\\r")         \
    X(VECTOR, divide_single_16, ALONE, "vdivps %xmm2, %xmm1, %xmm\\r")  \
    X(VECTOR, divide_single_32, ALONE, "vdivps %ymm2, %ymm1, %ymm\\r")  \
    X(VECTOR, divide_double, ALONE, "vdivsd %xmm2, %xmm1, %xmm\\r")     \
    X(VECTOR, divide_double_16, ALONE, "vdivpd %xmm2, %xmm1, %xmm\\r")  \
    X(VECTOR, divide_double_32, ALONE, "vdivpd %ymm2, %ymm1, %ymm\\r")  \
    X(VECTOR, root_single, ALONE, "vsqrtss %xmm3, %xmm0, %xmm\\r")      \
    X(VECTOR, root_single_16, ALONE, "vsqrtps %xmm3, %xmm\\r")          \
    X(VECTOR, root_single_32, ALONE, "vsqrtps %ymm3, %ymm\\r")

/* Those of AVX-512, with what says that the CPU has it. */
#define WIDE_KINDS(X)                                                                                            \
    X(VECTOR, fp_add_64, WIDE, cv_has_widest, "vaddpd %zmm1, %zmm0, %zmm\\r")                                    \
    X(VECTOR, fp_multiply_64, WIDE, cv_has_widest, "vmulpd %zmm1, %zmm0, %zmm\\r")                               \
    X(VECTOR, fp_fma_64, WIDE, cv_has_widest, "vfmadd231pd %zmm1, %zmm2, %zmm\\r")                               \
    X(VECTOR, fp_minmax_64, WIDE, cv_has_widest, "vmaxpd %zmm1, %zmm0, %zmm\\r")                                 \
    X(VECTOR, fp_convert_64, WIDE, cv_has_widest, "vcvttps2dq %zmm0, %zmm\\r")                                   \
    X(VECTOR, fp_convert_wide_64, WIDE, cv_has_widest, "vcvtps2pd %ymm0, %zmm\\r")                               \
    X(VECTOR, fp_round_64, WIDE, cv_has_widest, "vrndscalepd $0, %zmm0, %zmm\\r")                                \
    X(VECTOR, v_integer_64, WIDE, cv_has_widest, "vpaddd %zmm1, %zmm0, %zmm\\r")                                 \
    X(VECTOR, v_logic_64, WIDE, cv_has_widest, "vpandd %zmm1, %zmm0, %zmm\\r")                                   \
    X(VECTOR, v_move_64, WIDE, cv_has_widest, "vmovdqa32 %zmm0, %zmm\\r{%k1}{z}")                                \
    X(VECTOR, v_shift_64, WIDE, cv_has_widest, "vpslld $1, %zmm0, %zmm\\r")                                      \
    X(VECTOR, v_multiply_64, WIDE, cv_has_widest, "vpmuludq %zmm1, %zmm0, %zmm\\r")                              \
    X(VECTOR, v_multiply_long_64, WIDE, cv_has_widest, "vpmulld %zmm1, %zmm0, %zmm\\r")                          \
    X(VECTOR, v_shuffle_64, WIDE, cv_has_widest, "vpshufd $27, %zmm1, %zmm\\r")                                  \
    X(VECTOR, v_shuffle_fp_64, WIDE, cv_has_widest, "vunpcklpd %zmm1, %zmm0, %zmm\\r")                           \
    X(VECTOR, v_lanes_64, WIDE, cv_has_widest, "vpermt2pd %zmm1, %zmm0, %zmm\\r")                                \
    X(VECTOR, v_lanes_insert_64, WIDE, cv_has_widest, "vbroadcastsd %xmm0, %zmm\\r")                             \
    X(VECTOR, v_lanes_widen_64, WIDE, cv_has_widest, "vpmovzxwd %ymm0, %zmm\\r")                                 \
    X(VECTOR, v_lanes_narrow_64, WIDE, cv_has_widest, "vpmovdw %zmm0, %ymm\\r")                                  \
    X(VECTOR, v_lanes_compress_64, WIDE, cv_has_widest, "vpcompressd %zmm0, %zmm\\r{%k1}{z}")                    \
    X(VECTOR, v_crypto_64, WIDE, cv_has_widest_crypto, "vaesenc %zmm1, %zmm0, %zmm\\r")                          \
    X(MASK, v_integer_mask_64, WIDE, cv_has_widest, "vpcmpgtd %zmm1, %zmm0, %k\\r")                              \
    X(MASK, v_integer_mask, WIDE, cv_has_widest, "vpcmpgtd %ymm1, %ymm0, %k\\r")                                 \
    X(MASK, v_integer_between_masks, WIDE, cv_has_widest, "kandw %k1, %k1, %k\\r")                               \
    X(VECTOR, divide_single_64, ALONE, cv_has_widest, "vdivps %zmm2, %zmm1, %zmm\\r")                            \
    X(VECTOR, divide_double_64, ALONE, cv_has_widest, "vdivpd %zmm2, %zmm1, %zmm\\r")                            \
    X(VECTOR, root_single_64, ALONE, cv_has_widest, "vsqrtps %zmm3, %zmm\\r")                                    \
    X(VECTOR, root_double_64, ALONE, cv_has_widest, "vsqrtpd %zmm3, %zmm\\r")                                    \
    X(VECTOR, gather_16, ALONE, cv_has_widest, "kmovw %k1, %k2\n vgatherdpd (%rdi, %xmm16), %xmm\\r{%k2}")       \
    X(VECTOR, gather_32, ALONE, cv_has_widest, "kmovw %k1, %k2\n vgatherdpd (%rdi, %xmm16), %ymm\\r{%k2}")       \
    X(VECTOR, gather_64, ALONE, cv_has_widest, "kmovw %k1, %k2\n vgatherdpd (%rdi, %ymm16), %zmm\\r{%k2}")       \
    X(VECTOR, gather_eight_32, ALONE, cv_has_widest, "kmovw %k1, %k2\n vgatherdps (%rdi, %ymm16), %ymm\\r{%k2}") \
    X(VECTOR, gather_eight_64, ALONE, cv_has_widest, "kmovw %k1, %k2\n vgatherdps (%rdi, %zmm16), %zmm\\r{%k2}")

#define CODE(registers, name, mixing, text) VARIANTS(name, registers##_REGISTERS, text)
#define WIDE_CODE(registers, name, mixing, supported, text) VARIANTS(name, registers##_REGISTERS, text)
KINDS(CODE)
WIDE_KINDS(WIDE_CODE)
/* Renames a register, and needs no port. No-operations are merged by some cores, and of vector registers Zen 5 renames six a cycle. */
VARIANTS(slot, "ebx, edx, esi, r11d", "xor %\\r, %\\r")

static int cv_has_vectors(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("aes");
}

static int cv_has_widest(void)
{
    return cv_has_vectors() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
static int cv_has_widest_crypto(void) { return cv_has_widest() && __builtin_cpu_supports("vaes"); }

#define GENERAL_FAMILY CV_GENERAL
#define BYTE_FAMILY CV_GENERAL
#define VECTOR_FAMILY CV_VECTOR
#define MASK_FAMILY CV_MASK
#define ROW(registers, name, mixing, text) {#name, cv_variants_##name, registers##_FAMILY, CV_##mixing, 0, cv_has_vectors},
#define WIDE_ROW(registers, name, mixing, supported, text) {#name, cv_variants_##name, registers##_FAMILY, CV_##mixing, 1, supported},

const struct cv_kind cv_kinds[] = {
    {"slot", cv_variants_slot, CV_GENERAL, CV_ALONE, 0, cv_has_vectors}, /* the first: what the others are counted in */
    KINDS(ROW) WIDE_KINDS(WIDE_ROW)};
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
