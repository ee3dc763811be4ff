/* What the memory operands of an instruction cost: ports, the first level, store forwarding, and lines from farther away. */
#ifndef CV_CORE_MEMORY_H
#define CV_CORE_MEMORY_H

#include "core.h"

#define ASKED_TOGETHER 3 /* cycles within which loads of one line that is far get it at once */
#define MOST_OWED 16     /* lines that an owner's references have not met yet; more come from shares that do not fit its path */

/* Cycles until a line is there: first the walk that translates its page, then the way from its level. Both 0: the first level's. */
typedef struct {
    uint32_t walk, latency, level;
} line_way;

/* So many references of an owner add its shares to what is owed; where the last of them brings a line out of order, it pays, the farthest
 * level first. Returns that level, or CV_CORE_LEVELS. */
static inline uint32_t owe(far_lines *owner, uint32_t references, int pays)
{
    for (int k = 0; k < CV_CORE_LEVELS; k++) { /* all of them, so that they are added at once */
        const float owed = owner->owed[k] + (float)references * owner->rate[k];
        owner->owed[k] = owed < MOST_OWED ? owed : MOST_OWED;
    }
    uint32_t level = CV_CORE_LEVELS;
    if (!pays)
        return level;
    for (uint32_t k = 0; k < CV_CORE_LEVELS; k++) /* no branch that hangs on it, which nobody predicts */
        level = owner->owed[k] >= 1 ? k : level;
    if (level < CV_CORE_LEVELS)
        owner->owed[level] -= 1;
    return level;
}

/* How far away a reference's line is. */
static inline line_way load_way(cv_core *c, const cv_path *path, size_t reference)
{
    if (c->latency)
        return (line_way){0, c->latency[reference], 0};
    if (!c->levels)
        return (line_way){0, 0, 0};
    far_lines *const owner = &c->far[c->site_owner[path->sites[reference]]];
    const uint64_t line = path->addresses[reference] >> c->line_shift;
    const int pays = c->out_of_order ? c->out_of_order[reference] : cv_streams_surprised(&c->streams, line);
    const uint32_t level = owe(owner, 1, pays);
    const line_way way = level == CV_CORE_LEVELS ? (line_way){0, 0, 0} : (line_way){owner->walk, owner->latency[level], level};
    if (c->counted)
        owner->surplus += (float)(way.walk + way.latency) - owner->due;
    return way;
}

/* The cycle at which a load has its line that the first level lacks: the line waits for its page's translation and then for a fill
 * buffer, or comes already. A load whose page is still looked up asks no cache for anything, so it holds no fill buffer. Whoever asks right
 * after the first has the line soon after it; later ones look into the first level again once it is there (timed on Zen 3 and Raptor Cove).
 */
static inline line_origin line_arrival(cv_core *c, uint64_t address, uint64_t start, line_way way)
{
    const uint64_t line = address >> c->line_shift;
    line_entry *const e = &c->lines[(line ^ line >> 10) & (LINES - 1)];
    if (e->line == line && e->arrival > start) {
        const uint32_t near = c->params.load_latency, more = start > e->asked + ASKED_TOGETHER ? near : c->params.met_cycles;
        return (line_origin){e->arrival + (e->arrival > start + near ? more : 0), e->level};
    }
    if (!way.latency)
        return (line_origin){0, 0};
    const uint64_t room = queue_room(&c->fills), translated = start + way.walk;
    const uint64_t arrival = (room > translated ? room : translated) + way.latency;
    queue_put_cycle(&c->fills, arrival);
    *e = (line_entry){line, start, arrival, way.level};
    return (line_origin){arrival, way.level};
}

/* The operation that executes has a line's data, and waits for a port. */
static inline void stems_from(cv_core *c, line_origin line)
{
    if (line.cycle > c->line.cycle)
        c->line = line;
}

static inline void waited_for_port(cv_core *c, uint64_t cycles, uint32_t port)
{
    if (cycles > c->port_wait) {
        c->port_wait = cycles;
        c->port_waited = port;
    }
}

/* Cycles that pass before anything more is issued, whoever is to blame. */
static inline void charge(cv_core *c, blame why, uint64_t cycles)
{
    if (c->causes && c->counted)
        c->causes[c->owner[why.operation] * (size_t)CV_CORE_CAUSES + why.cause] += cycles;
}

/* Cycles by which instructions come late themselves: they may turn out to be hidden. */
static inline void charge_late(cv_core *c, blame why, uint64_t cycles)
{
    if (!c->causes || !c->counted || !cycles)
        return;
    charge(c, why, cycles);
    why.since = c->issued;
    c->delays[c->delay++ % DELAYS] = (issue_delay){why, cycles};
    c->delays_kept += c->delays_kept < DELAYS;
}

/* A buffer was full: the critical path goes back to the issue of what kept its place, and what was late since then cost nothing. */
static inline void charge_full(cv_core *c, blame why, uint64_t cycles)
{
    charge(c, why, cycles);
    while (c->delays_kept) {
        const issue_delay *const last = &c->delays[(c->delay - 1) % DELAYS];
        if (last->why.since < why.since)
            break;
        c->causes[c->owner[last->why.operation] * (size_t)CV_CORE_CAUSES + last->why.cause] -= last->cycles;
        charge(c, why, last->cycles);
        c->delay--;
        c->delays_kept--;
    }
}

/* The name by which a core that renames memory knows the address of an instruction: its register and how often that was written; 0: none.
 * What push and pop do to the stack pointer is followed, so it never counts as written. */
static inline uint32_t address_name(const cv_core *c, const cv_core_op *op)
{
    if (!c->params.named_pairs || !(op->flags & CV_CORE_PLAIN) || op->n_addresses > 1)
        return 0;
    const uint32_t number = op->n_addresses ? op->addresses[0] : CV_CORE_STACK_POINTER;
    if (number == CV_CORE_STACK_POINTER)
        return 1 + number;
    return c->params.named_pairs > 1 ? 1 + number + CV_CORE_REGISTERS * c->registers[number].written : 0;
}

/* Can a core that renames memory rename this load? */
static inline int renamable(const cv_core *c, const cv_core_op *op, uint32_t bytes)
{
    if (op->flags & CV_CORE_VECTOR)
        return 0;
    return !c->params.renamed_moves || (bytes >= 4 && (op->flags & (CV_CORE_MOVED | CV_CORE_STORE) || op->n_addresses > 1));
}

/* Cycles more until the page of a load is translated where the first level of the TLB lacks it. The latencies of levels beyond the second
 * hold that: what was timed there touched more pages. */
static inline uint32_t translation(cv_core *c, uint64_t address, uint64_t start, line_way way)
{
    const uint64_t page = address >> PAGE_SHIFT;
    if (c->latency)
        return 0;
    if (page == c->page)
        return start < c->page_known && !way.level ? c->params.page_cycles : 0;
    c->page = page;
    if (near_use(&c->pages, page, page) || way.level)
        return 0;
    c->page_known = start + c->params.page_cycles;
    return c->params.page_cycles;
}

/* When the result of a load is there that found its store's data missing. Golden Cove takes 5 cycles if these come late, and 7.4 from one
 * such load to the next where they come of the former's result in few cycles (timed); a value that is moved alone takes 5 there, but for
 * vectors. */
static inline uint64_t chained_forward(cv_core *c, const store_entry *store, uint64_t after)
{
    if (!store->forwarded || 8 * (after - store->forwarded) >= c->params.forward_eighths)
        return after;
    const uint32_t eighths = c->eighths + c->params.forward_eighths;
    c->eighths = eighths % 8;
    return store->forwarded + eighths / 8;
}

/* One load whose address is known at `cycle`; returns when its data can be used. */
static inline uint64_t load(cv_core *c, const cv_core_op *op, uint64_t address, uint32_t bytes, line_way way, uint64_t cycle)
{
    const cv_core_params *const p = &c->params;
    const int vector = op->flags & CV_CORE_VECTOR, line = (int)(address & (p->line_bytes - 1));
    const uint32_t ports = vector && p->vector_load_ports ? p->vector_load_ports : p->load_ports;
    const uint32_t form = (op->n_addresses > 1 ? p->index_cycles : 0) + (op->flags & CV_CORE_COMPOUND ? p->compound_cycles : 0);
    const uint32_t near = vector ? p->vector_load_latency : p->load_latency + form;
    uint64_t start = ports_take(&c->ports, ports, 1, cycle);
    waited_for_port(c, start - cycle, (uint32_t)__builtin_ctz(ports));
    const uint32_t translated = translation(c, address, start, way);
    uint64_t done = start + near + translated;
    if (line + bytes > p->line_bytes) {
        start = ports_take(&c->ports, ports, 1, start);
        done = start + near + translated + p->split_cycles;
    } else if (p->port_bytes && bytes > p->port_bytes) {
        ports_take(&c->ports, ports, 1, start);
    }
    const store_entry *store = NULL;
    const enum forward found = forwarding_find(&c->forwards, address, bytes, start, &store);
    if (found == FORWARD_PART) {
        const uint64_t after = store->cached + p->failed_forward_latency;
        return after > done ? after : done;
    }
    if (found == FORWARD_WHOLE && renamable(c, op, bytes)) {
        const uint32_t name = address_name(c, op);
        const int named = name && name == store->name;
        const int predicted = p->predicted_pairs && forwarding_predicted(&c->forwards, (uint32_t)(op - c->op), p->predicted_pairs, store);
        if (named || predicted)
            return store->ready > c->issued + 1 ? store->ready : c->issued + 1;
    }
    const int plain = op->flags & CV_CORE_PLAIN, update = op->flags & CV_CORE_STORE && op->n_reads && p->forwarded_updates;
    const int renamed = plain && !update && !p->fast_forward_latency;
    const int usual = !renamed || forwarding_usual(&c->forwards, (uint32_t)(op - c->op), found == FORWARD_WHOLE ? store : NULL);
    if (found == FORWARD_WHOLE) {
        const uint32_t general = plain && !update && usual ? p->fast_forward_latency : p->forward_latency;
        const uint64_t after = store->ready + (vector ? p->vector_forward_latency : general);
        const int chains = p->forward_eighths && (vector || general);
        const uint64_t result = chains && done <= store->ready ? chained_forward(c, store, after) : after > done ? after : done;
        if (chains && result > c->forwarded) {
            c->forwarded = result;
            c->moved = 1;
        }
        return result;
    }
    const uint32_t more = near > p->load_latency ? near - p->load_latency : 0; /* latencies are those of plain loads */
    const line_origin arrival = line_arrival(c, address, start + translated + more, way);
    if (arrival.cycle <= done)
        return done;
    stems_from(c, arrival);
    return arrival.cycle;
}

/* All loads among the references [at, end) of an instruction; pieces that follow each other in memory are one. */
static inline uint64_t loads(cv_core *c, const cv_core_op *op, const cv_path *path, size_t at, size_t end, uint64_t cycle)
{
    uint64_t done = 0;
    int any = 0;
    while (at < end) {
        if (c->site_store[path->sites[at]]) {
            at++;
            continue;
        }
        const uint64_t address = path->addresses[at];
        uint32_t bytes = c->site_bytes[path->sites[at]];
        const line_way way = load_way(c, path, at);
        for (at++; at < end && !(op->flags & CV_CORE_ELEMENTS) && !c->site_store[path->sites[at]] && path->addresses[at] == address + bytes;
             at++)
            bytes += c->site_bytes[path->sites[at]];
        const uint64_t one = load(c, op, address, bytes, way, cycle);
        done = one > done ? one : done;
        any = 1;
    }
    if (!any && (op->flags & CV_CORE_LOAD))
        done = ports_take(&c->ports, c->params.load_ports, 1, cycle) + c->params.load_latency;
    return done;
}

/* A prefetch asks for its line, and is done when its load has a port. */
static __attribute__((noinline)) void prefetch(cv_core *c, const cv_core_op *op, const cv_path *path, size_t at, size_t end, uint64_t cycle)
{
    const line_origin waited = c->line;
    loads(c, op, path, at, end, cycle);
    c->line = waited;
}

/* Retired stores enter the cache in order: one a cycle, two where both belong to one line, fewer where one touches two lines. Returns the
 * cycle at which this one is there. */
static inline uint64_t commit(cv_core *c, uint64_t address, uint32_t bytes, uint64_t from, int alone)
{
    const uint64_t line = address >> c->line_shift, last = (address + (bytes ? bytes - 1 : 0)) >> c->line_shift;
    if (c->committed < 2 * from)
        c->committed = 2 * from;
    c->committed += line != last ? 2 * c->params.split_store_cycles : line == c->committed_line && !alone ? 1 : 2;
    c->committed_line = last;
    return c->committed / 2 + 1;
}

/* All stores among the references [at, end): they can be forwarded from `ready` on, until they are in the cache. */
static inline void stores(cv_core *c, const cv_core_op *op, const cv_path *path, size_t at, size_t end, uint64_t ready, uint32_t name)
{
    const int alone = (op->flags & CV_CORE_VECTOR) && c->params.lone_vector_stores;
    const int addressed = (op->flags & CV_CORE_LOAD) && (c->params.load_ports & c->params.store_ports); /* by its load */
    const uint64_t forwarded = c->moved && !(op->flags & CV_CORE_VECTOR) ? 0 : c->forwarded;
    const uint32_t most = c->params.port_bytes ? c->params.port_bytes : UINT32_MAX;
    for (; at < end; at++) {
        const uint32_t site = path->sites[at], bytes = c->site_bytes[site];
        if (!c->site_store[site])
            continue;
        load_way(c, path, at); /* nothing waits for a store's line, but the lines after it follow */
        const uint64_t address = path->addresses[at], start = addressed ? ready : ports_take(&c->ports, c->params.store_ports, 1, ready);
        if (bytes > most)
            c->committed += 2;
        const uint64_t cached = commit(c, address, bytes, start > c->retired ? start : c->retired, alone);
        queue_put(&c->buffers[STORE_BUFFER], cached,
                  cached > c->retired + 2 ? (blame){c->issued, (uint32_t)(op - c->op), CV_CAUSE_L1} : c->late);
        forwarding_put(&c->forwards, address, bytes, start, cached, forwarded, name);
    }
}

/* A turn of a repeated string instruction: wide moves that overlap with all the rest. Microcode looks at long ones first. */
static inline void string_turn(cv_core *c, const cv_path *path, uint32_t number, size_t at, size_t end)
{
    uint32_t bytes = 0;
    for (; at < end; at++)
        if (c->site_bytes[path->sites[at]] > bytes)
            bytes = c->site_bytes[path->sites[at]];
    const uint64_t few = UINT64_C(2) * c->params.string_bytes, before = c->string_moved;
    c->string_moved += bytes;
    if (before <= few && c->string_moved > few) {
        charge_late(c, (blame){c->issued, number, CV_CAUSE_L1}, c->params.string_cycles);
        c->issued += c->params.string_cycles;
    }
    for (c->string_bytes += bytes; c->string_bytes >= c->params.string_bytes; c->string_bytes -= c->params.string_bytes) {
        charge_late(c, (blame){c->issued, number, CV_CAUSE_L1}, 1);
        c->issued++;
    }
}

#endif
