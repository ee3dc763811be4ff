/* SPDX-License-Identifier: GPL-2.0-or-later
 * Teams and tasks of OpenMP's runtimes: whose region a thread works in, and which task begins where its function is entered. */
#include "synchronization.h"

#define MOST_TEAMS 64
#define MOST_BODIES 1024
#define MOST_TASKS 4096 /* that have not begun */
#define MOST_LOOPS 64
#define TEAM (1ULL << 63)

struct team {
    Addr function, data;
    ULong number; /* 0: an empty place */
};

static struct team teams[MOST_TEAMS];
static ULong n_teams;
static struct task *tasks;
static ULong n_tasks;
static UInt tasks_end; /* places that were ever used */
static struct task_loop loops[MOST_LOOPS];
static UInt next_loop;
static Addr bodies[MOST_BODIES]; /* a hash table */
static UInt n_bodies;

/* ---- bodies of parallel regions ---- */

static Addr *body_slot(Addr function)
{
    UInt i = (function * 0x9E3779B97F4A7C15ULL) >> 54;
    while (bodies[i] && bodies[i] != function)
        i = (i + 1) % MOST_BODIES;
    return &bodies[i];
}

void cv_body_add(Addr function)
{
    Addr *slot = body_slot(function);
    if (*slot || n_bodies >= MOST_BODIES / 2)
        return;
    *slot = function;
    n_bodies++;
    cv_translations_stale = cv_threads_active(); /* it may have run before */
}

Bool cv_body_is_known(Addr function) { return *body_slot(function) != 0; }

/* ---- teams ---- */

static ULong open_team(Addr function, Addr data)
{
    for (UInt i = 0; i < MOST_TEAMS; i++)
        if (!teams[i].number) {
            teams[i] = (struct team){function, data, ++n_teams};
            return n_teams;
        }
    return 0;
}

void cv_team_close(ULong number)
{
    for (UInt i = 0; i < MOST_TEAMS; i++)
        if (teams[i].number == number)
            teams[i].number = 0;
}

ULong cv_team_of(const struct followed *f)
{
    for (UInt i = f->depth; i-- > 0;)
        if (f->frame[i].kind == BODY)
            return TEAM | f->frame[i].object;
    return TEAM;
}

ULong cv_team_find(Addr function, Addr data)
{
    const struct team *found = NULL;
    for (UInt i = 0; i < MOST_TEAMS; i++) {
        const struct team *team = &teams[i];
        if (!team->number || team->function != function)
            continue;
        if (team->data == data)
            return team->number;
        if (!found || team->number > found->number)
            found = team;
    }
    return found ? found->number : 0;
}

void cv_team_begin(struct followed *f, Addr sp, Addr function, Addr data)
{
    ULong team = open_team(function, data);
    if (!team)
        return;
    cv_body_add(function);
    if (!cv_frame_push(f, PARALLEL, sp, team, 0))
        return;
    cv_threads_event(&f->thread, CV_THREAD_FORK, team, 0, cv_threads_place(*(Addr *)sp - 1));
}

/* ---- tasks ---- */

ULong cv_task_sum(Addr data, ULong bytes)
{
    ULong sum = bytes;
    for (ULong i = 0; i < bytes; i++)
        sum = (sum ^ ((const UChar *)data)[i]) * 0x100000001B3ULL;
    return sum;
}

ULong cv_task_make(struct task task)
{
    UInt i = 0;
    if (!tasks)
        tasks = VG_(calloc)("cv.tasks", MOST_TASKS, sizeof *tasks);
    while (i < tasks_end && tasks[i].number)
        i++;
    if (i == MOST_TASKS)
        return 0;
    tasks_end = i == tasks_end ? i + 1 : tasks_end;
    task.number = ++n_tasks;
    tasks[i] = task;
    return n_tasks;
}

ULong cv_task_take(Addr function, Addr data, Addr object, ULong number)
{
    struct task *found = NULL;
    ULong bytes = 0, sum = cv_task_sum(data, 0);
    for (UInt i = 0; i < tasks_end; i++) {
        struct task *task = &tasks[i];
        if (!task->number || task->function != function || (number && task->number != number) || (found && found->number < task->number))
            continue;
        if (!number && !task->object && task->bytes != bytes)
            sum = cv_task_sum(data, bytes = task->bytes);
        if (number || (task->object ? task->object == object : task->sum == sum))
            found = task;
    }
    if (!found)
        return 0;
    number = found->number;
    found->number = 0;
    return number;
}

static ULong task_of(const struct followed *f)
{
    for (UInt i = f->depth; i-- > 0;)
        if (f->frame[i].kind == TASK_BODY && f->frame[i].object)
            return f->frame[i].object;
    return 0;
}

void cv_task_begin_loop(struct followed *f, struct task_loop loop)
{
    loop.sp = f->frame[f->depth - 1].sp;
    loop.maker = f->thread.serial;
    loop.within = task_of(f);
    cv_body_add(loop.function);
    loops[next_loop++ % MOST_LOOPS] = loop;
    cv_threads_event(&f->thread, CV_THREAD_PROGRESS, 0, 0, cv_threads_place(f->frame[f->depth - 1].site));
}

/* Makes the task that a part of a loop is, by the thread that came to the loop: this one, where it does it at all, or the last. */
static ULong make_part(const struct followed *f, Addr function, Addr sp, Addr data)
{
    const struct task_loop *found = NULL;
    for (UInt i = next_loop; i-- > (next_loop > MOST_LOOPS ? next_loop - MOST_LOOPS : 0);) {
        const struct task_loop *loop = &loops[i % MOST_LOOPS];
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
    cv_threads_event(&maker, CV_THREAD_TASK, ++n_tasks, 1 + found->within, 0);
    return n_tasks;
}

/* Threads do tasks at once where many wait. GCC's runtime then makes none, LLVM's would have given it to others a moment before. */
void cv_task_begin(struct followed *f, Addr function, Addr sp, Addr data, Addr object)
{
    const struct frame *frame = top(f);
    ULong made = frame && frame->kind == TASK ? frame->object : 0, task = made ? cv_task_take(function, data, object, made) : 0;
    const Bool at_once = task && !frame->argument;
    if (!task)
        task = cv_task_take(function, data, object, 0);
    if (!task)
        task = make_part(f, function, sp, data);
    if (cv_frame_push(f, TASK_BODY, sp, task, 0) && task)
        cv_threads_event(&f->thread, CV_THREAD_TASK_BEGIN, task, at_once, cv_threads_place(function));
}

void cv_teams_fork(void)
{
    VG_(memset)(teams, 0, sizeof teams);
    tasks_end = next_loop = 0;
}
