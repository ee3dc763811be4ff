/* The trace decoder: wire words (cv_wire.h) or recorded address chunks in, definitions kept, batches of references out.
 *
 * Memory is proportional to the code that was seen, never to the length of the run. Foreign data never crashes it: every
 * violation of the wire contract is CV_ERROR_FORMAT with a position (cv_trace_error). One decoder is used by one thread at a time. */
#ifndef CV_TRACE_H
#define CV_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "cv_refs.h"
#include "cv_status.h"
#include "cv_wire.h"

#define CV_TRACE_BATCH 8192        /* references in one batch, at most */
#define CV_TRACE_HLL_REGISTERS 512 /* of the distinct-line estimate of one segment: standard error 4.6 % */

typedef struct cv_trace cv_trace;

enum cv_batch_kind {
    CV_BATCH_WINDOW = 0, /* every reference of a burst (or of the whole run) in order */
    CV_BATCH_SETS = 1    /* set-sampled: all references to some lines; addresses are those of lines, sizes are 1 */
};

typedef struct {
    uint32_t kind;   /* enum cv_batch_kind */
    uint32_t thread; /* that executed all of the batch */
    uint64_t window; /* bursts opened so far; 0 when the run is not cut into bursts; of thinned set samples the stretch, from 1 */
    uint32_t gaps;   /* of set samples: one of so many of the run's is there; 0: none was left out so far */
    uint32_t warm;   /* 1: warm-up of its burst: it trains caches and is counted by nobody */
} cv_batch;

/* Eats one batch; anything but CV_OK stops decoding and is returned to the caller. */
typedef cv_status (*cv_batch_sink)(void *context, const cv_refs *refs, const cv_batch *batch);

typedef struct {
    uint64_t words;     /* wire words decoded so far */
    uint64_t intervals; /* begun, as the tracer reported them (CV_WIRE_INTERVAL) */
    uint64_t windows;   /* bursts opened */
    uint64_t window_references;
    uint64_t set_references;
    uint64_t passed;        /* visits and sampled references left out by choice */
    uint64_t set_site_lost; /* set-sampled references whose site did not fit in the compact form */
    uint32_t threads;       /* highest thread id seen */
    uint32_t ended;         /* 1: CV_WIRE_END was seen */
    uint32_t end_reason;    /* enum cv_wire_end_reason */
    int32_t end_code;
    uint32_t unstopped; /* 1: the program never came to --stop-at, says CV_WIRE_END */
} cv_trace_totals;

/* Per-site features, gathered from windows only. A reference is unit when it lies within 64 bytes of its site's previous one,
 * strided when it repeats the site's previous distance, random otherwise; the first one of a site in a stretch (a window, or a
 * part of a long one) has no class. Of long windows only a part is classified: the three tell shares. */
typedef struct {
    uint64_t last;    /* address of the previous reference */
    int64_t distance; /* between the previous two */
    uint64_t stretch; /* in which last was seen */
    uint64_t skipped; /* visits in which the guard was off; references are the segment's visits less these */
    uint64_t unit;
    uint64_t strided;
    uint64_t random;
    uint64_t sets; /* set-sampled references */
    /* Of the references that are looked at, what they do in a small cache (csrc/trace/streams.h): */
    uint64_t lines[3]; /* lines brought: sequential, strided, random */
    uint64_t early;    /* lines of streams that had just begun */
    uint64_t between;  /* lines left out between those of strided streams */
    uint64_t coming;   /* references to lines that were brought just before */
    uint64_t alone;    /* sequential lines after a line of the same stream: no other stream had one in between */
} cv_site_features;

cv_trace *cv_trace_new(void);
void cv_trace_free(cv_trace *trace);

/* Sinks are called in the order in which they were added. */
cv_status cv_trace_add_sink(cv_trace *trace, cv_batch_sink sink, void *context);

/* Choose what is kept of the segments defined from now on; the others' visits and set samples are counted as passed over and reach
 * neither sinks nor features nor records. A phase: those whose file offset hashes to `phase` of `phases`. Ranges: those that overlap one
 * (file offsets, end excluded) of the module with this path. */
cv_status cv_trace_choose_phase(cv_trace *trace, uint32_t phase, uint32_t phases);
cv_status cv_trace_choose_range(cv_trace *trace, const char *path, uint64_t begin, uint64_t end);

/* Windows decoded from now on begin with a warm-up, which CV_WIRE_WINDOW_WARM ends (or which is all of a window without one). */
void cv_trace_warmup(cv_trace *trace, int on);
/* So many references at the beginning of each window but the first find what the window before it left in the caches: sinks get them as
 * a warm-up, features and paths count them. */
void cv_trace_stale(cv_trace *trace, uint64_t references);

/* Features of windows decoded from now on tell shares alone: of one window in `every` (0: of all), and no lines are counted as distinct. */
void cv_trace_shares_alone(cv_trace *trace, uint64_t every);
/* Do features, and what else tells shares alone, come from this window? */
int cv_trace_looks_at(const cv_trace *trace, uint64_t window);

/* Decode wire bytes; a record may be cut anywhere, its beginning is kept. */
cv_status cv_trace_feed(cv_trace *trace, const void *bytes, size_t size);

/* Take definition records without the two words of the stream's beginning (payload of MODS and BLKS chunks). */
cv_status cv_trace_define(cv_trace *trace, const void *bytes, size_t size);

/* Decode the payload of one ADDR chunk (csrc/trace/addresses.h) from *used bytes on until its end, or until about so many
 * milliseconds have passed; *used, at first 0, says how far it came. Nothing else may be decoded before its end. */
cv_status cv_trace_replay(cv_trace *trace, const void *bytes, size_t size, int milliseconds, size_t *used);

/* Unpack the payload of an ADDR chunk without decoding it: wire words, where each record begins in them, and how many visits and sampled
 * references of the whole stream come before it, *before counting on from chunk to chunk. CV_WIRE_PASSED records are used up. The
 * arrays stay valid until the next call. */
typedef struct {
    const uint64_t *words;
    const uint64_t *starts;
    const uint64_t *ordinals;
    size_t word_count, record_count;
} cv_unpacked;
cv_status cv_trace_unpack(cv_trace *trace, const void *bytes, size_t size, uint64_t *before, cv_unpacked *unpacked);

/* Give the sinks what is batched. CV_ERROR_FORMAT when the stream stopped inside a record (the batches are flushed all the same). */
cv_status cv_trace_flush(cv_trace *trace);

enum cv_pump_state {
    CV_PUMP_END = 0,        /* end of file */
    CV_PUMP_FULL = 1,       /* enough is recorded for a chunk: take it, then call again */
    CV_PUMP_TIME = 2,       /* the time is up (milliseconds) */
    CV_PUMP_INTERRUPTED = 3 /* a signal came */
};

/* Read and decode from a pipe until one of the states; CV_ERROR_IO leaves errno. */
cv_status cv_trace_pump(cv_trace *trace, int fd, int milliseconds, int *state);

/* Record what is decoded: visits and sampled references as an ADDR payload, definitions as they came. Off at first. By units: the visits
 * and the set samples of each interval apart, so that they can be dropped; they are recorded only, sinks and features get nothing. */
enum cv_recording { CV_RECORD_OFF = 0, CV_RECORD_ALL = 1, CV_RECORD_UNITS = 2 };
void cv_trace_record(cv_trace *trace, int how);

enum cv_recorded {
    CV_RECORDED_MODULES = 0,
    CV_RECORDED_SEGMENTS = 1, /* and data objects */
    CV_RECORDED_EVENTS = 2,   /* of data objects (cv_objects.h); they come before the addresses, which hold their marks */
    CV_RECORDED_ADDRESSES = 3,
    CV_RECORDED_SETS = 4, /* by units only: set-sampled references */
    CV_RECORDED_KINDS = 5
};

/* What was recorded of an interval lies between these bytes and those of the next one, or the end. */
typedef struct {
    uint64_t interval;
    uint64_t addresses, sets; /* bytes of CV_RECORDED_ADDRESSES and of CV_RECORDED_SETS before it */
} cv_recorded_unit;
size_t cv_trace_units(const cv_trace *trace, const cv_recorded_unit **units);

/* Of the set samples of a unit (bytes of CV_RECORDED_SETS), keep those of one of more classes, a power of two: lines with `class` in their
 * low bits. The result stays valid until the next call. */
cv_status cv_trace_coarsen(cv_trace *trace, const void *bytes, size_t size, uint64_t classes, uint64_t class_, const uint8_t **coarse,
                           size_t *coarse_size);

/* What was recorded since the last cv_trace_taken; valid until the next call that decodes. */
const uint8_t *cv_trace_recorded(const cv_trace *trace, int kind, size_t *size);
int cv_trace_chunk_full(const cv_trace *trace);
void cv_trace_taken(cv_trace *trace);

/* The first error: a static sentence and the number of the wire word (or byte of the ADDR payload); NULL when there is none. */
const char *cv_trace_error(const cv_trace *trace, uint64_t *position);

const cv_trace_totals *cv_trace_totals_of(const cv_trace *trace);

/* Payload of the last CV_WIRE_SYSTEM record (struct cv_wire_system and its calls), as many bytes as are returned; 0: there was none. */
size_t cv_trace_system(const cv_trace *trace, const uint8_t **payload);

/* Definitions, as arrays that stay valid until the next call that decodes. */
size_t cv_trace_modules(const cv_trace *trace, const struct cv_wire_module **modules);
const char *cv_trace_module_path(const cv_trace *trace, size_t module);
size_t cv_trace_segments(const cv_trace *trace, const struct cv_wire_segment **segments);
size_t cv_trace_instructions(const cv_trace *trace, const struct cv_wire_instruction **instructions);
size_t cv_trace_sites(const cv_trace *trace, const struct cv_wire_site **sites);
size_t cv_trace_code(const cv_trace *trace, const uint8_t **code);
size_t cv_trace_visits(const cv_trace *trace, uint64_t *visits, size_t capacity);   /* per segment */
size_t cv_trace_features(const cv_trace *trace, const cv_site_features **features); /* per site */
/* Registers of a segment's distinct-line estimate, NULL when nothing was sampled there. */
const uint8_t *cv_trace_distinct(const cv_trace *trace, size_t segment);

/* Sinks that feed the references of windows, or the set-sampled ones, to a simulator (context: a cv_sim). The latter have holes: the
 * simulator must know which lines are there (cv_sim.h). */
cv_status cv_trace_simulate(void *simulator, const cv_refs *refs, const cv_batch *batch);
cv_status cv_trace_simulate_sets(void *simulator, const cv_refs *refs, const cv_batch *batch);
/* The same for a detailed simulator (context: a cv_detailed): the references of windows, each thread on a core of its own
 * while there are enough. */
cv_status cv_trace_simulate_detailed(void *simulator, const cv_refs *refs, const cv_batch *batch);
/* Sinks that feed the references of windows, or the set-sampled ones, to a cv_directory, and those of windows to a cv_touches. */
cv_status cv_trace_hand_over(void *directory, const cv_refs *refs, const cv_batch *batch);
cv_status cv_trace_hand_over_sets(void *directory, const cv_refs *refs, const cv_batch *batch);
cv_status cv_trace_touch(void *touches, const cv_refs *refs, const cv_batch *batch);

uint32_t cv_crc32c(uint32_t crc, const void *bytes, size_t size);

#endif
