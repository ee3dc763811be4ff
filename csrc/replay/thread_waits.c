/* What threads of a run wait for: queues, locks, signals, barriers, teams and loops. Each event says whether it has happened, and what it
 * takes; one that cannot happen yet leaves the thread waiting. */
#include "thread_run.h"

#include <math.h>

#define ANY_TURN UINT32_MAX

/* ---- queues ---- */

void cv_thread_block(cv_threads *t, struct running *th, uint32_t object, enum cv_threads_cause cause)
{
    struct sync_object *o = &t->objects[object];
    assert(th->state != WAITING && th->state != ASLEEP && th->state != ENDED); /* it is in one queue at most */
    assert(o->head == NOBODY || (t->threads[o->tail].next == NOBODY && t->threads[o->tail].since <= t->now)); /* first come, first */
    if (t->records[current(t, th)->record].kind != CV_THREAD_START) /* before which it is not there */
        cv_thread_does(t, th, 1 + cause);
    th->state = WAITING;
    th->cause = cause;
    th->since = t->now;
    th->waits_for = object;
    th->next = NOBODY;
    if (o->head == NOBODY)
        o->head = number_of(t, th);
    else
        t->threads[o->tail].next = number_of(t, th);
    o->tail = number_of(t, th);
}

static void leave_queue(cv_threads *t, struct running *th)
{
    struct sync_object *o = &t->objects[th->waits_for];
    uint32_t before = NOBODY;
    for (uint32_t i = o->head; i != NOBODY; before = i, i = t->threads[i].next)
        if (&t->threads[i] == th) {
            *(before == NOBODY ? &o->head : &t->threads[before].next) = th->next;
            if (o->tail == i)
                o->tail = before;
            return;
        }
    assert(!"who waits is in the queue of what it waits for");
}

/* A barrier takes so long of a thread, whoever comes late. */
static void barrier_takes(cv_threads *t, const struct running *th, double seconds)
{
    t->totals->barriers += seconds;
    if (team_of(t, th))
        team_of(t, th)->region.barriers += seconds;
}

void cv_thread_resume(cv_threads *t, struct running *th, double latency)
{
    assert(th->state == WAITING && t->now >= th->since && t->n_sleeps < t->n_threads);
    leave_queue(t, th);
    double waited = t->now - th->since + latency;
    const double barrier = th->cause == CV_THREADS_BARRIER ? latency : 0;
    th->waited[th->cause] += waited - barrier;
    th->delay = barrier + (th->cause == CV_THREADS_BARRIER ? th->owed : 0);
    barrier_takes(t, th, th->delay);
    if (th->cause == CV_THREADS_LOCK) {
        t->objects[th->waits_for].sums.waited += waited;
        if (team_of(t, th))
            team_of(t, th)->region.locks += waited;
    }
    if (latency <= 0) {
        make_ready(t, th);
        return;
    }
    th->state = ASLEEP;
    th->until = t->now + latency;
    t->sleeps[t->n_sleeps++] = number_of(t, th);
}

/* Runtimes look for a while before they sleep, but for a moment only where a team has more threads than there are cores: then sleeping
 * and waking up takes time of these. */
bool cv_thread_resume_waiting(cv_threads *t, struct running *th, double spinning, bool sleeps, uint32_t woken)
{
    const cv_threads_costs *c = &t->machine->costs;
    const bool crowd = t->objects[th->waits_for].parties > t->machine->cores;
    const bool slept = !crowd && (sleeps || t->now - th->since > c->spin);
    th->owed = crowd ? c->asleep : 0;
    cv_thread_resume(t, th, crowd ? 0 : slept ? c->wake + c->wake_each * woken : spinning);
    return slept;
}

/* What waking so many takes whoever calls. */
static double call_for(const cv_threads *t, uint32_t woken) { return woken < 2 ? 0 : t->machine->costs.wake_each * (woken - 1); }

/* All wait for the last one, part of it since the barrier before kept that one for longer. Returns what waking them takes it. */
static double resume_all(cv_threads *t, const struct running *last, struct sync_object *o, double spinning, bool sleeps)
{
    uint32_t woken = 0;
    while (o->head != NOBODY) {
        struct running *th = &t->threads[o->head];
        const double late = fmax(fmin(t->now - th->since, last->delay - th->delay), 0);
        th->waited[CV_THREADS_BARRIER] -= late;
        barrier_takes(t, th, late);
        th->granted = true;
        woken += cv_thread_resume_waiting(t, th, spinning, sleeps, woken);
    }
    return call_for(t, woken);
}

/* ---- locks, signals, semaphores ---- */

/* Seconds that a thread loses to have the line of a free lock and what it guards from the core of the thread that had it last. Nobody looks
 * at the lock meanwhile, so its core does other work until both lines come, as at any that it has not had for long. */
static double fetched(const cv_threads *t, const struct sync_object *o, uint32_t thread)
{
    const cv_threads_costs *c = &t->machine->costs;
    const double cores = t->machine->cores;
    if (o->last == NOBODY || o->last == thread)
        return 0;
    return fmin(c->pass, c->atomic_243 + c->shared_243) * (cores < t->n_threads ? (cores - 1) / cores : 1);
}

static bool reads(const cv_threads *t, const struct running *th)
{
    const struct cv_thread_record *r = &t->records[current(t, th)->record];
    return r->kind == CV_THREAD_LOCK && r->argument & CV_THREAD_SHARED;
}

static void give_lock(cv_threads *t, struct sync_object *o, uint32_t thread)
{
    assert(o->holder == NOBODY && (!o->readers || reads(t, &t->threads[thread]))); /* one has it, or some that read */
    if (!o->readers)
        o->taken_at = t->now;
    if (reads(t, &t->threads[thread]))
        o->readers++;
    else
        o->holder = thread;
    o->last = thread;
    o->sums.taken++;
}

static bool take(cv_threads *t, struct running *th, uint32_t lock, uint32_t turn, double *cost)
{
    struct sync_object *o = &t->objects[lock];
    if (th->granted) {
        th->granted = false;
        return true;
    }
    *cost = t->machine->costs.lock;
    if (o->holder == number_of(t, th)) {
        o->again++;
        o->next_turn += turn != ANY_TURN;
        return true;
    }
    const bool held = o->holder != NOBODY || (o->readers && !reads(t, th)); /* else it may be another's turn, who has data to bring */
    if (!held && (!o->ordered || turn == o->next_turn || turn == ANY_TURN)) {
        *cost += fetched(t, o, number_of(t, th));
        give_lock(t, o, number_of(t, th));
        o->next_turn += turn != ANY_TURN;
        return true;
    }
    o->sums.contended += held;
    cv_thread_block(t, th, lock, held ? CV_THREADS_LOCK : CV_THREADS_CONDITION);
    return false;
}

static void hand_over(cv_threads *t, struct sync_object *o, uint32_t thread, double latency)
{
    give_lock(t, o, thread);
    t->threads[thread].granted = true;
    cv_thread_resume(t, &t->threads[thread], latency);
}

/* Whether some waited. */
static bool hand_to_readers(cv_threads *t, struct sync_object *o)
{
    for (uint32_t i = o->head, next; i != NOBODY; i = next) {
        next = t->threads[i].next;
        if (reads(t, &t->threads[i]))
            hand_over(t, o, i, t->machine->costs.wake);
    }
    return o->readers;
}

/* A lock that spins goes to the first in the queue; one that sleeps is free until the first has woken up, as in glibc; an ordered one
 * waits for whose turn it is. A writer leaves it to all readers that wait, the last reader to the first writer. */
static void release(cv_threads *t, struct running *th, uint32_t lock, bool spins)
{
    struct sync_object *o = &t->objects[lock];
    const cv_threads_costs *c = &t->machine->costs;
    const bool wrote = o->holder == number_of(t, th);
    if (wrote && o->again) {
        o->again--;
        return;
    }
    if (!wrote && (!o->readers || --o->readers))
        return;
    o->holder = NOBODY;
    o->sums.held += t->now - o->taken_at;
    if (o->shared && hand_to_readers(t, o))
        return;
    for (uint32_t i = o->head; i != NOBODY; i = t->threads[i].next) {
        struct running *next = &t->threads[i];
        if (o->ordered) {
            if (current(t, next)->turn != o->next_turn && t->records[current(t, next)->record].kind != CV_THREAD_WOKEN)
                continue;
            cv_thread_resume(t, next, c->handover);
        } else if (spins || !wrote) {
            hand_over(t, o, i, spins ? c->pass : c->wake);
        } else {
            cv_thread_resume(t, next, c->wake);
        }
        return;
    }
}

static void signal_given(cv_threads *t, uint32_t record, uint32_t object, double *cost)
{
    struct sync_object *o = &t->objects[object];
    const cv_threads_costs *c = &t->machine->costs;
    uint32_t woken = 0;
    t->signaled[record] = 1;
    for (uint32_t i = o->head, next; i != NOBODY; i = next) {
        next = t->threads[i].next;
        if (current(t, &t->threads[i])->other == record)
            cv_thread_resume(t, &t->threads[i], c->wake + c->wake_each * woken++);
    }
    *cost = call_for(t, woken);
}

static bool wait_for_signal(cv_threads *t, struct running *th, const struct packed *p)
{
    if (p->other == NEVER || t->signaled[p->other])
        return true;
    cv_thread_block(t, th, p->object, CV_THREADS_CONDITION);
    return false;
}

static bool wait_open(cv_threads *t, struct running *th, uint32_t object, enum cv_threads_cause cause)
{
    if (t->objects[object].open || th->granted) {
        th->granted = false;
        return true;
    }
    cv_thread_block(t, th, object, cause);
    return false;
}

static bool acquire(cv_threads *t, struct running *th, uint32_t object, double *cost)
{
    struct sync_object *o = &t->objects[object];
    *cost = t->machine->costs.lock;
    if (th->granted || o->count > 0) {
        o->count -= !th->granted;
        assert(o->count >= 0);
        th->granted = false;
        return true;
    }
    cv_thread_block(t, th, object, CV_THREADS_CONDITION);
    return false;
}

static void give(cv_threads *t, struct sync_object *o)
{
    if (o->head == NOBODY) {
        o->count++;
        return;
    }
    t->threads[o->head].granted = true;
    cv_thread_resume(t, &t->threads[o->head], t->machine->costs.wake);
}

static void open_object(cv_threads *t, uint32_t object, double after)
{
    struct sync_object *o = &t->objects[object];
    o->open = true;
    while (o->head != NOBODY)
        cv_thread_resume(t, &t->threads[o->head], after);
}

/* ---- barriers, teams, loops ---- */

static double of_many(double two, double each, uint32_t n) { return n < 2 ? 0 : two + each * (n - 2); }

/* Whether all are at a barrier, or at a team's end, and no task is left; else the thread does one, or waits. */
static bool all_there(cv_threads *t, struct running *th, uint32_t object, uint32_t team)
{
    struct sync_object *o = &t->objects[object];
    const bool tasks = team != NOBODY && t->objects[team].unfinished;
    if (!th->arrived)
        o->arrived++;
    th->arrived = true;
    if (tasks && cv_thread_begin_oldest(t, th, team))
        return false;
    if (tasks || o->arrived < o->parties) {
        cv_thread_block(t, th, object, CV_THREADS_BARRIER);
        return false;
    }
    return true;
}

static bool arrive(cv_threads *t, struct running *th, const struct packed *p, double *cost)
{
    struct sync_object *o = &t->objects[p->object];
    if (!th->granted) {
        if (!all_there(t, th, p->object, p->second))
            return false;
        o->arrived = 0;
        *cost = of_many(t->machine->costs.barrier, t->machine->costs.barrier_each, o->parties);
        *cost += resume_all(t, th, o, *cost, o->own);
        th->delay = *cost;
        barrier_takes(t, th, *cost);
    }
    th->granted = th->arrived = false;
    return true;
}

static void fork_team(cv_threads *t, const struct running *th, const struct packed *p, double *cost)
{
    const cv_threads_costs *c = &t->machine->costs;
    struct sync_object *o = &t->objects[p->object];
    o->outer = th->team;
    o->begun = t->now;
    o->region.record = p->record;
    o->region.threads = o->parties;
    *cost = of_many(c->fork, c->fork_each, o->parties) + o->made * c->create;
    o->open = true;
    uint32_t woken = 0;
    while (o->head != NOBODY)
        woken += cv_thread_resume_waiting(t, &t->threads[o->head], *cost, false, woken);
    *cost += call_for(t, woken);
}

static bool begin_body(cv_threads *t, struct running *th, uint32_t object)
{
    if (!wait_open(t, th, object, CV_THREADS_FORK))
        return false;
    th->team = object;
    th->delay = 0;
    return true;
}

/* Those of a team that makes tasks stay until all are done. */
static bool end_body(cv_threads *t, struct running *th, uint32_t object, double *cost)
{
    struct sync_object *o = &t->objects[object];
    const double takes = of_many(t->machine->costs.barrier, t->machine->costs.barrier_each, o->parties);
    if (!o->tasks) {
        if (++o->arrived >= o->parties)
            *cost = resume_all(t, th, o, takes, false);
    } else if (!th->granted) {
        if (!all_there(t, th, object, object))
            return false;
        *cost = resume_all(t, th, o, takes, false);
    }
    th->granted = th->arrived = false;
    th->team = o->outer;
    return true;
}

static bool joined(cv_threads *t, struct running *th, uint32_t object)
{
    struct sync_object *o = &t->objects[object];
    if (th->granted || o->arrived >= o->parties) {
        th->granted = false;
        o->region.seconds = t->now - o->begun;
        return true;
    }
    cv_thread_block(t, th, object, CV_THREADS_BARRIER);
    return false;
}

/* The thread asks for a part of a loop: goes on with one of the pool, or in its own stream after the loop. */
void cv_thread_next_chunk(cv_threads *t, struct running *th, const struct packed *p)
{
    if (th->back == NEVER) {
        th->back = p->other;
        th->pool = p->second;
    }
    struct sync_object *pool = &t->objects[th->pool];
    assert(pool->next_chunk <= pool->n);
    if (pool->next_chunk < pool->n) {
        const struct chunk *chunk = &t->chunks[pool->first + pool->next_chunk++];
        th->stream = chunk->thread;
        th->at = chunk->at;
    } else {
        th->stream = number_of(t, th);
        th->at = th->back;
        th->back = NEVER;
    }
}

/* ---- all ---- */

bool cv_thread_happens(cv_threads *t, struct running *th, const struct packed *p, double *cost)
{
    const struct cv_thread_record *r = &t->records[p->record];
    const cv_threads_costs *c = &t->machine->costs;
    struct sync_object *o = p->object == NOBODY ? NULL : &t->objects[p->object];
    switch (r->kind) {
    case CV_THREAD_START: return r->argument & CV_THREAD_POOLED || wait_open(t, th, p->object, CV_THREADS_FORK);
    case CV_THREAD_EXIT: open_object(t, p->object, c->wake); return true;
    case CV_THREAD_CREATE:
        *cost = c->create;
        open_object(t, p->object, c->start);
        return true;
    case CV_THREAD_JOIN: *cost = c->join; return wait_open(t, th, p->object, CV_THREADS_JOIN);
    case CV_THREAD_LOCK: return take(t, th, p->object, p->turn, cost);
    case CV_THREAD_UNLOCK: release(t, th, p->object, o->spins); return true;
    case CV_THREAD_WAIT: release(t, th, p->second, false); return true;
    case CV_THREAD_WOKEN: return wait_for_signal(t, th, p) && take(t, th, p->second, ANY_TURN, cost);
    case CV_THREAD_SIGNAL:
    case CV_THREAD_WAKE: signal_given(t, p->record, p->object, cost); return true;
    case CV_THREAD_SLEPT: return wait_for_signal(t, th, p);
    case CV_THREAD_BARRIER: return o->parties < 2 || arrive(t, th, p, cost);
    case CV_THREAD_ACQUIRE: return acquire(t, th, p->object, cost);
    case CV_THREAD_RELEASE: give(t, o); return true;
    case CV_THREAD_FORK: fork_team(t, th, p, cost); return true;
    case CV_THREAD_BODY: return begin_body(t, th, p->object);
    case CV_THREAD_BODY_END: return end_body(t, th, p->object, cost);
    case CV_THREAD_JOINED: return joined(t, th, p->object);
    case CV_THREAD_TASK: cv_thread_make_task(t, th, r->object); return true;
    case CV_THREAD_TASK_BEGIN:
    case CV_THREAD_TASK_END: return cv_thread_run_at_once(t, th, r);
    case CV_THREAD_TASK_WAIT: return cv_thread_wait_for_tasks(t, th);
    default: return true;
    }
}
