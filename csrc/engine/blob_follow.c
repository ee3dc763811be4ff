/* What threads of the program wait for (../threads/thread_calls.h): where they enter functions that synchronize, and where these return.
 *
 * Functions are known by their entries: those of the program's own file the controller finds, those of libraries this does where they are
 * mapped. Entries, the places to which they return, and bodies of parallel regions are heads, at which the thread looks into the engine.
 * Until a second thread begins only those that begin threads are. Then all code is made anew, with instructions counted. */
#include "blob.h"
#include "elf_symbols.h"

#define CALLS ((struct cv_all_calls *)(CV_SHARED_BASE + CV_OFF_CALLS))
#define RETURNS ((uint64_t *)(CV_SHARED_BASE + CV_OFF_RETURNS))
#define WATCHED ((struct cv_blob_watched *)(CV_SHARED_BASE + CV_OFF_WATCHED))

struct cv_all_calls *const cv_all_calls = CALLS;

/* ---- heads ---- */

static uint64_t *return_at(uint64_t address)
{
    uint64_t i = address * UINT64_C(0x9e3779b97f4a7c15) >> 50;
    while (RETURNS[i] && RETURNS[i] != address)
        i = (i + 1) % CV_MOST_RETURNS;
    return &RETURNS[i];
}

static enum cv_function function_at(uint64_t address)
{
    const struct cv_blob_watched *watched = cv_watched_at(address);
    return watched && watched->kind >= CV_WATCHED_CALLS ? (enum cv_function)(watched->kind - CV_WATCHED_CALLS) : NOTHING;
}

int cv_is_followed(uint64_t address)
{
    if (!SHARED->follows)
        return 0;
    if (!SHARED->following)
        return cv_begins_threads(function_at(address));
    return *return_at(address) || cv_body_is_known(address) || function_at(address) != NOTHING;
}

static void await_return(uint64_t address)
{
    uint64_t *place = return_at(address);
    if (*place || SHARED->returns >= CV_MOST_RETURNS / 2)
        return;
    SHARED->returns++;
    *place = address;
    if (SHARED->following)
        cv_anew(address);
}

void cv_frames_changed(struct cv_followed *f)
{
    if (f->depth)
        await_return(cv_top(f)->site + 1);
}

void cv_body_is_new(uint64_t function)
{
    if (SHARED->following)
        cv_anew(function);
}

/* ---- the program comes by ---- */

static int begin(struct cv_slot *slot)
{
    if (!SHARED->follows || slot->guest || !cv_log_room(slot))
        return 0;
    cv_lock();
    return 1;
}

static void end(struct cv_slot *slot)
{
    cv_unlock();
    cv_log_settle(slot, 0);
}

/* What begins or ends a burst at a head comes to the head again: nothing has run since. */
static int comes_again(struct cv_slot *slot, uint64_t address)
{
    struct cv_blob_head *last = &slot->last_head;
    const int again = last->address == address && last->sp == slot->rsp && last->total == slot->total && SHARED->following;
    *last = (struct cv_blob_head){address, slot->rsp, slot->total};
    return again;
}

void cv_follow(struct cv_slot *slot, const uint64_t *registers)
{
    const uint64_t address = slot->target, sp = slot->rsp;
    const uint64_t arguments[6] = {registers[RDI_], registers[RSI_], registers[RDX_], registers[RCX_], registers[R8], registers[R9]};
    struct cv_followed *f = cv_followed_by(slot);
    if (!cv_is_followed(address) || comes_again(slot, address) || !begin(slot))
        return;
    if (f->depth && cv_top(f)->sp + 8 == sp && *return_at(address))
        cv_call_left(f, registers[RAX_], address);
    if (cv_body_is_known(address))
        cv_body_entered(f, address, sp, arguments[0], arguments[1]);
    if (function_at(address) != NOTHING)
        cv_call_entered(f, function_at(address), sp, arguments);
    end(slot);
}

void cv_follow_thread(struct cv_slot *slot, struct cv_slot *child)
{
    struct cv_followed *f = cv_followed_by(slot);
    const uint64_t number = (child->self - CV_SHARED_BASE - CV_OFF_SLOTS) / CV_SLOT_BYTES + 1;
    if (!begin(slot))
        return;
    if (!SHARED->following) {
        cv_log_begin(slot);
        cv_unlock();
        cv_log_settle(slot, 1);
        cv_lock();
        for (uint32_t i = 0; i < f->depth; i++)
            await_return(f->frame[i].site + 1);
        cv_threads_begun(f);
    }
    child->period.faults = 0;
    if (!cv_thread_made(f, cv_followed_by(child), (uint32_t)number))
        SHARED->follows = 0;
    end(slot);
}

void cv_follow_end(struct cv_slot *slot)
{
    if (!SHARED->following || !begin(slot))
        return;
    cv_threads_attribute(&cv_followed_by(slot)->thread);
    cv_thread_ended(cv_followed_by(slot));
    cv_unlock();
    cv_log_settle(slot, 1);
}

int cv_follow_call(struct cv_slot *slot, uint64_t number, const uint64_t *registers)
{
    const uint64_t arguments[2] = {registers[RDI_], registers[RSI_]};
    struct cv_followed *f = cv_followed_by(slot);
    if (!SHARED->following || slot->guest)
        return 0;
    if (number != SYS_futex || f->thread.in_runtime) { /* no other thread learns of it */
        f->thread.calls += number != SYS_futex;
        return 0;
    }
    if (!begin(slot))
        return 0;
    const int seen = cv_system_call_begins(f, number, arguments);
    end(slot);
    return seen;
}

int cv_follow_waits(const struct cv_slot *slot, uint64_t number)
{
    return SHARED->following && SHARED->follows && number == SYS_futex && cv_followed_by(slot)->thread.in_runtime;
}

void cv_follow_called(struct cv_slot *slot, const uint64_t *registers)
{
    if (!SHARED->following || !cv_followed_by(slot)->sleeps_at || !begin(slot))
        return;
    cv_system_call_ended(cv_followed_by(slot), (int64_t)registers[RAX_] < 0);
    end(slot);
}

/* ---- functions of libraries ---- */

static void watch(void *bias, const Elf64_Sym *symbol, const char *name)
{
    const uint64_t address = *(const uint64_t *)bias + symbol->st_value, n = SHARED->watched;
    const enum cv_function function = ELF64_ST_TYPE(symbol->st_info) == STT_FUNC ? cv_function_named(name) : NOTHING;
    if (function == NOTHING || n == CV_MOST_WATCHED || cv_watched_at(address))
        return;
    WATCHED[n] = (struct cv_blob_watched){address, CV_WATCHED_CALLS + function, 0};
    __atomic_store_n(&SHARED->watched, n + 1, __ATOMIC_RELEASE);
}

void cv_follow_file(uint64_t file, uint64_t at, uint64_t offset)
{
    uint64_t status[18];
    if (!SHARED->follows || cv_system(SYS_fstat, file, (uint64_t)status, 0, 0, 0, 0))
        return;
    const int64_t begin_ = cv_system(SYS_mmap, 0, status[6], 1, 2, file, 0);
    if (begin_ >> 12 == -1)
        return;
    const struct cv_elf elf = {(const uint8_t *)begin_, status[6]};
    uint64_t bias;
    if (cv_elf_bias(elf, at, offset, &bias)) {
        cv_lock();
        cv_elf_each_symbol(elf, watch, &bias);
        cv_unlock();
    }
    cv_system(SYS_munmap, (uint64_t)begin_, status[6], 0, 0, 0, 0);
}
