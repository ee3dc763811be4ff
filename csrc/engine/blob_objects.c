/* Data objects (--data-objects): what allocation functions give and take back, and what the kernel maps. The thread notes it in a list that
 * the controller tells the reader, and writes into what it records how long the list is, as others that record do at their next look.
 *
 * Allocation functions are known by their entries, of which the controller has a table. They are heads; the thread looks into the engine
 * there. Each return compares the stack pointer with that of the innermost one that was entered. The place in the code is the caller of the
 * outermost one, so that of `new` and not of the malloc within it. A block is there from the moment when its function returns, and gone
 * when free is entered. */
#include "../common/cv_allocators.h"
#include "blob.h"

#define EVENTS ((struct cv_blob_event *)(CV_SHARED_BASE + CV_OFF_EVENTS))
#define WATCHED ((const struct cv_blob_watched *)(CV_SHARED_BASE + CV_OFF_WATCHED))
#define SPARE_EVENTS 4096 /* that threads may note at the same time */
#define PATH_BYTES 1024

enum { PROT_EXEC = 4, MAP_ANONYMOUS = 0x20 };

static struct cv_blob_frames *frames_of(const struct cv_slot *slot) { return (struct cv_blob_frames *)(slot->self + CV_SLOT_FRAMES); }

/* ---- the list ---- */

/* Waits until the controller has done something; 0: there is none any more. */
static int await_controller(uint64_t nanoseconds)
{
    const uint64_t moment[2] = {0, nanoseconds};
    cv_system(SYS_nanosleep, (uint64_t)moment, 0, 0, 0, 0, 0);
    return cv_system(SYS_kill, SHARED->controller, 0, 0, 0, 0, 0) != -3;
}

/* Returns the list's length with it. */
static uint64_t note(struct cv_slot *slot, struct cv_blob_event event, const char *path)
{
    while (SHARED->events - __atomic_load_n(&SHARED->reported, __ATOMIC_ACQUIRE) > CV_EVENTS - SPARE_EVENTS && await_controller(50000))
        cv_hand_part(slot); /* or the controller would wait for it */
    cv_lock();
    uint64_t n = SHARED->events;
    cv_assert(n - SHARED->reported <= CV_EVENTS && event.more < SPARE_EVENTS);
    memcpy(&EVENTS[n++ % CV_EVENTS], &event, sizeof event);
    for (uint32_t i = 0; i < event.more; i++)
        memcpy(&EVENTS[n++ % CV_EVENTS], path + i * sizeof event, sizeof event);
    __atomic_store_n(&SHARED->events, n, __ATOMIC_RELEASE);
    cv_unlock();
    cv_put_events(slot);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the list is longer before it is seen who records */
    for (uint64_t i = 0; i < SHARED->slots; i++) {
        struct cv_slot *other = cv_slot_at(i);
        if (other != slot && other->in_part)
            cv_want(other, CV_WANT_EVENTS);
    }
    return n;
}

static void note_words(struct cv_slot *slot, int kind, uint32_t name, uint64_t a, uint64_t b, uint64_t c)
{
    note(slot, (struct cv_blob_event){.kind = (uint16_t)kind, .name = (uint16_t)name, .word = {a, b, c}}, 0);
}

/* ---- allocation functions ---- */

const struct cv_blob_watched *cv_watched_at(uint64_t address)
{
    const uint64_t n = __atomic_load_n(&SHARED->watched, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < n; i++)
        if (WATCHED[i].address == address)
            return &WATCHED[i];
    return 0;
}

static const struct cv_blob_watched *allocates(uint64_t address)
{
    const struct cv_blob_watched *watched = SHARED->objects ? cv_watched_at(address) : 0;
    return watched && watched->kind < CV_WATCHED_CALLS ? watched : 0;
}

int cv_is_watched(uint64_t address) { return allocates(address) != 0; }

static void await_return(struct cv_slot *slot)
{
    const struct cv_blob_frames *frames = frames_of(slot);
    cv_assert(frames->depth <= CV_DEEPEST);
    slot->awaited_negated = frames->depth ? -(frames->frame[frames->depth - 1].sp + 8) : 0;
}

static void free_block(struct cv_slot *slot, uint64_t block)
{
    if (block)
        note_words(slot, CV_EVENT_FREED, 0, block, 0, 0);
}

void cv_allocation_begins(struct cv_slot *slot, const uint64_t *registers)
{
    const struct cv_blob_watched *watched = slot->guest ? 0 : allocates(slot->target);
    const uint64_t sp = slot->rsp, a = registers[RDI_], b = registers[RSI_], c = registers[RDX_];
    struct cv_blob_frames *frames = frames_of(slot);
    if (!watched)
        return;
    if (watched->kind == CV_ALLOC_FREE) {
        free_block(slot, a);
        return;
    }
    /* Frames that lie no higher on the stack were left without a return (longjmp, an exception), or end in this call. */
    const uint64_t site = *(const uint64_t *)sp - 1;
    uint32_t name = watched->name;
    while (frames->depth && frames->frame[frames->depth - 1].sp <= sp) {
        const struct cv_blob_frame *ended = &frames->frame[--frames->depth];
        if (ended->sp == sp && ended->site == site)
            name = ended->name;
    }
    if (frames->depth < CV_DEEPEST) {
        struct cv_blob_frame *frame = &frames->frame[frames->depth++];
        const struct cv_asked asked = cv_allocation_asked(watched->kind, a, b, c);
        *frame = (struct cv_blob_frame){.kind = watched->kind, .name = name, .sp = sp, .site = site, .old = asked.old, .size = asked.size};
    }
    await_return(slot);
}

/* The function of this frame, which is no longer among the frames, gave a block (or not: 0). */
static void given(struct cv_slot *slot, const struct cv_blob_frame *frame, uint64_t block)
{
    struct cv_blob_frames *frames = frames_of(slot);
    const struct cv_blob_frame *outermost = frames->depth ? &frames->frame[0] : frame;
    const int grows = frame->kind == CV_ALLOC_REALLOC || frame->kind == CV_ALLOC_REALLOCARRAY;
    if (block && block == frame->given)
        return; /* a function that passes on what one within gave has nothing to tell */
    if (grows && (block || !frame->size))
        free_block(slot, frame->old);
    if (block && frame->size)
        note_words(slot, CV_EVENT_GIVEN, outermost->name, outermost->site, block, frame->size);
    for (uint64_t i = 0; i < frames->depth; i++)
        frames->frame[i].given = block;
}

/* A return to where the stack pointer was before the call: the function's own, unless it was left without one before. */
uint64_t cv_returned(struct cv_slot *slot, uint64_t *registers)
{
    struct cv_blob_frames *frames = frames_of(slot);
    struct cv_blob_frame frame;
    uint64_t result = registers[RAX_];
    registers[RCX_] = slot->b;
    memcpy(&frame, &frames->frame[--frames->depth], sizeof frame);
    await_return(slot);
    if (frame.kind != CV_ALLOC_MMAP && frame.kind != CV_ALLOC_WRAPPER && slot->target == frame.site + 1) {
        if (frame.kind == CV_ALLOC_POSIX)
            result = (int32_t)result == 0 && frame.old ? *(const uint64_t *)frame.old : 0;
        given(slot, &frame, result);
    }
    return cv_find(slot, slot->target);
}

/* ---- system calls ---- */

static int may_sleep(uint64_t number)
{
    switch (number) {
    case SYS_mmap:
    case SYS_mprotect:
    case SYS_munmap:
    case SYS_brk:
    case SYS_sigprocmask:
    case SYS_yield:
    case SYS_mremap:
    case SYS_madvise:
    case SYS_getpid:
    case SYS_gettid:
    case SYS_clock_gettime: return 0;
    default: return 1;
    }
}

int cv_changes_memory(uint64_t number)
{
    return (number == SYS_mmap && (SHARED->objects || SHARED->follows)) || (SHARED->objects && (number == SYS_mremap || number == SYS_brk));
}

void cv_memory_goes(struct cv_slot *slot, uint64_t number, const uint64_t *registers)
{
    if (!SHARED->objects || slot->guest)
        return;
    if (number == SYS_munmap)
        note_words(slot, CV_EVENT_UNMAPPED, 0, registers[RDI_], (registers[RSI_] + 4095) & ~UINT64_C(4095), 0);
    if (SHARED->threads && may_sleep(number)) /* others go on, and what this one recorded comes first */
        cv_hand_part(slot);
}

/* The controller looks for allocation functions in code before it runs. */
static void note_file(struct cv_slot *slot, uint64_t file, uint64_t protection, uint64_t at, uint64_t size, uint64_t offset)
{
    char link[40] = "/proc/thread-self/fd/", path[PATH_BYTES];
    int n = 21, digits = 1;
    for (uint64_t rest = file; rest >= 10; rest /= 10)
        digits++;
    for (int i = digits; i-- > 0; file /= 10)
        link[n + i] = (char)('0' + file % 10);
    link[n + digits] = 0;
    memset(path, 0, sizeof path);
    if (cv_system(SYS_readlink, (uint64_t)link, (uint64_t)path, sizeof path - 1, 0, 0, 0) <= 0)
        return;
    for (n = 0; path[n]; n++)
        ;
    const int code = (protection & PROT_EXEC) != 0;
    const uint64_t length = note(slot,
                                 (struct cv_blob_event){.kind = CV_EVENT_FILE,
                                                        .name = (uint16_t)code,
                                                        .more = (uint16_t)((unsigned)n / sizeof(struct cv_blob_event) + 1),
                                                        .word = {at, size, offset}},
                                 path);
    while (code && __atomic_load_n(&SHARED->looked_at, __ATOMIC_ACQUIRE) < length && await_controller(20000))
        cv_hand_part(slot);
}

static void mapped(struct cv_slot *slot, const uint64_t *r, uint64_t at)
{
    const struct cv_blob_frames *frames = frames_of(slot);
    const uint64_t size = (r[RSI_] + 4095) & ~UINT64_C(4095);
    uint32_t by = frames->depth ? CV_MAPPED_BY_SITE : CV_MAPPED_BY_NONE;
    if (!(r[R10] & MAP_ANONYMOUS)) {
        note_file(slot, r[R8] & INT32_MAX, r[RDX_], at, size, r[R9]);
        return;
    }
    for (uint64_t i = 0; i < frames->depth; i++)
        if (frames->frame[i].kind != CV_ALLOC_MMAP && frames->frame[i].kind != CV_ALLOC_WRAPPER)
            by = CV_MAPPED_BY_ALLOCATOR;
    note_words(slot, CV_EVENT_MAPPED, by, by ? frames->frame[0].site : 0, at, size);
}

static void moved(struct cv_slot *slot, uint64_t from, uint64_t old, uint64_t to, uint64_t size)
{
    note_words(slot, CV_EVENT_MOVED, 0, from, to, size);
    if (to != from)
        note_words(slot, CV_EVENT_UNMAPPED, 0, from, old, 0);
    else if (size < old)
        note_words(slot, CV_EVENT_UNMAPPED, 0, from + size, old - size, 0);
}

static void heap_ends(struct cv_slot *slot, uint64_t end)
{
    const uint64_t before = SHARED->heap_end;
    SHARED->heap_end = end;
    if (before && end > before)
        note_words(slot, CV_EVENT_HEAP, 0, before, end - before, 0);
    else if (before && end < before)
        note_words(slot, CV_EVENT_UNMAPPED, 0, end, before - end, 0);
}

void cv_memory_changed(struct cv_slot *slot, uint64_t number, const uint64_t *registers)
{
    const uint64_t result = registers[RAX_], page = 4095;
    if (!cv_changes_memory(number) || slot->guest || (int64_t)result >> 12 == -1)
        return;
    if (!SHARED->objects) {
        if (registers[RDX_] & PROT_EXEC && !(registers[R10] & MAP_ANONYMOUS))
            cv_follow_file(registers[R8] & INT32_MAX, result, registers[R9]);
    } else if (number == SYS_mmap)
        mapped(slot, registers, result);
    else if (number == SYS_mremap)
        moved(slot, registers[RDI_], (registers[RSI_] + page) & ~page, result, (registers[RDX_] + page) & ~page);
    else
        heap_ends(slot, result);
}

void cv_note_stack(struct cv_slot *slot)
{
    uint64_t range[2] = {slot->stack, slot->stack + slot->stack_bytes};
    if (!SHARED->objects || slot->guest)
        return;
    if (!slot->stack_bytes) {
        if (!cv_range_of(slot->rsp, range))
            return;
        range[1] = slot->rsp;
    }
    const uint64_t number = (slot->self - CV_SHARED_BASE - CV_OFF_SLOTS) / CV_SLOT_BYTES + 1;
    note_words(slot, CV_EVENT_STACK, (uint32_t)number, range[0], range[1] - range[0], 0);
}
