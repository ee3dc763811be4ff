/* Where a thread goes on: look-ups, and what the program or the controller asks for on the way. Each function is entered from blob_entry.S
 * with the thread's slot and the program's registers, and returns the address of code to go on at. */
#include "../include/convolver_markers.h"
#include "blob.h"

#define VSYSCALLS UINT64_C(0xffffffffff600000)

/* A thread that went on at once would keep a processor from those that have to come here, too, and from the controller. */
static void await_others(void)
{
    const uint64_t most[2] = {0, CV_GATE_NANOSECONDS};
    if (__atomic_load_n(&SHARED->gate, __ATOMIC_ACQUIRE))
        cv_system(SYS_futex, (uint64_t)&SHARED->gate, 0, 1, (uint64_t)most, 0, 0);
}

/* The program gets back what the engine had taken over. */
static void give_back(struct cv_slot *slot)
{
    cv_block_signals(slot);
    slot->leave_mask = slot->saved_mask;
    if (slot->guest)
        return;
    if (SHARED->outside) {
        const uint64_t moment[2] = {0, 20000000};
        cv_lock();
        cv_open_code();
        cv_unlock();
        cv_system(SYS_nanosleep, (uint64_t)moment, 0, 0, 0, 0, 0); /* faults that are on their way are still the engine's */
    }
    /* once: the program may have others by the time that a thread which sleeps wakes up */
    cv_signals_end(&slot->alternate_stack, !__atomic_exchange_n(&SHARED->gave_back, 1, __ATOMIC_ACQ_REL));
    cv_send_again(slot);
    __atomic_store_n(&slot->at_gate, 1, __ATOMIC_RELEASE);
    await_others();
}

/* The thread leaves the engine for good, or until its next burst. Called again before it has, it only goes elsewhere. */
uint64_t cv_go_native(struct cv_slot *slot, uint64_t target)
{
    cv_end_part(slot, slot->mode == CV_RECORDING);
    if (!slot->leaving) {
        give_back(slot);
        slot->leaving = 1;
    }
    slot->mode = CV_NATIVE;
    slot->outside_target = target;
    __atomic_store_n(&slot->flag, 0, __ATOMIC_RELEASE);
    return (uint64_t)cv_leave;
}

/* What cannot be translated: this thread goes native, and so do all others, since they would not learn of code that it changes. */
uint64_t cv_give_up(struct cv_slot *slot, uint64_t target)
{
    if (SHARED->bursts_only || slot->guest)
        return cv_go_native(slot, target);
    slot->went_native = 1;
    SHARED->leave = 1;
    for (uint64_t i = 0; i < SHARED->slots; i++) {
        struct cv_slot *other = cv_slot_at(i);
        if (other != slot)
            cv_want(other, CV_WANT_NATIVE);
    }
    return cv_go_native(slot, target);
}

uint64_t cv_find(struct cv_slot *slot, uint64_t target)
{
    if (slot->mode == CV_NATIVE)
        return cv_go_native(slot, target);
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
    return code ? code : cv_give_up(slot, target);
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

/* ---- what is asked for ---- */

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
    cv_follow(slot, registers);
    if (!cv_marks_at(slot->target))
        return after;
    cv_come_by(slot, cv_marks_at(slot->target));
    slot->marked = slot->target;
    return cv_find(slot, slot->target);
}

/* What the controller asks for that neither needs the program's registers nor changes them. */
void cv_do_requests(struct cv_slot *slot)
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
    cv_do_requests(slot);
    if (ended && slot->guest)
        slot->heads = CV_HEADS;
    else if (ended && (slot->mode == CV_COUNTING || slot->mode == CV_FILTERING) && cv_heads_ended(slot))
        return cv_begin_burst(slot);
    return cv_find(slot, slot->target);
}

void cv_map_lookups(struct cv_slot *slot)
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
    cv_map_lookups(slot);
    if (SHARED->bursts_only) {
        cv_check_mappings();
        return cv_begin_burst(slot);
    }
    if (!slot->started) {
        await_others();
        slot->started = 1;
        slot->tid = (uint64_t)cv_system(SYS_gettid, 0, 0, 0, 0, 0, 0);
        slot->mode = CV_NATIVE;
        cv_signals_begin(slot, !__atomic_exchange_n(&SHARED->initialized, 1, __ATOMIC_ACQ_REL) && SHARED->attached);
        slot->saved_mask = slot->leave_mask;
        cv_unblock_signals(slot);
    }
    if (slot->mode != CV_NATIVE || slot->went_native || SHARED->leave)
        return cv_find(slot, slot->target);
    if (SHARED->mode == CV_NATIVE) {
        cv_check_mappings();
        return cv_begin_burst(slot);
    }
    cv_go_on_as(slot, SHARED->mode);
    return cv_find(slot, slot->target);
}
