/* The program `convolver-engine`: runs a command under the engine. */
#define _GNU_SOURCE
#include "engine_control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../include/cv_wire.h"
#include "x86_decode.h"

#define COUNTING_STEP 0.02 /* seconds between two looks */
#define COUNTERS_STEP 1.0
#define SHOWN_STEP 0.1     /* the reader shows how far the run has come */
#define FIRST_BETTER 0.004 /* after so long superblocks are made anew, and again after twice as long each time */
#define LONGEST_BETTER 2.0
#define LONGER_STEP 1.5 /* than the last one, where nothing came */
#define RATE_STEP 0.0005
#define LONGEST_RATE_STEP 0.01
#define MANY_INTERVALS 50    /* LONGEST_RATE_STEP from then on */
#define COST_PART 100        /* of the controller's time goes into adding up counters: one part in so many */
#define FEWEST_INTERVALS 0.5 /* between two measurements of heads */
#define FEWEST_HEADS 100
#define AHEAD 16.0                     /* intervals that a wrong number of heads is mended in */
#define MOST_AHEAD 4.0                 /* more than so many times as many are not mended */
#define EVERYTHING (UINT64_C(1) << 50) /* references */
#define INTERVAL 1000000               /* references, where none is asked for: set samples alone have some, too */
#define REFUSED 125                    /* exit status: the program has not run */

volatile sig_atomic_t cv_stop_signal, cv_replaced;

static void on_stop(int number) { cv_stop_signal = number; }

void cv_hear_stops(int flags)
{
    const struct sigaction stop = {.sa_handler = on_stop, .sa_flags = flags};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static const char *value(const char *argument, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(argument, name, n) && argument[n] == '=' ? argument + n + 1 : NULL;
}

/* "marker", or @OFFSET:PATH in hexadecimal. */
static int mark(struct cv_blob_setup *marks, const char *where, int what)
{
    char *path;
    if (!strcmp(where, "marker")) {
        marks->markers |= (uint64_t)what;
        return 0;
    }
    struct cv_blob_marked *place = &marks->place[marks->places];
    const uint64_t offset = where[0] == '@' ? strtoull(where + 1, &path, 16) : 0;
    if (!offset || *path != ':' || strlen(path + 1) > sizeof place->path || marks->places == CV_MOST_MARKED)
        return -1;
    *place = (struct cv_blob_marked){.offset = offset, .marks = (uint32_t)what, .path_bytes = (uint32_t)strlen(path + 1)};
    memcpy(place->path, path + 1, place->path_bytes);
    marks->places++;
    return 0;
}

static int take(struct cv_options *o, char *argument)
{
    const char *v;
    if (!strcmp(argument, "--full"))
        o->full = 1, o->paths = 0, o->sample = EVERYTHING;
    else if (!strcmp(argument, "--paths"))
        o->paths = 1;
    else if (!strcmp(argument, "--no-paths"))
        o->paths = 0;
    else if ((v = value(argument, "--block-limit")))
        o->block_limit = strtoull(v, NULL, 10);
    else if ((v = value(argument, "--wire-fd")))
        o->wire = atoi(v);
    else if ((v = value(argument, "--counters")))
        o->counters = v;
    else if ((v = value(argument, "--log-file")))
        o->log = v;
    else if ((v = value(argument, "--dump")))
        o->dump = v;
    else if ((v = value(argument, "--interval")))
        o->interval = strtoull(v, NULL, 10);
    else if ((v = value(argument, "--sample")))
        o->sample = strtoull(v, NULL, 10);
    else if ((v = value(argument, "--warmup")))
        o->warmup = strtoull(v, NULL, 10);
    else if ((v = value(argument, "--sets")))
        o->sets = strtoull(v, NULL, 10);
    else if ((v = value(argument, "--set-class")))
        o->set_class = strtoull(v, NULL, 10);
    else if ((v = value(argument, "--stretch")))
        o->stretch = strtoull(v, NULL, 10);
    else if ((v = value(argument, "--bursts-only")))
        o->period = atof(v);
    else if ((v = value(argument, "--attach")))
        o->attach = (pid_t)atoi(v);
    else if ((v = value(argument, "--for")))
        o->seconds = atof(v);
    else if ((v = value(argument, "--start-at")))
        return o->starts = 1, mark(&o->marks, v, CV_MARK_START);
    else if ((v = value(argument, "--stop-at")))
        return mark(&o->marks, v, CV_MARK_STOP);
    else if ((v = value(argument, "--streams")))
        o->streams = v;
    else if (!strcmp(argument, "--data-objects"))
        o->objects = 1;
    else if ((v = value(argument, "--allocators")))
        o->allocators = v;
    else if ((v = value(argument, "--thread-events")))
        o->follows = strtoull(v, NULL, 10);
    else if ((v = value(argument, "--last-call")))
        o->last_call = strtoull(v, NULL, 10);
    else
        return -1;
    return 0;
}

/* Asks each thread; it hears of it at its next superblock. */
static void ask(struct cv_target *target, uint64_t what)
{
    const uint64_t slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < slots; i++)
        cv_want(cv_slot_of(target, i), what);
}

/* Threads that have not heard yet: what makes them look may have got lost. */
static void ask_again(struct cv_target *target)
{
    const uint64_t slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < slots; i++)
        if (cv_slot_of(target, i)->flag)
            cv_look(cv_slot_of(target, i));
}

/* Processor time of the program. */
static double cpu_seconds(pid_t process, const struct rusage *usage)
{
    clockid_t clock;
    if (usage && (usage->ru_utime.tv_sec || usage->ru_utime.tv_usec || usage->ru_stime.tv_usec))
        return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
               1e-6 * (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
    return clock_getcpuclockid(process, &clock) ? 0 : cv_seconds(clock);
}

struct pace {
    double next_burst, next_counters, next_shown, next_better, better, next_rate, at;
    double references; /* of so many intervals when heads were measured last */
    double lag;        /* intervals that are not mended */
    double quiet;      /* a look after so long: nothing came for some time */
    double used;       /* seconds of processor time when a period began, of bursts alone */
    uint64_t heads, thread;
    uint64_t interval; /* that was planned last, of bursts alone */
};

/* Heads until now. */
static uint64_t heads_so_far(const struct cv_target *target)
{
    const uint64_t slots = __atomic_load_n(&target->shared->slots, __ATOMIC_ACQUIRE);
    uint64_t all = target->shared->pace.heads_ended;
    for (uint64_t i = 0; i < slots; i++) {
        const struct cv_slot *slot = cv_slot_of(target, i);
        if (slot->guest || slot->interval_heads == CV_HEADS)
            continue;
        const uint64_t left = (slot->heads & CV_HEADS) + slot->heads_behind, of = slot->interval_heads;
        all += of > left ? of - left : 0;
    }
    return all;
}

/* Finds how many heads make an interval, from what has been executed until now. */
static void measure_heads(const struct cv_options *o, struct cv_target *target, struct pace *pace, double time)
{
    struct cv_blob_pace *shared = &target->shared->pace;
    if (time < pace->next_rate)
        return;
    const double interval = (double)o->interval;
    const uint64_t all = heads_so_far(target);
    const double references = cv_wire_references() / interval, took = cv_seconds(CLOCK_MONOTONIC) - time,
                 more = references - pace->references;
    const double step = references < MANY_INTERVALS ? RATE_STEP : LONGEST_RATE_STEP;
    pace->next_rate = time + (COST_PART * took > step ? COST_PART * took : step);
    if (more < FEWEST_INTERVALS)
        return;
    if (all <= pace->heads) { /* it comes to none that counts */
        cv_want(cv_slot_of(target, pace->thread++ % target->shared->slots), CV_WANT_INTERVAL);
    } else {
        double ahead = ((double)shared->begun - references + pace->lag) / AHEAD;
        if (ahead < -MOST_AHEAD) { /* references that take no time: turns of repeated instructions */
            pace->lag = references - (double)shared->begun;
            ahead = 0;
        }
        const double heads = (double)(all - pace->heads) / more * (1 + (ahead < -0.5 ? -0.5 : ahead > 1 ? 1 : ahead));
        shared->heads = heads < FEWEST_HEADS ? FEWEST_HEADS : heads > 1e12 ? (uint64_t)1e12 : (uint64_t)heads;
    }
    pace->heads = all;
    pace->references = references;
}

/* Between bursts alone the blob, which weighs what they cost, does not see what the program takes. */
static void account(struct cv_target *target, struct pace *pace)
{
    const double used = cpu_seconds(target->pid, NULL);
    if (pace->used > 0 && used > pace->used)
        __atomic_fetch_add(&target->shared->pace.used[CV_EVERY_BURST], (uint64_t)(1e9 * (used - pace->used)), __ATOMIC_RELAXED);
    pace->used = used;
}

/* A burst somewhere in each period; the periods are the intervals of the run. */
static void plan_native(const struct cv_options *o, struct cv_target *target, struct pace *pace, double time)
{
    if (!pace->at)
        pace->at = time;
    const uint64_t number = (uint64_t)((time - pace->at) / o->period);
    if (number + 1 > pace->interval) {
        pace->interval = number + 1;
        target->shared->interval = number;
        cv_wire_interval(number);
        account(target, pace);
        const struct cv_blob_pace *shared = &target->shared->pace;
        const uint64_t every = shared->every[CV_EVERY_BURST], own = shared->own[CV_EVERY_BURST];
        if (number % (every > own ? every : own) == 0)
            pace->next_burst = pace->at + o->period * ((double)number + drand48());
    }
    if (pace->next_burst && time >= pace->next_burst) {
        cv_burst(target);
        pace->next_burst = 0;
    }
}

/* Returns 1 where there may be more to do at once. */
static int step(const struct cv_options *o, struct cv_target *target, struct pace *pace)
{
    const double time = cv_seconds(CLOCK_MONOTONIC);
    int more = 0;
    cv_wire_definitions();
    cv_threads_write();
    if (o->sample || o->sets || o->objects) {
        more = cv_wire_parts();
        cv_wire_pace();
        if (time >= pace->next_shown) {
            cv_wire_interval(cv_wire_interval_so_far());
            pace->next_shown = time + SHOWN_STEP;
        }
        if (o->period > 0)
            plan_native(o, target, pace, time);
    }
    if (cv_wants_samples(o)) {
        measure_heads(o, target, pace, time);
        ask_again(target);
    }
    if (time >= pace->next_counters) {
        cv_wire_counters(0);
        pace->next_counters = time + COUNTERS_STEP;
    }
    if (time >= pace->next_better && !(o->period > 0) && !o->full) {
        pace->better = pace->better > 0 ? (pace->better < LONGEST_BETTER ? 2 * pace->better : LONGEST_BETTER) : FIRST_BETTER;
        pace->next_better = time + pace->better;
        target->shared->better = 1;
        ask(target, CV_WANT_BETTER);
    }
    if (!more)
        cv_wire_flush();
    pace->quiet = more ? RATE_STEP : pace->quiet * LONGER_STEP < COUNTING_STEP ? pace->quiet * LONGER_STEP : COUNTING_STEP;
    return more;
}

/* How long to wait for the next look. */
static double rest(const struct cv_options *o, const struct pace *pace)
{
    double left = COUNTING_STEP;
    if (o->period > 0) { /* until the burst, or the next period */
        const double next = pace->next_burst ? pace->next_burst : pace->at + o->period * (double)pace->interval;
        left = next - cv_seconds(CLOCK_MONOTONIC);
        return left < o->period / 100 ? o->period / 100 : left < o->period ? left : o->period;
    }
    if (o->full || o->objects)
        return RATE_STEP;
    if (o->sample || o->sets)
        left = pace->quiet;
    return left < pace->better / 2 ? left : pace->better / 2;
}

static int run(const struct cv_options *o, struct cv_target *target, struct rusage *usage)
{
    struct pace pace = {.quiet = RATE_STEP};
    const int process = target->process >= 0 ? target->process : (int)syscall(SYS_pidfd_open, target->pid, 0);
    struct pollfd wait = {.fd = process, .events = POLLIN};
    const double end = o->seconds > 0 ? cv_seconds(CLOCK_MONOTONIC) + o->seconds : 0;
    int status = 0, forwarded = 0;
    for (;;) {
        const double left = step(o, target, &pace) ? 0 : rest(o, &pace);
        const struct timespec timeout = {0, (long)(left * 1e9)};
        ppoll(&wait, 1, &timeout, NULL);
        if (cv_stop_signal && cv_stop_signal != forwarded) {
            forwarded = cv_stop_signal;
            if (o->attach)
                break;
            if (cv_stop_signal != SIGINT) /* Ctrl-C reaches the program anyway */
                kill(target->pid, cv_stop_signal);
            cv_stop_signal = 0;
        }
        if (cv_replaced || (o->attach              ? wait.revents || (end > 0 && cv_seconds(CLOCK_MONOTONIC) >= end)
                            : target->process >= 0 ? wait.revents != 0
                                                   : wait4(target->pid, &status, WNOHANG, usage) == target->pid))
            break;
    }
    if (target->process >= 0 && !cv_replaced)
        status = cv_status_of(target, usage);
    if (o->attach && !wait.revents)
        cv_detach(target);
    close(process);
    return status;
}

static uint64_t thread_nanoseconds(pid_t process, uint64_t thread)
{
    char path[64];
    unsigned long time = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", process, (int)thread);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%lu", &time) != 1)
        time = 0;
    if (file)
        fclose(file);
    return time;
}

/* How much of the program ran natively, in code that it had made itself: entries, and seconds of its processor time. */
static void say_outside(const struct cv_target *target, double seconds)
{
    uint64_t entries = 0, time = 0;
    for (uint64_t i = 0; i < target->shared->slots; i++) {
        const struct cv_slot *slot = cv_slot_of(target, i);
        const uint64_t since = slot->outside_since, now = since ? thread_nanoseconds(target->pid, slot->tid) : 0;
        entries += slot->outside_entries;
        time += slot->outside_time + (now > since ? now - since : 0);
    }
    if (entries)
        cv_say("outside: %lu entries %.6f s of %.6f s", (unsigned long)entries, 1e-9 * (double)time, seconds);
}

static void say_why_native(const struct cv_target *target)
{
    const uint64_t n = target->shared->reasons < CV_MOST_REASONS ? target->shared->reasons : CV_MOST_REASONS;
    for (uint64_t i = 0; i < n; i++)
        cv_say("native: %s at 0x%lx", target->shared->reason[i].text, (unsigned long)target->shared->reason[i].address);
    if (target->shared->untraced)
        cv_say("untraced: %lu", (unsigned long)target->shared->untraced);
}

int cv_trace(const struct cv_options *options, struct cv_target *target)
{
    struct rusage usage = {0};
    const double used = options->attach ? cpu_seconds(target->pid, NULL) : 0;
    const int status = run(options, target, &usage);
    const double seconds = cpu_seconds(target->pid, &usage) - used;
    cv_wire_system((uint64_t)usage.ru_minflt); /* before this process reads, which gives the shared memory more pages */
    cv_wire_last_parts();
    if (!(options->period > 0))
        cv_wire_interval(target->shared->pace.begun);
    cv_wire_definitions();
    cv_wire_counters(1);
    cv_threads_end();
    say_why_native(target);
    say_outside(target, seconds);
    cv_say("made anew: %lu", (unsigned long)target->shared->made_anew);
    const int sets = cv_wire_vector_sets();
    cv_say("vector sets:%s%s", sets & 1 << CV_X86_VEX ? " avx" : "", sets & 1 << CV_X86_EVEX ? " avx512f" : "");
    if (options->dump && cv_wire_dump(options->dump))
        cv_say("%s could not be written", options->dump);
    if (WIFSIGNALED(status))
        cv_wire_end(CV_WIRE_SIGNALED, WTERMSIG(status));
    else
        cv_wire_end(cv_replaced || target->shared->execing ? CV_WIRE_EXECED : CV_WIRE_EXITED, WEXITSTATUS(status));
    return status;
}

int main(int count, char **arguments)
{
    struct cv_options options = {.wire = -1, .paths = 1, .follows = CV_THREADS_MOST};
    struct cv_target target = {.file = -1, .process = -1, .family = -1};
    int i = 1, status;
    for (; i < count && !strncmp(arguments[i], "--", 2); i++) {
        if (!strcmp(arguments[i], "--")) {
            i++;
            break;
        }
        if (take(&options, arguments[i])) {
            fprintf(stderr, "convolver-engine: %s is no option, or none that can be carried out\n", arguments[i]);
            return REFUSED;
        }
    }
    options.interval = options.interval ? options.interval : INTERVAL;
    if ((!options.counters && !options.streams) || options.attach || options.period > 0 || options.marks.markers || options.marks.places)
        options.follows = 0;
    cv_log_to(options.log);
    if (options.wire >= 0)
        fcntl(options.wire, F_SETFD, FD_CLOEXEC); /* not the program's */
    if (i >= count && !options.attach) {
        cv_say("there is nothing to trace");
        return REFUSED;
    }
    if (options.streams)
        return cv_family_run(&options, arguments + i);
    if (options.attach) /* before: half attached, the program would never be left */
        cv_hear_stops(SA_RESTART);
    if (options.attach ? cv_attach(&target, &options) : cv_start(&target, &options, arguments + i))
        return REFUSED;
    /* now: a program that is started would inherit them, and lose that its parent had them ignored */
    cv_hear_stops(0);
    if (cv_wire_begin(&options, &target)) {
        cv_say("the stream could not be written: %s", strerror(errno));
        if (options.attach)
            cv_detach(&target);
        else
            kill(target.pid, SIGKILL);
        return REFUSED;
    }
    status = cv_trace(&options, &target);
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}
