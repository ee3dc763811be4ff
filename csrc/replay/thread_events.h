/* Packed events of threads, and their state in a run: shared by thread_events.c, which packs, and the parts of a run (thread_run.h). */
#ifndef CV_THREAD_EVENTS_H
#define CV_THREAD_EVENTS_H

#include <stdbool.h>

#include "cv_threads_replay.h"

#define NOBODY UINT32_MAX
#define NEVER UINT32_MAX
#define GONE UINT32_MAX

/* A lock, condition, barrier, semaphore, futex, team or pool of chunks. */
struct sync_object {
    uint64_t key;
    uint32_t parties;  /* of a barrier; members of a team */
    uint32_t made;     /* threads that were made for this team */
    bool spins;        /* those that wait for a lock look at it first */
    bool shared;       /* some that take a lock only read what it guards */
    bool own;          /* a barrier of pthreads: those that wait sleep */
    int64_t at_first;  /* of a semaphore */
    bool ordered;      /* a mutex of a condition: taken in the order of the trace */
    uint32_t first, n; /* a pool's chunks in `chunks` */
    /* in a run */
    uint32_t holder;     /* of a lock */
    uint32_t again;      /* ... how often its holder has it besides */
    uint32_t readers;    /* ... threads that have it together, without a holder */
    uint32_t last;       /* ... that had it before */
    uint32_t head, tail; /* threads that wait, linked by `next` */
    uint32_t arrived;    /* at a barrier, or at a team's end */
    uint32_t next_turn;  /* of an ordered lock */
    uint32_t next_chunk;
    int64_t count;   /* of a semaphore */
    bool open;       /* a team has begun, a thread was made or has ended */
    double taken_at; /* a lock, when nobody had it */
    uint32_t outer;  /* a team: that in which its region begins */
    double begun;    /* ... when */
    cv_threads_lock sums;
    cv_threads_region region; /* `seconds` 0: has not ended */
    bool tasks;               /* a team: its members make some */
    uint32_t barrier;         /* a team: object of its barrier, or NOBODY */
    uint32_t unfinished;      /* in a run: tasks of a team */
};

/* A task that threads of a team deal among each other. */
struct task {
    uint32_t stream;       /* what it executes; NOBODY: stays with the thread that makes it, or was not seen to run */
    uint32_t predecessors; /* tasks that end before it begins */
    uint32_t first, n;     /* ... and those that begin after it: in `successors` */
    /* in a run */
    bool made;
    uint32_t awaited;                         /* predecessors that have not ended */
    uint32_t team, parent, maker;             /* parent NOBODY: the thread `maker` itself */
    uint32_t runner;                          /* thread */
    uint32_t unfinished;                      /* tasks that it made */
    uint32_t before, after;                   /* tasks that are ready, in the order in which they became so */
    uint32_t back_stream, back_at, back_task; /* where its thread goes on after it */
    bool back_arrived;
};

struct chunk {
    uint32_t thread, at; /* the record with which it begins */
};

/* What packing finds of a record. */
struct packed {
    uint32_t record; /* number in the trace */
    uint32_t object;
    uint32_t other;  /* of a wait: record of the signal that ended it, or NEVER; of a chunk: where the thread's own loop ends */
    uint32_t second; /* object of a condition's mutex; pool of a chunk; team of a barrier */
    uint32_t turn;   /* at an ordered lock */
};

struct stream {
    uint32_t first, n; /* in `packed` */
    uint32_t filled;   /* while they are packed */
    uint32_t outer;    /* of a task: that in which it was begun */
};

/* Cores that share a last level, in a run: threads that run there, and how many times longer they wait for it and for memory. */
struct complex {
    uint32_t runners;
    double near, memory;
    double asked, asked_near; /* bytes a second of memory and of the last level, alone */
};

/* A line, in a run: what all that run at the moment do to it, a second. */
struct line_use {
    double touched, stored, atomics;
    uint32_t runners;
    double lost; /* thread seconds so far */
};

/* What one of two threads loses each time it comes to a word of a line of which the other wants another word as often, in the order of the
 * seconds since the last time: the longer these are, the fewer times it finds the line still there. */
struct loss {
    double after, lost;
};

#define CV_THREAD_LOSSES 6

enum thread_state { READY, RUNNING, WAITING, ASLEEP, ENDED };

struct running {
    double left, memory, demand, rate; /* RUNNING: seconds alone, the part that waits for memory, bytes a second, speed */
    double near, near_demand;          /* ... the same of the last level */
    uint32_t complex;                  /* ... whose last level that is */
    uint32_t touches, n_touches;       /* ... in `work` */
    double busy;
    enum thread_state state;
    enum cv_threads_cause cause;
    bool granted;        /* what it waits for is its own now */
    bool worked;         /* the work before the event in question is done */
    uint32_t stream, at; /* what it executes: a position in a thread's stream */
    uint32_t back;       /* where it goes on in its own stream when the pool is empty; NEVER: in no loop */
    uint32_t pool;
    uint32_t waits_for;  /* object */
    uint32_t team;       /* object: it works in this one's region */
    uint32_t task;       /* ... in this task; NOBODY: in none */
    uint32_t unfinished; /* tasks that it made outside of tasks */
    bool arrived;        /* counted at the barrier at which it looks for tasks */
    bool began;          /* a task, instead of waiting */
    uint32_t next;
    double since, until;  /* WAITING, ASLEEP */
    double owed;          /* seconds of a core before it goes on */
    double share, beside; /* ... the part of a core that it has, and how many times slower its other thread makes it */
    double slowed;        /* ... how many times slower others that write its lines make it */
    double per_second;    /* instructions, alone */
    double waited[CV_THREADS_CAUSES];
    double delay; /* how much later than at once it goes on after its last barrier */
    /* its interval that goes on, where these are kept */
    uint32_t does;                      /* at the moment; GONE: it has ended */
    double does_since, kept_until;      /* begin of that; end of the last interval that is kept */
    double each[1 + CV_THREADS_CAUSES]; /* seconds since then */
};

struct cv_threads {
    const struct cv_thread_record *records;
    uint64_t n_records;
    uint32_t n_threads, n_streams, n_objects, objects_room, n_chunks, n_tasks;
    struct stream *streams;
    uint32_t *stream_of;              /* by record */
    struct task *tasks;               /* by number */
    uint32_t *successors;             /* tasks */
    uint32_t first_ready, last_ready; /* tasks */
    uint32_t task_waits;              /* object: threads that wait for tasks which they made */
    struct packed *packed;
    struct sync_object *objects;
    struct chunk *chunks;
    uint8_t *signaled; /* by record: the signal was given */
    struct running *threads;
    uint32_t *table; /* objects by key */
    uint32_t table_size;
    uint32_t *ready, *runs, *sleeps; /* threads in these states */
    uint32_t n_ready, n_runs, n_sleeps;
    uint32_t *runners; /* by processor: threads that are pinned to it and run */
    uint32_t busy;     /* processors with something to do */
    bool shared;       /* some that run may be slower than alone */
    struct complex *complexes;
    struct line_use *lines;
    uint32_t n_lines;
    struct loss losses[2][CV_THREAD_LOSSES]; /* of the machine: at loads, at atomic operations */
    cv_threads_interval *intervals;
    size_t n_intervals, intervals_room;
    double least; /* seconds of an interval; negative: none is kept */
    bool short_of_memory;
    uint32_t steps; /* for cv_interrupt_look */
    const cv_threads_work *work;
    const cv_threads_machine *machine;
    cv_threads_totals *totals;
    double now;
};

/* thread_depends.c: finds which tasks wait for which. */
cv_status cv_thread_find_successors(cv_threads *t);

/* From now on the thread does something else (GONE: nothing). */
void cv_thread_does(cv_threads *t, struct running *th, uint32_t state);

#endif
