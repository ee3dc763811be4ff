/* The stream that the tracer writes and the trace reader decodes. Freestanding: no library, no other header than <stdint.h>,
 * so that the tracer (a Valgrind tool, GPL-2.0-or-later) and the rest of Convolver (MIT) share exactly this file. SPDX: MIT.
 *
 * A pipe holds the tracer's own pages (vmsplice): take them out by read, which copies them, not by splice or tee.
 *
 * The stream is a sequence of little-endian 64-bit words. Between records the reader looks at one word, the head:
 *
 *   bit 63 = 0           a set-sampled reference: bits 62..22 line address (address >> 6), bits 21..0 site
 *   bits 63..62 = 10     a visit of a segment: bits 31..0 segment id, followed by exactly as many address words as the segment's
 *                        definition says (`words`). A word may have any value, bit 63 included, since the reader counts.
 *   bits 63..62 = 11     a control record: bits 61..56 kind; kinds below CV_WIRE_PAYLOAD are one word (bits 55..0: argument);
 *                        all others are followed by as many payload words as bits 31..0 say (bits 55..32: argument).
 *                        A reader skips kinds that it does not know.
 *
 * Definitions come in the stream before their first use (and reach the reader before the code runs), ids count from 0 without gaps;
 * the same code at the same address keeps its id. Each object file is one module. Segments without sites have no visit records,
 * unless the tracer runs with --all-visits=yes, as it does by default where it records bursts: each is an executed path then.
 * Windows are written in burst sampling only; a full stream has none.
 *
 * A segment is a run of instructions with one entry that ends at the first exit that is no fault: all of it executes, or (a fault in
 * the middle) its record is never completed. Segments may overlap; static basic blocks are rebuilt from them afterwards
 * (convolver/tracing). Each static memory reference of a segment is a site; site ids are first_site + k.
 *
 * Exact execution counts do not travel in the stream: they lie in the counter file, shared memory that survives the tracer's
 * death. Counter number i is word i after the header page.
 */
#ifndef CV_WIRE_H
#define CV_WIRE_H

#include <stdint.h>

#define CV_WIRE_MAGIC UINT64_C(0x0a1a0a0d45524957) /* "WIRE\r\n\x1a\n": first word of a stream, followed by the version */
#define CV_WIRE_VERSION 1

#define CV_WIRE_VISIT (UINT64_C(2) << 62)
#define CV_WIRE_CONTROL (UINT64_C(3) << 62)
#define CV_WIRE_SITE_BITS 22 /* of a set-sampled reference */
#define CV_WIRE_PAYLOAD 32
/* Where set samples are of one of more classes than this, a reference to the line of the one before it (and no first write to it) is left
 * out: a first level with so many sets has the line in front, so that the deeper levels hear nothing of it. */
#define CV_WIRE_REPEATED_CLASSES 64

/* A masked (guarded) reference that did not happen carries this address word; it can be no user-space address. Each guarded site
 * has a word of its own. */
#define CV_WIRE_NOT_EXECUTED (UINT64_C(1) << 62)

enum cv_wire_kind {
    CV_WIRE_THREAD = 1,       /* argument: thread id (from 1; those of ended threads are used again) that executes what follows */
    CV_WIRE_WINDOW_OPEN = 2,  /* a burst begins; argument: references executed before it (low 56 bits) */
    CV_WIRE_WINDOW_CLOSE = 3, /* a burst ends; argument: references executed before this point */
    CV_WIRE_SETS_LOST = 4,    /* a set-sampled site id does not fit in 22 bits; argument: site; one more word follows, its address */
    CV_WIRE_PASSED = 5,       /* never in the tracer's stream: a recorder left out as many visits and sampled references here */
    CV_WIRE_WINDOW_WARM = 6,  /* what the window has held so far was warm-up (--warmup); argument: references executed before this point */
    CV_WIRE_EVENTS = 7,       /* never in the tracer's stream: as many events of data objects, which a file keeps apart, happened here */
    CV_WIRE_INTERVAL = 8, /* with --stretch: an interval begins, in which a burst or set samples may be left out; argument: its number */
    CV_WIRE_UNIT = 9,     /* never in the tracer's stream: what a recorder keeps or drops as one begins; argument: enum cv_wire_unit */
    CV_WIRE_MODULE = 32,  /* argument: module id; payload: struct cv_wire_module, then the path */
    CV_WIRE_SEGMENT = 33, /* payload: struct cv_wire_segment, instructions[], sites[], code bytes */
    CV_WIRE_END = 34,     /* argument: 1 where --stop-at never came, else 0; payload: struct cv_wire_end; the stream is complete */
    CV_WIRE_FLOW = 35,    /* payload: struct cv_wire_flow[], after the definition of its segment */
    /* Data objects, with --data-objects=yes only: */
    CV_WIRE_OBJECT = 36,  /* payload: struct cv_wire_object, then its text */
    CV_WIRE_SYMBOLS = 37, /* payload: one or more times struct cv_wire_symbol, then its name; each defines an object */
    CV_WIRE_EVENT = 38,   /* argument: enum cv_wire_event; payload: words as it says */
    CV_WIRE_SYSTEM = 39   /* payload: struct cv_wire_system, then its calls; before each CV_WIRE_END, the last one counts */
};

/* An object file mapped into the traced process. Code outside every file (JIT, vdso) belongs to a module with an empty path, whose
 * segments have their address as file_offset. */
struct cv_wire_module {
    uint64_t address;     /* where its first segment was seen mapped */
    uint64_t size_bytes;  /* of that mapping */
    uint64_t file_offset; /* of that mapping in the file */
    uint32_t path_bytes;  /* length of the path that follows, padded with zeros to whole words */
    uint32_t reserved;
};

enum cv_wire_site_flags {
    CV_WIRE_STORE = 1,     /* a write; otherwise a read */
    CV_WIRE_GUARDED = 2,   /* masked: its own counter (see guard_counter) says how often it happened */
    CV_WIRE_DEPENDENT = 4, /* the address was computed from a value loaded before in the same block, or, where the block loops onto
                              itself, in its previous turn */
    CV_WIRE_ATOMIC = 8,    /* compare-and-swap (what VEX makes of lock prefixes): a load and a store, both flagged */
    CV_WIRE_PREFETCH = 16  /* a read that nothing waits for, of one byte, wherever its address points */
};

enum cv_wire_instruction_flags {
    /* Only the first of a segment: an exit divides this instruction (rep movs, for example). The segment before has counted its
     * execution; here count its flops and sites alone. */
    CV_WIRE_CONTINUED = 1
};

struct cv_wire_instruction {
    uint16_t offset; /* from the segment's address, rising */
    uint8_t length;
    uint8_t flags;  /* enum cv_wire_instruction_flags */
    uint16_t flops; /* floating-point operations of one execution: operations times lanes */
    uint16_t reserved;
};

struct cv_wire_site {
    int64_t displacement;   /* address = word[base] + displacement, or displacement alone when base < 0 */
    uint32_t guard_counter; /* counter number, where CV_WIRE_GUARDED */
    uint16_t size_bytes;
    uint16_t instruction; /* index into the segment's instructions */
    int16_t base;         /* index of its address word in the record */
    uint8_t flags;        /* enum cv_wire_site_flags */
    uint8_t reserved[5];
};

struct cv_wire_segment {
    uint64_t address;
    uint64_t file_offset; /* of the first instruction in its module's file */
    uint32_t id;
    uint32_t module;
    uint32_t counter;    /* counter number: executions of the whole segment */
    uint32_t first_site; /* id of its first site */
    uint16_t words;      /* address words of one visit record */
    uint16_t sites;
    uint16_t instructions;
    uint16_t code_bytes; /* instruction bytes that follow the sites, padded with zeros to whole words */
};

/* Where the values in a segment come from. `registers`: bits 63..62 kind, bits 61..40 index, bits 32..0 a set of the registers with
 * which the segment begins (general ones in the order of their encoding, vector ones, the flags). `references`: a set of the segment's
 * own loads by number, those after the 64th left out. The first element is a head: `registers` is the segment's id. Addresses and
 * stored values without an element depend on nothing (a constant), registers without an element are left as they were. */
enum cv_wire_flow_kind {
    CV_WIRE_FLOW_ADDRESS = 0, /* of the reference with this index */
    CV_WIRE_FLOW_VALUE = 1,   /* what the reference with this index stores */
    CV_WIRE_FLOW_REGISTER = 2 /* the register with this index when the segment ends */
};

enum cv_wire_flow_register { CV_WIRE_FLOW_VECTOR = 16, CV_WIRE_FLOW_FLAGS = 32, CV_WIRE_FLOW_REGISTERS = 33 };

struct cv_wire_flow {
    uint64_t registers;
    uint64_t references;
};

/* A data object is what references are attributed to. Objects count from 0 without gaps, symbols among them, in the order of their
 * definitions. At each moment two layers say which object has an address: blocks (of allocation sites, and symbols), and below them
 * regions (all others). An object may have many places. */
enum cv_wire_object_kind {
    CV_WIRE_HEAP = 1,     /* blocks of an allocation function (text) that one place in the code called */
    CV_WIRE_SYMBOL = 2,   /* a variable of an object file; defined by CV_WIRE_SYMBOLS only */
    CV_WIRE_STACK = 3,    /* a thread's stack; `thread` */
    CV_WIRE_MAPPING = 4,  /* anonymous memory that a place in the code, where it is known, had mapped */
    CV_WIRE_FILE = 5,     /* a mapped file (text: its path), its zero-filled data included */
    CV_WIRE_ALLOCATOR = 6 /* what allocation functions have for themselves: their heap outside the blocks that they gave */
};

#define CV_WIRE_NO_MODULE UINT32_MAX

struct cv_wire_object {
    uint64_t file_offset; /* within the call instruction, in its module's file */
    uint32_t module;      /* CV_WIRE_NO_MODULE where no place is known */
    uint32_t kind;        /* enum cv_wire_object_kind */
    uint32_t thread;
    uint32_t text_bytes; /* length of the text that follows, padded with zeros to whole words */
};

struct cv_wire_symbol {
    uint64_t address;
    uint64_t size_bytes;
    uint32_t module;
    uint32_t text_bytes;
};

enum cv_wire_event {
    CV_WIRE_PLACED = 1,   /* object, address, bytes: from now on the object is there */
    CV_WIRE_FREED = 2,    /* address: the block that begins there has ended; there need be none */
    CV_WIRE_UNMAPPED = 3, /* address, bytes: nothing is there */
    CV_WIRE_MOVED = 4,    /* from, to, bytes: a region went elsewhere */
    CV_WIRE_LOADED = 5    /* first symbol's object, number: they are at their addresses */
};

/* What the program had of the kernel, from its beginning (or that of the traced region) to where the record is. Pages are those that it
 * has or gave back, each counted once for every time that it came. */
struct cv_wire_pages {
    uint64_t anonymous;       /* filled with zeros, or copied from a file when they were written */
    uint64_t populated;       /* of the anonymous and the shared: filled by the kernel ahead (MAP_POPULATE) */
    uint64_t file;            /* of files, not written */
    uint64_t windows;         /* ... aligned windows of 64 KiB that have some */
    uint64_t shared;          /* of memory or files that are shared and may be written */
    uint64_t huge_pages;      /* of the anonymous: those in aligned regions of 2 MiB within one mapping */
    uint64_t huge_regions;    /* ... these regions */
    uint64_t advised_pages;   /* of the huge: those where the program asked for huge pages */
    uint64_t advised_regions; /* ... these regions */
    uint64_t heap_pages;      /* of the anonymous: those in such regions of the allocator's memory, or where huge pages were asked for */
    uint64_t heap_regions;    /* ... these regions; the last one of the heap counts whole */
};

enum cv_wire_system_flags { CV_WIRE_PAGES_KNOWN = 1 };

struct cv_wire_system {
    uint32_t page_bytes;
    uint32_t flags; /* enum cv_wire_system_flags */
    struct cv_wire_pages pages;
    uint64_t forks;   /* processes made */
    uint64_t threads; /* threads made */
    uint64_t calls;   /* struct cv_wire_call that follow */
};

/* What the first argument of a call that moves bytes is. */
enum cv_wire_target {
    CV_WIRE_NO_TARGET = 0, /* the call moves none, or has no open descriptor */
    CV_WIRE_TO_FILE = 1,
    CV_WIRE_TO_PIPE = 2,
    CV_WIRE_TO_SOCKET = 3,
    CV_WIRE_TO_NULL = 4, /* /dev/null */
    CV_WIRE_TO_OTHER = 5,
    CV_WIRE_TARGETS = 6
};

struct cv_wire_call {
    uint32_t number; /* of the system call */
    uint32_t target; /* enum cv_wire_target */
    uint64_t calls;
    uint64_t bytes;
};

/* The record for an exec is written before it, since a successful one never returns. If it fails, further records follow: the last
 * CV_WIRE_END of a stream is the true one. */
enum cv_wire_end_reason { CV_WIRE_EXITED = 0, CV_WIRE_SIGNALED = 1, CV_WIRE_EXECED = 2 };

struct cv_wire_end {
    uint32_t reason; /* enum cv_wire_end_reason */
    int32_t code;    /* exit status or signal number */
    uint64_t windows;
};

/* Argument of CV_WIRE_UNIT. Words and lines begin anew, as in a chunk of their own. */
enum cv_wire_unit {
    CV_WIRE_UNIT_WARM = 1,      /* its set samples are warm-up: samples were left out just before */
    CV_WIRE_UNIT_STRETCH = 2,   /* a stretch of set samples without gap begins here */
    CV_WIRE_UNIT_GAPS_SHIFT = 2 /* from this bit on: of so many set samples of the run one was kept; 0: none was left out so far */
};

/* Header page of the counter file; counters (uint64_t) begin at CV_COUNTERS_OFFSET. */
#define CV_COUNTERS_MAGIC UINT64_C(0x31525443564e4f43) /* "CONVCTR1" */
#define CV_COUNTERS_OFFSET 4096

struct cv_counters_header {
    uint64_t magic;
    uint64_t capacity; /* counters that fit in the file; it grows */
    uint64_t used;     /* counters in use */
    uint64_t finished; /* 1 after the tracer has written the last CV_WIRE_END */
    int64_t pid;
    /* Written by the reader; 0: as at first. Of so many intervals one has a burst, and one begins a stretch of set samples, which hold
     * one of so many classes of sets. */
    uint64_t every[3]; /* enum cv_every */
    uint64_t own[2];   /* written by the tracer: the same, where samples cost too much; the larger one counts */
};

enum cv_every { CV_EVERY_BURST, CV_EVERY_STRETCH, CV_EVERY_SET };

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct cv_wire_module) == 32, "wire layout");
_Static_assert(sizeof(struct cv_wire_instruction) == 8, "wire layout");
_Static_assert(sizeof(struct cv_wire_site) == 24, "wire layout");
_Static_assert(sizeof(struct cv_wire_segment) == 40, "wire layout");
_Static_assert(sizeof(struct cv_wire_end) == 16, "wire layout");
_Static_assert(sizeof(struct cv_wire_flow) == 16, "wire layout");
_Static_assert(sizeof(struct cv_wire_object) == 24, "wire layout");
_Static_assert(sizeof(struct cv_wire_symbol) == 24, "wire layout");
_Static_assert(sizeof(struct cv_wire_system) == 120, "wire layout");
_Static_assert(sizeof(struct cv_wire_call) == 24, "wire layout");
#endif

#endif
