#define _GNU_SOURCE
#include "together.h"

#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../clock.h"
#include "../pinning.h"

static double seconds;

double cv_together_seconds(void) { return seconds; }

void cv_add_together(double more) { seconds += more; }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static size_t turn;
static size_t rounds;
static size_t parties; /* of a barrier */
static _Alignas(128) atomic_size_t ball;
static _Alignas(128) atomic_size_t arrived;
static _Alignas(128) atomic_size_t passed;
static _Alignas(128) atomic_int runs;
static _Alignas(128) volatile long counters[2];
static _Alignas(128) atomic_long sum;
static _Alignas(128) atomic_int taken;
static _Alignas(128) double guarded;

#define STEPS_BETWEEN 20         /* of a chain of additions and multiplications */
#define INSIDE 12                /* ... chains with the lock, some 0.5 us, */
#define OUTSIDE 9                /* ... and without it: longer than it takes to pass, so that it always goes to the other */
#define CROWD 4                  /* threads a CPU */
#define ROUND 8                  /* other CPUs that are played with, evenly spaced: near ones and far ones */
#define LOOKS 100                /* of GCC's runtime of OpenMP before a thread sleeps, where there are more threads than CPUs */
#define ENDED_NANOSECONDS 200000 /* after which a thread that does nothing has certainly ended, */
#define ASLEEP_NANOSECONDS 50000 /* ... and one that is about to sleep does */
#define SLEEPERS 8               /* that one call wakes: where there are fewer CPUs, several on one */
#define LINES 1024               /* that two hand to and fro: more than first levels hold, less than second ones */
#define LINE_WORDS 8

static _Alignas(4096) volatile long lines[LINES * LINE_WORDS];

/* Two that want a line at the same time: from when to when, how often it did what, and whether others had its CPU meanwhile. */
struct contender {
    _Alignas(128) double begin;
    double end;
    size_t times;
    long switches;
};

#define CONTENDED_SECONDS 0.001
#define LOOKS_ALONE 5
#define NOTHING 1e-13 /* seconds that are none */

static struct contender contenders[2];
static struct {
    _Alignas(128) volatile unsigned long x;
} worked[2];
static void (*contended)(size_t player);
static struct timespec meet;
static _Alignas(128) atomic_int over;
static double phases[2]; /* seconds that the players take for all lines */

/* In a loop that waits for a store: leaves the core to whoever shares it. */
static inline void cv_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Runs `function` on a CPU; 0 when it does. */
static int cv_on(int cpu, pthread_t *thread, void *(*function)(void *))
{
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

int cv_other_cpus(void)
{
    static int others = -1;
    if (others < 0)
        for (others = 0; cv_other_cpu(sched_getcpu(), others) >= 0;)
            others++;
    return others;
}

static int cv_game; /* so many were played */

int cv_spaced(int number)
{
    const int others = cv_other_cpus(), step = others > ROUND ? others / ROUND : 1;
    return number * step % others;
}

/* ... on another one, which changes from game to game. */
static int cv_beside(pthread_t *thread, void *(*function)(void *))
{
    return cv_other_cpus() ? cv_on(cv_other_cpu(sched_getcpu(), cv_spaced(cv_game)), thread, function) : 1;
}

static void *cv_says_that_it_runs(void *argument)
{
    atomic_store(&runs, 1);
    return argument;
}

static size_t cv_make_threads(size_t times, int until_it_runs)
{
    cv_game++;
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

/* After it has ended. */
size_t cv_thread_join(size_t times)
{
    cv_game++;
    for (size_t i = 0; i < times; i++) {
        pthread_t thread;
        if (cv_beside(&thread, cv_says_that_it_runs))
            return 0;
        nanosleep(&(struct timespec){.tv_nsec = ENDED_NANOSECONDS}, NULL);
        const double begin = cv_now();
        pthread_join(thread, NULL);
        seconds += cv_now() - begin;
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

static void *cv_sleeper(void *argument)
{
    for (size_t i = 0; i < rounds; i++) {
        atomic_fetch_add(&arrived, 1);
        while (atomic_load(&runs) == (int)i)
            syscall(SYS_futex, &runs, FUTEX_WAIT_PRIVATE, (int)i, NULL, NULL, 0);
    }
    return argument;
}

size_t cv_thread_wake_each(size_t times)
{
    pthread_t threads[SLEEPERS];
    const int here = sched_getcpu(), others = cv_other_cpus();
    size_t made = 0;
    rounds = times;
    atomic_store(&arrived, 0);
    atomic_store(&runs, 0);
    while (others && made < SLEEPERS && !cv_on(cv_other_cpu(here, (int)made % others), &threads[made], cv_sleeper))
        made++;
    for (size_t i = 0; i < rounds; i++) {
        while (atomic_load(&arrived) < (i + 1) * made)
            sched_yield();
        nanosleep(&(struct timespec){.tv_nsec = ASLEEP_NANOSECONDS}, NULL);
        atomic_fetch_add(&runs, 1);
        const double begin = cv_now();
        syscall(SYS_futex, &runs, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
        seconds += cv_now() - begin;
    }
    for (size_t i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    return made == SLEEPERS ? times * SLEEPERS : 0;
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
        if (atomic_fetch_add(&arrived, 1) + 1 == (i + 1) * parties)
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
    cv_game++;
    game = what;
    parties = 2;
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

enum { LATER, NOW, NEVER };

static void *cv_one_of_all(void *argument)
{
    int when = LATER;
    while ((when = atomic_load(&runs)) == LATER)
        continue;
    if (when == NOW)
        cv_meet(0);
    return argument;
}

size_t cv_thread_barrier_all(size_t times)
{
    pthread_t threads[CPU_SETSIZE];
    const int here = sched_getcpu();
    const size_t wanted = (size_t)cv_other_cpus();
    size_t made = 0;
    if (wanted < 2)
        return 0;
    rounds = times;
    parties = wanted + 1;
    atomic_store(&arrived, 0);
    atomic_store(&passed, 0);
    atomic_store(&runs, LATER);
    while (made < wanted && !cv_on(cv_other_cpu(here, (int)made), &threads[made], cv_one_of_all))
        made++;
    atomic_store(&runs, made == wanted ? NOW : NEVER);
    const double begin = cv_now();
    if (made == wanted)
        cv_meet(0);
    seconds += cv_now() - begin;
    for (size_t i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    return made == wanted ? times : 0;
}

/* A barrier of more threads than CPUs, as GCC's runtime of OpenMP has it: whoever waits looks for a moment, then sleeps. */
static void cv_meet_asleep(void)
{
    const size_t all = 2 * CROWD;
    for (size_t i = 0; i < rounds; i++) {
        if (atomic_fetch_add(&arrived, 1) + 1 == (i + 1) * all) {
            atomic_fetch_add(&runs, 1);
            syscall(SYS_futex, &runs, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
            continue;
        }
        for (int look = 0; look < LOOKS && atomic_load_explicit(&runs, memory_order_acquire) == (int)i; look++)
            cv_relax();
        while (atomic_load_explicit(&runs, memory_order_acquire) == (int)i)
            syscall(SYS_futex, &runs, FUTEX_WAIT_PRIVATE, (int)i, NULL, NULL, 0);
    }
}

static void *cv_one_of_a_crowd(void *argument)
{
    cv_meet_asleep();
    return argument;
}

size_t cv_thread_asleep(size_t times)
{
    pthread_t threads[2 * CROWD];
    const int here = sched_getcpu();
    size_t made = 0;
    rounds = times + 1; /* the first waits until all are made */
    atomic_store(&arrived, 0);
    atomic_store(&runs, 0);
    const int there = cv_other_cpu(here, 0);
    while (there >= 0 && made + 1 < 2 * CROWD && !cv_on(made % 2 ? here : there, &threads[made], cv_one_of_a_crowd))
        made++;
    if (made + 1 < 2 * CROWD)
        return 0;
    while (atomic_load(&arrived) < made)
        sched_yield();
    const double begin = cv_now();
    cv_meet_asleep();
    seconds += cv_now() - begin;
    for (size_t i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    return (times + 1) * CROWD; /* of one thread, a CPU */
}

static double cv_some_work(double x)
{
    for (int i = 0; i < STEPS_BETWEEN; i++)
        x = x * 0.99 + 0.5;
    return x;
}

static double cv_more_work(double x, int times)
{
    for (int i = 0; i < times; i++)
        x = cv_some_work(x);
    return x;
}

static void cv_pass(size_t player)
{
    double own = (double)player;
    for (size_t i = 0; i < rounds; i++) {
        while (atomic_exchange_explicit(&taken, 1, memory_order_acquire))
            while (atomic_load_explicit(&taken, memory_order_relaxed))
                cv_relax();
        guarded = cv_more_work(guarded, INSIDE);
        atomic_store_explicit(&taken, 0, memory_order_release);
        own = cv_more_work(own, OUTSIDE);
    }
    if (own < 0)
        guarded = own;
}

/* Work with integers, of which a core does little ahead while it waits for a line, as of most code. */
static inline __attribute__((always_inline)) unsigned long cv_steps(unsigned long x, int steps)
{
    for (int i = 0; i < steps; i++) {
        x = x * 6364136223846793005ul + 1442695040888963407ul;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* Counts in a word of one line, or adds atomically to one word, with so many steps of work between. */
static inline __attribute__((always_inline)) void cv_count_after(size_t player, int steps)
{
    unsigned long x = player;
    for (size_t i = 0; i < rounds; i++) {
        x = cv_steps(x, steps);
        counters[player]++;
    }
    worked[player].x = x;
}

static inline __attribute__((always_inline)) void cv_add_after(size_t player, int steps)
{
    unsigned long x = player;
    for (size_t i = 0; i < rounds; i++) {
        x = cv_steps(x, steps);
        atomic_fetch_add(&sum, 1);
    }
    worked[player].x = x;
}

static void cv_count(size_t player) { cv_count_after(player, 0); }

static void cv_add(size_t player) { cv_add_after(player, 0); }

static void cv_step_often(size_t player)
{
    unsigned long x = player;
    for (size_t i = 0; i < rounds; i++)
        x = cv_steps(x, 1);
    worked[player].x = x;
}

static size_t cv_alone(size_t times, void (*what)(size_t player))
{
    rounds = times;
    const double begin = cv_now();
    what(0);
    seconds += cv_now() - begin;
    return times;
}

/* Two pass a lock to and fro: what passes between two holders is all that is not work of one of them. */
size_t cv_thread_pass(size_t times)
{
    const double before = seconds;
    const double begin = cv_now();
    double x = guarded;
    for (size_t i = 0; i < times; i++)
        x = cv_more_work(x, INSIDE);
    guarded = x;
    const double inside = cv_now() - begin;
    const size_t played = cv_play(times, cv_pass, 2 * times);
    const double passed = seconds - before - 2 * inside;
    seconds = before + passed;
    return passed > 0 ? played : 0; /* the work alone was disturbed */
}

/* Does it again and again until its time is up or the other has ended: what one does after that is not beside the other. */
static void cv_contend(size_t player)
{
    struct contender *own = &contenders[player];
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &meet, NULL);
    const long before = cv_switches();
    own->times = 0;
    own->begin = own->end = cv_now();
    while (!atomic_load_explicit(&over, memory_order_relaxed) && own->end - own->begin < CONTENDED_SECONDS) {
        contended(player);
        own->times += rounds;
        own->end = cv_now();
    }
    atomic_store(&over, 1);
    own->switches = cv_switches() - before;
}

/* Seconds of each time of two that do it at once, both on their CPUs all the while; 0 where they were not. */
static double cv_both(size_t times, void (*what)(size_t player))
{
    const double before = seconds, later = 1e9 * CONTENDED_SECONDS;
    const struct contender *one = &contenders[0], *other = &contenders[1];
    contended = what;
    atomic_store(&over, 0);
    clock_gettime(CLOCK_MONOTONIC, &meet);
    meet.tv_nsec += 2 * (long)later; /* who has slept gets a CPU at once */
    meet.tv_sec += meet.tv_nsec / 1000000000;
    meet.tv_nsec %= 1000000000;
    if (!cv_play(times, cv_contend, times))
        return 0;
    seconds = before;
    const double late = one->begin > other->begin ? one->begin - other->begin : other->begin - one->begin;
    if (one->switches || other->switches || late > CONTENDED_SECONDS / 10 || !one->times || !other->times)
        return 0;
    return 2 / ((double)one->times / (one->end - one->begin) + (double)other->times / (other->end - other->begin));
}

static size_t cv_together(size_t times, void (*what)(size_t player))
{
    const double each = cv_both(times, what);
    seconds += each;
    return 1;
}

/* What each of two loses, each time, to one that does the same alone. */
static size_t cv_lost(size_t times, void (*what)(size_t player))
{
    const double before = seconds, both = cv_both(times, what);
    double alone = HUGE_VAL;
    for (int i = 0; i < LOOKS_ALONE && both; i++) {
        const double begin = seconds;
        cv_alone(times, what);
        alone = fmin(alone, (seconds - begin) / (double)times);
    }
    seconds = before + (both ? fmax(both - alone, NOTHING) : 0);
    return 1;
}

size_t cv_thread_counter(size_t times) { return cv_alone(times, cv_count); }

size_t cv_thread_counters(size_t times) { return cv_together(times, cv_count); }

size_t cv_thread_sum(size_t times) { return cv_alone(times, cv_add); }

size_t cv_thread_sums(size_t times) { return cv_together(times, cv_add); }

size_t cv_thread_step(size_t times) { return cv_alone(times, cv_step_often); }

#define AFTER(steps)                                                                                 \
    static void cv_count_after_##steps(size_t player) { cv_count_after(player, steps); }             \
    static void cv_add_after_##steps(size_t player) { cv_add_after(player, steps); }                 \
    size_t cv_thread_shared_##steps(size_t times) { return cv_lost(times, cv_count_after_##steps); } \
    size_t cv_thread_atomic_##steps(size_t times) { return cv_lost(times, cv_add_after_##steps); }
AFTER(3)
AFTER(9)
AFTER(27)
AFTER(81)
AFTER(243)

/* One stores to all lines, then the other loads them. */
static void cv_hand_over(size_t player)
{
    phases[player] = 0;
    for (size_t i = 0; i < rounds; i++) {
        while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * i + player)
            continue;
        const double begin = cv_now();
        for (size_t at = 0; at < LINES * LINE_WORDS; at += LINE_WORDS) {
            if (player)
                (void)lines[at];
            else
                lines[at] = (long)i;
        }
        atomic_thread_fence(memory_order_seq_cst);  /* the stores have left their buffer */
        phases[player] += i ? cv_now() - begin : 0; /* at first nobody has the lines */
        atomic_store_explicit(&ball, 2 * i + player + 1, memory_order_release);
    }
}

static size_t cv_hand_lines(size_t times, int player)
{
    const double before = seconds;
    const size_t played = cv_play(times + 1, cv_hand_over, times * LINES);
    seconds = before + phases[player];
    return played;
}

size_t cv_thread_given(size_t times) { return cv_hand_lines(times, 1); }

size_t cv_thread_taken(size_t times) { return cv_hand_lines(times, 0); }

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
