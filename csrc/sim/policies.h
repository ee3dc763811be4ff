/* The replacement policies, one file each (policy.h says what a policy is made of). */
#ifndef CV_SIM_POLICIES_H
#define CV_SIM_POLICIES_H

#include "mix.h"
#include "sim.h"

/* What a policy remembers beside a word for each set. */
enum {
    CV_POLICY_AGES = 1, /* a byte for each way, 0 at first */
    CV_POLICY_RANKS = 2 /* a byte for each way, the way's number at first */
};

typedef struct {
    cv_level_run run; /* for the fast engine; NULL where that has something better */
    void (*hit)(cv_level *l, uint64_t set, uint32_t way);
    void (*fill)(cv_level *l, uint64_t set, uint32_t way);
    uint32_t (*victim)(cv_level *l, uint64_t set);
    uint32_t memory;
} cv_policy;

extern const cv_policy cv_policy_lru, cv_policy_fifo, cv_policy_random, cv_policy_tree_plru, cv_policy_bit_plru, cv_policy_srrip,
    cv_policy_drrip, cv_policy_nmru;

/* Find a policy for a number of ways; NULL when it is unknown or cannot have so many. */
const cv_policy *cv_policy_find(uint32_t policy, uint32_t ways);
/* Allocate what a policy remembers of l's sets; l->sets and l->ways are known. */
cv_status cv_policy_remember(const cv_policy *policy, cv_level *l);

/* Set up a level with a policy other than LRU; CV_ERROR_ARGUMENT when the policy is unknown or cannot have so many ways. */
cv_status cv_policy_level(cv_level *l);

/* A number that looks random: the same for the same seed, set and count. */
static inline uint64_t cv_policy_hash(const cv_level *l, uint64_t set, uint64_t count)
{
    return cv_mixed(set * UINT64_C(0x9e3779b97f4a7c15) + count * UINT64_C(0xd1b54a32d192ed03) + l->seed * UINT64_C(0x8bb84b93962eacc9));
}

#endif
