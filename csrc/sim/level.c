/* Geometry and memory of one level. */
#include "level.h"
#include "policies.h"

#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

void *cv_table_alloc(size_t count, size_t size)
{
    size_t align = count * size < HUGE_PAGE ? CACHE_LINE : HUGE_PAGE;
    size_t bytes = (count * size + align - 1) & ~(align - 1);
    void *table = aligned_alloc(align, bytes);
    if (!table)
        return NULL;
    if (align == HUGE_PAGE)
        madvise(table, bytes, MADV_HUGEPAGE);
    return memset(table, 0, bytes);
}

static cv_status learn_regions(cv_level *l, const cv_regions *r)
{
    uint64_t end = cv_regions_end(r);
    uint32_t *offsets = realloc(l->all.offsets, end * sizeof *offsets);
    if (!offsets)
        return CV_ERROR_MEMORY;
    l->all.offsets = offsets;
    for (uint64_t id = l->all.offsets_end; id < end; id += 2) {
        uint64_t offset = 0;
        if (l->page_shift) {
            offset = id < REGIONS_DIRECT ? id : r->region_of[(id - REGIONS_DIRECT) / 2];
        } else if (id >= REGIONS_DIRECT) {
            unsigned __int128 true_line = (unsigned __int128)r->region_of[(id - REGIONS_DIRECT) / 2] << REGION_BITS;
            uint64_t wanted = (uint64_t)(true_line % l->sets), got = (id << REGION_BITS) % l->sets;
            offset = wanted >= got ? wanted - got : wanted + l->sets - got;
        }
        /* The empty number above a region is where lines near its end lie after the offset was added. */
        offsets[id] = offsets[id + 1] = (uint32_t)offset;
        if (l->page_shift && id < REGIONS_DIRECT)
            offsets[id + 1]++;
    }
    l->all.offsets_end = end;
    return CV_OK;
}

/* Go on with 64-bit tags: a tag keeps its value, only its place gets wider. */
static cv_status widen(cv_level *l)
{
    const uint32_t *narrow = l->rows, narrow_stride = l->stride;
    uint64_t *wide = cv_table_alloc(l->sets * l->ways, sizeof *wide);
    if (!wide)
        return CV_ERROR_MEMORY;
    for (uint64_t set = 0; set < l->sets; set++)
        for (uint32_t way = 0; way < l->ways; way++) {
            uint32_t word = narrow[set * narrow_stride + way], tag = word & ~DIRTY;
            wide[set * l->ways + way] = (tag == EMPTY ? WIDE_EMPTY : tag) | (word & DIRTY ? WIDE_DIRTY : 0);
        }
    free(l->rows);
    l->rows = wide;
    l->wide = true;
    l->line_limit = UINT64_MAX;
    cv_lru_wide(l);
    return CV_OK;
}

cv_status cv_level_prepare(cv_level *l, const cv_regions *r, uint64_t line_end)
{
    if ((!l->power_of_two || l->page_shift) && cv_regions_end(r) > l->all.offsets_end && learn_regions(l, r) != CV_OK)
        return CV_ERROR_MEMORY;
    return line_end > l->line_limit ? widen(l) : CV_OK;
}

bool cv_level_possible(const cv_sim_level *g)
{
    if (g->frames && (g->policy == CV_SIM_LRU || (g->sets & (g->sets - 1))))
        return false;
    return g->sets >= 1 && g->sets <= CV_SIM_MAX_SETS && g->ways >= 1 && g->ways <= CV_SIM_MAX_WAYS && g->line_bytes >= 8 &&
           g->line_bytes <= 4096 && (g->line_bytes & (g->line_bytes - 1)) == 0;
}

cv_status cv_level_new(cv_level *l, const cv_sim_level *geometry, bool first, const cv_simd *simd)
{
    l->sets = geometry->sets;
    l->ways = geometry->ways;
    l->first = first;
    l->power_of_two = (l->sets & (l->sets - 1)) == 0;
    l->shift = (uint32_t)__builtin_ctzll(l->sets);
    l->shift = l->shift < SHIFT_MAX ? l->shift : SHIFT_MAX;
    const uint32_t page_shift = PAGE_BITS - (uint32_t)__builtin_ctz(geometry->line_bytes);
    l->page_shift = geometry->frames && l->sets >> page_shift > 1 ? page_shift : 0; /* else frames change nothing */
    l->frames = geometry->frames != 0;
    l->magic = UINT64_MAX / l->sets + 1;
    l->policy = geometry->policy;
    l->own = geometry->own != 0;
    l->parts = geometry->parts && !l->own ? geometry->parts : 1;
    l->adjacent = geometry->adjacent ? geometry->adjacent : 1;
    if (l->policy != CV_SIM_LRU)
        return cv_policy_level(l);
    /* Tags are below EMPTY; an offset below `sets` may be added to a line before it is divided. */
    l->line_limit = (uint64_t)EMPTY * l->sets - l->sets;
    simd->level(l);
    uint64_t tags = l->sets * l->stride;
    uint32_t *rows = cv_table_alloc(tags, sizeof *rows);
    if (!rows)
        return CV_ERROR_MEMORY;
    for (uint64_t i = 0; i < tags; i++)
        rows[i] = EMPTY;
    l->rows = rows;
    return CV_OK;
}

static void free_lines(cv_level *l)
{
    free(l->rows);
    free(l->state);
    free(l->ages);
}

cv_status cv_level_switch(cv_level *l, uint32_t from, uint32_t to, const cv_simd *simd)
{
    const uint32_t most = (from > to ? from : to) + 1;
    if (most > l->all.n_threads) {
        cv_level *grown = realloc(l->all.threads, most * sizeof *grown);
        if (!grown)
            return CV_ERROR_MEMORY;
        memset(grown + l->all.n_threads, 0, (most - l->all.n_threads) * sizeof *grown);
        l->all.threads = grown;
        l->all.n_threads = most;
    }
    cv_level *next = &l->all.threads[to];
    if (!next->rows) {
        const uint32_t line_bytes = (1u << PAGE_BITS) >> l->page_shift; /* matters where pages lie in frames */
        const cv_sim_level geometry = {l->sets, l->ways, line_bytes, l->policy, l->own, l->parts, l->adjacent, l->frames};
        cv_status status = cv_level_new(next, &geometry, l->first, simd);
        if (status != CV_OK)
            return status;
    }
    cv_level now = *next;
    *next = (cv_level){0};
    l->all.threads[from] = *l;
    now.all = l->all;
    *l = now;
    return CV_OK;
}

void cv_level_free(cv_level *l)
{
    for (uint32_t i = 0; i < l->all.n_threads; i++)
        free_lines(&l->all.threads[i]);
    free(l->all.threads);
    free_lines(l);
    free(l->all.offsets);
    cv_tally_free(&l->all.counts);
    cv_tally_free(&l->all.unknown);
}
