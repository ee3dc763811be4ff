/* The group of hierarchies: construction, feeding, results. */
#include "sim.h"

static cv_front *front_of(cv_sim *sim, uint32_t line_bytes)
{
    uint32_t line_shift = (uint32_t)__builtin_ctz(line_bytes);
    for (uint32_t f = 0; f < sim->fronts; f++)
        if (sim->front[f].line_shift == line_shift)
            return &sim->front[f];
    cv_front *f = &sim->front[sim->fronts++];
    return cv_front_new(f, sim->simd, line_shift, sim->hierarchies) == CV_OK ? f : NULL;
}

static cv_status add_hierarchy(cv_sim *sim, cv_hierarchy *h, const cv_sim_level *levels, uint32_t n_levels)
{
    if (n_levels < 1 || n_levels > CV_SIM_MAX_LEVELS)
        return CV_ERROR_ARGUMENT;
    for (uint32_t k = 0; k < n_levels; k++)
        if (!cv_level_possible(&levels[k]) || levels[k].line_bytes != levels[0].line_bytes || (k && levels[k].own && !levels[k - 1].own))
            return CV_ERROR_ARGUMENT;
    h->n_levels = n_levels;
    h->front = front_of(sim, levels[0].line_bytes);
    return h->front ? cv_stages_add(h, levels) : CV_ERROR_MEMORY;
}

cv_status cv_sim_new(const cv_sim_level *levels, const uint32_t *n_levels, uint32_t hierarchies, cv_sim **sim)
{
    if (hierarchies == 0)
        return CV_ERROR_ARGUMENT;
    cv_sim *s = calloc(1, sizeof *s);
    if (!s)
        return CV_ERROR_MEMORY;
    s->simd = cv_simd_choose();
    s->owners_limit = OWNERS_MAX;
    s->groups = 1;
    s->thread = NO_THREAD;
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
    for (uint32_t f = 0; f < s->fronts; f++)
        cv_front_complete(&s->front[f]);
    *sim = s;
    return CV_OK;
}

cv_status cv_sim_limit_owners(cv_sim *sim, uint64_t owners)
{
    if (owners < 1 || owners > OWNERS_MAX)
        return CV_ERROR_ARGUMENT;
    sim->owners_limit = owners;
    return CV_OK;
}

/* True when a level's sets cannot be simulated without the others. */
static bool has_dependent_sets(const cv_sim *sim)
{
    for (uint32_t f = 0; f < sim->fronts; f++)
        for (uint32_t s = 0; s < sim->front[f].n_stages; s++)
            if (sim->front[f].stages[s].level->policy == CV_SIM_DRRIP)
                return true;
    return false;
}

cv_status cv_sim_select(cv_sim *sim, uint64_t mask, uint64_t value)
{
    if (sim->references || (mask & (mask + 1)) || value > mask || (mask && has_dependent_sets(sim)))
        return CV_ERROR_ARGUMENT;
    sim->selection = (cv_selection){mask, value};
    return CV_OK;
}

static cv_status group_by(cv_sim *sim, uint32_t first_bit)
{
    if (sim->references)
        return CV_ERROR_ARGUMENT;
    sim->groups = CV_SIM_GROUPS;
    sim->group_bit = first_bit;
    if (!sim->grouped)
        sim->grouped = malloc(BATCH * sizeof *sim->grouped);
    return sim->grouped ? CV_OK : CV_ERROR_MEMORY;
}

cv_status cv_sim_group(cv_sim *sim, uint32_t first_bit)
{
    return first_bit < 1 || first_bit > 61 ? CV_ERROR_ARGUMENT : group_by(sim, first_bit);
}

cv_status cv_sim_group_bursts(cv_sim *sim) { return group_by(sim, 0); }

void cv_sim_burst(cv_sim *sim, uint64_t number) { sim->burst = (uint32_t)(number % CV_SIM_GROUPS); }

/* Simulate and empty the lines that were collected. */
static cv_status flush(cv_sim *sim, cv_front *f)
{
    cv_lines *l = &f->lines;
    if (l->count == 0)
        return CV_OK;
    cv_refs refs = {l->address, l->owner, NULL, l->write, l->count};
    l->count = 0;
    cv_status status = sim->selection.mask && sim->groups > 1 ? cv_counters_group(sim, &refs, l->owner) : CV_OK;
    if (status != CV_OK)
        return status;
    cv_survey survey = sim->simd->survey(&refs, f->line_shift, f->narrow);
    status = cv_counters_reserve(sim, (uint64_t)survey.max_owner + 1);
    return status == CV_OK ? cv_front_run(f, &refs, 0, &survey) : status;
}

static cv_status collect(cv_sim *sim, cv_front *f, const cv_refs *batch, bool straddles)
{
    cv_cursor cursor = {0, 0};
    while (cursor.at < batch->count) {
        if (f->lines.count > BATCH / 2) {
            cv_status status = flush(sim, f);
            if (status != CV_OK)
                return status;
        }
        if (straddles)
            cv_lines_split(&f->lines, batch, f->line_shift, sim->selection, &cursor);
        else
            sim->simd->select(&f->lines, batch, f->line_shift, sim->selection, &cursor);
    }
    return CV_OK;
}

/* One batch, its references as they are where possible; `history` more lie before it. */
static cv_status feed_front(cv_sim *sim, cv_front *f, const cv_refs *batch, size_t history)
{
    if (sim->selection.mask)
        return collect(sim, f, batch, batch->size && sim->simd->survey(batch, f->line_shift, false).straddles);
    cv_survey survey = sim->simd->survey(batch, f->line_shift, f->narrow);
    cv_status status = cv_counters_reserve(sim, (uint64_t)survey.max_owner + 1);
    if (status != CV_OK)
        return status;
    bool after_split = f->after_split;
    f->after_split = survey.straddles;
    if (!survey.straddles)
        return cv_front_run(f, batch, after_split ? 0 : history, &survey);
    status = collect(sim, f, batch, true);
    return status == CV_OK ? flush(sim, f) : status;
}

cv_status cv_sim_feed(cv_sim *sim, const cv_refs *refs)
{
    cv_status status = CV_OK;
    for (size_t at = 0; at < refs->count && status == CV_OK; at += BATCH) {
        cv_refs batch = {refs->address + at, refs->owner ? refs->owner + at : NULL, refs->size ? refs->size + at : NULL,
                         refs->write ? refs->write + at : NULL, refs->count - at < BATCH ? refs->count - at : BATCH};
        if (sim->groups > 1 && !sim->selection.mask) {
            status = cv_counters_group(sim, &batch, sim->grouped);
            batch.owner = sim->grouped;
        }
        for (uint32_t f = 0; f < sim->fronts && status == CV_OK; f++)
            status = feed_front(sim, &sim->front[f], &batch, at);
        sim->references += sim->warm ? 0 : batch.count;
    }
    for (uint32_t f = 0; f < sim->fronts && status == CV_OK; f++)
        status = flush(sim, &sim->front[f]);
    return status;
}

cv_status cv_sim_thread(cv_sim *sim, uint32_t thread)
{
    if (thread >= CV_SIM_MAX_THREADS)
        return CV_ERROR_LIMIT;
    cv_status status = CV_OK;
    for (uint32_t f = 0; f < sim->fronts && sim->thread != NO_THREAD && thread != sim->thread && status == CV_OK; f++)
        status = cv_stages_switch(&sim->front[f], sim->thread, thread);
    sim->thread = thread;
    return status;
}

void cv_sim_warm(cv_sim *sim, int on)
{
    sim->warm = on != 0;
    for (uint32_t f = 0; f < sim->fronts; f++)
        sim->front[f].warm = sim->warm;
}

void cv_sim_gaps(cv_sim *sim, uint32_t one_in)
{
    for (uint32_t f = 0; f < sim->fronts; f++)
        sim->front[f].gaps = one_in;
}

uint64_t cv_sim_references(const cv_sim *sim) { return sim->references; }
uint64_t cv_sim_owners(const cv_sim *sim) { return sim->groups > 1 ? sim->rows.count : sim->owners; }
const char *cv_sim_simd(const cv_sim *sim) { return sim->simd->name; }

/* Counts of one level; any array may be NULL. */
typedef struct {
    uint64_t *accesses, *misses, *write_backs;
} cv_count_arrays;

static void put(const cv_count_arrays *to, size_t at, uint64_t accesses, uint64_t misses, uint64_t write_backs)
{
    if (to->accesses)
        to->accesses[at] = accesses;
    if (to->misses)
        to->misses[at] = misses;
    if (to->write_backs)
        to->write_backs[at] = write_backs;
}

static void put_counted(const cv_count_arrays *to, size_t at, const cv_hierarchy *h, uint32_t level, uint64_t i)
{
    const cv_tally *own = &h->levels[level]->all.counts, *unknowns = &h->levels[level]->all.unknown;
    const uint64_t unknown = i < unknowns->used ? cv_tally_get(unknowns, i) : 0;
    const uint64_t accesses = level > 0 ? cv_tally_get(&h->levels[level - 1]->all.counts, 2 * i) : cv_tally_get(&h->front->accesses, i);
    put(to, at, accesses - unknown, cv_tally_get(own, 2 * i) - unknown, cv_tally_get(own, 2 * i + 1));
}

cv_status cv_sim_counts(const cv_sim *sim, uint32_t hierarchy, uint32_t level, uint64_t *accesses, uint64_t *misses, uint64_t *write_backs)
{
    if (hierarchy >= sim->hierarchies || level >= sim->hierarchy[hierarchy].n_levels)
        return CV_ERROR_ARGUMENT;
    const cv_hierarchy *h = &sim->hierarchy[hierarchy];
    const cv_count_arrays to = {accesses, misses, write_backs};
    const uint64_t groups = sim->groups, owners = cv_sim_owners(sim);
    for (uint64_t owner = 0; owner < owners; owner++) {
        const uint64_t row = groups > 1 ? sim->rows.of[owner] : owner + 1;
        for (uint64_t g = 0; g < groups; g++) {
            if (row)
                put_counted(&to, owner * groups + g, h, level, (row - 1) * groups + g);
            else
                put(&to, owner * groups + g, 0, 0, 0);
        }
    }
    return CV_OK;
}

void cv_sim_free(cv_sim *sim)
{
    if (!sim)
        return;
    for (uint32_t f = 0; sim->front && f < sim->fronts; f++)
        cv_front_free(&sim->front[f]);
    free(sim->grouped);
    free(sim->rows.of);
    free(sim->hierarchy);
    free(sim->front);
    free(sim);
}
