/* All fused multiply-adds, of registers and memory, in chains, with equal operands; prints a checksum of all results.
 * gcc -mavx2 -mfma */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static unsigned char in[4][32] __attribute__((aligned(32))), out[32] __attribute__((aligned(32)));
static uint64_t sum = 1;
static int words_taken;

static int is_nan(void)
{
    double number;
    float single;
    memcpy(&number, out, 8);
    memcpy(&single, out, 4);
    return words_taken == 2 ? number != number : words_taken == 1 && single != single;
}

static void take(void)
{
    uint32_t words[8] = {1, 1};
    if (!is_nan())
        memcpy(words, out, 32);
    for (int i = 0; i < words_taken; i++)
        sum = (sum ^ (words[i] == 0x80000000u ? 0 : words[i])) * 0x9E3779B97F4A7C15u + (sum >> 17);
}

#define RUN(code)                                                                                                   \
    do {                                                                                                            \
        __asm__ volatile("vmovups %1, %%ymm0; vmovups %2, %%ymm1; vmovups %3, %%ymm2; " code "; vmovups %%ymm0, %0" \
                         : "=m"(out)                                                                                \
                         : "m"(in[0]), "m"(in[1]), "m"(in[2]), "m"(in[3])                                           \
                         : "xmm0", "xmm1", "xmm2", "xmm3");                                                         \
        take();                                                                                                     \
    } while (0)

/* Neither NaN nor minus zero counts: their signs differ between the processor and Valgrind. */
#define OF(op, type, r)                                                                                                                  \
    RUN(op " %%" r "2, %%" r "1, %%" r "0");                                                                                             \
    RUN(op " %4, %%" r "1, %%" r "0");                                                                                                   \
    RUN(op " %%" r "0, %%" r "0, %%" r "0");                                                                                             \
    RUN(op " %%" r "2, %%" r "1, %%" r "0; " op " %4, %%" r "0, %%" r "1; " op " %%" r "1, %%" r "0, %%" r "0");                         \
    RUN(op " %%" r "2, %%" r "1, %%" r "0; vmovups %%ymm0, %%ymm3; " op " %%" r "3, %%" r "0, %%" r "1;"                                 \
           "vaddp" type " %%ymm1, %%ymm3, %%ymm0; " op " %4, %%" r "0, %%" r "0");                                                       \
    RUN(op " %%" r "2, %%" r "1, %%" r "0; vextractf128 $1, %%ymm0, %%xmm3; vmovs" type " %%xmm3, %%xmm1, %%xmm1; " op " %%" r "1, %%" r \
           "3, %%" r "0");

#define KINDS(name, width, type, r) \
    OF("v" name "132" width type, type, r) OF("v" name "213" width type, type, r) OF("v" name "231" width type, type, r)

#define ALL(width, type, r) \
    KINDS("fmadd", width, type, r) KINDS("fmsub", width, type, r) KINDS("fnmadd", width, type, r) KINDS("fnmsub", width, type, r)

__attribute__((noinline)) static void doubles(void)
{
    ALL("p", "d", "ymm") ALL("p", "d", "xmm") KINDS("fmaddsub", "p", "d", "ymm") KINDS("fmsubadd", "p", "d", "xmm")
}

__attribute__((noinline)) static void singles(void)
{
    ALL("p", "s", "ymm") ALL("p", "s", "xmm") KINDS("fmsubadd", "p", "s", "ymm") KINDS("fmaddsub", "p", "s", "xmm")
}

/* Their upper lanes, which Valgrind clears and the processor keeps, are not looked at. */
__attribute__((noinline)) static void one_double(void) { ALL("s", "d", "xmm") }

__attribute__((noinline)) static void one_single(void) { ALL("s", "s", "xmm") }

/* What rounds, overflows and underflows in ways of its own: only once are product and sum rounded, and no result is flushed to zero. */
static void extremes(void (*forms)(void), int words, const void *numbers, int bytes)
{
    words_taken = words;
    for (int first = 0; first < 4; first++) {
        for (int k = 0; k < 4; k++)
            memcpy(in[k], (const char *)numbers + bytes * ((first + k) % 4), bytes);
        forms();
    }
}

int main(void)
{
    static const double doubles_of[] = {1 + 0x1p-52, -1 - 0x1p-51, 0x1.8p-1074, 0x1.fp+600};
    static const float singles_of[] = {1 + 0x1p-23f, -1 - 0x1p-22f, 0x1.8p-148f, 0x1.fp+100f};
    for (int round = 0; round < 8; round++) {
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 4; i++) {
                double d = (1.0 + 0.37 * k - 0.21 * i) * (round % 2 ? -1 : 1) * (1 + round * 1e-9);
                float f[2] = {(float)d, (float)(d * 1.7 - 0.3)};
                memcpy(in[k] + 8 * i, round < 4 ? (void *)&d : (void *)f, 8);
            }
        words_taken = 8;
        (round < 4 ? doubles : singles)();
        words_taken = round < 4 ? 2 : 1;
        (round < 4 ? one_double : one_single)();
    }
    extremes(one_double, 2, doubles_of, 8);
    extremes(one_single, 1, singles_of, 4);
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
