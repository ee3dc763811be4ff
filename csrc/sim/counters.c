/* Memory of the counters per owner. Only misses and write-backs touch the tables of the levels: hits follow from the accesses. */
#include "sim.h"

static cv_status grow(void **table, size_t size, uint64_t old, uint64_t new)
{
    char *grown = realloc(*table, new * size);
    if (!grown)
        return CV_ERROR_MEMORY;
    memset(grown + old * size, 0, (new - old) * size);
    *table = grown;
    return CV_OK;
}

static cv_status fold(cv_tally *t)
{
    if (t->folded < t->used) {
        if (grow((void **)&t->totals, sizeof *t->totals, t->folded, t->used) != CV_OK)
            return CV_ERROR_MEMORY;
        t->folded = t->used;
    }
    for (uint64_t i = 0; i < t->used; i++)
        for (int lane = 0; lane < CV_TALLY_LANES; lane++)
            t->totals[i] += t->lanes[i][lane];
    memset(t->lanes, 0, t->used * sizeof *t->lanes);
    t->pending = 0;
    return CV_OK;
}

cv_status cv_tally_reserve(cv_tally *t, uint64_t used)
{
    cv_status status = used > t->used ? grow((void **)&t->lanes, sizeof *t->lanes, t->used, used) : CV_OK;
    if (status == CV_OK && used > t->used)
        t->used = used;
    return status;
}

cv_status cv_tally_expect(cv_tally *t, size_t n)
{
    if (t->pending + n > UINT32_MAX && fold(t) != CV_OK)
        return CV_ERROR_MEMORY;
    t->pending += n;
    return CV_OK;
}

uint64_t cv_tally_get(const cv_tally *t, uint64_t i)
{
    uint64_t sum = i < t->folded ? t->totals[i] : 0;
    for (int lane = 0; lane < CV_TALLY_LANES; lane++)
        sum += t->lanes[i][lane];
    return sum;
}

void cv_tally_free(cv_tally *t)
{
    free(t->lanes);
    free(t->totals);
}

static cv_status reserve(cv_sim *sim, uint64_t owners)
{
    for (cv_front *f = sim->front; f < sim->front + sim->fronts; f++) {
        if (cv_tally_reserve(&f->accesses, owners) != CV_OK)
            return CV_ERROR_MEMORY;
        for (uint32_t s = 0; s < f->n_stages; s++)
            if (cv_tally_reserve(&f->stages[s].level->all.counts, 2 * owners) != CV_OK)
                return CV_ERROR_MEMORY;
    }
    sim->owners_capacity = owners;
    return CV_OK;
}

cv_status cv_counters_reserve(cv_sim *sim, uint64_t owners)
{
    owners = (owners + sim->groups - 1) / sim->groups * sim->groups;
    uint64_t limit = sim->owners_limit * sim->groups;
    limit = limit < OWNERS_MAX ? limit : OWNERS_MAX;
    if (owners > limit)
        return CV_ERROR_LIMIT;
    if (owners > sim->owners)
        sim->owners = owners;
    if (owners <= sim->owners_capacity)
        return CV_OK;
    uint64_t doubled = 2 * sim->owners_capacity;
    return reserve(sim, owners > doubled ? owners : doubled < limit ? doubled : limit);
}

static cv_status reserve_rows(cv_sim *sim, uint64_t owners)
{
    if (owners > sim->owners_limit || owners > OWNERS_MAX / CV_SIM_GROUPS)
        return CV_ERROR_LIMIT;
    if (owners > sim->rows.capacity) {
        const uint64_t doubled = 2 * sim->rows.capacity, wanted = owners > doubled ? owners : doubled;
        if (grow((void **)&sim->rows.of, sizeof *sim->rows.of, sim->rows.capacity, wanted) != CV_OK)
            return CV_ERROR_MEMORY;
        sim->rows.capacity = wanted;
    }
    if (owners > sim->rows.count)
        sim->rows.count = owners;
    return CV_OK;
}

cv_status cv_counters_group(cv_sim *sim, const cv_refs *refs, uint32_t *grouped)
{
    uint32_t largest = 0;
    for (size_t i = 0; refs->owner && i < refs->count; i++)
        largest = refs->owner[i] > largest ? refs->owner[i] : largest;
    const cv_status status = reserve_rows(sim, (uint64_t)largest + 1);
    for (size_t i = 0; i < refs->count && status == CV_OK; i++) {
        uint32_t *row = &sim->rows.of[refs->owner ? refs->owner[i] : 0];
        if (*row == 0)
            *row = ++sim->rows.met;
        const uint32_t g = sim->group_bit ? (uint32_t)(refs->address[i] >> sim->group_bit) % CV_SIM_GROUPS : sim->burst;
        grouped[i] = (*row - 1) * CV_SIM_GROUPS + g;
    }
    return status;
}
