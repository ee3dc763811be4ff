/* Where the values of segments come from (enum cv_wire_flow_kind), by site and by segment, checked once. */
#include "definitions.h"

#include "grow.h"

#include <stdlib.h>
#include <string.h>

#define REFUSE(sentence) return *why = (sentence), CV_ERROR_FORMAT
#define KIND(element) ((element)->registers >> 62)
#define INDEX(element) ((element)->registers >> 40 & 0x3fffff)
#define REGISTERS(element) ((element)->registers & ((UINT64_C(1) << CV_WIRE_FLOW_REGISTERS) - 1))

static cv_status know(cv_definitions *definitions)
{
    cv_flows *flows = &definitions->flows;
    CV_RESERVE(flows->segments, flows->segment_capacity, definitions->segment_count);
    CV_RESERVE(flows->sites, flows->site_capacity, definitions->site_count);
    for (; flows->segment_count < definitions->segment_count; flows->segment_count++)
        flows->segments[flows->segment_count] = (cv_segment_flow){0};
    for (; flows->site_count < definitions->site_count; flows->site_count++)
        flows->sites[flows->site_count] = (cv_site_flow){0};
    return CV_OK;
}

static cv_status check(const struct cv_wire_segment *segment, const struct cv_wire_flow *elements, size_t count, const char **why)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t kind = KIND(&elements[i]), most = kind == CV_WIRE_FLOW_REGISTER ? CV_WIRE_FLOW_REGISTERS : segment->sites;
        if (kind > CV_WIRE_FLOW_REGISTER)
            REFUSE("a value flows to a place of a kind that is not known");
        if (INDEX(&elements[i]) >= most)
            REFUSE("a value flows to a place that its segment does not have");
    }
    return CV_OK;
}

static void take(cv_flows *flows, const struct cv_wire_segment *segment, const struct cv_wire_flow *element)
{
    uint64_t registers = REGISTERS(element), references = element->references;
    if (segment->sites < 64)
        references &= (UINT64_C(1) << segment->sites) - 1;
    if (KIND(element) == CV_WIRE_FLOW_REGISTER) {
        flows->registers[flows->register_count++] = (cv_register_flow){registers, references, (uint32_t)INDEX(element)};
        return;
    }
    cv_site_flow *site = &flows->sites[segment->first_site + INDEX(element)];
    if (KIND(element) == CV_WIRE_FLOW_ADDRESS) {
        site->address_registers = registers;
        site->address_references = references;
    } else {
        site->value_registers = registers;
        site->value_references = references;
    }
}

cv_status cv_define_flow(cv_definitions *definitions, const uint64_t *payload, size_t words, const char **why)
{
    const struct cv_wire_flow *elements = (const void *)payload;
    size_t count = words / 2;
    cv_flows *flows = &definitions->flows;
    if (!count || words % 2)
        REFUSE("a record of flows has an impossible length");
    if (elements[0].registers >= definitions->segment_count)
        REFUSE("values flow in a segment that is not defined");
    const struct cv_wire_segment *segment = &definitions->segments[elements[0].registers];
    cv_status status = check(segment, elements + 1, count - 1, why);
    if (!status)
        status = know(definitions);
    if (status)
        return status;
    if (flows->segments[segment->id].known)
        REFUSE("the flows of a segment are defined twice");
    CV_RESERVE(flows->registers, flows->register_capacity, flows->register_count + count);
    cv_segment_flow *flow = &flows->segments[segment->id];
    *flow = (cv_segment_flow){.known = 1, .first = flows->register_count};
    for (size_t i = 1; i < count; i++)
        take(flows, segment, &elements[i]);
    flow->count = (uint32_t)(flows->register_count - flow->first);
    return CV_OK;
}

void cv_flows_free(cv_flows *flows)
{
    free(flows->segments);
    free(flows->sites);
    free(flows->registers);
}
