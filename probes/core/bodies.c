#include "bodies.h"

#if defined(__x86_64__)

/* Registers at the start (core.c): rcx = 1, r8 = factor and r10 = summand of a random generator in rax, r9 = 0, rdi points to itself and
 * to room after it; xmm0 = 1.69, xmm1 = 1.1, xmm2 = 1 / 1.1, xmm3 = 1.3, as doubles and as singles in their lower halves; the
 * others are as xmm0. Values stay normal: denormals, infinities and trivial divisions take other times. */
#define BODY(name, text)                                                                              \
    __asm__(".pushsection .rodata\ncv_begin_" #name ":\n" text "\ncv_end_" #name ":\n.popsection\n"); \
    extern const unsigned char cv_begin_##name[], cv_end_##name[];
#define GENERAL(text) ".irp r, rbx, rdx, rsi, r11, r12, r13, r14, r15\n" text "\n.endr\n"
#define VECTORS(text) ".irp r, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n" text "\n.endr\n"

BODY(addition, "add %rcx, %rax")
BODY(multiplication, "imul %r8, %rax")
BODY(first_load, "mov (%rdi), %rdi")
BODY(second_load, "mov (%rbp), %rbp")

static int cv_has_fma(void) { return __builtin_cpu_supports("fma"); }
static int cv_has_avx(void) { return __builtin_cpu_supports("avx"); }
static int cv_has_avx512(void) { return __builtin_cpu_supports("avx512f"); }
static int cv_has_widest(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
static int cv_has_count(void) { return __builtin_cpu_supports("popcnt"); }
static int cv_has_sse4(void) { return __builtin_cpu_supports("sse4.1"); }

/* Lists of X(name, timed instructions, registers filled beyond 16 bytes (code.h), which CPUs can run it, code).
 * Latencies: each instruction waits for the one before. */
#define LATENCIES(X)                                                                                   \
    X(shift, 1, 0, 0, "rol $7, %rax")                                                                  \
    X(multiply, 1, 0, 0, "imul %r8, %rax")                                                             \
    X(count, 1, 0, cv_has_count, "popcnt %rax, %rax")                                                  \
    X(byte_swap, 1, 0, 0, "bswap %rax")                                                                \
    X(carry, 1, 0, 0, "adc %rcx, %rax")                                                                \
    X(conditional, 1, 0, 0, "cmovc %rcx, %rax")                                                        \
    X(lea_scaled, 1, 0, 0, "lea (%rcx, %rax, 2), %rax")                                                \
    X(lea_parts, 1, 0, 0, "lea 8(%rcx, %rax), %rax")                                                   \
    X(lea_slow, 1, 0, 0, "lea 8(%rcx, %rax, 2), %rax")                                                 \
    X(lea_base, 1, 0, 0, "lea 8(%rax, %rcx), %rax")                                                    \
    X(divide_32, 1, 0, 0, "xor %edx, %edx\n div %ecx\n")                                               \
    X(divide_64, 1, 0, 0, "xor %edx, %edx\n div %rcx\n")                                               \
    X(fp_add, 1, 0, 0, "addsd %xmm1, %xmm0\n")                                                         \
    X(fp_add_multiply, 1, 0, 0, "addsd %xmm1, %xmm0\n mulsd %xmm2, %xmm0\n")                           \
    X(fp_multiply, 2, 0, 0, "mulsd %xmm1, %xmm0\n mulsd %xmm2, %xmm0\n")                               \
    X(fp_fma, 1, 0, cv_has_fma, "vfmadd213sd %xmm1, %xmm2, %xmm0")                                     \
    X(fp_minmax, 1, 0, 0, "maxsd %xmm1, %xmm0")                                                        \
    X(fp_cmp, 1, 0, 0, "cmpltsd %xmm1, %xmm0")                                                         \
    X(fp_round, 1, 0, cv_has_sse4, "roundsd $0, %xmm0, %xmm0")                                         \
    X(divide_double, 2, 0, 0, "divsd %xmm1, %xmm0\n divsd %xmm2, %xmm0\n")                             \
    X(divide_double_32, 2, 1, cv_has_avx, "vdivpd %ymm1, %ymm0, %ymm0\n vdivpd %ymm2, %ymm0, %ymm0\n") \
    X(root_double, 1, 0, 0, "sqrtsd %xmm0, %xmm0\n mulsd %xmm3, %xmm0\n")                              \
    X(divide_single, 2, 0, 0, "divss %xmm1, %xmm0\n divss %xmm2, %xmm0\n")                             \
    X(v_integer, 1, 0, 0, "paddd %xmm1, %xmm0")                                                        \
    X(v_logic, 1, 0, 0, "pand %xmm1, %xmm0")                                                           \
    X(v_shift, 1, 0, 0, "pslld $1, %xmm0")                                                             \
    X(v_multiply, 1, 0, 0, "pmuludq %xmm1, %xmm0")                                                     \
    X(v_multiply_long, 1, 0, cv_has_sse4, "pmulld %xmm1, %xmm0")                                       \
    X(v_shuffle, 1, 0, 0, "pshufd $27, %xmm0, %xmm0")                                                  \
    X(v_shuffle_fp, 1, 0, 0, "unpcklpd %xmm1, %xmm0")                                                  \
    X(v_lanes, 1, 1, cv_has_avx, "vperm2f128 $1, %ymm0, %ymm0, %ymm0")                                 \
    X(v_blend, 1, 1, cv_has_avx, "vblendvpd %ymm2, %ymm1, %ymm0, %ymm0")                               \
    X(to_and_fro, 1, 0, 0, "movq %xmm0, %rax\n movq %rax, %xmm0\n")                                    \
    X(convert_to_and_fro, 1, 0, 0, "cvttsd2si %xmm0, %rax\n cvtsi2sd %rax, %xmm0\n")                   \
    X(move_and_convert, 1, 0, 0, "movq %xmm0, %rax\n cvtsi2sd %rax, %xmm0\n")                          \
    X(compare_and_move, 1, 0, 0, "ucomisd %xmm0, %xmm1\n sbb %rax, %rax\n movq %rax, %xmm0\n")         \
    X(load, 1, 0, 0, "mov (%rdi), %rdi")                                                               \
    X(load_indexed, 1, 0, 0, "mov (%r9, %rdi), %rdi")                                                  \
    X(load_compound, 1, 0, 0, "mov (%rdi, %r9, 8), %rdi")                                              \
    X(vector_load, 1, 0, 0, "movq (%rdi), %xmm0\n movq %xmm0, %rdi\n")

/* Of AVX-512. So many additions of numbers after an instruction that works on 64 bytes. */
#define AFTER_WIDEST(count) "vpandd %zmm16, %zmm16, %zmm5\n .rept " #count "\n vaddsd %xmm1, %xmm0, %xmm0\n .endr\n"
#define WIDE_LATENCIES(X)                                                                                                  \
    X(fp_add_64, 1, CV_WIDEST, cv_has_widest, "vaddpd %zmm1, %zmm0, %zmm0")                                                \
    X(fp_add_beside_64, 8, CV_WIDEST, cv_has_widest, AFTER_WIDEST(8))                                                      \
    X(fp_add_after_64, 256, CV_WIDEST, cv_has_widest, AFTER_WIDEST(256))                                                   \
    X(fp_add_multiply_64, 1, CV_WIDEST, cv_has_widest, "vaddpd %zmm1, %zmm0, %zmm0\n vmulpd %zmm2, %zmm0, %zmm0\n")        \
    X(fp_multiply_64, 2, CV_WIDEST, cv_has_widest, "vmulpd %zmm1, %zmm0, %zmm0\n vmulpd %zmm2, %zmm0, %zmm0\n")            \
    X(fp_fma_64, 1, CV_WIDEST, cv_has_widest, "vfmadd213pd %zmm1, %zmm2, %zmm0")                                           \
    X(fp_minmax_64, 1, CV_WIDEST, cv_has_widest, "vmaxpd %zmm1, %zmm0, %zmm0")                                             \
    X(fp_round_64, 1, CV_WIDEST, cv_has_widest, "vrndscalepd $0, %zmm0, %zmm0")                                            \
    X(divide_double_64, 2, CV_WIDEST, cv_has_widest, "vdivpd %zmm1, %zmm0, %zmm0\n vdivpd %zmm2, %zmm0, %zmm0\n")          \
    X(v_integer_64, 1, CV_WIDEST, cv_has_widest, "vpaddd %zmm1, %zmm0, %zmm0")                                             \
    X(v_logic_64, 1, CV_WIDEST, cv_has_widest, "vpandd %zmm1, %zmm0, %zmm0")                                               \
    X(v_shift_64, 1, CV_WIDEST, cv_has_widest, "vpslld $1, %zmm0, %zmm0")                                                  \
    X(v_multiply_64, 1, CV_WIDEST, cv_has_widest, "vpmuludq %zmm1, %zmm0, %zmm0")                                          \
    X(v_multiply_long_64, 1, CV_WIDEST, cv_has_widest, "vpmulld %zmm1, %zmm0, %zmm0")                                      \
    X(v_shuffle_64, 1, CV_WIDEST, cv_has_widest, "vpshufd $27, %zmm0, %zmm0")                                              \
    X(v_shuffle_fp_64, 1, CV_WIDEST, cv_has_widest, "vunpcklpd %zmm1, %zmm0, %zmm0")                                       \
    X(v_lanes_64, 1, CV_WIDEST, cv_has_widest, "vpermt2pd %zmm1, %zmm2, %zmm0")                                            \
    X(v_lanes_insert_64, 1, CV_WIDEST, cv_has_widest, "vbroadcastsd %xmm0, %zmm0")                                         \
    X(v_lanes_widen_64, 1, CV_WIDEST, cv_has_widest, "vpmovzxwd %ymm0, %zmm0")                                             \
    X(v_lanes_narrow_64, 1, CV_WIDEST, cv_has_widest, "vpmovdw %zmm0, %ymm0")                                              \
    X(v_lanes_compress_64, 1, CV_WIDEST, cv_has_widest, "vpcompressd %zmm0, %zmm0{%k1}{z}")                                \
    X(v_integer_between_masks, 1, CV_WIDEST, cv_has_widest, "kandw %k1, %k2, %k2")                                         \
    X(compare_and_blend, 1, CV_WIDEST, cv_has_widest, "vpcmpgtd %ymm0, %ymm1, %k2\n vpblendmd %ymm0, %ymm1, %ymm0{%k2}\n") \
    X(compare_and_blend_64, 1, CV_WIDEST, cv_has_widest, "vpcmpgtd %zmm0, %zmm1, %k2\n vpblendmd %zmm0, %zmm1, %zmm0{%k2}\n")

/* Throughputs: no instruction waits for another of the piece. */
#define THROUGHPUTS(X)                                                                                            \
    X(slot, 8, 0, 0, ".rept 8\n .byte 0x0f, 0x1f, 0x40, 0x00\n .endr\n")                                          \
    X(alu, 8, 0, 0, GENERAL("xor %rcx, %\\r"))                                                                    \
    X(shift, 8, 0, 0, GENERAL("rol $7, %\\r"))                                                                    \
    X(multiply, 8, 0, 0, GENERAL("imul %rcx, %\\r"))                                                              \
    X(count, 8, 0, cv_has_count, GENERAL("popcnt %rcx, %\\r"))                                                    \
    X(conditional, 8, 0, 0, GENERAL("cmovc %rcx, %\\r"))                                                          \
    X(lea_slow, 8, 0, 0, GENERAL("lea 8(%rcx, %r9, 2), %\\r"))                                                    \
    X(divide_32, 4, 0, 0, ".rept 4\n mov %r8d, %eax\n xor %edx, %edx\n div %ecx\n .endr\n")                       \
    X(divide_64, 4, 0, 0, ".rept 4\n mov %r8, %rax\n xor %edx, %edx\n div %rcx\n .endr\n")                        \
    X(load, 8, 0, 0,                                                                                              \
      "mov (%rdi), %rbx\n mov 72(%rdi), %rdx\n mov 144(%rdi), %rsi\n mov 216(%rdi), %r11\n mov 288(%rdi), %r12\n" \
      "mov 360(%rdi), %r13\n mov 432(%rdi), %r14\n mov 504(%rdi), %r15\n")                                        \
    X(store, 8, 0, 0, ".irp r, 0, 8, 16, 24, 32, 40, 48, 56\n mov %rax, 64+\\r(%rdi)\n .endr\n")                  \
    X(store_split, 8, 0, 0, ".irp r, 60, 124, 188, 252, 60, 124, 188, 252\n mov %rax, 64+\\r(%rdi)\n .endr\n")    \
    X(store_16, 8, 0, 0, ".irp r, 0, 16, 32, 48, 0, 16, 32, 48\n movups %xmm0, 64+\\r(%rdi)\n .endr\n")           \
    X(load_16, 12, 0, 0, VECTORS("movups 64(%rdi), %xmm\\r"))                                                     \
    X(load_32, 12, 1, cv_has_avx, VECTORS("vmovups 64(%rdi), %ymm\\r"))                                           \
    X(load_64, 12, 1, cv_has_avx512, VECTORS("vmovups 64(%rdi), %zmm\\r"))                                        \
    X(fp_add, 12, 0, 0, VECTORS("addsd %xmm1, %xmm\\r"))                                                          \
    X(fp_multiply, 12, 0, 0, VECTORS("mulsd %xmm0, %xmm\\r"))                                                     \
    X(fp_fma_32, 12, 1, cv_has_fma, VECTORS("vfmadd213pd %ymm1, %ymm2, %ymm\\r"))                                 \
    X(fp_minmax, 12, 0, 0, VECTORS("maxsd %xmm1, %xmm\\r"))                                                       \
    X(root_double, 12, 0, 0, VECTORS("sqrtsd %xmm1, %xmm\\r"))                                                    \
    X(root_double_16, 12, 0, 0, VECTORS("sqrtpd %xmm1, %xmm\\r"))                                                 \
    X(root_double_32, 12, 1, cv_has_avx, VECTORS("vsqrtpd %ymm1, %ymm\\r"))                                       \
    X(divide_single, 12, 1, cv_has_avx, VECTORS("vdivss %xmm1, %xmm0, %xmm\\r"))                                  \
    X(v_integer, 12, 0, 0, VECTORS("paddd %xmm1, %xmm\\r"))                                                       \
    X(v_logic, 12, 0, 0, VECTORS("pand %xmm1, %xmm\\r"))                                                          \
    X(v_shift, 12, 0, 0, VECTORS("pslld $1, %xmm\\r"))                                                            \
    X(v_multiply, 12, 0, 0, VECTORS("pmuludq %xmm1, %xmm\\r"))                                                    \
    X(v_multiply_long, 12, 0, cv_has_sse4, VECTORS("pmulld %xmm1, %xmm\\r"))                                      \
    X(v_shuffle, 12, 0, 0, VECTORS("pshufd $27, %xmm1, %xmm\\r"))                                                 \
    X(v_lanes, 12, 1, cv_has_avx, VECTORS("vperm2f128 $1, %ymm1, %ymm1, %ymm\\r"))

/* Lists of X(name, code). A store that the load after it reads: plain address, with an index, as a vector, and one that no single store
 * holds. The same with work between load and store: one addition, one of a register to memory, eight of vectors. A store and the addition
 * that reads it is a piece of its own. */
#define FORWARDS(X)                                                                \
    X(plain, "mov %rax, 8(%rdi)\n mov 8(%rdi), %rax\n")                            \
    X(indexed, "mov %rax, 8(%rdi, %r9)\n mov 8(%rdi, %r9), %rax\n")                \
    X(vector, "movaps %xmm0, 16(%rdi)\n movaps 16(%rdi), %xmm0\n")                 \
    X(failed, "mov %eax, 8(%rdi)\n mov %eax, 12(%rdi)\n mov 8(%rdi), %rax\n")      \
    X(added, "mov 8(%rdi, %r9), %rax\n add %rcx, %rax\n mov %rax, 8(%rdi, %r9)\n") \
    X(updated, "add %rcx, 8(%rdi)\n")                                              \
    X(vector_added, "movaps 16(%rdi), %xmm0\n .rept 8\n paddd %xmm1, %xmm0\n .endr\n movaps %xmm0, 16(%rdi)\n")
BODY(forward_operand, "add 8(%rdi), %rax\n mov %rax, 8(%rdi)\n")

/* Moves between registers, and additions of constants, each of what the one before gave: renamed, they take no time of their own. */
#define MOVES(X)                                             \
    X(general, "mov %rax, %rbx\n mov %rbx, %rax\n")          \
    X(vector, "movaps %xmm0, %xmm4\n movaps %xmm4, %xmm0\n") \
    X(constant, "add $1, %rax\n add $2, %rax\n")

/* A random number decides the branch, or it is never taken; both go the same way. A call, its return and a jump, each in 16 bytes of its
 * own: more branches there take longer. */
#define BRANCHES(X)                                                                     \
    X(random, "imul %r8, %rax\n add %r10, %rax\n test %rax, %rax\n js 1f\n nop\n 1:\n") \
    X(steady, "imul %r8, %rax\n add %r10, %rax\n test %rax, %rax\n jo 1f\n nop\n 1:\n") \
    X(call, "call 1f\n .nops 11\n jmp 2f\n .nops 14\n 1: ret\n .nops 15\n 2:\n")

/* In lines of their own, and so few that all are near: a jump, one to where a register says, a call and a jump, and those with a return
 * between them. More in a line or in all take longer, differently from place to place. */
#define APART(X)                                                                         \
    X(jump, "lea 1f(%rip), %rbx\n jmp 1f\n .skip 55, 0x90\n 1:\n")                       \
    X(indirect, "lea 1f(%rip), %rbx\n jmp *%rbx\n .skip 55, 0x90\n 1:\n")                \
    X(called_apart, ".nops 59\n call 1f\n 1: pop %rbx\n jmp 2f\n .skip 61, 0x90\n 2:\n") \
    X(returned_apart, ".nops 59\n call 1f\n jmp 2f\n .skip 62, 0x90\n 1: ret\n .skip 63, 0x90\n 2:\n")

/* Strings of 1 and 3 KiB, copied by one instruction. Neither begins a line, as arrays seldom do. */
#define STRINGS(X) X(1024) X(3072)
#define STRINGS_CODE(bytes)                                                                                         \
    BODY(strings_##bytes,                                                                                           \
         "mov %rdi, %rbx\n lea 80(%rdi), %rsi\n lea 4128(%rdi), %rdi\n mov $" TEXT_OF(bytes) ", %ecx\n rep movsb\n" \
                                                                                             "mov $1, %ecx\n mov %rbx, %rdi\n")

/* Lists of X(count). So many pairs of a store and a load, whose addresses name two registers, the same one, or the stack pointer. */
#define PAIRS(X) X(4) X(8) X(12) X(16) X(20) X(24) X(28) X(32) X(40) X(64)
#define PAIRS_CODE(count) \
    BODY(pairs_##count, ".set i, 1\n .rept " #count "\n mov %rax, 8*i(%rdi)\n mov 8*i(%rbp), %rax\n .set i, i + 1\n .endr\n")
BODY(pairs_named, ".set i, 1\n .rept 64\n mov %rax, 8*i(%rdi)\n mov 8*i(%rdi), %rax\n .set i, i + 1\n .endr\n")
BODY(pairs_stack, ".rept 64\n push %rax\n pop %rax\n .endr\n")

/* A loop of so many slots that need no port, from byte 8 of a line of code on, or with its last two, three or four in the next line. */
#define LOOPS(X) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
#define LOOP_TURNS 2000
#define TEXT_OF(number) #number
#define MOVED(number) "mov $" TEXT_OF(number) ", %ebx"
#define LOOP_TEXT(skipped, slots) \
    MOVED(LOOP_TURNS) "\n .skip " #skipped " - 5, 0x90\n 1: .rept " #slots " - 1\n xor %edx, %edx\n .endr\n dec %ebx\n jnz 1b\n"
#define LOOPS_CODE(slots) BODY(fetch_##slots, LOOP_TEXT(8, slots))
BODY(fetch_across, LOOP_TEXT(58, 6))
BODY(fetch_across_later, LOOP_TEXT(56, 6))
BODY(fetch_across_sooner, LOOP_TEXT(60, 6))

/* The same loop of a few turns, over and over: where their number is foreseen, they cost no more in one line of code than in two. */
#define RUN_TURNS 12
#define RUN_TEXT(skipped, rest) \
    MOVED(RUN_TURNS) "\n .nops " #skipped " - 5\n 1: .rept 5\n xor %edx, %edx\n .endr\n dec %ebx\n jnz 1b\n .nops " #rest "\n"
BODY(turns_within, RUN_TEXT(8, 42) ".nops 64\n")
BODY(turns_across, RUN_TEXT(58, 56))

/* A line of code of so many instructions that take a slot and no port. */
#define LINES(X) X(5) X(6) X(8) X(10) X(11) X(12) X(14) X(15) X(16) X(17) X(18) X(20) X(21) X(22) X(23) X(24) X(26) X(28) X(30) X(32)
#define LINES_CODE(count)                                                                                   \
    BODY(lines_##count, ".set i, 0\n .rept " #count "\n .fill 64 * (i + 1) / " #count " - 64 * i / " #count \
                        " - 2, 1, 0x2e\n xor %ebx, %ebx\n .set i, i + 1\n .endr\n")

#define LATENCY_CODE(name, count, wide, cpu, text) BODY(latency_##name, text)
#define THROUGHPUT_CODE(name, count, wide, cpu, text) BODY(throughput_##name, text)
#define FORWARD_CODE(name, text) BODY(forward_##name, text)
#define MOVE_CODE(name, text) BODY(moves_##name, text)
#define BRANCH_CODE(name, text) BODY(branch_##name, text)
LATENCIES(LATENCY_CODE)
WIDE_LATENCIES(LATENCY_CODE)
FORWARDS(FORWARD_CODE)
MOVES(MOVE_CODE)
LOOPS(LOOPS_CODE)
BRANCHES(BRANCH_CODE)
APART(BRANCH_CODE)
PAIRS(PAIRS_CODE)
LINES(LINES_CODE)
STRINGS(STRINGS_CODE)
THROUGHPUTS(THROUGHPUT_CODE)

/* Fillers: a mix that runs out of no registers and no stores; what waits for the load before it; loads; stores; what takes a
 * register of one file each. */
BODY(w_mix, "or %r9, %r11\n por %xmm4, %xmm5\n or %r9, %r12\n por %xmm6, %xmm7\n mov %r9, -64(%rsp)\n")
BODY(w_wait_first, "lea (%rdi, %rcx), %r11")
BODY(w_wait_second, "lea (%rbp, %rcx), %r11")
BODY(w_load, "mov (%rsp), %r11")
BODY(w_store, "mov %r9, -64(%rsp)")
BODY(w_integer, "lea 1(%r9), %r11")
BODY(w_vector, "pshufd $0, %xmm4, %xmm5")
BODY(w_flags, "test %r9d, %r9d")

/* Jumps over the rest of 16 bytes, of 8, and of a line of code. */
BODY(j_jump, ".byte 0xeb, 14\n .skip 14, 0x90\n")
BODY(j_crowded, ".byte 0xeb, 6\n .skip 6, 0x90\n")
BODY(j_line, ".byte 0xeb, 62\n .skip 62, 0x90\n")

/* A loop of rbp turns. */
BODY(loop_begin, "mov %rbp, %rbx")
BODY(loop_slot, "nop")
BODY(loop_end, "dec %rbx\n .byte 0x0f, 0x85\n")

#define PIECE(name) {cv_begin_##name, cv_end_##name}
#define ROW(group, name, count, wide, cpu, copies) {#group "." #name, PIECE(group##_##name), count, wide, cpu, copies},
#define LATENCY(name, count, wide, cpu, text) ROW(latency, name, count, wide, cpu, 0)
#define THROUGHPUT(name, count, wide, cpu, text) ROW(throughput, name, count, wide, cpu, 0)
#define FORWARD(name, text) ROW(forward, name, 1, 0, 0, 0)
#define MOVE(name, text) ROW(moves, name, 2, 0, 0, 0)
#define BRANCH(name, text) ROW(branch, name, 1, 0, 0, 0)
#define FEW 16
#define BRANCH_APART(name, text) ROW(branch, name, 1, 0, 0, FEW)
#define LOOP(slots) ROW(fetch, slots, LOOP_TURNS, 0, 0, 1)
#define PAIR(count) ROW(pairs, count, count, 0, 0, 1)
#define LINE(count) ROW(lines, count, 1, 0, 0, 0)
#define STRING(bytes) ROW(strings, bytes, 1, 0, 0, 4)

/* clang-format off: a line for each list */
const struct cv_body cv_bodies[] = {LATENCIES(LATENCY) WIDE_LATENCIES(LATENCY) FORWARDS(FORWARD) ROW(forward, operand, 1, 0, 0, 1)
                                        MOVES(MOVE) LOOPS(LOOP) LOOP(across) LOOP(across_later) LOOP(across_sooner)
                                            ROW(turns, within, RUN_TURNS, 0, 0, FEW) ROW(turns, across, RUN_TURNS, 0, 0, FEW)
                                                BRANCHES(BRANCH) APART(BRANCH_APART) PAIRS(PAIR) ROW(pairs, named, 64, 0, 0, 1)
                                                    ROW(pairs, stack, 64, 0, 0, 1) LINES(LINE) STRINGS(STRING) THROUGHPUTS(THROUGHPUT)};
/* clang-format on */
const size_t cv_body_count = sizeof cv_bodies / sizeof *cv_bodies;

const struct cv_filler cv_fillers[] = {
    {"window.reorder_buffer", PIECE(w_mix), PIECE(w_mix), 5},
    {"window.scheduler", PIECE(w_wait_first), PIECE(w_wait_second), 1},
    {"window.load_buffer", PIECE(w_load), PIECE(w_load), 1},
    {"window.store_buffer", PIECE(w_store), PIECE(w_store), 1},
    {"window.integer_registers", PIECE(w_integer), PIECE(w_integer), 1},
    {"window.vector_registers", PIECE(w_vector), PIECE(w_vector), 1},
    {"window.flag_registers", PIECE(w_flags), PIECE(w_flags), 1},
};
const size_t cv_filler_count = sizeof cv_fillers / sizeof *cv_fillers;

const struct cv_jump cv_jumps[] = {{"front.jumps", PIECE(j_jump)}, {"front.crowded", PIECE(j_crowded)}, {"front.lines", PIECE(j_line)}};
const size_t cv_jump_count = sizeof cv_jumps / sizeof *cv_jumps;

const struct cv_piece cv_addition = PIECE(addition), cv_multiplication = PIECE(multiplication), cv_first_load = PIECE(first_load),
                      cv_second_load = PIECE(second_load), cv_loop_begin = PIECE(loop_begin), cv_loop_slot = PIECE(loop_slot),
                      cv_loop_end = PIECE(loop_end);

#else

const struct cv_body cv_bodies[] = {{0}};
const size_t cv_body_count = 0;
const struct cv_filler cv_fillers[] = {{0}};
const size_t cv_filler_count = 0;
const struct cv_jump cv_jumps[] = {{0}};
const size_t cv_jump_count = 0;
const struct cv_piece cv_addition = {0}, cv_multiplication = {0}, cv_first_load = {0}, cv_second_load = {0}, cv_loop_begin = {0},
                      cv_loop_slot = {0}, cv_loop_end = {0};

#endif
