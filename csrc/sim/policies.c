/* Which policy a level has. */
#include "policies.h"

#include "level.h"

static cv_level_run run_of(uint32_t policy) {
    switch (policy) {
    case CV_SIM_FIFO: return cv_policy_fifo;
    case CV_SIM_RANDOM: return cv_policy_random;
    case CV_SIM_TREE_PLRU: return cv_policy_tree_plru;
    case CV_SIM_BIT_PLRU: return cv_policy_bit_plru;
    case CV_SIM_SRRIP: return cv_policy_srrip;
    default: return NULL;
    }
}

cv_status cv_policy_level(cv_level *l) {
    l->run = l->run_hits = run_of(l->policy);
    if (!l->run || (l->policy == CV_SIM_TREE_PLRU && (l->ways & (l->ways - 1))))
        return CV_ERROR_ARGUMENT;
    l->stride = l->ways;
    l->wide = true;
    l->line_limit = UINT64_MAX;
    uint64_t tags = l->sets * l->ways, *rows = cv_table_alloc(tags, sizeof *rows);
    l->rows = rows;
    l->state = cv_table_alloc(l->sets, sizeof *l->state);
    l->ages = l->policy == CV_SIM_SRRIP ? cv_table_alloc(tags, 1) : NULL;
    if (!rows || !l->state || (l->policy == CV_SIM_SRRIP && !l->ages))
        return CV_ERROR_MEMORY;
    for (uint64_t i = 0; i < tags; i++)
        rows[i] = WIDE_EMPTY;
    return CV_OK;
}
