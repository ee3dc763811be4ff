/* Random updates of a table of 2 MiB; argument: how many. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t table[1 << 18];

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1000;
    uint64_t state = 88172645463325252u;
    for (long i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        table[state >> 46] += state;
    }
    printf("%llu\n", (unsigned long long)table[5]);
    return 0;
}
