/* Threads whose speedup is arithmetic: teams WHAT ROUNDS [THREADS]; prints how much was done. OpenMP's number of threads is its own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        pthread_mutex_lock(&total_lock);
        sum += mine + spin(20001);
        pthread_mutex_unlock(&total_lock);
    }
    return NULL;
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
#ifdef _OPENMP
    for (int r = 0; r < rounds; r++) {
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
