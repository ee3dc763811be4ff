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
#define FIRST_BETTER 0.004 /* after so long superblocks are made anew, and again after twice as long each time */
#define LONGEST_BETTER 2.0
#define SHORTEST_STEP 0.0001
#define RATE_STEP 0.0005
#define LONGEST_PERIOD 0.05            /* from an interval's beginning to its burst */
#define EVERYTHING (UINT64_C(1) << 50) /* references */
#define REFUSED 125                    /* exit status: the program has not run */

static volatile sig_atomic_t told; /* to stop */

static void on_stop(int number) { told = number; }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *value(const char *argument, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(argument, name, n) && argument[n] == '=' ? argument + n + 1 : NULL;
}

static int take(struct cv_options *o, char *argument)
{
    const char *v;
    if (!strcmp(argument, "--full"))
        o->full = 1, o->sample = EVERYTHING;
    else if (!strcmp(argument, "--paths"))
        o->paths = 1;
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
        __atomic_fetch_or(&cv_slot_of(target, i)->flag, what, __ATOMIC_ACQ_REL);
}

struct pace {
    double next_burst, next_counters, next_better, better, next_rate, rate, references, at;
    uint64_t interval; /* that was planned last */
};

/* How many references have been executed: summed up now and then, and in between from their rate. */
static double executed(struct pace *pace, double time)
{
    if (time >= pace->next_rate) {
        const double references = cv_wire_references(), took = now() - time;
        if (pace->at > 0 && time > pace->at)
            pace->rate = (references - pace->references) / (time - pace->at);
        pace->references = references;
        pace->at = time;
        pace->next_rate = time + (20 * took > RATE_STEP ? 20 * took : RATE_STEP);
    }
    return pace->references + pace->rate * (time - pace->at);
}

/* What happens in the interval of the run that has begun: a burst somewhere in it, and sets, or neither. */
static void plan(const struct cv_options *o, struct cv_target *target, struct pace *pace, double time)
{
    const double interval = o->interval ? (double)o->interval : 1e6;
    const uint64_t number = (uint64_t)(executed(pace, time) / interval);
    if (number + 1 <= pace->interval)
        return;
    if (o->sample && number % cv_wire_every(CV_EVERY_BURST) == 0) {
        const double length = pace->rate > 0 ? interval / pace->rate : 0;
        const double wait = number > pace->interval ? 0 : drand48() * (length < LONGEST_PERIOD ? length : LONGEST_PERIOD);
        if (!pace->next_burst || pace->next_burst > time + wait)
            pace->next_burst = time + wait;
    }
    pace->interval = number + 1;
    target->shared->interval = number;
    cv_wire_interval(number);
    if (!o->sets || !o->stretch)
        return;
    const uint64_t mode = number % cv_wire_every(CV_EVERY_STRETCH) < o->stretch ? CV_FILTERING : CV_COUNTING;
    if (mode != target->shared->mode) {
        target->shared->mode = mode;
        ask(target, CV_WANT_MODE);
    }
}

static uint64_t next_multiple(uint64_t number, uint64_t of) { return (number / of + 1) * of; }

/* Seconds until an interval begins in which there is something to do, as things go now. */
static double until_next(const struct cv_options *o, const struct cv_target *target, struct pace *pace)
{
    const double interval = o->interval ? (double)o->interval : 1e6;
    uint64_t next = UINT64_MAX;
    if (!pace->interval)
        return 0;
    if (o->sample)
        next = next_multiple(pace->interval - 1, cv_wire_every(CV_EVERY_BURST));
    if (o->sets && o->stretch) {
        const uint64_t stretch = next_multiple(pace->interval - 1, cv_wire_every(CV_EVERY_STRETCH));
        next = stretch < next ? stretch : next;
    }
    if (pace->next_burst || target->shared->mode == CV_FILTERING || next == UINT64_MAX)
        next = pace->interval;
    return ((double)next * interval - executed(pace, now())) / pace->rate;
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
        if (number % cv_wire_every(CV_EVERY_BURST) == 0)
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
    const double time = now();
    int more = 0;
    cv_wire_definitions();
    if (o->sample || o->sets) {
        more = cv_wire_parts();
        if (o->full)
            ;
        else if (o->period > 0)
            plan_native(o, target, pace, time);
        else
            plan(o, target, pace, time);
        if (pace->next_burst && !(o->period > 0) && time >= pace->next_burst) {
            ask(target, CV_WANT_BURST);
            pace->next_burst = 0;
        }
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
    return more;
}

/* How long to wait for the next look. Far from the next thing to do it comes after a part of the time: the program may become faster. */
static double rest(const struct cv_options *o, const struct cv_target *target, struct pace *pace)
{
    double left = o->sample || o->sets ? RATE_STEP : COUNTING_STEP;
    if (o->period > 0)
        return o->period / 10;
    if (o->full)
        return RATE_STEP;
    if (pace->rate > 0 && (o->sample || o->sets)) {
        const double soon = (double)o->interval / pace->rate / 2, part = until_next(o, target, pace) / 4;
        left = left < soon ? left : soon;
        left = left > part ? left : part < COUNTING_STEP ? part : COUNTING_STEP;
    }
    left = left < pace->better / 2 ? left : pace->better / 2;
    return left > SHORTEST_STEP ? left : SHORTEST_STEP;
}

static int run(const struct cv_options *o, struct cv_target *target, struct rusage *usage)
{
    struct pace pace = {0};
    const int process = (int)syscall(SYS_pidfd_open, target->pid, 0);
    struct pollfd wait = {.fd = process, .events = POLLIN};
    const double end = o->seconds > 0 ? now() + o->seconds : 0;
    int status = 0, forwarded = 0;
    for (;;) {
        const double left = step(o, target, &pace) ? 0 : rest(o, target, &pace);
        const struct timespec timeout = {0, (long)(left * 1e9)};
        ppoll(&wait, 1, &timeout, NULL);
        if (told && told != forwarded) {
            forwarded = told;
            if (o->attach)
                break;
            if (told != SIGINT) /* Ctrl-C reaches the program anyway */
                kill(target->pid, told);
            told = 0;
        }
        if (o->attach ? wait.revents || (end > 0 && now() >= end) : wait4(target->pid, &status, WNOHANG, usage) == target->pid)
            break;
    }
    if (o->attach && !wait.revents)
        cv_detach(target);
    close(process);
    return status;
}

/* Processor time of the program. */
static double cpu_seconds(pid_t process, const struct rusage *usage)
{
    struct timespec t = {0, 0};
    clockid_t clock;
    if (usage && (usage->ru_utime.tv_sec || usage->ru_utime.tv_usec || usage->ru_stime.tv_usec))
        return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
               1e-6 * (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
    if (!clock_getcpuclockid(process, &clock))
        clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
}

int main(int count, char **arguments)
{
    struct cv_options options = {.wire = -1, .interval = 1000000};
    struct cv_target target = {.file = -1};
    struct rusage usage = {0};
    int i = 1, status;
    for (; i < count && !strncmp(arguments[i], "--", 2); i++) {
        if (!strcmp(arguments[i], "--")) {
            i++;
            break;
        }
        if (take(&options, arguments[i])) {
            fprintf(stderr, "convolver-engine: there is no option %s\n", arguments[i]);
            return REFUSED;
        }
    }
    cv_log_to(options.log);
    if (options.wire >= 0)
        fcntl(options.wire, F_SETFD, FD_CLOEXEC); /* not the program's */
    if (i >= count && !options.attach) {
        cv_say("there is nothing to trace");
        return REFUSED;
    }
    if (options.attach ? cv_attach(&target, &options) : cv_start(&target, &options, arguments + i))
        return REFUSED;
    /* now: the program would inherit them, and lose that its parent had them ignored */
    struct sigaction stop = {.sa_handler = on_stop};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (cv_wire_begin(&options, &target)) {
        cv_say("the stream could not be written: %s", strerror(errno));
        if (options.attach)
            cv_detach(&target);
        else
            kill(target.pid, SIGKILL);
        return REFUSED;
    }
    const double used = options.attach ? cpu_seconds(target.pid, NULL) : 0;
    status = run(&options, &target, &usage);
    const double seconds = cpu_seconds(target.pid, &usage) - used;
    cv_wire_last_parts();
    if (!(options.period > 0))
        cv_wire_interval((uint64_t)(cv_wire_references() / (options.interval ? (double)options.interval : 1e6)));
    cv_wire_definitions();
    cv_wire_counters(1);
    cv_wire_system((uint64_t)usage.ru_minflt);
    say_why_native(&target);
    say_outside(&target, seconds);
    cv_say("made anew: %lu", (unsigned long)target.shared->made_anew);
    const int sets = cv_wire_vector_sets();
    cv_say("vector sets:%s%s", sets & 1 << CV_X86_VEX ? " avx" : "", sets & 1 << CV_X86_EVEX ? " avx512f" : "");
    if (options.dump && cv_wire_dump(options.dump))
        cv_say("%s could not be written", options.dump);
    if (WIFSIGNALED(status)) {
        cv_wire_end(CV_WIRE_SIGNALED, WTERMSIG(status));
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    cv_wire_end(target.shared->execing ? CV_WIRE_EXECED : CV_WIRE_EXITED, WEXITSTATUS(status));
    return WEXITSTATUS(status);
}
