/* What threads wait for: the functions of pthreads and of OpenMP's runtimes, found by name where they are entered and by the stack pointer
 * where they return; in static programs, too. Where none of them is around, futexes tell. Both engines follow their threads by this.
 * Freestanding; SPDX: MIT.
 *
 * Until a second thread starts only functions that begin threads are to be followed. */
#ifndef CV_THREAD_CALLS_H
#define CV_THREAD_CALLS_H

#include <stdint.h>

#include "../include/cv_threads.h"

enum cv_function {
    NOTHING,
    CREATE,        /* (handle, attributes, function) */
    JOIN,          /* (handle) */
    LOCK,          /* (lock) */
    TRY,           /* (lock), has it when the result is 0 */
    TEST,          /* (lock), has it unless the result is 0 */
    READ,          /* (lock), has it with others that read when the result is 0 */
    SPINNING_LOCK, /* (lock), which a thread that waits for it looks at before it sleeps */
    UNLOCK,
    WAIT, /* (condition, mutex) */
    SIGNAL,
    BROADCAST,
    BARRIER, /* (barrier) */
    ACQUIRE, /* (semaphore), has it when the result is 0 */
    RELEASE,
    PARALLEL,  /* (function, data): OpenMP, GCC */
    FORK_CALL, /* (place, number, function): OpenMP, LLVM */
    TEAM_BARRIER,
    SINGLE_COPY, /* result: 0 in the thread that computes, and meets the others at its end; else what it computed */
    REDUCE,      /* result: 2 where nobody waits */
    CHUNK,       /* result: bool */
    CHUNK_INT,   /* result: int */
    CRITICAL_BEGIN,
    CRITICAL_END,
    LOCK_SECOND, /* (place, thread, lock): LLVM */
    UNLOCK_SECOND,
    TASK,      /* (function, data, copies it, bytes of data): OpenMP, GCC */
    TASK_LOOP, /* (function, data): tasks that are parts of a loop */
    TASK_WAIT,
    TASK_OBJECT,   /* (place, thread, task): LLVM */
    TASK_AT_ONCE,  /* (place, thread, task): the program itself calls its function ... */
    TASK_COMPLETE, /* (place, thread, task): ... has called it */
    TASK_DEPENDS,  /* (place, thread, task, number, dependences): LLVM */
    WAIT_DEPENDS,  /* (dependences): OpenMP, GCC; as an empty task that is run at once */
    WAIT_OBJECTS,  /* (place, thread, number, dependences): LLVM */
    LOOP_OBJECT,   /* (place, thread, task): the one of which each part of a loop has a copy */
    TASK_WAIT_ALL, /* who waits also does what its tasks have made */
    BODY,          /* never by name */
    TASK_BODY      /* never by name */
};

/* thread_functions.c; of a name as symbol tables have it. */
enum cv_function cv_function_named(const char *name);

static inline int cv_begins_threads(enum cv_function function)
{
    return function == CREATE || function == PARALLEL || function == FORK_CALL;
}

struct cv_thread {
    uint16_t serial, parent; /* parent: serial of the thread that made it */
    uint8_t in_runtime;      /* within a call that waits, or a pool's thread that has no work */
    uint8_t pool;
    uint32_t calls;
    uint64_t work, inside; /* instructions since its last record */
    uint64_t began;        /* what its interval began with */
};

/* A call that has not returned. */
struct cv_frame {
    enum cv_function function;
    uint64_t sp;   /* at the entry: the return address lies there */
    uint64_t site; /* within the call */
    uint64_t object, argument;
};

#define CV_DEEPEST_CALL 24

struct cv_followed {
    struct cv_thread thread;
    uint32_t depth;
    struct cv_frame frame[CV_DEEPEST_CALL];
    uint64_t sleeps_at; /* the futex that it waits at; 0: none */
};

static inline struct cv_frame *cv_top(struct cv_followed *f) { return f->depth ? &f->frame[f->depth - 1] : 0; }

static inline int cv_is_body(const struct cv_frame *frame) { return frame->function == BODY || frame->function == TASK_BODY; }

/* ---- thread_calls.c; each of these changes what all threads share ---- */

/* A function is entered, with its first six arguments. */
void cv_call_entered(struct cv_followed *f, enum cv_function function, uint64_t sp, const uint64_t *arguments);
/* What cv_body_is_known is entered, with its first two. */
void cv_body_entered(struct cv_followed *f, uint64_t function, uint64_t sp, uint64_t data, uint64_t object);
/* The innermost call is left, to `target`. */
void cv_call_left(struct cv_followed *f, uint64_t result, uint64_t target);
/* The thread of `f` becomes the parent of the thread of `child`; 0: there have been too many. */
int cv_thread_made(struct cv_followed *f, struct cv_followed *child, uint32_t number);
void cv_thread_ended(struct cv_followed *f);
/* The first of them makes the second thread: the log is open. */
void cv_threads_begun(struct cv_followed *f);
/* A system call that is to be seen to its end begins: 1; ended, with its result. */
int cv_system_call_begins(struct cv_followed *f, uint64_t number, const uint64_t *arguments);
void cv_system_call_ended(struct cv_followed *f, int failed);
struct cv_frame *cv_frame_push(struct cv_followed *f, enum cv_function function, uint64_t sp, uint64_t object, uint64_t argument);

/* ---- thread_teams.c ---- */

#define CV_MOST_TEAMS 64
#define CV_MOST_BODIES 1024
#define CV_MOST_TASKS 4096 /* that have not begun */
#define CV_MOST_LOOPS 64
#define CV_MOST_DEPENDS 128   /* of a task; further ones are not recorded */
#define CV_MOST_THREADS 65536 /* that ever ran */

struct cv_team {
    uint64_t function, data;
    uint64_t number; /* 0: an empty place */
    uint16_t maker;  /* serial of the thread that forked it */
};

struct cv_task {
    uint64_t number;     /* 0: an empty place */
    uint64_t function;   /* 0: called by the program */
    uint64_t object;     /* LLVM; 0: known by its data */
    uint64_t bytes, sum; /* of its data */
};

/* A loop whose parts are tasks. How many there are is seen when they begin. */
struct cv_task_loop {
    uint64_t function;
    uint64_t data; /* of the whole loop */
    uint64_t sp;   /* when it begins */
    uint16_t maker;
    uint8_t at_once;  /* the maker does all parts */
    uint8_t by_stack; /* ... if their data lie on its stack */
    uint64_t within;  /* task that it is in */
};

/* What all threads of a process share. */
extern struct cv_all_calls {
    uint64_t handles[CV_MOST_THREADS]; /* pthread_t of the thread with this serial number, while it may be joined */
    uint32_t serials;
    uint32_t n_bodies;
    uint64_t bodies[CV_MOST_BODIES]; /* a hash table */
    struct cv_team teams[CV_MOST_TEAMS];
    struct cv_task tasks[CV_MOST_TASKS];
    struct cv_task_loop loops[CV_MOST_LOOPS];
    uint64_t n_teams, n_tasks, next_loop;
    uint64_t tasks_end; /* places that were ever used */
} *const cv_all_calls;

/* Functions of parallel regions and tasks. */
void cv_body_add(uint64_t function);
int cv_body_is_known(uint64_t function);
uint64_t cv_team_of(const struct cv_followed *f);
/* The team that this function works for: the one with its data, of those the one that this thread or the one that made it forked, else
 * the newest. */
uint64_t cv_team_find(struct cv_followed *f, uint64_t function, uint64_t data);
void cv_team_begin(struct cv_followed *f, uint64_t sp, uint64_t function, uint64_t data);
void cv_team_close(uint64_t number);
/* The runtime copies a task's data: its bytes tell which one of a function's tasks begins. */
uint64_t cv_task_sum(uint64_t data, uint64_t bytes);
/* Returns the task's number, 0 where too many wait. Data that the program copies by a function of its own is not compared. */
uint64_t cv_task_make(struct cv_task task);
/* Takes the oldest task of this function with this data or object, or the one with a number, off the list. */
uint64_t cv_task_take(uint64_t function, uint64_t data, uint64_t object, uint64_t number);
void cv_task_begin(struct cv_followed *f, uint64_t function, uint64_t sp, uint64_t data, uint64_t object);
/* What ran until here is no part of the loop, whose parts tell that they were made when they begin. */
void cv_task_begin_loop(struct cv_followed *f, struct cv_task_loop loop);

/* ---- what an engine has for them ---- */

int cv_threads_active(void); /* there has been a second thread */
/* What ran since the last call is this thread's. */
void cv_threads_attribute(struct cv_thread *thread);
void cv_threads_event(struct cv_thread *thread, enum cv_thread_event kind, uint64_t object, uint64_t argument, uint32_t place);
uint32_t cv_threads_place(uint64_t address);
void cv_threads_name_object(uint64_t object);
void cv_frames_changed(struct cv_followed *f); /* another return is awaited */
void cv_body_is_new(uint64_t function);        /* it may have run before */

#endif
