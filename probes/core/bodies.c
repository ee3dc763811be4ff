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

/* Latencies: each instruction waits for the one before. */
BODY(l_shift, "rol $7, %rax")
BODY(l_multiply, "imul %r8, %rax")
BODY(l_count, "popcnt %rax, %rax")
BODY(l_byte_swap, "bswap %rax")
BODY(l_carry, "adc %rcx, %rax")
BODY(l_conditional, "cmovc %rcx, %rax")
BODY(l_lea_scaled, "lea (%rcx, %rax, 2), %rax")
BODY(l_lea_parts, "lea 8(%rcx, %rax), %rax")
BODY(l_lea_slow, "lea 8(%rcx, %rax, 2), %rax")
BODY(l_lea_base, "lea 8(%rax, %rcx), %rax")
BODY(l_divide_32, "xor %edx, %edx\n div %ecx\n")
BODY(l_divide_64, "xor %edx, %edx\n div %rcx\n")
BODY(l_fp_add, "addsd %xmm1, %xmm0\n")
BODY(l_fp_add_multiply, "addsd %xmm1, %xmm0\n mulsd %xmm2, %xmm0\n")
BODY(l_fp_multiply, "mulsd %xmm1, %xmm0\n mulsd %xmm2, %xmm0\n")
BODY(l_fp_fma, "vfmadd213sd %xmm1, %xmm2, %xmm0")
BODY(l_fp_minmax, "maxsd %xmm1, %xmm0")
BODY(l_fp_cmp, "cmpltsd %xmm1, %xmm0")
BODY(l_fp_round, "roundsd $0, %xmm0, %xmm0")
BODY(l_divide_double, "divsd %xmm1, %xmm0\n divsd %xmm2, %xmm0\n")
BODY(l_divide_double_32, "vdivpd %ymm1, %ymm0, %ymm0\n vdivpd %ymm2, %ymm0, %ymm0\n")
BODY(l_root_double, "sqrtsd %xmm0, %xmm0\n mulsd %xmm3, %xmm0\n")
BODY(l_divide_single, "divss %xmm1, %xmm0\n divss %xmm2, %xmm0\n")
BODY(l_v_integer, "paddd %xmm1, %xmm0")
BODY(l_v_logic, "pand %xmm1, %xmm0")
BODY(l_v_shift, "pslld $1, %xmm0")
BODY(l_v_multiply, "pmuludq %xmm1, %xmm0")
BODY(l_v_multiply_long, "pmulld %xmm1, %xmm0")
BODY(l_v_shuffle, "pshufd $27, %xmm0, %xmm0")
BODY(l_v_shuffle_fp, "unpcklpd %xmm1, %xmm0")
BODY(l_v_lanes, "vperm2f128 $1, %ymm0, %ymm0, %ymm0")
BODY(l_v_blend, "vblendvpd %ymm2, %ymm1, %ymm0, %ymm0")
BODY(l_to_and_fro, "movq %xmm0, %rax\n movq %rax, %xmm0\n")
BODY(l_convert_to_and_fro, "cvttsd2si %xmm0, %rax\n cvtsi2sd %rax, %xmm0\n")
BODY(l_move_and_convert, "movq %xmm0, %rax\n cvtsi2sd %rax, %xmm0\n")
BODY(l_compare_and_move, "ucomisd %xmm0, %xmm1\n sbb %rax, %rax\n movq %rax, %xmm0\n")
BODY(l_load, "mov (%rdi), %rdi")
BODY(l_load_indexed, "mov (%r9, %rdi), %rdi")
BODY(l_load_compound, "mov (%rdi, %r9, 8), %rdi")
BODY(l_vector_load, "movq (%rdi), %xmm0\n movq %xmm0, %rdi\n")

/* A store that the load after it reads: plain address, with an index, as a vector, and one that no single store holds. */
BODY(f_plain, "mov %rax, 8(%rdi)\n mov 8(%rdi), %rax\n")
BODY(f_indexed, "mov %rax, 8(%rdi, %r9)\n mov 8(%rdi, %r9), %rax\n")
BODY(f_vector, "movaps %xmm0, 16(%rdi)\n movaps 16(%rdi), %xmm0\n")
/* A store and the addition that reads it. */
BODY(f_operand, "add 8(%rdi), %rax\n mov %rax, 8(%rdi)\n")
BODY(f_failed, "mov %eax, 8(%rdi)\n mov %eax, 12(%rdi)\n mov 8(%rdi), %rax\n")

/* So many pairs of a store and a load, whose addresses name two registers, the same one, or the stack pointer. */
#define PAIR(count) BODY(p_##count, ".set i, 1\n .rept " #count "\n mov %rax, 8*i(%rdi)\n mov 8*i(%rbp), %rax\n .set i, i + 1\n .endr\n")
PAIR(4)
PAIR(8)
PAIR(12)
PAIR(16)
PAIR(20)
PAIR(24)
PAIR(28)
PAIR(32)
PAIR(40)
PAIR(64)
BODY(p_named, ".set i, 1\n .rept 64\n mov %rax, 8*i(%rdi)\n mov 8*i(%rdi), %rax\n .set i, i + 1\n .endr\n")
BODY(p_stack, ".rept 64\n push %rax\n pop %rax\n .endr\n")

/* Moves between registers, each of what the one before gave: renamed, they take no time of their own. */
BODY(m_general, "mov %rax, %rbx\n mov %rbx, %rax\n")
BODY(m_vector, "movaps %xmm0, %xmm4\n movaps %xmm4, %xmm0\n")

/* A loop of so many slots that need no port, from byte 8 of a line of code on, or with its last three in the next line. */
#define LOOP_TURNS 2000
#define TEXT_OF(number) #number
#define MOVED(number) "mov $" TEXT_OF(number) ", %ebx"
#define LOOP_TEXT(skipped, slots) \
    MOVED(LOOP_TURNS) "\n .skip " #skipped " - 5, 0x90\n 1: .rept " #slots " - 1\n xor %edx, %edx\n .endr\n dec %ebx\n jnz 1b\n"
#define LOOP(slots) BODY(e_##slots, LOOP_TEXT(8, slots))
LOOP(2)
LOOP(3)
LOOP(4)
LOOP(5)
LOOP(6)
LOOP(7)
LOOP(8)
LOOP(9)
LOOP(10)
LOOP(11)
LOOP(12)
LOOP(13)
LOOP(14)
LOOP(15)
LOOP(16)
BODY(e_across, LOOP_TEXT(58, 6))

/* A random number decides the branch, or it is never taken; both go the same way. */
BODY(b_random, "imul %r8, %rax\n add %r10, %rax\n test %rax, %rax\n js 1f\n nop\n 1:\n")
/* A call, its return and a jump, each in 16 bytes of its own: more branches there take longer. */
BODY(b_call, "call 1f\n .nops 11\n jmp 2f\n .nops 14\n 1: ret\n .nops 15\n 2:\n")
/* A call and a jump in a line of code, without and with a return between them. */
BODY(b_called, "call 1f\n .skip 27, 0x90\n 1: lea 8(%rsp), %rsp\n jmp 2f\n .skip 25, 0x90\n 2:\n")
BODY(b_returned, "call 1f\n jmp 2f\n .skip 25, 0x90\n 1: ret\n .skip 31, 0x90\n 2:\n")
BODY(b_steady, "imul %r8, %rax\n add %r10, %rax\n test %rax, %rax\n jo 1f\n nop\n 1:\n")

/* Throughputs: no instruction waits for another of the piece. */
BODY(t_slot, ".rept 8\n .byte 0x0f, 0x1f, 0x40, 0x00\n .endr\n")
BODY(t_alu, GENERAL("xor %rcx, %\\r"))
BODY(t_shift, GENERAL("rol $7, %\\r"))
BODY(t_multiply, GENERAL("imul %rcx, %\\r"))
BODY(t_count, GENERAL("popcnt %rcx, %\\r"))
BODY(t_conditional, GENERAL("cmovc %rcx, %\\r"))
BODY(t_lea_slow, GENERAL("lea 8(%rcx, %r9, 2), %\\r"))
BODY(t_divide_32, ".rept 4\n mov %r8d, %eax\n xor %edx, %edx\n div %ecx\n .endr\n")
BODY(t_divide_64, ".rept 4\n mov %r8, %rax\n xor %edx, %edx\n div %rcx\n .endr\n")
BODY(t_load, "mov (%rdi), %rbx\n mov 72(%rdi), %rdx\n mov 144(%rdi), %rsi\n mov 216(%rdi), %r11\n mov 288(%rdi), %r12\n"
             "mov 360(%rdi), %r13\n mov 432(%rdi), %r14\n mov 504(%rdi), %r15\n")
BODY(t_store, ".irp r, 0, 8, 16, 24, 32, 40, 48, 56\n mov %rax, 64+\\r(%rdi)\n .endr\n")
BODY(t_store_split, ".irp r, 60, 124, 188, 252, 60, 124, 188, 252\n mov %rax, 64+\\r(%rdi)\n .endr\n")
BODY(t_store_16, ".irp r, 0, 16, 32, 48, 0, 16, 32, 48\n movups %xmm0, 64+\\r(%rdi)\n .endr\n")
BODY(t_load_16, VECTORS("movups 64(%rdi), %xmm\\r"))
BODY(t_load_32, VECTORS("vmovups 64(%rdi), %ymm\\r"))
BODY(t_load_64, VECTORS("vmovups 64(%rdi), %zmm\\r"))
BODY(t_fp_add, VECTORS("addsd %xmm1, %xmm\\r"))
BODY(t_fp_multiply, VECTORS("mulsd %xmm0, %xmm\\r"))
BODY(t_fp_fma_32, VECTORS("vfmadd213pd %ymm1, %ymm2, %ymm\\r"))
BODY(t_fp_minmax, VECTORS("maxsd %xmm1, %xmm\\r"))
BODY(t_root_double, VECTORS("sqrtsd %xmm1, %xmm\\r"))
BODY(t_root_double_16, VECTORS("sqrtpd %xmm1, %xmm\\r"))
BODY(t_root_double_32, VECTORS("vsqrtpd %ymm1, %ymm\\r"))
BODY(t_divide_single, VECTORS("vdivss %xmm1, %xmm0, %xmm\\r"))
BODY(t_v_integer, VECTORS("paddd %xmm1, %xmm\\r"))
BODY(t_v_logic, VECTORS("pand %xmm1, %xmm\\r"))
BODY(t_v_shift, VECTORS("pslld $1, %xmm\\r"))
BODY(t_v_multiply, VECTORS("pmuludq %xmm1, %xmm\\r"))
BODY(t_v_multiply_long, VECTORS("pmulld %xmm1, %xmm\\r"))
BODY(t_v_shuffle, VECTORS("pshufd $27, %xmm1, %xmm\\r"))
BODY(t_v_lanes, VECTORS("vperm2f128 $1, %ymm1, %ymm1, %ymm\\r"))

/* A line of code of so many instructions that take a slot and no port. */
#define LINE(count)                                                                                     \
    BODY(n_##count, ".set i, 0\n .rept " #count "\n .fill 64 * (i + 1) / " #count " - 64 * i / " #count \
                    " - 2, 1, 0x2e\n xor %ebx, %ebx\n .set i, i + 1\n .endr\n")
LINE(5)
LINE(6)
LINE(8)
LINE(10)
LINE(11)
LINE(12)
LINE(14)
LINE(15)
LINE(16)
LINE(17)
LINE(18)
LINE(20)
LINE(21)
LINE(22)
LINE(23)
LINE(24)
LINE(26)
LINE(28)
LINE(30)
LINE(32)

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

static int cv_has_fma(void) { return __builtin_cpu_supports("fma"); }
static int cv_has_avx(void) { return __builtin_cpu_supports("avx"); }
static int cv_has_avx512(void) { return __builtin_cpu_supports("avx512f"); }
static int cv_has_count(void) { return __builtin_cpu_supports("popcnt"); }
static int cv_has_sse4(void) { return __builtin_cpu_supports("sse4.1"); }

#define PIECE(name) {cv_begin_##name, cv_end_##name}
#define LATENCY(name, count, avx, cpu) {"latency." #name, PIECE(l_##name), count, avx, cpu, 0}
#define LINES(count) {"lines." #count, PIECE(n_##count), 1, 0, 0, 0}
#define PAIRS(name, count) {"pairs." #name, PIECE(p_##name), count, 0, 0, 1}
#define TURNS(name) {"fetch." #name, PIECE(e_##name), LOOP_TURNS, 0, 0, 1}
#define THROUGHPUT(name, count, avx, cpu) {"throughput." #name, PIECE(t_##name), count, avx, cpu, 0}

const struct cv_body cv_bodies[] = {
    LATENCY(shift, 1, 0, 0),
    LATENCY(multiply, 1, 0, 0),
    LATENCY(count, 1, 0, cv_has_count),
    LATENCY(byte_swap, 1, 0, 0),
    LATENCY(carry, 1, 0, 0),
    LATENCY(conditional, 1, 0, 0),
    LATENCY(lea_scaled, 1, 0, 0),
    LATENCY(lea_parts, 1, 0, 0),
    LATENCY(lea_slow, 1, 0, 0),
    LATENCY(lea_base, 1, 0, 0),
    LATENCY(divide_32, 1, 0, 0),
    LATENCY(divide_64, 1, 0, 0),
    LATENCY(fp_add, 1, 0, 0),
    LATENCY(fp_add_multiply, 1, 0, 0),
    LATENCY(fp_multiply, 2, 0, 0),
    LATENCY(fp_fma, 1, 0, cv_has_fma),
    LATENCY(fp_minmax, 1, 0, 0),
    LATENCY(fp_cmp, 1, 0, 0),
    LATENCY(fp_round, 1, 0, cv_has_sse4),
    LATENCY(divide_double, 2, 0, 0),
    LATENCY(divide_double_32, 2, 1, cv_has_avx),
    LATENCY(root_double, 1, 0, 0),
    LATENCY(divide_single, 2, 0, 0),
    LATENCY(v_integer, 1, 0, 0),
    LATENCY(v_logic, 1, 0, 0),
    LATENCY(v_shift, 1, 0, 0),
    LATENCY(v_multiply, 1, 0, 0),
    LATENCY(v_multiply_long, 1, 0, cv_has_sse4),
    LATENCY(v_shuffle, 1, 0, 0),
    LATENCY(v_shuffle_fp, 1, 0, 0),
    LATENCY(v_lanes, 1, 1, cv_has_avx),
    LATENCY(v_blend, 1, 1, cv_has_avx),
    LATENCY(to_and_fro, 1, 0, 0),
    LATENCY(convert_to_and_fro, 1, 0, 0),
    LATENCY(move_and_convert, 1, 0, 0),
    LATENCY(compare_and_move, 1, 0, 0),
    LATENCY(load, 1, 0, 0),
    LATENCY(load_indexed, 1, 0, 0),
    LATENCY(load_compound, 1, 0, 0),
    LATENCY(vector_load, 1, 0, 0),
    {"forward.plain", PIECE(f_plain), 1, 0, 0, 0},
    {"forward.indexed", PIECE(f_indexed), 1, 0, 0, 0},
    {"forward.vector", PIECE(f_vector), 1, 0, 0, 0},
    {"forward.failed", PIECE(f_failed), 1, 0, 0, 0},
    {"forward.operand", PIECE(f_operand), 1, 0, 0, 1},
    {"moves.general", PIECE(m_general), 2, 0, 0, 0},
    {"moves.vector", PIECE(m_vector), 2, 0, 0, 0},
    TURNS(2),
    TURNS(3),
    TURNS(4),
    TURNS(5),
    TURNS(6),
    TURNS(7),
    TURNS(8),
    TURNS(9),
    TURNS(10),
    TURNS(11),
    TURNS(12),
    TURNS(13),
    TURNS(14),
    TURNS(15),
    TURNS(16),
    TURNS(across),
    {"branch.random", PIECE(b_random), 1, 0, 0, 0},
    {"branch.steady", PIECE(b_steady), 1, 0, 0, 0},
    {"branch.call", PIECE(b_call), 1, 0, 0, 0},
    {"branch.called", PIECE(b_called), 1, 0, 0, 0},
    {"branch.returned", PIECE(b_returned), 1, 0, 0, 0},
    PAIRS(4, 4),
    PAIRS(8, 8),
    PAIRS(12, 12),
    PAIRS(16, 16),
    PAIRS(20, 20),
    PAIRS(24, 24),
    PAIRS(28, 28),
    PAIRS(32, 32),
    PAIRS(40, 40),
    PAIRS(64, 64),
    PAIRS(named, 64),
    PAIRS(stack, 64),
    LINES(5),
    LINES(6),
    LINES(8),
    LINES(10),
    LINES(11),
    LINES(12),
    LINES(14),
    LINES(15),
    LINES(16),
    LINES(17),
    LINES(18),
    LINES(20),
    LINES(21),
    LINES(22),
    LINES(23),
    LINES(24),
    LINES(26),
    LINES(28),
    LINES(30),
    LINES(32),
    THROUGHPUT(slot, 8, 0, 0),
    THROUGHPUT(alu, 8, 0, 0),
    THROUGHPUT(shift, 8, 0, 0),
    THROUGHPUT(multiply, 8, 0, 0),
    THROUGHPUT(count, 8, 0, cv_has_count),
    THROUGHPUT(conditional, 8, 0, 0),
    THROUGHPUT(lea_slow, 8, 0, 0),
    THROUGHPUT(divide_32, 4, 0, 0),
    THROUGHPUT(divide_64, 4, 0, 0),
    THROUGHPUT(load, 8, 0, 0),
    THROUGHPUT(store, 8, 0, 0),
    THROUGHPUT(store_split, 8, 0, 0),
    THROUGHPUT(store_16, 8, 0, 0),
    THROUGHPUT(load_16, 12, 0, 0),
    THROUGHPUT(load_32, 12, 1, cv_has_avx),
    THROUGHPUT(load_64, 12, 1, cv_has_avx512),
    THROUGHPUT(fp_add, 12, 0, 0),
    THROUGHPUT(fp_multiply, 12, 0, 0),
    THROUGHPUT(fp_fma_32, 12, 1, cv_has_fma),
    THROUGHPUT(fp_minmax, 12, 0, 0),
    THROUGHPUT(root_double, 12, 0, 0),
    THROUGHPUT(root_double_16, 12, 0, 0),
    THROUGHPUT(root_double_32, 12, 1, cv_has_avx),
    THROUGHPUT(divide_single, 12, 1, cv_has_avx),
    THROUGHPUT(v_integer, 12, 0, 0),
    THROUGHPUT(v_logic, 12, 0, 0),
    THROUGHPUT(v_shift, 12, 0, 0),
    THROUGHPUT(v_multiply, 12, 0, 0),
    THROUGHPUT(v_multiply_long, 12, 0, cv_has_sse4),
    THROUGHPUT(v_shuffle, 12, 0, 0),
    THROUGHPUT(v_lanes, 12, 1, cv_has_avx),
};
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
