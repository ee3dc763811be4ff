/* Which policy a level has, and the memory that it needs. */
#include "policies.h"

#include "level.h"

const cv_policy *cv_policy_find(uint32_t policy, uint32_t ways)
{
    static const cv_policy *const policies[] = {[CV_SIM_LRU] = &cv_policy_lru,
                                                [CV_SIM_FIFO] = &cv_policy_fifo,
                                                [CV_SIM_RANDOM] = &cv_policy_random,
                                                [CV_SIM_SRRIP] = &cv_policy_srrip,
                                                [CV_SIM_TREE_PLRU] = &cv_policy_tree_plru,
                                                [CV_SIM_BIT_PLRU] = &cv_policy_bit_plru,
                                                [CV_SIM_DRRIP] = &cv_policy_drrip,
                                                [CV_SIM_NMRU] = &cv_policy_nmru};
    if (policy >= sizeof policies / sizeof *policies || (policy == CV_SIM_TREE_PLRU && (ways & (ways - 1))))
        return NULL;
    return policies[policy];
}

cv_status cv_policy_remember(const cv_policy *policy, cv_level *l)
{
    uint64_t lines = l->sets * l->ways;
    l->state = cv_table_alloc(l->sets, sizeof *l->state);
    l->ages = policy->memory ? cv_table_alloc(lines, 1) : NULL;
    if (!l->state || (policy->memory && !l->ages))
        return CV_ERROR_MEMORY;
    for (uint64_t i = 0; policy->memory == CV_POLICY_RANKS && i < lines; i++)
        l->ages[i] = (uint8_t)(i % l->ways);
    return CV_OK;
}

cv_status cv_policy_level(cv_level *l)
{
    const cv_policy *policy = cv_policy_find(l->policy, l->ways);
    if (!policy || !policy->run)
        return CV_ERROR_ARGUMENT;
    l->run = l->run_hits = policy->run;
    l->stride = l->ways;
    l->wide = true;
    l->line_limit = UINT64_MAX;
    uint64_t tags = l->sets * l->ways, *rows = cv_table_alloc(tags, sizeof *rows);
    l->rows = rows;
    if (!rows || cv_policy_remember(policy, l) != CV_OK)
        return CV_ERROR_MEMORY;
    for (uint64_t i = 0; i < tags; i++)
        rows[i] = WIDE_EMPTY;
    return CV_OK;
}
