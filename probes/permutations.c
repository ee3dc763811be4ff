#include "permutations.h"

#include "probe.h"

uint64_t cv_below(uint64_t *random, uint64_t limit)
{
    uint64_t x = *random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *random = x;
    /* The upper 32 bits are the better ones; working sets have fewer than 2^32 words. */
    return (x >> 32) * limit >> 32;
}

void cv_random_cycle(char *base, size_t bytes, uint32_t *scratch, uint64_t *random)
{
    const size_t lines = bytes / CV_LINE;
    for (size_t i = 0; i < lines; i++)
        scratch[i] = (uint32_t)i;
    for (size_t i = lines - 1; i > 0; i--) {
        const size_t other = cv_below(random, i);
        const uint32_t line = scratch[i];
        scratch[i] = scratch[other];
        scratch[other] = line;
    }
    for (size_t i = 0; i < lines; i++)
        *(void **)(base + i * CV_LINE) = base + scratch[i] * (size_t)CV_LINE;
}

void cv_sequential_cycle(char *base, size_t bytes)
{
    for (size_t offset = 0; offset < bytes; offset += CV_LINE)
        *(void **)(base + offset) = base + (offset + CV_LINE < bytes ? offset + CV_LINE : 0);
}
