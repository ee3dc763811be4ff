/* The group of hierarchies: construction, feeding, results. */
#include "sim.h"

static front *front_of(cv_sim *sim, uint32_t line_bytes) {
    uint32_t line_shift = (uint32_t)__builtin_ctz(line_bytes);
    for (uint32_t f = 0; f < sim->fronts; f++)
        if (sim->front[f].line_shift == line_shift)
            return &sim->front[f];
    front *f = &sim->front[sim->fronts++];
    f->line_shift = line_shift;
    return f;
}

static cv_status new_front(cv_sim *sim, front *f) {
    (void)sim;
    f->records = malloc(BATCH * sizeof *f->records);
    /* Every level passes on at most the misses of the batch and one dirty line per record it got. */
    for (int i = 0; i < 2; i++)
        f->out[i] = malloc((CV_SIM_MAX_LEVELS + 1) * BATCH * sizeof *f->out[i]);
    f->address = malloc(BATCH * sizeof *f->address);
    f->owner = malloc(BATCH * sizeof *f->owner);
    f->write = malloc(BATCH * sizeof *f->write);
    if (!f->records || !f->out[0] || !f->out[1] || !f->address || !f->owner || !f->write)
        return CV_ERROR_MEMORY;
    return cv_regions_new(&f->regions);
}

static cv_status add_hierarchy(cv_sim *sim, hierarchy *h, const cv_sim_level *levels, uint32_t n_levels) {
    if (n_levels < 1 || n_levels > CV_SIM_MAX_LEVELS)
        return CV_ERROR_ARGUMENT;
    for (uint32_t k = 0; k < n_levels; k++) {
        h->n_levels = k + 1;
        cv_status status = cv_level_new(&h->levels[k], &levels[k], k == 0);
        if (status != CV_OK)
            return status;
        if (levels[k].line_bytes != levels[0].line_bytes)
            return CV_ERROR_ARGUMENT;
    }
    front *f = front_of(sim, levels[0].line_bytes);
    if (!f->hierarchy) {
        f->hierarchy = calloc(sim->hierarchies, sizeof(hierarchy *));
        if (!f->hierarchy || new_front(sim, f) != CV_OK)
            return CV_ERROR_MEMORY;
    }
    for (uint32_t k = 0; k < n_levels; k++)
        if (cv_level_learn_regions(&h->levels[k], &f->regions) != CV_OK)
            return CV_ERROR_MEMORY;
    f->hierarchy[f->hierarchies++] = h;
    return CV_OK;
}

cv_status cv_sim_new(const cv_sim_level *levels, const uint32_t *n_levels, uint32_t hierarchies, cv_sim **sim) {
    if (hierarchies == 0)
        return CV_ERROR_ARGUMENT;
    cv_sim *s = calloc(1, sizeof *s);
    if (!s)
        return CV_ERROR_MEMORY;
    s->hierarchies = hierarchies;
    s->hierarchy = calloc(hierarchies, sizeof *s->hierarchy);
    s->front = calloc(hierarchies, sizeof *s->front);
    cv_status status = s->hierarchy && s->front ? CV_OK : CV_ERROR_MEMORY;
    for (uint32_t h = 0; h < hierarchies && status == CV_OK; levels += n_levels[h], h++)
        status = add_hierarchy(s, &s->hierarchy[h], levels, n_levels[h]);
    if (status != CV_OK) {
        cv_sim_free(s);
        return status;
    }
    *sim = s;
    return CV_OK;
}

static cv_status make_records(front *f, const cv_refs *refs) {
    for (size_t i = 0; i < refs->count; i++) {
        uint64_t line;
        cv_status status = cv_regions_translate(&f->regions, refs->address[i] >> f->line_shift, &line);
        if (status != CV_OK)
            return status;
        f->records[i] = line | (refs->write && refs->write[i] ? FLAG : 0) | (uint64_t)i << INDEX_SHIFT;
    }
    return CV_OK;
}

static cv_status run_hierarchy(front *f, hierarchy *h, const cv_refs *refs) {
    const uint64_t *in = f->records;
    size_t n = refs->count;
    for (uint32_t k = 0; k < h->n_levels && n; k++) {
        level *l = &h->levels[k];
        cv_status status = cv_level_learn_regions(l, &f->regions);
        if (status != CV_OK)
            return status;
        uint64_t *out = f->out[k & 1];
        n = l->run(l, in, n, out);
        cv_count_level(l, refs->owner, out, n);
        in = out;
    }
    return CV_OK;
}

/* Simulate a batch of at most BATCH references of one line each. */
static cv_status run_batch(front *f, const cv_refs *refs) {
    cv_status status = make_records(f, refs);
    cv_count_accesses(f->accesses, refs->owner, refs->count);
    for (uint32_t h = 0; h < f->hierarchies && status == CV_OK; h++)
        status = run_hierarchy(f, f->hierarchy[h], refs);
    return status;
}

static cv_status run_split(front *f, const cv_refs *refs) {
    size_t at = 0;
    uint64_t line = 0;
    cv_status status = CV_OK;
    while (at < refs->count && status == CV_OK) {
        cv_refs lines = {f->address, f->owner, NULL, f->write, 0};
        lines.count = cv_split_lines(f, refs, &at, &line);
        status = run_batch(f, &lines);
    }
    return status;
}

cv_status cv_sim_feed(cv_sim *sim, const cv_refs *refs) {
    for (size_t at = 0; at < refs->count; at += BATCH) {
        cv_refs batch = {refs->address + at, refs->owner ? refs->owner + at : NULL, refs->size ? refs->size + at : NULL,
                         refs->write ? refs->write + at : NULL, refs->count - at < BATCH ? refs->count - at : BATCH};
        cv_status status = cv_counters_reserve(sim, &batch);
        for (uint32_t i = 0; i < sim->fronts && status == CV_OK; i++) {
            front *f = &sim->front[i];
            status = cv_any_straddles(&batch, f->line_shift) ? run_split(f, &batch) : run_batch(f, &batch);
        }
        if (status != CV_OK)
            return status;
        sim->references += batch.count;
    }
    return CV_OK;
}

uint64_t cv_sim_references(const cv_sim *sim) { return sim->references; }
uint64_t cv_sim_owners(const cv_sim *sim) { return sim->owners; }

static const uint64_t *accesses_of(const cv_sim *sim, const hierarchy *h, uint32_t k) {
    if (k > 0)
        return h->levels[k - 1].misses;
    for (uint32_t f = 0; f < sim->fronts; f++)
        for (uint32_t i = 0; i < sim->front[f].hierarchies; i++)
            if (sim->front[f].hierarchy[i] == h)
                return sim->front[f].accesses;
    return NULL;
}

cv_status cv_sim_counts(const cv_sim *sim, uint32_t hierarchy_index, uint32_t k, uint64_t *accesses, uint64_t *misses,
                        uint64_t *write_backs) {
    if (hierarchy_index >= sim->hierarchies || k >= sim->hierarchy[hierarchy_index].n_levels)
        return CV_ERROR_ARGUMENT;
    const hierarchy *h = &sim->hierarchy[hierarchy_index];
    size_t bytes = sim->owners * sizeof(uint64_t);
    if (bytes == 0)
        return CV_OK;
    if (accesses)
        memcpy(accesses, accesses_of(sim, h, k), bytes);
    if (misses)
        memcpy(misses, h->levels[k].misses, bytes);
    if (write_backs)
        memcpy(write_backs, h->levels[k].write_backs, bytes);
    return CV_OK;
}

void cv_sim_free(cv_sim *sim) {
    if (!sim)
        return;
    for (uint32_t i = 0; sim->front && i < sim->fronts; i++) {
        front *f = &sim->front[i];
        void *owned[] = {f->hierarchy, f->accesses, f->records, f->out[0], f->out[1], f->address, f->owner, f->write};
        for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
            free(owned[k]);
        cv_regions_free(&f->regions);
    }
    for (uint32_t h = 0; sim->hierarchy && h < sim->hierarchies; h++)
        for (uint32_t k = 0; k < sim->hierarchy[h].n_levels; k++)
            cv_level_free(&sim->hierarchy[h].levels[k]);
    free(sim->hierarchy);
    free(sim->front);
    free(sim);
}
