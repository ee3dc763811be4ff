/* Parallel regions of GCC's runtime of OpenMP, which is a part of this program where the compiler has it as an archive. */
#define _GNU_SOURCE
#include "teams.h"

#include <sched.h>
#include <stdatomic.h>

#include "../clock.h"
#include "../pinning.h"
#include "together.h"

#ifdef CV_OPENMP
extern void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
extern int omp_get_thread_num(void);

struct team {
    int here, others; /* CPUs: the first thread's, and how many besides */
    int game;
    atomic_uint members;
};

/* The pool's threads begin where the first one is pinned. */
static void cv_find_cpu(void *data)
{
    struct team *team = data;
    const int number = omp_get_thread_num();
    if (number)
        cv_pin(cv_other_cpu(team->here, (team->game + number - 1) % team->others));
    atomic_fetch_add(&team->members, 1);
}

static void cv_no_work(void *data) { (void)data; }

static size_t cv_regions(size_t times, unsigned threads, int game, int others)
{
    struct team team = {.here = sched_getcpu(), .others = others, .game = game};
    GOMP_parallel(cv_find_cpu, &team, threads, 0);
    if (atomic_load(&team.members) != threads)
        return 0; /* OMP_DYNAMIC, a limit */
    const double begin = cv_now();
    for (size_t i = 0; i < times; i++)
        GOMP_parallel(cv_no_work, NULL, threads, 0);
    cv_add_together(cv_now() - begin);
    return times;
}

size_t cv_thread_region(size_t times)
{
    static int game;
    const int others = cv_other_cpus();
    return others ? cv_regions(times, 2, cv_spaced(game++), others) : 0;
}

size_t cv_thread_region_all(size_t times)
{
    const int others = cv_other_cpus();
    return others > 1 ? cv_regions(times, (unsigned)others + 1, 0, others) : 0;
}
#else
size_t cv_thread_region(size_t times)
{
    (void)times;
    return 0;
}

size_t cv_thread_region_all(size_t times)
{
    (void)times;
    return 0;
}
#endif
