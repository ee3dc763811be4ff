/* Renumbering of address regions, so that line numbers of any 64-bit address fit in LINE_BITS bits.
 *
 * A region is 2^REGION_BITS lines. The first REGIONS_DIRECT regions keep their number: most programs under Valgrind stay there.
 * Others get the next even number, and the odd number above stays empty: a level with any number of sets adds an offset below
 * 2^REGION_BITS to a dense line, and two regions never meet (level.c). The bits within a region are untouched, so a level whose
 * number of sets is a power of two up to 2^REGION_BITS finds its set in the dense line. */
#include "sim.h"

static size_t slot_of(const cv_regions *r, uint64_t region)
{
    size_t slot = (size_t)((region * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (r->capacity - 1);
    while (r->keys[slot] != 0 && r->keys[slot] != region + 1)
        slot = (slot + 1) & (r->capacity - 1);
    return slot;
}

static cv_status reserve(cv_regions *r, size_t capacity)
{
    cv_regions grown = *r;
    grown.capacity = capacity;
    grown.keys = calloc(capacity, sizeof *grown.keys);
    grown.ids = calloc(capacity, sizeof *grown.ids);
    grown.region_of = realloc(r->region_of, capacity * sizeof *grown.region_of);
    if (grown.region_of)
        r->region_of = grown.region_of;
    if (!grown.keys || !grown.ids || !grown.region_of) {
        free(grown.keys);
        free(grown.ids);
        return CV_ERROR_MEMORY;
    }
    for (size_t i = 0; i < r->used; i++) {
        size_t slot = slot_of(&grown, r->region_of[i]);
        grown.keys[slot] = r->region_of[i] + 1;
        grown.ids[slot] = (uint32_t)(REGIONS_DIRECT + 2 * i);
    }
    free(r->keys);
    free(r->ids);
    *r = grown;
    return CV_OK;
}

cv_status cv_regions_new(cv_regions *r)
{
    memset(r, 0, sizeof *r);
    r->recent[0] = r->recent[1] = UINT64_MAX; /* no region has this number */
    return reserve(r, 64);
}

void cv_regions_free(cv_regions *r)
{
    free(r->keys);
    free(r->ids);
    free(r->region_of);
}

static cv_status id_of(cv_regions *r, uint64_t region, uint64_t *id)
{
    size_t slot = slot_of(r, region);
    if (r->keys[slot] == 0) {
        if (cv_regions_end(r) + 2 > REGIONS_MAX)
            return CV_ERROR_LIMIT;
        if (2 * (r->used + 1) > r->capacity) {
            if (reserve(r, 2 * r->capacity) != CV_OK)
                return CV_ERROR_MEMORY;
            slot = slot_of(r, region);
        }
        r->keys[slot] = region + 1;
        r->ids[slot] = (uint32_t)cv_regions_end(r);
        r->region_of[r->used++] = region;
    }
    *id = r->ids[slot];
    return CV_OK;
}

cv_status cv_regions_translate(cv_regions *r, uint64_t line, uint64_t *dense)
{
    uint64_t region = line >> REGION_BITS, id;
    *dense = line;
    if (region < REGIONS_DIRECT)
        return CV_OK;
    if (region != r->recent[0]) {
        cv_status status = id_of(r, region, &id);
        if (status != CV_OK)
            return status;
        r->recent[1] = r->recent[0];
        r->change[1] = r->change[0];
        r->recent[0] = region;
        r->change[0] = (region ^ id) << REGION_BITS;
    }
    *dense = line ^ r->change[0];
    return CV_OK;
}
