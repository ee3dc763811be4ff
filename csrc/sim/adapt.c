/* Which filters are used. All plans give the same counts; which is fastest depends on the stream, so each is timed on a piece of a
 * batch now and then. */
#include "sim.h"

#define TRIAL_EVERY 512 /* batches */

static const cv_plan PLANS[] = {{0, false, false}, {0, false, true}, {0, true, false}, {0, true, true}, {1, false, false}, {1, false, true},
                                {1, true, true},   {2, true, true},  {3, true, true},  {4, true, true}, {6, true, true},   {8, true, true}};

void cv_adapt_new(cv_adapt *a, uint32_t longest_lag, uint32_t filter_slots)
{
    memset(a, 0, sizeof *a);
    for (size_t i = 0; i < sizeof PLANS / sizeof *PLANS; i++) {
        cv_plan plan = PLANS[i];
        if (plan.lag > longest_lag)
            continue;
        if (filter_slots < 4) {
            if (plan.direct_mapped && plan.lag < 2)
                continue; /* there is the same plan without the filter */
            plan.direct_mapped = false;
        }
        a->plans[a->n_plans++] = plan;
    }
}

bool cv_adapt_trial_due(cv_adapt *a, size_t references)
{
    if (a->countdown > 0) {
        a->countdown--;
        return false;
    }
    if (references < BATCH / 2)
        return false;
    a->countdown = TRIAL_EVERY;
    return true;
}

void cv_adapt_decide(cv_adapt *a)
{
    a->best = 0;
    for (uint32_t p = 1; p < a->n_plans; p++)
        if (a->cost[p] < a->cost[a->best])
            a->best = p;
}
