/* SPDX-License-Identifier: GPL-2.0-or-later
 * What threads wait for: the functions of pthreads and of OpenMP's runtimes, found by name where they are entered and by the stack pointer
 * where they return, as allocation functions are (objects.c); in static programs, too. Where none of them is around, futexes tell.
 *
 * Until a second thread starts only functions that begin threads are followed, and a program without one runs as it would. Then all
 * translations are thrown away: new ones look at returns and count instructions. */
#include "tracer.h"
#include "private.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_machine.h"
#include "pub_tool_vkiscnums.h"

#define DEEPEST 24
#define MOST_THREADS 2048 /* Valgrind has 500 unless it was asked for more */
#define MOST_TEAMS 64
#define MOST_BODIES 1024
#define MOST_TASKS 4096 /* that have not begun */
#define MOST_LOOPS 64
#define NO_GROUP (1 << 11) /* flags of GOMP_taskloop */
#define MAY_WAIT (1 << 10)
#define MOST_SERIALS 65535
#define NOT_AWAITED (~0ULL)
#define TEAM (1ULL << 63)
#define CRITICAL 1 /* the lock of critical sections without a name */

enum kind {
    NOTHING,
    CREATE,        /* (handle, attributes, function) */
    JOIN,          /* (handle) */
    LOCK,          /* (lock) */
    TRY,           /* (lock), has it when the result is 0 */
    SPINNING_LOCK, /* (lock), which a thread that waits for it looks at before it sleeps */
    UNLOCK,
    WAIT, /* (condition, mutex) */
    SIGNAL,
    BROADCAST,
    BARRIER, /* (barrier) */
    ACQUIRE, /* (semaphore), has it when the result is 0 */
    RELEASE,
    PARALLEL,  /* (function, data): OpenMP, GCC */
    FORK_CALL, /* (place, number, function): OpenMP, LLVM */
    TEAM_BARRIER,
    CHUNK,     /* result: bool */
    CHUNK_INT, /* result: int */
    CRITICAL_BEGIN,
    CRITICAL_END,
    LOCK_SECOND, /* (place, thread, lock): LLVM */
    UNLOCK_SECOND,
    TASK,      /* (function, data, copies it, bytes of data): OpenMP, GCC */
    TASK_LOOP, /* (function, data): tasks that are parts of a loop */
    TASK_WAIT,
    TASK_OBJECT,   /* (place, thread, task): LLVM */
    TASK_AT_ONCE,  /* (place, thread, task): the program itself calls its function ... */
    TASK_COMPLETE, /* (place, thread, task): ... has called it */
    LOOP_OBJECT,   /* (place, thread, task): the one of which each part of a loop has a copy */
    TASK_WAIT_ALL, /* who waits also does what its tasks have made */
    BODY,          /* never by name */
    TASK_BODY      /* never by name */
};

struct known {
    const HChar *name;
    enum kind kind;
};

static const struct known functions[] = {
    {"pthread_create", CREATE},
    {"pthread_join", JOIN},
    {"pthread_mutex_lock", LOCK},
    {"pthread_mutex_timedlock", TRY},
    {"pthread_mutex_trylock", TRY},
    {"pthread_mutex_unlock", UNLOCK},
    {"pthread_rwlock_wrlock", LOCK},
    {"pthread_rwlock_unlock", UNLOCK},
    {"pthread_spin_lock", LOCK},
    {"pthread_spin_trylock", TRY},
    {"pthread_spin_unlock", UNLOCK},
    {"pthread_cond_wait", WAIT},
    {"pthread_cond_timedwait", WAIT},
    {"pthread_cond_clockwait", WAIT},
    {"pthread_cond_signal", SIGNAL},
    {"pthread_cond_broadcast", BROADCAST},
    {"pthread_barrier_wait", BARRIER},
    {"sem_wait", ACQUIRE},
    {"sem_timedwait", ACQUIRE},
    {"sem_clockwait", ACQUIRE},
    {"sem_trywait", ACQUIRE},
    {"sem_post", RELEASE},
    {"omp_set_lock", SPINNING_LOCK},
    {"omp_unset_lock", UNLOCK},
    {"GOMP_barrier", TEAM_BARRIER},
    {"GOMP_loop_end", TEAM_BARRIER},
    {"GOMP_sections_end", TEAM_BARRIER},
    {"GOMP_sections_start", CHUNK_INT},
    {"GOMP_sections_next", CHUNK_INT},
    {"GOMP_critical_start", CRITICAL_BEGIN},
    {"GOMP_critical_end", CRITICAL_END},
    {"GOMP_atomic_start", CRITICAL_BEGIN},
    {"GOMP_atomic_end", CRITICAL_END},
    {"GOMP_critical_name_start", SPINNING_LOCK},
    {"GOMP_critical_name_end", UNLOCK},
    {"GOMP_task", TASK},
    {"GOMP_taskwait", TASK_WAIT},
    {"GOMP_taskgroup_end", TASK_WAIT},
    {"kmpc_omp_task", TASK_OBJECT},
    {"kmpc_omp_task_with_deps", TASK_OBJECT},
    {"kmpc_omp_task_begin_if0", TASK_AT_ONCE},
    {"kmpc_omp_task_complete_if0", TASK_COMPLETE},
    {"kmpc_taskloop", LOOP_OBJECT},
    {"kmpc_taskloop_5", LOOP_OBJECT},
    {"kmpc_omp_taskwait", TASK_WAIT_ALL},
    {"kmpc_omp_taskwait_51", TASK_WAIT_ALL},
    {"kmpc_end_taskgroup", TASK_WAIT_ALL},
    {"kmpc_fork_call", FORK_CALL},
    {"kmpc_barrier", TEAM_BARRIER},
    {"kmpc_reduce", TEAM_BARRIER},
    {"kmpc_reduce_nowait", TEAM_BARRIER},
    {"kmpc_dispatch_next_4", CHUNK_INT},
    {"kmpc_dispatch_next_4u", CHUNK_INT},
    {"kmpc_dispatch_next_8", CHUNK_INT},
    {"kmpc_dispatch_next_8u", CHUNK_INT},
    {"kmpc_critical", LOCK_SECOND},
    {"kmpc_critical_with_hint", LOCK_SECOND},
    {"kmpc_end_critical", UNLOCK_SECOND},
};

struct frame {
    enum kind kind;
    Addr sp;   /* at the entry: the return address lies there */
    Addr site; /* within the call */
    ULong object, argument;
};

struct followed {
    struct cv_thread thread;
    Bool running;
    UInt depth;
    struct frame frame[DEEPEST];
    Addr sleeps_at; /* the futex that it waits at; 0: none */
};

struct team {
    Addr function, data;
    ULong number; /* 0: an empty place */
};

struct task {
    ULong number;     /* 0: an empty place */
    Addr function;    /* 0: called by the program */
    Addr object;      /* LLVM; 0: known by its data */
    ULong bytes, sum; /* of its data */
};

/* A loop whose parts are tasks. How many there are is seen when they begin. */
struct task_loop {
    Addr function;
    Addr data; /* of the whole loop */
    Addr sp;   /* when it begins */
    UShort maker;
    ULong within;  /* task that it is in */
    Bool at_once;  /* the maker does all parts */
    Bool by_stack; /* ... if their data lie on its stack */
};

static ULong awaited = NOT_AWAITED; /* stack pointer after the return of the innermost function of this thread that is followed */
static struct followed *threads[MOST_THREADS];
static ULong *handles; /* pthread_t of the thread with this serial number, while it may be joined */
static UInt n_serials, handles_room;
static struct team teams[MOST_TEAMS];
static ULong n_teams;
static struct task *tasks;
static ULong n_tasks;
static UInt tasks_end; /* places that were ever used */
static struct task_loop loops[MOST_LOOPS];
static UInt next_loop;
static Addr bodies[MOST_BODIES]; /* functions of parallel regions and tasks; a hash table */
static UInt n_bodies;
static Bool discard;

/* ---- threads and their frames ---- */

static struct followed *followed(ThreadId thread)
{
    if (thread >= MOST_THREADS)
        cv_fatal("more than %d threads at a time", MOST_THREADS);
    if (!threads[thread])
        threads[thread] = VG_(calloc)("cv.followed", 1, sizeof *threads[thread]);
    return threads[thread];
}

static struct frame *top(struct followed *f) { return f->depth ? &f->frame[f->depth - 1] : NULL; }

static Bool is_body(const struct frame *frame) { return frame->kind == BODY || frame->kind == TASK_BODY; }

/* To be called when frames came or went, after what ran before was attributed. */
static void look(struct followed *f)
{
    const struct frame *frame = top(f);
    f->thread.in_runtime = frame ? !is_body(frame) : f->thread.pool;
    awaited = frame ? frame->sp + 8 : NOT_AWAITED;
}

static struct frame *push(struct followed *f, enum kind kind, Addr sp, ULong object, ULong argument)
{
    if (f->depth == DEEPEST)
        return NULL;
    struct frame *frame = &f->frame[f->depth++];
    *frame = (struct frame){kind, sp, *(Addr *)sp - 1, object, argument};
    look(f);
    return frame;
}

static ULong team_of(const struct followed *f)
{
    for (UInt i = f->depth; i-- > 0;)
        if (f->frame[i].kind == BODY)
            return TEAM | f->frame[i].object;
    return TEAM;
}

static void remember_handle(UInt serial, ULong handle)
{
    if (serial >= handles_room) {
        handles_room = 2 * serial + 64;
        handles = VG_(realloc)("cv.handles", handles, handles_room * sizeof *handles);
    }
    handles[serial] = handle;
}

/* Values of pthread_t are used again: the newest thread with it is meant. */
static UInt serial_of(ULong handle)
{
    for (UInt i = n_serials < handles_room ? n_serials + 1 : handles_room; i-- > 1;)
        if (handles[i] == handle)
            return i;
    return 0;
}

/* ---- bodies of parallel regions ---- */

static Addr *body_slot(Addr function)
{
    UInt i = (function * 0x9E3779B97F4A7C15ULL) >> 54;
    while (bodies[i] && bodies[i] != function)
        i = (i + 1) % MOST_BODIES;
    return &bodies[i];
}

static void add_body(Addr function)
{
    Addr *slot = body_slot(function);
    if (*slot || n_bodies >= MOST_BODIES / 2)
        return;
    *slot = function;
    n_bodies++;
    discard = cv_threads_active(); /* it may have run before */
}

static ULong open_team(Addr function, Addr data)
{
    for (UInt i = 0; i < MOST_TEAMS; i++)
        if (!teams[i].number) {
            teams[i] = (struct team){function, data, ++n_teams};
            return n_teams;
        }
    return 0;
}

static void close_team(ULong number)
{
    for (UInt i = 0; i < MOST_TEAMS; i++)
        if (teams[i].number == number)
            teams[i].number = 0;
}

/* Frames that lie no higher on the stack were left without a return (longjmp, an exception), and those whose return address is no longer
 * there returned before there was a second thread. A body goes on in the function that it jumps to at its end. */
static void drop_left(struct followed *f, Addr sp, Bool jumps)
{
    for (struct frame *frame; (frame = top(f)); f->depth--) {
        if (frame->sp > sp - (jumps && is_body(frame)) && *(Addr *)frame->sp - 1 == frame->site)
            break;
        if (frame->kind == PARALLEL)
            close_team(frame->object);
    }
    look(f);
}

/* The team that this function works for: the one with its data, else the newest. */
static ULong find_team(Addr function, Addr data)
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

static void parallel(struct followed *f, Addr sp, Addr function, Addr data)
{
    ULong team = open_team(function, data);
    if (!team)
        return;
    add_body(function);
    if (!push(f, PARALLEL, sp, team, 0))
        return;
    cv_threads_event(&f->thread, CV_THREAD_FORK, team, 0, cv_threads_place(*(Addr *)sp - 1));
}

/* ---- tasks ---- */

/* The runtime copies a task's data: its bytes tell which one of a function's tasks begins. */
static ULong sum_of(Addr data, ULong bytes)
{
    ULong sum = bytes;
    for (ULong i = 0; i < bytes; i++)
        sum = (sum ^ ((const UChar *)data)[i]) * 0x100000001B3ULL;
    return sum;
}

/* Returns the task's number, 0 where too many wait. Data that the program copies by a function of its own is not compared. */
static ULong make_task(struct task task)
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

/* Takes the oldest task of this function with this data or object, or the one with a number, off the list. */
static ULong take_task(Addr function, Addr data, Addr object, ULong number)
{
    struct task *found = NULL;
    ULong bytes = 0, sum = sum_of(data, 0);
    for (UInt i = 0; i < tasks_end; i++) {
        struct task *task = &tasks[i];
        if (!task->number || task->function != function || (number && task->number != number) || (found && found->number < task->number))
            continue;
        if (!number && !task->object && task->bytes != bytes)
            sum = sum_of(data, bytes = task->bytes);
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

/* What ran until here is no part of the loop, whose parts tell that they were made when they begin. */
static void begin_loop(struct followed *f, struct task_loop loop)
{
    loop.sp = f->frame[f->depth - 1].sp;
    loop.maker = f->thread.serial;
    loop.within = task_of(f);
    add_body(loop.function);
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
static void begin_task(struct followed *f, Addr function, Addr sp, Addr data, Addr object)
{
    const struct frame *frame = top(f);
    ULong made = frame && frame->kind == TASK ? frame->object : 0, task = made ? take_task(function, data, object, made) : 0;
    const Bool at_once = task && !frame->argument;
    if (!task)
        task = take_task(function, data, object, 0);
    if (!task)
        task = make_part(f, function, sp, data);
    if (push(f, TASK_BODY, sp, task, 0) && task)
        cv_threads_event(&f->thread, CV_THREAD_TASK_BEGIN, task, at_once, cv_threads_place(function));
}

void cv_synchronization_body(HWord function, HWord sp, HWord data, HWord object)
{
    if (!cv_threads_active())
        return;
    struct followed *f = followed(cv_current_thread());
    cv_threads_attribute(&f->thread);
    drop_left(f, sp, False);
    ULong team = find_team(function, data);
    if (team && push(f, BODY, sp, team, 0))
        cv_threads_event(&f->thread, CV_THREAD_BODY, team, 0, cv_threads_place(function));
    else if (!team)
        begin_task(f, function, sp, data, object);
}

/* ---- functions ---- */

/* Calls that do not wait. */
static Bool tell(struct followed *f, enum kind kind, Addr sp, ULong a, ULong c)
{
    enum cv_thread_event event;
    ULong object = a, argument = 0;
    switch (kind) {
    case UNLOCK: event = CV_THREAD_UNLOCK; break;
    case CRITICAL_END: event = CV_THREAD_UNLOCK, object = CRITICAL; break;
    case UNLOCK_SECOND: event = CV_THREAD_UNLOCK, object = c; break;
    case SIGNAL: event = CV_THREAD_SIGNAL; break;
    case BROADCAST: event = CV_THREAD_SIGNAL, argument = 1; break;
    case RELEASE: event = CV_THREAD_RELEASE; break;
    case TASK_AT_ONCE:
        object = make_task((struct task){.object = c});
        cv_threads_event(&f->thread, CV_THREAD_TASK, object, 0, cv_threads_place(*(Addr *)sp - 1));
        event = CV_THREAD_TASK_BEGIN, argument = 1;
        break;
    case TASK_COMPLETE: event = CV_THREAD_TASK_END, object = take_task(0, 0, c, 0); break;
    default: return False;
    }
    cv_threads_event(&f->thread, event, object, argument, cv_threads_place(*(Addr *)sp - 1));
    return True;
}

static ULong sixth_argument(void)
{
    ULong value;
    VG_(get_shadow_regs_area)(cv_current_thread(), (UChar *)&value, 0, offsetof(VexGuestAMD64State, guest_R9), sizeof value);
    return value;
}

static void task_made(struct followed *f, Addr sp, ULong number, Bool deals)
{
    if (push(f, TASK, sp, number, deals) && number)
        cv_threads_event(&f->thread, CV_THREAD_TASK, number, 0, cv_threads_place(*(Addr *)sp - 1));
}

void cv_synchronization_entered(HWord function, HWord sp, HWord a, HWord b, HWord c, HWord d)
{
    enum kind kind = function;
    Bool begins = kind == CREATE || kind == PARALLEL || kind == FORK_CALL;
    if (!cv_threads_active() && !begins)
        return;
    struct followed *f = followed(cv_current_thread());
    cv_threads_attribute(&f->thread);
    drop_left(f, sp, True);
    if (f->thread.in_runtime || tell(f, kind, sp, a, c))
        return;
    switch (kind) {
    case PARALLEL: parallel(f, sp, a, b); break;
    case FORK_CALL: parallel(f, sp, c, 0); break;
    case TASK:
        add_body(a);
        d = c ? 0 : d;
        task_made(f, sp, make_task((struct task){.function = a, .bytes = d, .sum = sum_of(b, d)}), False);
        break;
    case TASK_OBJECT:
        add_body(((Addr *)c)[1]);
        task_made(f, sp, make_task((struct task){.function = ((Addr *)c)[1], .object = c}), True);
        break;
    case TASK_LOOP:
        d = sixth_argument();
        if (push(f, TASK_LOOP, sp, 0, d & NO_GROUP))
            begin_loop(f, (struct task_loop){.function = a, .data = b, .at_once = !(d & MAY_WAIT), .by_stack = True});
        break;
    case LOOP_OBJECT:
        if (push(f, TASK_LOOP, sp, 1, ((Int *)sp)[4]))
            begin_loop(f, (struct task_loop){.function = ((Addr *)c)[1], .at_once = !(Int)d});
        break;
    case WAIT:
        cv_threads_event(&f->thread, CV_THREAD_WAIT, a, b, cv_threads_place(*(Addr *)sp - 1));
        push(f, kind, sp, a, b);
        break;
    case SPINNING_LOCK: push(f, LOCK, sp, a, 1); break;
    case CRITICAL_BEGIN: push(f, LOCK, sp, CRITICAL, 1); break;
    case LOCK_SECOND: push(f, LOCK, sp, c, 1); break;
    case TEAM_BARRIER: push(f, BARRIER, sp, team_of(f), 0); break;
    case CHUNK:
    case CHUNK_INT: push(f, kind, sp, team_of(f), 0); break;
    case TASK_WAIT: push(f, TASK_WAIT, sp, 0, 0); break;
    case TASK_WAIT_ALL: push(f, TASK_WAIT, sp, 0, 1); break;
    case BARRIER: push(f, kind, sp, a, ((UInt *)a)[2]); break; /* its parties, in glibc from 2.25 on */
    default: push(f, kind, sp, a, 0);
    }
}

static void returned(struct followed *f, const struct frame *frame, ULong result)
{
    UInt place = cv_threads_place(frame->site);
    ULong object = frame->object;
    Int status = (Int)result;
    enum cv_thread_event event;
    ULong argument = 0;
    switch (frame->kind) {
    case CREATE:
        if (status || !frame->argument)
            return;
        remember_handle(frame->argument, *(ULong *)object);
        event = CV_THREAD_CREATE, object = frame->argument;
        break;
    case JOIN:
        object = serial_of(object);
        if (status || !object)
            return;
        handles[object] = 0;
        event = CV_THREAD_JOIN;
        break;
    case TRY:
        if (status)
            return;
        event = CV_THREAD_LOCK;
        break;
    case LOCK: event = CV_THREAD_LOCK, argument = frame->argument; break;
    case WAIT: event = CV_THREAD_WOKEN, argument = frame->argument; break;
    case BARRIER: event = CV_THREAD_BARRIER, argument = frame->argument; break;
    case ACQUIRE:
        if (status)
            return;
        event = CV_THREAD_ACQUIRE;
        break;
    case PARALLEL:
        close_team(object);
        event = CV_THREAD_JOINED;
        break;
    case CHUNK: event = CV_THREAD_CHUNK, argument = (result & 0xff) != 0; break;
    case CHUNK_INT: event = CV_THREAD_CHUNK, argument = status != 0; break;
    case BODY: event = CV_THREAD_BODY_END; break;
    case TASK_LOOP:
        if (frame->argument)
            return;
        event = CV_THREAD_TASK_WAIT, argument = object, object = 0;
        break;
    case TASK_WAIT: event = CV_THREAD_TASK_WAIT, argument = frame->argument; break;
    case TASK_BODY:
        if (!object)
            return;
        event = CV_THREAD_TASK_END;
        break;
    default: return;
    }
    if (event == CV_THREAD_LOCK)
        cv_threads_name_object(object);
    cv_threads_event(&f->thread, event, object, argument, place);
}

void cv_synchronization_left(HWord result, HWord target)
{
    struct followed *f = followed(cv_current_thread());
    struct frame frame;
    cv_threads_attribute(&f->thread);
    do { /* the body, too, that jumped to it */
        frame = f->frame[--f->depth];
        look(f);
        if (target == frame.site + 1 && cv_threads_active())
            returned(f, &frame, result);
    } while (top(f) && top(f)->sp == frame.sp);
}

/* ---- the life of threads ---- */

static void begin(ThreadId first)
{
    struct followed *f = followed(first);
    cv_threads_open(&f->thread);
    if (!cv_threads_active())
        return;
    discard = True;
    for (UInt i = 0; i < f->depth; i++)
        if (f->frame[i].kind == PARALLEL)
            cv_threads_event(&f->thread, CV_THREAD_FORK, f->frame[i].object, 0, cv_threads_place(f->frame[i].site));
    look(f);
}

static void thread_made(ThreadId parent, ThreadId child)
{
    if (!parent || !cv_options.thread_events || n_serials >= MOST_SERIALS)
        return;
    if (!cv_threads_active())
        begin(parent);
    if (!cv_threads_active())
        return;
    struct followed *f = followed(parent), *c = followed(child);
    struct frame *frame = top(f);
    cv_threads_attribute(&f->thread);
    UInt place = frame ? cv_threads_place(frame->site) : 0;
    *c = (struct followed){.thread = {.serial = ++n_serials}};
    c->thread.pool = c->thread.in_runtime = frame && frame->kind == PARALLEL;
    cv_threads_event(&c->thread, CV_THREAD_START, f->thread.serial, c->thread.pool, place);
    c->thread.began |= (ULong)(n_serials < 256 ? n_serials : 0) << 48; /* threads may do different work from here */
    if (frame && frame->kind == CREATE)
        frame->argument = n_serials;
    else if (!c->thread.pool)
        cv_threads_event(&f->thread, CV_THREAD_CREATE, n_serials, 0, place);
}

void cv_synchronization_thread_ended(ThreadId thread)
{
    if (!cv_threads_active())
        return;
    struct followed *f = followed(thread);
    if (thread == cv_current_thread())
        cv_threads_attribute(&f->thread);
    cv_threads_event(&f->thread, CV_THREAD_EXIT, 0, 0, 0);
    f->depth = 0;
}

void cv_synchronization_switch(ThreadId from, ThreadId to)
{
    if (!cv_threads_active())
        return;
    cv_threads_switched(&followed(from)->thread);
    look(followed(to));
}

void cv_threads_each(void (*add)(struct cv_thread *, enum cv_thread_event, ULong, ULong, UInt))
{
    for (UInt i = 0; i < MOST_THREADS; i++)
        if (threads[i] && (threads[i]->thread.work || threads[i]->thread.inside))
            add(&threads[i]->thread, CV_THREAD_PROGRESS, 0, 0, 0);
}

void cv_synchronization_fork(ThreadId thread)
{
    for (UInt i = 0; i < MOST_THREADS; i++)
        if (threads[i]) {
            VG_(free)(threads[i]);
            threads[i] = NULL;
        }
    n_serials = 0;
    VG_(memset)(teams, 0, sizeof teams);
    tasks_end = next_loop = 0;
    awaited = NOT_AWAITED;
    cv_threads_log_fork();
}

void cv_synchronization_end(void) { cv_threads_end(&followed(cv_current_thread())->thread); }

/* ---- futexes ---- */

#define FUTEX_COMMANDS 127 /* without the flags for private ones and for clocks */
enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_WAIT_BITSET = 9, FUTEX_WAKE_BITSET = 10 };

void cv_synchronization_call_begins(ThreadId thread, UInt number, const UWord *arguments)
{
    if (!cv_threads_active())
        return;
    struct followed *f = followed(thread);
    if (number != __NR_futex) {
        f->thread.calls++;
        return;
    }
    cv_threads_attribute(&f->thread);
    if (f->thread.in_runtime)
        return;
    UInt command = arguments[1] & FUTEX_COMMANDS;
    /* The woken may run before the waker comes back. */
    if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET)
        cv_threads_event(&f->thread, CV_THREAD_WAKE, arguments[0], 0, 0);
    f->sleeps_at = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET ? arguments[0] : 0;
}

void cv_synchronization_call_ended(ThreadId thread, UInt number, const UWord *arguments, SysRes result)
{
    if (!cv_threads_active() || number != __NR_futex)
        return;
    struct followed *f = followed(thread);
    if (f->sleeps_at && !sr_isError(result))
        cv_threads_event(&f->thread, CV_THREAD_SLEPT, f->sleeps_at, 0, 0);
    f->sleeps_at = 0;
}

/* ---- instrumentation ---- */

static Bool begins_with(const HChar *name, const HChar *with) { return !VG_(strncmp)(name, with, VG_(strlen)(with)); }

static Bool ends_with(const HChar *name, const HChar *with)
{
    SizeT n = VG_(strlen)(name), m = VG_(strlen)(with);
    return n >= m && !VG_(strcmp)(name + n - m, with);
}

/* The C library's tables have several names for one function, with versions; Valgrind tells one of them. */
static enum kind kind_of(const HChar *name)
{
    HChar plain[64];
    while (*name == '_')
        name++;
    if (begins_with(name, "GI_"))
        for (name += 3; *name == '_';)
            name++;
    if (begins_with(name, "new_"))
        name += 4;
    UInt n = 0;
    while (name[n] && name[n] != '@' && n < sizeof plain - 1) {
        plain[n] = name[n];
        n++;
    }
    plain[n] = 0;
    if (begins_with(plain, "GOMP_parallel") && !ends_with(plain, "_start") && !ends_with(plain, "_end"))
        return PARALLEL;
    if (begins_with(plain, "GOMP_loop") && (ends_with(plain, "_start") || ends_with(plain, "_next")) && !VG_(strstr)(plain, "ordered"))
        return CHUNK;
    if (begins_with(plain, "GOMP_taskloop"))
        return TASK_LOOP;
    for (UInt i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!VG_(strcmp)(functions[i].name, plain))
            return functions[i].kind;
    return NOTHING;
}

static IRExpr *get(IRSB *out, Int offset) { return cv_ir_assign(out, IRExpr_Get(offset, Ity_I64)); }

#define GUEST(register) get(out, offsetof(VexGuestAMD64State, guest_##register))

void cv_synchronization_instrument_entry(IRSB *out, Addr start)
{
    const HChar *name;
    if (!cv_options.thread_events)
        return;
    if (*body_slot(start))
        cv_ir_call(out, "cv_synchronization_body", cv_synchronization_body,
                   mkIRExprVec_4(cv_ir_u64(start), GUEST(RSP), GUEST(RDI), GUEST(RSI)), NULL);
    if (!VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), start, &name))
        return;
    enum kind kind = kind_of(name);
    if (kind != NOTHING)
        cv_ir_call(out, "cv_synchronization_entered", cv_synchronization_entered,
                   mkIRExprVec_6(cv_ir_u64(kind), GUEST(RSP), GUEST(RDI), GUEST(RSI), GUEST(RDX), GUEST(RCX)), NULL);
}

void cv_synchronization_instrument_end(IRSB *out)
{
    if (!cv_threads_active() || out->jumpkind != Ijk_Ret)
        return;
    IRExpr *wanted = cv_ir_load64(out, cv_ir_u64((Addr)&awaited));
    IRExpr *returned_to = cv_ir_assign(out, IRExpr_Binop(Iop_CmpEQ64, GUEST(RSP), wanted));
    cv_ir_call(out, "cv_synchronization_left", cv_synchronization_left, mkIRExprVec_2(GUEST(RAX), out->next), returned_to);
}

void cv_synchronization_discard(void)
{
    if (!discard)
        return;
    discard = False;
    VG_(ok_to_discard_translations) = True;
    VG_(discard_translations)(0x1000, 0x7fffffffe000, "convolver");
    VG_(ok_to_discard_translations) = False;
}

void cv_synchronization_register(void) { VG_(track_pre_thread_ll_create)(thread_made); }
