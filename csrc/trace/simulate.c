#include "cv_detailed.h"
#include "cv_directory.h"
#include "cv_sim.h"
#include "cv_touches.h"
#include "cv_trace.h"

static cv_status simulate(cv_sim *simulator, const cv_refs *refs, const cv_batch *batch, uint32_t kind)
{
    if (batch->kind != kind)
        return CV_OK;
    cv_sim_warm(simulator, (int)batch->warm);
    cv_sim_burst(simulator, batch->window);
    cv_sim_gaps(simulator, batch->gaps);
    cv_status status = cv_sim_thread(simulator, batch->thread);
    return status ? status : cv_sim_feed(simulator, refs);
}

cv_status cv_trace_simulate(void *simulator, const cv_refs *refs, const cv_batch *batch)
{
    return simulate(simulator, refs, batch, CV_BATCH_WINDOW);
}

cv_status cv_trace_simulate_sets(void *simulator, const cv_refs *refs, const cv_batch *batch)
{
    return simulate(simulator, refs, batch, CV_BATCH_SETS);
}

cv_status cv_trace_simulate_detailed(void *simulator, const cv_refs *refs, const cv_batch *batch)
{
    if (batch->kind != CV_BATCH_WINDOW)
        return CV_OK;
    cv_detailed_warm(simulator, (int)batch->warm);
    cv_detailed_burst(simulator, batch->window);
    return cv_detailed_feed(simulator, batch->thread % cv_detailed_cores(simulator), refs);
}

cv_status cv_trace_hand_over(void *directory, const cv_refs *refs, const cv_batch *batch)
{
    return batch->kind == CV_BATCH_WINDOW ? cv_directory_feed(directory, batch->thread, refs) : CV_OK;
}

cv_status cv_trace_hand_over_sets(void *directory, const cv_refs *refs, const cv_batch *batch)
{
    return batch->kind == CV_BATCH_SETS ? cv_directory_feed(directory, batch->thread, refs) : CV_OK;
}

cv_status cv_trace_touch(void *touches, const cv_refs *refs, const cv_batch *batch)
{
    return batch->kind == CV_BATCH_WINDOW ? cv_touches_feed(touches, batch->thread, batch->window, refs) : CV_OK;
}
