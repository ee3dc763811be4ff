/* Teams and tasks of OpenMP's runtimes: whose region a thread works in, and which task begins where its function is entered.
 * Freestanding; SPDX: MIT. */
#include "thread_calls.h"

#include "../common/cv_assert.h"

#define TEAM (1ULL << 63)

/* ---- bodies of parallel regions ---- */

static uint64_t *body_slot(uint64_t function)
{
    uint32_t i = (function * 0x9E3779B97F4A7C15ULL) >> 54;
    cv_assert(i < CV_MOST_BODIES && cv_all_calls->n_bodies <= CV_MOST_BODIES / 2); /* the search ends */
    while (cv_all_calls->bodies[i] && cv_all_calls->bodies[i] != function)
        i = (i + 1) % CV_MOST_BODIES;
    return &cv_all_calls->bodies[i];
}

void cv_body_add(uint64_t function)
{
    uint64_t *slot = body_slot(function);
    if (*slot || cv_all_calls->n_bodies >= CV_MOST_BODIES / 2)
        return;
    *slot = function;
    cv_all_calls->n_bodies++;
    cv_body_is_new(function);
}

int cv_body_is_known(uint64_t function) { return *body_slot(function) != 0; }

/* ---- teams ---- */

static uint64_t open_team(uint64_t function, uint64_t data, uint16_t maker)
{
    for (uint32_t i = 0; i < CV_MOST_TEAMS; i++)
        if (!cv_all_calls->teams[i].number) {
            cv_all_calls->teams[i] = (struct cv_team){function, data, ++cv_all_calls->n_teams, maker};
            return cv_all_calls->n_teams;
        }
    return 0;
}

void cv_team_close(uint64_t number)
{
    for (uint32_t i = 0; i < CV_MOST_TEAMS; i++)
        if (cv_all_calls->teams[i].number == number)
            cv_all_calls->teams[i].number = 0;
}

uint64_t cv_team_of(const struct cv_followed *f)
{
    for (uint32_t i = f->depth; i-- > 0;)
        if (f->frame[i].function == BODY)
            return TEAM | f->frame[i].object;
    return TEAM;
}

uint64_t cv_team_find(struct cv_followed *f, uint64_t function, uint64_t data)
{
    const struct cv_frame *top = cv_top(f);
    const uint16_t maker = top && top->function == PARALLEL ? f->thread.serial : f->thread.parent;
    uint64_t found = 0;
    int best = 0;
    for (uint32_t i = 0; i < CV_MOST_TEAMS; i++) {
        const struct cv_team *team = &cv_all_calls->teams[i];
        const int fits = (team->data == data) * 2 + (team->maker == maker);
        if (!team->number || team->function != function || fits < best || (fits == best && team->number < found))
            continue;
        found = team->number;
        best = fits;
    }
    cv_assert(found <= cv_all_calls->n_teams);
    return found;
}

void cv_team_begin(struct cv_followed *f, uint64_t sp, uint64_t function, uint64_t data)
{
    uint64_t team = open_team(function, data, f->thread.serial);
    if (!team)
        return;
    cv_body_add(function);
    if (!cv_frame_push(f, PARALLEL, sp, team, 0))
        return;
    cv_threads_event(&f->thread, CV_THREAD_FORK, team, 0, cv_threads_place(*(uint64_t *)sp - 1));
}

/* ---- tasks ---- */

uint64_t cv_task_sum(uint64_t data, uint64_t bytes)
{
    uint64_t sum = bytes;
    for (uint64_t i = 0; i < bytes; i++)
        sum = (sum ^ ((const uint8_t *)data)[i]) * 0x100000001B3ULL;
    return sum;
}

uint64_t cv_task_make(struct cv_task task)
{
    uint32_t i = 0;
    while (i < cv_all_calls->tasks_end && cv_all_calls->tasks[i].number)
        i++;
    cv_assert(i <= cv_all_calls->tasks_end && cv_all_calls->tasks_end <= CV_MOST_TASKS);
    if (i == CV_MOST_TASKS)
        return 0;
    cv_all_calls->tasks_end = i == cv_all_calls->tasks_end ? i + 1 : cv_all_calls->tasks_end;
    task.number = ++cv_all_calls->n_tasks;
    cv_all_calls->tasks[i] = task;
    return cv_all_calls->n_tasks;
}

uint64_t cv_task_take(uint64_t function, uint64_t data, uint64_t object, uint64_t number)
{
    struct cv_task *found = 0;
    uint64_t bytes = 0, sum = cv_task_sum(data, 0);
    for (uint32_t i = 0; i < cv_all_calls->tasks_end; i++) {
        struct cv_task *task = &cv_all_calls->tasks[i];
        if (!task->number || task->function != function || (number && task->number != number) || (found && found->number < task->number))
            continue;
        if (!number && !task->object && task->bytes != bytes)
            sum = cv_task_sum(data, bytes = task->bytes);
        if (number || (task->object ? task->object == object : task->sum == sum))
            found = task;
    }
    if (!found)
        return 0;
    cv_assert(found->number <= cv_all_calls->n_tasks && (!number || found->number == number));
    number = found->number;
    found->number = 0;
    return number;
}

static uint64_t task_of(const struct cv_followed *f)
{
    for (uint32_t i = f->depth; i-- > 0;)
        if (f->frame[i].function == TASK_BODY && f->frame[i].object)
            return f->frame[i].object;
    return 0;
}

void cv_task_begin_loop(struct cv_followed *f, struct cv_task_loop loop)
{
    cv_assert(f->depth > 0 && f->frame[f->depth - 1].function == TASK_LOOP);
    loop.sp = f->frame[f->depth - 1].sp;
    loop.maker = f->thread.serial;
    loop.within = task_of(f);
    cv_body_add(loop.function);
    cv_all_calls->loops[cv_all_calls->next_loop++ % CV_MOST_LOOPS] = loop;
    cv_threads_event(&f->thread, CV_THREAD_PROGRESS, 0, 0, cv_threads_place(f->frame[f->depth - 1].site));
}

/* Makes the task that a part of a loop is, by the thread that came to the loop: this one, where it does it at all, or the last. */
static uint64_t make_part(const struct cv_followed *f, uint64_t function, uint64_t sp, uint64_t data)
{
    const struct cv_task_loop *found = 0;
    for (uint32_t i = cv_all_calls->next_loop;
         i-- > (cv_all_calls->next_loop > CV_MOST_LOOPS ? cv_all_calls->next_loop - CV_MOST_LOOPS : 0);) {
        const struct cv_task_loop *loop = &cv_all_calls->loops[i % CV_MOST_LOOPS];
        if (loop->function == function && (!found || loop->maker == f->thread.serial)) {
            found = loop;
            if (loop->maker == f->thread.serial)
                break;
        }
    }
    if (!found || found->at_once)
        return 0;
    if (found->by_stack && found->maker == f->thread.serial && (data == found->data || (data >= sp && data < found->sp)))
        return 0;
    struct cv_thread maker = {.serial = found->maker};
    cv_threads_event(&maker, CV_THREAD_TASK, ++cv_all_calls->n_tasks, 1 + found->within, 0);
    return cv_all_calls->n_tasks;
}

/* The task that the innermost call makes, where its function may be the one that is entered. While a task depends
 * on others, GCC's runtime does these in the call that makes it: their data is on the heap. */
static uint64_t made_by(const struct cv_frame *frame, uint64_t sp, uint64_t data)
{
    const int own = frame && frame->function == TASK && (data == frame->argument || (data >= sp && data < frame->sp));
    return own || (frame && frame->function == TASK_OBJECT) ? frame->object : 0;
}

/* Threads do tasks at once where many wait. GCC's runtime then makes none, LLVM's would have given it to others a moment before. */
void cv_task_begin(struct cv_followed *f, uint64_t function, uint64_t sp, uint64_t data, uint64_t object)
{
    const struct cv_frame *frame = cv_top(f);
    uint64_t made = made_by(frame, sp, data), task = made ? cv_task_take(function, data, object, made) : 0;
    const int at_once = task && frame->function == TASK;
    if (!task)
        task = cv_task_take(function, data, object, 0);
    if (!task)
        task = make_part(f, function, sp, data);
    if (cv_frame_push(f, TASK_BODY, sp, task, 0) && task)
        cv_threads_event(&f->thread, CV_THREAD_TASK_BEGIN, task, at_once, cv_threads_place(function));
}
