/* A random way, from a hash of the set and how many lines it has given up: the same in every run, however the stream is cut or
 * shared out. */
#define NAME(x) random_##x
#include "policy.h"

static inline void random_hit(cv_level *l, uint64_t set, uint32_t way) {
    (void)l, (void)set, (void)way;
}

static inline void random_fill(cv_level *l, uint64_t set, uint32_t way) {
    (void)l, (void)set, (void)way;
}

static inline uint32_t random_victim(cv_level *l, uint64_t set) {
    uint64_t z = set * UINT64_C(0x9e3779b97f4a7c15) + ++l->state[set] * UINT64_C(0xd1b54a32d192ed03);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ (z >> 31)) % l->ways);
}

size_t cv_policy_random(cv_level *l, const uint64_t *in, size_t n, uint64_t *out) { return random_run(l, in, n, out); }
