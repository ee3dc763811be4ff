/* What the engine (the blob inside the traced process, no libc) and its controller share: one sparse file of memory, mapped at a fixed
 * address in the traced process and anywhere in the controller. Counts lie in it, so they survive the program's death. */
#ifndef CV_BLOB_SHARED_H
#define CV_BLOB_SHARED_H

#include <stdint.h>

#include "../threads/thread_calls.h"

#define CV_BLOB_BASE UINT64_C(0x200000000000)
#define CV_FAMILY_BASE UINT64_C(0x208000000000)
#define CV_SHARED_BASE UINT64_C(0x210000000000)

#define CV_MOST_SEGMENTS (1u << 20)
#define CV_MOST_EXITS (1u << 20)
#define CV_MOST_LISTED (1u << 24)
#define CV_MOST_CODE (1u << 26)
#define CV_MOST_SUPERBLOCKS (1u << 20)
#define CV_MOST_PLACES (1u << 23)
#define CV_MOST_MAPPINGS (1u << 14)
#define CV_MOST_REASONS 16
#define CV_MOST_SLOTS 1024
#define CV_MOST_REGIONS 64
#define CV_HASH (1u << 21)
#define CV_MOST_CALLS 512
#define CV_MOST_COUNTERS (1u << 22) /* of the stream */
#define CV_CALL_TARGETS 6
#define CV_MOST_MARKED 32
#define CV_MOST_WATCHED 4096
#define CV_EVENTS (1u << 16) /* that the controller may not have read yet */
#define CV_MOST_RECORDS (1u << 16)
#define CV_MOST_THREAD_PLACES (1u << 14)
#define CV_MOST_RETURNS (1u << 14)
#define CV_MOST_CLASSES 512
#define CV_NO_CLASS UINT32_MAX /* yet */
/* What stands before the instruction at which a program goes on after a restartable sequence (rseq) that the kernel aborted. */
#define CV_SEQUENCES UINT32_C(0x53053053)

/* Counting code, code that records visits, and counting code that records references to one class of sets. */
enum cv_blob_mode { CV_COUNTING, CV_RECORDING, CV_FILTERING, CV_NATIVE };
/* The upper half of the word says that the thread's part of the buffer is full. */
enum cv_blob_flag {
    CV_WANT_INTERVAL = 1,
    CV_WANT_SIGNAL = 2,
    CV_WANT_NATIVE = 4,
    CV_WANT_MODE = 8,
    CV_WANT_BETTER = 16,
    CV_WANT_EVENTS = 32,
    CV_WANT_PART = 64
};

/* What a thread recorded lies in parts of its buffer, which it hands to the controller one after the other. A part holds visits, or hits:
 * pairs of words, (segment << 8 | reference, address), of references that may lie in the class. A repeated instruction adds pairs with its
 * turns before and after, and its pointer after. */
enum cv_blob_part_kind { CV_PART_VISITS, CV_PART_HITS };
enum cv_blob_hit { CV_HIT_BEFORE = 253, CV_HIT_BEHIND, CV_HIT_POINTER };
/* In place of a segment, with data objects: what follows was recorded after so many events, which the next word says. */
#define CV_PART_EVENTS UINT64_C(0xffffffff)

struct cv_blob_part {
    uint32_t kind;
    uint32_t bytes;
    uint32_t first, last; /* of a burst */
    uint32_t sets;        /* the class is being recorded: look for it in visits, too */
    uint32_t unused;
    uint64_t interval;
    uint64_t events; /* before it, with data objects */
};

/* ---- data objects ---- */

/* What the program did to its memory, in this order. `name` is a number of the controller's. */
enum cv_blob_event_kind {
    CV_EVENT_GIVEN,    /* site, address, bytes: a block of the function `name` */
    CV_EVENT_FREED,    /* address */
    CV_EVENT_MAPPED,   /* site, address, bytes: anonymous memory; name: enum cv_blob_mapped */
    CV_EVENT_FILE,     /* address, bytes, offset; name: 1 for code; `more` elements with the path follow */
    CV_EVENT_HEAP,     /* address, bytes: it has grown */
    CV_EVENT_UNMAPPED, /* address, bytes */
    CV_EVENT_MOVED,    /* from, to, bytes */
    CV_EVENT_STACK     /* address, bytes; name: thread */
};
enum cv_blob_mapped { CV_MAPPED_BY_NONE, CV_MAPPED_BY_SITE, CV_MAPPED_BY_ALLOCATOR };

struct cv_blob_event {
    uint16_t kind, name;
    uint16_t more;
    uint16_t unused;
    uint64_t word[3];
};

/* The entry of an allocation function, or of one that synchronizes. */
struct cv_blob_watched {
    uint64_t address;
    uint32_t kind, name; /* enum cv_allocator, or CV_WATCHED_CALLS and enum cv_function */
};

#define CV_WATCHED_CALLS 64

#define CV_DEEPEST 16

struct cv_blob_frame {
    uint64_t sp;   /* at the entry: the return address lies there */
    uint64_t site; /* within the call */
    uint64_t old;  /* block of realloc; where posix_memalign leaves its result */
    uint64_t size;
    uint64_t given; /* what a function within gave last */
    uint32_t kind, name;
};

struct cv_blob_frames {
    uint64_t depth;
    struct cv_blob_frame frame[CV_DEEPEST];
};

/* A run of instructions with one entry that ends at its first branch, call, return or system call, before and after a repeated string
 * instruction, or after 48 instructions. */
struct cv_blob_segment {
    uint64_t address;
    uint32_t code; /* where its bytes lie in the file */
    uint32_t mapping;
    uint32_t counter; /* of its recording translation; 0: none yet */
    uint16_t instructions;
    uint16_t bytes;
    uint16_t words;  /* of a visit */
    uint8_t repeats; /* one repeated string instruction */
    uint8_t prefers; /* enum cv_blob_direction: what its branch did more often */
    uint32_t wire;   /* its counter in the stream; a repeated one has the next, too, and each masked element one of the next */
};

enum cv_blob_direction { CV_DIRECTION_UNKNOWN, CV_DIRECTION_ON, CV_DIRECTION_TAKEN };

/* How often the branch at a segment's end went which way. */
struct cv_blob_branch {
    uint64_t times[3]; /* by enum cv_blob_direction */
};

/* A counter of exits: whenever it is incremented, the first `segments` segments from `first` in the list ran. Counters of turns of a
 * repeated instruction have segments = 0: `first` is its segment, `sign` 1 before and -1 after it. Those of masked elements of a segment,
 * too: `lanes` of them, from `lane` on. */
struct cv_blob_exit {
    uint32_t first;
    uint16_t segments;
    int16_t sign : 2;
    uint16_t lanes : 5;
    uint16_t lane : 9;
};

struct cv_blob_superblock {
    uint64_t start, end; /* of its translation */
    uint32_t first_place, places;
    uint32_t first_listed, listed; /* segments; none: it was forgotten */
    uint32_t first_exit;
    uint16_t exits;
    uint8_t mode;
    uint8_t version; /* 0: by static prediction */
};

enum cv_blob_spilled { CV_PLACE_RCX = 1 };

/* Where an instruction of the program was copied to. */
struct cv_blob_place {
    uint64_t address;
    uint32_t offset;   /* from the superblock's start */
    uint16_t segments; /* of the superblock that had run when it begins */
    uint16_t spilled;  /* enum cv_blob_spilled: registers whose values lie in the slot */
};

struct cv_blob_mapping {
    uint64_t low, high, offset;
    uint32_t flags; /* enum cv_blob_mapping_flag */
    uint32_t path_bytes;
    char path[224];
};

enum cv_blob_mapping_flag { CV_MAPPING_FILE = 1, CV_MAPPING_WRITABLE = 2, CV_MAPPING_GONE = 4, CV_MAPPING_CLOSED = 8 };

struct cv_blob_entry {
    uint64_t key, code;
};

struct cv_blob_region {
    uint64_t base, at, pool, end;
};

/* When bursts and set samples begin and end. The run is divided into intervals of about as many references: a thread ends one whenever it
 * has come to so many heads of superblocks. What samples cost is measured, and where it is too much, fewer begin. */
struct cv_blob_pace {
    uint64_t heads;                 /* of an interval, as the controller finds; 0: there are no intervals */
    uint64_t begun, heads_ended;    /* intervals that began, and heads of those that have ended */
    uint64_t stretch;               /* intervals with set samples that follow each other; 0: nothing is ever left out */
    uint64_t every[2];              /* of so many intervals one has a burst, and one begins a stretch: as the reader wants */
    uint64_t own[2];                /* as it costs; the larger one counts */
    uint64_t halved[2];             /* how often `own` has doubled */
    uint64_t time[2], intervals[2]; /* processor time without bursts, counting and filtering */
    uint64_t bursts;
    uint64_t spent[2], used[2]; /* by bursts and set samples, and by everything, since `own` has changed */
    uint64_t read[2];           /* the controller's part of what they cost */
    uint64_t filtered[2];       /* time[1], intervals[1] when own[1] changed */
};

/* Why a thread went back to native execution. */
struct cv_blob_reason {
    uint64_t address;
    char text[120];
};

struct cv_blob_call {
    uint64_t calls, bytes;
};

/* What belongs to a thread; gs points to it. Emitted code uses the offsets of the first words. */
struct cv_slot {
    uint64_t self, a, b, c, target, jump, rsp, link; /* 0 8 16 24 32 40 48 56 */
    uint64_t left, buffer, flag, mode;               /* 64 72 80 88 */
    uint64_t next, child, started, again;            /* 96 104 112 120: continue here after a system call; a new thread's slot */
    uint64_t words[4], leave_mask, leaving;          /* 128 160 168: for going native (cv_leave) */
    uint64_t outside_target;                         /* 176: where native code goes on */
    uint64_t heads;                                  /* 184: down to the end of the interval; its highest byte asks for a look at `flag` */
    uint64_t set_mask, leaves_repeated;              /* 192 200: as in cv_shared, since the part began */
    uint64_t line_negated, written_negated; /* 208 216: of the last hit, and of the last store if no hit of another line came since */
    uint64_t awaited_negated;               /* 224: the stack pointer after the return of the innermost allocation function; 0: of none */
    uint64_t total;                         /* 232: instructions, from the second thread's start on */
    uint64_t tid, in_use;
    uint64_t resume; /* program address at which enter_resume goes on */
    uint64_t saved_mask;
    uint64_t handed, taken; /* parts so far, by the thread and by the controller */
    uint64_t bursts, misses, burst_references, burst_visits, part_visits;
    uint64_t pending, pending_mask, pending_info[16], state_words[8];
    uint64_t alternate_stack, alternate_flags, alternate_size;
    uint64_t call_number, call_target;
    uint64_t went_native;                                  /* for a reason: it does not come back */
    uint64_t in_part;                                      /* something is being recorded */
    uint64_t outside_since, outside_time, outside_entries; /* in code that the program made: since when (0: not now), how long, how often */
    uint64_t close_after;                                  /* the system call */
    uint64_t has_lookups;
    uint64_t interval_heads;                /* that this interval has */
    uint64_t heads_behind;                  /* the burst that begins when `heads` have come, until the interval ends; 0: none begins */
    uint64_t since, in_bursts, burst_since; /* processor time: when the interval began, of bursts in it, when this one began */
    uint64_t longer;                        /* intervals than others, as a power of two: they would take no time */
    uint64_t random;
    uint64_t guest;              /* a child that shares the memory until it becomes another program (vfork): what it counts is nobody's */
    uint64_t marked;             /* it has just come by a mark at its target */
    uint64_t asked;              /* the controller waits for its exec */
    uint64_t at_gate;            /* it executes nothing any more before it goes on natively */
    uint64_t marked_to;          /* where the last word about events in its buffer ends */
    uint64_t stack, stack_bytes; /* of a new thread, where its parent said so */
    struct cv_blob_period {      /* records of the thread's log that have no class yet (blob_log.c) */
        uint64_t lock;           /* who settles it */
        uint64_t attributed, settled; /* `total` then */
        uint64_t key, most, all;
        uint64_t records, half;            /* in one half of their list */
        uint64_t settlements, apart, ends; /* events until the one that ends an interval of its own; whether a period ends now */
        uint64_t faults;
    } period;
    struct cv_blob_head { /* at which it was followed last */
        uint64_t address, sp, total;
    } last_head;
};

/* The byte of `heads` that makes a thread look at its flag at the next head. Written by another thread it may get lost; write it again. */
#define CV_LOOK_BYTE 7
#define CV_LOOK_MARK 0x80
#define CV_HEADS (UINT64_MAX >> 8)

/* A thread looks at its flag at its next head. */
static inline void cv_look(struct cv_slot *slot)
{
    __atomic_store_n((uint8_t *)&slot->heads + CV_LOOK_BYTE, CV_LOOK_MARK, __ATOMIC_RELEASE);
}

/* ... and does this there (enum cv_blob_flag). */
static inline void cv_want(struct cv_slot *slot, uint64_t what)
{
    __atomic_fetch_or(&slot->flag, what, __ATOMIC_ACQ_REL);
    cv_look(slot);
}

#define CV_GATE_NANOSECONDS 5000000

#define CV_SLOT_BYTES UINT64_C(0x2000000)
#define CV_SLOT_SIGNAL_STACK 0x20000
#define CV_SLOT_SIGNAL_STACK_BYTES 0x40000
#define CV_SLOT_FRAMES 0x60000
#define CV_SLOT_FOLLOWED 0x70000
#define CV_SLOT_PERIOD 0x72000 /* two halves of a list */
#define CV_MOST_PERIOD 2048
#define CV_SLOT_LANES 0x7f000 /* a vector of indices; where elements begin; a mask */
#define CV_SLOT_PARTS 0x80000
#define CV_SLOT_LOOKUP 0x100000 /* of indirect branches: a table for each mode, the same memory in all slots (CV_OFF_LOOKUP) */
#define CV_LOOKUPS 65536
#define CV_LOOKUP_BYTES (8 * CV_LOOKUPS)
#define CV_SLOT_COUNTERS 0x400000
#define CV_SLOT_BUFFER 0x1000000
#define CV_SLOT_BUFFER_BYTES 0x400000 /* a larger one would leave the caches, and each of its pages costs a fault */
#define CV_PART_BYTES 0x40000
#define CV_PARTS (CV_SLOT_BUFFER_BYTES / CV_PART_BYTES)
#define CV_SLOT_SNAPSHOT 0x1400000 /* of the counters, as they were when the period began */

enum cv_blob_mark { CV_MARK_START = 1, CV_MARK_STOP = 2 };

/* What the controller asks for; a forked child begins with the same. */
struct cv_blob_setup {
    uint64_t mode, burst_references, sets, set_class, set_mask, leaves_repeated, stretch, heads;
    uint64_t pext;            /* the processor extracts bits without touching the flags (BMI2) */
    uint64_t objects;         /* data objects are reported */
    uint64_t follows;         /* records that the log of threads may have; 0: there is none */
    uint64_t inside;          /* the traced part of the run has begun */
    uint64_t markers, places; /* enum cv_blob_mark that marks in the program stand for; entries of `place` */
    struct cv_blob_marked {   /* where a part begins or ends */
        uint64_t offset;
        uint32_t marks; /* enum cv_blob_mark */
        uint32_t path_bytes;
        char path[224];
    } place[CV_MOST_MARKED];
};

struct cv_shared {
    uint64_t magic;
    uint64_t lock;
    uint64_t segments, exits, listed, code, superblocks, places, mappings, slots, regions, reasons;
    uint64_t wire_numbers;
    uint64_t mode; /* of threads between bursts */
    uint64_t burst_references;
    uint64_t sets, set_class; /* references to lines with set_class in their low bits are recorded; sets 0: none */
    uint64_t set_mask;        /* the bits of an address in which the class that the reader wants shows; it has `sets` or more */
    uint64_t leaves_repeated; /* hits of the line of the one before, see CV_WIRE_REPEATED_CLASSES */
    uint64_t interval;        /* of the run, that parts begin in */
    uint64_t controller;      /* process */
    uint64_t forks, threads, execing, leave;
    uint64_t gate;        /* 1: threads that enter or leave wait here, for CV_GATE_NANOSECONDS at most */
    uint64_t gave_back;   /* the program has its signal handlers again */
    uint64_t bursts_only; /* native between bursts: signals are blocked in a burst, and it ends at a system call */
    uint64_t attached;    /* the program ran before: take over its signal handlers */
    uint64_t last_call;   /* the program ends before its system call of this number, for comparisons; 0: never */
    uint64_t made_calls;  /* counted only for that */
    uint64_t initialized;
    uint64_t lookups_filled; /* a bit for each mode */
    uint64_t better;         /* superblocks are to be made anew, by what branches did */
    uint64_t made_anew;
    uint64_t lookup_faults;               /* of threads but the first, in their look-up tables, when the program ended */
    uint64_t outside;                     /* some thread has run code that the program made: code of files is closed */
    uint64_t family;                      /* children are traced, too: CV_FAMILY_BASE is mapped */
    uint64_t process, untraced;           /* its number; children that run natively */
    uint64_t exited;                      /* its exit status, plus 1; 0: it has not ended by itself */
    uint64_t usage[18];                   /* struct rusage, then or before an exec */
    uint64_t inside;                      /* what runs counts: CV_OFF_BASE has what to add */
    uint64_t stopped;                     /* ... and did not, once it came by --stop-at */
    uint64_t objects;                     /* data objects are reported */
    uint64_t events, looked_at, reported; /* noted, looked at by the controller, and reported */
    uint64_t watched;
    uint64_t heap_end;
    uint64_t follows, following;    /* as set up, until there are so many; there has been a second thread */
    uint64_t records, records_read; /* of the log, by the controller */
    uint64_t returns, thread_places, classes;
    struct cv_blob_setup setup;
    struct cv_blob_pace pace;
    struct cv_blob_region region[CV_MOST_REGIONS];
    struct cv_blob_reason reason[CV_MOST_REASONS];
    struct cv_blob_call calls[CV_MOST_CALLS][CV_CALL_TARGETS];
};

/* All processes of a traced family ask one controller, through memory that they share. */
enum cv_family_kind { CV_FAMILY_FORKED = 1, CV_FAMILY_EXEC, CV_FAMILY_FAILED };
enum cv_family_state { CV_REQUEST_FREE, CV_REQUEST_TAKEN, CV_REQUEST_ASKED, CV_REQUEST_ANSWERED };

struct cv_family_request {
    uint32_t state; /* enum cv_family_state; who waits, waits for it */
    uint32_t kind;
    int32_t process, thread, parent;
    int32_t file;      /* forked: the descriptor of its memory */
    int32_t directory; /* exec: what the path begins at */
    int32_t answer;    /* 1: it is traced */
    char path[4064];
};

#define CV_MOST_REQUESTS 64

struct cv_family {
    uint32_t rung; /* the controller waits for it */
    int32_t controller;
    int64_t forks; /* that have begun and are not known yet */
    struct cv_family_request requests[CV_MOST_REQUESTS];
};

#define CV_SHARED_MAGIC UINT64_C(0x31454e49474e4543) /* "CENGINE1" */
#define CV_OFF_SEGMENTS UINT64_C(0x100000)
#define CV_OFF_EXITS (CV_OFF_SEGMENTS + UINT64_C(32) * CV_MOST_SEGMENTS)
#define CV_OFF_LIST (CV_OFF_EXITS + UINT64_C(8) * CV_MOST_EXITS)
#define CV_OFF_CODE (CV_OFF_LIST + UINT64_C(4) * CV_MOST_LISTED)
#define CV_OFF_SUPERBLOCKS (CV_OFF_CODE + UINT64_C(1) * CV_MOST_CODE)
#define CV_OFF_PLACES (CV_OFF_SUPERBLOCKS + UINT64_C(40) * CV_MOST_SUPERBLOCKS)
#define CV_OFF_MAPPINGS (CV_OFF_PLACES + UINT64_C(16) * CV_MOST_PLACES)
#define CV_OFF_HASH (CV_OFF_MAPPINGS + UINT64_C(256) * CV_MOST_MAPPINGS)
#define CV_OFF_BRANCHES (CV_OFF_HASH + 4 * UINT64_C(16) * CV_HASH)
#define CV_OFF_LOOKUP (CV_OFF_SLOTS - CV_NATIVE * CV_LOOKUP_BYTES)
#define CV_OFF_SLOTS UINT64_C(0x40000000)
/* Counters as in a slot: what was counted in parts of the run that have ended; while one goes on, less what its beginning found. */
#define CV_OFF_BASE (CV_OFF_SLOTS + CV_MOST_SLOTS * CV_SLOT_BYTES)
#define CV_OFF_EVENTS (CV_OFF_BASE + 8 * CV_MOST_EXITS)
#define CV_OFF_WATCHED (CV_OFF_EVENTS + sizeof(struct cv_blob_event) * CV_EVENTS)
/* The log of threads: its newest records, places in the code by number, classes of work by key, and their counts by exit. */
#define CV_OFF_RECORDS (CV_OFF_WATCHED + sizeof(struct cv_blob_watched) * CV_MOST_WATCHED)
#define CV_OFF_THREAD_PLACES (CV_OFF_RECORDS + sizeof(struct cv_thread_record) * CV_MOST_RECORDS)
#define CV_OFF_RETURNS (CV_OFF_THREAD_PLACES + UINT64_C(16) * CV_MOST_THREAD_PLACES)
#define CV_OFF_CALLS (CV_OFF_RETURNS + UINT64_C(8) * CV_MOST_RETURNS)
#define CV_OFF_CLASS_KEYS (CV_OFF_CALLS + sizeof(struct cv_all_calls))
#define CV_OFF_CLASSES (CV_OFF_CLASS_KEYS + UINT64_C(8) * CV_MOST_CLASSES)
#define CV_OFF_FREQUENT (CV_OFF_CLASSES + UINT64_C(8) * CV_MOST_EXITS * CV_MOST_CLASSES) /* numbers of superblocks that run often */
#define CV_SHARED_BYTES (CV_OFF_FREQUENT + UINT64_C(4) * CV_MOST_SUPERBLOCKS)

_Static_assert(sizeof(struct cv_blob_segment) == 32 && sizeof(struct cv_blob_exit) == 8 && sizeof(struct cv_blob_superblock) == 40,
               "layout");
_Static_assert(sizeof(struct cv_blob_place) == 16 && sizeof(struct cv_blob_mapping) == 256, "layout");
_Static_assert(CV_OFF_BRANCHES + UINT64_C(24) * CV_MOST_SEGMENTS <= CV_OFF_LOOKUP && sizeof(struct cv_shared) <= CV_OFF_SEGMENTS, "layout");
_Static_assert(sizeof(struct cv_slot) <= 4096 && sizeof(struct cv_blob_event) == 32, "layout");
_Static_assert(CV_SLOT_FRAMES + sizeof(struct cv_blob_frames) <= CV_SLOT_FOLLOWED, "layout");
_Static_assert(CV_SLOT_FOLLOWED + sizeof(struct cv_followed) <= CV_SLOT_PERIOD, "layout");
_Static_assert(CV_SLOT_PERIOD + 2 * 8 * CV_MOST_PERIOD <= CV_SLOT_LANES && CV_SLOT_LANES + 128 <= CV_SLOT_PARTS, "layout");
_Static_assert(CV_SLOT_SNAPSHOT >= CV_SLOT_BUFFER + CV_SLOT_BUFFER_BYTES && CV_SLOT_SNAPSHOT + 8 * CV_MOST_EXITS <= CV_SLOT_BYTES,
               "layout");

static inline int cv_has_marks(const struct cv_shared *shared) { return shared->setup.markers || shared->setup.places; }

static inline void cv_begin_shared(struct cv_shared *shared, const struct cv_blob_setup *setup)
{
    shared->magic = CV_SHARED_MAGIC;
    shared->exits = 1; /* number 0: none */
    shared->setup = *setup;
    shared->inside = setup->inside;
    shared->objects = setup->objects;
    shared->follows = setup->follows;
    shared->mode = setup->inside ? setup->mode : CV_COUNTING;
    shared->burst_references = setup->burst_references;
    shared->sets = setup->sets;
    shared->set_class = setup->set_class;
    shared->set_mask = setup->set_mask;
    shared->leaves_repeated = setup->leaves_repeated;
    shared->pace.stretch = shared->pace.every[1] = setup->stretch;
    shared->pace.every[0] = 1;
    shared->pace.heads = setup->heads;
}

#endif
