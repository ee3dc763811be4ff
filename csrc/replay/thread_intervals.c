/* What threads do when, in a run: intervals for a timeline. */
#include "../trace/grow.h"
#include "thread_events.h"

#include <stdlib.h>

void cv_threads_keep_intervals(cv_threads *t, double least) { t->least = least; }

static void keep(cv_threads *t, uint32_t thread, uint32_t state, double begin, double end)
{
    if (!CV_ROOM(t->intervals, t->intervals_room, t->n_intervals)) {
        t->short_of_memory = true;
        return;
    }
    t->intervals[t->n_intervals++] = (cv_threads_interval){begin, end, thread, state};
}

void cv_thread_does(cv_threads *t, struct running *th, uint32_t state)
{
    if (t->least < 0 || th->does == state)
        return;
    if (th->does == GONE)
        th->kept_until = t->now;
    else
        th->each[th->does] += t->now - th->does_since;
    const double since = t->now - th->kept_until;
    if (since > 0 && (since >= t->least || state == GONE)) {
        uint32_t most = 0;
        for (uint32_t i = 1; i <= CV_THREADS_CAUSES; i++)
            if (th->each[i] > th->each[most])
                most = i;
        keep(t, (uint32_t)(th - t->threads), most, th->kept_until, t->now);
        th->kept_until = t->now;
        for (uint32_t i = 0; i <= CV_THREADS_CAUSES; i++)
            th->each[i] = 0;
    }
    th->does = state;
    th->does_since = t->now;
}

size_t cv_threads_intervals(const cv_threads *t, cv_threads_interval *out, size_t room)
{
    for (size_t i = 0; i < t->n_intervals && i < room; i++)
        out[i] = t->intervals[i];
    return t->n_intervals;
}
