/* Modules and segments of a stream, checked once when they are defined so that the hot loop need not check them again. */
#ifndef CV_DEFINITIONS_H
#define CV_DEFINITIONS_H

#include "cv_flow.h"
#include "cv_status.h"
#include "cv_wire.h"

#include <stddef.h>

/* Arrays may be shorter than those of the definitions: for what comes later nothing is known yet. */
typedef struct {
    cv_segment_flow *segments;
    cv_site_flow *sites;
    cv_register_flow *registers;
    size_t segment_count, site_count, register_count;
    size_t segment_capacity, site_capacity, register_capacity;
} cv_flows;

typedef struct {
    struct cv_wire_module *modules;
    size_t *paths; /* offset of each module's path in path_text */
    char *path_text;
    struct cv_wire_segment *segments;
    struct cv_wire_instruction *instructions;
    struct cv_wire_site *sites;
    uint8_t *code;
    cv_flows flows;
    size_t module_count, segment_count, instruction_count, site_count, code_count, path_text_count;
    size_t module_capacity, paths_capacity, segment_capacity, instruction_capacity, site_capacity, code_capacity, path_text_capacity;
} cv_definitions;

void cv_definitions_free(cv_definitions *definitions);

void cv_flows_free(cv_flows *flows);

/* All take a record's payload; on CV_ERROR_FORMAT *why is a static sentence and nothing was added. */
cv_status cv_define_module(cv_definitions *definitions, uint32_t id, const uint64_t *payload, size_t words, const char **why);
cv_status cv_define_segment(cv_definitions *definitions, const uint64_t *payload, size_t words, const char **why);
cv_status cv_define_flow(cv_definitions *definitions, const uint64_t *payload, size_t words, const char **why);

#endif
