/* Data objects of a trace: which object each reference touched (csrc/trace/objects.c). */
#ifndef CV_OBJECTS_H
#define CV_OBJECTS_H

#include "cv_trace.h"

/* Objects are numbered from 0; number 0 stands for what nothing is known of, the stream's objects follow in their order. */
typedef struct {
    uint64_t file_offset; /* within the call, where module is not CV_WIRE_NO_MODULE */
    uint64_t size_bytes;  /* of a symbol */
    uint32_t module;
    uint32_t kind; /* enum cv_wire_object_kind; 0: unknown */
    uint32_t thread;
    uint32_t reserved;
    uint64_t address;    /* of a symbol */
    uint64_t places;     /* how often it was placed: blocks given, mappings made */
    uint64_t bytes;      /* of all of them together */
    uint64_t live_bytes; /* now */
    uint64_t peak_bytes; /* most at one time */
} cv_object;

/* References of one site to one object. */
typedef struct {
    uint32_t site;
    uint32_t object;
    uint64_t references; /* in windows */
    uint64_t sets;       /* set-sampled ones */
} cv_pair;

/* Attribute the references decoded from now on. `owners`: sinks get pairs, numbered from 0, as owners of references in place of sites. A
 * set-sampled reference is known by its line: it belongs to the block that its site referred to last, or else the first one in the line. */
void cv_trace_attribute(cv_trace *trace, int owners);

/* Queue the payload of an EVNT chunk, for the marks in the ADDR chunks after it. */
cv_status cv_trace_events(cv_trace *trace, const void *bytes, size_t size);

/* Arrays that stay valid until the next call that decodes. */
size_t cv_trace_objects(const cv_trace *trace, const cv_object **objects);
const char *cv_trace_object_text(const cv_trace *trace, size_t object);
size_t cv_trace_pairs(const cv_trace *trace, const cv_pair **pairs);

#endif
