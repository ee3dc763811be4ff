#define _GNU_SOURCE
#include "system.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "../clock.h"
#include "../watch.h"
#include "together.h"
#include "work.h"

#define SAMPLES 15
#define ATTEMPTS 45
#define LEAST_SAMPLES 3
#define LONGEST_SECONDS 0.03 /* for one piece of work, without waiting; a few samples are taken at least */
#define ALIKE 1.15           /* as in convolver/probing/moments.py */
#define LOOKS 60             /* at the core before all samples: others on it stay for 100 ms and more */
#define PAUSE_NANOSECONDS 4000000
#define PATIENCE_SECONDS 3 /* in all, for others to leave the core */

/* The core as it is while work is timed: the fewest cycles that a taken branch was seen to take, and how long to wait for them yet. */
struct cv_core_state {
    double least, patience;
};

/* Seconds of one, and the cycles of a taken branch around it; how many there are, and how many of a core that nobody shared. */
struct cv_times {
    double seconds[ATTEMPTS], witness[ATTEMPTS];
    int count, alone;
};

static double cv_clock(const struct cv_work *work)
{
    struct timespec time;
    if (work->pace == CV_TOGETHER)
        return cv_together_seconds();
    const int others = work->pace == CV_WITH_OTHERS;
    clock_gettime(others ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec + (others ? cv_work_children() : 0);
}

static double cv_look_at(struct cv_core_state *core)
{
    const double cycles = cv_look();
    core->least = fmin(core->least, cycles);
    return cycles;
}

static void cv_pause(void) { nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOSECONDS}, NULL); }

/* Waits until nothing else runs on the core, or until patience is at an end; returns what it saw last. */
static double cv_wait(struct cv_core_state *core)
{
    double cycles;
    while ((cycles = cv_look_at(core)) > ALIKE * core->least && core->patience > 0) {
        const double begin = cv_now();
        cv_pause();
        core->patience -= cv_now() - begin;
    }
    return cycles;
}

/* Takes a sample, or none where others interrupted it; `*shortest` is the least of those. */
static void cv_sample(const struct cv_work *work, struct cv_core_state *core, struct cv_times *times, double *shortest)
{
    const int judged = work->pace != CV_TOGETHER; /* the other CPU is at work, too */
    const double first = judged ? cv_wait(core) : 0;
    const long switches = cv_switches();
    const double before = cv_clock(work);
    const size_t done = work->run(work->times);
    const double middle = cv_clock(work);
    if (work->beside)
        work->beside(work->times);
    const double seconds = (middle - before - (work->beside ? cv_clock(work) - middle : 0)) / (double)(done ? done : 1);
    if (!done || seconds <= 0)
        return;
    if (work->pace == CV_SHORT && cv_switches() != switches) {
        *shortest = fmin(*shortest, seconds);
        return;
    }
    times->witness[times->count] = judged ? fmax(first, cv_look_at(core)) : 0;
    times->alone += times->witness[times->count] <= ALIKE * core->least;
    times->seconds[times->count++] = seconds;
}

/* Times a piece of work; where others interrupted all of its samples, the shortest stays. */
static void cv_time_work(const struct cv_work *work, struct cv_core_state *core, struct cv_times *times, const volatile sig_atomic_t *stop)
{
    double shortest = HUGE_VAL;
    if (!work->run(work->times)) /* the first time code and tables are cold */
        return;
    const double begin = cv_now(), patience = core->patience;
    for (int attempt = 0; attempt < ATTEMPTS && times->alone < SAMPLES && !*stop; attempt++) {
        cv_sample(work, core, times, &shortest);
        const int enough = times->alone >= LEAST_SAMPLES || (times->count >= LEAST_SAMPLES && core->patience <= 0);
        if (enough && cv_now() - begin - (patience - core->patience) > LONGEST_SECONDS)
            break;
    }
    if (!times->count && shortest < HUGE_VAL)
        times->seconds[times->count++] = shortest; /* and its witness is 0: not judged */
}

static void cv_print_values(const char *name, const double *values, int count)
{
    printf(", \"%s\": [", name);
    for (int i = 0; i < count; i++)
        printf("%s%.5g", i ? ", " : "", values[i]);
    putchar(']');
}

void cv_system_probe(const volatile sig_atomic_t *stop)
{
    struct cv_core_state core = {HUGE_VAL, PATIENCE_SECONDS};
    cv_work_begin();
    for (int i = 0; i < LOOKS && !*stop; i++) {
        cv_look_at(&core);
        cv_pause();
    }
    for (size_t i = 0; i < cv_work_count && !*stop; i++) {
        struct cv_times times = {.count = 0};
        cv_time_work(&cv_works[i], &core, &times, stop);
        printf("{\"name\": \"%s\"", cv_works[i].name);
        cv_print_values("seconds", times.seconds, times.count);
        cv_print_values("witness_cycles", times.witness, times.count);
        puts("}");
        fflush(stdout);
    }
    cv_work_end();
}
