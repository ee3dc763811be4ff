/* Tree pseudo-LRU: a binary tree over the ways (a power of two of them); each node's bit points to the half that was used less
 * recently. Node 1 is the root, node n has the children 2 n and 2 n + 1; the state has one bit a node. */
#define NAME(x) tree_plru_##x
#include "policy.h"

static inline void tree_plru_hit(cv_level *l, uint64_t set, uint32_t way)
{
    uint64_t state = l->state[set];
    for (uint32_t node = way + l->ways; node > 1; node /= 2) {
        uint64_t bit = UINT64_C(1) << (node / 2);
        state = node & 1 ? state & ~bit : state | bit; /* away from this child */
    }
    l->state[set] = state;
}

static inline void tree_plru_fill(cv_level *l, uint64_t set, uint32_t way) { tree_plru_hit(l, set, way); }

static inline uint32_t tree_plru_victim(cv_level *l, uint64_t set)
{
    uint32_t node = 1;
    while (node < l->ways)
        node = 2 * node + ((l->state[set] >> node) & 1);
    return node - l->ways;
}

POLICY(cv_policy_tree_plru, tree_plru, 0);
