/* SPDX-License-Identifier: GPL-2.0-or-later
 * Which thread enters and leaves the functions that synchronize, and when threads begin and end: code that calls back there.
 *
 * Until a second thread starts only functions that begin threads are followed, and a program without one runs as it would. Then all
 * translations are thrown away: new ones look at returns and count instructions. */
#include "tracer.h"
#include "private.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_machine.h"

#define MOST_THREADS 2048 /* Valgrind has 500 unless it was asked for more */
#define NOT_AWAITED (~0ULL)

static ULong return_awaited = NOT_AWAITED; /* stack pointer after the return of the innermost function of this thread that is followed */
static Bool translations_stale;            /* others are needed */
static struct cv_followed *threads[MOST_THREADS];
static struct cv_all_calls all_calls;
struct cv_all_calls *const cv_all_calls = &all_calls;

static struct cv_followed *followed(ThreadId thread)
{
    if (thread >= MOST_THREADS)
        cv_fatal("more than %d threads at a time", MOST_THREADS);
    if (!threads[thread])
        threads[thread] = VG_(calloc)("cv.followed", 1, sizeof *threads[thread]);
    return threads[thread];
}

void cv_frames_changed(struct cv_followed *f)
{
    const struct cv_frame *frame = cv_top(f);
    if (f == threads[cv_current_thread()])
        return_awaited = frame ? frame->sp + 8 : NOT_AWAITED;
}

void cv_body_is_new(uint64_t function) { translations_stale = cv_threads_active(); }

/* ---- functions ---- */

static void cv_synchronization_body(HWord function, HWord sp, HWord data, HWord object)
{
    cv_body_entered(followed(cv_current_thread()), function, sp, data, object);
}

static ULong argument(Int offset)
{
    ULong value;
    VG_(get_shadow_regs_area)(cv_current_thread(), (UChar *)&value, 0, offset, sizeof value);
    return value;
}

static void cv_synchronization_entered(HWord function, HWord sp, HWord a, HWord b, HWord c, HWord d)
{
    const uint64_t fifth = argument(offsetof(VexGuestAMD64State, guest_R8)), sixth = argument(offsetof(VexGuestAMD64State, guest_R9));
    const uint64_t arguments[6] = {a, b, c, d, fifth, sixth};
    cv_call_entered(followed(cv_current_thread()), function, sp, arguments);
}

static void cv_synchronization_left(HWord result, HWord target) { cv_call_left(followed(cv_current_thread()), result, target); }

/* ---- instrumentation ---- */

void cv_synchronization_instrument_entry(IRSB *out, Addr start)
{
    const HChar *name;
    if (!cv_options.thread_events)
        return;
    if (cv_body_is_known(start))
        cv_ir_call(out, "cv_synchronization_body", cv_synchronization_body,
                   mkIRExprVec_4(cv_ir_u64(start), CV_GUEST(out, RSP), CV_GUEST(out, RDI), CV_GUEST(out, RSI)), NULL);
    if (!VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), start, &name))
        return;
    enum cv_function function = cv_function_named(name);
    if (function != NOTHING)
        cv_ir_call(out, "cv_synchronization_entered", cv_synchronization_entered,
                   mkIRExprVec_6(cv_ir_u64(function), CV_GUEST(out, RSP), CV_GUEST(out, RDI), CV_GUEST(out, RSI), CV_GUEST(out, RDX),
                                 CV_GUEST(out, RCX)),
                   NULL);
}

void cv_synchronization_instrument_end(IRSB *out)
{
    if (cv_threads_active() && out->jumpkind == Ijk_Ret)
        cv_ir_call_returned(out, "cv_synchronization_left", cv_synchronization_left, &return_awaited);
}

void cv_synchronization_discard(void)
{
    if (!translations_stale)
        return;
    translations_stale = False;
    VG_(ok_to_discard_translations) = True;
    VG_(discard_translations)(0x1000, 0x7fffffffe000, "convolver");
    VG_(ok_to_discard_translations) = False;
}

/* ---- the life of threads ---- */

static void begin(ThreadId first)
{
    struct cv_followed *f = followed(first);
    cv_threads_open(&f->thread);
    if (!cv_threads_active())
        return;
    translations_stale = True;
    cv_threads_begun(f);
}

static void thread_made(ThreadId parent, ThreadId child)
{
    if (!parent || !cv_options.thread_events)
        return;
    if (!cv_threads_active())
        begin(parent);
    if (cv_threads_active())
        cv_thread_made(followed(parent), followed(child), child);
}

void cv_synchronization_thread_ended(ThreadId thread)
{
    if (!cv_threads_active())
        return;
    struct cv_followed *f = followed(thread);
    if (thread == cv_current_thread())
        cv_threads_attribute(&f->thread);
    cv_thread_ended(f);
}

void cv_synchronization_switch(ThreadId from, ThreadId to)
{
    if (!cv_threads_active())
        return;
    cv_threads_switched(&followed(from)->thread);
    const struct cv_frame *frame = cv_top(followed(to));
    return_awaited = frame ? frame->sp + 8 : NOT_AWAITED;
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
    VG_(memset)(&all_calls, 0, sizeof all_calls);
    return_awaited = NOT_AWAITED;
    cv_threads_log_fork();
}

void cv_synchronization_end(void) { cv_threads_end(&followed(cv_current_thread())->thread); }

/* ---- system calls ---- */

void cv_synchronization_call_begins(ThreadId thread, UInt number, const UWord *arguments)
{
    if (cv_threads_active())
        cv_system_call_begins(followed(thread), number, arguments);
}

void cv_synchronization_call_ended(ThreadId thread, UInt number, const UWord *arguments, SysRes result)
{
    if (cv_threads_active())
        cv_system_call_ended(followed(thread), sr_isError(result));
}

void cv_synchronization_register(void) { VG_(track_pre_thread_ll_create)(thread_made); }
