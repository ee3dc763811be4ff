/* Walks paths and follows loaded values. A value is how many loads of the stretch in question had to come before it, and the last of them;
 * both in one word, so that the greater word is the longer chain. */
#include "cv_chains.h"

#include "../trace/grow.h"
#include "cv_flow.h"

#include <stdlib.h>
#include <string.h>

#define MOST_LOADS 16384 /* of a stretch; a segment has at most CV_TRACE_BATCH references */
#define STORES 1024      /* granules that are remembered */
#define GRANULE 8
#define MOST_GRANULES 8 /* of one store */
#define FOLLOWED 64     /* references of a segment */
#define LINES 1024      /* places for the lines of a chain's members */
#define LINE_SHIFT 6
#define NOT_COUNTED UINT32_MAX

typedef uint64_t value; /* length of the chain << 32 | 1 + its last load; 0: no load */

typedef struct {
    uint32_t site;   /* NOT_COUNTED in a warm-up */
    uint32_t before; /* 1 + the load that its address waited for */
    uint32_t length; /* of the chain that ends with it */
    uint64_t line;
} chained_load;

typedef struct {
    uint64_t line;
    uint32_t stretch;
    uint32_t length; /* of the chain that ends with the member in this line; 0: its line was counted */
} member_line;

typedef struct {
    uint64_t granule;
    uint64_t time;
    value stored;
} recent_store;

struct cv_chains {
    const cv_trace *trace;
    cv_chain_counts *counts;
    size_t count, capacity;
    uint32_t thread;

    uint64_t now, begun; /* instructions walked, and when the stretch began */
    value registers[CV_WIRE_FLOW_REGISTERS];
    value longest;
    chained_load loads[MOST_LOADS];
    uint32_t load_count;
    member_line lines[LINES];
    uint32_t stretch;
    recent_store stores[STORES];

    uint64_t instructions, all_loads, chained;
};

cv_chains *cv_chains_new(const cv_trace *trace)
{
    cv_chains *chains = calloc(1, sizeof *chains);
    if (chains) {
        chains->trace = trace;
        chains->now = chains->begun = CV_CHAIN_STRETCH; /* or the empty table would hold recent stores */
    }
    return chains;
}

void cv_chains_free(cv_chains *chains)
{
    if (chains)
        free(chains->counts);
    free(chains);
}

static member_line *line_place(cv_chains *c, uint64_t line) { return &c->lines[(line ^ line >> 10) % LINES]; }

/* Of the loads that waited as long as a member of the chain in the same line, the first brings the line: it is what a miss holds up,
 * whichever of a node's fields the chain goes through. Earlier ones that waited for less brought it beside the chain. */
static void count_bringing(cv_chains *c)
{
    c->stretch++;
    for (uint32_t load = (uint32_t)c->longest; load; load = c->loads[load - 1].before) {
        const chained_load *member = &c->loads[load - 1];
        *line_place(c, member->line) = (member_line){member->line, c->stretch, member->length};
    }
    for (uint32_t i = 0; i < c->load_count; i++) {
        const chained_load *load = &c->loads[i];
        member_line *member = line_place(c, load->line);
        if (member->line != load->line || member->stretch != c->stretch || !member->length)
            continue;
        if (load->length == member->length && load->site != NOT_COUNTED)
            c->counts[load->site].bringing++;
        member->length = 0;
    }
}

void cv_chains_finish(cv_chains *c)
{
    c->chained += c->longest >> 32;
    for (uint32_t load = (uint32_t)c->longest; load; load = c->loads[load - 1].before)
        if (c->loads[load - 1].site != NOT_COUNTED)
            c->counts[c->loads[load - 1].site].serial++;
    if (c->longest)
        count_bringing(c);
    memset(c->registers, 0, sizeof c->registers);
    c->longest = 0;
    c->load_count = 0;
    c->begun = c->now;
}

static inline value longer(value a, value b) { return a > b ? a : b; }

static inline value longest_of(const value *values, uint64_t set)
{
    value longest = 0;
    for (; set; set &= set - 1)
        longest = longer(longest, values[__builtin_ctzll(set)]);
    return longest;
}

static recent_store *place_of(cv_chains *c, uint64_t granule) { return &c->stores[(granule ^ granule >> 10) % STORES]; }

static void store(cv_chains *c, uint64_t address, unsigned size, value stored)
{
    uint64_t first = address / GRANULE, last = (address + size - 1) / GRANULE;
    if (last - first >= MOST_GRANULES)
        last = first + MOST_GRANULES - 1;
    for (uint64_t granule = first; granule <= last; granule++)
        *place_of(c, granule) = (recent_store){granule, c->now, stored};
}

/* What was stored where the load begins within as many instructions as a stretch has; NULL: nothing. */
static const recent_store *forwarding(cv_chains *c, uint64_t address)
{
    const recent_store *recent = place_of(c, address / GRANULE);
    return recent->granule == address / GRANULE && c->now - recent->time < CV_CHAIN_STRETCH ? recent : NULL;
}

/* Returns the value that a load brings. */
static value load(cv_chains *c, uint32_t site, uint64_t address, value pointer, int counted)
{
    const recent_store *recent = forwarding(c, address);
    c->all_loads++;
    if (recent) {
        c->counts[site].forwarded += (uint64_t)counted;
        return recent->time >= c->begun ? longer(pointer, recent->stored) : pointer;
    }
    c->loads[c->load_count++] =
        (chained_load){counted ? site : NOT_COUNTED, (uint32_t)pointer, (uint32_t)(pointer >> 32) + 1, address >> LINE_SHIFT};
    value brought = ((pointer >> 32) + 1) << 32 | c->load_count;
    c->longest = longer(c->longest, brought);
    return brought;
}

static void end_registers(cv_chains *c, const cv_register_flow *flow, uint32_t count, const value *loaded)
{
    value ended[CV_WIRE_FLOW_REGISTERS];
    for (uint32_t i = 0; i < count; i++)
        ended[i] = longer(longest_of(c->registers, flow[i].registers), longest_of(loaded, flow[i].references));
    for (uint32_t i = 0; i < count; i++)
        c->registers[flow[i].index] = ended[i];
}

static int crosses_line(uint64_t address, unsigned size) { return (address & 63) + size > 64; }

/* One visit, its references from `at` to `end` of the path. */
static void visit(cv_chains *c, const cv_flow *flow, const struct cv_wire_segment *segment, const struct cv_wire_site *sites,
                  const cv_path *path, size_t at, size_t end, int counted)
{
    static const cv_site_flow nothing;
    value loaded[FOLLOWED];
    int known = segment->id < flow->segment_count && flow->segments[segment->id].known;
    memset(loaded, 0, sizeof *loaded * (segment->sites < FOLLOWED ? segment->sites : FOLLOWED));
    for (; at < end; at++) {
        uint32_t site = path->sites[at], number = site - segment->first_site;
        uint64_t address = path->addresses[at];
        const cv_site_flow *from = known ? &flow->sites[site] : &nothing;
        unsigned size = sites[site].size_bytes;
        if (counted) {
            c->counts[site].references++;
            c->counts[site].split += (uint64_t)crosses_line(address, size);
        }
        if (sites[site].flags & CV_WIRE_PREFETCH)
            continue;
        if (sites[site].flags & CV_WIRE_STORE) {
            value stored = longer(longest_of(c->registers, from->value_registers), longest_of(loaded, from->value_references));
            store(c, address, size, stored);
            continue;
        }
        value pointer = longer(longest_of(c->registers, from->address_registers), longest_of(loaded, from->address_references));
        value brought = load(c, site, address, pointer, counted);
        if (number < FOLLOWED)
            loaded[number] = brought;
    }
    if (known)
        end_registers(c, flow->registers + flow->segments[segment->id].first, flow->segments[segment->id].count, loaded);
}

static cv_status learn(cv_chains *c, size_t sites)
{
    CV_RESERVE(c->counts, c->capacity, sites);
    for (; c->count < sites; c->count++)
        c->counts[c->count] = (cv_chain_counts){0};
    return CV_OK;
}

static void begin(cv_chains *c, const cv_path *path)
{
    if (path->continues && path->thread == c->thread)
        return;
    cv_chains_finish(c);
    c->now += CV_CHAIN_STRETCH; /* no store of before is recent */
    c->begun = c->now;
    c->thread = path->thread;
}

cv_status cv_chains_sink(void *context, const cv_path *path)
{
    cv_chains *c = context;
    const struct cv_wire_segment *segments;
    const struct cv_wire_site *sites;
    cv_flow flow;
    cv_trace_segments(c->trace, &segments);
    cv_status status = learn(c, cv_trace_sites(c->trace, &sites));
    if (status)
        return status;
    cv_trace_flows(c->trace, &flow);
    if (!cv_trace_looks_at(c->trace, path->window))
        return CV_OK;
    begin(c, path);
    for (size_t i = 0; i < path->visits; i++) {
        const struct cv_wire_segment *segment = &segments[path->segments[i]];
        if (c->now - c->begun >= CV_CHAIN_STRETCH || c->load_count + segment->sites > MOST_LOADS)
            cv_chains_finish(c);
        visit(c, &flow, segment, sites, path, path->first_reference[i], path->first_reference[i + 1], i >= path->warm_visits);
        c->now += segment->instructions;
        c->instructions += segment->instructions;
    }
    return CV_OK;
}

size_t cv_chains_counts(const cv_chains *chains, const cv_chain_counts **counts)
{
    *counts = chains->counts;
    return chains->count;
}

void cv_chains_totals(const cv_chains *chains, uint64_t *instructions, uint64_t *loads, uint64_t *chained)
{
    *instructions = chains->instructions;
    *loads = chains->all_loads;
    *chained = chains->chained;
}
