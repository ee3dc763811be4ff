/* A command with all processes that it starts (--streams). One process, this one, puts the engine into programs: into the command, and into
 * what its processes become by exec, of which they tell it beforehand (blob_family.c). It makes a controller for each program, which writes
 * a stream of its own, as the Valgrind tool does: FOLDER/PROCESS.NUMBER, with counters and a log beside it. A forked child that becomes
 * another program at once has none. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "engine_control.h"

#define STUB_SECONDS 0.1 /* so long a forked child has to become another program without a stream of its own */
#define STEP 0.02
#define MOST_ENDED 16 /* programs whose streams wait to be read to their ends; others wait before they begin */
#define LOST_SECONDS 1.0
#define READER_STEP 1000000 /* nanoseconds between two looks for the reader */
#define MOST_ABOUT (4u << 20)
#define REFUSED 125

/* A program of a process. Until its controller is made, `about` says what it is. */
struct member {
    pid_t pid, parent, controller, seized; /* seized: the thread that is about to become another program */
    int process, forked;
    double started, due; /* due: then its controller is made */
    struct cv_target target;
    char *about; /* its arguments and environment */
    size_t argument_bytes, about_bytes;
};

static const struct cv_options *options;
static struct cv_family *family;
static int family_file;
static struct member *members;
static size_t n_members, room;
static uint64_t programs;
static pid_t root;
static int root_status, root_ended;

static void on_child(int number)
{
    (void)number;
    __atomic_fetch_add(&family->rung, 1, __ATOMIC_ACQ_REL); /* or this would wait for it */
}

static void on_replaced(int number)
{
    (void)number;
    cv_replaced = 1;
}

/* ---- what is known of a process ---- */

static size_t read_whole(pid_t process, const char *name, char **text)
{
    char path[64];
    size_t bytes = 0;
    *text = NULL;
    snprintf(path, sizeof path, "/proc/%d/%s", process, name);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    for (size_t space = 0; file >= 0;) {
        if (bytes == space)
            *text = realloc(*text, space = space ? 2 * space : 4096);
        const ssize_t n = *text && space <= MOST_ABOUT ? read(file, *text + bytes, space - bytes) : 0;
        if (n <= 0)
            break;
        bytes += (size_t)n;
    }
    if (file >= 0)
        close(file);
    return bytes;
}

static void learn(struct member *m)
{
    char *environment;
    m->argument_bytes = read_whole(m->pid, "cmdline", &m->about);
    const size_t more = read_whole(m->pid, "environ", &environment);
    char *both = realloc(m->about, m->argument_bytes + more + 1);
    m->about_bytes = m->argument_bytes;
    if (both) {
        memcpy(both + m->argument_bytes, environment ? environment : "", more);
        m->about = both;
        m->about_bytes += more;
    }
    free(environment);
}

long cv_status_field(pid_t process, int number, char *state)
{
    char *text = NULL;
    long value = 0;
    const size_t bytes = read_whole(process, "stat", &text);
    if (state)
        *state = 0;
    if (bytes) {
        text[bytes - 1] = 0;
        char *rest = NULL, *word = strrchr(text, ')');
        word = word ? strtok_r(word + 1, " ", &rest) : NULL;
        if (state && word)
            *state = *word;
        for (; word && --number; word = strtok_r(NULL, " ", &rest))
            ;
        value = word ? atol(word) : 0;
    }
    free(text);
    return value;
}

/* Kernels from 6.15 on tell how a process has ended, after its parent has heard of it; before that a zombie's status does. */
static int kernels_status(const struct cv_target *target, int *status)
{
    struct {
        uint64_t mask, group;
        uint32_t process, thread_group, parent, users[8];
        int32_t exit_code;
    } info = {.mask = 1 << 3}; /* PIDFD_INFO_EXIT */
    char state;
    for (int again = 0; again < 2; again++) {
        if (!ioctl(target->process, _IOC(_IOC_READ | _IOC_WRITE, 0xff, 11, 64), &info) && info.mask & 1 << 3) { /* PIDFD_GET_INFO */
            *status = info.exit_code;
            return 1;
        }
        info.mask = 1 << 3;
        const int code = (int)cv_status_field(target->pid, 50, &state);
        if (state == 'Z') { /* one reading: its parent may reap it before the next */
            *status = code;
            return 1;
        }
    }
    return 0;
}

int cv_status_of(const struct cv_target *target, struct rusage *usage)
{
    int status = 0;
    memcpy(usage, target->shared->usage, sizeof target->shared->usage);
    if (!kernels_status(target, &status))
        status = target->shared->exited ? (int)(target->shared->exited - 1) << 8 : SIGKILL; /* the likeliest */
    return status;
}

/* ---- controllers ---- */

static int write_about(const struct member *m, const char *path)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return -1;
    fprintf(out, "%d %.6f %d %d %zu\n", m->parent, m->started, (int)getpid(), m->forked, m->argument_bytes);
    fwrite(m->about, 1, m->about_bytes, out);
    return fclose(out);
}

/* Waits for the reader; -1: it is gone. */
static int open_stream(const char *path, pid_t reader)
{
    const struct timespec moment = {0, READER_STEP};
    for (;;) {
        const int wire = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (wire >= 0) {
            fcntl(wire, F_SETFL, 0);
            return wire;
        }
        if ((errno != ENXIO && errno != EINTR) || kill(reader, 0))
            return -1;
        nanosleep(&moment, NULL);
    }
}

static void control(struct member *m, uint64_t number, pid_t reader)
{
    char stream[4096], counters[4096], path[4096];
    struct cv_options own = *options;
    struct cv_target target = m->target;
    signal(SIGCHLD, SIG_DFL);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    snprintf(stream, sizeof stream, "%s/%d.%lu", options->streams, m->pid, (unsigned long)number);
    snprintf(counters, sizeof counters, "%s.counters", stream);
    snprintf(path, sizeof path, "%s.log", stream);
    cv_log_to(path);
    snprintf(path, sizeof path, "%s.about", stream);
    if ((!target.memory && cv_map(&target)) || write_about(m, path) || mkfifo(stream, 0600)) {
        cv_say("the stream %s could not be made: %s", stream, strerror(errno));
        return;
    }
    target.shared->controller = (uint64_t)getpid();
    own.counters = counters;
    own.wire = open_stream(stream, reader);
    if (!cv_wire_begin(&own, &target))
        cv_trace(&own, &target);
}

static void forget(struct member *m)
{
    if (m->target.memory)
        munmap(m->target.memory, CV_SHARED_BYTES);
    if (m->target.file >= 0)
        close(m->target.file);
    if (m->process >= 0)
        close(m->process);
    free(m->about);
    m->target.memory = NULL;
    m->about = NULL;
    m->target.file = m->process = -1;
}

static void remove_member(struct member *m)
{
    assert(m >= members && m < members + n_members);
    forget(m);
    *m = members[--n_members];
}

static void make_controller(struct member *m)
{
    const pid_t reader = getppid();
    const uint64_t number = programs++;
    m->controller = fork();
    if (!m->controller) {
        control(m, number, reader);
        _exit(0);
    }
    if (m->controller < 0)
        cv_say("no controller could be made for process %d: %s", m->pid, strerror(errno));
    forget(m);
}

/* ---- processes ---- */

static struct member *add_member(pid_t pid, pid_t parent, int forked)
{
    if (n_members == room) {
        struct member *more = realloc(members, (room = room ? 2 * room : 64) * sizeof *members);
        if (!more)
            return NULL;
        members = more;
    }
    struct member *m = &members[n_members];
    *m = (struct member){.pid = pid, .parent = parent, .forked = forked, .started = cv_seconds(CLOCK_BOOTTIME)};
    m->process = (int)syscall(SYS_pidfd_open, pid, 0);
    m->target = (struct cv_target){.pid = pid, .process = m->process, .file = -1, .family = family_file};
    if (m->process < 0)
        return NULL;
    fcntl(m->process, F_SETFD, FD_CLOEXEC);
    n_members++;
    return m;
}

static struct member *member_of(pid_t pid)
{
    struct member *found = NULL;
    for (size_t i = 0; i < n_members; i++)
        if (members[i].pid == pid && (!found || members[i].started > found->started))
            found = &members[i];
    return found;
}

/* When a child was forked: what the kernel says, in clock ticks, but after its parent began, of which more is known. */
static double fork_time(pid_t pid, pid_t parent)
{
    const double tick = 1.0 / (double)sysconf(_SC_CLK_TCK), from = (double)cv_status_field(pid, 20, NULL) * tick;
    double since = from;
    for (size_t i = 0; i < n_members; i++)
        if (members[i].pid == parent && members[i].started >= since && members[i].started < from + tick)
            since = members[i].started + 1e-6;
    return since;
}

/* Its memory is what the child says; 1: it is traced from now on. */
static int take_forked(const struct cv_family_request *r)
{
    char path[64];
    struct stat status;
    struct member *m = add_member(r->process, r->parent, 1);
    if (!m)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", r->process, r->file);
    m->target.file = open(path, O_RDWR | O_CLOEXEC);
    struct cv_shared *shared = MAP_FAILED;
    if (m->target.file >= 0 && !fstat(m->target.file, &status) && status.st_size == (off_t)CV_SHARED_BYTES)
        shared = mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, m->target.file, 0);
    const int is_its = shared != MAP_FAILED && shared->magic == CV_SHARED_MAGIC && shared->process == (uint64_t)r->process;
    if (shared != MAP_FAILED)
        munmap(shared, sizeof *shared);
    if (!is_its) {
        remove_member(m);
        return 0;
    }
    learn(m);
    m->due = m->started + STUB_SECONDS;
    m->started = fork_time(r->process, r->parent);
    return 1;
}

/* Programs with more rights than who starts them would lose these. */
static int gives_rights(const struct cv_family_request *r)
{
    char path[4200];
    struct stat status;
    if (r->path[0] == '/')
        snprintf(path, sizeof path, "/proc/%d/root%s", r->process, r->path);
    else if (r->directory < 0)
        snprintf(path, sizeof path, "/proc/%d/cwd/%s", r->process, r->path);
    else
        snprintf(path, sizeof path, "/proc/%d/fd/%d%s%s", r->process, r->directory, r->path[0] ? "/" : "", r->path);
    if (stat(path, &status)) /* the exec will fail, too, or there is a descriptor that is not known here */
        return 0;
    return (status.st_mode & S_ISUID) || (status.st_mode & S_ISGID && status.st_mode & S_IXGRP) ||
           getxattr(path, "security.capability", NULL, 0) > 0;
}

/* Stops the process when it has become another program. A guest in its parent's memory is no member yet. */
static int await_exec(const struct cv_family_request *r)
{
    struct member *m = member_of(r->process);
    if (gives_rights(r) || !cv_has_engine(r->process) || (!m && !(m = add_member(r->process, r->parent, 0))))
        return 0;
    if (m->seized == r->thread)
        return 1;
    if (ptrace(PTRACE_SEIZE, r->thread, 0, PTRACE_O_TRACEEXEC)) {
        if (!m->controller && !m->due)
            remove_member(m);
        return 0;
    }
    m->seized = r->thread;
    return 1;
}

static void let_go(struct member *m)
{
    int status;
    if (ptrace(PTRACE_INTERRUPT, m->seized, 0, 0) || waitpid(m->seized, &status, __WALL) != m->seized || !WIFSTOPPED(status))
        return;
    ptrace(PTRACE_DETACH, m->seized, 0, status >> 16 ? 0 : WSTOPSIG(status));
}

static void exec_failed(const struct cv_family_request *r)
{
    struct member *m = member_of(r->process);
    if (!m || m->seized != r->thread)
        return;
    let_go(m);
    m->seized = 0;
    if (!m->controller && !m->due)
        remove_member(m); /* a guest */
}

/* From the stop in the middle of exec, which sets a register afterwards, to one before the program's first instruction. */
static int stop_before_first(pid_t pid)
{
    int status, signal = 0; /* that came first */
    if (ptrace(PTRACE_INTERRUPT, pid, 0, 0))
        return -1;
    for (;;) {
        if (ptrace(PTRACE_CONT, pid, 0, signal) || waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
            return -1;
        if (status >> 16 == PTRACE_EVENT_STOP)
            return 0;
        signal = WSTOPSIG(status);
    }
}

/* A process has become another program, and is stopped. */
static void take_program(pid_t pid)
{
    struct member *old = member_of(pid);
    const pid_t parent = old ? old->parent : 0;
    if (old && old->controller > 0) {
        kill(old->controller, SIGUSR1);
        old->seized = 0;
    } else if (old) {
        remove_member(old);
    }
    struct member *m = add_member(pid, parent, 0);
    if (!m || stop_before_first(pid)) {
        if (m)
            remove_member(m);
        ptrace(PTRACE_DETACH, pid, 0, 0);
        return;
    }
    learn(m);
    if (cv_take(&m->target, options)) {
        cv_say("process %d runs untraced", pid);
        remove_member(m);
        return;
    }
    m->due = m->started;
}

/* ---- what comes ---- */

static int n_ended(void)
{
    int n = 0, controllers = 0;
    for (size_t i = 0; i < n_members; i++)
        controllers += members[i].controller > 0;
    for (size_t i = 0; controllers >= MOST_ENDED && i < n_members; i++)
        n += members[i].controller > 0 && kill(members[i].pid, 0);
    return n;
}

static void answer(struct cv_family_request *r)
{
    if (r->kind == CV_FAMILY_FORKED) {
        r->answer = take_forked(r);
        __atomic_fetch_sub(&family->forks, 1, __ATOMIC_ACQ_REL);
    } else if (r->kind == CV_FAMILY_EXEC) {
        r->answer = await_exec(r);
    } else {
        exec_failed(r);
    }
    __atomic_store_n(&r->state, CV_REQUEST_ANSWERED, __ATOMIC_RELEASE);
    syscall(SYS_futex, &r->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static int answer_requests(void)
{
    int any = 0;
    if (n_ended() >= MOST_ENDED)
        return 0;
    for (int i = 0; i < CV_MOST_REQUESTS; i++) {
        struct cv_family_request *r = &family->requests[i];
        const uint32_t state = __atomic_load_n(&r->state, __ATOMIC_ACQUIRE);
        if (state == CV_REQUEST_ASKED)
            answer(r);
        else if (state == CV_REQUEST_ANSWERED && kill(r->thread, 0))
            __atomic_store_n(&r->state, CV_REQUEST_FREE, __ATOMIC_RELEASE); /* it died before it heard */
        any |= state != CV_REQUEST_FREE;
    }
    return any;
}

static void stopped(pid_t thread, int status)
{
    const int event = status >> 16, number = WSTOPSIG(status);
    if (event == PTRACE_EVENT_EXEC)
        take_program(thread);
    else if (event == PTRACE_EVENT_STOP)
        ptrace(number == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN, thread, 0, 0);
    else
        ptrace(PTRACE_CONT, thread, 0, number);
}

static void hear_of_processes(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        if (WIFSTOPPED(status)) {
            stopped(pid, status);
            continue;
        }
        if (pid == root && !root_ended) {
            root_ended = 1;
            root_status = status;
        }
        for (size_t i = 0; i < n_members; i++)
            if (members[i].controller == pid) {
                remove_member(&members[i]);
                break;
            }
    }
}

/* Members without a controller: it is made, unless they may become another program at once. Returns the seconds until then. */
static double see_to_members(void)
{
    double left = STEP;
    for (size_t i = 0; i < n_members; i++) {
        struct member *m = &members[i];
        if (m->controller)
            continue;
        const double now = cv_seconds(CLOCK_BOOTTIME);
        const int ended = kill(m->pid, 0) && errno == ESRCH;
        if (!m->due && ended) /* a guest */
            remove_member(m), i--;
        else if (m->due > 0 && (ended || (m->due <= now && !m->seized)))
            make_controller(m);
        else if (m->due > now && m->due - now < left)
            left = m->due - now;
    }
    return left;
}

static int family_begins(char **command)
{
    const struct sigaction child = {.sa_handler = on_child, .sa_flags = SA_RESTART},
                           replaced = {.sa_handler = on_replaced, .sa_flags = SA_RESTART};
    family_file = memfd_create("convolver-family", MFD_CLOEXEC);
    if (family_file < 0 || ftruncate(family_file, sizeof *family))
        return -1;
    family = mmap(NULL, sizeof *family, PROT_READ | PROT_WRITE, MAP_SHARED, family_file, 0);
    if (family == MAP_FAILED)
        return -1;
    family->controller = (int32_t)getpid();
    struct cv_target target = {.file = -1, .process = -1, .family = family_file};
    if (cv_start(&target, options, command))
        return -1;
    root = target.pid;
    sigaction(SIGCHLD, &child, NULL); /* now, see main */
    sigaction(SIGUSR1, &replaced, NULL);
    cv_hear_stops(SA_RESTART);
    struct member *m = add_member(root, getppid(), 0);
    if (!m)
        return -1;
    const int process = m->process;
    m->target = target;
    m->target.process = process;
    learn(m);
    m->due = m->started;
    return 0;
}

int cv_family_run(const struct cv_options *chosen, char **command)
{
    double lost = 0;
    options = chosen;
    if (family_begins(command))
        return REFUSED;
    for (;;) {
        const uint32_t rung = __atomic_load_n(&family->rung, __ATOMIC_ACQUIRE);
        hear_of_processes();
        const int any = answer_requests();
        const double left = see_to_members();
        if (cv_stop_signal && cv_stop_signal != SIGINT && !root_ended)
            kill(root, cv_stop_signal);
        cv_stop_signal = 0;
        if (!n_members && root_ended && !any) {
            const double now = cv_seconds(CLOCK_BOOTTIME);
            lost = lost ? lost : now;
            if (__atomic_load_n(&family->forks, __ATOMIC_ACQUIRE) <= 0 || now - lost > LOST_SECONDS)
                break;
        } else {
            lost = 0;
        }
        const struct timespec timeout = {0, (long)(left * 1e9)};
        syscall(SYS_futex, &family->rung, FUTEX_WAIT, rung, &timeout, NULL, 0);
    }
    if (WIFSIGNALED(root_status)) {
        signal(WTERMSIG(root_status), SIG_DFL);
        raise(WTERMSIG(root_status));
    }
    return WEXITSTATUS(root_status);
}
