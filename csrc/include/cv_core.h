/* Core time: how many cycles a path takes on an out-of-order core, block by block (docs/theory.md, "Core time").
 *
 * A windowed dataflow model: the executed instructions pass in order. Each is issued within the issue width, the reorder buffer and
 * the scheduler, starts when its registers, its memory and a port are there, and retires in order. Nothing wrong-path is modeled:
 * after a mispredicted branch the front end starts again a fixed number of cycles after the branch was resolved. */
#ifndef CV_CORE_H
#define CV_CORE_H

#include <stddef.h>
#include <stdint.h>

#include "cv_branch.h"
#include "cv_paths.h"
#include "cv_status.h"

#define CV_CORE_REGISTERS 128
#define CV_CORE_READS 6
#define CV_CORE_ADDRESSES 3
#define CV_CORE_WRITES 4
#define CV_CORE_PORTS 24
#define CV_CORE_STACK_POINTER 4 /* register that a plain address without registers is of: push, pop, call, return */
#define CV_CORE_LEVELS 4        /* beyond the first that can serve a load, memory included */

enum cv_core_op_flags {
    CV_CORE_LOAD = 1,                /* reads memory */
    CV_CORE_STORE = 2,               /* writes memory */
    CV_CORE_FUSED = 4,               /* a branch that became one with the instruction before it: no slot, no port */
    CV_CORE_NO_PORT = 8,             /* needs none but those of its memory operands: nop, eliminated move, zero idiom, plain load */
    CV_CORE_FOLDED = 16,             /* an addition of a constant that some cores carry out while renaming */
    CV_CORE_VECTOR = 32,             /* its loads and forwards take the vector side's latency */
    CV_CORE_PLAIN = 64,              /* its address is one register and a displacement: the fast way of store forwarding */
    CV_CORE_ELEMENTS = 128,          /* every reference is a load of its own: gather */
    CV_CORE_SERIAL = 256,            /* waits for all before it, as all after it wait for it: cpuid */
    CV_CORE_REPEATED = 512,          /* a string instruction: right after itself, a turn that costs only what it moves */
    CV_CORE_RETURN = 1024,           /* its target comes from the stack of returns */
    CV_CORE_NEW_LINE = 2048,         /* in another line of code than the instruction before it */
    CV_CORE_LOCKED = 4096,           /* waits for all before it, and on some cores all after it wait for it */
    CV_CORE_NEW_END = 8192,          /* ends in another line of code than the instruction before it: on some cores it belongs there */
    CV_CORE_MOVED = 16384,           /* copies 4 or 8 bytes from memory to a general register */
    CV_CORE_CALL = 32768,            /* goes on in another function, and comes back */
    CV_CORE_PREFETCH = 65536,        /* nothing waits for its load */
    CV_CORE_COMPOUND = 131072,       /* its address has a scaled index, or three parts */
    CV_CORE_INTEGER_RESULT = 262144, /* takes a register of the integer file until it retires */
    CV_CORE_VECTOR_RESULT = 524288,  /* ... of the vector file */
    CV_CORE_FLAG_RESULT = 1048576,   /* ... of the file of flags */
    CV_CORE_INDIRECT = 2097152,      /* a jump or call to where a register or memory says */
    CV_CORE_WIDEST = 4194304         /* works on vectors of 64 bytes, which close ports to others on some cores */
};

/* One static instruction. Registers are numbers below CV_CORE_REGISTERS. */
typedef struct {
    uint32_t flags;
    uint8_t class_; /* index into the classes */
    uint8_t slots;  /* of the issue width */
    uint8_t n_reads, n_addresses, n_writes;
    uint8_t reads[CV_CORE_READS];         /* data only */
    uint8_t addresses[CV_CORE_ADDRESSES]; /* registers of its memory operand */
    uint8_t writes[CV_CORE_WRITES];
} cv_core_op;

typedef struct {
    uint32_t ports;           /* bit p: can start on port p; 0: needs none */
    uint16_t latency;         /* from start to result */
    uint16_t chained_latency; /* when the result that it waited for came from its own group */
    uint16_t busy;            /* cycles until its port takes the next one */
    uint16_t group;           /* classes between which results travel faster; 0: none */
    uint16_t half;            /* 1: its port is busy for half a cycle more, a cycle every second time */
    uint32_t also;            /* ports of a second micro-operation, which the result waits for, too; 0: there is none */
    uint32_t closed;          /* the class that stands for it while vectors of 64 bytes close ports; 0: itself */
} cv_core_class;

typedef struct {
    uint32_t issue_width; /* slots a cycle */
    uint32_t retire_width;
    uint32_t fetch_width;      /* slots a cycle up to a taken branch */
    uint32_t queue;            /* slots between fetch and issue */
    uint32_t taken_cycles;     /* fetch cycles that a taken branch ends */
    uint32_t return_cycles;    /* fetch cycles that a return ends */
    uint32_t call_cycles;      /* fetch cycles that a call ends */
    uint32_t near_targets;     /* taken branches for which this holds, the ones used last; 0: all */
    uint32_t target_ways;      /* of them in one line of code */
    uint32_t far_taken_cycles; /* fetch cycles that another one ends */
    uint32_t code_bytes;       /* of the first level that holds code; 0: all code is near */
    uint32_t code_line_cycles; /* of fetch for a line of code from the next level, while fetch runs ahead */
    uint32_t code_latency;     /* of such a line right after a mispredicted branch */
    uint32_t reorder_buffer;   /* slots */
    uint32_t scheduler;        /* instructions that wait for operands or a port */
    uint32_t load_buffer, store_buffer;
    uint32_t penalty;    /* cycles from the end of a mispredicted branch to the issue of what follows */
    uint32_t load_ports; /* bit masks */
    uint32_t store_ports;
    uint32_t load_latency; /* to the first dependent instruction, when the line is in the first level */
    uint32_t vector_load_latency;
    uint32_t split_cycles;           /* more for a load that touches two lines */
    uint32_t split_store_cycles;     /* of the cache for a store that touches two lines */
    uint32_t forward_latency;        /* from a store's data to the load's result */
    uint32_t vector_forward_latency; /* the same between vector registers */
    uint32_t fast_forward_latency;   /* the same where the address is plain and the operand no vector */
    uint32_t failed_forward_latency; /* where the load is no part of the store: from when it is in the cache */
    uint32_t string_bytes;           /* that a repeated string instruction moves in a cycle */
    uint32_t loop_buffer;            /* a loop of at most so many slots is fetched no more; 0: there is none */
    uint32_t loop_turns;             /* ... after so many turns of one path; its end is then predicted by nobody */
    uint32_t folded_period;          /* of this many folded additions one takes a cycle; 0: none is folded */
    uint32_t fill_buffers;           /* lines on their way to the first level */
    uint32_t line_bytes;
    uint32_t vector_load_ports;  /* ports that load vectors; 0: load_ports */
    uint32_t lone_vector_stores; /* 1: of vectors one a cycle enters the cache, also into the line of the one before */
    uint32_t index_cycles;       /* more of a load whose address has an index */
    uint32_t compound_cycles;    /* more of a load whose address is COMPOUND */
    uint32_t base_cycles;        /* more of an address computation through the registers in `addresses` */
    uint32_t code_window;        /* not 0: a fetch group ends where a line of code does; tables give its bytes */
    uint32_t predicted_pairs;    /* loads that are renamed to their store's register where it is as many stores away as before; 0: none */
    uint32_t named_pairs;        /* so are those whose store names the same register, unchanged since: 1, the stack pointer; 2, any */
    uint32_t renamed_moves;      /* 1: only loads that are MOVED, have an index or store, of 4 bytes or more; 0: all of general registers */
    uint32_t decoded_ops;        /* slots in the cache of decoded code, by lines; 0: all code is there */
    uint32_t decode_width;       /* slots a cycle of other code */
    uint32_t port_bytes;         /* that a port loads or stores at once, and vectors of more take a turn more; 0: all */
    uint32_t near_pages;         /* of 4 KiB, whose translations the first level of the TLB keeps; 0: all */
    uint32_t page_cycles;        /* more of a load from another page whose line is no farther than the second level */
    uint32_t locked_alone;       /* 1: what comes after a locked instruction waits for it */
    uint32_t entry_slots;        /* of an entry of decoded code, two of which are fetched in a cycle, of one line or the next; 0: no rule */
    uint32_t late_ports;         /* 1: an instruction takes the first of its ports that is free; 0: it is bound to one when it is issued */
    uint32_t met_cycles;         /* more of a load whose line is on its way for another one; 0: it has it with that one */
    uint32_t lines_ahead;        /* cycles by which the prediction of lines of code may be ahead of their fetch; 0: it takes no time */
    uint32_t indirect_cycles;    /* more of an indirect jump or call, and again where it went elsewhere before or is far */
    uint32_t override_cycles;    /* later are lines predicted after a branch that only long histories foresee; counts with lines_ahead */
    uint32_t string_cycles;      /* before a repeated string instruction moves more than two times string_bytes; 0: none */
    uint32_t integer_registers;  /* for results of instructions on their way; 0: as many as they need */
    uint32_t vector_registers, flag_registers;
    uint32_t closed_cycles; /* from the start of a WIDEST instruction on for which the `closed` of other classes stand for them; 0: never */
    uint32_t forward_eighths;   /* of a cycle, at least from a forwarded load's result to that of one that waits for what comes of it */
    uint32_t forwarded_updates; /* 1: operations on memory that read a register are not renamed by a fast_forward_latency of 0 */
} cv_core_params;

/* The code of a program. Arrays are copied. Segment s has the operations first_op[s] to first_op[s + 1]; a segment without any is passed
 * over. `address` and `next_address`: where it begins and what follows it in memory. */
typedef struct {
    size_t segments, ops, sites;
    const uint32_t *first_op; /* segments + 1 */
    const uint64_t *address, *next_address;
    const cv_core_op *op;
    const uint16_t *site_op; /* operation of a site, counted in its segment */
    const uint16_t *site_bytes;
    const uint8_t *site_store;
} cv_core_code;

typedef struct cv_core cv_core;

/* CV_ERROR_ARGUMENT for widths or buffers of 0, a class with unknown ports, an operation with an unknown class or register. */
cv_status cv_core_new(const cv_core_params *params, const cv_core_class *classes, size_t n_classes, const cv_core_code *code,
                      cv_core **core);
void cv_core_free(cv_core *core);

/* Where lines that come out of order are found: of the references of owner o the share rates[o * levels + k] brings one from level k
 * beyond the first, which takes latencies[o * levels + k] cycles after the walks[o] that the translation of its page takes. `owner`
 * has one number below `owners` for each site. */
typedef struct {
    uint32_t levels;
    size_t owners;
    const uint32_t *owner;
    const float *rates;
    const uint16_t *latencies, *walks;
} cv_core_far_shares;

/* Which reference brings such a line is seen from the path: one whose line was neither used lately nor follows a stream. Arrays are copied.
 */
cv_status cv_core_levels(cv_core *core, const cv_core_far_shares *given);

/* What came before of the references of one owner: how many of them from each line out of order to the next, that one included, for the
 * last CV_CORE_COURSE lines (gap[lines % CV_CORE_COURSE] is the oldest one, or 0), and how many since the last; a random number. */
#define CV_CORE_COURSE 256
typedef struct {
    uint32_t since, lines;
    uint16_t gap[CV_CORE_COURSE], phase;
} cv_core_course;

/* Owe an owner's references the lines that they would be owed after this course. */
void cv_core_owe(cv_core *core, size_t owner, const cv_core_course *course);

/* Walk a piece of a path. `flags` (one enum cv_visit_flags a visit) tell the mispredicted branches; `latency` (one a reference; 0: the
 * first level's) how long loads take. Both may be NULL. The pipeline is empty where the path does not continue. */
cv_status cv_core_walk(cv_core *core, const cv_path *path, const uint8_t *flags, const uint16_t *latency);

/* Walk each of some segments alone, from an empty pipeline: `turns` times in a row after `warm` times that are not counted, without
 * references. */
cv_status cv_core_turn(cv_core *core, const uint32_t *segments, size_t count, uint32_t warm, uint32_t turns);

/* What the cycles between two issues were spent on. */
enum cv_core_cause {
    CV_CAUSE_FRONT_END, /* instructions were not fetched in time */
    CV_CAUSE_BRANCHES,  /* a mispredicted branch was resolved, and fetch started again */
    CV_CAUSE_WIDTH,     /* as many were issued or retired as can be in a cycle */
    CV_CAUSE_DEPENDENT, /* buffers were full of what waited for results */
    CV_CAUSE_L1,        /* ... for loads that find their data in the first level, or for stores that enter it */
    CV_CAUSE_LEVELS     /* ... for lines of the next level; the farther ones follow, then the ports */
};
#define CV_CAUSE_PORTS (CV_CAUSE_LEVELS + CV_CORE_LEVELS)
#define CV_CORE_CAUSES (CV_CAUSE_PORTS + CV_CORE_PORTS)

/* Count from now on what each owner's operations are to blame for: `owner` has one number below `owners` for each operation, or another
 * number for one that nobody asks for. Copied. */
cv_status cv_core_blame(cv_core *core, const uint32_t *owner, size_t owners);
/* Cycles by owner and cause, [owner * CV_CORE_CAUSES + cause], of all walks without warm-up: together those in which issue went on (NULL
 * without cv_core_blame). Causes are taken where instructions are issued, as stacks of cycles per instruction are (Eyerman, Heirman, Du
 * Bois, Hur, "Multi-stage CPI stacks", IEEE CAL 2018): full buffers are blamed on the instruction that keeps its place longest. */
const uint64_t *cv_core_causes(const cv_core *core);

/* Cycles between the retirement of each operation and that of the one before, added up over all walks, without warm-up; cycles that a
 * mispredicted branch costs are its own. */
const uint64_t *cv_core_cycles(const cv_core *core);
const uint64_t *cv_core_executions(const cv_core *core); /* of each operation */
uint64_t cv_core_instructions(const cv_core *core);      /* walked, warm-up included */

#endif
