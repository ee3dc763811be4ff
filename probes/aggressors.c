#define _GNU_SOURCE
#include "aggressors.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "pinning.h"

struct cv_aggressor {
    pthread_t thread;
    const struct cv_kernel *kernel;
    struct cv_arena arena;
    struct cv_state state;
    int cpu;
    volatile int ready;
    const volatile int *stop;
};

struct cv_aggressors {
    volatile int stop;
    int count;
    struct cv_aggressor members[];
};

static void *cv_aggress(void *argument)
{
    struct cv_aggressor *const self = argument;
    cv_pin(self->cpu);
    cv_prepare(&self->arena, self->kernel, self->state.bytes, &self->state);
    self->ready = 1;
    while (!*self->stop)
        self->kernel->run(&self->state, 4096);
    return NULL;
}

static int cv_aggressor_start(struct cv_aggressor *self, size_t bytes, enum cv_pages pages, int cpu)
{
    if (cpu < 0 || cv_arena_open(&self->arena, bytes, pages, (uint64_t)cpu + 2))
        return -1;
    self->cpu = cpu;
    self->state.bytes = bytes;
    if (pthread_create(&self->thread, NULL, cv_aggress, self)) {
        cv_arena_close(&self->arena);
        return -1;
    }
    return 0;
}

struct cv_aggressors *cv_aggressors_start(const struct cv_kernel *kernel, size_t bytes, enum cv_pages pages, int cpu, int other, int count)
{
    struct cv_aggressors *const group = calloc(1, sizeof *group + (size_t)count * sizeof group->members[0]);
    if (!group)
        return NULL;
    for (; group->count < count; group->count++) {
        struct cv_aggressor *const member = &group->members[group->count];
        member->kernel = kernel;
        member->stop = &group->stop;
        if (cv_aggressor_start(member, bytes, pages, other >= 0 && count == 1 ? other : cv_other_cpu(cpu, group->count))) {
            cv_aggressors_stop(group);
            return NULL;
        }
    }
    for (int i = 0; i < count; i++)
        while (!group->members[i].ready)
            usleep(100);
    return group;
}

void cv_aggressors_stop(struct cv_aggressors *group)
{
    group->stop = 1;
    for (int i = 0; i < group->count; i++) {
        pthread_join(group->members[i].thread, NULL);
        cv_arena_close(&group->members[i].arena);
    }
    free(group);
}
