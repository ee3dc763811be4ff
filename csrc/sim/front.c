/* From references to counts: the filters, and the levels of each hierarchy one after another over a batch. */
#include "sim.h"

#include <time.h>

#define PIECE 192 /* references: whole windows of every lag, and what is counted at once */

/* Writes of a stream without any; readable from HISTORY before the first. */
static const uint8_t NO_WRITES[HISTORY + BATCH];

static uint32_t no_owners[BATCH], indices[BATCH];

/* Labels of references without an owner, and of those whose owners have too many bits. */
__attribute__((constructor)) static void number_indices(void)
{
    for (uint32_t i = 0; i < BATCH; i++)
        indices[i] = i;
}

cv_status cv_front_new(cv_front *f, const cv_simd *simd, uint32_t line_shift, uint32_t hierarchies)
{
    f->simd = simd;
    f->line_shift = line_shift;
    f->stages = calloc((size_t)hierarchies * CV_SIM_MAX_LEVELS, sizeof *f->stages);
    for (int i = 0; i < 2; i++)
        f->records[i] = malloc((BATCH + PREFETCH) * sizeof *f->records[i]);
    if (!f->stages || !f->records[0] || !f->records[1])
        return CV_ERROR_MEMORY;
    cv_status status = cv_lines_new(&f->lines);
    return status == CV_OK ? cv_regions_new(&f->regions) : status;
}

void cv_front_free(cv_front *f)
{
    cv_stages_free(f);
    free(f->records[0]);
    free(f->records[1]);
    cv_lines_free(&f->lines);
    cv_tally_free(&f->accesses);
    cv_regions_free(&f->regions);
}

void cv_front_complete(cv_front *f)
{
    uint32_t lag = UINT32_MAX;
    uint64_t slots = FILTER_SLOTS;
    for (uint32_t s = 0; s < f->n_stages; s++) {
        const cv_level *l = f->stages[s].level;
        f->narrow |= l->line_limit < REGIONS_DIRECT << REGION_BITS;
        if (f->stages[s].depth > 0)
            continue;
        /* Only LRU keeps the last lines of a set; but under any other policy too the very last one stays and is not changed by
         * another use, except that SRRIP counts a first use. */
        uint32_t longest = l->policy == CV_SIM_LRU ? l->ways : l->policy == CV_SIM_SRRIP || l->policy == CV_SIM_DRRIP ? 0 : 1;
        lag = longest < lag ? longest : lag;
        while (l->sets % slots)
            slots /= 2;
    }
    f->filter.slots = (uint32_t)slots;
    cv_adapt_new(&f->adapt, lag, lag ? f->filter.slots : 0);
}

/* Make records of references begin..end of the batch that `job` describes and count their owners: both in turn, since memory is read
 * faster where its reading is spread over the work. */
static size_t pack_and_count(cv_front *f, cv_pack_job *job, const cv_refs *batch, uint32_t largest, unsigned lag, uint64_t *records)
{
    cv_pack_job piece = *job;
    size_t n = 0;
    for (; piece.begin < job->end && piece.status == CV_OK; piece.begin = piece.end, piece.history = HISTORY) {
        piece.end = piece.begin + PIECE < job->end ? piece.begin + PIECE : job->end;
        n += f->simd->pack(&piece, lag, records + n);
        if (batch->owner && !f->warm)
            f->simd->tally(&f->accesses, batch->owner + piece.begin, piece.end - piece.begin, largest);
    }
    job->status = piece.status;
    return n;
}

/* Simulate references begin..end of the batch that `job` describes. */
static cv_status run_part(cv_front *f, cv_pack_job *job, const cv_refs *batch, uint32_t largest, const cv_plan *plan)
{
    uint64_t *records = f->records[0];
    size_t n = pack_and_count(f, job, batch, largest, plan->lag, records);
    if (job->status != CV_OK)
        return job->status;
    if (plan->direct_mapped) {
        if (!f->filter_in_use)
            cv_filter_reset(&f->filter);
        n = cv_filter_run(&f->filter, records, n, f->records[1]);
        records = f->records[1];
    }
    f->filter_in_use = plan->direct_mapped;
    memset(records + n, 0, PREFETCH * sizeof *records);
    uint64_t regions_end = cv_regions_end(&f->regions) << REGION_BITS;
    if (f->regions.used && regions_end > f->line_end)
        f->line_end = regions_end;
    return cv_stages_run(f, records, n, largest >= LABELS ? batch->owner : NULL, plan->hits);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Simulate a batch in pieces, each twice with every plan; the better time counts, since the first may have found cold caches. */
static cv_status run_trial(cv_front *f, cv_pack_job *job, const cv_refs *batch, uint32_t largest)
{
    cv_adapt *a = &f->adapt;
    size_t end = job->end, pieces = 2 * a->n_plans;
    for (size_t i = 0; i < pieces; i++) {
        uint32_t p = (uint32_t)(i % a->n_plans);
        job->begin = end * i / pieces;
        job->end = end * (i + 1) / pieces;
        double start = seconds();
        cv_status status = run_part(f, job, batch, largest, &a->plans[p]);
        double cost = (seconds() - start) / (double)(job->end - job->begin);
        if (status != CV_OK)
            return status;
        if (i < a->n_plans || cost < a->cost[p])
            a->cost[p] = cost;
        job->history = HISTORY;
    }
    cv_adapt_decide(a);
    return CV_OK;
}

cv_status cv_front_run(cv_front *f, const cv_refs *batch, size_t history, const cv_survey *survey)
{
    const uint64_t lines = survey->lines;
    const uint32_t largest = survey->max_owner;
    cv_pack_job job = {
        .address = batch->address,
        .write = batch->write ? batch->write : NO_WRITES + HISTORY,
        .label = largest >= LABELS ? indices
                 : batch->owner    ? batch->owner
                                   : no_owners,
        .end = batch->count,
        .history = history < HISTORY ? history : HISTORY,
        .line_shift = f->line_shift,
        .regions = &f->regions,
    };
    const uint64_t direct_end = REGIONS_DIRECT << REGION_BITS, end = lines < direct_end ? lines + 1 : direct_end;
    if (end > f->line_end)
        f->line_end = end;
    if (cv_tally_expect(&f->accesses, batch->count) != CV_OK)
        return CV_ERROR_MEMORY;
    if (!batch->owner && !f->warm)
        f->accesses.lanes[0][0] += (uint32_t)batch->count;
    if (cv_adapt_trial_due(&f->adapt, batch->count))
        return run_trial(f, &job, batch, largest);
    return run_part(f, &job, batch, largest, &f->adapt.plans[f->adapt.best]);
}
