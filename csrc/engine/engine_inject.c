/* Puts the engine into a process by ptrace: three system calls in it, and lets it go. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine_control.h"

__asm__(".section .rodata\n.globl cv_blob, cv_blob_end\n.balign 16\ncv_blob: .incbin \"" CV_BLOB_FILE "\"\ncv_blob_end:\n.byte 0\n.text");
extern const uint8_t cv_blob[], cv_blob_end[];

#define NO_EXEC 127
#define CALL_BYTES 3             /* a system call, and an instruction that stops after it */
#define FIRST_REFERENCES 16      /* from one head to the next, until it is measured */
#define FEWEST_FIRST_HEADS 60000 /* of an interval, until then */
/* Threads take turns in them, so that one that has just left (cv_leave) has surely gone on when its slot is used again. */
#define BURST_SLOTS 4
#define LONGEST_DETACHING 1.0 /* seconds */
#define AWAKE_DETACHING 0.002
#define LONGEST_HURRY 5000000 /* microseconds without a pause, after which the kernel ends this process */

static FILE *log_file;

void cv_log_to(const char *path)
{
    log_file = path ? fopen(path, "we") : stderr;
    if (!log_file)
        log_file = stderr;
}

void cv_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(log_file, format, arguments);
    va_end(arguments);
    fputc('\n', log_file);
    fflush(log_file);
}

struct cv_slot *cv_slot_of(const struct cv_target *target, uint64_t number)
{
    return (struct cv_slot *)(target->memory + CV_OFF_SLOTS + number * CV_SLOT_BYTES);
}

static int open_memory(pid_t process, int how)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", process);
    return open(path, how | O_CLOEXEC);
}

/* ---- restartable sequences (rseq) ---- */

#define GET_SEQUENCES 0x420f /* PTRACE_GET_RSEQ_CONFIGURATION, Linux 5.13 */

struct sequences {
    uint64_t area; /* 0: none */
    uint32_t bytes, signature, flags, unused;
};

static struct sequences sequences_of(pid_t thread)
{
    struct sequences found = {0};
    if (ptrace(GET_SEQUENCES, thread, sizeof found, &found) < 0)
        found.area = 0;
    return found;
}

/* A stop preempts the thread: the sequence in which it is begins anew. The kernel would see it only where the thread goes on. */
static void abort_sequence(pid_t process, pid_t thread)
{
    struct {
        uint32_t version, flags;
        uint64_t start, bytes, aborted;
    } sequence;
    const uint64_t area = sequences_of(thread).area, none = 0;
    uint64_t which = 0;
    struct user_regs_struct r;
    const int memory = area ? open_memory(process, O_RDWR) : -1;
    if (memory < 0)
        return;
    if (pread(memory, &which, sizeof which, (off_t)area + 8) == sizeof which && which &&
        pread(memory, &sequence, sizeof sequence, (off_t)which) == sizeof sequence && !ptrace(PTRACE_GETREGS, thread, 0, &r) &&
        r.rip - sequence.start < sequence.bytes) {
        r.rip = sequence.aborted;
        if (pwrite(memory, &none, sizeof none, (off_t)area + 8) == sizeof none)
            ptrace(PTRACE_SETREGS, thread, 0, &r);
    }
    close(memory);
}

/* ---- in the stopped process ---- */

struct remote {
    pid_t thread;
    int memory; /* /proc/PID/mem */
    int again;  /* a signal that came meanwhile, though all were blocked that can be */
    struct user_regs_struct registers;
};

#define FAULT_SIGNALS (1UL << (SIGILL - 1) | 1UL << (SIGTRAP - 1) | 1UL << (SIGBUS - 1) | 1UL << (SIGFPE - 1) | 1UL << (SIGSEGV - 1))

/* What comes to a stopped thread waits from now on, in its order; returns the mask before. */
static uint64_t block_signals(pid_t thread)
{
    const uint64_t blocked = ~FAULT_SIGNALS;
    uint64_t mask = 0;
    ptrace(PTRACE_GETSIGMASK, thread, sizeof mask, &mask);
    ptrace(PTRACE_SETSIGMASK, thread, sizeof blocked, &blocked);
    return mask;
}

static int64_t remote_call(struct remote *r, long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
    struct user_regs_struct now = r->registers;
    int status;
    now.rax = (uint64_t)number;
    now.rdi = a;
    now.rsi = b;
    now.rdx = c;
    now.r10 = d;
    now.r8 = e;
    now.r9 = f;
    now.orig_rax = (uint64_t)-1;
    if (ptrace(PTRACE_SETREGS, r->thread, 0, &now) || ptrace(PTRACE_CONT, r->thread, 0, 0))
        return -errno;
    while (waitpid(r->thread, &status, __WALL) == r->thread) {
        if (!WIFSTOPPED(status))
            return -ESRCH;
        if (ptrace(PTRACE_GETREGS, r->thread, 0, &now))
            return -errno;
        if (WSTOPSIG(status) == SIGTRAP && !(status >> 16) && now.rip == r->registers.rip + CALL_BYTES)
            break;
        r->again = status >> 16 ? r->again : WSTOPSIG(status); /* now it would find the wrong registers */
        if (ptrace(PTRACE_CONT, r->thread, 0, 0))
            return -errno;
    }
    return (int64_t)now.rax;
}

static int put(const struct remote *r, uint64_t at, const void *from, size_t bytes)
{
    return pwrite(r->memory, from, bytes, (off_t)at) == (ssize_t)bytes ? 0 : -1;
}

int cv_map(struct cv_target *target)
{
    target->memory = mmap(NULL, CV_SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, target->file, 0);
    target->shared = (struct cv_shared *)target->memory;
    return target->memory == MAP_FAILED ? -1 : 0;
}

/* A system call with a text, which lies on the program's stack meanwhile. */
static int64_t remote_call_on(struct remote *r, long number, const char *text, uint64_t b)
{
    char before[64];
    const uint64_t scratch = (r->registers.rsp - 1024) & ~UINT64_C(15), bytes = strlen(text) + 1;
    if (bytes > sizeof before || pread(r->memory, before, bytes, (off_t)scratch) != (ssize_t)bytes || put(r, scratch, text, bytes))
        return -EFAULT;
    const int64_t result = remote_call(r, number, scratch, b, 0, 0, 0, 0);
    put(r, scratch, before, bytes);
    return result;
}

static int map_shared(struct cv_target *target, struct remote *r)
{
    char path[64];
    const int64_t file = remote_call_on(r, SYS_memfd_create, "convolver-engine", 0);
    if (file < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", r->thread, (int)file);
    target->file = open(path, O_RDWR | O_CLOEXEC);
    if (target->file < 0 || ftruncate(target->file, CV_SHARED_BYTES) || cv_map(target))
        return -1;
    const int64_t at = remote_call(r, SYS_mmap, CV_SHARED_BASE, CV_SHARED_BYTES, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, (uint64_t)file, 0);
    remote_call(r, SYS_close, (uint64_t)file, 0, 0, 0, 0, 0);
    remote_call(r, SYS_madvise, CV_SHARED_BASE, CV_SHARED_BYTES, MADV_DONTDUMP, 0, 0, 0); /* or a core file would have it all */
    return at == (int64_t)CV_SHARED_BASE ? 0 : -1;
}

/* What a family shares. Without it children run natively. */
static void map_family(struct cv_target *target, struct remote *r)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), target->family);
    const int64_t file = remote_call_on(r, SYS_open, path, O_RDWR);
    if (file < 0)
        return;
    const int64_t at = remote_call(r, SYS_mmap, CV_FAMILY_BASE, sizeof(struct cv_family), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_FIXED_NOREPLACE, (uint64_t)file, 0);
    remote_call(r, SYS_close, (uint64_t)file, 0, 0, 0, 0, 0);
    target->shared->family = at == (int64_t)CV_FAMILY_BASE;
}

/* The engine's own code; memory is zero before. */
static int put_blob(const struct remote *r, size_t size)
{
    static const uint8_t zero[4096];
    for (size_t at = 0; at < size; at += sizeof zero) {
        const size_t bytes = size - at < sizeof zero ? size - at : sizeof zero;
        if (memcmp(cv_blob + at, zero, bytes) && put(r, CV_BLOB_BASE + at, cv_blob + at, bytes))
            return -1;
    }
    return 0;
}

/* Whether the engine is still there: exec takes it away. */
int cv_has_engine(pid_t process)
{
    uint64_t entries[5] = {0};
    const int memory = open_memory(process, O_RDONLY);
    const int here = memory >= 0 && pread(memory, entries, sizeof entries, (off_t)CV_BLOB_BASE) == sizeof entries &&
                     !memcmp(entries, cv_blob, sizeof entries);
    if (memory >= 0)
        close(memory);
    return here;
}

/* Takes the engine of a trace that has ended away: all threads have left it. */
static void remove_engine(struct remote *r, size_t size)
{
    static struct cv_shared old;
    if (pread(r->memory, &old, sizeof old, (off_t)CV_SHARED_BASE) != sizeof old || old.regions > CV_MOST_REGIONS)
        return;
    for (uint64_t i = 0; i < old.regions; i++)
        remote_call(r, SYS_munmap, old.region[i].base, old.region[i].end - old.region[i].base, 0, 0, 0, 0);
    remote_call(r, SYS_munmap, CV_SHARED_BASE, CV_SHARED_BYTES, 0, 0, 0, 0);
    remote_call(r, SYS_munmap, CV_BLOB_BASE, size, 0, 0, 0, 0);
}

static uint64_t first_heads(uint64_t interval)
{
    const uint64_t heads = interval / FIRST_REFERENCES;
    return heads > FEWEST_FIRST_HEADS ? heads : FEWEST_FIRST_HEADS;
}

/* What of the program the engine cannot copy; NULL: nothing. */
static const char *obstacle(pid_t thread, const struct user_regs_struct *registers)
{
    const struct sequences sequences = sequences_of(thread);
    if (registers->cs != 0x33)
        return "the program runs 32-bit code, which the engine cannot copy";
    if (sequences.area && sequences.signature != CV_SEQUENCES)
        return "the program has restartable sequences with a signature of its own (rseq), which the engine cannot copy";
    return registers->gs_base ? "the program uses the gs segment, which the engine needs" : NULL;
}

static int map_engine(struct cv_target *target, struct remote *r, size_t size)
{
    if (remote_call(r, SYS_mmap, CV_BLOB_BASE, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                    (uint64_t)-1, 0) != (int64_t)CV_BLOB_BASE) {
        cv_say("the engine could not be mapped into the program; is there an engine already, or a limit on its memory?");
        return -1;
    }
    if (put_blob(r, (size_t)(cv_blob_end - cv_blob)))
        return -1;
    if (map_shared(target, r)) {
        cv_say("the engine's memory could not be mapped into the program; is its address space limited (ulimit -v)?");
        return -1;
    }
    return 0;
}

static void set_up(const struct cv_target *target, const struct cv_options *options)
{
    struct cv_shared *shared = target->shared;
    struct cv_blob_setup setup = options->marks;
    setup.inside = !options->starts;
    setup.objects = (uint64_t)options->objects;
    setup.follows = options->follows;
    setup.pext = __builtin_cpu_supports("bmi2") != 0;
    setup.burst_references = options->sample;
    setup.sets = options->sets;
    setup.set_class = options->set_class;
    setup.stretch = options->stretch;
    setup.heads = cv_wants_samples(options) ? first_heads(options->interval) : 0;
    cv_wire_classes(options->sets, &setup.set_mask, &setup.leaves_repeated);
    setup.mode = options->period > 0 ? CV_NATIVE : options->full ? CV_RECORDING : options->sets ? CV_FILTERING : CV_COUNTING;
    cv_begin_shared(shared, &setup);
    shared->controller = (uint64_t)getpid();
    shared->process = (uint64_t)target->pid;
    shared->attached = (uint64_t)target->attached;
    shared->last_call = options->last_call;
    shared->bursts_only = options->period > 0;
}

static int inject(struct cv_target *target, const struct cv_options *options, pid_t thread)
{
    static const uint8_t call[8] = {0x0f, 0x05, 0xcc};
    struct remote r = {.thread = thread};
    uint8_t before[8];
    r.memory = open_memory(target->pid, O_RDWR);
    if (r.memory < 0 || ptrace(PTRACE_GETREGS, thread, 0, &r.registers))
        return -1;
    const char *why_not = obstacle(thread, &r.registers);
    if (why_not) {
        cv_say("%s", why_not);
        return -1;
    }
    const size_t size = ((size_t)(cv_blob_end - cv_blob) + 4095) & ~UINT64_C(4095);
    memcpy(target->entries, cv_blob, sizeof target->entries);
    if (pread(r.memory, before, sizeof before, (off_t)r.registers.rip) != sizeof before || put(&r, r.registers.rip, call, sizeof call))
        return -1;
    const uint64_t mask = block_signals(thread);
    if (target->attached && cv_has_engine(target->pid))
        remove_engine(&r, size);
    const int failed = map_engine(target, &r, size);
    if (!failed) {
        set_up(target, options);
        if (target->family >= 0)
            map_family(target, &r);
    }
    put(&r, r.registers.rip, before, sizeof before);
    ptrace(PTRACE_SETREGS, thread, 0, &r.registers);
    ptrace(PTRACE_SETSIGMASK, thread, sizeof mask, &mask);
    if (r.again)
        syscall(SYS_tgkill, target->pid, thread, r.again);
    close(r.memory);
    return failed;
}

static struct cv_slot *add_slot(struct cv_target *target, pid_t thread)
{
    if (target->shared->slots == CV_MOST_SLOTS)
        return NULL;
    const uint64_t number = target->shared->slots++;
    struct cv_slot *slot = cv_slot_of(target, number);
    slot->self = CV_SHARED_BASE + CV_OFF_SLOTS + number * CV_SLOT_BYTES;
    slot->in_use = 1;
    slot->alternate_flags = 2;
    slot->tid = (uint64_t)thread;
    slot->mode = CV_NATIVE;
    return slot;
}

/* Lets a stopped thread go on in the engine, signals blocked. An interrupted system call is made again, as the kernel would. */
static int enter(const struct cv_target *target, pid_t thread, struct cv_slot *slot)
{
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, thread, 0, &r))
        return -1;
    if (r.rip >= CV_BLOB_BASE && r.rip < CV_SHARED_BASE)
        return -1;
    for (uint64_t i = 0; i < target->shared->regions; i++)
        if (r.rip >= target->shared->region[i].base && r.rip < target->shared->region[i].end)
            return -1;
    if ((int64_t)r.orig_rax >= 0) {
        const int64_t error = (int64_t)r.rax;
        /* EINTR: of our stop, as epoll_wait and others have it; they begin anew */
        if (error == -512 || error == -513 || error == -514 || (error == -EINTR && (target->attached || target->shared->bursts_only))) {
            r.rax = r.orig_rax;
            r.rip -= 2;
        } else if (error == -516) {
            r.rax = SYS_restart_syscall;
            r.rip -= 2;
        }
        r.orig_rax = (uint64_t)-1;
    }
    slot->resume = r.rip;
    r.gs_base = slot->self;
    r.rip = target->entries[4];
    if (ptrace(PTRACE_SETREGS, thread, 0, &r))
        return -1;
    slot->leave_mask = block_signals(thread);
    return 0;
}

/* ---- start ---- */

int cv_start(struct cv_target *target, const struct cv_options *options, char **command)
{
    int status;
    target->pid = fork();
    if (target->pid < 0)
        return -1;
    if (!target->pid) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            _exit(NO_EXEC - 1);
        execvp(command[0], command);
        _exit(NO_EXEC);
    }
    if (waitpid(target->pid, &status, 0) != target->pid || !WIFSTOPPED(status)) {
        cv_say(WIFEXITED(status) && WEXITSTATUS(status) == NO_EXEC - 1 ? "ptrace is not allowed here; containers need --cap-add=SYS_PTRACE"
                                                                       : "the program could not be started");
        return -1;
    }
    if (cv_take(target, options)) {
        kill(target->pid, SIGKILL);
        waitpid(target->pid, &status, 0);
        return -1;
    }
    return 0;
}

int cv_take(struct cv_target *target, const struct cv_options *options)
{
    struct cv_slot *slot = NULL;
    target->faults = (uint64_t)cv_status_field(target->pid, 8, NULL);
    int failed = inject(target, options, target->pid) || ((options->objects || options->follows) && cv_objects_start(target, options));
    for (int i = 0; !failed && i < (options->period > 0 ? BURST_SLOTS : 1); i++)
        slot = add_slot(target, target->pid);
    failed = failed || !slot || (!(options->period > 0) && enter(target, target->pid, slot));
    return ptrace(PTRACE_DETACH, target->pid, 0, 0) || failed ? -1 : 0;
}

/* ---- bursts of threads that run natively ---- */

int cv_thread_runs(pid_t process, pid_t thread)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, thread);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *state = strrchr(text, ')');
    return state && state[1] && state[2] == 'R';
}

/* One of the threads that run, each as likely; 0: none does. A thread that sleeps would see that it was stopped. */
static pid_t running_thread(pid_t process)
{
    char path[64];
    pid_t found = 0;
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const pid_t thread = entry->d_name[0] == '.' ? 0 : (pid_t)atoi(entry->d_name);
        if (thread && cv_thread_runs(process, thread) && lrand48() % ++n == 0)
            found = thread;
    }
    if (folder)
        closedir(folder);
    return found;
}

/* Whether the process catches faults: their handlers would see the copy's addresses. */
static int catches_faults(pid_t process)
{
    char path[64], line[256];
    unsigned long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", process);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "SigCgt: %lx", &caught) == 1)
            break;
    if (file)
        fclose(file);
    return (caught & FAULT_SIGNALS) != 0;
}

static int enter_burst(const struct cv_target *target, pid_t thread, struct cv_slot *slot)
{
    struct user_regs_struct r;
    if (!cv_has_engine(thread)) {
        target->shared->execing = 1; /* it has replaced itself, while it ran natively */
        return -1;
    }
    if (ptrace(PTRACE_GETREGS, thread, 0, &r) || r.gs_base || enter(target, thread, slot))
        return -1;
    slot->tid = (uint64_t)thread;
    return 0;
}

int cv_burst(struct cv_target *target)
{
    static uint64_t number;
    struct cv_slot *slot = cv_slot_of(target, number++ % BURST_SLOTS);
    static int said;
    siginfo_t info = {0};
    int status, done = 0;
    if (target->shared->execing || slot->leaving || slot->in_part || slot->mode != CV_NATIVE)
        return 0; /* another program runs, or the last burst has not ended */
    if (slot->handed == slot->taken)
        slot->handed = slot->taken = 0; /* the same pages again */
    if (catches_faults(target->pid)) {
        if (!said++)
            cv_say("native: a handler of faults that the program has, which keeps bursts away");
        return 0;
    }
    const pid_t thread = running_thread(target->pid);
    if (!thread || ptrace(PTRACE_SEIZE, thread, 0, 0))
        return 0;
    ptrace(PTRACE_INTERRUPT, thread, 0, 0);
    if (waitid(P_PID, (id_t)thread, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL))
        return 0;
    if (info.si_code != CLD_TRAPPED && thread == target->pid)
        return 0; /* it has ended; run() hears of it */
    if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
        return 0; /* it has ended: a traced thread and its process stay zombies until it is waited for */
    const int signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
    if (!signal) {
        slot->leaving = 1;
        abort_sequence(target->pid, thread);
        done = !enter_burst(target, thread, slot);
        if (!done)
            slot->leaving = 0;
    }
    ptrace(PTRACE_DETACH, thread, 0, signal);
    return done;
}

/* ---- a running process ---- */

#define MOST_THREADS 4096

static pid_t stopped[MOST_THREADS];
static int n_stopped;

/* 1: a thread that was not known; await_stop waits for it. */
static int stop_thread(pid_t thread)
{
    for (int i = 0; i < n_stopped; i++)
        if (stopped[i] == thread)
            return 0;
    if (n_stopped == MOST_THREADS || ptrace(PTRACE_SEIZE, thread, 0, 0))
        return errno == ESRCH && n_stopped ? 0 : -1; /* it has ended */
    ptrace(PTRACE_INTERRUPT, thread, 0, 0);
    stopped[n_stopped++] = thread;
    return 1;
}

/* Signals that came first are delivered first. */
static void await_stop(pid_t process, pid_t thread)
{
    int status;
    while (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status) && status >> 16 != PTRACE_EVENT_STOP)
        if (ptrace(PTRACE_CONT, thread, 0, WSTOPSIG(status)))
            return;
    abort_sequence(process, thread);
}

/* Stops all threads, those that are made meanwhile, too. */
static int stop_all(pid_t process)
{
    char path[64];
    int waited = 0;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    for (int more = 1; more;) {
        DIR *folder = opendir(path);
        if (!folder)
            return -1;
        more = 0;
        for (struct dirent *entry; (entry = readdir(folder));) {
            const int done = entry->d_name[0] == '.' ? 0 : stop_thread((pid_t)atoi(entry->d_name));
            if (done < 0) {
                closedir(folder);
                return -1;
            }
            more |= done;
        }
        closedir(folder);
        while (waited < n_stopped)
            await_stop(process, stopped[waited++]);
    }
    return n_stopped ? 0 : -1;
}

static void say_why_not(pid_t process)
{
    const int error = errno;
    int scope = 0;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file && fscanf(file, "%d", &scope) != 1)
        scope = 0;
    if (file)
        fclose(file);
    if (error == ESRCH || error == ENOENT)
        cv_say("there is no process %d", process);
    else if (scope > 0 && geteuid())
        cv_say("process %d may not be traced, because /proc/sys/kernel/yama/ptrace_scope is %d; run as root, or set it to 0", process,
               scope);
    else
        cv_say("process %d may not be traced; is it another user's, or is a debugger attached already?", process);
}

/* Threads that are in the engine of another trace, or have not left it yet. */
static int n_inside(void)
{
    struct user_regs_struct r;
    int n = 0;
    for (int i = 0; i < n_stopped; i++)
        n += !ptrace(PTRACE_GETREGS, stopped[i], 0, &r) && ((r.rip >= CV_BLOB_BASE && r.rip < CV_SHARED_BASE) ||
                                                            (r.gs_base >= CV_SHARED_BASE && r.gs_base < CV_SHARED_BASE + CV_SHARED_BYTES));
    return n;
}

/* 1: and has said so. */
static int is_traced(pid_t process)
{
    uint64_t leave = 1;
    const int memory = open_memory(process, O_RDONLY), inside = n_inside();
    if (memory >= 0 && cv_has_engine(process) &&
        pread(memory, &leave, sizeof leave, (off_t)(CV_SHARED_BASE + offsetof(struct cv_shared, leave))) != sizeof leave)
        leave = 1;
    if (memory >= 0)
        close(memory);
    if (!leave)
        cv_say("process %d is in the engine of another trace already", process);
    else if (inside)
        cv_say("process %d was traced before, and %d of its threads have slept since; they leave the engine when they wake up", process,
               inside);
    return !leave || inside;
}

/* ---- before threads of the program that have not stopped yet, or go on already, where this process may ---- */

/* struct sched_attr, as the kernel first had it and still takes it */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

#define RESET_ON_FORK 1

static struct scheduling before_hurry; /* size 0: it does not hurry */

/* One that has real-time priority already keeps it. */
static void hurry(void)
{
    struct scheduling now = {0};
    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) || now.policy == SCHED_FIFO || now.policy == SCHED_RR ||
        now.policy == SCHED_DEADLINE)
        return;
    const struct scheduling first = {.size = sizeof first, .policy = SCHED_FIFO, .flags = now.flags & RESET_ON_FORK, .priority = 1};
    const struct rlimit longest = {LONGEST_HURRY, LONGEST_HURRY};
    if (!setrlimit(RLIMIT_RTTIME, &longest) && !syscall(SYS_sched_setattr, 0, &first, 0))
        before_hurry = now;
}

/* As it was: policy, nice, flags, and the time slice. */
static void hurry_no_more(void)
{
    if (before_hurry.size)
        syscall(SYS_sched_setattr, 0, &before_hurry, 0);
    before_hurry.size = 0;
}

static void close_gate(struct cv_target *target) { target->shared->gate = 1; }

static void open_gate(struct cv_target *target)
{
    __atomic_store_n(&target->shared->gate, 0, __ATOMIC_RELEASE);
    syscall(SYS_futex, &target->shared->gate, FUTEX_WAKE, CV_MOST_SLOTS, NULL, NULL, 0);
}

int cv_attach(struct cv_target *target, const struct cv_options *options)
{
    target->pid = options->attach;
    target->attached = 1;
    hurry();
    const double begin = cv_seconds(CLOCK_MONOTONIC);
    int failed = stop_all(target->pid);
    if (failed)
        say_why_not(target->pid);
    else if (!(failed = is_traced(target->pid)))
        failed = inject(target, options, stopped[0]);
    if (!failed)
        close_gate(target);
    for (int i = 0; !failed && options->period > 0 && i < BURST_SLOTS; i++)
        add_slot(target, target->pid);
    for (int i = 0; i < n_stopped; i++) {
        struct cv_slot *slot = failed || options->period > 0 ? NULL : add_slot(target, stopped[i]);
        if (slot && enter(target, stopped[i], slot))
            slot->in_use = 0;
    }
    for (int i = 0; i < n_stopped; i++)
        ptrace(PTRACE_DETACH, stopped[i], 0, 0);
    const double end = cv_seconds(CLOCK_MONOTONIC); /* now: those that go on may keep the processor from this process */
    if (!failed)
        open_gate(target);
    hurry_no_more();
    if (!failed)
        fprintf(stderr, "Attached: %d thread%s stood still for %.1f ms.\n", n_stopped, n_stopped == 1 ? "" : "s", 1e3 * (end - begin));
    return failed;
}

/* Threads that still execute the program in the engine. Those that sleep leave when they wake up: they are counted in `asleep`. */
static int still_inside(const struct cv_target *target, int *asleep)
{
    static uint8_t sleeps[CV_MOST_SLOTS];
    int n = 0;
    *asleep = 0;
    for (uint64_t i = 0; i < target->shared->slots; i++) {
        struct cv_slot *slot = cv_slot_of(target, i);
        if (slot->in_use != 1 || slot->outside_since || (slot->mode == CV_NATIVE && !slot->leaving))
            continue;
        cv_look(slot);
        sleeps[i] |= !cv_thread_runs(target->pid, (pid_t)slot->tid);
        const int inside = !__atomic_load_n(&slot->at_gate, __ATOMIC_ACQUIRE); /* now: it sleeps there, too */
        *asleep += inside && sleeps[i];
        n += inside && !sleeps[i];
    }
    return n;
}

/* Threads that have been let go and are still in the engine. */
static int still_leaving(const struct cv_target *target)
{
    int n = 0;
    for (uint64_t i = 0; i < target->shared->slots; i++)
        n += cv_slot_of(target, i)->at_gate && cv_slot_of(target, i)->leaving;
    return n;
}

/* Waits until the last thread that does not sleep is about to leave, and lets them all go on. */
void cv_detach(struct cv_target *target)
{
    const double begin = cv_seconds(CLOCK_MONOTONIC);
    const struct timespec moment = {0, 20000};
    int awake = 0, asleep = 0;
    hurry();
    close_gate(target);
    target->shared->leave = 1;
    for (uint64_t i = 0; i < target->shared->slots; i++)
        cv_want(cv_slot_of(target, i), CV_WANT_NATIVE);
    double end = begin;
    for (; (awake = still_inside(target, &asleep)) && end < begin + LONGEST_DETACHING; end = cv_seconds(CLOCK_MONOTONIC))
        if (before_hurry.size || end > begin + AWAKE_DETACHING) /* else it might wait longer for a processor than for the threads */
            nanosleep(&moment, NULL);
    open_gate(target);
    for (double latest = end + LONGEST_DETACHING; still_leaving(target) && cv_seconds(CLOCK_MONOTONIC) < latest;)
        nanosleep(&moment, NULL);
    hurry_no_more();
    if (awake + asleep)
        fprintf(stderr, "Detached; threads that leave when they run next: %d.\n", awake + asleep);
    else
        fprintf(stderr, "Detached after %.1f ms.\n", 1e3 * (end - begin));
}
