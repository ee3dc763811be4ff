/* The detailed engine: construction, feeding, results. */
#include "detailed.h"

/* Nodes of one chain of levels: one of each private level for each core, one of each shared level. */
static uint32_t nodes_of(const cv_detailed_level *levels, uint32_t n_levels, uint32_t cores)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < n_levels; k++)
        count += levels[k].shared ? 1 : cores;
    return count;
}

static bool adopt(cv_node *below, cv_node *above)
{
    cv_node **children = realloc(below->above, (below->n_above + 1) * sizeof(cv_node *));
    if (!children)
        return false;
    below->above = children;
    children[below->n_above++] = above;
    above->below = below;
    return true;
}

/* Make the nodes of one level and hang those of the level above on them. `row`: the level's node of each core. */
static cv_status make_level(cv_detailed *d, const cv_detailed_level *is, const cv_detailed_level *above, uint32_t number, cv_node **row)
{
    cv_node *shared = NULL;
    for (uint32_t core = 0; core < d->cores; core++) {
        cv_node *upper = above ? row[core] : NULL, *n = is->shared && shared ? shared : &d->nodes[d->n_nodes];
        if (n != shared) {
            d->n_nodes++;
            n->of = d;
            n->number = number;
            cv_status status = cv_node_new(n, is, above);
            if (status != CV_OK)
                return status;
            shared = n;
        }
        if (upper && !upper->below && !adopt(n, upper))
            return CV_ERROR_MEMORY;
        row[core] = n;
    }
    return CV_OK;
}

/* An inclusive level cannot hold the larger lines of one above, nor a private level stand below a shared one. */
static bool are_possible(const cv_detailed_level *levels, uint32_t n_levels, uint32_t semantics)
{
    for (uint32_t k = 0; k < n_levels; k++) {
        const cv_detailed_level *is = &levels[k];
        bool plain = is->inclusion == CV_NON_INCLUSIVE && !is->write_through && !is->no_allocate && !is->combining &&
                     is->sector_bytes == is->line_bytes && is->line_bytes == levels[0].line_bytes && !is->prefetcher && !is->classify;
        if (semantics >= CV_CACHEGRIND && !plain)
            return false;
        for (uint32_t i = 0; i < k; i++)
            if ((is->inclusion == CV_INCLUSIVE && levels[i].line_bytes > is->line_bytes) || (levels[i].shared && !is->shared))
                return false;
    }
    return true;
}

static cv_status make_chain(cv_detailed *d, const cv_detailed_level *levels, uint32_t n_levels, uint32_t number, cv_node **first)
{
    cv_node **row = calloc(d->cores, sizeof(cv_node *));
    cv_status status = row ? CV_OK : CV_ERROR_MEMORY;
    for (uint32_t k = 0; k < n_levels && status == CV_OK; k++) {
        status = make_level(d, &levels[k], k ? &levels[k - 1] : NULL, number + k, row);
        if (status == CV_OK && k == 0)
            memcpy(first, row, d->cores * sizeof(cv_node *));
    }
    free(row);
    return status;
}

/* Tell every level whether an inclusive one lies below it. */
static void look_below(cv_detailed *d)
{
    for (uint32_t i = 0; i < d->n_nodes; i++)
        for (const cv_node *below = d->nodes[i].below; below; below = below->below)
            d->nodes[i].inclusive_below |= below->is.inclusion == CV_INCLUSIVE;
}

static cv_status make(cv_detailed *d, const cv_detailed_level *levels, const cv_detailed_level *tlbs)
{
    uint64_t count = (uint64_t)nodes_of(levels, d->n_levels, d->cores) + nodes_of(tlbs, d->n_tlbs, d->cores);
    d->nodes = calloc(count, sizeof *d->nodes);
    d->caches = calloc(d->cores, sizeof *d->caches);
    d->tlbs = calloc(d->cores, sizeof *d->tlbs);
    if (!d->nodes || !d->caches || !d->tlbs)
        return CV_ERROR_MEMORY;
    cv_status status = make_chain(d, levels, d->n_levels, 0, d->caches);
    if (status == CV_OK && d->n_tlbs)
        status = make_chain(d, tlbs, d->n_tlbs, d->n_levels, d->tlbs);
    look_below(d);
    return status;
}

cv_status cv_detailed_new(const cv_detailed_level *levels, uint32_t n_levels, const cv_detailed_level *tlbs, uint32_t n_tlbs,
                          uint32_t cores, uint32_t semantics, cv_detailed **made)
{
    if (n_levels < 1 || n_levels > CV_DETAILED_MAX_LEVELS || n_tlbs > CV_DETAILED_MAX_LEVELS || cores < 1 ||
        cores > CV_DETAILED_MAX_CORES || semantics > CV_PYCACHESIM || !are_possible(levels, n_levels, semantics) ||
        !are_possible(tlbs, n_tlbs, CV_WRITE_BACK))
        return CV_ERROR_ARGUMENT;
    cv_detailed *d = calloc(1, sizeof *d);
    if (!d)
        return CV_ERROR_MEMORY;
    *d = (cv_detailed){
        .n_levels = n_levels, .n_tlbs = n_tlbs, .cores = cores, .semantics = semantics, .owners_limit = UINT32_MAX, .groups = 1};
    cv_status status = make(d, levels, tlbs);
    if (status != CV_OK) {
        cv_detailed_free(d);
        return status;
    }
    *made = d;
    return CV_OK;
}

cv_status cv_detailed_limit_owners(cv_detailed *d, uint64_t owners)
{
    if (owners < 1 || owners > UINT32_MAX)
        return CV_ERROR_ARGUMENT;
    d->owners_limit = owners;
    return CV_OK;
}

void cv_detailed_warm(cv_detailed *d, int on) { d->warm = on != 0; }

cv_status cv_detailed_group_bursts(cv_detailed *d)
{
    if (d->owners)
        return CV_ERROR_ARGUMENT;
    d->groups = CV_SIM_GROUPS;
    return CV_OK;
}

void cv_detailed_burst(cv_detailed *d, uint64_t number) { d->burst = (uint32_t)(number % d->groups); }

static cv_status reserve(cv_detailed *d, uint64_t owners)
{
    if (owners > d->owners_limit)
        return CV_ERROR_LIMIT;
    uint64_t capacity = owners > 2 * d->owners_capacity ? owners : 2 * d->owners_capacity;
    for (uint32_t k = 0; owners > d->owners_capacity && k < d->n_levels + d->n_tlbs; k++) {
        uint64_t row = d->groups * CV_DETAILED_COUNTS * sizeof **d->counts, *counts = realloc(d->counts[k], capacity * row);
        if (!counts)
            return CV_ERROR_MEMORY;
        memset(counts + d->owners_capacity * d->groups * CV_DETAILED_COUNTS, 0, (capacity - d->owners_capacity) * row);
        d->counts[k] = counts;
    }
    d->owners_capacity = owners > d->owners_capacity ? capacity : d->owners_capacity;
    d->owners = owners > d->owners ? owners : d->owners;
    return CV_OK;
}

static cv_status reserve_for(cv_detailed *d, const cv_refs *refs)
{
    uint32_t largest = 0;
    for (size_t i = 0; refs->owner && i < refs->count; i++)
        largest = refs->owner[i] > largest ? refs->owner[i] : largest;
    return refs->count ? reserve(d, (uint64_t)largest + 1) : CV_OK;
}

static void simulate(cv_detailed *d, uint32_t core, cv_bytes b, uint32_t owner, bool write)
{
    cv_node *n = d->caches[core];
    if (d->n_tlbs)
        cv_read(d->tlbs[core], b, (cv_cause){owner, false, false});
    if (d->semantics == CV_CACHEGRIND) {
        cv_cachegrind(n, b, owner);
        return;
    }
    for (uint64_t line = b.first >> n->line_shift; line <= b.last >> n->line_shift; line++) {
        if (write && d->semantics != CV_NO_WRITE_BACKS)
            cv_store(n, cv_within(n, line, b), (cv_cause){owner, false, false});
        else
            cv_read(n, cv_within(n, line, b), (cv_cause){owner, false, false});
        if (d->n_wishes)
            cv_prefetch_run(d, owner);
    }
}

cv_status cv_detailed_feed(cv_detailed *d, uint32_t core, const cv_refs *refs)
{
    if (core >= d->cores)
        return CV_ERROR_ARGUMENT;
    cv_status status = reserve_for(d, refs);
    for (size_t i = 0; i < refs->count && status == CV_OK; i++) {
        uint64_t first = refs->address[i], size = refs->size ? refs->size[i] : 1;
        uint64_t last = size - 1 > UINT64_MAX - first ? UINT64_MAX : first + size - 1;
        simulate(d, core, (cv_bytes){first, last}, refs->owner ? refs->owner[i] : 0, refs->write && refs->write[i]);
        d->references += !d->warm;
        if (d->out_of_memory)
            status = CV_ERROR_MEMORY;
    }
    return status;
}

uint32_t cv_detailed_cores(const cv_detailed *d) { return d->cores; }
uint64_t cv_detailed_references(const cv_detailed *d) { return d->references; }
uint64_t cv_detailed_owners(const cv_detailed *d) { return d->owners; }

cv_status cv_detailed_counts(const cv_detailed *d, uint32_t level, uint64_t *rows)
{
    if (level >= d->n_levels + d->n_tlbs)
        return CV_ERROR_ARGUMENT;
    if (d->owners)
        memcpy(rows, d->counts[level], d->owners * d->groups * CV_DETAILED_COUNTS * sizeof *rows);
    return CV_OK;
}

void cv_detailed_free(cv_detailed *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; d->nodes && i < d->n_nodes; i++)
        cv_node_free(&d->nodes[i]);
    for (uint32_t k = 0; k < d->n_levels + d->n_tlbs; k++)
        free(d->counts[k]);
    free(d->nodes);
    free(d->caches);
    free(d->tlbs);
    free(d->wishes);
    free(d);
}
