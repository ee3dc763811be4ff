/* Random updates of a table of 32 MiB. Usage: gups [millions of updates] */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N (1u << 22)

static uint64_t table[N];

__attribute__((noinline)) static void update(uint64_t n)
{
    uint64_t state = 88172645463325252u;
    for (uint64_t i = 0; i < n; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        table[state & (N - 1)] ^= state;
    }
}

int main(int argc, char **argv)
{
    update((argc > 1 ? atoi(argv[1]) : 10) * 1000000ull);
    printf("%llx\n", (unsigned long long)table[N / 2]);
    return 0;
}
