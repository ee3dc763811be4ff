/* A run of packed threads on a machine: discrete events, with speeds that change when a thread begins or ends to run.
 *
 * A thread's next record is looked at again whenever the thread is resumed; an event that cannot happen yet leaves it waiting. */
#include "thread_run.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/interrupt.h"

#define NOTHING 1e-15 /* seconds: rounding */

static void run_for(cv_threads *t, struct running *th, double seconds)
{
    cv_thread_does(t, th, 0);
    th->state = RUNNING;
    th->left = seconds;
    th->memory = th->demand = th->near = th->near_demand = 0;
    th->slowed = 1;
    th->n_touches = 0;
    t->runs[t->n_runs++] = number_of(t, th);
}

/* Finds what the thread does to lines that others touch. */
static void find_touches(cv_threads *t, struct running *th, const struct cv_thread_record *r, double seconds)
{
    const cv_threads_work *w = t->work;
    uint32_t low = 0, high = w->n_touches;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (w->touches[middle].work_class < r->work_class)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < w->n_touches && w->touches[low].work_class == r->work_class && w->touches[low].thread != r->thread)
        low++;
    th->touches = low;
    while (low < w->n_touches && w->touches[low].work_class == r->work_class && w->touches[low].thread == r->thread)
        low++;
    th->n_touches = low - th->touches;
    th->per_second = r->instructions / seconds;
}

/* Begins the work before the event in question; returns false where there is none. */
static bool begin_work(cv_threads *t, struct running *th)
{
    const struct cv_thread_record *r = &t->records[current(t, th)->record];
    const cv_threads_costs *c = &t->machine->costs;
    double user = r->instructions * t->work->seconds[r->work_class];
    const double handed = t->work->handed ? r->instructions * t->work->handed[r->work_class] : 0;
    const double work = user + r->calls * c->call + r->faults * c->fault, seconds = work + handed;
    th->worked = true;
    if (seconds <= 0)
        return false;
    run_for(t, th, seconds);
    if (user > 0) {
        th->memory = t->work->memory[r->work_class] * user / seconds;
        th->demand = t->work->bytes[r->work_class] * r->instructions / seconds;
        if (t->work->near) {
            th->near = t->work->near[r->work_class] * user / seconds;
            th->near_demand = t->work->near_bytes[r->work_class] * r->instructions / seconds;
        }
        find_touches(t, th, r, seconds);
    }
    t->totals->work += work;
    t->totals->handed += handed;
    if (team_of(t, th)) {
        team_of(t, th)->region.work += work;
        team_of(t, th)->region.contended += handed;
    }
    return true;
}

static void end_thread(cv_threads *t, struct running *th)
{
    th->state = ENDED;
    cv_thread_does(t, th, GONE);
    if (t->now > t->totals->elapsed)
        t->totals->elapsed = t->now;
}

/* Lets a thread go on until it works, waits or ends. */
static void proceed(cv_threads *t, struct running *th)
{
    if (th->owed > 0) {
        run_for(t, th, th->owed);
        th->owed = 0;
        return;
    }
    for (;;) {
        double cost = 0;
        if (th->at >= t->streams[th->stream].n) {
            if (cv_thread_runs_task(t, th)) {
                cv_thread_end_task(t, th);
                continue;
            }
            if (th->back == NEVER) {
                if (cv_thread_begin_left(t, th)) {
                    th->began = th->worked = false;
                    continue;
                }
                end_thread(t, th);
                return;
            }
            cv_thread_next_chunk(t, th, NULL); /* of a trace that was cut off */
            continue;
        }
        if (!th->worked && begin_work(t, th))
            return;
        const struct packed *p = current(t, th);
        t->totals->events++;
        if (t->records[p->record].kind == CV_THREAD_CHUNK) {
            cost = t->machine->costs.chunk;
            cv_thread_next_chunk(t, th, p);
        } else if (t->records[p->record].kind == CV_THREAD_TASK_END && cv_thread_runs_task(t, th)) {
            cv_thread_end_task(t, th);
            continue;
        } else if (cv_thread_happens(t, th, p, &cost)) {
            th->at++;
        } else if (th->began) {
            cost = t->machine->costs.chunk;
        } else {
            return;
        }
        th->began = false;
        th->worked = false;
        if (cost > 0) {
            run_for(t, th, cost);
            return;
        }
    }
}

/* ---- time ---- */

/* What a thread lost to others in so many seconds. */
static void add_losses(cv_threads *t, const struct running *th, double seconds)
{
    cv_threads_totals *out = t->totals;
    const double slowed = th->rate * (th->slowed - 1) * seconds, beside = th->rate * th->slowed * (th->beside - 1) * seconds;
    out->queued += (1 - th->share) * seconds;
    out->contended += slowed;
    out->paired += beside;
    const double saturated = (th->share - th->rate) * seconds - slowed - beside;
    const struct complex *own = &t->complexes[th->complex];
    const double near = th->near * (own->near - 1), all = near + th->memory * (own->memory - 1);
    out->near += all > 0 ? saturated * near / all : 0;
    out->saturated += all > 0 ? saturated * (1 - near / all) : saturated;
    if (team_of(t, th)) {
        cv_threads_region *region = &team_of(t, th)->region;
        region->contended += slowed;
        region->paired += beside;
        region->saturated += saturated;
    }
    if (slowed > 0)
        cv_threads_add_lost(t, th, slowed);
}

static void advance(cv_threads *t, double seconds)
{
    cv_threads_totals *out = t->totals;
    assert(seconds >= 0 && seconds < INFINITY && t->n_runs <= t->n_threads && t->n_sleeps <= t->n_threads);
    t->now += seconds;
    out->serial += t->n_runs == 1 ? seconds : 0;
    out->idle += t->n_runs == 0 ? seconds : 0;
    out->widest = t->n_runs > out->widest ? t->n_runs : out->widest;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->n_runs; i++) {
        struct running *th = &t->threads[t->runs[i]];
        const double done = t->shared ? th->rate * seconds : seconds;
        th->left -= done;
        th->busy += done;
        if (t->shared)
            add_losses(t, th, seconds);
        if (th->left <= NOTHING + 1e-12 * seconds)
            make_ready(t, th);
        else
            t->runs[kept++] = t->runs[i];
    }
    t->n_runs = kept;
    kept = 0;
    for (uint32_t i = 0; i < t->n_sleeps; i++) {
        struct running *th = &t->threads[t->sleeps[i]];
        if (th->until <= t->now + NOTHING)
            make_ready(t, th);
        else
            t->sleeps[kept++] = t->sleeps[i];
    }
    t->n_sleeps = kept;
}

/* Nothing would go on: the waiting thread whose event came first in the trace does. */
static bool force_one(cv_threads *t)
{
    struct running *first = NULL;
    for (uint32_t i = 0; i < t->n_threads; i++) {
        struct running *th = &t->threads[i];
        if (th->state == WAITING && (!first || current(t, th)->record < current(t, first)->record))
            first = th;
    }
    if (!first)
        return false;
    t->totals->forced++;
    const struct packed *p = current(t, first);
    struct sync_object *o = &t->objects[first->waits_for];
    if (first->cause == CV_THREADS_CONDITION && p->other != NEVER)
        t->signaled[p->other] = 1;
    else if (o->ordered && o->holder == NOBODY && !o->readers)
        o->next_turn = p->turn;
    else
        first->granted = true;
    cv_thread_resume(t, first, 0);
    return true;
}

static void reset(cv_threads *t)
{
    const cv_threads_machine *m = t->machine;
    for (uint32_t i = 0; i < t->n_objects; i++) {
        struct sync_object *o = &t->objects[i];
        o->holder = o->last = o->head = o->tail = NOBODY;
        o->again = o->readers = o->arrived = o->next_turn = o->next_chunk = o->unfinished = 0;
        o->count = o->at_first;
        o->open = false;
        o->sums = (cv_threads_lock){.object = o->sums.object};
        o->region = (cv_threads_region){0};
        o->outer = NOBODY;
    }
    for (uint32_t i = 0; i < t->n_tasks; i++) {
        const struct task *task = &t->tasks[i];
        t->tasks[i] = (struct task){task->stream, task->predecessors, task->first, task->n, .awaited = task->predecessors};
    }
    t->first_ready = t->last_ready = NOBODY;
    memset(t->signaled, 0, t->n_records);
    t->n_ready = t->n_runs = t->n_sleeps = 0;
    t->n_intervals = 0;
    t->short_of_memory = false;
    t->now = 0;
    for (uint32_t i = 0; i < t->n_threads; i++) { /* the first thread comes last, when those that it makes wait for it */
        t->threads[i] = (struct running){.stream = i, .back = NEVER, .next = NOBODY, .team = NOBODY, .task = NOBODY, .does = GONE};
        if (m->complexes > 1)
            t->threads[i].complex = i / (m->adjacent ? m->adjacent : 1) % m->complexes;
        make_ready(t, &t->threads[i]);
    }
}

cv_status cv_threads_run(cv_threads *t, const cv_threads_work *work, const cv_threads_machine *machine, cv_threads_totals *out)
{
    if (!machine->cores)
        return CV_ERROR_ARGUMENT;
    for (uint64_t i = 0; i < t->n_records; i++)
        if (t->records[i].work_class >= work->classes)
            return CV_ERROR_ARGUMENT;
    for (uint32_t i = 0; i < work->n_touches; i++)
        if (work->touches[i].line >= work->lines)
            return CV_ERROR_ARGUMENT;
    free(t->lines);
    t->n_lines = 0;
    free(t->runners);
    free(t->complexes);
    t->lines = calloc(work->lines + 1, sizeof *t->lines);
    t->runners = calloc(machine->cores, sizeof *t->runners);
    t->complexes = calloc(machine->complexes + 1, sizeof *t->complexes);
    if (!t->lines || !t->runners || !t->complexes)
        return CV_ERROR_MEMORY;
    t->n_lines = work->lines;
    *out = (cv_threads_totals){.threads = t->n_threads};
    t->work = work;
    t->machine = machine;
    cv_threads_know_losses(t);
    t->totals = out;
    reset(t);
    for (;;) {
        while (t->n_ready) {
            cv_status status = cv_interrupt_look(&t->steps);
            if (status != CV_OK)
                return status;
            proceed(t, &t->threads[t->ready[--t->n_ready]]);
        }
        if (!t->n_runs && !t->n_sleeps) {
            if (force_one(t))
                continue;
            return t->short_of_memory ? CV_ERROR_MEMORY : CV_OK;
        }
        advance(t, cv_threads_set_speeds(t));
    }
}

size_t cv_threads_locks(const cv_threads *t, cv_threads_lock *out, size_t room)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->n_objects; i++)
        if (t->objects[i].sums.taken) {
            if (n < room)
                out[n] = t->objects[i].sums;
            n++;
        }
    return n;
}

size_t cv_threads_regions(const cv_threads *t, cv_threads_region *out, size_t room)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->n_objects; i++)
        if (t->objects[i].region.seconds > 0) {
            if (n < room)
                out[n] = t->objects[i].region;
            n++;
        }
    return n;
}

size_t cv_threads_lines(const cv_threads *t, double *out, size_t room)
{
    for (uint32_t i = 0; i < t->n_lines && i < room; i++)
        out[i] = t->lines[i].lost;
    return t->n_lines;
}

size_t cv_threads_busy(const cv_threads *t, double *out, size_t room)
{
    for (uint32_t i = 0; i < t->n_threads && i < room; i++)
        out[i] = t->threads[i].busy;
    return t->n_threads;
}

size_t cv_threads_waited(const cv_threads *t, double *out, size_t room)
{
    for (uint32_t i = 0; i < t->n_threads && i < room; i++)
        memcpy(out + (size_t)i * CV_THREADS_CAUSES, t->threads[i].waited, sizeof t->threads[i].waited);
    return t->n_threads;
}
