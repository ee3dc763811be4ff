#include "residency.h"

#include <math.h>
#include <stdio.h>

#include "clock.h"

#define LONGEST_PAUSE 0.064 /* seconds */
#define REPEATS 5

/* Computes on registers for so long: a sleeping thread would give its core away, and with it L1 and L2. */
static void cv_pause(double seconds)
{
    const struct cv_kernel *const cycle = cv_find_kernel("cycle");
    for (const double end = cv_now() + seconds; cv_now() < end;)
        cycle->run(NULL, 20000);
}

/* Visits so many lines; returns the seconds of each, or < 0 where a context switch disturbed it. */
static double cv_pass(const struct cv_kernel *chase, struct cv_state *state, uint64_t lines)
{
    const long before = cv_switches();
    const double start = cv_now();
    const uint64_t made = chase->run(state, lines);
    const double seconds = (cv_now() - start) / (double)made;
    return cv_switches() == before ? seconds : -1;
}

static double cv_after_pause(const struct cv_kernel *chase, struct cv_state *state, double pause)
{
    const uint64_t lines = state->bytes / CV_LINE;
    double best = HUGE_VAL;
    for (int i = 0; i < REPEATS; i++) {
        cv_pass(chase, state, 2 * lines);
        cv_pause(pause);
        /* A part of the lines is enough, and short enough to go undisturbed now and then on a busy machine. */
        const double seconds = cv_pass(chase, state, lines / 16);
        best = seconds > 0 && seconds < best ? seconds : best;
    }
    return best;
}

int cv_residency(struct cv_arena *arena, size_t bytes, const volatile sig_atomic_t *stop)
{
    const struct cv_kernel *const chase = cv_find_kernel("chase");
    struct cv_state state;
    cv_prepare(arena, chase, bytes / CV_LINE * CV_LINE, &state);
    for (double pause = 0; pause <= LONGEST_PAUSE && !*stop; pause = pause > 0 ? 2 * pause : 0.001) {
        const double seconds = cv_after_pause(chase, &state, pause);
        if (seconds < HUGE_VAL)
            printf("{\"pause_seconds\": %g, \"seconds_per_line\": %.5g}\n", pause, seconds);
    }
    fflush(stdout);
    return 0;
}
