#include "system.h"

#include <stdio.h>
#include <time.h>

#include "../clock.h"
#include "together.h"
#include "work.h"

#define SAMPLES 15
#define ATTEMPTS 45
#define LONGEST_SECONDS 0.03 /* for one piece of work; three samples are taken at least */

static double cv_clock(const struct cv_work *work)
{
    struct timespec time;
    if (work->pace == CV_TOGETHER)
        return cv_together_seconds();
    const int others = work->pace == CV_WITH_OTHERS;
    clock_gettime(others ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec + (others ? cv_work_children() : 0);
}

/* Seconds of one, sample by sample; where others interrupted all of them, the shortest. */
static int cv_time_work(const struct cv_work *work, double *samples, const volatile sig_atomic_t *stop)
{
    int count = 0;
    double shortest = 0;
    if (!work->run(work->times)) /* the first time code and tables are cold */
        return 0;
    const double begin = cv_now();
    for (int attempt = 0; attempt < ATTEMPTS && count < SAMPLES && !*stop; attempt++) {
        const long switches = cv_switches();
        const double before = cv_clock(work);
        const size_t done = work->run(work->times);
        const double middle = cv_clock(work);
        if (work->beside)
            work->beside(work->times);
        const double seconds = (middle - before - (work->beside ? cv_clock(work) - middle : 0)) / (double)(done ? done : 1);
        if (done && seconds > 0 && (work->pace != CV_SHORT || cv_switches() == switches))
            samples[count++] = seconds;
        else if (done && seconds > 0 && (!shortest || seconds < shortest))
            shortest = seconds;
        if (count >= 3 && cv_now() - begin > LONGEST_SECONDS)
            break;
    }
    if (!count && shortest > 0)
        samples[count++] = shortest;
    return count;
}

void cv_system_probe(const volatile sig_atomic_t *stop)
{
    double samples[SAMPLES];
    cv_work_begin();
    for (size_t i = 0; i < cv_work_count && !*stop; i++) {
        const int count = cv_time_work(&cv_works[i], samples, stop);
        printf("{\"name\": \"%s\", \"seconds\": [", cv_works[i].name);
        for (int k = 0; k < count; k++)
            printf("%s%.5g", k ? ", " : "", samples[k]);
        puts("]}");
        fflush(stdout);
    }
    cv_work_end();
}
