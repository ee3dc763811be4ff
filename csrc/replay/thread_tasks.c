/* Tasks in a run of threads: those that are ready go to who waits, at a barrier the oldest first, as in libgomp. */
#include "thread_run.h"

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

void cv_thread_make_task(cv_threads *t, struct running *th, uint64_t number)
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
        cv_thread_resume_waiting(t, &t->threads[idle], t->machine->costs.handover, false);
}

static void begin_task(cv_threads *t, struct running *th, uint32_t number)
{
    struct task *task = &t->tasks[number];
    assert(task->made && *unfinished_of(t, task->parent, task->maker) > 0); /* it is in the list */
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

bool cv_thread_begin_oldest(cv_threads *t, struct running *th, uint32_t team)
{
    for (uint32_t i = t->first_ready; i != NOBODY; i = t->tasks[i].after)
        if (t->tasks[i].team == team) {
            begin_task(t, th, i);
            return true;
        }
    return false;
}

/* Of a trace that was cut off, or outside of parallel regions: what nobody waits for any more. */
bool cv_thread_begin_left(cv_threads *t, struct running *th)
{
    for (uint32_t i = t->first_ready; i != NOBODY; i = t->tasks[i].after)
        if (t->tasks[i].team == NOBODY || t->objects[t->tasks[i].team].region.seconds > 0) {
            begin_task(t, th, i);
            return true;
        }
    return false;
}

bool cv_thread_runs_task(const cv_threads *t, const struct running *th)
{
    return th->task != NOBODY && t->tasks[th->task].stream == th->stream;
}

/* Goes on with what the thread waits for. */
void cv_thread_end_task(cv_threads *t, struct running *th)
{
    const struct task *task = &t->tasks[th->task];
    uint32_t *left = unfinished_of(t, task->parent, task->maker);
    struct running *maker = &t->threads[task->parent == NOBODY ? task->maker : t->tasks[task->parent].runner];
    assert(*left > 0 && (task->team == NOBODY || t->objects[task->team].unfinished > 0));
    if (!--*left && maker->state == WAITING && maker->waits_for == t->task_waits && maker->task == task->parent)
        cv_thread_resume_waiting(t, maker, t->machine->costs.handover, false);
    if (task->team != NOBODY)
        t->objects[task->team].unfinished--;
    th->stream = task->back_stream;
    th->at = task->back_at;
    th->task = task->back_task;
    th->arrived = task->back_arrived;
    th->worked = true;
}

/* A task that the thread which makes it runs at once begins or ends. */
void cv_thread_run_at_once(const cv_threads *t, struct running *th, const struct cv_thread_record *r)
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
bool cv_thread_wait_for_tasks(cv_threads *t, struct running *th)
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
    cv_thread_block(t, th, t->task_waits, CV_THREADS_CONDITION);
    return false;
}
