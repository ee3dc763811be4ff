/* Threads whose speedup is arithmetic: teams WHAT ROUNDS [THREADS]; prints how much was done. OpenMP's number of threads is its own. */
#define _GNU_SOURCE
#ifdef _OPENMP
#include <omp.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARTS = 256, MOST = 64 };

static __attribute__((noinline)) double spin(long turns)
{
    double x = 1;
    __asm__ volatile("" ::: "memory"); /* nobody may move or share a call */
    for (long i = 0; i < turns; i++)
        x = x * 1.0000001 + 1e-9;
    return x;
}

static int rounds;
static double sum;
static pthread_mutex_t total_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t all;
static pthread_rwlock_t guard = PTHREAD_RWLOCK_INITIALIZER;
static const struct timespec never = {1L << 40, 0};

/* Thread i works i + 1 times as long as the first. */
static void *unequal(void *number)
{
    double mine = 0;
    for (int r = 0; r < rounds; r++) {
        mine += spin(20000 * ((long)number + 1));
        pthread_barrier_wait(&all);
    }
    pthread_mutex_lock(&total_lock);
    sum += mine;
    pthread_mutex_unlock(&total_lock);
    return NULL;
}

/* Half of the work is under one lock. */
static void *locked(void *number)
{
    (void)number;
    for (int r = 0; r < rounds; r++) {
        double mine = spin(20000);
        r % 2 ? pthread_mutex_lock(&total_lock) : pthread_mutex_clocklock(&total_lock, CLOCK_MONOTONIC, &never);
        sum += mine + spin(20001);
        pthread_mutex_unlock(&total_lock);
    }
    return NULL;
}

/* All that is done needs the lock; `how` is one of the functions that take it. */
static void reads(int how)
{
    how == 0   ? pthread_rwlock_rdlock(&guard)
    : how == 1 ? pthread_rwlock_tryrdlock(&guard)
    : how == 2 ? pthread_rwlock_timedrdlock(&guard, &never)
               : pthread_rwlock_clockrdlock(&guard, CLOCK_MONOTONIC, &never);
    spin(20000);
    pthread_rwlock_unlock(&guard);
}

static void writes(int how)
{
    how == 0   ? pthread_rwlock_wrlock(&guard)
    : how == 1 ? pthread_rwlock_timedwrlock(&guard, &never)
               : pthread_rwlock_clockwrlock(&guard, CLOCK_MONOTONIC, &never);
    sum += spin(20000);
    pthread_rwlock_unlock(&guard);
}

static void *all_read(void *number)
{
    for (int r = 0; r < rounds; r++)
        reads(r % 4);
    return number;
}

static void *first_writes(void *number)
{
    for (int r = 0; r < rounds; r++)
        number ? reads(0) : writes(r % 3);
    return number;
}

static void *all_read_then_write(void *number)
{
    for (int r = 0; r < rounds; r++) {
        reads(r % 4);
        pthread_barrier_wait(&all);
        writes(r % 3);
        pthread_barrier_wait(&all);
    }
    return number;
}

/* Threads take turns: nothing overlaps. */
static long turn, threads;
static void *in_turn(void *number)
{
    for (int r = 0; r < rounds; r++) {
        pthread_mutex_lock(&total_lock);
        while (turn % threads != (long)number)
            pthread_cond_wait(&turn_changed, &total_lock);
        sum += spin(20000);
        turn++;
        pthread_cond_broadcast(&turn_changed);
        pthread_mutex_unlock(&total_lock);
    }
    return NULL;
}

#ifdef _OPENMP
/* The work of each level of a tree is the same: what joins two halves comes after both. */
static double tree(int parts)
{
    double left = 0, right = 0;
    if (parts > 1) {
#pragma omp task shared(left)
        left = tree(parts / 2);
#pragma omp task shared(right)
        right = tree(parts / 2);
#pragma omp taskwait
    }
    return left + right + spin(20000 * parts);
}

/* Tasks that write, each after the one that wrote before it to one of so many chains. */
static void chains(int many, int tasks)
{
    char of[2];
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < tasks; i++) {
#pragma omp task depend(inout : of[i % many])
        spin(40000 + (i < 0));
    }
    (void)of;
}

/* Each cell of a table comes after those above and to the left of it. */
static void wavefront(void)
{
    enum { SIDE = 4 };
    char of[SIDE + 1][SIDE + 1];
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < SIDE * SIDE; i++) {
        char *one = &of[1 + i / SIDE][1 + i % SIDE];
#pragma omp task depend(in : one[-1], one[-SIDE - 1]) depend(out : *one)
        spin(50000 + (i < 0));
    }
}

/* What the readers read is written before, and again after all of them. */
static void readers(void)
{
    char of;
    omp_depend_t reading;
#pragma omp depobj(reading) depend(in : of)
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < PARTS / 4 + 2; i++) {
        if (i % (PARTS / 4 + 1) == 0) {
#pragma omp task depend(mutexinoutset : of)
            spin(80000 + (i < 0));
        } else {
#pragma omp task depend(depobj : reading)
            spin(80000 + (i < 0));
        }
    }
#pragma omp depobj(reading) destroy
    (void)of;
}

/* Who makes tasks waits for the shorter of two, with or without work that is done at once. */
static void waits(int works)
{
    char shorter, longer;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task depend(out : shorter)
        spin(200000);
#pragma omp task depend(out : longer)
        spin(400000);
        spin(100000); /* others have begun both */
        if (works) {
#pragma omp task depend(in : shorter) if (0)
            spin(300000);
        } else {
#pragma omp taskwait depend(in : shorter)
            spin(300000);
        }
    }
    (void)shorter, (void)longer;
}

/* Half of the work is under one lock, of which a thread asks first whether it is free. */
static void test_locked(omp_lock_t *lock)
{
    double mine = spin(20000);
    if (!omp_test_lock(lock))
        omp_set_lock(lock);
    sum += mine + spin(20001);
    omp_unset_lock(lock);
}

/* ... which a thread has twice. */
static void nest_locked(omp_nest_lock_t *lock)
{
    double mine = spin(20000);
    omp_set_nest_lock(lock);
    if (omp_test_nest_lock(lock) == 2)
        mine += spin(10000);
    omp_unset_nest_lock(lock);
    sum += mine + spin(10001);
    omp_unset_nest_lock(lock);
}

static void with_locks(int nested)
{
    omp_lock_t lock;
    omp_nest_lock_t nest;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
#pragma omp parallel
    for (int r = 0; r < rounds; r++) {
        if (nested)
            nest_locked(&nest);
        else
            test_locked(&lock);
    }
}

/* Each loop waits for the thread with most of its work, which is another one in every second loop. */
static void cancellable(int at_once)
{
#pragma omp parallel
    {
#pragma omp cancel parallel if (at_once)
#pragma omp for schedule(static)
        for (int i = 0; i < PARTS; i++)
            spin(100 * (i + 1));
#pragma omp for schedule(static)
        for (int i = 0; i < PARTS; i++)
            spin(100 * (PARTS - i));
#pragma omp for schedule(dynamic, PARTS / threads)
        for (int i = 0; i < PARTS; i++)
            spin(100 * (i + 1));
#pragma omp for schedule(dynamic, PARTS / threads)
        for (int i = 0; i < PARTS; i++)
            spin(100 * (PARTS - i));
    }
}

/* No loop waits for another thread: each has the same work in the end. */
static double reduced(void)
{
    double one = 0, two = 0;
#pragma omp parallel
    {
#pragma omp for schedule(static) reduction(+ : one) nowait
        for (int i = 0; i < PARTS; i++)
            one += spin(100 * (i + 1));
#pragma omp for schedule(static) reduction(+ : two) nowait
        for (int i = 0; i < PARTS; i++)
            two += spin(100 * (PARTS - i));
    }
    return one + two;
}

/* One thread computes what all need before they go on. */
static void copied(void)
{
    double own;
#pragma omp parallel private(own)
    for (int r = 0; r < rounds; r++) {
#pragma omp single copyprivate(own)
        own = spin(20000);
        spin(20000 + (own < 0));
    }
}

/* One, two, three and four parts of work. */
static void sections(void)
{
#pragma omp parallel sections
    {
#pragma omp section
        spin(100000);
#pragma omp section
        spin(200000);
#pragma omp section
        spin(300000);
#pragma omp section
        spin(400000);
    }
}

/* Two threads, of which one has twice the work of the other, share it among half of all threads each. */
static void nested(void)
{
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    for (int r = 0; r < rounds * (1 + omp_get_thread_num()); r++) {
#pragma omp parallel for num_threads(threads / 2) schedule(static)
        for (int i = 0; i < PARTS; i++)
            spin(2000);
    }
}
#endif

static void with_threads(void *(*work)(void *))
{
    pthread_t made[MOST];
    pthread_barrier_init(&all, NULL, threads);
    for (long i = 0; i < threads; i++)
        pthread_create(&made[i], NULL, work, (void *)i);
    for (long i = 0; i < threads; i++)
        pthread_join(made[i], NULL);
}

int main(int count, char **words)
{
    double mine = 0;
    rounds = atoi(words[2]);
    threads = count > 3 ? atoi(words[3]) : 1;
    if (!strcmp(words[1], "unequal"))
        with_threads(unequal);
    if (!strcmp(words[1], "locked"))
        with_threads(locked);
    if (!strcmp(words[1], "in-turn"))
        with_threads(in_turn);
    if (!strcmp(words[1], "read"))
        with_threads(all_read);
    if (!strcmp(words[1], "first-writes"))
        with_threads(first_writes);
    if (!strcmp(words[1], "read-write"))
        with_threads(all_read_then_write);
#ifdef _OPENMP
    if (strstr(words[1], "-locked"))
        with_locks(!strcmp(words[1], "nest-locked"));
    if (!strcmp(words[1], "copied"))
        copied();
    if (!strcmp(words[1], "nested"))
        nested();
    for (int r = 0; r < rounds; r++) {
        if (!strcmp(words[1], "cancellable"))
            cancellable(rounds < 0);
        if (!strcmp(words[1], "reduced"))
            mine += reduced();
        if (!strcmp(words[1], "sections"))
            sections();
        if (!strcmp(words[1], "chain"))
            chains(1, 4 * PARTS);
        if (!strcmp(words[1], "two-chains"))
            chains(2, PARTS);
        if (!strcmp(words[1], "wavefront"))
            wavefront();
        if (!strcmp(words[1], "readers"))
            readers();
        if (!strcmp(words[1], "waits"))
            waits(r % 2);
        if (!strcmp(words[1], "triangle")) {
#pragma omp parallel for reduction(+ : mine) schedule(static)
            for (int i = 0; i < PARTS; i++)
                mine += spin(100 * (i + 1));
        }
        if (!strcmp(words[1], "dynamic")) {
#pragma omp parallel for reduction(+ : mine) schedule(dynamic)
            for (int i = 0; i < PARTS; i++)
                mine += spin(100 * (i + 1));
        }
        if (!strcmp(words[1], "tasks")) {
            static double of[PARTS];
#pragma omp parallel
#pragma omp single
            for (int i = 0; i < PARTS; i++) {
#pragma omp task
                of[i] = spin(100 * (i + 1));
            }
            mine += of[PARTS / 2];
        }
        if (!strcmp(words[1], "task-loop")) {
            static double of[PARTS];
#pragma omp parallel
#pragma omp single
#pragma omp taskloop grainsize(1)
            for (int i = 0; i < PARTS; i++)
                of[i] = spin(12800);
            mine += of[PARTS / 2];
        }
        if (!strcmp(words[1], "at-once")) {
            static double of[PARTS];
#pragma omp parallel for schedule(static, 1)
            for (int i = 0; i < PARTS; i++) {
#pragma omp task if (0)
                of[i] = spin(3000);
            }
            mine += of[PARTS / 2];
        }
        if (!strcmp(words[1], "tree")) {
#pragma omp parallel
#pragma omp single
            mine += spin(20000) + tree(4); /* when the others wait for tasks */
        }
        if (!strcmp(words[1], "serial")) {
            mine += spin(PARTS * 3000);
#pragma omp parallel for reduction(+ : mine) schedule(static)
            for (int i = 0; i < PARTS; i++)
                mine += spin(9000);
        }
    }
#endif
    printf("%.6f\n", mine + sum);
    return 0;
}
