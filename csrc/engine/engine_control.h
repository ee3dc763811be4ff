/* The controller: starts a program, puts the engine into it, asks for bursts, and tells the reader of the wire format. */
#ifndef CV_ENGINE_CONTROL_H
#define CV_ENGINE_CONTROL_H

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <time.h>

#include "../include/cv_wire.h"
#include "blob_shared.h"

static inline double cv_seconds(clockid_t clock)
{
    struct timespec t = {0, 0};
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct cv_options {
    int wire; /* descriptor; -1: no stream */
    const char *counters, *log, *dump;
    uint64_t interval, sample, warmup; /* references; sample 0: no bursts */
    int full;                          /* everything is recorded */
    int paths;                         /* visits without references, too */
    uint64_t block_limit;              /* visits of a segment that are recorded at most; 0: all */
    uint64_t sets, set_class;          /* sets 0: none are recorded */
    uint64_t stretch;                  /* intervals; 0: nothing is ever left out */
    pid_t attach;                      /* to this process; 0: starts one */
    double period;                     /* seconds; above zero: native but for a burst in each */
    double seconds;                    /* of it; 0: until it ends */
    struct cv_blob_setup marks;        /* where the traced part begins and ends */
    int starts;                        /* it begins somewhere, not at once */
    const char *streams;               /* folder: children are traced, too */
    int objects;                       /* data objects are reported */
    uint64_t follows;                  /* records of the log of threads, which lies beside the counters; 0: there is none */
    const char *allocators;            /* functions that allocate for their callers, with commas between */
    uint64_t last_call;                /* the program ends before its system call of this number; 0: never */
};

/* Samples between which the program is counted: neither everything nor bursts of a native run. */
static inline int cv_wants_samples(const struct cv_options *o) { return !o->full && !(o->period > 0) && (o->sample || o->sets); }

struct cv_target {
    pid_t pid;
    int process;     /* descriptor; -1: it is a child of this process */
    uint8_t *memory; /* struct cv_shared */
    struct cv_shared *shared;
    int file;
    int attached;
    uint64_t entries[5];
    int family;      /* descriptor of struct cv_family; -1: children are not traced */
    uint64_t faults; /* of pages, before the program began */
};

/* engine_inject.c. Functions that fail write a sentence to the log and return -1. */
void cv_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cv_log_to(const char *path);
int cv_start(struct cv_target *target, const struct cv_options *options, char **command);
int cv_take(struct cv_target *target, const struct cv_options *options); /* the stopped first thread of a program goes on in the engine */
int cv_map(struct cv_target *target);                                    /* its memory, which `file` is */
int cv_has_engine(pid_t process);
int cv_thread_runs(pid_t process, pid_t thread); /* or waits for a processor */
int cv_attach(struct cv_target *target, const struct cv_options *options);
int cv_burst(struct cv_target *target);   /* of one thread that runs natively; 0: there was none */
void cv_detach(struct cv_target *target); /* its threads go on natively */
struct cv_slot *cv_slot_of(const struct cv_target *target, uint64_t number);

/* engine_control.c */
int cv_trace(const struct cv_options *options, struct cv_target *target); /* until it ends; as wait says it */
void cv_hear_stops(int flags);                                            /* of sigaction; from now on a reader may end, too */
extern volatile sig_atomic_t cv_stop_signal;                              /* that was sent to this process */
extern volatile sig_atomic_t cv_replaced;                                 /* by another program */

/* engine_family.c */
int cv_family_run(const struct cv_options *options, char **command); /* the exit status */
/* A number of /proc/PID/stat, counted from 1 after the name, and the state read with it; 0 where there is none. */
long cv_status_field(pid_t process, int number, char *state);
int cv_status_of(const struct cv_target *target, struct rusage *usage); /* of another's child that has ended, as wait says it */

/* engine_objects.c; where data objects are reported, or threads followed */
int cv_objects_start(struct cv_target *target, const struct cv_options *options); /* the program has not begun */
/* The mapping with code that an address lies in; the last one, where there were several. */
const struct cv_blob_mapping *cv_mapping_at(const struct cv_target *target, uint64_t address);
/* A name for people. */
struct cv_name_wanted {
    uint64_t address;
    const struct cv_blob_mapping *mapping; /* that a function lies in; NULL: a variable is wanted, of any file */
    uint32_t place;
    char *name; /* NULL: there is none */
};
void cv_find_names(const struct cv_target *target, struct cv_name_wanted *wanted, size_t n);
void cv_objects_begin(void);           /* tells what is mapped then */
void cv_objects_look(void);            /* for allocation functions in what was mapped since */
void cv_objects_tell(uint64_t events); /* so many of all, where they have not been reported */

/* engine_threads.c; nothing where no thread was made */
void cv_threads_write(void); /* what there is of them */
void cv_threads_end(void);

/* engine_wire.c */
int cv_wire_begin(const struct cv_options *options, struct cv_target *target);
void cv_wire_definitions(void);
int cv_wire_parts(void); /* one of each thread, in turns, as they ran; 0: there was none */
void cv_wire_last_parts(void);
void cv_wire_interval(uint64_t number); /* begins, where intervals are informed */
/* Of so many classes of sets one is recorded from now on. */
void cv_wire_classes(uint64_t classes, uint64_t *mask, uint64_t *leaves_repeated);
void cv_wire_pace(void); /* what the reader wants, and what it costs */
uint64_t cv_wire_interval_so_far(void);
double cv_wire_references(void); /* executed until now */
void cv_wire_counters(int finished);
/* From counts by exit to pairs of a counter and its count; returns how many. They last until the next call. */
size_t cv_wire_pairs(const uint64_t *by_exit, const uint64_t **pairs);
void cv_wire_system(uint64_t page_faults);
void cv_wire_end(int reason, int code);
int cv_wire_vector_sets(void); /* 1 << enum cv_x86_encoding of the instructions that ran */
void cv_wire_flush(void);
void cv_wire_record(int kind, uint64_t argument, const void *payload, size_t bytes);
uint32_t cv_wire_module(const struct cv_blob_mapping *mapping); /* defined where it is new */
int cv_wire_dump(const char *path);                             /* counts of segments as text, for tests */

#endif
