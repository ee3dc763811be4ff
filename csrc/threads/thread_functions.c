/* Names of the functions that synchronize. Freestanding; SPDX: MIT. */
#include "thread_calls.h"

struct known {
    const char *name;
    enum cv_function function;
};

static const struct known functions[] = {
    {"pthread_create", CREATE},
    {"pthread_join", JOIN},
    {"pthread_mutex_lock", LOCK},
    {"pthread_mutex_timedlock", TRY},
    {"pthread_mutex_clocklock", TRY},
    {"pthread_mutex_trylock", TRY},
    {"pthread_mutex_unlock", UNLOCK},
    {"pthread_rwlock_rdlock", READ},
    {"pthread_rwlock_tryrdlock", READ},
    {"pthread_rwlock_timedrdlock", READ},
    {"pthread_rwlock_clockrdlock", READ},
    {"pthread_rwlock_wrlock", LOCK},
    {"pthread_rwlock_trywrlock", TRY},
    {"pthread_rwlock_timedwrlock", TRY},
    {"pthread_rwlock_clockwrlock", TRY},
    {"pthread_rwlock_unlock", UNLOCK},
    {"pthread_spin_lock", LOCK},
    {"pthread_spin_trylock", TRY},
    {"pthread_spin_unlock", UNLOCK},
    {"pthread_cond_wait", WAIT},
    {"pthread_cond_timedwait", WAIT},
    {"pthread_cond_clockwait", WAIT},
    {"pthread_cond_signal", SIGNAL},
    {"pthread_cond_broadcast", BROADCAST},
    {"pthread_barrier_wait", BARRIER},
    {"sem_wait", ACQUIRE},
    {"sem_timedwait", ACQUIRE},
    {"sem_clockwait", ACQUIRE},
    {"sem_trywait", ACQUIRE},
    {"sem_post", RELEASE},
    {"omp_set_lock", SPINNING_LOCK},
    {"omp_test_lock", TEST},
    {"omp_unset_lock", UNLOCK},
    {"omp_set_nest_lock", SPINNING_LOCK},
    {"omp_test_nest_lock", TEST},
    {"omp_unset_nest_lock", UNLOCK},
    {"GOMP_barrier", TEAM_BARRIER},
    {"GOMP_barrier_cancel", TEAM_BARRIER},
    {"GOMP_loop_end", TEAM_BARRIER},
    {"GOMP_loop_end_cancel", TEAM_BARRIER},
    {"GOMP_single_copy_start", SINGLE_COPY},
    {"GOMP_single_copy_end", TEAM_BARRIER},
    {"GOMP_sections_end", TEAM_BARRIER},
    {"GOMP_sections_start", CHUNK_INT},
    {"GOMP_sections_next", CHUNK_INT},
    {"GOMP_critical_start", CRITICAL_BEGIN},
    {"GOMP_critical_end", CRITICAL_END},
    {"GOMP_atomic_start", CRITICAL_BEGIN},
    {"GOMP_atomic_end", CRITICAL_END},
    {"GOMP_critical_name_start", SPINNING_LOCK},
    {"GOMP_critical_name_end", UNLOCK},
    {"GOMP_task", TASK},
    {"GOMP_taskwait", TASK_WAIT},
    {"GOMP_taskwait_depend", WAIT_DEPENDS},
    {"GOMP_taskgroup_end", TASK_WAIT},
    {"kmpc_omp_task", TASK_OBJECT},
    {"kmpc_omp_task_with_deps", TASK_DEPENDS},
    {"kmpc_omp_wait_deps", WAIT_OBJECTS},
    {"kmpc_omp_taskwait_deps_51", WAIT_OBJECTS},
    {"kmpc_omp_task_begin_if0", TASK_AT_ONCE},
    {"kmpc_omp_task_complete_if0", TASK_COMPLETE},
    {"kmpc_taskloop", LOOP_OBJECT},
    {"kmpc_taskloop_5", LOOP_OBJECT},
    {"kmpc_omp_taskwait", TASK_WAIT_ALL},
    {"kmpc_omp_taskwait_51", TASK_WAIT_ALL},
    {"kmpc_end_taskgroup", TASK_WAIT_ALL},
    {"kmpc_fork_call", FORK_CALL},
    {"kmpc_barrier", TEAM_BARRIER},
    {"kmpc_copyprivate", TEAM_BARRIER},
    {"kmpc_reduce", REDUCE},
    {"kmpc_reduce_nowait", REDUCE},
    {"kmpc_dispatch_next_4", CHUNK_INT},
    {"kmpc_dispatch_next_4u", CHUNK_INT},
    {"kmpc_dispatch_next_8", CHUNK_INT},
    {"kmpc_dispatch_next_8u", CHUNK_INT},
    {"kmpc_critical", LOCK_SECOND},
    {"kmpc_critical_with_hint", LOCK_SECOND},
    {"kmpc_end_critical", UNLOCK_SECOND},
};

static unsigned length(const char *text)
{
    unsigned n = 0;
    while (text[n])
        n++;
    return n;
}

static int begins_with(const char *name, const char *with)
{
    while (*with)
        if (*name++ != *with++)
            return 0;
    return 1;
}

static int ends_with(const char *name, const char *with)
{
    const unsigned n = length(name), m = length(with);
    return n >= m && begins_with(name + n - m, with);
}

static int has(const char *name, const char *part)
{
    for (; *name; name++)
        if (begins_with(name, part))
            return 1;
    return 0;
}

/* The C library's tables have several names for one function, with versions. */
enum cv_function cv_function_named(const char *name)
{
    char plain[64];
    while (*name == '_')
        name++;
    if (begins_with(name, "GI_"))
        for (name += 3; *name == '_';)
            name++;
    if (begins_with(name, "new_"))
        name += 4;
    if (*name != 'p' && *name != 's' && *name != 'o' && *name != 'G' && *name != 'k') /* a large file has very many */
        return NOTHING;
    unsigned n = 0;
    while (name[n] && name[n] != '@' && n < sizeof plain - 1) {
        plain[n] = name[n];
        n++;
    }
    plain[n] = 0;
    if (begins_with(plain, "GOMP_parallel") && !ends_with(plain, "_start") && !ends_with(plain, "_end"))
        return PARALLEL;
    if (begins_with(plain, "GOMP_loop") && (ends_with(plain, "_start") || ends_with(plain, "_next")) && !has(plain, "ordered"))
        return CHUNK;
    if (begins_with(plain, "GOMP_taskloop"))
        return TASK_LOOP;
    for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)
        if (begins_with(plain, functions[i].name) && length(functions[i].name) == n)
            return functions[i].function;
    return NOTHING;
}
