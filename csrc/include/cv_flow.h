/* Where the addresses, stored values and final registers of segments come from (cv_wire.h: struct cv_wire_flow), as arrays. */
#ifndef CV_FLOW_H
#define CV_FLOW_H

#include <stddef.h>
#include <stdint.h>

typedef struct cv_trace cv_trace;

/* Sets of registers with which the segment begins, and of the segment's own loads by number. Empty: of nothing, or not known. */
typedef struct {
    uint64_t address_registers, address_references;
    uint64_t value_registers, value_references; /* of a store */
} cv_site_flow;

typedef struct {
    uint64_t registers, references;
    uint32_t index; /* of the register that changes */
} cv_register_flow;

typedef struct {
    size_t first; /* of its elements in `registers` */
    uint32_t count;
    uint32_t known;
} cv_segment_flow;

/* All of a trace. Of segments from number `segment_count` on, and of those that are not `known`, nothing is known. */
typedef struct {
    const cv_segment_flow *segments;
    const cv_site_flow *sites;
    const cv_register_flow *registers;
    size_t segment_count;
} cv_flow;

/* The arrays stay valid until the next call that decodes. */
void cv_trace_flows(const cv_trace *trace, cv_flow *flow);

#endif
