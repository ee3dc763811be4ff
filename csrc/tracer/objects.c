/* SPDX-License-Identifier: GPL-2.0-or-later
 * Data objects (--data-objects=yes): their definitions in the stream, and what allocation functions give and take back.
 *
 * Allocation functions are watched where they are entered, by name, and where they return: a block that ends in a return compares
 * the stack pointer with that of the innermost one that was entered. The place in the code is the caller of the outermost one, so
 * that of `new` and not of the malloc within it. A block is there from the moment when its function returns, so what calloc fills
 * in belongs to the allocator; it is gone when free is entered. */
#include "tracer.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_debuginfo.h"

#define DEEPEST 16
#define NOT_AWAITED (~0ULL)

ULong cv_awaited = NOT_AWAITED;

struct frame {
    enum cv_allocator kind;
    const HChar *name;
    Addr sp;   /* at the entry: the return address lies there */
    Addr site; /* within the call */
    Addr old;  /* block of realloc; where posix_memalign leaves its result */
    SizeT size;
    Addr given; /* what a function within gave last */
};

struct frames {
    Bool running; /* the thread has its stack */
    UInt depth;
    struct frame frame[DEEPEST];
};

static struct frames **threads;
static UInt n_threads;

/* ---- definitions ---- */

struct known {
    Addr site;
    const HChar *name;
    UInt kind, object;
};

static UInt n_objects;
static struct known *table; /* open addressing, at most half full; an empty one has kind 0 */
static UInt table_size, n_known;

UInt cv_objects_take(UInt n)
{
    n_objects += n;
    return n_objects - n;
}

static UInt define(enum cv_wire_object_kind kind, Addr site, UInt thread, const HChar *text)
{
    UChar payload[sizeof(struct cv_wire_object) + 4096];
    struct cv_wire_object *object = (struct cv_wire_object *)payload;
    SizeT length = VG_(strlen)(text);
    if (length > 4096)
        length = 4096;
    *object = (struct cv_wire_object){.module = CV_WIRE_NO_MODULE, .kind = kind, .thread = thread, .text_bytes = length};
    if (site)
        object->module = cv_module_of(site, &object->file_offset);
    VG_(memcpy)(payload + sizeof *object, text, length);
    cv_stream_record(CV_WIRE_OBJECT, 0, payload, sizeof *object + length);
    return cv_objects_take(1);
}

static struct known *slot_of(const struct known *key)
{
    UInt at = (key->site * 0x9E3779B97F4A7C15ULL >> 32 ^ (Addr)key->name >> 3 ^ key->kind) & (table_size - 1);
    while (table[at].kind && (table[at].site != key->site || table[at].name != key->name || table[at].kind != key->kind))
        at = (at + 1) & (table_size - 1);
    return &table[at];
}

static void grow(void)
{
    if (2 * n_known < table_size)
        return;
    struct known *old = table;
    UInt old_size = table_size;
    table_size = old_size ? 2 * old_size : 256;
    table = VG_(calloc)("cv.objects", table_size, sizeof *table);
    for (UInt i = 0; i < old_size; i++)
        if (old[i].kind)
            *slot_of(&old[i]) = old[i];
    if (old)
        VG_(free)(old);
}

/* Names are distinguished by address: they are those of the list of functions, or were kept. */
UInt cv_object(enum cv_wire_object_kind kind, Addr site, const HChar *name)
{
    grow();
    struct known key = {site, name, kind, 0}, *known = slot_of(&key);
    if (!known->kind) {
        *known = key;
        known->object = define(kind, site, 0, name);
        n_known++;
    }
    return known->object;
}

UInt cv_object_stack(UInt thread) { return define(CV_WIRE_STACK, 0, thread, ""); }

void cv_objects_forget_sites(void)
{
    if (table)
        VG_(memset)(table, 0, table_size * sizeof *table);
    n_known = 0;
}

void cv_object_event(enum cv_wire_event event, ULong a, ULong b, ULong c, UInt words)
{
    ULong payload[3] = {a, b, c};
    cv_stream_record(CV_WIRE_EVENT, event, payload, words * sizeof *payload);
}

static void place(UInt object, Addr address, SizeT bytes)
{
    if (bytes)
        cv_object_event(CV_WIRE_PLACED, object, address, bytes, 3);
}

/* ---- allocation functions ---- */

static struct frames *frames_of(ThreadId thread)
{
    while (thread >= n_threads) {
        UInt room = n_threads ? 2 * n_threads : 16;
        threads = VG_(realloc)("cv.frames", threads, room * sizeof *threads);
        VG_(memset)(threads + n_threads, 0, (room - n_threads) * sizeof *threads);
        n_threads = room;
    }
    if (!threads[thread])
        threads[thread] = VG_(calloc)("cv.frames", 1, sizeof **threads);
    return threads[thread];
}

static void await(const struct frames *frames) { cv_awaited = frames->depth ? frames->frame[frames->depth - 1].sp + 8 : NOT_AWAITED; }

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

void cv_allocator_entered(HWord function, HWord sp, HWord a, HWord b, HWord c)
{
    const struct cv_watched *watched = (const struct cv_watched *)function;
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
        place(cv_object(CV_WIRE_HEAP, outermost->site, outermost->name), block, frame->size);
    for (UInt i = 0; i < frames->depth; i++)
        frames->frame[i].given = block;
}

/* A return to where the stack pointer was before the call: the function's own, unless it was left without one before. */
void cv_allocator_left(HWord result, HWord target)
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

static struct cv_watched *watched_functions; /* kept for good: inline code has their addresses */

static const struct cv_watched *watched(enum cv_allocator kind, const HChar *name)
{
    for (struct cv_watched *w = watched_functions; w; w = w->next)
        if (w->kind == kind && !VG_(strcmp)(w->name, name))
            return w;
    struct cv_watched *w = VG_(malloc)("cv.watched", sizeof *w);
    *w = (struct cv_watched){kind, VG_(strdup)("cv.watched", name), watched_functions};
    return watched_functions = w;
}

void cv_objects_instrument_entry(IRSB *out, Addr start)
{
    const HChar *name, *shown;
    if (!cv_options.data_objects || !VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), start, &name))
        return;
    enum cv_allocator kind = cv_allocator_of(name, &shown);
    if (kind != CV_ALLOC_NONE)
        cv_ir_call(out, "cv_allocator_entered", cv_allocator_entered,
                   mkIRExprVec_5(cv_ir_u64((Addr)watched(kind, shown)), CV_GUEST(out, RSP), CV_GUEST(out, RDI), CV_GUEST(out, RSI),
                                 CV_GUEST(out, RDX)),
                   NULL);
}

void cv_objects_instrument_end(IRSB *out)
{
    if (cv_options.data_objects && out->jumpkind == Ijk_Ret)
        cv_ir_call_returned(out, "cv_allocator_left", cv_allocator_left, &cv_awaited);
}
