/* Stages of one small program, about 20 ms; each macro makes another version of one of them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef MORE
#define MORE 0 /* percent of steps that chase does beyond the usual */
#endif
#ifdef FAR
enum { CHASED = 1 << 23 }; /* 32 MiB: beyond most caches */
#else
enum { CHASED = 40000 };
#endif
enum { COUNT = 40000, ROUNDS = 30, STEPS = 60000 };

__attribute__((noinline)) static void fill(uint32_t *a, int count)
{
    uint32_t x = 12345;
    for (int i = 0; i < count; i++)
        a[i] = (x = x * 1664525u + 1013904223u) >> 8;
}

__attribute__((noinline)) static double sum(const uint32_t *a, int count)
{
    double whole = 0;
    for (int i = 0; i < count; i++)
        whole += a[i];
    return whole;
}

__attribute__((noinline)) static uint32_t chase(const uint32_t *a, int count, int steps)
{
    uint32_t at = 0;
    for (int i = 0; i < steps; i++)
        at = a[at % (uint32_t)count] + (uint32_t)i;
    return at;
}

__attribute__((noinline)) static uint32_t mix(uint32_t *a, int count)
{
    uint32_t hash = 1;
    for (int i = 1; i < count; i++) {
        a[i] ^= a[i - 1] << 3;
#ifdef DIVIDE
        hash = 4000000000u / (hash | 1) + a[i];
#else
        hash = hash * 31 + a[i];
#endif
    }
    return hash;
}

__attribute__((noinline)) static uint32_t select_some(const uint32_t *a, int count)
{
    uint32_t found = 0;
    for (int i = 0; i < count; i++) {
#ifdef BRANCH
        if (a[i] & 64)
            __asm__ volatile("addl %1, %0" : "+r"(found) : "r"(a[i]));
#else
        found += a[i] & -(a[i] >> 6 & 1);
#endif
    }
    return found;
}

int main(void)
{
    uint32_t *a = malloc(COUNT * sizeof *a), *chased = malloc(CHASED * sizeof *chased), hash = 0;
    double whole = 0;
    if (!a || !chased)
        return 1;
    fill(chased, CHASED);
    for (int round = 0; round < ROUNDS; round++) {
        fill(a, COUNT);
        whole += sum(a, COUNT);
        hash += chase(chased, CHASED, STEPS / 100 * (100 + MORE)) + select_some(a, COUNT) + mix(a, COUNT);
    }
    printf("%g %u\n", whole, hash);
    free(a);
    free(chased);
    return 0;
}
