/* Replay of a program's threads on a machine with some cores: what waits for what is what the trace says, how long follows from the work
 * between (docs/tasks/threads.md).
 *
 * Locks are granted in the order of arrival, but readers pass writers that wait, as in glibc; chunks of dynamic loops in that of the trace
 * to whoever asks, barriers open when all have come. Only mutexes that belong to a condition variable keep the order of the trace, because
 * it carries data (queues); who is woken has them when it comes. */
#ifndef CV_THREADS_REPLAY_H
#define CV_THREADS_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "cv_status.h"
#include "cv_threads.h"

/* Seconds that events take. */
typedef struct {
    double create;    /* of a thread, for the one that makes it */
    double start;     /* from there until it runs */
    double join;      /* of a thread that has ended */
    double wake;      /* from a call that wakes a sleeping thread until it runs */
    double wake_each; /* ... more for each that the same call wakes first; the caller takes that for all but one, too */
    double spin;      /* how long runtimes of OpenMP look before they sleep */
    double fork;      /* of a parallel region with one more thread */
    double fork_each; /* ... for each further one */
    double barrier;   /* of two threads */
    double barrier_each;
    double lock;     /* lock and unlock, free */
    double handover; /* of a word of memory to one that looks for it */
    double pass;     /* of a lock to one on another core, until it has what the lock guards */
    double asleep;   /* of its processor: a thread that sleeps at once where others need its core, until it goes on */
    double chunk;    /* of a loop that is shared out */
    double call;     /* a system call */
    double fault;    /* a page that the process gets */
    double counter;  /* a store to a line of its own and the load of it, where a thread does nothing else ... */
    double sum;      /* ... an atomic operation */
    double crowded;  /* how many times longer each of two threads takes that do this to words of one line ... */
    double crowded_atomic;
    double step; /* of work between ... */
    /* ... and what each of the two then loses every time, so many steps after the last one. */
    double shared_3, shared_9, shared_27, shared_81, shared_243;
    double atomic_3, atomic_9, atomic_27, atomic_81, atomic_243;
} cv_threads_costs;

/* Which processor a thread has: the system's choice, or number n of as many as there are, from the first again after the last. */
enum cv_threads_pinning {
    CV_THREADS_FREE = 0,
    CV_THREADS_COMPACT = 1, /* the two of a core follow each other */
    CV_THREADS_SCATTER = 2  /* one of each core, then the others */
};

typedef struct {
    uint32_t cores;         /* that the system sees */
    uint32_t pinning;       /* enum cv_threads_pinning */
    uint32_t pairs;         /* cores that have two of these each; 0: all are cores of their own */
    double sibling;         /* how many times slower a thread is beside another one on its core */
    uint32_t capacities;    /* elements of `capacity` */
    const double *capacity; /* bytes a second that 1, 2, ... busy cores get from memory together; the last holds for more */
    uint32_t complexes;     /* cores that share a last level: thread t is on number t / adjacent % complexes; 0: one */
    uint32_t adjacent;
    uint32_t complex_capacities, near_capacities;
    const double *complex_capacity; /* the same of the busy cores of one complex ... */
    const double *near_capacity;    /* ... and from its last level */
    cv_threads_costs costs;
} cv_threads_machine;

/* What a thread does, in a class of work, to a line that others touch, too; for each instruction of the class. */
typedef struct {
    uint32_t work_class;
    uint32_t thread;
    uint32_t line; /* number */
    double loads;  /* but those of atomic operations */
    double atomics;
    double stores; /* those of atomic operations included */
} cv_threads_touch;

/* What each class of work asks for, an element a class. */
typedef struct {
    uint32_t classes;
    const double *seconds; /* of one instruction, with the machine to itself */
    const double *memory;  /* part of them that is waiting for memory, 0..1 */
    const double *bytes;   /* from and to memory, of one instruction */
    const double *near;    /* part of the seconds that is waiting for the last level, and bytes from it; or NULL */
    const double *near_bytes;
    const double *handed; /* seconds that lines which other threads had take, of one instruction, or NULL */
    uint32_t n_touches;
    uint32_t lines;                  /* all that touches name */
    const cv_threads_touch *touches; /* ordered by class */
} cv_threads_work;

enum cv_threads_cause {
    CV_THREADS_FORK = 0,
    CV_THREADS_BARRIER = 1,
    CV_THREADS_LOCK = 2,
    CV_THREADS_CONDITION = 3, /* semaphores and futexes, too */
    CV_THREADS_JOIN = 4,
    CV_THREADS_CAUSES = 5
};

typedef struct {
    double elapsed;
    double work;      /* seconds of all intervals, with the machine to themselves */
    double serial;    /* elapsed seconds in which exactly one thread ran ... */
    double idle;      /* ... and in which none did */
    double saturated; /* thread seconds lost to others' use of memory ... */
    double near;      /* ... and of the last level */
    double contended; /* thread seconds lost to lines that others write meanwhile ... */
    double handed;    /* ... and to those that they had before */
    double queued;    /* thread seconds lost to more threads than cores */
    double paired;    /* thread seconds lost to the other thread of a core */
    double barriers;  /* thread seconds that barriers take once all are there */
    uint64_t events;
    uint32_t threads;
    uint32_t widest; /* most threads that ran at a time */
    uint32_t forced; /* waits that nothing in the trace would have ended */
} cv_threads_totals;

/* What was waited for at one lock. */
typedef struct {
    uint64_t object;
    uint64_t taken;
    uint64_t contended;
    double held;   /* seconds */
    double waited; /* thread seconds */
} cv_threads_lock;

/* A parallel region: what its threads did from its fork to its end, and thread seconds that they lost. */
typedef struct {
    uint64_t record; /* of the fork, in the trace */
    double seconds;
    double work; /* thread seconds, with the machine to themselves */
    double locks;
    double saturated;
    double contended; /* lines handed over included */
    double paired;
    double barriers;
    uint32_t threads;
    uint32_t reserved;
} cv_threads_region;

/* What a thread does for a while: 0: it works or has nothing to wait for, else 1 + enum cv_threads_cause. */
typedef struct {
    double begin;
    double end;
    uint32_t thread;
    uint32_t state;
} cv_threads_interval;

typedef struct cv_threads cv_threads;

/* Packs records in the order of the trace; they belong to the caller and must outlive the handle. CV_ERROR_FORMAT where a record has an
 * unknown kind. */
cv_status cv_threads_new(const struct cv_thread_record *records, uint64_t n, cv_threads **out);
void cv_threads_free(cv_threads *threads);
/* CV_ERROR_ARGUMENT for no core, or a class or line that `work` does not have; CV_ERROR_INTERRUPTED; CV_ERROR_MEMORY. */
cv_status cv_threads_run(cv_threads *threads, const cv_threads_work *work, const cv_threads_machine *machine, cv_threads_totals *out);
/* The locks of the last run; returns how many there are, and writes at most `room`. */
size_t cv_threads_locks(const cv_threads *threads, cv_threads_lock *out, size_t room);
/* The parallel regions of the last run that ended, in the order of their forks; at most `room`. */
size_t cv_threads_regions(const cv_threads *threads, cv_threads_region *out, size_t room);
/* Lets further runs keep what threads do when: intervals of at least so many seconds, those within a shorter time as the one that takes
 * most of it; negative: none. */
void cv_threads_keep_intervals(cv_threads *threads, double least);
/* These, of the last run, in the order of their ends; at most `room`. */
size_t cv_threads_intervals(const cv_threads *threads, cv_threads_interval *out, size_t room);
/* Thread seconds lost in the last run at each line; at most `room`. */
size_t cv_threads_lines(const cv_threads *threads, double *out, size_t room);
/* Seconds of work of each thread in the last run; at most `room`. */
size_t cv_threads_busy(const cv_threads *threads, double *out, size_t room);
/* Seconds that each thread waited in the last run, by cause, without those that barriers take; CV_THREADS_CAUSES a thread; of at most
 * `room` threads. */
size_t cv_threads_waited(const cv_threads *threads, double *out, size_t room);

#endif
