/* What the parts of a run of threads share: thread_replay.c lets threads go on in time, thread_waits.c knows what they wait for,
 * thread_tasks.c what they do meanwhile, and thread_speeds.c how fast they are. */
#ifndef CV_THREAD_RUN_H
#define CV_THREAD_RUN_H

#include <assert.h>

#include "thread_events.h"

static inline struct packed *current(const cv_threads *t, const struct running *th)
{
    return &t->packed[t->streams[th->stream].first + th->at];
}

static inline uint32_t number_of(const cv_threads *t, const struct running *th) { return (uint32_t)(th - t->threads); }

static inline void make_ready(cv_threads *t, struct running *th)
{
    assert(t->n_ready < t->n_threads);
    th->state = READY;
    t->ready[t->n_ready++] = number_of(t, th);
}

static inline struct sync_object *team_of(cv_threads *t, const struct running *th)
{
    return th->team == NOBODY ? NULL : &t->objects[th->team];
}

/* thread_waits.c */
/* Puts the thread into an object's queue. */
void cv_thread_block(cv_threads *t, struct running *th, uint32_t object, enum cv_threads_cause cause);
void cv_thread_resume(cv_threads *t, struct running *th, double latency);
/* ... where runtimes look for a while: after `spinning`, or with those that sleep, after `woken` others. Whether it slept. */
bool cv_thread_resume_waiting(cv_threads *t, struct running *th, double spinning, bool sleeps, uint32_t woken);
/* Whether the thread's event has happened; else it waits. `cost` becomes the seconds that it takes. */
bool cv_thread_happens(cv_threads *t, struct running *th, const struct packed *p, double *cost);
void cv_thread_next_chunk(cv_threads *t, struct running *th, const struct packed *p);

/* thread_tasks.c */
void cv_thread_make_task(cv_threads *t, struct running *th, uint64_t number);
bool cv_thread_begin_oldest(cv_threads *t, struct running *th, uint32_t team); /* whether there was one */
bool cv_thread_begin_left(cv_threads *t, struct running *th);
bool cv_thread_runs_task(const cv_threads *t, const struct running *th);
void cv_thread_end_task(cv_threads *t, struct running *th);
bool cv_thread_run_at_once(cv_threads *t, struct running *th, const struct cv_thread_record *r);
bool cv_thread_wait_for_tasks(cv_threads *t, struct running *th);

/* thread_speeds.c */
/* Sets all speeds; returns the time until something happens, infinity where nothing will. */
void cv_threads_know_losses(cv_threads *t); /* from the machine's costs */
double cv_threads_set_speeds(cv_threads *t);
void cv_threads_add_lost(cv_threads *t, const struct running *th, double seconds);

#endif
