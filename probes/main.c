/* The probe: reads a plan from stdin, measures its points in the given order, prints one line of JSON for each.
 *
 * With --record, or --run, it writes their references, or makes them, instead (recorder.h).
 *
 * An executable with a plan beyond its end runs that (bundle.h).
 *
 * The order, the repetition in rounds and the combination of rounds are the caller's business: whoever stops reading or sends
 * SIGINT keeps every line printed so far. Exit status: 0 done, 1 failed, 2 usage, 130 interrupted.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "aggressors.h"
#include "bundle.h"
#include "core/core.h"
#include "core/mixes.h"
#include "lines.h"
#include "measure.h"
#include "options.h"
#include "pinning.h"
#include "recorder.h"
#include "residency.h"
#include "system/system.h"
#include "watch.h"

#define CV_BESIDE_BYTES ((size_t)64 << 20) /* working set of another kernel on the other CPUs: far beyond any share of a cache */

static volatile sig_atomic_t cv_interrupted;

static void cv_interrupt(int signal)
{
    (void)signal;
    cv_interrupted = 1;
}

static int cv_fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

/* Other threads that stream, whatever is measured beside them: they run on from point to point. */
static struct cv_aggressors *cv_streams;
static int cv_streaming;

static void cv_stop_streams(void)
{
    if (cv_streams)
        cv_aggressors_stop(cv_streams);
    cv_streams = NULL;
    cv_streaming = 0;
}

/* Keeps `count` CPUs busy beside this one: with the same kernel, or with the one that is chosen for all points. NULL: impossible. */
static struct cv_aggressors *cv_surround(const struct cv_options *options, const struct cv_kernel *kernel, size_t bytes, int count)
{
    if (!options->beside)
        return cv_aggressors_start(kernel, bytes, options->pages, options->cpu, options->other, count);
    if (cv_streaming != count) {
        cv_stop_streams();
        cv_streams =
            cv_aggressors_start(cv_find_kernel(options->beside), CV_BESIDE_BYTES, options->pages, options->cpu, options->other, count);
        cv_streaming = cv_streams ? count : 0;
    }
    return cv_streams;
}

static int cv_run_point(const struct cv_options *options, struct cv_arena *arena, const struct cv_kernel *kernel, size_t bytes, int threads)
{
    static struct cv_point point;
    struct cv_state state;
    struct cv_aggressors *others = NULL;
    cv_prepare(arena, kernel, bytes, &state);
    if (threads > 1 && !(others = cv_surround(options, kernel, bytes, threads - 1)))
        return cv_fail(kernel->name, "too few CPUs or too little memory for its threads");
    if (threads == 1)
        cv_stop_streams();
    cv_measure(kernel, &state, &options->effort, &point, &cv_interrupted);
    if (others && others != cv_streams)
        cv_aggressors_stop(others);
    if (!cv_interrupted)
        cv_print_point(stdout, kernel, bytes, threads, &point);
    return 0;
}

/* A line of --record or --run. */
static int cv_record_line(const struct cv_options *options, struct cv_arena *arena, const char *line)
{
    char name[64];
    size_t bytes;
    unsigned long long wanted, warm = 0;
    struct cv_state state;
    if (sscanf(line, "%63s %zu %llu %llu", name, &bytes, &wanted, &warm) < 3)
        return cv_fail("not a line of a plan", line);
    const struct cv_kernel *const kernel = cv_find_kernel(name);
    if (!kernel || !kernel->record)
        return cv_fail("no kernel with memory", name);
    if (bytes < 4096 || bytes > options->bytes || bytes % CV_LINE)
        return cv_fail("impossible working set", line);
    cv_prepare(arena, kernel, bytes, &state);
    if (options->task == CV_RECORD) {
        cv_record_point(kernel, &state, wanted, warm);
        return 0;
    }
    if (kernel->supported && !kernel->supported())
        return cv_fail("this CPU cannot run", name);
    kernel->run(&state, wanted);
    printf("[%zu, %zu, %zu]\n", (size_t)arena->base, (size_t)arena->hot, (size_t)arena->scratch);
    return 0;
}

static int cv_run_line(const struct cv_options *options, struct cv_arena *arena, const char *line)
{
    char name[64];
    size_t bytes;
    int threads;
    if (sscanf(line, "%63s %zu %d", name, &bytes, &threads) != 3)
        return cv_fail("not a line of a plan", line);
    const struct cv_kernel *const kernel = cv_find_kernel(name);
    if (!kernel)
        return cv_fail("unknown kernel", name);
    if (kernel->supported && !kernel->supported())
        return cv_fail("this CPU cannot run", name);
    if (threads < 1 || (*kernel->pattern && (bytes < 4096 || bytes > options->bytes || bytes % CV_LINE)))
        return cv_fail("impossible working set or threads", line);
    return cv_run_point(options, arena, kernel, bytes, threads);
}

/* Touches the working set and refuses to go on where it did not get the huge pages that were demanded. */
static int cv_check_huge(const struct cv_options *options, struct cv_arena *arena)
{
    struct cv_state state;
    cv_prepare(arena, cv_find_kernel("load"), options->bytes / CV_LINE * CV_LINE, &state);
    if (cv_huge_share(arena) >= 0.9)
        return 0;
    return cv_fail("no huge pages", "reserve some (sysctl vm.nr_hugepages) or allow transparent ones (madvise)");
}

/* Keeps this CPU busy with one kernel until who asked for it ends it or has ended; says so once it is warm. */
static int cv_run_forever(const struct cv_options *options, struct cv_arena *arena)
{
    const struct cv_kernel *const kernel = cv_find_kernel(options->forever);
    struct cv_state state;
    if (!kernel || (kernel->supported && !kernel->supported()))
        return cv_fail("unknown kernel", options->forever);
    cv_prepare(arena, kernel, options->bytes / CV_LINE * CV_LINE, &state);
    kernel->run(&state, 4096);
    puts("running");
    fflush(stdout);
    while (!cv_interrupted && !cv_unheard())
        kernel->run(&state, 4096);
    return 0;
}

static int cv_run_core(const struct cv_options *options, struct cv_arena *arena)
{
    const int failed =
        options->task == CV_PORTS ? cv_mix_probe(arena, &cv_interrupted) : cv_core_probe(arena, options->bytes, &cv_interrupted);
    return failed ? cv_fail("cannot make code at run time", strerror(errno)) : 0;
}

static int cv_run_plan(const struct cv_options *options, struct cv_arena *arena)
{
    char line[256];
    int status = 0;
    if (options->task == CV_RECORD)
        cv_record_begin(arena);
    while (!status && !cv_interrupted && fgets(line, sizeof line, stdin))
        status = (options->task == CV_MEASURE ? cv_run_line : cv_record_line)(options, arena, line);
    if (options->task == CV_RECORD && cv_record_end())
        status = cv_fail("cannot write the references", strerror(errno));
    return status;
}

static int cv_main(int count, char **arguments)
{
    struct cv_options options;
    struct cv_arena arena;
    if (cv_parse_options(count, arguments, &options))
        return 2;
    if (options.list) {
        printf("{\"compiler\": \"%s\"}\n", __VERSION__);
        for (size_t i = 0; i < cv_kernel_count; i++)
            cv_print_kernel(stdout, &cv_kernels[i]);
        return 0;
    }
    const struct sigaction action = {.sa_handler = cv_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (options.cpu >= 0 && cv_pin(options.cpu))
        return cv_fail("cannot run on the chosen CPU", strerror(errno));
    if (options.task == CV_SYSTEM) {
        cv_system_probe(&cv_interrupted);
        return cv_interrupted ? 130 : 0;
    }
    if (options.task == CV_WATCH)
        return cv_watch(&cv_interrupted);
    if (cv_arena_open(&arena, options.bytes, options.pages, 1))
        return cv_fail("cannot allocate the working set", strerror(errno));
    if (options.pages == CV_PAGES_2M && cv_check_huge(&options, &arena))
        return 1;
    const struct cv_kernel *const beside = options.beside ? cv_find_kernel(options.beside) : NULL;
    if (options.beside && (!beside || (beside->supported && !beside->supported())))
        return cv_fail("unknown kernel", options.beside);
    int status = options.task == CV_FOREVER     ? cv_run_forever(&options, &arena)
                 : options.task == CV_RESIDENCY ? cv_residency(&arena, options.bytes, &cv_interrupted)
                 : options.task == CV_CORE      ? cv_run_core(&options, &arena)
                 : options.task == CV_PORTS     ? cv_run_core(&options, &arena)
                                                : cv_run_plan(&options, &arena);
    cv_stop_streams();
    cv_arena_close(&arena);
    return cv_interrupted ? 130 : status;
}

int main(int count, char **arguments)
{
    char *const plan = count == 1 ? cv_bundled_plan(arguments[0]) : NULL;
    return plan ? cv_run_bundle(plan, cv_main) : cv_main(count, arguments);
}
