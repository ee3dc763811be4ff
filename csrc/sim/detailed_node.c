/* Geometry and memory of one level. */
#include "detailed.h"

static bool is_power_of_two(uint64_t x) { return x && (x & (x - 1)) == 0; }

static bool is_possible(const cv_detailed_level *is)
{
    return is->sets >= 1 && is->sets <= CV_SIM_MAX_SETS && is->ways >= 1 && is->ways <= CV_SIM_MAX_WAYS &&
           is_power_of_two(is->line_bytes) && is->line_bytes >= 8 && is->line_bytes <= CV_DETAILED_MAX_LINE &&
           is_power_of_two(is->sector_bytes) && is->sector_bytes >= 8 && is->sector_bytes <= is->line_bytes &&
           is->line_bytes / is->sector_bytes <= 64 && is->inclusion <= CV_VICTIM;
}

/* Slices divide the sets evenly, and each way of finding a set fits its number. */
static bool has_index(const cv_detailed_level *is)
{
    bool sliced = is->slices >= 1 && is->sets % is->slices == 0;
    switch (is->index) {
    case CV_INDEX_MODULO: return is->slices == 1;
    case CV_INDEX_XOR:
    case CV_INDEX_PAGE_FRAMES: return is->slices == 1 && is_power_of_two(is->sets);
    case CV_INDEX_INTEL_SLICES: return sliced && (is->slices == 2 || is->slices == 4 || is->slices == 8);
    case CV_INDEX_MIXED_SLICES: return sliced;
    default: return false;
    }
}

/* What a level asks of the one above it. */
static bool fits_above(const cv_node *n, const cv_detailed_level *above, bool first)
{
    bool same = !first && above->line_bytes == n->is.line_bytes && above->sector_bytes == n->is.sector_bytes;
    return !n->takes_victims || (same && !above->write_through && !n->is.write_through);
}

cv_status cv_node_new(cv_node *n, const cv_detailed_level *is, const cv_detailed_level *above)
{
    n->is = *is;
    if (!is_possible(is) || !has_index(is))
        return CV_ERROR_ARGUMENT;
    n->takes_victims = is->inclusion == CV_EXCLUSIVE || is->inclusion == CV_VICTIM;
    n->stores_allocate = !is->no_allocate && !n->takes_victims;
    if (!fits_above(n, above, above == NULL) || !(n->policy = cv_policy_find(is->policy, is->ways)))
        return CV_ERROR_ARGUMENT;
    n->line_shift = (uint32_t)__builtin_ctzll(is->line_bytes);
    n->sector_shift = (uint32_t)__builtin_ctzll(is->sector_bytes);
    n->set_bits = is_power_of_two(is->sets) ? (uint32_t)__builtin_ctzll(is->sets) : NO_WAY;
    n->all = cv_mask_of(0, (uint32_t)(is->line_bytes / is->sector_bytes) - 1);
    n->memory = (cv_level){.sets = is->sets, .ways = is->ways, .seed = is->seed};
    uint64_t lines = is->sets * is->ways;
    n->tags = cv_table_alloc(lines, sizeof *n->tags);
    n->valid = cv_table_alloc(lines, sizeof *n->valid);
    n->dirty = cv_table_alloc(lines, sizeof *n->dirty);
    n->fresh = cv_table_alloc(lines, 1);
    if (!n->tags || !n->valid || !n->dirty || !n->fresh || cv_policy_remember(n->policy, &n->memory) != CV_OK)
        return CV_ERROR_MEMORY;
    for (uint64_t i = 0; i < lines; i++)
        n->tags[i] = NO_TAG;
    cv_status status = cv_prefetch_new(n);
    status = status ? status : cv_shadow_new(n);
    return status ? status : cv_combiner_new(n);
}

void cv_node_free(cv_node *n)
{
    free(n->tags);
    free(n->valid);
    free(n->dirty);
    free(n->fresh);
    free(n->memory.state);
    free(n->memory.ages);
    free(n->above);
    cv_prefetch_free(n->prefetch);
    cv_shadow_free(n->shadow);
    cv_combiner_free(n->combiner);
}
