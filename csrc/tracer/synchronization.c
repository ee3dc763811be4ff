/* SPDX-License-Identifier: GPL-2.0-or-later
 * What threads wait for: the functions of pthreads and of OpenMP's runtimes, found by name where they are entered and by the stack pointer
 * where they return, as allocation functions are (objects.c); in static programs, too. Where none of them is around, futexes tell.
 *
 * Until a second thread starts only functions that begin threads are followed, and a program without one runs as it would. Then all
 * translations are thrown away: new ones look at returns and count instructions. */
#include "synchronization.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_machine.h"
#include "pub_tool_vkiscnums.h"

#define MOST_THREADS 2048  /* Valgrind has 500 unless it was asked for more */
#define NO_GROUP (1 << 11) /* flags of GOMP_taskloop */
#define MAY_WAIT (1 << 10)
#define MOST_SERIALS 65535
#define NOT_AWAITED (~0ULL)
#define CRITICAL 1 /* the lock of critical sections without a name */

ULong cv_return_awaited = NOT_AWAITED;
static struct followed *threads[MOST_THREADS];
static ULong *handles; /* pthread_t of the thread with this serial number, while it may be joined */
static UInt n_serials, handles_room;

/* ---- threads and their frames ---- */

static struct followed *followed(ThreadId thread)
{
    if (thread >= MOST_THREADS)
        cv_fatal("more than %d threads at a time", MOST_THREADS);
    if (!threads[thread])
        threads[thread] = VG_(calloc)("cv.followed", 1, sizeof *threads[thread]);
    return threads[thread];
}

/* To be called when frames came or went, after what ran before was attributed. */
static void look(struct followed *f)
{
    const struct frame *frame = top(f);
    f->thread.in_runtime = frame ? !is_body(frame) : f->thread.pool;
    cv_return_awaited = frame ? frame->sp + 8 : NOT_AWAITED;
}

struct frame *cv_frame_push(struct followed *f, enum kind kind, Addr sp, ULong object, ULong argument)
{
    if (f->depth == DEEPEST)
        return NULL;
    struct frame *frame = &f->frame[f->depth++];
    *frame = (struct frame){kind, sp, *(Addr *)sp - 1, object, argument};
    look(f);
    return frame;
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

/* Frames that lie no higher on the stack were left without a return (longjmp, an exception), and those whose return address is no longer
 * there returned before there was a second thread. A body goes on in the function that it jumps to at its end. */
static void drop_left(struct followed *f, Addr sp, Bool jumps)
{
    for (struct frame *frame; (frame = top(f)); f->depth--) {
        if (frame->sp > sp - (jumps && is_body(frame)) && *(Addr *)frame->sp - 1 == frame->site)
            break;
        if (frame->kind == PARALLEL)
            cv_team_close(frame->object);
    }
    look(f);
}

void cv_synchronization_body(HWord function, HWord sp, HWord data, HWord object)
{
    if (!cv_threads_active())
        return;
    struct followed *f = followed(cv_current_thread());
    cv_threads_attribute(&f->thread);
    drop_left(f, sp, False);
    ULong team = cv_team_find(function, data);
    if (team && cv_frame_push(f, BODY, sp, team, 0))
        cv_threads_event(&f->thread, CV_THREAD_BODY, team, 0, cv_threads_place(function));
    else if (!team)
        cv_task_begin(f, function, sp, data, object);
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
        object = cv_task_make((struct task){.object = c});
        cv_threads_event(&f->thread, CV_THREAD_TASK, object, 0, cv_threads_place(*(Addr *)sp - 1));
        event = CV_THREAD_TASK_BEGIN, argument = 1;
        break;
    case TASK_COMPLETE: event = CV_THREAD_TASK_END, object = cv_task_take(0, 0, c, 0); break;
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
    if (cv_frame_push(f, TASK, sp, number, deals) && number)
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
    case PARALLEL: cv_team_begin(f, sp, a, b); break;
    case FORK_CALL: cv_team_begin(f, sp, c, 0); break;
    case TASK:
        cv_body_add(a);
        d = c ? 0 : d;
        task_made(f, sp, cv_task_make((struct task){.function = a, .bytes = d, .sum = cv_task_sum(b, d)}), False);
        break;
    case TASK_OBJECT:
        cv_body_add(((Addr *)c)[1]);
        task_made(f, sp, cv_task_make((struct task){.function = ((Addr *)c)[1], .object = c}), True);
        break;
    case TASK_LOOP:
        d = sixth_argument();
        if (cv_frame_push(f, TASK_LOOP, sp, 0, d & NO_GROUP))
            cv_task_begin_loop(f, (struct task_loop){.function = a, .data = b, .at_once = !(d & MAY_WAIT), .by_stack = True});
        break;
    case LOOP_OBJECT:
        if (cv_frame_push(f, TASK_LOOP, sp, 1, ((Int *)sp)[4]))
            cv_task_begin_loop(f, (struct task_loop){.function = ((Addr *)c)[1], .at_once = !(Int)d});
        break;
    case WAIT:
        cv_threads_event(&f->thread, CV_THREAD_WAIT, a, b, cv_threads_place(*(Addr *)sp - 1));
        cv_frame_push(f, kind, sp, a, b);
        break;
    case SPINNING_LOCK: cv_frame_push(f, LOCK, sp, a, 1); break;
    case CRITICAL_BEGIN: cv_frame_push(f, LOCK, sp, CRITICAL, 1); break;
    case LOCK_SECOND: cv_frame_push(f, LOCK, sp, c, 1); break;
    case TEAM_BARRIER: cv_frame_push(f, BARRIER, sp, cv_team_of(f), 0); break;
    case CHUNK:
    case CHUNK_INT: cv_frame_push(f, kind, sp, cv_team_of(f), 0); break;
    case TASK_WAIT: cv_frame_push(f, TASK_WAIT, sp, 0, 0); break;
    case TASK_WAIT_ALL: cv_frame_push(f, TASK_WAIT, sp, 0, 1); break;
    case BARRIER: cv_frame_push(f, kind, sp, a, ((UInt *)a)[2]); break; /* its parties, in glibc from 2.25 on */
    default: cv_frame_push(f, kind, sp, a, 0);
    }
}

static void returned(struct followed *f, const struct frame *frame, ULong result)
{
    UInt place = cv_threads_place(frame->site);
    ULong object = frame->object, argument = 0;
    Int status = (Int)result;
    enum cv_thread_event event;
    if (status && (frame->kind == CREATE || frame->kind == JOIN || frame->kind == TRY || frame->kind == ACQUIRE))
        return;
    switch (frame->kind) {
    case CREATE:
        if (!frame->argument)
            return;
        remember_handle(frame->argument, *(ULong *)object);
        event = CV_THREAD_CREATE, object = frame->argument;
        break;
    case JOIN:
        object = serial_of(object);
        if (!object)
            return;
        handles[object] = 0;
        event = CV_THREAD_JOIN;
        break;
    case TRY: event = CV_THREAD_LOCK; break;
    case LOCK: event = CV_THREAD_LOCK, argument = frame->argument; break;
    case WAIT: event = CV_THREAD_WOKEN, argument = frame->argument; break;
    case BARRIER: event = CV_THREAD_BARRIER, argument = frame->argument; break;
    case ACQUIRE: event = CV_THREAD_ACQUIRE; break;
    case PARALLEL:
        cv_team_close(object);
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
    cv_translations_stale = True;
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
    cv_teams_fork();
    cv_return_awaited = NOT_AWAITED;
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

void cv_synchronization_register(void) { VG_(track_pre_thread_ll_create)(thread_made); }
