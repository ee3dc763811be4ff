/* SPDX-License-Identifier: GPL-2.0-or-later
 * Data objects (--data-objects=yes): their definitions in the stream, and what allocation functions give and take back.
 *
 * Allocation functions are watched where they are entered, by name, and where they return: a block that ends in a return compares
 * the stack pointer with that of the innermost one that was entered. The place in the code is the caller of the outermost one, so
 * that of `new` and not of the malloc within it. A block is there from the moment when its function returns, so what calloc fills
 * in belongs to the allocator; it is gone when free is entered.
 *
 * The program's own functions run, none is replaced: so nothing is counted differently, and static programs are no exception. A stripped
 * static program has no names. */
#include "tracer.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"

#define WRITE_RECORD cv_stream_record
#define ZEROED(bytes) VG_(calloc)("cv.objects", 1, bytes)
#define FREE VG_(free)
#define MODULE_OF cv_module_of
#include "../common/object_records.h"

#define DEEPEST 16
#define MOST_CALLERS 16
#define NOT_AWAITED (~0ULL)

static ULong awaited = NOT_AWAITED; /* stack pointer after the return of the innermost allocation function of this thread */

struct frame {
    enum cv_allocator kind;
    const HChar *name;
    Addr sp;   /* at the entry: the return address lies there */
    Addr site; /* within the call */
    Addr old;  /* block of realloc; where posix_memalign leaves its result */
    SizeT size;
    Addr given; /* what a function within gave last */
};

struct watched {
    enum cv_allocator kind;
    const HChar *name;
    struct watched *next;
};

struct frames {
    Bool running; /* the thread has its stack */
    UInt depth;
    struct frame frame[DEEPEST];
};

static struct frames **threads;
static UInt threads_room;

/* ---- allocation functions ---- */

static enum cv_allocator allocator_of(const HChar *name, const HChar **shown)
{
    return cv_allocator_named(name, cv_options.allocators, shown);
}

/* Memory that a program maps itself is not its allocator's, nor is that of an allocator outside of the C library, which calls the
 * library's mmap from another object. */
Bool cv_allocator_calls(void)
{
    const DiEpoch now = VG_(current_DiEpoch)();
    const HChar *name, *shown;
    Addr callers[MOST_CALLERS];
    const UInt depth = VG_(get_StackTrace)(VG_(get_running_tid)(), callers, MOST_CALLERS, NULL, NULL, 0);
    const DebugInfo *const library = depth ? VG_(find_DebugInfo)(now, callers[0]) : NULL;
    for (UInt i = 1; library && i < depth; i++) {
        if (!VG_(get_fnname)(now, callers[i], &name) || VG_(find_DebugInfo)(now, callers[i]) != library)
            continue;
        const enum cv_allocator kind = allocator_of(name, &shown);
        if (kind >= CV_ALLOC_SIZE && kind <= CV_ALLOC_POSIX)
            return True;
    }
    return False;
}

static struct frames *frames_of(ThreadId thread)
{
    threads = cv_with_room(threads, &threads_room, thread + 1, sizeof *threads);
    if (!threads[thread])
        threads[thread] = VG_(calloc)("cv.frames", 1, sizeof **threads);
    return threads[thread];
}

static void await(const struct frames *frames) { awaited = frames->depth ? frames->frame[frames->depth - 1].sp + 8 : NOT_AWAITED; }

void cv_objects_switch(ThreadId thread)
{
    struct frames *frames = frames_of(thread);
    await(frames);
    if (!frames->running)
        cv_objects_place_stack(thread);
    frames->running = True;
}

void cv_objects_thread_ended(ThreadId thread)
{
    struct frames *frames = frames_of(thread);
    frames->depth = 0;
    frames->running = False;
}

Bool cv_objects_caller(Addr *site, Bool *allocating)
{
    const struct frames *frames = frames_of(cv_current_thread());
    if (!frames->depth)
        return False;
    *site = frames->frame[0].site;
    *allocating = False;
    for (UInt i = 0; i < frames->depth; i++)
        *allocating |= frames->frame[i].kind != CV_ALLOC_MMAP && frames->frame[i].kind != CV_ALLOC_WRAPPER;
    return True;
}

static void free_block(Addr block)
{
    if (block)
        cv_object_event(CV_WIRE_FREED, block, 0, 0, 1);
}

static void cv_allocator_entered(HWord function, HWord sp, HWord a, HWord b, HWord c)
{
    const struct watched *watched = (const struct watched *)function;
    if (watched->kind == CV_ALLOC_FREE) {
        free_block(a);
        return;
    }
    struct frames *frames = frames_of(cv_current_thread());
    /* Frames that lie no higher on the stack were left without a return (longjmp, an exception), or end in this call. */
    Addr site = *(Addr *)sp - 1;
    const HChar *name = watched->name;
    while (frames->depth && frames->frame[frames->depth - 1].sp <= sp) {
        struct frame *ended = &frames->frame[--frames->depth];
        if (ended->sp == sp && ended->site == site)
            name = ended->name;
    }
    if (frames->depth == DEEPEST)
        return;
    struct frame *frame = &frames->frame[frames->depth++];
    const struct cv_asked asked = cv_allocation_asked(watched->kind, a, b, c);
    *frame = (struct frame){.kind = watched->kind, .name = name, .sp = sp, .site = site, .old = asked.old, .size = asked.size};
    await(frames);
}

/* The function of this frame, which is no longer among the frames, gave a block (or not: 0). */
static void given(struct frames *frames, const struct frame *frame, Addr block)
{
    const struct frame *outermost = frames->depth ? &frames->frame[0] : frame;
    Bool grows = frame->kind == CV_ALLOC_REALLOC || frame->kind == CV_ALLOC_REALLOCARRAY;
    if (block && block == frame->given)
        return; /* a function that passes on what one within gave has nothing to tell */
    if (grows && (block || !frame->size))
        free_block(frame->old);
    if (block)
        cv_object_place(cv_object(CV_WIRE_HEAP, outermost->site, outermost->name), block, frame->size);
    for (UInt i = 0; i < frames->depth; i++)
        frames->frame[i].given = block;
}

/* A return to where the stack pointer was before the call: the function's own, unless it was left without one before. */
static void cv_allocator_left(HWord result, HWord target)
{
    struct frames *frames = frames_of(cv_current_thread());
    struct frame frame = frames->frame[--frames->depth];
    await(frames);
    if (frame.kind == CV_ALLOC_MMAP || frame.kind == CV_ALLOC_WRAPPER || target != frame.site + 1)
        return;
    if (frame.kind == CV_ALLOC_POSIX)
        result = result == 0 && frame.old ? *(Addr *)frame.old : 0;
    given(frames, &frame, result);
}

/* ---- instrumentation ---- */

static struct watched *watched_functions; /* kept for good: inline code has their addresses */

static const struct watched *watched(enum cv_allocator kind, const HChar *name)
{
    for (struct watched *w = watched_functions; w; w = w->next)
        if (w->kind == kind && !VG_(strcmp)(w->name, name))
            return w;
    struct watched *w = VG_(malloc)("cv.watched", sizeof *w);
    *w = (struct watched){kind, VG_(strdup)("cv.watched", name), watched_functions};
    return watched_functions = w;
}

void cv_objects_instrument_entry(IRSB *out, Addr start)
{
    const HChar *name, *shown;
    if (!cv_options.data_objects || !VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), start, &name))
        return;
    enum cv_allocator kind = allocator_of(name, &shown);
    if (kind != CV_ALLOC_NONE)
        cv_ir_call(out, "cv_allocator_entered", cv_allocator_entered,
                   mkIRExprVec_5(cv_ir_u64((Addr)watched(kind, shown)), CV_GUEST(out, RSP), CV_GUEST(out, RDI), CV_GUEST(out, RSI),
                                 CV_GUEST(out, RDX)),
                   NULL);
}

void cv_objects_instrument_end(IRSB *out)
{
    if (cv_options.data_objects && out->jumpkind == Ijk_Ret)
        cv_ir_call_returned(out, "cv_allocator_left", cv_allocator_left, &awaited);
}
