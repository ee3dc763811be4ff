/* All packed fused multiply-adds, of registers and memory, in chains, with equal operands; prints a checksum of all results.
 * gcc -mavx2 -mfma */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static unsigned char in[4][32] __attribute__((aligned(32))), out[32] __attribute__((aligned(32)));
static uint64_t sum = 1;

static void take(void)
{
    uint32_t words[8];
    memcpy(words, out, 32);
    for (int i = 0; i < 8; i++)
        sum = (sum ^ (words[i] == 0x80000000u ? 0 : words[i])) * 0x9E3779B97F4A7C15u + (sum >> 17);
}

#define RUN(code)                                                                                                           \
    do {                                                                                                                    \
        __asm__ volatile("vmovups %1, %%ymm0; vmovups %2, %%ymm1; vmovups %3, %%ymm2; " code "; vmovups %%ymm0, %0"         \
                         : "=m"(out) : "m"(in[0]), "m"(in[1]), "m"(in[2]), "m"(in[3]) : "xmm0", "xmm1", "xmm2", "xmm3");    \
        take();                                                                                                             \
    } while (0)

/* Neither NaN nor minus zero counts: their signs differ between the processor and Valgrind. */
#define OF(op, type, r)                                                                                                           \
    RUN(op " %%" r "2, %%" r "1, %%" r "0");                                                                                \
    RUN(op " %4, %%" r "1, %%" r "0");                                                                                      \
    RUN(op " %%" r "0, %%" r "0, %%" r "0");                                                                                \
    RUN(op " %%" r "2, %%" r "1, %%" r "0; " op " %4, %%" r "0, %%" r "1; " op " %%" r "1, %%" r "0, %%" r "0");            \
    RUN(op " %%" r "2, %%" r "1, %%" r "0; vmovups %%ymm0, %%ymm3; " op " %%" r "3, %%" r "0, %%" r "1;"                    \
           "vaddp" type " %%ymm1, %%ymm3, %%ymm0; " op " %4, %%" r "0, %%" r "0");                                                 \
    RUN(op " %%" r "2, %%" r "1, %%" r "0; vextractf128 $1, %%ymm0, %%xmm3; vmovs" type " %%xmm3, %%xmm1, %%xmm1; "         \
           op " %%" r "1, %%" r "3, %%" r "0");

#define KINDS(name, width, type, r)                                                                                         \
    OF("v" name "132" width type, type, r) OF("v" name "213" width type, type, r) OF("v" name "231" width type, type, r)

#define ALL(width, type, r)                                                                                                 \
    KINDS("fmadd", width, type, r) KINDS("fmsub", width, type, r)                                                           \
    KINDS("fnmadd", width, type, r) KINDS("fnmsub", width, type, r)

__attribute__((noinline)) static void doubles(void)
{
    ALL("p", "d", "ymm") ALL("p", "d", "xmm")
    KINDS("fmaddsub", "p", "d", "ymm") KINDS("fmsubadd", "p", "d", "xmm")
}

__attribute__((noinline)) static void singles(void)
{
    ALL("p", "s", "ymm") ALL("p", "s", "xmm")
    KINDS("fmsubadd", "p", "s", "ymm") KINDS("fmaddsub", "p", "s", "xmm")
}

int main(void)
{
    for (int round = 0; round < 8; round++) {
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 4; i++) {
                double d = (1.0 + 0.37 * k - 0.21 * i) * (round % 2 ? -1 : 1) * (1 + round * 1e-9);
                float f[2] = {(float)d, (float)(d * 1.7 - 0.3)};
                memcpy(in[k] + 8 * i, round < 4 ? (void *)&d : (void *)f, 8);
            }
        (round < 4 ? doubles : singles)();
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
