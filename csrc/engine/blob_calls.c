/* System calls of the program: what the engine does before and after those that it counts, answers or must not let pass. */
#include "blob.h"

enum { PR_SET_SECCOMP = 22, ARCH_SET_GS = 0x1001, MAP_FIXED = 0x10 };

enum { NO_TARGET, TO_FILE, TO_PIPE, TO_SOCKET, TO_NULL, TO_OTHER }; /* enum cv_wire_target */

static int moves_bytes(uint64_t number)
{
    switch (number) {
    case 0 ... 1:
    case 17 ... 20:
    case 40:
    case 44 ... 47:
    case 78:
    case 217:
    case 295 ... 296: return 1;
    default: return 0;
    }
}

static uint64_t target_of(uint64_t descriptor)
{
    uint64_t status[18];
    if (cv_system(SYS_fstat, descriptor, (uint64_t)status, 0, 0, 0, 0))
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

static uint64_t done(uint64_t *registers, int64_t result)
{
    registers[RAX_] = (uint64_t)result;
    return (uint64_t)cv_done_call;
}

/* ---- calls that the engine takes over; 0: the kernel does it as it is ---- */

/* What the program reads of its mappings is without those of the engine. */
static uint64_t before_reading(uint64_t *registers, uint64_t number)
{
    const uint64_t a = registers[RDI_], b = registers[RSI_], c = registers[RDX_];
    if (number == SYS_read) {
        const uint64_t most = cv_fill_mappings((int64_t)a);
        if (c <= most)
            return 0;
        const int64_t moved = cv_system(SYS_read, a, b, most, 0, 0, 0);
        count_call(number, TO_FILE, moved > 0 ? (uint64_t)moved : 0);
        return done(registers, moved);
    }
    const int64_t file = number == SYS_open ? cv_open_mappings(a, b) : cv_open_mappings(b, c);
    if (file < 0)
        return 0;
    count_call(number, 0, 0);
    return done(registers, file);
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

static uint64_t before_clone(struct cv_slot *slot, uint64_t *registers, uint64_t number)
{
    uint64_t asked[7] = {registers[RDI_], 0, 0, 0, 0, 0, 0}; /* the flags come first, the stack and its size last */
    if (number == SYS_clone3 && cv_read(registers[RDI_], asked, sizeof asked) != (int)sizeof asked)
        return 0;
    slot->stack = asked[5];
    slot->stack_bytes = asked[6];
    count_call(number, 0, 0);
    return cv_before_fork(slot, registers, asked[0]);
}

static uint64_t before_exec(struct cv_slot *slot, const uint64_t *registers, uint64_t number)
{
    const uint64_t a = registers[RDI_], b = registers[RSI_];
    if (SHARED->family)
        cv_system(SYS_getrusage, 0, (uint64_t)SHARED->usage, 0, 0, 0, 0);
    slot->asked = SHARED->family && cv_family_exec(slot, number == SYS_execve ? (uint64_t)-100 : a, number == SYS_execve ? a : b);
    if (!slot->guest) /* where it is refused, this is where the trace ends */
        SHARED->execing = slot->asked || !SHARED->family;
    count_call(number, 0, 0);
    return (uint64_t)cv_watched_call;
}

/* What the engine cannot go on after. */
static uint64_t before_change(struct cv_slot *slot, const uint64_t *registers, uint64_t number)
{
    const uint64_t a = registers[RDI_];
    if (number == SYS_prctl ? a == PR_SET_SECCOMP : number == SYS_seccomp && a != 2) {
        cv_say_why("a filter of system calls (seccomp)", slot->target - 2);
        return cv_give_up(slot, slot->target - 2);
    }
    if (number == SYS_rseq && (uint32_t)registers[R10] != CV_SEQUENCES) {
        cv_say_why("restartable sequences with a signature of its own (rseq)", slot->target - 2);
        return cv_give_up(slot, slot->target - 2);
    }
    if (number != SYS_arch_prctl || a != ARCH_SET_GS)
        return 0;
    cv_say_why("the program sets the gs segment", slot->target - 2);
    return cv_give_up(slot, slot->target - 2);
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

static uint64_t before_taken(struct cv_slot *slot, uint64_t *registers, uint64_t number)
{
    const uint64_t a = registers[RDI_], b = registers[RSI_], c = registers[RDX_];
    const uint64_t guests = slot->guest ? before_guests_call(slot, registers, number) : 0;
    if (guests)
        return guests;
    switch (number) {
    case SYS_read:
    case SYS_open:
    case SYS_openat: return before_reading(registers, number);
    case SYS_sigaction: count_call(number, 0, 0); return done(registers, cv_signal_action(a, b, c, registers[R10]));
    case SYS_sigaltstack: count_call(number, 0, 0); return done(registers, cv_alternate_stack(slot, a, b));
    case SYS_sigreturn: return before_signal_return(slot, registers);
    case SYS_fork:
    case SYS_vfork: count_call(number, 0, 0); return cv_before_fork(slot, registers, number == SYS_vfork ? CLONE_VM | CLONE_VFORK : 0);
    case SYS_clone:
    case SYS_clone3: return before_clone(slot, registers, number);
    case SYS_execve:
    case SYS_execveat: return before_exec(slot, registers, number);
    case SYS_prctl:
    case SYS_seccomp:
    case SYS_rseq:
    case SYS_arch_prctl: return before_change(slot, registers, number);
    default: return 0;
    }
}

/* ---- every call ---- */

/* Where code of files goes or comes, its pages are closed again after the call. */
static void note_mapping(struct cv_slot *slot, const uint64_t *registers, int maps)
{
    const uint64_t low = registers[RDI_], high = low + registers[RSI_], executable = registers[RDX_] >> 2;
    slot->close_after = maps ? SHARED->outside & executable & (uint64_t)((int32_t)registers[R8] >= 0) : 0; /* of a file */
    if (!maps || registers[R10] & MAP_FIXED)
        slot->close_after |= SHARED->outside & (uint64_t)cv_forget(low, high);
}

static void note_call(struct cv_slot *slot, const uint64_t *registers, uint64_t number)
{
    const uint64_t a = registers[RDI_];
    switch (number) {
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_mprotect:
    case SYS_pkey_mprotect: note_mapping(slot, registers, number == SYS_mmap); break;
    case SYS_unshare:
    case SYS_setns: cv_other_space |= number == SYS_setns || a & CLONE_NEWPID; break;
    case SYS_exit_group:
        if (!slot->guest)
            cv_count_lookup_faults();
        if (SHARED->family && !slot->guest) {
            cv_system(SYS_getrusage, 0, (uint64_t)SHARED->usage, 0, 0, 0, 0);
            SHARED->exited = 1 + (a & 255);
        }
        break;
    case SYS_exit:
        cv_end_part(slot, slot->mode == CV_RECORDING);
        cv_follow_end(slot);
        slot->in_use = 2;
        break;
    default: break;
    }
}

/* Where the thread goes on after the call. Those that do not return need no code after them. */
static uint64_t after(struct cv_slot *slot)
{
    const uint64_t number = slot->call_number;
    const int returns = number != SYS_exit && number != SYS_exit_group && number != SYS_sigreturn;
    return returns ? cv_find(slot, slot->target) : slot->target;
}

static uint64_t before_call(struct cv_slot *slot, uint64_t *registers)
{
    const uint64_t number = registers[RAX_];
    slot->link = 0;
    slot->call_number = number;
    slot->call_target = NO_TARGET;
    if (SHARED->last_call && __atomic_add_fetch(&SHARED->made_calls, 1, __ATOMIC_ACQ_REL) == SHARED->last_call)
        cv_system(SYS_exit_group, 0, 0, 0, 0, 0, 0);
    if (SHARED->leave || SHARED->bursts_only)
        return cv_go_native(slot, slot->target - 2);
    slot->next = after(slot);
    if (slot->mode == CV_NATIVE)
        return cv_go_native(slot, slot->target - 2);
    const uint64_t taken = before_taken(slot, registers, number);
    if (taken)
        return taken;
    note_call(slot, registers, number);
    cv_memory_goes(slot, number, registers);
    const int seen = cv_follow_call(slot, number, registers);
    if (moves_bytes(number) || slot->close_after || cv_changes_memory(number) || seen) {
        slot->call_target = moves_bytes(number) ? target_of(registers[RDI_]) : NO_TARGET;
        return (uint64_t)cv_watched_call;
    }
    if (!cv_follow_waits(slot, number))
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
    case SYS_clone3: cv_after_fork(slot, (int64_t)registers[RAX_]); break;
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
        cv_follow_called(slot, registers);
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
    cv_do_requests(slot);
    slot->next = after(slot);
    return slot->mode == CV_NATIVE ? cv_go_native(slot, slot->target - 2) : slot->again;
}
