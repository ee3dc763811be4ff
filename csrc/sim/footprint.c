/* The average footprint: gaps of lines by powers of two. */
#include "cv_footprint.h"

#include <stdlib.h>

typedef struct {
    uint64_t line; /* number + 1; 0: empty */
    uint64_t last; /* access number, from 1 */
} cv_last;

struct cv_footprint {
    uint32_t line_shift;
    uint64_t accesses, distinct, capacity;
    cv_last *table;                                                  /* open addressing */
    uint64_t gaps[CV_FOOTPRINT_WINDOWS], sums[CV_FOOTPRINT_WINDOWS]; /* of the gaps of 2^i to 2^(i+1) - 1 */
};

cv_status cv_footprint_new(uint64_t line_bytes, cv_footprint **made)
{
    if (line_bytes < 8 || (line_bytes & (line_bytes - 1)))
        return CV_ERROR_ARGUMENT;
    cv_footprint *f = calloc(1, sizeof *f);
    if (!f)
        return CV_ERROR_MEMORY;
    f->line_shift = (uint32_t)__builtin_ctzll(line_bytes);
    f->capacity = 4096;
    f->table = calloc(f->capacity, sizeof *f->table);
    if (!f->table) {
        free(f);
        return CV_ERROR_MEMORY;
    }
    *made = f;
    return CV_OK;
}

static cv_last *find(cv_last *table, uint64_t capacity, uint64_t line)
{
    uint64_t at = (line * UINT64_C(0x9e3779b97f4a7c15)) >> 16;
    for (at &= capacity - 1; table[at].line && table[at].line != line + 1;)
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

static cv_status grow(cv_footprint *f)
{
    cv_last *table = calloc(2 * f->capacity, sizeof *table);
    if (!table)
        return CV_ERROR_MEMORY;
    for (uint64_t i = 0; i < f->capacity; i++)
        if (f->table[i].line)
            *find(table, 2 * f->capacity, f->table[i].line - 1) = f->table[i];
    free(f->table);
    f->table = table;
    f->capacity *= 2;
    return CV_OK;
}

static void add_gap(uint64_t *gaps, uint64_t *sums, uint64_t gap)
{
    uint32_t i = 63 - (uint32_t)__builtin_clzll(gap);
    gaps[i]++;
    sums[i] += gap;
}

static cv_status touch(cv_footprint *f, uint64_t line)
{
    if (2 * f->distinct >= f->capacity && grow(f) != CV_OK)
        return CV_ERROR_MEMORY;
    cv_last *own = find(f->table, f->capacity, line);
    uint64_t now = ++f->accesses;
    add_gap(f->gaps, f->sums, now - own->last); /* a first access: its number, since `last` is 0 */
    f->distinct += own->line == 0;
    *own = (cv_last){line + 1, now};
    return CV_OK;
}

cv_status cv_footprint_feed(cv_footprint *f, const cv_refs *refs)
{
    for (size_t i = 0; i < refs->count; i++) {
        if (f->accesses >= (UINT64_C(1) << (CV_FOOTPRINT_WINDOWS - 1)) - 65536)
            return CV_ERROR_LIMIT;
        uint64_t first = refs->address[i], size = refs->size ? refs->size[i] : 1;
        uint64_t last = size - 1 > UINT64_MAX - first ? UINT64_MAX : first + size - 1;
        for (uint64_t line = first >> f->line_shift; line <= last >> f->line_shift; line++)
            if (touch(f, line) != CV_OK)
                return CV_ERROR_MEMORY;
    }
    return CV_OK;
}

uint32_t cv_footprint_result(const cv_footprint *f, uint64_t *accesses, uint64_t *distinct, double *lines)
{
    uint64_t gaps[CV_FOOTPRINT_WINDOWS], sums[CV_FOOTPRINT_WINDOWS];
    for (uint32_t i = 0; i < CV_FOOTPRINT_WINDOWS; i++) {
        gaps[i] = f->gaps[i];
        sums[i] = f->sums[i];
    }
    for (uint64_t i = 0; i < f->capacity; i++)
        if (f->table[i].line)
            add_gap(gaps, sums, f->accesses - f->table[i].last + 1);
    *accesses = f->accesses;
    *distinct = f->distinct;
    uint32_t windows = f->accesses ? 64 - (uint32_t)__builtin_clzll(f->accesses) : 0;
    for (uint32_t i = 0; i < windows; i++) {
        /* A gap of g holds g - w windows of w without the line, where that is positive. */
        double w = (double)(UINT64_C(1) << i), missing = 0;
        for (uint32_t k = i; k < CV_FOOTPRINT_WINDOWS; k++)
            missing += (double)sums[k] - w * (double)gaps[k];
        lines[i] = (double)f->distinct * ((double)f->accesses - w + 1) - missing;
    }
    return windows;
}

void cv_footprint_free(cv_footprint *f)
{
    if (!f)
        return;
    free(f->table);
    free(f);
}
