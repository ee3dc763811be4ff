/* The state of the core model. */
#ifndef CV_CORE_INTERNAL_H
#define CV_CORE_INTERNAL_H

#include "cv_core.h"
#include "forwarding.h"
#include "front.h"
#include "ports.h"
#include "queues.h"
#include "scheduler.h"
#include "../trace/streams.h"

#define FILES 3     /* of registers: integers, vectors, flags */
#define LINES 1024  /* entries of the table of lines on their way */
#define DELAYS 1024 /* delays of issue that may be hidden; those before are forgotten, which they are not */

enum buffer { LOAD_BUFFER, STORE_BUFFER, FIRST_FILE, BUFFERS = FIRST_FILE + FILES };
_Static_assert(CV_CORE_LOAD == 1 << LOAD_BUFFER && CV_CORE_STORE == 1 << STORE_BUFFER, "flags are bits of buffers");

typedef struct {
    uint64_t line, asked, arrival;
    uint32_t level;
} line_entry;

/* The last line that a value stems from: when it arrived, and from which level beyond the first. */
typedef struct {
    uint64_t cycle;
    uint32_t level;
} line_origin;

typedef struct {
    uint64_t ready; /* cycle from which it can be read */
    line_origin origin;
    uint64_t forwarded; /* cycle of the last result of a forwarded load that it stems from; 0: of none */
    uint32_t written;   /* how often */
    uint16_t producer;  /* group of the class that wrote it last */
    uint8_t loaded;     /* by a load */
    uint8_t moved;      /* it is that load's result itself */
} core_register;

/* What an owner's references bring from each level beyond the first: lines a reference, and those that they have not met yet.
 * `due`: cycles that they take in the mean, a reference; `surplus`: those of the lines that counted ones brought beyond that. */
typedef struct {
    float rate[CV_CORE_LEVELS], owed[CV_CORE_LEVELS], due;
    uint16_t latency[CV_CORE_LEVELS], walk;
    double surplus;
} far_lines;

/* Cycles by which issue was late, and what for; `since`: when. */
typedef struct {
    blame why;
    uint64_t cycles;
} issue_delay;

#define SEVERAL UINT64_MAX

/* Where a branch went on the last path that it was taken on: an address, or SEVERAL; how often in a row it went backwards there. */
typedef struct {
    uint64_t target, path;
    uint32_t turns;
} branch_target;

struct cv_core {
    cv_core_params params;
    uint32_t line_shift; /* of line_bytes */
    cv_core_class *classes;
    uint8_t *odd; /* of each class with half cycles: the next one takes the longer time */
    size_t n_classes, segments, ops, sites;
    uint32_t *first_op;
    uint64_t *address, *next_address;
    branch_target *went; /* of the branch that ends each segment */
    uint64_t paths;      /* that began */
    cv_core_op *op;
    uint8_t *taken_of; /* the buffers that each operation takes an entry of, a bit each (enum buffer) */
    uint16_t *site_op, *site_bytes;
    uint8_t *site_store;
    uint32_t levels;
    size_t far_owners;
    uint32_t *site_owner;
    far_lines *far;
    cv_streams streams;               /* which lines come in order, so that they are fetched ahead */
    near_sets targets, code, decoded; /* taken branches by their addresses, lines of code, and those that are decoded */
    near_sets pages;                  /* whose translations are near */
    uint64_t page;                    /* of the last load */
    uint64_t page_known;              /* cycle in which its translation is there */
    uint64_t code_line;               /* the last one that was fetched */
    uint64_t *cycles, *executions, walked;
    uint32_t *owner; /* of each operation, for its causes; NULL: nobody asks for them */
    size_t owners;
    uint64_t *causes;
    issue_delay delays[DELAYS];
    uint32_t delay, delays_kept; /* the next one, and how many there are */
    const uint8_t *flags;        /* of the piece that is walked, as latency */
    const uint16_t *latency;
    const uint8_t *out_of_order; /* of its references: brings a line that no prefetcher sees coming; NULL: seen from the path */

    /* Everything below is the pipeline: emptied where a path does not continue. */
    core_register registers[CV_CORE_REGISTERS];
    line_origin line;   /* of the operation that executes */
    uint64_t forwarded; /* as of a register, of its data */
    uint8_t moved;
    uint64_t port_wait; /* the longest of it for a port, and for which */
    uint32_t port_waited;
    uint32_t eighths; /* of a cycle, left over from the last load that waited for forward_eighths */
    int after_load;   /* what it waited for last was a load */
    blame late;       /* why retirement is not further */
    int counted;      /* no warm-up any more */
    uint64_t fetched; /* cycle of the fetch group, and the slots it holds */
    uint32_t group;
    uint64_t issued; /* cycle of the last issue, and its slots */
    uint32_t slots;
    uint64_t retired; /* cycle of the last retirement, and its slots */
    uint32_t retiring;
    uint64_t committed, committed_line; /* half cycle and line of the last store that entered the cache */
    uint64_t serial;                    /* nothing starts before */
    uint64_t closed;                    /* vectors of 64 bytes close ports to those that are issued before */
    uint32_t folded;
    uint64_t loop_head, loop_after;  /* where the last branch backwards went, and what follows it */
    uint32_t loop_turns, loop_slots; /* how often it went there in a row by one path; slots since then */
    uint32_t run, run_segment;       /* turns of the loop that the last branch backwards ends, whatever its path, and its segment */
    int long_loop;                   /* it comes round often: which lines it takes is known ahead */
    uint64_t loop_path, last_path;   /* of the branches taken within this turn, and the one before */
    int repeated;                    /* the last operation was a repeated string instruction, and the bytes not yet costed */
    uint32_t string_bytes;
    uint64_t string_moved;  /* by all its turns but the first */
    uint64_t decoded_line;  /* of the instruction that was fetched last */
    uint32_t decoded_slots; /* since it was entered */
    int decodes;            /* it is not in the cache of decoded code */
    uint32_t line_slots;    /* fetched of the last line of code since control came to it */
    int entered;            /* by a taken branch */
    uint64_t ended_line;    /* of code, in which the last segment that was fetched ends */
    uint64_t predicted;     /* half cycle from which the line of code that is fetched is predicted */
    uint32_t taken;         /* cycles from a branch's fetch to its target's, after a taken branch; 0: after another */
    uint64_t block_fetched; /* cycle in which the last target was fetched */
    uint32_t lines_missing; /* lines of code to wait for before the next instruction */
    int restarted;          /* nothing was fetched since a mispredicted branch */
    int64_t blamed;         /* operation that the next cycles belong to: a mispredicted branch; -1: none */
    queue fetch_queue, reorder, fills, buffers[BUFFERS]; /* files without entries suffice */
    scheduler waiting;
    forwarding forwards;
    port_calendar ports;
    line_entry lines[LINES];
};

#endif
