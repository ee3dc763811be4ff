/* Tasks in a run of threads: those that are ready go to who waits, at a barrier the oldest first, as in libgomp. Ready are those that are
 * made and whose predecessors have ended. */
#include "thread_run.h"

static uint32_t *unfinished_of(cv_threads *t, uint32_t task, uint32_t maker)
{
    return task == NOBODY ? &t->threads[maker].unfinished : &t->tasks[task].unfinished;
}

/* Whether a thread that waits for tasks of its own may do this one: LLVM's runtime lets it do what those have made, too. */
static bool helps(const cv_threads *t, const struct running *th, uint32_t task)
{
    const struct cv_thread_record *r = &t->records[current(t, th)->record];
    const bool all = r->kind == CV_THREAD_TASK_WAIT && r->argument == 1;
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

static void add_ready(cv_threads *t, uint32_t number)
{
    struct task *task = &t->tasks[number];
    assert(task->made && !task->awaited);
    task->before = t->last_ready;
    task->after = NOBODY;
    *(t->last_ready == NOBODY ? &t->first_ready : &t->tasks[t->last_ready].after) = number;
    t->last_ready = number;
}

/* Resumes a thread that may do this task. */
static void wake_for(cv_threads *t, uint32_t number)
{
    if (t->tasks[number].team == NOBODY)
        return;
    const struct sync_object *team = &t->objects[t->tasks[number].team];
    uint32_t idle = team->barrier == NOBODY ? NOBODY : t->objects[team->barrier].head;
    idle = idle == NOBODY ? team->head : idle;
    idle = idle == NOBODY ? first_to_help(t, number) : idle;
    if (idle != NOBODY)
        cv_thread_resume_waiting(t, &t->threads[idle], t->machine->costs.handover, false, 0);
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
    ++*unfinished_of(t, task->parent, task->maker);
    if (task->team != NOBODY)
        t->objects[task->team].unfinished++;
    if (task->awaited)
        return;
    add_ready(t, (uint32_t)number);
    wake_for(t, (uint32_t)number);
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

/* Whether the thread, which has ended a task, looks for others and may do this one. */
static bool takes(const cv_threads *t, const struct running *th, uint32_t number)
{
    if (th->arrived)
        return true;
    return th->at < t->streams[th->stream].n && t->records[current(t, th)->record].kind == CV_THREAD_TASK_WAIT && helps(t, th, number);
}

static void resume_at_once(cv_threads *t, uint32_t number)
{
    struct running *runner = &t->threads[t->tasks[number].runner];
    if (runner->state != WAITING || runner->waits_for != t->task_waits)
        return;
    const struct cv_thread_record *r = &t->records[current(t, runner)->record];
    if (r->kind == CV_THREAD_TASK_BEGIN && r->object == number)
        cv_thread_resume_waiting(t, runner, t->machine->costs.handover, false, 0);
}

/* The thread that ends a task does one that becomes ready itself, as in libgomp, and wakes others for the rest. */
static void release_successors(cv_threads *t, const struct running *th, const struct task *ended)
{
    bool has_one = false;
    for (uint32_t i = 0; i < ended->n; i++) {
        const uint32_t number = t->successors[ended->first + i];
        struct task *task = &t->tasks[number];
        assert(task->awaited > 0);
        if (--task->awaited)
            continue;
        if (task->stream == NOBODY)
            resume_at_once(t, number);
        if (!task->made || task->stream == NOBODY)
            continue;
        add_ready(t, number);
        if (!has_one && takes(t, th, number))
            has_one = true;
        else
            wake_for(t, number);
    }
}

/* Goes on with what the thread waits for. */
void cv_thread_end_task(cv_threads *t, struct running *th)
{
    const struct task *task = &t->tasks[th->task];
    uint32_t *left = unfinished_of(t, task->parent, task->maker);
    struct running *maker = &t->threads[task->parent == NOBODY ? task->maker : t->tasks[task->parent].runner];
    assert(*left > 0 && (task->team == NOBODY || t->objects[task->team].unfinished > 0));
    if (!--*left && maker->state == WAITING && maker->waits_for == t->task_waits && maker->task == task->parent)
        cv_thread_resume_waiting(t, maker, t->machine->costs.handover, false, 0);
    if (task->team != NOBODY)
        t->objects[task->team].unfinished--;
    th->stream = task->back_stream;
    th->at = task->back_at;
    th->task = task->back_task;
    th->arrived = task->back_arrived;
    th->worked = true;
    release_successors(t, th, task);
}

/* Runtimes give those that wait for their own tasks the newest first. */
static void do_one_or_wait(cv_threads *t, struct running *th)
{
    for (uint32_t i = t->last_ready; i != NOBODY; i = t->tasks[i].before)
        if (helps(t, th, i)) {
            begin_task(t, th, i);
            return;
        }
    cv_thread_block(t, th, t->task_waits, CV_THREADS_CONDITION);
}

/* A task that the thread which makes it runs at once begins or ends. */
bool cv_thread_run_at_once(cv_threads *t, struct running *th, const struct cv_thread_record *r)
{
    struct task *task = r->object < t->n_tasks ? &t->tasks[r->object] : NULL;
    if (!task || task->stream != NOBODY)
        return true;
    if (r->kind == CV_THREAD_TASK_END && th->task == r->object) {
        th->task = task->back_task;
    } else if (r->kind == CV_THREAD_TASK_BEGIN && !task->made) {
        task->runner = number_of(t, th);
        if (task->awaited && !th->granted) {
            do_one_or_wait(t, th);
            return false;
        }
        th->granted = false;
        task->made = true;
        task->back_task = th->task;
        th->task = (uint32_t)r->object;
    }
    return true;
}

bool cv_thread_wait_for_tasks(cv_threads *t, struct running *th)
{
    const uint32_t me = number_of(t, th);
    if (th->granted || !*unfinished_of(t, th->task, me)) {
        th->granted = false;
        return true;
    }
    do_one_or_wait(t, th);
    return false;
}
