/* Counters per owner. Only misses and write-backs touch the tables of the levels: hits follow from the accesses. */
#include "sim.h"

static cv_status grow(uint64_t **table, uint64_t old, uint64_t new) {
    uint64_t *grown = realloc(*table, new * sizeof *grown);
    if (!grown)
        return CV_ERROR_MEMORY;
    memset(grown + old, 0, (new - old) * sizeof *grown);
    *table = grown;
    return CV_OK;
}

static cv_status reserve(cv_sim *sim, uint64_t capacity) {
    uint64_t old = sim->owners_capacity;
    for (uint32_t f = 0; f < sim->fronts; f++)
        if (grow(&sim->front[f].accesses, old, capacity) != CV_OK)
            return CV_ERROR_MEMORY;
    for (uint32_t h = 0; h < sim->hierarchies; h++)
        for (uint32_t k = 0; k < sim->hierarchy[h].n_levels; k++) {
            level *l = &sim->hierarchy[h].levels[k];
            if (grow(&l->misses, old, capacity) != CV_OK || grow(&l->write_backs, old, capacity) != CV_OK)
                return CV_ERROR_MEMORY;
        }
    sim->owners_capacity = capacity;
    return CV_OK;
}

cv_status cv_counters_reserve(cv_sim *sim, const cv_refs *refs) {
    uint32_t largest = 0;
    if (refs->owner)
        for (size_t i = 0; i < refs->count; i++)
            largest = refs->owner[i] > largest ? refs->owner[i] : largest;
    uint64_t owners = (uint64_t)largest + 1;
    if (owners > sim->owners)
        sim->owners = owners;
    if (owners <= sim->owners_capacity)
        return CV_OK;
    uint64_t doubled = 2 * sim->owners_capacity;
    return reserve(sim, owners > doubled ? owners : doubled);
}

void cv_count_accesses(uint64_t *accesses, const uint32_t *owner, size_t n) {
    if (!owner) {
        accesses[0] += n;
        return;
    }
    for (size_t i = 0; i < n; i++)
        accesses[owner[i]]++;
}

void cv_count_level(level *l, const uint32_t *owner, const uint64_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t who = owner ? owner[out[i] >> INDEX_SHIFT] : 0;
        (out[i] & FLAG ? l->write_backs : l->misses)[who]++;
    }
}
