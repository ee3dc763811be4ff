/* Integer instructions on registers: a mix of typical parallelism, a chain of one-cycle additions that shows the clock, and a loop of taken
 * branches that shows whether another thread runs on the core. */
#include "kernels.h"
#include "walk.h"

#define PIN(x) __asm__ volatile("" : "+r"(x));
#define STEPS(x)          \
    x += 0x55;            \
    PIN(x)                \
    x ^= 0x33;            \
    PIN(x)                \
    x = x << 7 | x >> 57; \
    PIN(x)                \
    x -= y;               \
    PIN(x)

/* Four chains of dependent add, xor, rotate, subtract. Compilers' code offers about this much parallelism: an unbounded mix would
 * run at the core's full width, which no real block does. */
uint64_t cv_kernel_instruction(struct cv_state *state, uint64_t wanted)
{
    uint64_t a = 1, b = 2, c = 3, d = 4, y = (uintptr_t)state;
    uint64_t done = 0;
    for (; done < wanted; done += 32) {
        STEPS(a) STEPS(b) STEPS(c) STEPS(d) STEPS(a) STEPS(b) STEPS(c) STEPS(d)
    }
    return done;
}

#define ADDITION \
    x += y;      \
    PIN(x)
/* Eight dependent additions: one cycle each on every CPU we know. */
uint64_t cv_kernel_cycle(struct cv_state *state, uint64_t wanted)
{
    uint64_t x = (uintptr_t)state, y = wanted;
    uint64_t done = 0;
    for (; done < wanted; done += 8) {
        ADDITION ADDITION ADDITION ADDITION ADDITION ADDITION ADDITION ADDITION
    }
    return done;
}

/* Turns of a loop of six instructions that lies in two lines of code. A busy sibling thread takes turns in the prediction of branches, so
 * that each takes twice as long, whatever the other thread does. */
uint64_t cv_kernel_branch(struct cv_state *state, uint64_t wanted)
{
    uint64_t left = wanted = wanted ? wanted : 1;
    (void)state;
#ifdef __x86_64__
    __asm__ volatile(".p2align 6\n .rept 58\n nop\n .endr\n"
                     "1: nop\n nop\n nop\n nop\n dec %0\n jnz 1b"
                     : "+r"(left)
                     :
                     : "cc");
#else
    while (--left)
        PIN(left)
#endif
    return wanted;
}
