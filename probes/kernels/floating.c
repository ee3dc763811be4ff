/* Floating-point instructions on registers: throughput by width (twelve independent chains) and latency (one chain).
 *
 * The constants come from volatile memory, so the compiler cannot see that they are neutral; without -ffast-math it may not
 * reorder the chains either. They are neutral (x + 0, x * 1, x / 1), so no value ever becomes a slow denormal or infinite.
 */
#include "kernels.h"
#include "walk.h"

static volatile double cv_zero = 0.0, cv_one = 1.0;

typedef double cv_d16 __attribute__((vector_size(16)));
typedef double cv_d32 __attribute__((vector_size(32)));
typedef double cv_d64 __attribute__((vector_size(64)));

/* Pins a value to a floating-point register between two steps: of 16 bytes, of 32, of 64. Other architectures than x86 run only
 * the kernels of 8 and 16 bytes; the wider ones must merely compile there. */
#if CV_X86
#define PIN(x) __asm__ volatile("" : "+x"(x));
#define PIN_32(x) PIN(x)
#define PIN_64(x) __asm__ volatile("" : "+v"(x));
#else
#if defined(__aarch64__)
#define PIN(x) __asm__ volatile("" : "+w"(x));
#else
#define PIN(x) __asm__ volatile("" : "+m"(x));
#endif
#define PIN_32(x) __asm__ volatile("" : "+m"(x));
#define PIN_64(x) PIN_32(x)
#endif

#define NEXT(x, formula) x = formula(x);
#define KEEP(x, keep) keep(x)
#define TWELVE(step, by)                                                                                                              \
    step(x0, by) step(x1, by) step(x2, by) step(x3, by) step(x4, by) step(x5, by) step(x6, by) step(x7, by) step(x8, by) step(x9, by) \
        step(x10, by) step(x11, by)

/* Twelve chains hide a latency of 4 cycles at up to three instructions a cycle and leave registers for the constants. */
#define THROUGHPUT(name, attributes, type, formula, keep)                         \
    attributes uint64_t cv_kernel_##name(struct cv_state *state, uint64_t wanted) \
    {                                                                             \
        const type zero = (type){0} + cv_zero, one = (type){0} + cv_one;          \
        type x0 = one, x1 = one, x2 = one, x3 = one, x4 = one, x5 = one;          \
        type x6 = one, x7 = one, x8 = one, x9 = one, x10 = one, x11 = one;        \
        uint64_t done = 0;                                                        \
        (void)state, (void)zero;                                                  \
        for (; done < wanted; done += 12) {                                       \
            TWELVE(NEXT, formula) TWELVE(KEEP, keep)                              \
        }                                                                         \
        return done;                                                              \
    }

#define ADD(x) ((x) + zero)
#define MULTIPLY(x) ((x) * one)
#define DIVIDE(x) ((x) / one)
#define FMA(x) ((x) * one + zero) /* contracted into one instruction: GCC's default for its own dialect of C */

THROUGHPUT(add, , double, ADD, PIN)
THROUGHPUT(multiply, , double, MULTIPLY, PIN)
THROUGHPUT(divide, , double, DIVIDE, PIN)
THROUGHPUT(fma, CV_TARGET("fma"), double, FMA, PIN)
THROUGHPUT(add_v16, , cv_d16, ADD, PIN)
THROUGHPUT(multiply_v16, , cv_d16, MULTIPLY, PIN)
THROUGHPUT(divide_v16, , cv_d16, DIVIDE, PIN)
THROUGHPUT(fma_v16, CV_TARGET("fma"), cv_d16, FMA, PIN)
THROUGHPUT(add_v32, CV_TARGET("avx2"), cv_d32, ADD, PIN_32)
THROUGHPUT(multiply_v32, CV_TARGET("avx2"), cv_d32, MULTIPLY, PIN_32)
THROUGHPUT(divide_v32, CV_TARGET("avx2"), cv_d32, DIVIDE, PIN_32)
THROUGHPUT(fma_v32, CV_TARGET("avx2,fma"), cv_d32, FMA, PIN_32)
THROUGHPUT(add_v64, CV_TARGET("avx512f"), cv_d64, ADD, PIN_64)
THROUGHPUT(multiply_v64, CV_TARGET("avx512f"), cv_d64, MULTIPLY, PIN_64)
THROUGHPUT(divide_v64, CV_TARGET("avx512f"), cv_d64, DIVIDE, PIN_64)
THROUGHPUT(fma_v64, CV_TARGET("avx512f"), cv_d64, FMA, PIN_64)

#define CHAINED(formula) NEXT(x, formula) PIN(x)
#define LATENCY(name, attributes, formula)                                                                                         \
    attributes uint64_t cv_kernel_##name(struct cv_state *state, uint64_t wanted)                                                  \
    {                                                                                                                              \
        const double zero = cv_zero, one = cv_one;                                                                                 \
        double x = one;                                                                                                            \
        uint64_t done = 0;                                                                                                         \
        (void)state, (void)zero;                                                                                                   \
        for (; done < wanted; done += 8) {                                                                                         \
            CHAINED(formula)                                                                                                       \
            CHAINED(formula) CHAINED(formula) CHAINED(formula) CHAINED(formula) CHAINED(formula) CHAINED(formula) CHAINED(formula) \
        }                                                                                                                          \
        return done;                                                                                                               \
    }

LATENCY(add_latency, , ADD)
LATENCY(multiply_latency, , MULTIPLY)
LATENCY(fma_latency, CV_TARGET("fma"), FMA)
