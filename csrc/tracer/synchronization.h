/* SPDX-License-Identifier: GPL-2.0-or-later
 * What following threads is made of: kinds of functions (thread_functions.c), calls that have not returned (synchronization.c), teams and
 * tasks of OpenMP (thread_teams.c). */
#ifndef CV_SYNCHRONIZATION_H
#define CV_SYNCHRONIZATION_H

#include "tracer.h"

enum kind {
    NOTHING,
    CREATE,        /* (handle, attributes, function) */
    JOIN,          /* (handle) */
    LOCK,          /* (lock) */
    TRY,           /* (lock), has it when the result is 0 */
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
    CHUNK,     /* result: bool */
    CHUNK_INT, /* result: int */
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
    LOOP_OBJECT,   /* (place, thread, task): the one of which each part of a loop has a copy */
    TASK_WAIT_ALL, /* who waits also does what its tasks have made */
    BODY,          /* never by name */
    TASK_BODY      /* never by name */
};

struct frame {
    enum kind kind;
    Addr sp;   /* at the entry: the return address lies there */
    Addr site; /* within the call */
    ULong object, argument;
};

#define DEEPEST 24

struct followed {
    struct cv_thread thread;
    Bool running;
    UInt depth;
    struct frame frame[DEEPEST];
    Addr sleeps_at; /* the futex that it waits at; 0: none */
};

static inline struct frame *top(struct followed *f) { return f->depth ? &f->frame[f->depth - 1] : NULL; }

static inline Bool is_body(const struct frame *frame) { return frame->kind == BODY || frame->kind == TASK_BODY; }

/* ---- synchronization.c ---- */

extern ULong cv_return_awaited; /* stack pointer after the return of the innermost function of this thread that is followed */
/* Returns NULL where there are too many. */
struct frame *cv_frame_push(struct followed *f, enum kind kind, Addr sp, ULong object, ULong argument);

/* ---- thread_functions.c ---- */

extern Bool cv_translations_stale; /* others are needed */

/* ---- thread_teams.c ---- */

struct task {
    ULong number;     /* 0: an empty place */
    Addr function;    /* 0: called by the program */
    Addr object;      /* LLVM; 0: known by its data */
    ULong bytes, sum; /* of its data */
};

/* A loop whose parts are tasks. How many there are is seen when they begin. */
struct task_loop {
    Addr function;
    Addr data; /* of the whole loop */
    Addr sp;   /* when it begins */
    UShort maker;
    ULong within;  /* task that it is in */
    Bool at_once;  /* the maker does all parts */
    Bool by_stack; /* ... if their data lie on its stack */
};

/* Functions of parallel regions and tasks. */
void cv_body_add(Addr function);
Bool cv_body_is_known(Addr function);
ULong cv_team_of(const struct followed *f);
/* The team that this function works for: the one with its data, else the newest. */
ULong cv_team_find(Addr function, Addr data);
void cv_team_begin(struct followed *f, Addr sp, Addr function, Addr data);
void cv_team_close(ULong number);
/* The runtime copies a task's data: its bytes tell which one of a function's tasks begins. */
ULong cv_task_sum(Addr data, ULong bytes);
/* Returns the task's number, 0 where too many wait. Data that the program copies by a function of its own is not compared. */
ULong cv_task_make(struct task task);
/* Takes the oldest task of this function with this data or object, or the one with a number, off the list. */
ULong cv_task_take(Addr function, Addr data, Addr object, ULong number);
void cv_task_begin(struct followed *f, Addr function, Addr sp, Addr data, Addr object);
/* What ran until here is no part of the loop, whose parts tell that they were made when they begin. */
void cv_task_begin_loop(struct followed *f, struct task_loop loop);
void cv_teams_fork(void);

#endif
