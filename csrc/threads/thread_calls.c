/* Calls of functions that synchronize: what they tell when they are entered, and when they return. Freestanding; SPDX: MIT. */
#include "thread_calls.h"

#include "../common/cv_assert.h"

#define NO_GROUP (1 << 11) /* flags of GOMP_taskloop */
#define MAY_WAIT (1 << 10)
#define DEPENDS 8  /* flag of GOMP_task */
#define READS 1    /* kind of a dependence, in both runtimes' lists */
#define CRITICAL 1 /* the lock of critical sections without a name */

/* ---- frames ---- */

/* To be called when frames came or went, after what ran before was attributed. */
static void look(struct cv_followed *f)
{
    const struct cv_frame *frame = cv_top(f);
    f->thread.in_runtime = frame ? !cv_is_body(frame) : f->thread.pool;
    cv_frames_changed(f);
}

/* Returns NULL where there are too many. */
struct cv_frame *cv_frame_push(struct cv_followed *f, enum cv_function function, uint64_t sp, uint64_t object, uint64_t argument)
{
    if (f->depth == CV_DEEPEST_CALL)
        return 0;
    cv_assert(f->depth < CV_DEEPEST_CALL && (!f->depth || cv_top(f)->sp >= sp)); /* stacks grow down */
    struct cv_frame *frame = &f->frame[f->depth++];
    *frame = (struct cv_frame){function, sp, *(uint64_t *)sp - 1, object, argument};
    look(f);
    return frame;
}

/* Frames that lie no higher on the stack were left without a return (longjmp, an exception), and those whose return address is no longer
 * there returned before there was a second thread. A body goes on in the function that it jumps to at its end. */
static void drop_left(struct cv_followed *f, uint64_t sp, int jumps)
{
    for (struct cv_frame *frame; (frame = cv_top(f)); f->depth--) {
        if (frame->sp > sp - (jumps && cv_is_body(frame)) && *(uint64_t *)frame->sp - 1 == frame->site)
            break;
        if (frame->function == PARALLEL)
            cv_team_close(frame->object);
    }
    look(f);
}

static void remember_handle(uint32_t serial, uint64_t handle)
{
    if (serial < CV_MOST_THREADS)
        cv_all_calls->handles[serial] = handle;
}

/* Values of pthread_t are used again: the newest thread with it is meant. */
static uint32_t serial_of(uint64_t handle)
{
    cv_assert(cv_all_calls->serials < CV_MOST_THREADS);
    for (uint32_t i = cv_all_calls->serials + 1; i-- > 1;)
        if (cv_all_calls->handles[i] == handle)
            return i;
    return 0;
}

void cv_body_entered(struct cv_followed *f, uint64_t function, uint64_t sp, uint64_t data, uint64_t object)
{
    if (!cv_threads_active())
        return;
    cv_threads_attribute(&f->thread);
    drop_left(f, sp, 0);
    uint64_t team = cv_team_find(f, function, data);
    if (team && cv_frame_push(f, BODY, sp, team, 0))
        cv_threads_event(&f->thread, CV_THREAD_BODY, team, 0, cv_threads_place(function));
    else if (!team)
        cv_task_begin(f, function, sp, data, object);
}

/* ---- functions ---- */

static uint32_t place_of(uint64_t sp) { return cv_threads_place(*(uint64_t *)sp - 1); }

/* Calls that do not wait. */
static int tell(struct cv_followed *f, enum cv_function function, uint64_t sp, uint64_t a, uint64_t c)
{
    enum cv_thread_event event;
    uint64_t object = a, argument = 0;
    switch (function) {
    case UNLOCK: event = CV_THREAD_UNLOCK; break;
    case CRITICAL_END: event = CV_THREAD_UNLOCK, object = CRITICAL; break;
    case UNLOCK_SECOND: event = CV_THREAD_UNLOCK, object = c; break;
    case SIGNAL: event = CV_THREAD_SIGNAL; break;
    case BROADCAST: event = CV_THREAD_SIGNAL, argument = 1; break;
    case RELEASE: event = CV_THREAD_RELEASE; break;
    case TASK_AT_ONCE:
        object = cv_task_make((struct cv_task){.object = c});
        cv_threads_event(&f->thread, CV_THREAD_TASK, object, 0, place_of(sp));
        event = CV_THREAD_TASK_BEGIN, argument = 1;
        break;
    case TASK_COMPLETE: event = CV_THREAD_TASK_END, object = cv_task_take(0, 0, c, 0); break;
    default: return 0;
    }
    cv_threads_event(&f->thread, event, object, argument, place_of(sp));
    return 1;
}

/* ---- tasks ---- */

static void task_made(struct cv_followed *f, enum cv_function function, uint64_t sp, uint64_t number, uint64_t data)
{
    if (cv_frame_push(f, function, sp, number, data) && number)
        cv_threads_event(&f->thread, CV_THREAD_TASK, number, 0, place_of(sp));
}

/* Mutually exclusive tasks, and sets of those that may run together (mutexinoutset, inoutset), are taken for ones that write. */
static void depends(struct cv_followed *f, uint64_t sp, uint64_t number, uint64_t address, int writes)
{
    if (number)
        cv_threads_event(&f->thread, CV_THREAD_DEPEND, address, 2 * number + (uint64_t)writes, place_of(sp));
}

/* GCC's list: how many there are and how many of them write, then addresses. Since GCC 9 it may begin with 0: then how many there are,
 * write, exclude each other and read, the addresses of these, and of objects that hold an address and its kind. */
static void depends_on_list(struct cv_followed *f, uint64_t sp, uint64_t number, const uint64_t *list)
{
    const int kinds = !list[0];
    const uint64_t all = list[kinds], writers = kinds ? list[2] + list[3] : list[1], plain = kinds ? writers + list[4] : all;
    const uint64_t *address = list + (kinds ? 5 : 2);
    for (uint64_t i = 0; i < all && i < CV_MOST_DEPENDS; i++) {
        const uint64_t *object = i < plain ? 0 : (const uint64_t *)address[i];
        depends(f, sp, number, object ? object[0] : address[i], object ? object[1] != READS : i < writers);
    }
}

static void depends_on_objects(struct cv_followed *f, uint64_t sp, uint64_t number, uint64_t n, uint64_t list)
{
    const struct {
        uint64_t address, bytes;
        uint8_t flags;
    } *one = (const void *)list;
    for (uint32_t i = 0; i < (uint32_t)n && i < CV_MOST_DEPENDS; i++)
        depends(f, sp, number, one[i].address, one[i].flags != READS);
}

void cv_call_entered(struct cv_followed *f, enum cv_function function, uint64_t sp, const uint64_t *arguments)
{
    const uint64_t a = arguments[0], b = arguments[1], c = arguments[2], d = arguments[3], flags = arguments[5];
    if (!cv_threads_active() && !cv_begins_threads(function))
        return;
    cv_threads_attribute(&f->thread);
    drop_left(f, sp, 1);
    if (f->thread.in_runtime || tell(f, function, sp, a, c))
        return;
    switch (function) {
    case PARALLEL: cv_team_begin(f, sp, a, b); break;
    case FORK_CALL: cv_team_begin(f, sp, c, 0); break;
    case TASK: {
        const uint64_t bytes = c ? 0 : d, *rest = (uint64_t *)sp + 1; /* flags, dependences */
        const uint64_t number = cv_task_make((struct cv_task){.function = a, .bytes = bytes, .sum = cv_task_sum(b, bytes)});
        cv_body_add(a);
        task_made(f, TASK, sp, number, b);
        if (rest[0] & DEPENDS)
            depends_on_list(f, sp, number, (uint64_t *)rest[1]);
        break;
    }
    case TASK_OBJECT:
    case TASK_DEPENDS: {
        const uint64_t number = cv_task_make((struct cv_task){.function = ((uint64_t *)c)[1], .object = c});
        cv_body_add(((uint64_t *)c)[1]);
        task_made(f, TASK_OBJECT, sp, number, 0);
        if (function == TASK_DEPENDS)
            depends_on_objects(f, sp, number, d, arguments[4]);
        break;
    }
    case WAIT_DEPENDS:
        task_made(f, WAIT_DEPENDS, sp, ++cv_all_calls->n_tasks, 0);
        depends_on_list(f, sp, cv_all_calls->n_tasks, (uint64_t *)a);
        break;
    case WAIT_OBJECTS:
        task_made(f, WAIT_DEPENDS, sp, ++cv_all_calls->n_tasks, 0);
        depends_on_objects(f, sp, cv_all_calls->n_tasks, c, d);
        break;
    case TASK_LOOP:
        if (cv_frame_push(f, TASK_LOOP, sp, 0, flags & NO_GROUP))
            cv_task_begin_loop(f, (struct cv_task_loop){.function = a, .data = b, .at_once = !(flags & MAY_WAIT), .by_stack = 1});
        break;
    case LOOP_OBJECT:
        if (cv_frame_push(f, TASK_LOOP, sp, 1, ((uint32_t *)sp)[4]))
            cv_task_begin_loop(f, (struct cv_task_loop){.function = ((uint64_t *)c)[1], .at_once = !(int32_t)d});
        break;
    case WAIT:
        cv_threads_event(&f->thread, CV_THREAD_WAIT, a, b, place_of(sp));
        cv_frame_push(f, function, sp, a, b);
        break;
    case SPINNING_LOCK: cv_frame_push(f, LOCK, sp, a, CV_THREAD_SPINS); break;
    case CRITICAL_BEGIN: cv_frame_push(f, LOCK, sp, CRITICAL, CV_THREAD_SPINS); break;
    case LOCK_SECOND: cv_frame_push(f, LOCK, sp, c, CV_THREAD_SPINS); break;
    case TEAM_BARRIER: cv_frame_push(f, BARRIER, sp, cv_team_of(f), 0); break;
    case SINGLE_COPY:
    case REDUCE:
    case CHUNK:
    case CHUNK_INT: cv_frame_push(f, function, sp, cv_team_of(f), 0); break;
    case TASK_WAIT: cv_frame_push(f, TASK_WAIT, sp, 0, 0); break;
    case TASK_WAIT_ALL: cv_frame_push(f, TASK_WAIT, sp, 0, 1); break;
    case BARRIER: cv_frame_push(f, function, sp, a, ((uint32_t *)a)[2]); break; /* its parties, in glibc from 2.25 on */
    default: cv_frame_push(f, function, sp, a, 0);
    }
}

/* Calls that give, or wait for, nothing. */
static int nothing_came_of(enum cv_function function, int32_t status, uint64_t result)
{
    switch (function) {
    case CREATE:
    case JOIN:
    case TRY:
    case READ:
    case ACQUIRE: return status != 0;
    case TEST: return status == 0;
    case SINGLE_COPY: return result == 0;
    case REDUCE: return status == 2;
    default: return 0;
    }
}

static void returned(struct cv_followed *f, const struct cv_frame *frame, uint64_t result)
{
    uint32_t place = cv_threads_place(frame->site);
    uint64_t object = frame->object, argument = 0;
    int32_t status = (int32_t)result;
    enum cv_thread_event event;
    if (nothing_came_of(frame->function, status, result))
        return;
    switch (frame->function) {
    case CREATE:
        if (!frame->argument)
            return;
        cv_assert(frame->argument <= cv_all_calls->serials);
        remember_handle((uint32_t)frame->argument, *(uint64_t *)object);
        event = CV_THREAD_CREATE, object = frame->argument;
        break;
    case JOIN:
        object = serial_of(object);
        if (!object)
            return;
        cv_all_calls->handles[object] = 0;
        event = CV_THREAD_JOIN;
        break;
    case TRY: event = CV_THREAD_LOCK; break;
    case TEST: event = CV_THREAD_LOCK, argument = CV_THREAD_SPINS; break;
    case READ: event = CV_THREAD_LOCK, argument = CV_THREAD_SHARED; break;
    case LOCK: event = CV_THREAD_LOCK, argument = frame->argument; break;
    case WAIT: event = CV_THREAD_WOKEN, argument = frame->argument; break;
    case SINGLE_COPY:
    case REDUCE:
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
    case WAIT_DEPENDS:
        cv_threads_event(&f->thread, CV_THREAD_TASK_BEGIN, object, 1, place);
        event = CV_THREAD_TASK_END;
        break;
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

void cv_call_left(struct cv_followed *f, uint64_t result, uint64_t target)
{
    struct cv_frame frame;
    cv_threads_attribute(&f->thread);
    do { /* the body, too, that jumped to it */
        cv_assert(f->depth > 0 && f->depth <= CV_DEEPEST_CALL);
        frame = f->frame[--f->depth];
        look(f);
        if (target == frame.site + 1 && cv_threads_active())
            returned(f, &frame, result);
    } while (cv_top(f) && cv_top(f)->sp == frame.sp);
}

/* ---- the life of threads ---- */

void cv_threads_begun(struct cv_followed *f)
{
    for (uint32_t i = 0; i < f->depth; i++)
        if (f->frame[i].function == PARALLEL)
            cv_threads_event(&f->thread, CV_THREAD_FORK, f->frame[i].object, 0, cv_threads_place(f->frame[i].site));
    look(f);
}

int cv_thread_made(struct cv_followed *f, struct cv_followed *child, uint32_t number)
{
    struct cv_frame *frame = cv_top(f);
    if (cv_all_calls->serials == CV_MOST_THREADS - 1)
        return 0;
    cv_assert(child != f && f->thread.serial <= cv_all_calls->serials);
    cv_threads_attribute(&f->thread);
    const uint32_t place = frame ? cv_threads_place(frame->site) : 0, serial = ++cv_all_calls->serials;
    *child = (struct cv_followed){.thread = {.serial = (uint16_t)serial, .parent = f->thread.serial}};
    child->thread.pool = child->thread.in_runtime = frame && frame->function == PARALLEL;
    cv_threads_event(&child->thread, CV_THREAD_START, f->thread.serial, child->thread.pool | (uint64_t)number << 1, place);
    child->thread.began |= (uint64_t)(serial < 256 ? serial : 0) << 48; /* threads may do different work from here */
    if (frame && frame->function == CREATE)
        frame->argument = serial;
    else if (!child->thread.pool)
        cv_threads_event(&f->thread, CV_THREAD_CREATE, serial, 0, place);
    return 1;
}

void cv_thread_ended(struct cv_followed *f)
{
    cv_threads_event(&f->thread, CV_THREAD_EXIT, 0, 0, 0);
    f->depth = 0;
}

/* ---- futexes ---- */

#define FUTEX 202
#define FUTEX_COMMANDS 127 /* without the flags for private ones and for clocks */
enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_WAIT_BITSET = 9, FUTEX_WAKE_BITSET = 10 };

int cv_system_call_begins(struct cv_followed *f, uint64_t number, const uint64_t *arguments)
{
    if (number != FUTEX) {
        f->thread.calls++;
        return 0;
    }
    cv_threads_attribute(&f->thread);
    if (f->thread.in_runtime)
        return 0;
    const uint64_t command = arguments[1] & FUTEX_COMMANDS;
    /* The woken may run before the waker comes back. */
    if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET)
        cv_threads_event(&f->thread, CV_THREAD_WAKE, arguments[0], 0, 0);
    cv_assert(!f->sleeps_at); /* it waits at one futex at a time */
    f->sleeps_at = command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET ? arguments[0] : 0;
    return f->sleeps_at != 0;
}

void cv_system_call_ended(struct cv_followed *f, int failed)
{
    if (f->sleeps_at && !failed)
        cv_threads_event(&f->thread, CV_THREAD_SLEPT, f->sleeps_at, 0, 0);
    f->sleeps_at = 0;
}
