#define _GNU_SOURCE
#include "together.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "../clock.h"
#include "../pinning.h"

static double seconds;

double cv_together_seconds(void) { return seconds; }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static size_t turn;
static size_t rounds;
static _Alignas(128) atomic_size_t ball;
static _Alignas(128) atomic_size_t arrived;
static _Alignas(128) atomic_size_t passed;
static _Alignas(128) atomic_int runs;
static _Alignas(128) volatile long counters[2];
static _Alignas(128) atomic_long sum;

#define STEPS_BETWEEN 20 /* of a chain of additions and multiplications */

/* Runs `function` on another CPU; 0 when it does. */
static int cv_beside(pthread_t *thread, void *(*function)(void *))
{
    const int cpu = cv_other_cpu(sched_getcpu(), 0);
    pthread_attr_t attributes;
    cpu_set_t set;
    if (cpu < 0 || pthread_attr_init(&attributes))
        return 1;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    const int failed = pthread_attr_setaffinity_np(&attributes, sizeof set, &set) || pthread_create(thread, &attributes, function, NULL);
    pthread_attr_destroy(&attributes);
    return failed;
}

static void *cv_says_that_it_runs(void *argument)
{
    atomic_store(&runs, 1);
    return argument;
}

static size_t cv_make_threads(size_t times, int until_it_runs)
{
    for (size_t i = 0; i < times; i++) {
        pthread_t thread;
        atomic_store(&runs, 0);
        const double begin = cv_now();
        if (cv_beside(&thread, cv_says_that_it_runs))
            return 0;
        const double made = cv_now();
        while (!atomic_load(&runs))
            continue;
        seconds += until_it_runs ? cv_now() - made : made - begin;
        pthread_join(thread, NULL);
    }
    return times;
}

size_t cv_thread_create(size_t times) { return cv_make_threads(times, 0); }

size_t cv_thread_start(size_t times) { return cv_make_threads(times, 1); }

/* Player 0 or 1 of a game for two: each turn is the other's signal. */
static void cv_play_asleep(size_t player)
{
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < rounds; i++) {
        while (turn != 2 * i + player)
            pthread_cond_wait(&changed, &mutex);
        turn++;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&mutex);
}

static void cv_play_awake(size_t player)
{
    for (size_t i = 0; i < rounds; i++) {
        while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * i + player)
            continue;
        atomic_store_explicit(&ball, 2 * i + player + 1, memory_order_release);
    }
}

static void cv_meet(size_t player)
{
    (void)player;
    for (size_t i = 0; i < rounds; i++) {
        if (atomic_fetch_add(&arrived, 1) == 2 * i + 1)
            atomic_store(&passed, i + 1);
        while (atomic_load_explicit(&passed, memory_order_acquire) <= i)
            continue;
    }
}

static void (*game)(size_t player);

static void *cv_second_player(void *argument)
{
    atomic_store(&runs, 1);
    game(1);
    return argument;
}

static size_t cv_play(size_t times, void (*what)(size_t player), size_t events)
{
    pthread_t thread;
    game = what;
    rounds = times;
    turn = 0;
    atomic_store(&ball, 0);
    atomic_store(&arrived, 0);
    atomic_store(&passed, 0);
    atomic_store(&runs, 0);
    if (cv_beside(&thread, cv_second_player))
        return 0;
    while (!atomic_load(&runs))
        continue;
    const double begin = cv_now();
    game(0);
    seconds += cv_now() - begin;
    pthread_join(thread, NULL);
    return events;
}

size_t cv_thread_wake(size_t times) { return cv_play(times, cv_play_asleep, 2 * times); }

size_t cv_thread_handover(size_t times) { return cv_play(times, cv_play_awake, 2 * times); }

size_t cv_thread_barrier(size_t times) { return cv_play(times, cv_meet, times); }

static double cv_some_work(double x)
{
    for (int i = 0; i < STEPS_BETWEEN; i++)
        x = x * 0.99 + 0.5;
    return x;
}

static void cv_count(size_t player)
{
    for (size_t i = 0; i < rounds; i++)
        counters[player]++;
}

static void cv_count_now_and_then(size_t player)
{
    for (size_t i = 0; i < rounds; i++)
        counters[player] += cv_some_work((double)i) < 0;
}

static void cv_add_now_and_then(size_t player)
{
    (void)player;
    for (size_t i = 0; i < rounds; i++)
        atomic_fetch_add(&sum, cv_some_work((double)i) < 0);
}

static size_t cv_alone(size_t times, void (*what)(size_t player))
{
    rounds = times;
    const double begin = cv_now();
    what(0);
    seconds += cv_now() - begin;
    return times;
}

/* What two lose to one that does the same alone. */
static size_t cv_lost(size_t times, void (*what)(size_t player))
{
    const double before = seconds;
    cv_alone(times, what);
    const double alone = seconds - before;
    seconds = before;
    const size_t played = cv_play(times, what, times);
    const double lost = seconds - before - alone, least = 1e-12 * (double)times;
    seconds = before + (lost > least ? lost : least);
    return played;
}

size_t cv_thread_shared(size_t times) { return cv_lost(times, cv_count_now_and_then); }

size_t cv_thread_shared_atomic(size_t times) { return cv_lost(times, cv_add_now_and_then); }

size_t cv_thread_counter(size_t times) { return cv_alone(times, cv_count); }

size_t cv_thread_counters(size_t times) { return cv_play(times, cv_count, times); }

size_t cv_thread_lock(size_t times)
{
    const double begin = cv_now();
    for (size_t i = 0; i < times; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    seconds += cv_now() - begin;
    return times;
}
