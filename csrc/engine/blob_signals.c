/* Signals. The kernel knows one handler, the engine's, on a stack of the slot's own. What comes while the program's registers are not at an
 * instruction of the program's waits until the next head or system call, all signals blocked, and is delivered there: the engine builds
 * the frame that the kernel would have built, with the program's own addresses, on the program's own stack. Faults of the program's own
 * instructions are delivered at once. */
#include "blob.h"

enum { SIGILL = 4, SIGTRAP, SIGBUS = 7, SIGFPE, SIGSEGV = 11 };
#define SA_ONSTACK 0x08000000ULL
#define SA_RESTORER 0x04000000ULL
#define SA_SIGINFO 4ULL
#define SA_NODEFER 0x40000000ULL
#define SA_RESETHAND 0x80000000ULL
#define SS_ONSTACK 1
#define SS_DISABLE 2
#define FAULTS (1ULL << (SIGILL - 1) | 1ULL << (SIGTRAP - 1) | 1ULL << (SIGBUS - 1) | 1ULL << (SIGFPE - 1) | 1ULL << (SIGSEGV - 1))
#define DEFAULT 0
#define IGNORE 1

struct action {
    uint64_t handler, flags, restorer, mask;
};

struct context { /* the kernel's ucontext */
    uint64_t flags, link, stack, stack_flags, stack_size;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags, segments, error, trap, old_mask,
        cr2;
    uint64_t vectors, reserved[8];
    uint64_t mask;
};

struct frame { /* what lies on the stack when a handler begins */
    uint64_t restorer;
    struct context context;
    uint64_t info[16];
};

static struct action actions[65];
static uint8_t initial[4096] __attribute__((aligned(64))); /* vector state that a handler begins with */
static uint64_t features = 7, vector_bytes = 576;          /* what the kernel saves */

static int64_t set_mask(uint64_t mask) { return cv_system(SYS_sigprocmask, 2, (uint64_t)&mask, 0, 8, 0, 0); }

void cv_block_signals(struct cv_slot *slot)
{
    const uint64_t all = ~UINT64_C(0);
    cv_system(SYS_sigprocmask, 2, (uint64_t)&all, (uint64_t)&slot->saved_mask, 8, 0, 0);
}

void cv_unblock_signals(struct cv_slot *slot) { set_mask(slot->saved_mask); }

static int64_t tell_kernel(uint64_t number, const struct action *action)
{
    struct action ours = *action;
    if (action->handler > IGNORE || (number == SIGSEGV && SHARED->outside)) {
        ours.handler = (uint64_t)cv_signal_entry;
        ours.flags = (action->flags & ~(SA_RESETHAND | SA_NODEFER)) | SA_ONSTACK | SA_RESTORER | SA_SIGINFO;
        ours.restorer = (uint64_t)cv_signal_return;
        ours.mask = ~UINT64_C(0);
    }
    return cv_system(SYS_sigaction, number, (uint64_t)&ours, 0, 8, 0, 0);
}

void cv_keep_faults(void)
{
    if (actions[SIGSEGV].handler <= IGNORE)
        cv_system(SYS_sigaction, SIGSEGV, 0, (uint64_t)&actions[SIGSEGV], 8, 0, 0);
    tell_kernel(SIGSEGV, &actions[SIGSEGV]);
}

/* Of each thread, in it, before its first translated instruction. */
void cv_signals_begin(struct cv_slot *slot, int take_over)
{
    uint64_t before[3] = {0, SS_DISABLE, 0};
    const uint64_t ours[3] = {slot->self + CV_SLOT_SIGNAL_STACK, 0, CV_SLOT_SIGNAL_STACK_BYTES};
    cv_system(SYS_sigaltstack, (uint64_t)ours, (uint64_t)before, 0, 0, 0, 0);
    slot->alternate_stack = before[0];
    slot->alternate_flags = before[1];
    slot->alternate_size = before[2];
    if (!take_over)
        return;
    for (uint64_t n = 1; n < 65; n++)
        if (!cv_system(SYS_sigaction, n, 0, (uint64_t)&actions[n], 8, 0, 0) && actions[n].handler > IGNORE)
            tell_kernel(n, &actions[n]);
}

int64_t cv_signal_action(uint64_t number, uint64_t new, uint64_t old, uint64_t size)
{
    struct action next, before;
    if (size != 8 || number < 1 || number > 64)
        return -22;
    if (new && cv_read(new, &next, sizeof next) != (int)sizeof next)
        return -14;
    if (new && (number == 9 || number == 19))
        return -22;
    before = actions[number];
    if (before.handler <= IGNORE) { /* the kernel knows better: an ignored signal is inherited */
        struct action kernels;
        if (!cv_system(SYS_sigaction, number, 0, (uint64_t)&kernels, 8, 0, 0) && kernels.handler != (uint64_t)cv_signal_entry)
            before = kernels;
    }
    if (new) {
        const uint64_t unblockable = 1ULL << 8 | 1ULL << 18;
        next.mask &= ~unblockable;
        actions[number] = next;
        const int64_t result = tell_kernel(number, &next);
        if (result)
            return result;
    }
    if (old && cv_write(old, &before, sizeof before) != (int)sizeof before)
        return -14;
    return 0;
}

static int on_alternate(const struct cv_slot *slot, uint64_t rsp)
{
    return !(slot->alternate_flags & SS_DISABLE) && rsp > slot->alternate_stack && rsp - slot->alternate_stack <= slot->alternate_size;
}

int64_t cv_alternate_stack(struct cv_slot *slot, uint64_t new, uint64_t old)
{
    uint64_t next[3];
    const int on = on_alternate(slot, slot->rsp);
    const uint64_t before[3] = {slot->alternate_stack, slot->alternate_flags | (on ? SS_ONSTACK : 0), slot->alternate_size};
    if (new) {
        if (cv_read(new, next, sizeof next) != (int)sizeof next)
            return -14;
        next[1] &= 0xffffffff;
        if (on)
            return -1;
        if (next[1] & 0x7fffffffULL & ~3ULL)
            return -22;
        if (!(next[1] & SS_DISABLE) && next[2] < 2048)
            return -12;
        slot->alternate_stack = next[1] & SS_DISABLE ? 0 : next[0];
        slot->alternate_size = next[1] & SS_DISABLE ? 0 : next[2];
        slot->alternate_flags = next[1] & ~1ULL;
    }
    if (old && cv_write(old, before, sizeof before) != (int)sizeof before)
        return -14;
    return 0;
}

void cv_keep_stack(struct cv_slot *slot, uint64_t *stack)
{
    const uint64_t ours[3] = {slot->self + CV_SLOT_SIGNAL_STACK, 0, CV_SLOT_SIGNAL_STACK_BYTES};
    if (stack[0] == ours[0])
        return;
    slot->alternate_stack = stack[0];
    slot->alternate_flags = stack[1] & 0x80000002;
    slot->alternate_size = stack[2];
    memcpy(stack, ours, sizeof ours);
}

/* Gives the process its own handlers back, and the thread its stack for them. */
void cv_signals_end(const uint64_t *alternate, int handlers)
{
    for (uint64_t n = 1; handlers && n < 65; n++)
        if (actions[n].handler > IGNORE || (n == SIGSEGV && SHARED->outside))
            cv_system(SYS_sigaction, n, (uint64_t)&actions[n], 0, 8, 0, 0);
    const uint64_t stack[3] = {alternate[0], alternate[1] & ~1ULL, alternate[2]};
    cv_system(SYS_sigaltstack, (uint64_t)stack, 0, 0, 0, 0, 0);
}

void cv_signals_of_child(const uint64_t *alternate, uint64_t mask)
{
    cv_signals_end(alternate, 1);
    set_mask(mask);
}

static void send_again(uint64_t number, const uint64_t *info)
{
    cv_system(SYS_tgsigqueueinfo, (uint64_t)cv_system(SYS_getpid, 0, 0, 0, 0, 0, 0), (uint64_t)cv_system(SYS_gettid, 0, 0, 0, 0, 0, 0),
              number, (uint64_t)info, 0, 0);
}

void cv_send_again(struct cv_slot *slot)
{
    if (!slot->pending)
        return;
    send_again(slot->pending, slot->pending_info);
    slot->leave_mask = slot->pending_mask;
    slot->pending = 0;
}

/* A signal of a thread that the engine has left: another one had not heard of that yet when it set the handler. */
static void hand_back(uint64_t number, const uint64_t *info, int fault)
{
    cv_system(SYS_sigaction, number, (uint64_t)&actions[number], 0, 8, 0, 0);
    if (!fault) /* which comes again */
        send_again(number, info);
}

/* Puts the frame of a signal below the program's stack pointer, from what the context says of the program; vector registers are copied from
 * `vectors`, or saved. Changes the context to that in which the handler begins. */
static void build_frame(struct cv_slot *slot, uint64_t number, const uint64_t *info, struct context *c, uint64_t mask, const void *vectors)
{
    struct action *action = &actions[number];
    uint64_t at = c->rsp - 128;
    const int on = on_alternate(slot, c->rsp);
    if (action->flags & SA_ONSTACK && !(slot->alternate_flags & SS_DISABLE) && !on)
        at = slot->alternate_stack + slot->alternate_size;
    at = (at - vector_bytes - 4) & ~UINT64_C(63);
    uint8_t *area = (uint8_t *)at;
    if (vectors) {
        memcpy(area, vectors, vector_bytes + 4);
    } else {
        memset(area + 512, 0, 64);
        cv_save_vectors(area, features);
        const uint32_t magic = 0x46505845;
        memset(area + 464, 0, 48);
        memcpy(area + 464, slot->state_words, 48);
        memcpy(area + vector_bytes, &magic, 4);
        *(uint64_t *)(area + 512) |= 3;
    }
    struct frame *frame = (struct frame *)(((at - sizeof(struct frame)) & ~UINT64_C(15)) - 8);
    frame->restorer = action->restorer;
    memcpy(&frame->context, c, sizeof *c);
    if (slot->mode != CV_NATIVE) { /* a native handler's return would take the engine's stack away */
        frame->context.stack = slot->alternate_stack;
        frame->context.stack_flags = slot->alternate_flags | (on ? SS_ONSTACK : 0);
        frame->context.stack_size = slot->alternate_size;
    }
    frame->context.link = 0;
    frame->context.vectors = at;
    frame->context.mask = mask;
    memcpy(frame->info, info, sizeof frame->info);
    c->rsp = (uint64_t)frame;
    c->rdi = number;
    c->rsi = (uint64_t)frame->info;
    c->rdx = (uint64_t)&frame->context;
    c->rax = 0;
    c->eflags &= ~UINT64_C(0x10500); /* RF, DF, TF */
    c->rip = action->handler;
    c->mask = mask | action->mask | (action->flags & SA_NODEFER ? 0 : 1ULL << (number - 1));
    if (action->flags & SA_RESETHAND) {
        const struct action none = {DEFAULT, 0, 0, 0};
        *action = none;
        tell_kernel(number, &none);
    }
}

/* The waiting signal, where the program's registers are as they should be at `address`. */
uint64_t cv_deliver(struct cv_slot *slot, uint64_t *r, uint64_t address)
{
    const uint64_t number = slot->pending;
    uint64_t mask = slot->pending_mask;
    uint64_t info[16];
    memcpy(info, slot->pending_info, sizeof info);
    slot->pending = 0;
    __atomic_fetch_and(&slot->flag, ~(uint64_t)CV_WANT_SIGNAL, __ATOMIC_ACQ_REL);
    slot->link = 0;
    slot->target = address;
    if (!number || actions[number].handler <= IGNORE) {
        set_mask(mask);
        if (number && actions[number].handler == DEFAULT)
            cv_system(SYS_tgkill, (uint64_t)cv_system(SYS_getpid, 0, 0, 0, 0, 0, 0), slot->tid, number, 0, 0, 0);
        return cv_find(slot, address);
    }
    struct context c;
    memset(&c, 0, sizeof c);
    c.flags = 6 | 1;
    c.r8 = r[R8], c.r9 = r[R9], c.r10 = r[R10], c.r11 = r[R11], c.r12 = r[R12], c.r13 = r[R13], c.r14 = r[R14], c.r15 = r[R15];
    c.rdi = r[RDI_], c.rsi = r[RSI_], c.rbp = r[RBP_], c.rbx = r[RBX_], c.rdx = r[RDX_], c.rax = r[RAX_], c.rcx = r[RCX_];
    c.rsp = slot->rsp;
    c.rip = address;
    c.eflags = r[FLAGS_];
    c.segments = slot->state_words[6];
    build_frame(slot, number, info, &c, mask, 0);
    r[RDI_] = c.rdi, r[RSI_] = c.rsi, r[RDX_] = c.rdx, r[RAX_] = 0, r[FLAGS_] = c.eflags;
    slot->rsp = c.rsp;
    slot->target = c.rip;
    *(uint32_t *)(initial + 24) = 0x1f80; /* MXCSR */
    *(uint16_t *)initial = 0x37f;
    cv_load_vectors(initial, features);
    set_mask(c.mask);
    return cv_find(slot, slot->target);
}

/* A fault of one of the program's own instructions: its registers, as the program knows them. 0: not one of them. */
static int at_instruction(struct cv_slot *slot, struct context *c)
{
    const struct cv_blob_superblock *block;
    const struct cv_blob_place *place = cv_place_of(c->rip, &block, 0);
    if (!place)
        return 0;
    c->rip = place->address;
    if (place->spilled)
        c->rcx = slot->b;
    /* what the superblock had counted when it would have come to its exit */
    if (slot->mode != CV_RECORDING && place->segments) {
        cv_lock();
        if (SHARED->exits < CV_MOST_EXITS) {
            EXITS[SHARED->exits] = (struct cv_blob_exit){.first = block->first_listed, .sign = 1, .segments = place->segments};
            ((uint64_t *)(slot->self + CV_SLOT_COUNTERS))[SHARED->exits++]++;
        }
        cv_unlock();
    }
    return 1;
}

/* What the program has no handler for, but the engine: as if it had none. */
static void act_by_default(uint64_t number, int fault)
{
    const struct action none = {DEFAULT, 0, 0, 0};
    if (actions[number].handler == IGNORE && !fault)
        return;
    cv_system(SYS_sigaction, number, (uint64_t)&none, 0, 8, 0, 0); /* a fault comes again */
    if (!fault)
        cv_system(SYS_tgkill, (uint64_t)cv_system(SYS_getpid, 0, 0, 0, 0, 0, 0), (uint64_t)cv_system(SYS_gettid, 0, 0, 0, 0, 0, 0), number,
                  0, 0, 0);
}

/* A thread that ran code which the program had made comes to code of a file. 0: to none that is closed. */
static int came_back(struct cv_slot *slot, struct context *c)
{
    const uint64_t thread = (uint64_t)cv_system(SYS_gettid, 0, 0, 0, 0, 0, 0);
    cv_lock();
    const int fetched = c->error & 0x10 && cv_is_file(c->cr2), open = fetched && (SHARED->leave || cv_open_often(c->cr2));
    if (SHARED->leave)
        cv_open_code();
    cv_unlock();
    if (!fetched || open)
        return fetched;
    if (thread == slot->tid) {
        cv_come_back(slot);
    } else { /* such code has started it */
        slot = cv_adopt(thread);
        if (!slot)
            return 0;
        cv_keep_stack(slot, &c->stack);
    }
    slot->resume = c->rip;
    c->rip = (uint64_t)enter_resume;
    return 1;
}

static int inside(uint64_t at, const char *from, const char *to) { return at >= (uint64_t)from && at <= (uint64_t)to; }

/* The kernel's handler of all signals for which the program has one. */
void cv_on_signal(uint64_t number, uint64_t *info, struct context *c)
{
    struct cv_slot *slot;
    __asm__("rdgsbase %0" : "=r"(slot));
    const int fault = (FAULTS >> (number - 1) & 1) && (int)info[1] > 0; /* si_code: by the kernel */
    if (!slot || slot->leaving) {
        hand_back(number, info, fault);
        return;
    }
    const int ours = c->rip >= CV_BLOB_BASE && c->rip < CV_SHARED_BASE;
    const uint32_t *software = (const uint32_t *)(c->vectors + 464);
    if (software[0] == 0x46505853) {
        vector_bytes = software[1] - 4;
        features = *(const uint64_t *)(software + 2);
        memcpy(slot->state_words, software, 48);
        slot->state_words[6] = c->segments;
    }
    if (number == SIGSEGV && SHARED->outside && fault && !ours && !cv_in_cache(c->rip) && came_back(slot, c))
        return;
    if (actions[number].handler <= IGNORE) {
        act_by_default(number, fault);
        return;
    }
    if (slot->outside_since && !ours) { /* the handler is traced */
        cv_come_back(slot);
        build_frame(slot, number, info, c, slot->pending ? slot->pending_mask : c->mask, (const void *)c->vectors);
        *(uint64_t *)(c->vectors + 512) = 0;
        slot->resume = c->rip;
        c->rip = (uint64_t)enter_resume;
        return;
    }
    if (slot->mode == CV_NATIVE && !ours && !cv_in_cache(c->rip)) { /* at once, and the handler natively, too */
        build_frame(slot, number, info, c, slot->pending ? slot->pending_mask : c->mask, (const void *)c->vectors);
        *(uint64_t *)(c->vectors + 512) = 0;
        return;
    }
    if (fault && !ours && at_instruction(slot, c)) {
        build_frame(slot, number, info, c, slot->pending ? slot->pending_mask : c->mask, (const void *)c->vectors);
        *(uint64_t *)(c->vectors + 512) = 0;
        slot->resume = c->rip;
        c->rip = (uint64_t)enter_resume;
        return;
    }
    if (fault) { /* of the engine: nothing can be mended */
        const struct action none = {DEFAULT, 0, 0, 0};
        cv_say_why("a fault in the engine", c->rip);
        cv_system(SYS_sigaction, number, (uint64_t)&none, 0, 8, 0, 0);
        return;
    }
    if (inside(c->rip, cv_call_begin, cv_call_end))
        c->rip = (uint64_t)cv_call_begin;
    if (inside(c->rip, cv_watched_begin, cv_watched_end))
        c->rip = (uint64_t)cv_watched_begin;
    if (inside(c->rip, cv_outside_begin, cv_outside_end))
        c->rip = (uint64_t)cv_outside_begin;
    memcpy(slot->pending_info, info, sizeof slot->pending_info);
    slot->pending = number;
    slot->pending_mask = c->mask;
    c->mask = ~FAULTS;
    cv_want(slot, CV_WANT_SIGNAL);
}
