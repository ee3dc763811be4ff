/* Where a thread goes on: look-ups, bursts, system calls, new threads and processes. Each function is entered from blob_entry.S with the
 * thread's slot and the program's registers, and returns the address of code to go on at. */
#include "../include/convolver_markers.h"
#include "blob.h"

enum {
    SYS_read,
    SYS_write,
    SYS_open,
    SYS_close,
    SYS_mmap = 9,
    SYS_mprotect,
    SYS_munmap,
    SYS_sigaction = 13,
    SYS_sigprocmask,
    SYS_sigreturn,
    SYS_yield = 24,
    SYS_mremap = 25,
    SYS_nanosleep = 35,
    SYS_clone = 56,
    SYS_fork,
    SYS_vfork,
    SYS_execve,
    SYS_exit,
    SYS_kill = 62,
    SYS_sigaltstack = 131,
    SYS_prctl = 157,
    SYS_arch_prctl = 158,
    SYS_gettid = 186,
    SYS_exit_group = 231,
    SYS_tgkill = 234,
    SYS_getrusage = 98,
    SYS_unshare = 272,
    SYS_setns = 308,
    SYS_openat = 257,
    SYS_seccomp = 317,
    SYS_execveat = 322,
    SYS_clone3 = 435
};

#define VISITS_AT_ONCE 4096 /* between two looks at how much has been recorded */
#define FEWEST_VISITS 64
#define VISIT_BYTES 1216 /* at most */
#define SPARE_HITS 2048  /* that a superblock may record beyond a full part */
#define VSYSCALLS UINT64_C(0xffffffffff600000)

uint64_t cv_go_native(struct cv_slot *slot, uint64_t target)
{
    cv_end_part(slot, slot->mode == CV_RECORDING);
    if (SHARED->bursts_only && slot->mode != CV_NATIVE) {
        slot->next = target;
        slot->leaving = 1;
        slot->mode = CV_NATIVE;
        return (uint64_t)cv_leave;
    }
    if (SHARED->leave && slot->mode != CV_NATIVE) {
        if (SHARED->outside) {
            const uint64_t moment[2] = {0, 20000000};
            cv_lock();
            cv_open_code();
            cv_unlock();
            cv_system(SYS_nanosleep, (uint64_t)moment, 0, 0, 0, 0, 0); /* faults that are on their way are still the engine's */
        }
        cv_signals_end(&slot->alternate_stack); /* threads that are made from now on have no slot */
    }
    slot->mode = CV_NATIVE;
    __atomic_fetch_and(&slot->flag, (uint64_t)CV_WANT_SIGNAL, __ATOMIC_ACQ_REL);
    return target;
}

/* What cannot be translated: this thread goes native, and so do all others, since they would not learn of code that it changes. */
static uint64_t give_up(struct cv_slot *slot, uint64_t target)
{
    if (SHARED->bursts_only || slot->guest)
        return cv_go_native(slot, target);
    slot->went_native = 1;
    SHARED->leave = 1;
    for (uint64_t i = 0; i < SHARED->slots; i++) {
        struct cv_slot *other = (struct cv_slot *)(CV_SHARED_BASE + CV_OFF_SLOTS + i * CV_SLOT_BYTES);
        if (other != slot)
            cv_want(other, CV_WANT_NATIVE);
    }
    return cv_go_native(slot, target);
}

uint64_t cv_find(struct cv_slot *slot, uint64_t target)
{
    if (slot->mode == CV_NATIVE)
        return target;
    uint64_t code = cv_known((int)slot->mode, target);
    if (code)
        return code;
    if (SHARED->leave)
        return cv_go_native(slot, target);
    cv_lock();
    code = cv_known((int)slot->mode, target);
    const int made = !code && !SHARED->bursts_only && cv_is_made(target);
    if (!code && !made)
        code = cv_translate((int)slot->mode, target);
    cv_unlock();
    if (made)
        return cv_go_outside(slot, target);
    return code ? code : give_up(slot, target);
}

/* The old entries of the kernel's time functions: done as system calls, and returned from. */
static uint64_t vsyscall(struct cv_slot *slot, uint64_t *registers)
{
    static const uint16_t numbers[3] = {96, 201, 309};
    const uint64_t which = (slot->target - VSYSCALLS) >> 10;
    registers[RAX_] = (uint64_t)cv_system(numbers[which < 3 ? which : 0], registers[RDI_], registers[RSI_], registers[RDX_], 0, 0, 0);
    slot->target = *(uint64_t *)slot->rsp;
    slot->rsp += 8;
    return cv_find(slot, slot->target);
}

uint64_t cv_dispatch(struct cv_slot *slot, uint64_t *registers)
{
    const uint64_t target = slot->target, link = slot->link;
    slot->link = 0;
    if (target >= VSYSCALLS && !SHARED->bursts_only)
        return vsyscall(slot, registers);
    const uint64_t mode = slot->mode, code = cv_find(slot, target);
    if (slot->mode != mode || slot->outside_since)
        return code;
    if (link) {
        cv_lock();
        if (cv_known((int)mode, target) == code)
            cv_link(link, code);
        cv_unlock();
    } else {
        cv_enter_lookup((int)mode, target, code);
        slot->misses++;
    }
    return code;
}

/* ---- what is recorded ---- */

static struct cv_blob_part *part_of(const struct cv_slot *slot)
{
    return (struct cv_blob_part *)(slot->self + CV_SLOT_PARTS) + slot->handed % CV_PARTS;
}

static uint64_t part_begin(const struct cv_slot *slot) { return slot->self + CV_SLOT_BUFFER + slot->handed % CV_PARTS * CV_PART_BYTES; }

/* The controller is slow: the program waits for it. Without a controller nobody ever reads. */
static void await_room(struct cv_slot *slot)
{
    const uint64_t moment[2] = {0, 50000};
    while (slot->handed - __atomic_load_n(&slot->taken, __ATOMIC_ACQUIRE) == CV_PARTS) {
        if (cv_system(SYS_kill, SHARED->controller, 0, 0, 0, 0, 0) == -3) {
            SHARED->leave = 1;
            cv_want(slot, CV_WANT_NATIVE);
            return;
        }
        cv_system(SYS_nanosleep, (uint64_t)moment, 0, 0, 0, 0, 0);
    }
}

static void begin_part(struct cv_slot *slot, int kind, int first)
{
    await_room(slot);
    cv_assert(!slot->in_part);
    *part_of(slot) = (struct cv_blob_part){
        .kind = (uint32_t)kind, .first = (uint32_t)first, .sets = SHARED->mode == CV_FILTERING, .interval = SHARED->interval};
    slot->buffer = part_begin(slot);
    slot->marked_to = 0;
    __atomic_store_n(&slot->in_part, 1, __ATOMIC_SEQ_CST); /* from now on the thread hears of events */
    part_of(slot)->events = __atomic_load_n(&SHARED->events, __ATOMIC_SEQ_CST);
    if (kind == CV_PART_HITS) {
        slot->left = CV_PART_BYTES / 16 - SPARE_HITS;
        slot->set_mask = SHARED->set_mask;
        slot->leaves_repeated = SHARED->leaves_repeated;
        slot->line_negated = slot->written_negated = 0;
    }
    if (SHARED->objects)
        cv_put_events(slot);
}

void cv_put_events(struct cv_slot *slot)
{
    uint64_t *at = (uint64_t *)slot->buffer;
    if (!slot->in_part)
        return;
    if (slot->marked_to != slot->buffer) {
        *at = CV_PART_EVENTS;
        at += 2;
        slot->burst_references -= 2; /* they are none */
        if (slot->mode == CV_FILTERING && !--slot->left) {
            __atomic_fetch_or(&slot->flag, UINT64_C(1) << 32, __ATOMIC_ACQ_REL);
            cv_look(slot);
        }
    }
    at[-1] = __atomic_load_n(&SHARED->events, __ATOMIC_ACQUIRE);
    slot->marked_to = slot->buffer = (uint64_t)at;
}

void cv_end_part(struct cv_slot *slot, int last)
{
    if (!slot->in_part)
        return;
    struct cv_blob_part *part = part_of(slot);
    cv_assert(slot->buffer >= part_begin(slot) && slot->buffer <= part_begin(slot) + CV_PART_BYTES && slot->buffer % 8 == 0);
    part->bytes = (uint32_t)(slot->buffer - part_begin(slot));
    part->last = (uint32_t)last;
    slot->in_part = 0;
    if (part->bytes || last)
        __atomic_store_n(&slot->handed, slot->handed + 1, __ATOMIC_RELEASE);
}

void cv_hand_part(struct cv_slot *slot)
{
    if (!slot->in_part || slot->buffer - part_begin(slot) <= sizeof(uint64_t[2])) /* the number of events */
        return;
    slot->burst_references += (slot->buffer - part_begin(slot)) / 8;
    cv_end_part(slot, 0);
    begin_part(slot, slot->mode == CV_RECORDING ? CV_PART_VISITS : CV_PART_HITS, 0);
}

static void next_visits(struct cv_slot *slot)
{
    cv_assert(slot->buffer <= part_begin(slot) + CV_PART_BYTES);
    const uint64_t room = (part_begin(slot) + CV_PART_BYTES - slot->buffer) / VISIT_BYTES;
    slot->part_visits = room < VISITS_AT_ONCE ? room : VISITS_AT_ONCE;
    slot->left = slot->part_visits + 1;
}

void cv_go_on_as(struct cv_slot *slot, uint64_t mode)
{
    if (!(slot->heads & CV_HEADS)) /* the controller may have asked for a look already */
        cv_begin_heads(slot);
    cv_end_part(slot, slot->mode == CV_RECORDING);
    slot->mode = mode;
    if (mode == CV_FILTERING)
        begin_part(slot, CV_PART_HITS, 0);
    if (mode == CV_RECORDING) {
        slot->burst_visits = slot->burst_references = 0;
        begin_part(slot, CV_PART_VISITS, 1);
        next_visits(slot);
    }
}

static uint64_t begin_burst(struct cv_slot *slot)
{
    cv_burst_begins(slot);
    cv_go_on_as(slot, CV_RECORDING);
    return cv_find(slot, slot->target);
}

static uint64_t end_burst(struct cv_slot *slot)
{
    slot->bursts++;
    cv_burst_ends(slot);
    if (SHARED->bursts_only)
        return cv_go_native(slot, slot->target);
    cv_go_on_as(slot, SHARED->mode);
    return cv_find(slot, slot->target);
}

uint64_t cv_burst_end(struct cv_slot *slot, uint64_t *registers)
{
    (void)registers;
    slot->link = 0;
    slot->burst_visits += slot->part_visits;
    const uint64_t words = slot->burst_references + (slot->buffer - part_begin(slot)) / 8, wanted = SHARED->burst_references;
    if (words - slot->burst_visits >= wanted || slot->burst_visits >= 16 * wanted + VISITS_AT_ONCE)
        return end_burst(slot);
    if (part_begin(slot) + CV_PART_BYTES - slot->buffer < FEWEST_VISITS * VISIT_BYTES) {
        slot->burst_references = words;
        cv_end_part(slot, 0);
        begin_part(slot, CV_PART_VISITS, 0);
    }
    next_visits(slot);
    return cv_find(slot, slot->target);
}

/* Code of the program asks the tracer. */
uint64_t cv_request(struct cv_slot *slot, uint64_t *registers)
{
    const uint64_t *arguments = (const uint64_t *)registers[RAX_];
    slot->link = 0;
    if (arguments[0] == CONVOLVER_REQUEST_START || arguments[0] == CONVOLVER_REQUEST_STOP)
        cv_come_by(slot, (int)SHARED->setup.markers & (arguments[0] == CONVOLVER_REQUEST_START ? CV_MARK_START : CV_MARK_STOP));
    else
        cv_bursts_asked(arguments, &registers[RDX_]);
    return cv_find(slot, slot->target);
}

/* At a place where a part may begin or end: once before its code, which may be another one then, and again in that. */
uint64_t cv_mark(struct cv_slot *slot, uint64_t *registers)
{
    const uint64_t after = slot->link;
    slot->link = 0;
    if (slot->marked == slot->target) {
        slot->marked = 0;
        return after;
    }
    cv_allocation_begins(slot, registers);
    if (!cv_marks_at(slot->target))
        return after;
    cv_come_by(slot, cv_marks_at(slot->target));
    slot->marked = slot->target;
    return cv_find(slot, slot->target);
}

/* What the controller asks for that neither needs the program's registers nor changes them. */
static void do_requests(struct cv_slot *slot)
{
    const uint64_t flag = __atomic_fetch_and(&slot->flag, (uint64_t)(CV_WANT_SIGNAL | CV_WANT_NATIVE), __ATOMIC_ACQ_REL);
    if (flag & CV_WANT_EVENTS)
        cv_put_events(slot);
    if (flag & CV_WANT_PART)
        cv_hand_part(slot);
    if (flag & CV_WANT_MODE && cv_has_marks(SHARED) && !slot->guest)
        cv_follow_part(slot);
    if ((slot->mode != CV_COUNTING && slot->mode != CV_FILTERING) || slot->guest)
        return;
    if (flag & CV_WANT_BETTER && __atomic_exchange_n(&SHARED->better, 0, __ATOMIC_ACQ_REL)) {
        cv_lock();
        cv_improve(slot);
        cv_unlock();
    }
    if (flag & CV_WANT_MODE && SHARED->mode != slot->mode)
        cv_go_on_as(slot, SHARED->mode);
    else if (flag >> 32 && slot->mode == CV_FILTERING)
        cv_go_on_as(slot, CV_FILTERING);
}

uint64_t cv_poll(struct cv_slot *slot, uint64_t *registers)
{
    slot->link = 0;
    slot->heads &= CV_HEADS;
    const int ended = !slot->heads || slot->flag & CV_WANT_INTERVAL;
    slot->heads += !slot->heads; /* the next head ends the interval, where something else comes before */
    if (slot->flag & CV_WANT_SIGNAL)
        return cv_deliver(slot, registers, slot->target);
    if (slot->flag & CV_WANT_NATIVE)
        return cv_go_native(slot, slot->target);
    do_requests(slot);
    if (ended && slot->guest)
        slot->heads = CV_HEADS;
    else if (ended && (slot->mode == CV_COUNTING || slot->mode == CV_FILTERING) && cv_heads_ended(slot))
        return begin_burst(slot);
    return cv_find(slot, slot->target);
}

static void map_lookups(struct cv_slot *slot)
{
    const uint64_t from = CV_SHARED_BASE + CV_OFF_LOOKUP, to = slot->self + CV_SLOT_LOOKUP, bytes = CV_NATIVE * CV_LOOKUP_BYTES;
    if (slot->has_lookups)
        return;
    if (cv_system(SYS_mremap, from, 0, bytes, 3, to, 0) != (int64_t)to) /* the same memory; else one in which there is never anything */
        for (uint64_t i = 0; i < bytes / 8; i++)
            ((uint64_t *)to)[i] = (uint64_t)cv_lookup_miss;
    slot->has_lookups = 1;
}

/* From native code, where the controller put the thread; or after a signal's handler. */
uint64_t cv_resume(struct cv_slot *slot, uint64_t *registers)
{
    (void)registers;
    slot->link = 0;
    slot->target = slot->resume;
    map_lookups(slot);
    if (SHARED->bursts_only) {
        cv_check_mappings();
        return begin_burst(slot);
    }
    if (!slot->started) {
        slot->started = 1;
        slot->tid = (uint64_t)cv_system(SYS_gettid, 0, 0, 0, 0, 0, 0);
        slot->mode = CV_NATIVE;
        cv_signals_begin(slot, !__atomic_exchange_n(&SHARED->initialized, 1, __ATOMIC_ACQ_REL) && SHARED->attached);
    }
    if (slot->mode != CV_NATIVE || slot->went_native || SHARED->leave)
        return cv_find(slot, slot->target);
    if (SHARED->mode == CV_NATIVE) {
        cv_check_mappings();
        return begin_burst(slot);
    }
    cv_go_on_as(slot, SHARED->mode);
    return cv_find(slot, slot->target);
}

/* ---- threads and processes ---- */

struct cv_slot *cv_new_slot(void)
{
    for (uint64_t i = 0; i < SHARED->slots; i++) { /* of a thread that has ended */
        struct cv_slot *old = (struct cv_slot *)(CV_SHARED_BASE + CV_OFF_SLOTS + i * CV_SLOT_BYTES);
        uint64_t ending = 2;
        if (old->in_use == 2 && !old->guest && old->handed == __atomic_load_n(&old->taken, __ATOMIC_ACQUIRE) &&
            cv_system(SYS_tgkill, (uint64_t)cv_system(39, 0, 0, 0, 0, 0, 0), old->tid, 0, 0, 0, 0) == -3 &&
            __atomic_compare_exchange_n(&old->in_use, &ending, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            old->flag = old->pending = old->went_native = old->link = old->outside_since = old->close_after = old->heads = 0;
            old->alternate_flags = 2;
            old->alternate_stack = old->alternate_size = old->awaited_negated = 0;
            ((struct cv_blob_frames *)(old->self + CV_SLOT_FRAMES))->depth = 0;
            return old;
        }
    }
    const uint64_t i = __atomic_fetch_add(&SHARED->slots, 1, __ATOMIC_ACQ_REL);
    if (i >= CV_MOST_SLOTS) {
        __atomic_fetch_sub(&SHARED->slots, 1, __ATOMIC_ACQ_REL);
        return 0;
    }
    struct cv_slot *slot = (struct cv_slot *)(CV_SHARED_BASE + CV_OFF_SLOTS + i * CV_SLOT_BYTES);
    slot->self = (uint64_t)slot;
    slot->in_use = 1;
    slot->alternate_flags = 2; /* SS_DISABLE */
    return slot;
}

/* Those of guests have counts that are nobody's. */
static struct cv_slot *new_guest(void)
{
    for (uint64_t i = 0; i < SHARED->slots; i++) {
        struct cv_slot *old = (struct cv_slot *)(CV_SHARED_BASE + CV_OFF_SLOTS + i * CV_SLOT_BYTES);
        uint64_t ended = 2;
        if (old->guest && __atomic_compare_exchange_n(&old->in_use, &ended, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            old->flag = old->pending = old->went_native = old->link = old->outside_since = old->close_after = old->child = 0;
            return old;
        }
    }
    struct cv_slot *slot = cv_new_slot();
    if (slot)
        slot->guest = 1;
    return slot;
}

struct cv_slot *cv_adopt(uint64_t thread)
{
    struct cv_slot *slot = cv_new_slot();
    if (!slot)
        return 0;
    slot->tid = thread;
    slot->started = 1;
    slot->mode = CV_COUNTING;
    map_lookups(slot);
    cv_go_on_as(slot, SHARED->mode);
    __asm__ volatile("wrgsbase %0" : : "r"(slot->self));
    return slot;
}

static void begin_thread(struct cv_slot *slot)
{
    slot->tid = (uint64_t)cv_system(SYS_gettid, 0, 0, 0, 0, 0, 0);
    map_lookups(slot);
    if (slot->guest)
        cv_signals_of_child(&slot->alternate_stack, ~UINT64_C(0));
    else
        cv_signals_begin(slot, 0);
    __atomic_store_n(&slot->started, 1, __ATOMIC_RELEASE);
    if (slot->guest)
        slot->heads = slot->interval_heads = CV_HEADS;
    else if (slot->mode != CV_NATIVE)
        cv_go_on_as(slot, SHARED->mode);
}

uint64_t cv_thread_start(struct cv_slot *slot, uint64_t *registers)
{
    registers[RCX_] = slot->target;
    begin_thread(slot);
    cv_note_stack(slot);
    cv_unblock_signals(slot);
    return cv_find(slot, slot->target);
}

/* In the child of a fork, on its own stack. Its parent uses the slot on: only what was set before the call may be read, and nothing
 * written. */
static struct {
    uint64_t target, mask, alternate[3], natively;
} forks[CV_MOST_SLOTS];

static uint64_t slot_number(const struct cv_slot *slot) { return ((uint64_t)slot - CV_SHARED_BASE - CV_OFF_SLOTS) / CV_SLOT_BYTES; }

/* In the engine, with memory of its own; 0: it cannot. */
static uint64_t traced_child(uint64_t n)
{
    struct cv_slot *slot = (struct cv_slot *)(CV_SHARED_BASE + CV_OFF_SLOTS);
    if (!SHARED->family || forks[n].natively || !cv_family_begins(slot, forks[n].alternate))
        return 0;
    slot->self = (uint64_t)slot;
    slot->in_use = SHARED->slots = 1;
    slot->mode = CV_COUNTING;
    slot->target = forks[n].target;
    __asm__ volatile("wrgsbase %0" : : "r"(slot->self));
    begin_thread(slot);
    slot->next = cv_find(slot, slot->target);
    cv_system(SYS_sigprocmask, 2, (uint64_t)&forks[n].mask, 0, 8, 0, 0);
    return (uint64_t)cv_done_call;
}

/* Returns where the child goes on: in the engine, or natively, as if that had never been there. */
uint64_t cv_child(struct cv_slot *slot)
{
    const uint64_t n = slot_number(slot), code = traced_child(n), zero = 0;
    if (code)
        return code;
    cv_signals_of_child(forks[n].alternate, forks[n].mask);
    __asm__ volatile("wrgsbase %0" : : "r"(zero));
    return forks[n].target;
}

static uint64_t start_thread(struct cv_slot *slot, int guest)
{
    struct cv_slot *child = guest ? new_guest() : cv_new_slot();
    if (!child) {
        if (!guest)
            cv_say_why("more threads than there are slots", slot->target);
        return 0;
    }
    child->target = slot->target;
    child->started = 0;
    child->stack = slot->stack;
    child->stack_bytes = slot->stack_bytes;
    child->mode = SHARED->mode == CV_NATIVE || slot->mode == CV_NATIVE ? CV_NATIVE : CV_COUNTING;
    child->saved_mask = slot->saved_mask;
    slot->child = child->self;
    if (guest) {
        child->mode = CV_COUNTING;
        memcpy(&child->alternate_stack, &slot->alternate_stack, 3 * sizeof child->alternate_stack);
        return (uint64_t)cv_thread_call;
    }
    __atomic_fetch_add(&SHARED->threads, 1, __ATOMIC_RELAXED);
    return (uint64_t)cv_thread_call;
}

/* The slot's registers are the parent's until the new thread has its own. */
static void await_thread(struct cv_slot *child, int64_t made)
{
    if (made < 0 || child->guest) { /* it has become another program, or ended */
        child->tid = INT32_MAX;
        child->in_use = 2;
        return;
    }
    for (int turn = 0; !__atomic_load_n(&child->started, __ATOMIC_ACQUIRE); turn++)
        if (turn > 100)
            cv_system(SYS_yield, 0, 0, 0, 0, 0, 0);
        else
            __builtin_ia32_pause();
}

/* ---- system calls ---- */

enum { NO_TARGET, TO_FILE, TO_PIPE, TO_SOCKET, TO_NULL, TO_OTHER }; /* enum cv_wire_target */

static int moves_bytes(uint64_t number)
{
    switch (number) {
    case 0:
    case 1:
    case 17:
    case 18:
    case 19:
    case 20:
    case 40:
    case 44:
    case 45:
    case 46:
    case 47:
    case 78:
    case 217:
    case 295:
    case 296: return 1;
    default: return 0;
    }
}

static uint64_t target_of(uint64_t descriptor)
{
    uint64_t status[18];
    if (cv_system(5, descriptor, (uint64_t)status, 0, 0, 0, 0)) /* fstat */
        return NO_TARGET;
    const uint32_t mode = (uint32_t)status[3] & 0170000;
    if (mode == 0100000)
        return TO_FILE;
    if (mode == 0010000)
        return TO_PIPE;
    if (mode == 0140000)
        return TO_SOCKET;
    return mode == 0020000 && status[5] == 0x103 ? TO_NULL : TO_OTHER;
}

static void count_call(uint64_t number, uint64_t target, uint64_t moved)
{
    if (number >= CV_MOST_CALLS || !SHARED->inside)
        return;
    struct cv_blob_call *c = &SHARED->calls[number][target];
    __atomic_fetch_add(&c->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&c->bytes, moved, __ATOMIC_RELAXED);
}

static uint64_t done(struct cv_slot *slot, uint64_t *registers, int64_t result)
{
    (void)slot;
    registers[RAX_] = (uint64_t)result;
    return (uint64_t)cv_done_call;
}

/* The kernel restores what the frame says, the mask, too; the thread comes back to the engine. A signal that waits comes first. */
static uint64_t before_signal_return(struct cv_slot *slot, uint64_t *registers)
{
    cv_block_signals(slot);
    if (slot->flag & CV_WANT_SIGNAL)
        return cv_deliver(slot, registers, slot->target - 2);
    uint64_t *rip = (uint64_t *)(slot->rsp + 168);
    slot->resume = *rip;
    *rip = (uint64_t)enter_resume;
    cv_keep_stack(slot, (uint64_t *)(slot->rsp + 16));
    return (uint64_t)cv_call_end;
}

enum { PR_SET_SECCOMP = 22, CLONE_VM = 0x100, CLONE_VFORK = 0x4000, CLONE_NEWPID = 0x20000000 };

static int other_space; /* its children have numbers that the controller does not know */

static uint64_t before_fork(struct cv_slot *slot, uint64_t *registers, uint64_t flags)
{
    const int thread = flags & CLONE_VM && !(flags & CLONE_VFORK), natively = !SHARED->family || flags & CLONE_NEWPID || other_space;
    cv_block_signals(slot);
    if (slot->flag & CV_WANT_SIGNAL)
        return cv_deliver(slot, registers, slot->target - 2);
    if (thread) {
        const uint64_t go = slot->guest ? 0 : start_thread(slot, 0);
        if (go)
            return go;
        cv_unblock_signals(slot); /* the new thread and this one go on natively */
        return give_up(slot, slot->target - 2);
    }
    if (SHARED->outside) { /* for the child, which may share the memory */
        cv_lock();
        cv_open_code();
        cv_unlock();
        slot->close_after = 1;
    }
    __atomic_fetch_add(&SHARED->forks, 1, __ATOMIC_RELAXED);
    const uint64_t go = flags & CLONE_VM && !natively ? start_thread(slot, 1) : 0;
    if (go)
        return go;
    const uint64_t n = slot_number(slot);
    forks[n].target = slot->target;
    forks[n].mask = slot->saved_mask;
    forks[n].natively = (uint64_t)natively | (flags & CLONE_VM);
    memcpy(forks[n].alternate, &slot->alternate_stack, sizeof forks->alternate);
    if (forks[n].natively)
        __atomic_fetch_add(&SHARED->untraced, 1, __ATOMIC_RELAXED);
    else
        cv_family_forks(1);
    return (uint64_t)cv_fork_call;
}

/* What a guest asks the kernel for is its own. */
static uint64_t before_guests_call(struct cv_slot *slot, uint64_t *registers, uint64_t number)
{
    if (number == SYS_sigaction || number == SYS_sigaltstack || number == SYS_sigreturn)
        return (uint64_t)cv_plain_call;
    if ((number == SYS_prctl && registers[RDI_] == PR_SET_SECCOMP) || number == SYS_seccomp || number == SYS_arch_prctl)
        return cv_go_native(slot, slot->target - 2);
    return 0;
}

static uint64_t before_call(struct cv_slot *slot, uint64_t *registers)
{
    const uint64_t number = registers[RAX_], a = registers[RDI_], b = registers[RSI_], c = registers[RDX_];
    slot->link = 0;
    slot->call_number = number;
    slot->call_target = NO_TARGET;
    if (SHARED->last_call && __atomic_add_fetch(&SHARED->made_calls, 1, __ATOMIC_ACQ_REL) == SHARED->last_call)
        cv_system(SYS_exit_group, 0, 0, 0, 0, 0, 0);
    if (SHARED->leave || SHARED->bursts_only)
        return cv_go_native(slot, slot->target - 2);
    slot->next = cv_find(slot, slot->target);
    if (slot->mode == CV_NATIVE)
        return slot->target - 2;
    const uint64_t guests = slot->guest ? before_guests_call(slot, registers, number) : 0;
    if (guests)
        return guests;
    switch (number) {
    case SYS_open:
    case SYS_openat: {
        const int64_t file = number == SYS_open ? cv_open_mappings(a, b) : cv_open_mappings(b, c);
        if (file < 0)
            break;
        count_call(number, 0, 0);
        return done(slot, registers, file);
    }
    case SYS_read: {
        const uint64_t most = cv_fill_mappings((int64_t)a);
        if (c <= most)
            break;
        const int64_t moved = cv_system(SYS_read, a, b, most, 0, 0, 0);
        count_call(number, TO_FILE, moved > 0 ? (uint64_t)moved : 0);
        return done(slot, registers, moved);
    }

    case SYS_sigaction: count_call(number, 0, 0); return done(slot, registers, cv_signal_action(a, b, c, registers[R10]));
    case SYS_sigaltstack: count_call(number, 0, 0); return done(slot, registers, cv_alternate_stack(slot, a, b));
    case SYS_sigreturn: return before_signal_return(slot, registers);
    case SYS_munmap:
    case SYS_mremap:
    case SYS_mprotect:
    case 329: slot->close_after = SHARED->outside & (uint64_t)cv_forget(a, a + b); break;
    case SYS_mmap:
        slot->close_after = SHARED->outside & c >> 2 & (uint64_t)((int32_t)registers[R8] >= 0); /* PROT_EXEC, of a file */
        if (registers[R10] & 0x10)                                                              /* MAP_FIXED */
            slot->close_after |= SHARED->outside & (uint64_t)cv_forget(a, a + b);
        break;
    case SYS_fork:
    case SYS_vfork: count_call(number, 0, 0); return before_fork(slot, registers, number == SYS_vfork ? CLONE_VM | CLONE_VFORK : 0);
    case SYS_clone:
    case SYS_clone3: {
        uint64_t flags = a;
        uint64_t asked[7] = {a, 0, 0, 0, 0, 0, 0}; /* the flags come first, the stack and its size last */
        if (number == SYS_clone3 && cv_read(a, asked, sizeof asked) != (int)sizeof asked)
            break;
        flags = asked[0];
        slot->stack = asked[5];
        slot->stack_bytes = asked[6];
        count_call(number, 0, 0);
        return before_fork(slot, registers, flags);
    }
    case SYS_unshare:
    case SYS_setns: other_space |= number == SYS_setns || a & CLONE_NEWPID; break;
    case SYS_execve:
    case SYS_execveat:
        if (SHARED->family)
            cv_system(SYS_getrusage, 0, (uint64_t)SHARED->usage, 0, 0, 0, 0);
        slot->asked = SHARED->family && cv_family_exec(slot, number == SYS_execve ? (uint64_t)-100 : a, number == SYS_execve ? a : b);
        if (!slot->guest) /* where it is refused, this is where the trace ends */
            SHARED->execing = slot->asked || !SHARED->family;
        slot->call_number = number;
        count_call(number, 0, 0);
        return (uint64_t)cv_watched_call;
    case SYS_exit_group:
        if (SHARED->family && !slot->guest) {
            cv_system(SYS_getrusage, 0, (uint64_t)SHARED->usage, 0, 0, 0, 0);
            SHARED->exited = 1 + (a & 255);
        }
        break;
    case SYS_exit:
        cv_end_part(slot, slot->mode == CV_RECORDING);
        slot->in_use = 2;
        break;
    case SYS_prctl:
        if (a != PR_SET_SECCOMP)
            break; /* fall through */
    case SYS_seccomp:
        if (number == SYS_seccomp && a == 2)
            break;
        cv_say_why("a filter of system calls (seccomp)", slot->target - 2);
        return give_up(slot, slot->target - 2);
    case SYS_arch_prctl:
        if (a != 0x1001) /* ARCH_SET_GS */
            break;
        cv_say_why("the program sets the gs segment", slot->target - 2);
        cv_block_signals(slot);
        cv_signals_of_child(&slot->alternate_stack, slot->saved_mask);
        return give_up(slot, slot->target - 2);
    default: break;
    }
    cv_memory_goes(slot, number, registers);
    if (moves_bytes(number) || slot->close_after || cv_changes_memory(number)) {
        slot->call_target = moves_bytes(number) ? target_of(a) : NO_TARGET;
        return (uint64_t)cv_watched_call;
    }
    count_call(number, 0, 0);
    return (uint64_t)cv_plain_call;
}

uint64_t cv_before_call(struct cv_slot *slot, uint64_t *registers) { return slot->again = before_call(slot, registers); }

static void after_call(struct cv_slot *slot, const uint64_t *registers)
{
    if (slot->close_after)
        cv_close_again();
    slot->close_after = 0;
    switch (slot->call_number) {
    case SYS_fork:
    case SYS_vfork:
    case SYS_clone:
    case SYS_clone3:
        if (slot->child)
            await_thread((struct cv_slot *)slot->child, (int64_t)registers[RAX_]);
        else if (SHARED->family && (int64_t)registers[RAX_] < 0 && !forks[slot_number(slot)].natively)
            cv_family_forks(-1);
        slot->child = 0;
        cv_unblock_signals(slot);
        break;
    case SYS_execve:
    case SYS_execveat:
        if (slot->asked)
            cv_family_failed();
        slot->asked = 0;
        if (!slot->guest)
            SHARED->execing = 0;
        break;
    default: {
        const int64_t moved = moves_bytes(slot->call_number) ? (int64_t)registers[RAX_] : 0;
        count_call(slot->call_number, slot->call_target, moved > 0 ? (uint64_t)moved : 0);
        cv_memory_changed(slot, slot->call_number, registers);
    }
    }
}

/* A system call has been made, and something is to be done before the program goes on. Other than a signal, it can wait. */
uint64_t cv_called(struct cv_slot *slot, uint64_t *registers)
{
    registers[RCX_] = slot->target;
    return slot->flag & CV_WANT_SIGNAL ? cv_deliver(slot, registers, slot->target) : slot->next;
}

uint64_t cv_after_call(struct cv_slot *slot, uint64_t *registers)
{
    after_call(slot, registers);
    return cv_called(slot, registers);
}

/* A signal came before a system call: its handler comes first. Other requests wait. */
uint64_t cv_interrupted(struct cv_slot *slot, uint64_t *registers)
{
    if (slot->flag & CV_WANT_SIGNAL)
        return cv_deliver(slot, registers, slot->target - 2);
    if (slot->flag & CV_WANT_NATIVE)
        return cv_go_native(slot, slot->target - 2);
    do_requests(slot);
    slot->next = cv_find(slot, slot->target);
    return slot->again;
}
