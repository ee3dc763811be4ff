/* Inside of the decoder. Assumption: a little-endian host, as the wire. */
#ifndef CV_TRACE_INTERNAL_H
#define CV_TRACE_INTERNAL_H

#include "addresses.h"
#include "cv_paths.h"
#include "cv_trace.h"
#include "definitions.h"
#include "objects.h"
#include "streams.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the trace decoder needs a little-endian host"
#endif

#define CV_SHORTEST_BUFFER ((size_t)1 << 17) /* words */

/* What the hot loop needs of a site; base is 0 and mask is 0 where the address is the displacement alone. */
typedef struct {
    uint64_t displacement;
    uint64_t mask;
    uint16_t base;
    uint16_t size;
    uint8_t write;
    uint8_t guarded;
} cv_hot_site;

typedef struct {
    uint32_t first_site;
    uint16_t sites;
    uint16_t words;
    uint8_t guarded; /* some site is */
    uint8_t passed;  /* not chosen */
    uint64_t visits;
} cv_hot_segment;

typedef struct {
    size_t count;
    size_t lined;      /* references whose lines were added to the features */
    size_t attributed; /* references whose pairs are known */
    uint64_t address[CV_TRACE_BATCH];
    uint32_t owner[CV_TRACE_BATCH];
    uint32_t pair[CV_TRACE_BATCH]; /* of site and data object, where these are asked for */
    uint16_t size[CV_TRACE_BATCH];
    uint8_t write[CV_TRACE_BATCH];
} cv_batch_arrays;

typedef struct {
    char *path;
    uint64_t begin, end;
} cv_range;

typedef struct {
    uint8_t *bytes;
    size_t count, capacity;
} cv_bytes;

struct cv_trace {
    cv_definitions definitions;
    cv_hot_site *hot_sites;
    cv_hot_segment *hot_segments;
    cv_site_features *features;
    uint32_t *site_segment;
    uint32_t *site_line; /* low bits of the last line: cheap to look at */
    uint8_t **registers; /* per segment; NULL until something is sampled there */
    size_t hot_site_capacity, hot_segment_capacity, feature_capacity, site_segment_capacity, site_line_capacity, register_capacity;
    uint64_t window_batches; /* of the present window */
    cv_streams streams;
    uint64_t stretch; /* references of one stretch are neighbors in time */

    cv_batch_arrays batch[2]; /* by enum cv_batch_kind */
    cv_batch now;
    struct {
        cv_batch_sink eat;
        void *context;
    } *sinks;
    size_t sink_capacity, sink_count;

    cv_paths *paths;     /* NULL: nobody asks for paths */
    int paths_alone;     /* nobody asks for anything else */
    int shares_alone;    /* features tell shares: */
    uint64_t look_every; /* of one window in so many */
    cv_objects objects;

    uint64_t *pending; /* words that are not decoded yet */
    size_t pending_capacity;
    size_t pending_bytes;
    uint64_t skip;   /* payload words of an unknown record still to be passed over */
    uint64_t header; /* words of the stream's beginning seen, 0..2 */

    int warmup;                 /* windows begin with one */
    uint64_t stale, stale_left; /* references at the beginning of a window that find stale caches; of them to come in this one */
    uint32_t phase, phases;
    cv_range *ranges;
    size_t range_count, range_capacity;
    uint64_t passed; /* since the last record that was kept */

    enum cv_recording recording;
    cv_bytes recorded[CV_RECORDED_KINDS];
    cv_address_state writer, reader, coarse_writer;
    cv_bytes coarse;
    cv_recorded_unit *units; /* the last one is being recorded */
    size_t unit_count, unit_capacity;
    uint64_t chunk_words;
    struct {
        uint64_t stretch;
        uint32_t warm, gaps;
    } sets;                /* of the unit */
    uint64_t *unpacked[3]; /* words, starts, ordinals */
    size_t unpacked_capacity[3];

    cv_bytes system; /* payload of the last CV_WIRE_SYSTEM */
    cv_trace_totals totals;
    const char *error;
    uint64_t error_position;
};

cv_status cv_trace_refuse(cv_trace *trace, const char *why, uint64_t position);

/* Decode whole records; *consumed says how many words they had. */
cv_status cv_decode(cv_trace *trace, const uint64_t *words, size_t count, size_t *consumed);
/* The rest of the words is no whole record: how many words it needs at least. */
size_t cv_record_words(const cv_trace *trace, const uint64_t *words, size_t count);

cv_status cv_batch_flush(cv_trace *trace, int kind);
cv_status cv_hot_reserve(cv_trace *trace);
cv_status cv_bytes_reserve(cv_bytes *bytes, size_t needed);
cv_status cv_features_add(cv_trace *trace, const cv_batch_arrays *batch);
/* Lines of a batch's last references, `run` of them, in which the same sites come again every `period` references. */
cv_status cv_features_lines(cv_trace *trace, cv_batch_arrays *batch, size_t run, size_t period);

/* Visits of one segment: their words lie `count` + 1 apart. */
cv_status cv_recorder_visits(cv_trace *trace, uint32_t segment, const uint64_t *words, size_t count, size_t visits);
/* An event of data objects, in the stream's form: the references before it are attributed first. */
cv_status cv_event_record(cv_trace *trace, const uint64_t *words, size_t payload);
/* As many of a file's events, or all that are left. */
cv_status cv_events_take(cv_trace *trace, uint64_t count);
cv_status cv_events_rest(cv_trace *trace);
/* Attribute what of a batch is not attributed yet. */
cv_status cv_attribute(cv_trace *trace, int kind);

int cv_chosen(const cv_trace *trace, const struct cv_wire_segment *segment);
cv_status cv_recorder_sampled(cv_trace *trace, uint32_t site, uint64_t line);
cv_status cv_recorder_event(cv_trace *trace, const cv_event *event);
cv_status cv_recorder_control(cv_trace *trace, const uint64_t *words, size_t count);

#endif
