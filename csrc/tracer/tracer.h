/* SPDX-License-Identifier: GPL-2.0-or-later
 * What the parts of the tracer share. The tracer is a Valgrind tool, a program of its own: it links Valgrind's GPL code and shares
 * with the rest of Convolver only the freestanding stream format cv_wire.h.
 *
 * The way of a block of guest code: analysis.c lists its memory references, segments.c cuts it at its exits, gives each segment
 * its counters and writes its definition, instrument.c adds the inline code; pack.c and fuse.c have made vector
 * code faster before.
 *
 * Assumptions made everywhere: amd64, little-endian; Valgrind runs one guest thread at a time, and runs tool code (helpers,
 * translation, syscalls, signals) only between or inside guest blocks of that thread, so no lock is needed.
 */
#ifndef CV_TRACER_H
#define CV_TRACER_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"

#include "../common/cv_allocators.h"
#include "../common/object_records.h"
#include "../threads/thread_calls.h"
#include "../include/cv_wire.h"

/* ---- options.c ---- */

enum cv_mode { CV_COUNTS, CV_SAMPLE, CV_FULL };

struct cv_options {
    enum cv_mode mode;
    Int wire_fd;             /* -1: no stream */
    const HChar *counters;   /* NULL: counters live in private memory and end with the process */
    const HChar *streams;    /* NULL, or the folder in which each process makes a FIFO and a counter file, forked ones included */
    Long interval;           /* burst sampling: every `interval` references a window opens (0: never) */
    Long sample;             /* ... and lasts this many references */
    Long sets;               /* 1/sets of the cache sets are recorded continuously; 0: off */
    Long set_class;          /* ... those whose line address is `set_class` modulo `sets` */
    Long block_limit;        /* recorded visits of a segment; 0: no limit */
    Long buffer_bytes;       /* of the stream */
    Long max_counters;       /* refuse to go on beyond */
    Long stretch;            /* intervals of a stretch of set samples; 0: every interval has its samples, and none is marked */
    Long warmup;             /* the first references of each window are marked as warm-up */
    const HChar *only;       /* list of ranges to record; NULL: everything */
    const HChar *start_at;   /* "marker", a function's name, 0xADDRESS or @OFFSET:PATH; NULL: the program's beginning */
    const HChar *stop_at;    /* likewise; NULL: its end */
    Bool fuse;               /* the XMM peephole */
    Bool thread_events;      /* write what threads wait for, and what they execute in between, once there is a second one */
    Bool total;              /* also count the instructions of all segments together (cv_executed) */
    Bool pack;               /* one call for a packed fused multiply-add */
    Int all_visits;          /* record visits of segments without references, too: the path; -1: where there are bursts */
    Bool data_objects;       /* tell what lies where in the traced program's memory */
    const HChar *allocators; /* further functions, with commas between, that hand on what an allocation function gave them */
};

extern struct cv_options cv_options;

Bool cv_option(const HChar *argument);
void cv_option_usage(void);
void cv_option_debug_usage(void);
/* Ends with a sentence when options contradict each other. */
void cv_options_check(void);
/* Valgrind hands its own arguments on to a program started by exec: takes away those that name this process's stream and file. */
void cv_options_forget_inherited(void);

/* Says one sentence on Valgrind's channel and ends the process (status 125). */
void cv_fatal(const HChar *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* The array with room for n elements of so many bytes at least; what is new is zero. `room` is how many it has. */
static inline void *cv_with_room(void *array, UInt *room, UInt n, SizeT bytes)
{
    if (n <= *room)
        return array;
    const UInt more = n + n / 2 + 16;
    array = VG_(realloc)("cv.array", array, more * bytes);
    VG_(memset)((UChar *)array + *room * bytes, 0, (more - *room) * bytes);
    *room = more;
    return array;
}

/* ---- counters.c: exact counters that survive the death of the process ---- */

void cv_counters_open(void);
/* Allocates n adjacent counters; returns the number of the first. */
UInt cv_counters_allocate(UInt n);
Addr cv_counter_address(UInt counter);
UInt cv_counters_used(void);
/* Returns the counters from `first` on that lie side by side, and how many. */
const ULong *cv_counters_span(UInt first, UInt *n);
void cv_counters_finished(Bool finished);
/* Path of the counter file; NULL where there is none. */
const HChar *cv_counters_path(void);
/* Removes the counter file and its folder where Convolver's runner made it; False where it did not. */
Bool cv_counters_remove(void);
/* One of how many intervals or classes of sets is to be recorded, as the reader says now. */
ULong cv_counters_every(enum cv_every which);
/* In a forked child: gives it counters of its own, at 0, in place of its parent's: private ones, or a file beside its stream. */
void cv_counters_fork(void);

/* ---- output.c: the buffers that inline code writes into, and the pipe after them ---- */

extern ULong *cv_next;      /* next free word; read and written by inline code */
extern ULong *cv_high_mark; /* from here on the buffer must be flushed; room for one more record is left */

#define CV_RECORD_WORDS 4096 /* no record written without a check of the room is longer */

void cv_output_prepare(void);
/* Takes the descriptor over. */
void cv_output_open(Int descriptor);
Bool cv_output_active(void);
void cv_output_close(void);
/* Sends what is in the buffer, or throws it away. */
void cv_output_flush(void);
void cv_output_drop(void);
/* Sends memory that may be changed at once. */
void cv_output_copy(const void *data, SizeT bytes);
/* The bit that is set in the addresses from cv_high_mark on, and in none before. */
ULong cv_output_full_bit(void);

/* ---- stream.c: records ---- */

void cv_stream_open(void);
void cv_flush(void);
/* Writes a one-word control record. */
void cv_stream_control(enum cv_wire_kind kind, ULong argument);
/* Writes a control record with payload; `argument` < 2^24. */
void cv_stream_record(enum cv_wire_kind kind, UInt argument, const void *payload, SizeT bytes);
/* Hands definitions to the reader before the code they define runs: were the process killed, its counters would mean nothing. */
void cv_stream_publish(void);
/* In a forked child: drops the buffer and closes the stream; with --streams, opens one that begins with all definitions. */
void cv_stream_fork(void);
/* Path of this process's counter file beside its FIFO; NULL without --streams. */
const HChar *cv_stream_counters(void);

/* ---- modules.c: object files by address ---- */

/* Returns the module id of a code address (defining the module in the stream at first) and the offset in its file. */
UInt cv_module_of(Addr address, uint64_t *file_offset);
const HChar *cv_module_path(UInt id);

/* ---- analysis.c: memory references of a block in VEX's intermediate language ---- */

struct cv_reference {
    Int statement;   /* index in the block */
    IRExpr *address; /* a temporary or a constant */
    IRExpr *guard;   /* NULL: always happens */
    IRTemp base;     /* address = base + displacement; IRTemp_INVALID: address = displacement */
    Long displacement;
    UInt size_bytes;
    UChar flags; /* enum cv_wire_site_flags */
};

struct cv_references {
    struct cv_reference *all; /* in program order */
    Int count;
};

/* What each temporary is: base + displacement; VG_(free) it. */
struct cv_linear {
    IRTemp base; /* IRTemp_INVALID: none */
    Long displacement;
};
struct cv_linear *cv_find_linears(const IRSB *block);
struct cv_linear cv_linear_of(const struct cv_linear *linears, const IRExpr *address);

/* `first` is the index of the first statement of guest code. Free with cv_references_free. */
struct cv_references cv_analyse(const IRSB *block, Int first, Addr start);
void cv_references_free(struct cv_references *references);

/* ---- flops.c ---- */

/* Floating-point operations of one statement: operations times lanes, a fused multiply-add is two. */
UInt cv_statement_flops(const IRStmt *statement);

/* ---- segments.c ---- */

/* An address word of a visit record: the value of a base temporary, or the guarded address of one reference. */
struct cv_word {
    Int reference; /* first reference that needs it: the word is known just before its statement */
    IRExpr *value; /* the base temporary, or the address of a guarded reference */
    IRExpr *guard; /* NULL: `value` as it is */
};

#define CV_MAX_WORDS 1024 /* far more than 60 instructions can need; a longer segment is counted but not recorded */

/* A segment of the block being translated. */
struct cv_segment {
    UInt id;
    UInt counter;
    UInt begins; /* instructions, without the rest of one that the segment before began */
    UInt first_site;
    UInt first_guard_counter; /* those of the guarded references follow each other */
    Bool recorded;            /* its visits and sampled references go to the stream */
    Int words;
    struct cv_word word[CV_MAX_WORDS];
};

/* What helpers need to know of a segment at run time; indexed by segment id. */
struct cv_segment_info {
    Addr address;
    ULong visits; /* recorded so far, where a visit limit is set */
    UInt references, first_site;
    struct cv_set_site *sites; /* with set sampling and references only */
    UShort words;
    Bool stopped;  /* the visit limit is reached */
    Bool selected; /* by --only */
};

extern struct cv_segment_info *cv_segment_infos;

/* Describes statements [first, end) of the block, with the references of `references` from `from` to `to` (exclusive). Gives the
 * segment its id and counters: those it had when the same bytes at the same address were translated before. Returns False when
 * there is nothing to count in it. */
Bool cv_segment_make(const IRSB *block, Int first, Int end, const struct cv_references *references, Int from, Int to,
                     struct cv_segment *segment);

/* ---- flow.c ---- */

/* Writes where the values in statements [first, end) of the block come from; the segment was just defined. */
void cv_flow_write(const IRSB *block, Int first, Int end, const struct cv_references *references, Int from, Int to, UInt segment);

/* ---- sampling.c: helpers that inline code calls ---- */

extern Long cv_countdown;                  /* references until the next window; negative while one is open */
extern ULong cv_scratch[CV_MAX_WORDS + 1]; /* address words of the segment being executed, and a 0 */

void cv_sampling_start(void);
void cv_sampling_fork(void);
void cv_sampling_stop(void);
ULong cv_windows(void);
/* Segment `id` was executed while cv_countdown < 0, or a reference of it may have touched a sampled set. */
void cv_visit(HWord id) VG_REGPARM(1);
void cv_visit_1(HWord id, HWord a);
void cv_visit_2(HWord id, HWord a, HWord b);
void cv_visit_3(HWord id, HWord a, HWord b, HWord c);
void cv_visit_4(HWord id, HWord a, HWord b, HWord c, HWord d);
/* The visit limit of segment `id` is reached. */
void cv_limit_reached(void *guest_state, HWord id) VG_REGPARM(2);
/* Throws away the translations of segments that reached their limit; only between blocks. */
void cv_limit_discard(void);

/* ---- sets.c ---- */

/* What cv_sets_visit needs to know of a segment's references. */
struct cv_set_site *cv_sets_sites(const struct cv_wire_site *sites, UInt n);
/* A value that is negative when `before` (NULL: nothing) is, or a reference with this address word (NULL: a constant address) may
 * touch a line of the class. */
IRExpr *cv_sets_test(IRSB *out, const struct cv_references *references, Int from, Int to, const struct cv_word *word, IRExpr *value,
                     IRExpr *before);
void cv_sets_visit(const struct cv_segment_info *segment);

/* Record set samples from now on, or not. */
void cv_sets_switch(Bool on);

/* ---- selection.c: --only ---- */

void cv_selection_open(void);
Bool cv_selected(const HChar *path, ULong file_offset);

/* ---- region.c: --start-at, --stop-at ---- */

extern Bool cv_recording; /* within the region */

void cv_region_register(void);
void cv_region_open(void);
void cv_region_start(void);
void cv_region_fork(void);
void cv_region_stop(void);
/* Does the region go on because the guest never came to its end? */
Bool cv_region_unstopped(void);
/* The guest has ended, or is about to: leaves the region's counts in the counters. */
void cv_region_end(void);
/* Adds the calls that begin and end the region to a block that starts at a function's entry. */
void cv_region_instrument(IRSB *out, Addr start);

/* ---- objects.c, mappings.c: data objects, --data-objects ---- */

void cv_objects_register(void);
void cv_objects_instrument_entry(IRSB *out, Addr start);
/* To be called when the block is complete. */
void cv_objects_instrument_end(IRSB *out);
/* Another thread runs from now on. */
void cv_objects_switch(ThreadId thread);
void cv_objects_thread_ended(ThreadId thread);
void cv_objects_place_stack(ThreadId thread);
/* The place that called the outermost allocation function or mmap of this thread, and whether one for blocks is among them. */
Bool cv_objects_caller(Addr *site, Bool *allocating);
/* Does the C library's allocator make the system call that this thread is in? */
Bool cv_allocator_calls(void);

/* ---- bursts.c: what is executed between MPI calls ---- */

Bool cv_bursts_asked(UWord *arguments, UWord *answer);

/* ---- instrument.c, fuse.c ---- */

/* Instructions so far, with --total=yes. Adding to one place in memory again and again waits for it each time. */
#define CV_EXECUTED_PARTS 8
extern ULong cv_executed_parts[CV_EXECUTED_PARTS];
static inline ULong cv_executed(void)
{
    ULong sum = 0;
    for (UInt i = 0; i < CV_EXECUTED_PARTS; i++)
        sum += cv_executed_parts[i];
    return sum;
}

IRSB *cv_instrument(VgCallbackClosure *closure, IRSB *block, const VexGuestLayout *layout, const VexGuestExtents *extents,
                    const VexArchInfo *archinfo, IRType guest_word, IRType host_word);
IRSB *cv_fuse(IRSB *block);
/* Is there a lane of a fused multiply-add in the block? */
Bool cv_has_multiply_add(const IRSB *block);

/* ---- pack.c, lanes.c, fma.c ---- */

/* Only on hosts with FMA. */
IRSB *cv_pack(IRSB *block);
/* Floating-point operations of a call that cv_pack made; 0 for any other. */
UInt cv_packed_flops(const IRDirty *call);
/* Only on hosts with FMA; after cv_pack. */
IRSB *cv_call_lanes(IRSB *block);
/* A call that cv_call_lanes made? */
Bool cv_is_lane_call(const IRStmt *statement);
/* A lane of a fused multiply-add, or a call that cv_pack or cv_call_lanes made? */
Bool cv_is_multiply_add(const IRStmt *statement);
/* Memory of cv_pack's calls, not of the guest. */
Bool cv_is_packed_slot(const IRExpr *address);
Bool cv_host_has_fma(void);

/* ---- ir.c ---- */

IRExpr *cv_ir_u64(ULong value);
IRExpr *cv_ir_binary(IRSB *block, IROp op, IRExpr *a, IRExpr *b);
IRExpr *cv_ir_assign(IRSB *block, IRExpr *expression);
IRExpr *cv_ir_load64(IRSB *block, IRExpr *address);
void cv_ir_store64(IRSB *block, IRExpr *address, IRExpr *value);
/* A register of the guest, by its offset in the state. */
IRExpr *cv_ir_get(IRSB *block, Int offset);
#define CV_GUEST(block, register) cv_ir_get(block, offsetof(VexGuestAMD64State, guest_##register))
void cv_ir_call(IRSB *block, const HChar *name, void *function, IRExpr **arguments, IRExpr *guard);
/* A call, with result and target, where the block ends in the return after which the stack pointer is as awaited. */
void cv_ir_call_returned(IRSB *block, const HChar *name, void *function, const ULong *awaited);
/* What an expression is computed from, but for a rounding mode: up to a NULL; `parts` has room for them. */
IRExpr **cv_ir_operands(const IRExpr *e, IRExpr *parts[5]);
void cv_ir_prefetch(IRSB *block, IRExpr *address);
Bool cv_ir_is_prefetch(const IRStmt *s);

/* ---- pages.c: which pages of the program are there ---- */

/* The program has memory of other files, or of none, there from now on. */
void cv_pages_mapped(Addr start, SizeT bytes);
enum cv_pages_kind {
    CV_PAGES_SHARED,    /* with others, and may be written: each of them faults alone */
    CV_PAGES_ADVISED,   /* the program asked for huge ones */
    CV_PAGES_ALLOCATED, /* by the C library's allocator */
    CV_PAGES_KINDS
};
void cv_pages_are(enum cv_pages_kind kind, Addr start, SizeT bytes);
/* The heap has grown to there. */
void cv_pages_heap(Addr start, Addr end);
/* These pages are about to be given back. */
void cv_pages_going(Addr start, SizeT bytes);
/* The kernel has filled these pages ahead. */
void cv_pages_populated(Addr start, SizeT bytes);
/* The traced region begins; ends. */
void cv_pages_begin(void);
void cv_pages_end(void);
void cv_pages_fork(void);
Bool cv_pages_so_far(struct cv_wire_pages *pages);

/* ---- heap.c ---- */

/* Lets the program's heap grow as far as natively; before the program begins. */
void cv_heap_make_room(void);

/* ---- calls.c: system calls ---- */

void cv_calls_start(void);
void cv_calls_fork(void);
void cv_call_begins(UInt number, const UWord *arguments);
void cv_call_ended(UInt number, const UWord *arguments, SysRes result);
/* Writes the record of system calls and pages. */
void cv_calls_write(void);
/* Is this the library that Valgrind has the dynamic linker load? */
Bool cv_is_preloaded(const HChar *path);

/* ---- synchronization.c, thread_log.c: what threads wait for (../threads/thread_calls.h), and what they execute ---- */

void cv_synchronization_register(void);
void cv_synchronization_instrument_entry(IRSB *out, Addr start);
/* To be called when the block is complete. */
void cv_synchronization_instrument_end(IRSB *out);
void cv_synchronization_switch(ThreadId from, ThreadId to);
void cv_synchronization_thread_ended(ThreadId thread);
void cv_synchronization_call_begins(ThreadId thread, UInt number, const UWord *arguments);
void cv_synchronization_call_ended(ThreadId thread, UInt number, const UWord *arguments, SysRes result);
void cv_synchronization_fork(ThreadId thread);
void cv_synchronization_end(void);
/* Throws translations away where others are needed; only between blocks. */
void cv_synchronization_discard(void);

void cv_threads_open(struct cv_thread *first);
void cv_threads_switched(struct cv_thread *from);
void cv_threads_end(struct cv_thread *current);
void cv_threads_log_fork(void);
/* Calls `add` for each thread that has executed something since its last record. */
void cv_threads_each(void (*add)(struct cv_thread *, enum cv_thread_event, ULong, ULong, UInt));

/* ---- process.c: threads, fork, exec, exit ---- */

void cv_process_register(void);
ThreadId cv_current_thread(void);
/* The tool's `fini`: the guest has ended, how is known a little later. */
void cv_process_end(Int exit_code);

#endif
