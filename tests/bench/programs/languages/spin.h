/* Work of so many turns that nobody may move, share or leave out. */
#ifndef SPIN_H
#define SPIN_H

static __attribute__((noinline)) double spin(long turns)
{
    double x = 1;
    __asm__ volatile("" ::: "memory");
    for (long i = 0; i < turns; i++)
        x = x * 0.99999 + 1e-9;
    __asm__ volatile("" : : "x"(x)); /* nor a result that nobody reads */
    return x;
}

#endif
