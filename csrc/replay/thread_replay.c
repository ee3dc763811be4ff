/* A run of packed threads on a machine: discrete events, with speeds that change when a thread begins or ends to run.
 *
 * A thread's next record is looked at again whenever the thread is resumed; an event that cannot happen yet leaves it waiting. */
#include "thread_events.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/interrupt.h"

#define ANY_TURN UINT32_MAX
#define EVERY UINT32_MAX
#define STEPS 40      /* of the search for how much slower memory is */
#define SLOWEST 1e6   /* ... at most */
#define NOTHING 1e-15 /* seconds: rounding */
#define ROUNDED 1e-9  /* of shares */

static struct packed *current(const cv_threads *t, const struct running *th) { return &t->packed[t->streams[th->stream].first + th->at]; }

static uint32_t number_of(const cv_threads *t, const struct running *th) { return (uint32_t)(th - t->threads); }

/* ---- states ---- */

static void make_ready(cv_threads *t, struct running *th)
{
    th->state = READY;
    t->ready[t->n_ready++] = number_of(t, th);
}

static struct sync_object *team_of(cv_threads *t, const struct running *th) { return th->team == NOBODY ? NULL : &t->objects[th->team]; }

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

static void block(cv_threads *t, struct running *th, uint32_t object, enum cv_threads_cause cause)
{
    struct sync_object *o = &t->objects[object];
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
}

static void resume(cv_threads *t, struct running *th, double latency)
{
    leave_queue(t, th);
    double waited = t->now - th->since + latency;
    t->totals->waited[th->cause] += waited;
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
static void resume_waiting(cv_threads *t, struct running *th, double spinning, bool sleeps)
{
    const cv_threads_costs *c = &t->machine->costs;
    const bool crowd = t->objects[th->waits_for].parties > t->machine->cores;
    th->owed = crowd ? c->asleep : 0;
    resume(t, th, crowd ? 0 : sleeps || t->now - th->since > c->spin ? c->wake : spinning);
}

static double of_many(double two, double each, uint32_t n) { return n < 2 ? 0 : two + each * (n - 2); }

static void resume_all(cv_threads *t, struct sync_object *o, double spinning, bool sleeps)
{
    while (o->head != NOBODY) {
        struct running *th = &t->threads[o->head];
        th->granted = true;
        resume_waiting(t, th, spinning, sleeps);
    }
}

/* ---- events: each returns whether it has happened, and sets what it takes ---- */

/* Seconds until a thread has the line of a free lock and what it guards from the core of the thread that had it last. */
static double fetched(const cv_threads *t, const struct sync_object *o, uint32_t thread)
{
    const double cores = t->machine->cores;
    if (o->last == NOBODY || o->last == thread)
        return 0;
    return t->machine->costs.pass * (cores < t->n_threads ? (cores - 1) / cores : 1);
}

static bool take(cv_threads *t, struct running *th, uint32_t lock, uint32_t turn, double *cost)
{
    struct sync_object *o = &t->objects[lock];
    if (th->granted) {
        th->granted = false;
        return true;
    }
    *cost = t->machine->costs.lock;
    if (o->holder == NOBODY && (!o->ordered || turn == o->next_turn || turn == ANY_TURN)) {
        o->holder = number_of(t, th);
        *cost += fetched(t, o, o->holder);
        o->last = o->holder;
        o->next_turn += turn != ANY_TURN;
        o->taken_at = t->now;
        o->sums.taken++;
        return true;
    }
    const bool held = o->holder != NOBODY; /* else it is another's turn, who has data to bring */
    o->sums.contended += held;
    block(t, th, lock, held ? CV_THREADS_LOCK : CV_THREADS_CONDITION);
    return false;
}

/* A lock that spins goes to the first in the queue; one that sleeps is free until the first has woken up, as in glibc; an ordered one
 * waits for whose turn it is. */
static void release(cv_threads *t, struct running *th, uint32_t lock, bool spins)
{
    struct sync_object *o = &t->objects[lock];
    const cv_threads_costs *c = &t->machine->costs;
    if (o->holder != number_of(t, th))
        return;
    o->holder = NOBODY;
    o->sums.held += t->now - o->taken_at;
    for (uint32_t i = o->head; i != NOBODY; i = t->threads[i].next) {
        struct running *next = &t->threads[i];
        if (o->ordered) {
            if (current(t, next)->turn != o->next_turn && t->records[current(t, next)->record].kind != CV_THREAD_WOKEN)
                continue;
            resume(t, next, c->handover);
        } else if (spins) {
            o->holder = o->last = i;
            o->next_turn++;
            o->taken_at = t->now;
            o->sums.taken++;
            next->granted = true;
            resume(t, next, c->pass);
        } else {
            resume(t, next, c->wake);
        }
        return;
    }
}

static void signal_given(cv_threads *t, uint32_t record, uint32_t object)
{
    struct sync_object *o = &t->objects[object];
    t->signaled[record] = 1;
    for (uint32_t i = o->head, next; i != NOBODY; i = next) {
        next = t->threads[i].next;
        if (current(t, &t->threads[i])->other == record)
            resume(t, &t->threads[i], t->machine->costs.wake);
    }
}

static bool wait_for_signal(cv_threads *t, struct running *th, const struct packed *p)
{
    if (p->other == NEVER || t->signaled[p->other])
        return true;
    block(t, th, p->object, CV_THREADS_CONDITION);
    return false;
}

static bool wait_open(cv_threads *t, struct running *th, uint32_t object, enum cv_threads_cause cause)
{
    if (t->objects[object].open || th->granted) {
        th->granted = false;
        return true;
    }
    block(t, th, object, cause);
    return false;
}

/* ---- tasks: those that are ready go to who waits, at a barrier the oldest first, as in libgomp ---- */

static uint32_t *unfinished_of(cv_threads *t, uint32_t task, uint32_t maker)
{
    return task == NOBODY ? &t->threads[maker].unfinished : &t->tasks[task].unfinished;
}

/* Whether a thread that waits for tasks of its own may do this one: LLVM's runtime lets it do what those have made, too. */
static bool helps(const cv_threads *t, const struct running *th, uint32_t task)
{
    const bool all = t->records[current(t, th)->record].argument == 1;
    for (; task != NOBODY; task = all ? t->tasks[task].parent : NOBODY)
        if (t->tasks[task].parent == th->task && (th->task != NOBODY || t->tasks[task].maker == number_of(t, th)))
            return true;
    return false;
}

static uint32_t first_to_help(const cv_threads *t, uint32_t task)
{
    uint32_t thread = t->objects[t->task_waits].head;
    while (thread != NOBODY && !helps(t, &t->threads[thread], task))
        thread = t->threads[thread].next;
    return thread;
}

static void make_task(cv_threads *t, struct running *th, uint64_t number)
{
    struct task *task = number < t->n_tasks ? &t->tasks[number] : NULL;
    if (!task || task->made || task->stream == NOBODY)
        return;
    task->made = true;
    task->team = th->team;
    task->parent = th->task;
    task->maker = number_of(t, th);
    task->before = t->last_ready;
    task->after = NOBODY;
    *(t->last_ready == NOBODY ? &t->first_ready : &t->tasks[t->last_ready].after) = (uint32_t)number;
    t->last_ready = (uint32_t)number;
    ++*unfinished_of(t, task->parent, task->maker);
    if (task->team == NOBODY)
        return;
    struct sync_object *team = &t->objects[task->team];
    team->unfinished++;
    uint32_t idle = team->barrier == NOBODY ? NOBODY : t->objects[team->barrier].head;
    idle = idle == NOBODY ? team->head : idle;
    idle = idle == NOBODY ? first_to_help(t, (uint32_t)number) : idle;
    if (idle != NOBODY)
        resume_waiting(t, &t->threads[idle], t->machine->costs.handover, false);
}

static void begin_task(cv_threads *t, struct running *th, uint32_t number)
{
    struct task *task = &t->tasks[number];
    *(task->before == NOBODY ? &t->first_ready : &t->tasks[task->before].after) = task->after;
    *(task->after == NOBODY ? &t->last_ready : &t->tasks[task->after].before) = task->before;
    task->runner = number_of(t, th);
    task->back_stream = th->stream;
    task->back_at = th->at;
    task->back_task = th->task;
    task->back_arrived = th->arrived;
    th->arrived = false;
    th->stream = task->stream;
    th->at = 0;
    th->task = number;
    th->began = true;
}

static bool begin_oldest(cv_threads *t, struct running *th, uint32_t team)
{
    for (uint32_t i = t->first_ready; i != NOBODY; i = t->tasks[i].after)
        if (t->tasks[i].team == team) {
            begin_task(t, th, i);
            return true;
        }
    return false;
}

/* Of a trace that was cut off, or outside of parallel regions: what nobody waits for any more. */
static bool begin_left(cv_threads *t, struct running *th)
{
    for (uint32_t i = t->first_ready; i != NOBODY; i = t->tasks[i].after)
        if (t->tasks[i].team == NOBODY || t->objects[t->tasks[i].team].region.seconds > 0) {
            begin_task(t, th, i);
            return true;
        }
    return false;
}

static bool runs_task(const cv_threads *t, const struct running *th)
{
    return th->task != NOBODY && t->tasks[th->task].stream == th->stream;
}

/* Goes on with what the thread waits for. */
static void end_task(cv_threads *t, struct running *th)
{
    const struct task *task = &t->tasks[th->task];
    uint32_t *left = unfinished_of(t, task->parent, task->maker);
    struct running *maker = &t->threads[task->parent == NOBODY ? task->maker : t->tasks[task->parent].runner];
    if (!--*left && maker->state == WAITING && maker->waits_for == t->task_waits && maker->task == task->parent)
        resume_waiting(t, maker, t->machine->costs.handover, false);
    if (task->team != NOBODY)
        t->objects[task->team].unfinished--;
    th->stream = task->back_stream;
    th->at = task->back_at;
    th->task = task->back_task;
    th->arrived = task->back_arrived;
    th->worked = true;
}

/* A task that the thread which makes it runs at once begins or ends. */
static void run_at_once(const cv_threads *t, struct running *th, const struct cv_thread_record *r)
{
    struct task *task = r->object < t->n_tasks ? &t->tasks[r->object] : NULL;
    if (!task || task->stream != NOBODY)
        return;
    if (r->kind == CV_THREAD_TASK_END && th->task == r->object) {
        th->task = task->back_task;
    } else if (r->kind == CV_THREAD_TASK_BEGIN && !task->made) {
        task->made = true;
        task->runner = number_of(t, th);
        task->back_task = th->task;
        th->task = (uint32_t)r->object;
    }
}

/* Runtimes give those that wait for their own tasks the newest first. */
static bool wait_for_tasks(cv_threads *t, struct running *th)
{
    const uint32_t me = number_of(t, th);
    if (th->granted || !*unfinished_of(t, th->task, me)) {
        th->granted = false;
        return true;
    }
    for (uint32_t i = t->last_ready; i != NOBODY; i = t->tasks[i].before)
        if (helps(t, th, i)) {
            begin_task(t, th, i);
            return false;
        }
    block(t, th, t->task_waits, CV_THREADS_CONDITION);
    return false;
}

/* Whether all are at a barrier, or at a team's end, and no task is left; else the thread does one, or waits. */
static bool all_there(cv_threads *t, struct running *th, uint32_t object, uint32_t team)
{
    struct sync_object *o = &t->objects[object];
    const bool tasks = team != NOBODY && t->objects[team].unfinished;
    if (!th->arrived)
        o->arrived++;
    th->arrived = true;
    if (tasks && begin_oldest(t, th, team))
        return false;
    if (tasks || o->arrived < o->parties) {
        block(t, th, object, CV_THREADS_BARRIER);
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
        resume_all(t, o, *cost, o->own);
    }
    th->granted = th->arrived = false;
    return true;
}

static bool acquire(cv_threads *t, struct running *th, uint32_t object, double *cost)
{
    struct sync_object *o = &t->objects[object];
    *cost = t->machine->costs.lock;
    if (th->granted || o->count > 0) {
        o->count -= !th->granted;
        th->granted = false;
        return true;
    }
    block(t, th, object, CV_THREADS_CONDITION);
    return false;
}

static void give(cv_threads *t, struct sync_object *o)
{
    if (o->head == NOBODY) {
        o->count++;
        return;
    }
    t->threads[o->head].granted = true;
    resume(t, &t->threads[o->head], t->machine->costs.wake);
}

static void open_object(cv_threads *t, uint32_t object, double after)
{
    struct sync_object *o = &t->objects[object];
    o->open = true;
    while (o->head != NOBODY)
        resume(t, &t->threads[o->head], after);
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
    while (o->head != NOBODY)
        resume_waiting(t, &t->threads[o->head], *cost, false);
}

static bool begin_body(cv_threads *t, struct running *th, uint32_t object)
{
    if (!wait_open(t, th, object, CV_THREADS_FORK))
        return false;
    th->team = object;
    return true;
}

/* Those of a team that makes tasks stay until all are done. */
static bool end_body(cv_threads *t, struct running *th, uint32_t object)
{
    struct sync_object *o = &t->objects[object];
    const double cost = of_many(t->machine->costs.barrier, t->machine->costs.barrier_each, o->parties);
    if (!o->tasks) {
        if (++o->arrived >= o->parties)
            resume_all(t, o, cost, false);
    } else if (!th->granted) {
        if (!all_there(t, th, object, object))
            return false;
        resume_all(t, o, cost, false);
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
    block(t, th, object, CV_THREADS_BARRIER);
    return false;
}

/* The thread asks for a part of a loop: goes on with one of the pool, or in its own stream after the loop. */
static void next_chunk(cv_threads *t, struct running *th, const struct packed *p)
{
    if (th->back == NEVER) {
        th->back = p->other;
        th->pool = p->second;
    }
    struct sync_object *pool = &t->objects[th->pool];
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

static bool happens(cv_threads *t, struct running *th, const struct packed *p, double *cost)
{
    const struct cv_thread_record *r = &t->records[p->record];
    const cv_threads_costs *c = &t->machine->costs;
    struct sync_object *o = p->object == NOBODY ? NULL : &t->objects[p->object];
    switch (r->kind) {
    case CV_THREAD_START: return r->argument || wait_open(t, th, p->object, CV_THREADS_FORK);
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
    case CV_THREAD_WAKE: signal_given(t, p->record, p->object); return true;
    case CV_THREAD_SLEPT: return wait_for_signal(t, th, p);
    case CV_THREAD_BARRIER: return o->parties < 2 || arrive(t, th, p, cost);
    case CV_THREAD_ACQUIRE: return acquire(t, th, p->object, cost);
    case CV_THREAD_RELEASE: give(t, o); return true;
    case CV_THREAD_FORK: fork_team(t, th, p, cost); return true;
    case CV_THREAD_BODY: return begin_body(t, th, p->object);
    case CV_THREAD_BODY_END: return end_body(t, th, p->object);
    case CV_THREAD_JOINED: return joined(t, th, p->object);
    case CV_THREAD_TASK: make_task(t, th, r->object); return true;
    case CV_THREAD_TASK_BEGIN:
    case CV_THREAD_TASK_END: run_at_once(t, th, r); return true;
    case CV_THREAD_TASK_WAIT: return wait_for_tasks(t, th);
    default: return true;
    }
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
    double seconds = user + r->calls * c->call + r->faults * c->fault;
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
    t->totals->work += seconds;
    if (team_of(t, th))
        team_of(t, th)->region.work += seconds;
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
            if (runs_task(t, th)) {
                end_task(t, th);
                continue;
            }
            if (th->back == NEVER) {
                if (begin_left(t, th)) {
                    th->began = th->worked = false;
                    continue;
                }
                end_thread(t, th);
                return;
            }
            next_chunk(t, th, NULL); /* of a trace that was cut off */
            continue;
        }
        if (!th->worked && begin_work(t, th))
            return;
        const struct packed *p = current(t, th);
        t->totals->events++;
        if (t->records[p->record].kind == CV_THREAD_CHUNK) {
            cost = t->machine->costs.chunk;
            next_chunk(t, th, p);
        } else if (t->records[p->record].kind == CV_THREAD_TASK_END && runs_task(t, th)) {
            end_task(t, th);
            continue;
        } else if (happens(t, th, p, &cost)) {
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

/* How many times slower threads are, in the mean, because others use their core: each has one of its own while there are enough. */
static double beside_siblings(const cv_threads *t)
{
    const cv_threads_machine *m = t->machine;
    return !m->pairs || t->busy <= m->pairs ? 1 : 1 + fmax(m->sibling - 1, 0) * fmin(2.0 * (t->busy - m->pairs) / t->busy, 1);
}

/* Whether something runs on the other processor of a core. */
static bool has_sibling(const cv_threads *t, uint32_t processor)
{
    const cv_threads_machine *m = t->machine;
    if (!m->pairs)
        return false;
    uint32_t other = m->pinning == CV_THREADS_COMPACT ? processor ^ 1 : processor < m->pairs ? processor + m->pairs : processor - m->pairs;
    return other < m->cores && t->runners[other];
}

static void share_pinned(cv_threads *t)
{
    const cv_threads_machine *m = t->machine;
    memset(t->runners, 0, m->cores * sizeof *t->runners);
    t->busy = 0;
    for (uint32_t i = 0; i < t->n_runs; i++)
        t->busy += !t->runners[t->runs[i] % m->cores]++;
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const uint32_t processor = t->runs[i] % m->cores;
        t->threads[t->runs[i]].share = 1.0 / t->runners[processor];
        t->threads[t->runs[i]].beside = has_sibling(t, processor) ? fmax(m->sibling, 1) : 1;
    }
}

/* How many times longer a thread takes that waits so many times longer for the last level and for memory. */
static double waiting(const struct running *th, double near, double memory)
{
    return 1 - th->memory - th->near + th->memory * memory + th->near * near;
}

/* Gives cores to those that run. */
static void share_cores(cv_threads *t)
{
    const uint32_t cores = t->machine->cores;
    if (t->machine->pinning != CV_THREADS_FREE) {
        share_pinned(t);
        return;
    }
    t->busy = t->n_runs < cores ? t->n_runs : cores;
    const double share = t->n_runs > cores ? (double)cores / t->n_runs : 1, beside = beside_siblings(t);
    for (uint32_t i = 0; i < t->n_runs; i++) {
        t->threads[t->runs[i]].share = share;
        t->threads[t->runs[i]].beside = beside;
    }
}

/* Bytes a second that the threads of a complex (EVERY: of all) get from memory or the last level, if these are so many times slower. */
static double used(const cv_threads *t, uint32_t complex, bool near, double slower)
{
    double sum = 0;
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const struct running *th = &t->threads[t->runs[i]];
        const struct complex *own = &t->complexes[th->complex];
        if (complex != EVERY && complex != th->complex)
            continue;
        const double of_near = near ? slower : own->near, of_memory = near ? own->memory : fmax(slower, own->memory);
        sum += th->share * (near ? th->near_demand : th->demand) / waiting(th, of_near, of_memory);
    }
    return sum;
}

/* The least factor by which waiting grows so that all together get no more than what so many busy cores can have. */
static double least_slower(const cv_threads *t, uint32_t complex, bool near, const double *capacities, uint32_t known, uint32_t busy)
{
    if (!known || !busy)
        return 1;
    const double capacity = capacities[busy < known ? busy - 1 : known - 1];
    if (used(t, complex, near, 1) <= capacity)
        return 1;
    double low = 0, high = log(SLOWEST); /* of its logarithm */
    for (int i = 0; i < STEPS; i++) {
        double middle = (low + high) / 2;
        *(used(t, complex, near, exp(middle)) > capacity ? &low : &high) = middle;
    }
    return exp(high);
}

/* How much longer threads wait for the last level of their complex and for memory: through their complex, and of all. */
static void share_bandwidth(cv_threads *t)
{
    const cv_threads_machine *m = t->machine;
    const uint32_t n = m->complexes > 1 ? m->complexes : 1, most = (m->cores + n - 1) / n;
    for (uint32_t c = 0; c < n; c++)
        t->complexes[c] = (struct complex){0, 1, 1};
    for (uint32_t i = 0; i < t->n_runs; i++) {
        struct running *th = &t->threads[t->runs[i]];
        th->complex = t->runs[i] / (m->adjacent ? m->adjacent : 1) % n;
        t->complexes[th->complex].runners++;
    }
    for (uint32_t c = 0; c < n; c++) {
        const uint32_t busy = t->complexes[c].runners < most ? t->complexes[c].runners : most;
        t->complexes[c].near = least_slower(t, c, true, m->near_capacity, m->near_capacities, busy);
        t->complexes[c].memory = least_slower(t, c, false, m->complex_capacity, m->complex_capacities, busy);
    }
    const double slower = least_slower(t, EVERY, false, m->capacity, m->capacities, t->busy);
    for (uint32_t c = 0; c < n; c++)
        t->complexes[c].memory = fmax(t->complexes[c].memory, slower);
}

static const cv_threads_touch *touch_of(const cv_threads *t, const struct running *th, uint32_t k)
{
    return &t->work->touches[th->touches + k];
}

/* Sums what those that run do to lines. */
static void sum_lines(cv_threads *t)
{
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const struct running *th = &t->threads[t->runs[i]];
        for (uint32_t k = 0; k < th->n_touches; k++) {
            struct line_use *line = &t->lines[touch_of(t, th, k)->line];
            *line = (struct line_use){.lost = line->lost};
        }
    }
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const struct running *th = &t->threads[t->runs[i]];
        for (uint32_t k = 0; k < th->n_touches; k++) {
            const cv_threads_touch *touch = touch_of(t, th, k);
            struct line_use *line = &t->lines[touch->line];
            line->runners++;
            line->touched += (touch->loads + touch->stores) * th->per_second;
            line->stored += touch->stores * th->per_second;
        }
    }
}

/* Seconds that a thread loses at one line in a second alone: its loads wait as often as others store, its atomic operations as often as
 * others touch the line. Stores wait in a buffer and cost it nothing. `present`: the part of the time in which others have a core. */
static double lost_at(const cv_threads *t, const struct running *th, const cv_threads_touch *touch, double present)
{
    const cv_threads_costs *c = &t->machine->costs;
    const struct line_use *line = &t->lines[touch->line];
    double stored = present * (line->stored - touch->stores * th->per_second);
    double touched = present * (line->touched - (touch->loads + touch->stores) * th->per_second);
    return fmax(fmin(touch->loads * th->per_second, stored), 0) * c->shared +
           fmax(fmin(touch->atomics * th->per_second, touched), 0) * c->shared_atomic;
}

/* How many times slower each of two threads is, at most, that want the same line: they have it in turn, each for half of the time; passing
 * it on takes more where they do little else. `often`: touches in a second alone. */
static double in_turn(double crowded, double alone, double often) { return fmin(crowded, fmax(2, 1 + (crowded - 1) * alone * often)); }

/* How many times slower a thread is while those that touch its lines, too, have a core for a part of the time. */
static double slowed_by(const cv_threads *t, const struct running *th, double present)
{
    const cv_threads_costs *c = &t->machine->costs;
    double lost = 0, crowd = 0, atomics = 0, touched = 0;
    for (uint32_t k = 0; k < th->n_touches; k++) {
        const cv_threads_touch *touch = touch_of(t, th, k);
        lost += lost_at(t, th, touch, present);
        crowd = fmax(crowd, present * (t->lines[touch->line].runners - 1));
        atomics += touch->atomics;
        touched += fmax(touch->loads, touch->stores - touch->atomics) + touch->atomics;
    }
    const double atomic = touched > 0 ? atomics / touched : 0; /* of all that it does to such lines */
    const double often = touched * th->per_second;
    const double two = atomic * in_turn(c->crowded_atomic, c->sum, often) + (1 - atomic) * in_turn(c->crowded, c->counter, often);
    return fmin(1 + lost, fmax(two * (1 + crowd) / 2, 1));
}

/* ... in the mean over who has the other cores meanwhile: `slots` of `others`, each as likely, of which `alike` touch its lines. Times
 * are shared, so speeds are averaged, not what is lost. */
static double slowed_in_turn(const cv_threads *t, const struct running *th, uint32_t others, uint32_t slots, uint32_t alike)
{
    const uint32_t least = alike + slots > others ? alike + slots - others : 0, most = alike < slots ? alike : slots;
    double weight = 1, weights = 0, speed = 0;
    for (uint32_t k = least; k <= most; k++) {
        weights += weight;
        speed += weight / slowed_by(t, th, (double)k / alike);
        weight *= (double)(alike - k) * (slots - k) / ((k + 1.0) * (others - alike - slots + k + 1.0));
    }
    return weights / speed;
}

static void slow_those_that_touch(cv_threads *t, uint32_t busy)
{
    if (!t->work->n_touches || busy < 2)
        return;
    sum_lines(t);
    for (uint32_t i = 0; i < t->n_runs; i++) {
        struct running *th = &t->threads[t->runs[i]];
        uint32_t alike = 0;
        for (uint32_t k = 0; k < th->n_touches; k++)
            if (t->lines[touch_of(t, th, k)->line].runners > alike + 1)
                alike = t->lines[touch_of(t, th, k)->line].runners - 1;
        if (alike)
            th->slowed = slowed_in_turn(t, th, t->n_runs - 1, busy - 1, alike);
    }
}

/* Counts what was lost at each line in so many seconds of a thread. */
static void add_lost(cv_threads *t, const struct running *th, double seconds, uint32_t busy)
{
    double present = (busy - 1.0) / (t->n_runs - 1.0), whole = 0;
    for (uint32_t k = 0; k < th->n_touches; k++)
        whole += lost_at(t, th, touch_of(t, th, k), present);
    for (uint32_t k = 0; k < th->n_touches && whole > 0; k++)
        t->lines[touch_of(t, th, k)->line].lost += seconds * lost_at(t, th, touch_of(t, th, k), present) / whole;
}

/* Sets all speeds; returns the time until something happens, infinity where nothing will. */
static double set_speeds(cv_threads *t)
{
    double until = INFINITY;
    share_cores(t);
    share_bandwidth(t);
    for (uint32_t i = 0; i < t->n_runs; i++)
        t->threads[t->runs[i]].slowed = 1;
    slow_those_that_touch(t, t->busy);
    for (uint32_t i = 0; i < t->n_runs; i++) {
        struct running *th = &t->threads[t->runs[i]];
        const struct complex *own = &t->complexes[th->complex];
        assert(th->state == RUNNING && th->memory >= 0 && th->near >= 0 && th->memory + th->near <= 1 + ROUNDED);
        th->rate = th->share / waiting(th, own->near, own->memory) / th->slowed / th->beside;
        assert(th->rate > 0 && th->rate <= 1 + ROUNDED);
        until = fmin(until, th->left / th->rate);
    }
    for (uint32_t i = 0; i < t->n_sleeps; i++)
        until = fmin(until, t->threads[t->sleeps[i]].until - t->now);
    return fmax(until, 0);
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
        th->left -= th->rate * seconds;
        th->busy += th->rate * seconds;
        double slowed = th->rate * (th->slowed - 1) * seconds, beside = th->rate * th->slowed * (th->beside - 1) * seconds;
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
            add_lost(t, th, slowed, t->busy);
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
    else if (o->ordered && o->holder == NOBODY)
        o->next_turn = p->turn;
    else
        first->granted = true;
    resume(t, first, 0);
    return true;
}

static void reset(cv_threads *t)
{
    for (uint32_t i = 0; i < t->n_objects; i++) {
        struct sync_object *o = &t->objects[i];
        o->holder = o->last = o->head = o->tail = NOBODY;
        o->arrived = o->next_turn = o->next_chunk = o->unfinished = 0;
        o->count = o->at_first;
        o->open = false;
        o->sums = (cv_threads_lock){.object = o->sums.object};
        o->region = (cv_threads_region){0};
        o->outer = NOBODY;
    }
    for (uint32_t i = 0; i < t->n_tasks; i++)
        t->tasks[i] = (struct task){.stream = t->tasks[i].stream};
    t->first_ready = t->last_ready = NOBODY;
    memset(t->signaled, 0, t->n_records);
    t->n_ready = t->n_runs = t->n_sleeps = 0;
    t->n_intervals = 0;
    t->short_of_memory = false;
    t->now = 0;
    for (uint32_t i = 0; i < t->n_threads; i++) { /* the first thread comes last, when those that it makes wait for it */
        t->threads[i] = (struct running){.stream = i, .back = NEVER, .next = NOBODY, .team = NOBODY, .task = NOBODY, .does = GONE};
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
        advance(t, set_speeds(t));
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
