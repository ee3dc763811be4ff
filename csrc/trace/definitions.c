#include "definitions.h"

#include "cv_trace.h"
#include "grow.h"

#include <stdlib.h>
#include <string.h>

#define REFUSE(sentence) return *why = (sentence), CV_ERROR_FORMAT

void cv_definitions_free(cv_definitions *definitions)
{
    free(definitions->modules);
    free(definitions->paths);
    free(definitions->path_text);
    free(definitions->segments);
    free(definitions->instructions);
    free(definitions->sites);
    free(definitions->code);
    cv_flows_free(&definitions->flows);
    memset(definitions, 0, sizeof *definitions);
}

cv_status cv_define_module(cv_definitions *definitions, uint32_t id, const uint64_t *payload, size_t words, const char **why)
{
    struct cv_wire_module module;
    if (words * 8 < sizeof module)
        REFUSE("a module record is too short");
    memcpy(&module, payload, sizeof module);
    if (id != definitions->module_count)
        REFUSE("module ids have a gap");
    if ((words * 8 - sizeof module) / 8 != ((size_t)module.path_bytes + 7) / 8)
        REFUSE("a module's path has another length than stated");

    const char *path = (const char *)payload + sizeof module;
    size_t length = strnlen(path, module.path_bytes);
    size_t end = definitions->path_text_count + length + 1;
    CV_RESERVE(definitions->path_text, definitions->path_text_capacity, end);
    CV_RESERVE(definitions->paths, definitions->paths_capacity, definitions->module_count + 1);
    CV_RESERVE(definitions->modules, definitions->module_capacity, definitions->module_count + 1);
    memcpy(definitions->path_text + definitions->path_text_count, path, length);
    definitions->path_text[end - 1] = 0;
    definitions->paths[definitions->module_count] = definitions->path_text_count;
    definitions->path_text_count = end;
    definitions->modules[definitions->module_count++] = module;
    return CV_OK;
}

static cv_status check_instructions(const struct cv_wire_segment *segment, const struct cv_wire_instruction *list, const char **why)
{
    unsigned end = 0;
    for (unsigned i = 0; i < segment->instructions; i++) {
        if (i && list[i].offset < end)
            REFUSE("instructions of a segment overlap");
        end = (unsigned)list[i].offset + list[i].length;
    }
    if (end > UINT16_MAX)
        REFUSE("a segment is longer than 65535 bytes");
    return CV_OK;
}

static cv_status check_sites(const struct cv_wire_segment *segment, const struct cv_wire_site *list, const char **why)
{
    for (unsigned i = 0; i < segment->sites; i++) {
        if (list[i].base >= (int)segment->words)
            REFUSE("a site's address word lies outside its record");
        if (list[i].instruction >= segment->instructions)
            REFUSE("a site belongs to no instruction of its segment");
        if (!list[i].size_bytes)
            REFUSE("a site refers to zero bytes");
    }
    return CV_OK;
}

static cv_status check_segment(const cv_definitions *definitions, const struct cv_wire_segment *segment, size_t words, const char **why)
{
    size_t expected = sizeof *segment / 8 + segment->instructions + 3 * (size_t)segment->sites + ((size_t)segment->code_bytes + 7) / 8;
    if (words != expected)
        REFUSE("a segment record has another length than stated");
    if (segment->id != definitions->segment_count)
        REFUSE("segment ids have a gap");
    if (segment->first_site != definitions->site_count)
        REFUSE("site ids have a gap");
    if (definitions->site_count + segment->sites > UINT32_MAX)
        REFUSE("there are more than 4294967295 sites");
    if (segment->module >= definitions->module_count)
        REFUSE("a segment lies in a module that is not defined");
    if (segment->sites > CV_TRACE_BATCH)
        REFUSE("a segment has more than 8192 sites");
    return CV_OK;
}

cv_status cv_define_segment(cv_definitions *definitions, const uint64_t *payload, size_t words, const char **why)
{
    struct cv_wire_segment segment;
    if (words * 8 < sizeof segment)
        REFUSE("a segment record is too short");
    memcpy(&segment, payload, sizeof segment);
    cv_status status = check_segment(definitions, &segment, words, why);
    if (status)
        return status;
    const struct cv_wire_instruction *instructions = (const void *)(payload + sizeof segment / 8);
    const struct cv_wire_site *sites = (const void *)(instructions + segment.instructions);
    if ((status = check_instructions(&segment, instructions, why)) || (status = check_sites(&segment, sites, why)))
        return status;

    CV_RESERVE(definitions->segments, definitions->segment_capacity, definitions->segment_count + 1);
    CV_RESERVE(definitions->instructions, definitions->instruction_capacity, definitions->instruction_count + segment.instructions);
    CV_RESERVE(definitions->sites, definitions->site_capacity, definitions->site_count + segment.sites);
    CV_RESERVE(definitions->code, definitions->code_capacity, definitions->code_count + segment.code_bytes);
    definitions->segments[definitions->segment_count++] = segment;
    if (segment.instructions)
        memcpy(definitions->instructions + definitions->instruction_count, instructions, segment.instructions * sizeof *instructions);
    if (segment.sites)
        memcpy(definitions->sites + definitions->site_count, sites, segment.sites * sizeof *sites);
    if (segment.code_bytes)
        memcpy(definitions->code + definitions->code_count, sites + segment.sites, segment.code_bytes);
    definitions->instruction_count += segment.instructions;
    definitions->site_count += segment.sites;
    definitions->code_count += segment.code_bytes;
    return CV_OK;
}
