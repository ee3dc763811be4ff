/* Threads and children of the program: their slots, and how they begin in the engine or natively. */
#include "blob.h"

int cv_other_space;

static struct cv_slot *new_slot(void)
{
    for (uint64_t i = 0; i < SHARED->slots; i++) { /* of a thread that has ended */
        struct cv_slot *old = cv_slot_at(i);
        uint64_t ending = 2;
        if (old->in_use == 2 && !old->guest && old->handed == __atomic_load_n(&old->taken, __ATOMIC_ACQUIRE) &&
            cv_system(SYS_tgkill, (uint64_t)cv_system(SYS_getpid, 0, 0, 0, 0, 0, 0), old->tid, 0, 0, 0, 0) == -3 &&
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
    struct cv_slot *slot = cv_slot_at(i);
    slot->self = (uint64_t)slot;
    slot->in_use = 1;
    slot->alternate_flags = 2; /* SS_DISABLE */
    return slot;
}

/* Those of guests have counts that are nobody's. */
static struct cv_slot *new_guest(void)
{
    for (uint64_t i = 0; i < SHARED->slots; i++) {
        struct cv_slot *old = cv_slot_at(i);
        uint64_t ended = 2;
        if (old->guest && __atomic_compare_exchange_n(&old->in_use, &ended, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            old->flag = old->pending = old->went_native = old->link = old->outside_since = old->close_after = old->child = 0;
            return old;
        }
    }
    struct cv_slot *slot = new_slot();
    if (slot)
        slot->guest = 1;
    return slot;
}

struct cv_slot *cv_adopt(uint64_t thread)
{
    struct cv_slot *slot = new_slot();
    if (!slot)
        return 0;
    slot->tid = thread;
    slot->started = 1;
    slot->mode = CV_COUNTING;
    cv_map_lookups(slot);
    cv_go_on_as(slot, SHARED->mode);
    __asm__ volatile("wrgsbase %0" : : "r"(slot->self));
    return slot;
}

static void begin_thread(struct cv_slot *slot)
{
    slot->tid = (uint64_t)cv_system(SYS_gettid, 0, 0, 0, 0, 0, 0);
    cv_map_lookups(slot);
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
    cv_system(SYS_sigprocmask, 2, (uint64_t)&forks[n].mask, 0, 8, 0, 0);
    slot->next = cv_find(slot, slot->target);
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
    struct cv_slot *child = guest ? new_guest() : new_slot();
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
    cv_follow_thread(slot, child);
    return (uint64_t)cv_thread_call;
}

/* The slot's registers are the parent's until the new thread has its own. */
static void await_thread(struct cv_slot *child, int64_t made)
{
    if (made < 0 && !child->guest)
        cv_follow_end(child);
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

uint64_t cv_before_fork(struct cv_slot *slot, uint64_t *registers, uint64_t flags)
{
    const int thread = flags & CLONE_VM && !(flags & CLONE_VFORK), natively = !SHARED->family || flags & CLONE_NEWPID || cv_other_space;
    cv_block_signals(slot);
    if (slot->flag & CV_WANT_SIGNAL)
        return cv_deliver(slot, registers, slot->target - 2);
    if (thread) {
        const uint64_t go = slot->guest ? 0 : start_thread(slot, 0);
        if (go)
            return go;
        cv_unblock_signals(slot); /* the new thread and this one go on natively */
        return cv_give_up(slot, slot->target - 2);
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

void cv_after_fork(struct cv_slot *slot, int64_t made)
{
    if (slot->child)
        await_thread((struct cv_slot *)slot->child, made);
    else if (SHARED->family && made < 0 && !forks[slot_number(slot)].natively)
        cv_family_forks(-1);
    slot->child = 0;
    cv_unblock_signals(slot);
}
