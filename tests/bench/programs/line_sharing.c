/* Two threads that want one cache line: line_sharing WHAT [ROUNDS]. Without rounds each does it for a while, to be traced; with them the
 * program prints the nanoseconds of one time, alone and with both, of each round in which both had their CPUs all the while. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define TRACED_STEPS 20000000 /* of each thread */
#define PIECE 1000
#define ROUND_NANOSECONDS 1500000

static struct {
    _Alignas(128) volatile long words[8];
} line;
static struct guarded {
    pthread_spinlock_t lock;
    volatile int count;
} _Alignas(128) guarded[2];
static _Alignas(128) atomic_int over;
static struct {
    _Alignas(128) double begin, each;
    unsigned long x;
    long switches;
} players[2];
static struct timespec meet;

static _Alignas(128) const unsigned char table[64] = {1, 7, 3, 9};

/* Work that has nothing to do with the line: another mix than the probe's. */
static inline __attribute__((always_inline)) unsigned long work(unsigned long x, int steps)
{
    for (int i = 0; i < steps; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x += table[i % 64];
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

#define PROGRAM(name, steps, does)                                                       \
    static __attribute__((noinline)) unsigned long name(int me, long n, unsigned long x) \
    {                                                                                    \
        for (long i = 0; i < n; i++) {                                                   \
            x = work(x, steps);                                                          \
            does;                                                                        \
        }                                                                                \
        return x;                                                                        \
    }

PROGRAM(count_2, 2, line.words[me]++)
PROGRAM(count_12, 12, line.words[me]++)
PROGRAM(count_40, 40, line.words[me]++)
PROGRAM(count_150, 150, line.words[me]++)
PROGRAM(read_12, 12, (void)(me ? line.words[1] = (long)x : line.words[0]))
PROGRAM(store_12, 12, line.words[me] = (long)x)
PROGRAM(words_12, 12, line.words[2 * me]++; line.words[2 * me + 1] += 3)
PROGRAM(unlike, me ? 40 : 12, line.words[me]++)
PROGRAM(atomic_2, 2, atomic_fetch_add((_Atomic long *)&line.words[me], 1))
PROGRAM(atomic_30, 30, atomic_fetch_add((_Atomic long *)&line.words[me], 1))
PROGRAM(spin_30, 30, pthread_spin_lock(&guarded[me].lock); guarded[me].count++; pthread_spin_unlock(&guarded[me].lock))

static const struct program {
    const char *name;
    unsigned long (*run)(int me, long n, unsigned long x);
    int steps[2];
} programs[] = {{"count_2", count_2, {2, 2}},         {"count_12", count_12, {12, 12}}, {"count_40", count_40, {40, 40}},
                {"count_150", count_150, {150, 150}}, {"read_12", read_12, {12, 12}},   {"store_12", store_12, {12, 12}},
                {"words_12", words_12, {12, 12}},     {"unlike", unlike, {12, 40}},     {"atomic_2", atomic_2, {2, 2}},
                {"atomic_30", atomic_30, {30, 30}},   {"spin_30", spin_30, {30, 30}}};
static const struct program *program;
static pthread_barrier_t together;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static long switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

static void *count(void *number)
{
    const int me = (int)(long)number;
    pthread_barrier_wait(&together);
    players[me].x = program->run(me, TRACED_STEPS / program->steps[me], 1);
    return NULL;
}

static void *play(void *number)
{
    const int me = (int)(long)number;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &meet, NULL);
    const long before = switches();
    const double begin = now();
    double end = begin;
    long n = 0;
    for (; !atomic_load_explicit(&over, memory_order_relaxed) && end < begin + ROUND_NANOSECONDS; n += PIECE) {
        players[me].x = program->run(me, PIECE, players[me].x);
        end = now();
    }
    atomic_store(&over, 1);
    players[me].begin = begin;
    players[me].switches = switches() - before;
    players[me].each = n ? (end - begin) / (double)n : 0;
    return NULL;
}

static void both(void *(*what)(void *))
{
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) {
        pthread_attr_t attributes;
        cpu_set_t set;
        pthread_attr_init(&attributes);
        CPU_ZERO(&set);
        CPU_SET(i, &set);
        if (what == play)
            pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
        if (pthread_create(&threads[i], &attributes, what, (void *)i))
            exit(1);
        pthread_attr_destroy(&attributes);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static double alone(int me)
{
    double least = 1e9;
    for (int i = 0; i < 60; i++) {
        const double begin = now();
        players[me].x = program->run(me, PIECE, players[me].x);
        const double each = (now() - begin) / PIECE;
        least = each < least ? each : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs && argc > 1; i++)
        if (!strcmp(argv[1], programs[i].name))
            program = &programs[i];
    if (!program || pthread_barrier_init(&together, NULL, 2))
        return 2;
    for (int i = 0; i < 2; i++)
        pthread_spin_init(&guarded[i].lock, 0);
    if (argc < 3) {
        both(count);
        return 0;
    }
    printf("%.3f %.3f\n", alone(0), alone(1));
    for (int round = 0; round < atoi(argv[2]); round++) {
        atomic_store(&over, 0);
        clock_gettime(CLOCK_MONOTONIC, &meet);
        meet.tv_nsec += 2 * ROUND_NANOSECONDS;
        meet.tv_sec += meet.tv_nsec / 1000000000;
        meet.tv_nsec %= 1000000000;
        both(play);
        const double late = players[0].begin - players[1].begin;
        const int alone_there = late * late > ROUND_NANOSECONDS / 10.0 * (ROUND_NANOSECONDS / 10.0);
        if (!players[0].switches && !players[1].switches && !alone_there && players[0].each > 0 && players[1].each > 0)
            printf("%.3f %.3f\n", players[0].each, players[1].each);
    }
    return 0;
}
