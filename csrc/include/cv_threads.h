/* What the tracer writes of a program's threads: FILE.threads beside the counter file, made when a second thread starts, and from it the
 * THRD chunks of a trace (docs/formats/cvt.md). Freestanding, as cv_wire.h. SPDX: MIT.
 *
 * The file is a sequence of records; those of kind CV_THREADS_CLASS and CV_THREADS_NAME are followed by what they say. A record holds what
 * its thread executed since the thread's previous record, then the event. The order of records is that of one legal run.
 *
 * The exact block counters are summed by class of work. A class belongs to what began an interval and where; short intervals that follow
 * each other share one. The seconds of a class divided by its instructions, times those of a record, are the record's seconds. */
#ifndef CV_THREADS_H
#define CV_THREADS_H

#include <stdint.h>

enum cv_thread_event {
    CV_THREAD_PROGRESS = 0,    /* no event: more work of an interval that goes on */
    CV_THREAD_START = 1,       /* the thread's first record; object: the thread that made it, argument: see below */
    CV_THREAD_EXIT = 2,        /* its last */
    CV_THREAD_CREATE = 3,      /* object: the new thread */
    CV_THREAD_JOIN = 4,        /* object: the thread that has ended */
    CV_THREAD_LOCK = 5,        /* object: the lock that the thread has from here; argument: see below */
    CV_THREAD_UNLOCK = 6,      /* object: the lock */
    CV_THREAD_WAIT = 7,        /* object: the condition, argument: its mutex, which is unlocked */
    CV_THREAD_WOKEN = 8,       /* ... and locked again; argument: the mutex */
    CV_THREAD_SIGNAL = 9,      /* object: the condition, argument: 1 for all that wait */
    CV_THREAD_BARRIER = 10,    /* object: the barrier, or the team with bit 63 set; argument: parties, 0: the team's */
    CV_THREAD_ACQUIRE = 11,    /* object: the semaphore, one taken */
    CV_THREAD_RELEASE = 12,    /* object: the semaphore, one given */
    CV_THREAD_FORK = 13,       /* object: the team that a parallel region begins with */
    CV_THREAD_BODY = 14,       /* object: the team; the thread begins the region's work */
    CV_THREAD_BODY_END = 15,   /* object: the team */
    CV_THREAD_JOINED = 16,     /* object: the team; all members have ended */
    CV_THREAD_CHUNK = 17,      /* object: the team; argument: 1, a part of a loop that is shared out follows, 0: none was left */
    CV_THREAD_SLEPT = 18,      /* object: the word of memory whose futex woke the thread */
    CV_THREAD_WAKE = 19,       /* object: the word; its sleepers are woken */
    CV_THREAD_TASK = 20,       /* object: number of a task that the thread makes; argument: 0, or 1 + the task in which it does (0: none) */
    CV_THREAD_TASK_BEGIN = 21, /* object: the task; argument: 1 where the thread that made it runs it at once */
    CV_THREAD_TASK_END = 22,   /* object: the task */
    CV_THREAD_TASK_WAIT = 23,  /* all tasks that the one which the thread is in has made have ended; argument: 1 where it did theirs, too */
    CV_THREAD_DEPEND = 24,     /* object: address that a task depends on; argument: 2 * its number, + 1 where it writes there */
    CV_THREAD_KINDS = 25,
    CV_THREADS_CLASS = 32,    /* object: number of the class, argument: (counter, count) pairs of uint64_t that follow */
    CV_THREADS_NAME = 33,     /* object: of a lock, or `place` where object is 0; argument: bytes of the name that follow, padded to 8 */
    CV_THREADS_MOST = 1 << 24 /* records of the native engine's log; the rest of a longer run has no events */
};

/* Of a lock: those that wait for it spin first; others that read what it guards may have it, too. */
#define CV_THREAD_SPINS 1
#define CV_THREAD_SHARED 2

/* Of a start: it is one of a runtime's pool. Above this bit: the thread's number in the stream, where it is known. */
#define CV_THREAD_POOLED 1

struct cv_thread_record {
    uint16_t thread; /* 0: the first; never used again */
    uint8_t kind;    /* enum cv_thread_event */
    uint8_t reserved;
    uint32_t work_class;
    uint64_t object;
    uint64_t argument;
    uint64_t instructions; /* of the program's own code; 1 in the record of what ran before the second thread */
    uint32_t inside;       /* instructions within calls of the runtime, which are waiting and cost of the event, not work */
    uint32_t calls;        /* system calls */
    uint32_t place;        /* number of the place in the code that made the call */
    uint32_t faults;       /* pages that the process got */
};

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct cv_thread_record) == 48, "layout of a record");
#endif

#endif
