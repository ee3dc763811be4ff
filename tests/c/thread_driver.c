/* Drives the replay of threads for the sanitizers: an empty trace, an unknown event, and arbitrary events, which no program could have
 * made. Prints one line a case: name, status, elapsed seconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cv_threads_replay.h"

enum { MOST = 3000, CLASSES = 3 };

static struct cv_thread_record records[MOST];

static void run_case(const char *name, int number, uint32_t n)
{
    static const double seconds[CLASSES] = {1e-9, 2e-9, 5e-10}, memory[CLASSES] = {0, 0.5, 1}, bytes[CLASSES] = {0, 1, 8};
    static const double capacity[] = {1e9, 1.5e9};
    static const cv_threads_touch touches[] = {{0, 1, 0, 0.1, 0, 0.1}, {0, 2, 0, 0, 0.1, 0.1}, {2, 0, 1, 0.2, 0, 0}, {2, 1, 1, 0, 0, 0.5}};
    static const double near[CLASSES] = {0.5, 0.25, 0}, near_bytes[CLASSES] = {4, 8, 1};
    const uint32_t some = number % 2 ? 2 : 0; /* limits of complexes that are known */
    cv_threads_work work = {CLASSES, seconds, memory, bytes, some ? near : NULL, near_bytes, some ? near : NULL, 4, 2, touches};
    cv_threads_machine machine = {
        3, number % 3, 1, 1.5, 2, capacity, number % 4, number % 3, some, some, capacity, capacity, {1e-5, 1e-5, 1e-6, 5e-6, 1e-6, 1e-4,
                                                                                                     1e-6, 1e-7, 1e-6, 1e-7, 1e-8, 1e-7,
                                                                                                     2e-7, 3e-6, 1e-8, 1e-7, 1e-7, 3e-10,
                                                                                                     5e-9, 4,    3,    2e-9, 2e-9, 5e-9,
                                                                                                     1e-8, 2e-8, 3e-8, 1e-8, 2e-8, 3e-8,
                                                                                                     4e-8, 5e-8}};
    cv_threads *threads = NULL;
    cv_threads_totals totals = {0};
    cv_threads_lock locks[4];
    double busy[4], waited[4 * CV_THREADS_CAUSES], lines[2];
    cv_threads_region regions[4];
    cv_threads_interval intervals[4];
    cv_status status = cv_threads_new(records, n, &threads);
    if (status == CV_OK) {
        status = cv_threads_run(threads, &work, &machine, &totals);
        cv_threads_keep_intervals(threads, 1e-4 * (number % 2));
        cv_threads_run(threads, &work, &machine, &totals); /* a second run begins anew */
        cv_threads_locks(threads, locks, 4);
        cv_threads_busy(threads, busy, 4);
        cv_threads_waited(threads, waited, 4);
        cv_threads_lines(threads, lines, 2);
        cv_threads_regions(threads, regions, 4);
        cv_threads_intervals(threads, intervals, 4);
    }
    printf("%s%d %d %.3f\n", name, number, status, totals.elapsed);
    cv_threads_free(threads);
}

static void print_named(const char *name, uint32_t n)
{
    cv_threads *threads = NULL;
    cv_status status = cv_threads_new(records, n, &threads);
    if (status == CV_OK)
        printf("%s 0 0.000\n", name);
    else
        printf("%s %d\n", name, status);
    cv_threads_free(threads);
}

int main(void)
{
    print_named("empty", 0);
    records[0].kind = CV_THREAD_KINDS;
    print_named("unknown", 1);
    srand(1);
    for (int number = 0; number < 200; number++) {
        uint32_t n = 1 + rand() % MOST, threads = 1 + rand() % 9, objects = 1 + rand() % 6;
        memset(records, 0, sizeof records);
        for (uint32_t i = 0; i < n; i++)
            records[i] = (struct cv_thread_record){.thread = rand() % threads,
                                                   .kind = rand() % CV_THREAD_KINDS,
                                                   .work_class = rand() % CLASSES,
                                                   .object = rand() % objects | (rand() % 2 ? UINT64_C(1) << 63 : 0),
                                                   .argument = rand() % 8,
                                                   .instructions = rand() % 100000,
                                                   .calls = rand() % 2};
        run_case("random", number, n);
    }
    return 0;
}
