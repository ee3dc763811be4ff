/* Geometry and memory of one level. */
#include "level.h"

#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

void *cv_table_alloc(size_t count, size_t size) {
    size_t bytes = count * size;
    if (bytes < HUGE_PAGE)
        return calloc(count, size);
    bytes = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    void *table = aligned_alloc(HUGE_PAGE, bytes);
    if (table) {
        madvise(table, bytes, MADV_HUGEPAGE);
        memset(table, 0, bytes);
    }
    return table;
}

cv_status cv_level_learn_regions(level *l, const regions *r) {
    uint64_t end = regions_end(r);
    if (l->power_of_two || end <= l->offsets_end)
        return CV_OK;
    uint32_t *offsets = realloc(l->offsets, end * sizeof *offsets);
    if (!offsets)
        return CV_ERROR_MEMORY;
    l->offsets = offsets;
    for (uint64_t id = l->offsets_end; id < end; id += 2) {
        uint64_t offset = 0;
        if (id >= REGIONS_DIRECT) {
            unsigned __int128 true_line = (unsigned __int128)r->region_of[(id - REGIONS_DIRECT) / 2] << REGION_BITS;
            uint64_t wanted = (uint64_t)(true_line % l->sets), got = (id << REGION_BITS) % l->sets;
            offset = wanted >= got ? wanted - got : wanted + l->sets - got;
        }
        /* The empty number above a region is where lines near its end lie after the offset was added. */
        offsets[id] = offsets[id + 1] = (uint32_t)offset;
    }
    l->offsets_end = end;
    return CV_OK;
}

static bool is_possible(const cv_sim_level *g) {
    return g->sets >= 1 && g->sets <= CV_SIM_MAX_SETS && g->ways >= 1 && g->ways <= CV_SIM_MAX_WAYS && g->line_bytes >= 8 &&
           g->line_bytes <= 4096 && (g->line_bytes & (g->line_bytes - 1)) == 0;
}

cv_status cv_level_new(level *l, const cv_sim_level *geometry, bool first) {
    if (!is_possible(geometry))
        return CV_ERROR_ARGUMENT;
    l->sets = geometry->sets;
    l->ways = geometry->ways;
    l->first = first;
    l->power_of_two = (l->sets & (l->sets - 1)) == 0;
    l->shift = (uint32_t)__builtin_ctzll(l->sets);
    l->magic = UINT64_MAX / l->sets + 1;
    l->rows = cv_table_alloc(l->sets * l->ways, sizeof *l->rows);
    if (!l->rows)
        return CV_ERROR_MEMORY;
    for (uint64_t i = 0; i < l->sets * l->ways; i++)
        l->rows[i] = WIDE_EMPTY;
    l->run = cv_lru_wide(first);
    return CV_OK;
}

void cv_level_free(level *l) {
    free(l->rows);
    free(l->offsets);
    free(l->misses);
    free(l->write_backs);
}
