#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define CV_PATIENCE_SECONDS 2.0 /* without a single undisturbed sample */
#define CV_STEADY 0.01          /* the clock stood still where two looks at it differ by less; steps are larger */
#define CV_LOOK 20000           /* cycles of one look: five microseconds, 1 to 2 % of a sample */
#define CV_TURNS 2000           /* of taken branches in a look */

static double cv_time(const struct cv_kernel *kernel, struct cv_state *state, uint64_t wanted, uint64_t *made)
{
    const double start = cv_now();
    *made = kernel->run(state, wanted);
    return cv_now() - start;
}

double cv_seconds_each(const struct cv_kernel *kernel, struct cv_state *state, uint64_t wanted)
{
    uint64_t made;
    const double seconds = cv_time(kernel, state, wanted, &made);
    return seconds / (double)made;
}

/* Doubles the references until they take a third of a sample; returns the seconds of one. */
static double cv_calibrate(const struct cv_kernel *kernel, struct cv_state *state, double sample_seconds)
{
    uint64_t wanted = 64, made;
    for (;;) {
        const double seconds = cv_time(kernel, state, wanted, &made);
        if (seconds >= sample_seconds / 3 || wanted > (uint64_t)1 << 40)
            return seconds / (double)made;
        wanted *= 2;
    }
}

/* Walks once through the working set (random kernels: one reference a line, and half of that again), or as far as time allows. */
static void cv_warm_up(const struct cv_kernel *kernel, struct cv_state *state, const struct cv_effort *effort, double per_reference,
                       const volatile int *stop)
{
    if (!kernel->advance_bytes)
        return;
    const double end = cv_now() + effort->warmup_seconds;
    const uint64_t piece = (uint64_t)(effort->sample_seconds / per_reference) + 64;
    const uint64_t pass = state->bytes / kernel->advance_bytes;
    const uint64_t wanted = kernel->content == CV_ANY ? pass : pass + pass / 2;
    for (uint64_t done = 0; done < wanted && cv_now() < end && !*stop;)
        done += kernel->run(state, wanted - done < piece ? wanted - done : piece);
}

static int cv_ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Order statistics around the median at distance 0.98 sqrt(n): a 95 % interval that assumes no distribution. */
static double cv_interval(const double *samples, int count)
{
    double sorted[CV_MAX_SAMPLES];
    memcpy(sorted, samples, (size_t)count * sizeof *samples);
    qsort(sorted, (size_t)count, sizeof *sorted, cv_ascending);
    const int reach = (int)ceil(0.98 * sqrt(count)), middle = count / 2;
    const int low = middle - reach < 0 ? 0 : middle - reach, high = middle + reach >= count ? count - 1 : middle + reach;
    return (sorted[high] - sorted[low]) / 2 / sorted[middle];
}

static double cv_look_at_clock(void) { return cv_seconds_each(cv_find_kernel("cycle"), NULL, CV_LOOK); }

static double cv_look_at_witness(double clock) { return cv_seconds_each(cv_find_kernel("branch"), NULL, CV_TURNS) / clock; }

/* `clock` is that before the sample, and becomes that after it. */
static void cv_sample(const struct cv_kernel *kernel, struct cv_state *state, uint64_t wanted, double *clock, struct cv_point *point)
{
    const long before = cv_switches();
    const double first = *clock, witness = cv_look_at_witness(first), seconds = cv_time(kernel, state, wanted, &point->references);
    const int alone = cv_switches() == before;
    *clock = cv_look_at_clock();
    point->cycle_seconds = fmin(point->cycle_seconds, *clock);
    if (!alone) {
        point->rejected++;
        kernel->run(state, wanted / 2); /* whoever ran in between took part of the caches */
    } else if (seconds > 0 && fabs(*clock / first - 1) < CV_STEADY) {
        point->clocks[point->count] = (first + *clock) / 2;
        point->witness[point->count] = fmax(witness, cv_look_at_witness(*clock));
        point->samples[point->count++] = seconds / (double)point->references;
    }
}

void cv_measure(const struct cv_kernel *kernel, struct cv_state *state, const struct cv_effort *effort, struct cv_point *point,
                const volatile int *stop)
{
    const double start = cv_now();
    memset(point, 0, sizeof *point);
    point->interval = -1;
    double per_reference = cv_calibrate(kernel, state, effort->sample_seconds);
    cv_warm_up(kernel, state, effort, per_reference, stop);
    per_reference = fmin(per_reference, cv_calibrate(kernel, state, effort->sample_seconds));
    uint64_t wanted = (uint64_t)(effort->sample_seconds / per_reference);
    wanted = wanted < 512 ? 512 : wanted;
    double clock = point->cycle_seconds = cv_look_at_clock();
    const double sampling = cv_now();
    while (point->count < effort->most && !*stop) {
        cv_sample(kernel, state, wanted, &clock, point);
        const double spent = cv_now() - sampling;
        if (point->count >= effort->least) {
            point->interval = cv_interval(point->samples, point->count);
            point->precise = point->interval < effort->precision;
        }
        /* On a busy machine fewer samples have to do; a point without any is reported as such. */
        if (point->precise || (spent > effort->limit_seconds && point->count >= 3) ||
            (spent > 4 * effort->limit_seconds && point->count >= 1) || spent > CV_PATIENCE_SECONDS)
            break;
    }
    point->elapsed_seconds = cv_now() - start;
}
