/* The walk: executed instructions pass in order through issue, execution and retirement (see cv_core.h). */
#include "core.h"
#include "memory.h"

#define ALWAYS_INLINE inline __attribute__((always_inline)) /* it is called once, for each instruction */

/* Half cycles until the next line of code is predicted: on Raptor Cove none or two, as its predictor learned the branches there (loops at
 * each offset of a line, timed). */
#define NEXT_LINE 1
/* Turns from which on it is none: those of a nest of two loops across two lines take a cycle from here on, and mostly two below. */
#define LONG_LOOP 20

static inline uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Stores that retired before wait for the first level, as many as fit. Code that makes fewer than enter it soon finds room; code that makes
 * more would take longer than a window to fill the buffer. */
static void fill_store_buffer(cv_core *c, uint64_t now)
{
    queue *const stores = &c->buffers[STORE_BUFFER];
    for (uint32_t i = 0; i < stores->size; i++)
        queue_put(stores, now + i, (blame){now, 0, CV_CAUSE_L1});
    c->committed = 2 * (now + stores->size);
}

/* Time goes on after all that was: what buffers, ports and lines on their way hold of it is past and need not be cleared. */
static void empty_pipeline(cv_core *c)
{
    const uint64_t now = later(later(c->retired, c->issued), later(c->fetched, c->committed / 2)) + (c->walked ? 2 * CALENDAR : 0);
    for (int i = 0; i < CV_CORE_REGISTERS; i++)
        c->registers[i] = (core_register){.written = c->registers[i].written};
    c->late = (blame){now, 0, CV_CAUSE_WIDTH};
    c->delays_kept = 0;
    c->fetched = c->issued = c->retired = c->block_fetched = now;
    c->predicted = 2 * now;
    fill_store_buffer(c, now);
    c->serial = c->closed = 0;
    c->committed_line = UINT64_MAX;
    c->group = c->slots = c->retiring = c->folded = 0;
    c->taken = c->lines_missing = 0;
    c->repeated = c->restarted = 0;
    c->loop_head = c->loop_after = 0;
    c->loop_turns = c->loop_slots = 0;
    c->loop_path = c->last_path = 0;
    c->run = c->run_segment = 0;
    c->eighths = 0;
    c->long_loop = 0;
    c->blamed = -1;
    scheduler_clear(&c->waiting, now);
    c->paths++;
    forwarding_begin(&c->forwards, !c->params.fast_forward_latency);
    ports_forget_uses(&c->ports);
}

static void issue_from(cv_core *c, uint64_t cycle, uint32_t slots, blame why)
{
    if (cycle > c->issued) {
        charge_full(c, why, cycle - c->issued);
        c->issued = cycle;
        c->slots = slots;
    }
}

/* The cycles until lines of code are there that were not near. Fetch runs ahead along the predicted path, so lines come one after the
 * other; only the first one after a mispredicted branch is waited for from beginning to end. */
static uint32_t code_cycles(cv_core *c)
{
    const uint32_t missing = c->lines_missing, waited = c->restarted && missing;
    c->lines_missing = 0;
    c->restarted = 0;
    return waited ? c->params.code_latency + (missing - 1) * c->params.code_line_cycles : missing * c->params.code_line_cycles;
}

/* A line of code is predicted before it is fetched; those that wait for their fetch are in a queue. */
static void predict_line(cv_core *c, uint32_t half_cycles)
{
    const uint64_t ahead = c->params.lines_ahead;
    if (!ahead)
        return;
    c->predicted = later(c->predicted, c->fetched > ahead ? 2 * (c->fetched - ahead) : 0) + half_cycles;
    const uint64_t cycle = (c->predicted + 1) / 2;
    if (cycle > c->fetched) {
        c->fetched = cycle;
        c->group = 0;
    }
}

/* After a taken branch, or at a line of code that is not near. Targets are looked up while the block before is fetched, so a slow one
 * costs what that block was too short to hide. */
static void follow(cv_core *c, uint32_t late)
{
    const uint64_t target = c->block_fetched + c->taken;
    const uint32_t least = c->taken ? 1 : 0;
    c->fetched += late > least ? late : least;
    c->group = 0;
    if (c->taken) {
        c->fetched = later(c->fetched, target);
        predict_line(c, 2);
        c->block_fetched = c->fetched;
    }
    c->taken = 0;
    c->line_slots = 0;
    c->entered = 1;
}

/* The code goes on in the next line. Where a fetch group ends there, with the second entry of this cycle, if cycles bring two and this one
 * has brought one. */
static void follow_line(cv_core *c)
{
    predict_line(c, c->long_loop ? 0 : NEXT_LINE);
    if (!c->params.code_window)
        return;
    if (c->line_slots && c->line_slots <= c->params.entry_slots && c->group <= c->params.entry_slots) {
        c->group = c->params.entry_slots;
    } else {
        c->fetched++;
        c->group = 0;
    }
    c->line_slots = 0;
    c->entered = 0;
}

/* Does the loop buffer have the loop? Then it is fetched no more, and none of its branches are predicted. */
static int buffered(const cv_core *c)
{
    return c->loop_turns >= c->params.loop_turns && c->loop_turns && c->loop_slots <= c->params.loop_buffer;
}

/* Is the next instruction in the cache of decoded code? Its entries hold a line's first slots, its next and so on. */
static void look_up_decoded(cv_core *c, uint64_t line, uint32_t slots)
{
    const uint32_t before = c->decoded_slots / DECODED_SLOTS;
    if (line != c->decoded_line) {
        c->decoded_line = line;
        c->decoded_slots = 0;
    }
    c->decoded_slots += slots;
    const uint32_t part = c->decoded_slots / DECODED_SLOTS;
    if (c->decoded_slots == slots || part != before)
        c->decodes = !near_use(&c->decoded, line, line << 4 | (part & 15));
}

/* What one cycle brings is fetched. Where entries are, a line's third takes a cycle more if a branch went to that line. */
static void fetch_more(cv_core *c)
{
    c->fetched += c->params.entry_slots && c->entered && !c->decodes ? 2 : 1;
    c->group = 0;
}

/* Fetch groups end at taken branches; the queue after them lets fetch run ahead of issue. */
static void fetch(cv_core *c, uint32_t slots, uint32_t new_line)
{
    c->loop_slots += slots;
    if (buffered(c)) {
        c->taken = c->lines_missing = 0;
        c->fetched = later(c->issued, c->fetched);
        c->group = 0;
        return;
    }
    const uint32_t late = code_cycles(c);
    const int follows = c->taken || late;
    if (follows)
        follow(c, late);
    if (new_line)
        follow_line(c);
    const int ends = follows || (new_line && c->params.code_window);
    if (!ends && c->group + slots > (c->decodes ? c->params.decode_width : c->params.fetch_width))
        fetch_more(c);
    c->group += slots;
    c->line_slots += slots;
    const uint64_t room = queue_room(&c->fetch_queue);
    if (room > c->fetched) {
        c->fetched = room;
        c->group = slots;
    }
}

/* As soon as a queue has room; what frees its next entry is to blame. */
static void issue_into(cv_core *c, const queue *q, uint32_t slots) { issue_from(c, queue_room(q), slots, q->next->why); }

static void issue(cv_core *c, const cv_core_op *op, uint32_t number)
{
    const uint32_t slots = op->slots;
    blame why = {0, number, CV_CAUSE_FRONT_END};
    const int by_end = !c->params.entry_slots; /* of cores with entries nobody has timed it */
    const uint32_t new_line = op->flags & (by_end ? CV_CORE_NEW_END : CV_CORE_NEW_LINE);
    if (c->decoded.sets)
        look_up_decoded(c, c->decoded_line + (new_line ? 1 : 0), slots);
    fetch(c, slots, new_line);
    if (c->fetched > c->issued) {
        charge_late(c, why, c->fetched - c->issued);
        c->issued = c->fetched;
        c->slots = 0;
    }
    why.cause = CV_CAUSE_WIDTH;
    c->slots += slots;
    while (c->slots > c->params.issue_width) {
        c->slots -= c->params.issue_width;
        c->issued++;
        charge_late(c, why, 1);
    }
    issue_into(c, &c->reorder, slots);
    for (uint32_t left = c->taken_of[number]; left; left &= left - 1)
        issue_into(c, &c->buffers[__builtin_ctz(left)], slots);
    if (!(op->flags & CV_CORE_NO_PORT)) {
        why = c->late;
        const uint64_t room = scheduler_room(&c->waiting, c->issued, &why);
        issue_from(c, room, slots, why);
    }
    for (uint32_t i = 0; i < slots; i++)
        queue_put_cycle(&c->fetch_queue, c->issued);
}

/* The cycle from which the registers are there; *chained: one of the latest comes from the same group of classes. */
static uint64_t operands(cv_core *c, const cv_core_op *op, uint16_t group, uint64_t cycle, int *chained)
{
    *chained = 0;
    for (int i = 0; i < op->n_reads; i++) {
        const core_register *const from = &c->registers[op->reads[i]];
        stems_from(c, from->origin);
        if (from->forwarded > c->forwarded) {
            c->forwarded = from->forwarded;
            c->moved = from->moved;
        }
        if (from->ready >= cycle) {
            c->after_load = from->loaded;
            *chained = (from->ready == cycle && *chained) || (group && from->producer == group);
            cycle = from->ready;
        }
    }
    return cycle;
}

/* What the operation that executes spent the cycles between these two on: a line for most of them, else a port if it waited for one at
 * least half as long as its turn takes, else what it depends on. `reads`: that is a load which finds its data in the first level. */
static uint32_t cause(const cv_core *c, uint64_t from, uint64_t to, uint64_t turn, int reads)
{
    const uint64_t gap = to - from, line = c->line.cycle > from ? (c->line.cycle < to ? c->line.cycle : to) - from : 0;
    if (line && 2 * line >= gap)
        return CV_CAUSE_LEVELS + c->line.level;
    if (c->port_wait && 2 * c->port_wait >= turn)
        return CV_CAUSE_PORTS + c->port_waited;
    return reads ? CV_CAUSE_L1 : CV_CAUSE_DEPENDENT;
}

/* Returns the cycle in which the result is there. */
static ALWAYS_INLINE uint64_t execute(cv_core *c, const cv_core_op *op, uint32_t number, const cv_path *path, size_t at, size_t end)
{
    const uint32_t closed = c->issued < c->closed ? c->classes[op->class_].closed : 0, class_ = closed ? closed : op->class_;
    const cv_core_class *const kind = &c->classes[class_];
    uint64_t first = c->issued > c->serial ? c->issued : c->serial;
    if ((op->flags & (CV_CORE_SERIAL | CV_CORE_LOCKED)) && c->retired > first)
        first = c->retired;
    int chained;
    c->line = (line_origin){0, 0};
    c->forwarded = c->moved = 0;
    c->port_wait = 0;
    c->after_load = 0;
    const int accesses = at < end || op->flags & (CV_CORE_LOAD | CV_CORE_STORE | CV_CORE_PREFETCH);
    uint64_t start = operands(c, op, kind->group, first, &chained), address = accesses ? first : 0;
    for (int i = 0; i < op->n_addresses; i++) {
        const core_register *const from = &c->registers[op->addresses[i]];
        stems_from(c, from->origin);
        if (from->ready > address) {
            address = from->ready;
            c->after_load |= from->loaded;
        }
    }
    if (op->flags & CV_CORE_PREFETCH) {
        prefetch(c, op, path, at, end, address);
        start = address > start ? address : start;
    } else if (at < end || (op->flags & CV_CORE_LOAD)) {
        uint64_t loaded = loads(c, op, path, at, end, address);
        if (op->flags & CV_CORE_LOCKED) /* its own latency holds that of a load */
            loaded -= loaded < c->params.forward_latency ? loaded : c->params.forward_latency;
        if (loaded > start) {
            start = loaded;
            chained = 0;
        }
    }
    if ((op->flags & CV_CORE_STORE) && address > start)
        start = address;
    if (!accesses && op->n_addresses && address + c->params.base_cycles > start)
        start = address + c->params.base_cycles;
    uint32_t latency = chained ? kind->chained_latency : kind->latency;
    const int folded = (op->flags & CV_CORE_FOLDED) && c->params.folded_period;
    const int waits = !(op->flags & (CV_CORE_FUSED | CV_CORE_NO_PORT));
    uint32_t port = SCHEDULER_NONE;
    if (folded) {
        latency = ++c->folded % c->params.folded_period ? 0 : 1;
    } else if (kind->ports && waits) {
        const uint32_t busy = kind->half ? kind->busy + (c->odd[class_] ^= 1) : kind->busy;
        const uint64_t ready = start;
        start = c->params.late_ports ? ports_take(&c->ports, kind->ports, busy, start)
                                     : ports_take_one(&c->ports, scheduler_bind(&c->waiting, kind->ports), busy, start);
        port = c->ports.taken;
        waited_for_port(c, start - ready, port);
        if (kind->also) {
            const uint64_t both = ports_take(&c->ports, kind->also, 1, start);
            waited_for_port(c, both - start, c->ports.taken);
            start = both;
        }
        if (op->flags & CV_CORE_WIDEST)
            c->closed = later(c->closed, start + c->params.closed_cycles);
    }
    if (waits)
        scheduler_put(&c->waiting, start, port, (blame){c->issued, number, cause(c, c->issued, start, latency, c->after_load)});
    const uint64_t done = start + latency;
    c->moved &= (op->flags & CV_CORE_NO_PORT) != 0;
    for (int i = 0; i < op->n_writes; i++) {
        core_register *const to = &c->registers[op->writes[i]];
        to->ready = done;
        to->origin = c->line;
        to->forwarded = c->forwarded;
        to->written++;
        to->producer = kind->group;
        to->loaded = op->flags & CV_CORE_LOAD;
        to->moved = c->moved;
    }
    if (op->flags & CV_CORE_SERIAL || (op->flags & CV_CORE_LOCKED && c->params.locked_alone))
        c->serial = done;
    return done;
}

/* Retirement in order; returns how many cycles it goes on. */
static uint64_t retire(cv_core *c, const cv_core_op *op, uint32_t number, uint64_t done)
{
    const uint64_t before = c->retired;
    if (done > c->retired) {
        c->late = (blame){c->issued, number, cause(c, before, done, done - before, op->flags & CV_CORE_LOAD)};
        c->retired = done;
        c->retiring = 0;
    }
    c->retiring += op->slots;
    while (c->retiring > c->params.retire_width) {
        c->retiring -= c->params.retire_width;
        c->retired++;
        c->late = (blame){c->issued, number, CV_CAUSE_WIDTH};
    }
    for (uint32_t i = 0; i < op->slots; i++)
        queue_put(&c->reorder, c->retired, c->late);
    for (uint32_t left = c->taken_of[number] & ~(uint32_t)CV_CORE_STORE; left;
         left &= left - 1) /* stores leave when they are in the cache */
        queue_put(&c->buffers[__builtin_ctz(left)], c->retired, c->late);
    assert(c->retired >= before && c->retiring <= c->params.retire_width);
    return c->retired - before;
}

static uint64_t step(cv_core *c, const cv_path *path, uint32_t number, size_t at, size_t end)
{
    const cv_core_op *const op = &c->op[number];
    const int repeated = op->flags & CV_CORE_REPEATED, turn = repeated && c->repeated;
    c->repeated = repeated;
    if (turn) {
        string_turn(c, path, number, at, end);
        c->executions[number] += (uint64_t)c->counted;
        return c->issued;
    }
    c->string_moved = 0;
    if (!(op->flags & CV_CORE_FUSED))
        issue(c, op, number);
    const uint32_t name = address_name(c, op);
    const uint64_t done = execute(c, op, number, path, at, end);
    const uint64_t cycles = retire(c, op, number, done);
    if (at < end)
        stores(c, op, path, at, end, done, name);
    if (c->counted) {
        c->cycles[c->blamed >= 0 ? (uint32_t)c->blamed : number] += cycles;
        c->executions[number]++;
    }
    c->blamed = -1;
    return done;
}

static void restart(cv_core *c, uint64_t resolved, uint32_t branch)
{
    const uint64_t cycle = resolved + c->params.penalty;
    c->blamed = branch;
    c->taken = 0;
    c->restarted = 1;
    c->loop_turns = c->loop_slots = 0;
    c->loop_path = 0;
    if (cycle > c->issued) {
        const uint64_t gap = cycle - c->issued, line = c->line.cycle > c->issued ? c->line.cycle - c->issued : 0;
        charge_late(c, (blame){0, branch, CV_CAUSE_LEVELS + c->line.level}, line < gap ? line : gap);
        charge_late(c, (blame){0, branch, CV_CAUSE_BRANCHES}, line < gap ? gap - line : 0);
        c->issued = c->fetched = c->block_fetched = cycle;
        c->predicted = 2 * cycle;
        c->slots = c->group = 0;
    }
}

/* A segment is fetched: which of its lines were not near? */
static void fetch_lines(cv_core *c, uint64_t address, uint64_t after)
{
    if (!c->code.sets || after <= address)
        return;
    for (uint64_t line = address >> c->line_shift; line <= (after - 1) >> c->line_shift; line++) {
        if (line == c->code_line)
            continue;
        c->code_line = line;
        c->lines_missing += !near_use(&c->code, line, line);
    }
}

/* A jump or call that went elsewhere since the path began: its target is chosen by what came before, where the front end looks for far
 * ones. (AMD, "Software Optimization Guide for AMD Family 19h": "at L2 BTB correction latency".) */
static int goes_elsewhere(cv_core *c, uint32_t segment, uint64_t target)
{
    branch_target *const went = &c->went[segment];
    if (went->path != c->paths)
        *went = (branch_target){target, c->paths, 0};
    else if (went->target != target)
        went->target = SEVERAL;
    return went->target == SEVERAL;
}

/* Another turn of the loop that a segment's branch ends, or its first one; is it one of many, or were there many the last time? */
static int comes_round(cv_core *c, uint32_t segment, int another)
{
    if (another) {
        c->run++;
    } else {
        c->went[c->run_segment].turns = c->run;
        c->run = 1;
        c->run_segment = segment;
    }
    const branch_target *const went = &c->went[segment];
    return c->run >= LONG_LOOP || (went->path == c->paths && went->turns >= LONG_LOOP);
}

/* A taken branch, the end of a segment, whose bytes end at `after` goes to `target`. */
static void take(cv_core *c, const cv_core_op *branch, uint32_t segment, uint64_t target)
{
    const uint64_t after = c->next_address[segment];
    const int returns = branch->flags & CV_CORE_RETURN;
    const int far = !near_use(&c->targets, after >> c->line_shift, after) || (!returns && goes_elsewhere(c, segment, target));
    const uint32_t called = branch->flags & CV_CORE_CALL ? c->params.call_cycles : c->params.taken_cycles;
    const uint32_t nearest = returns ? c->params.return_cycles : called;
    c->taken = far && nearest < c->params.far_taken_cycles ? c->params.far_taken_cycles : nearest;
    if (branch->flags & CV_CORE_INDIRECT && c->params.indirect_cycles)
        c->taken = nearest + (far ? 2 : 1) * c->params.indirect_cycles;
    if (target >= after) {
        c->loop_path = (c->loop_path ^ target) * UINT64_C(0x9e3779b97f4a7c15);
        if (target >= c->loop_after)
            c->loop_turns = 0;
        return;
    }
    const int another = target == c->loop_head && after == c->loop_after;
    const int again = c->loop_turns && another && c->loop_path == c->last_path;
    c->long_loop = c->params.lines_ahead && comes_round(c, segment, another);
    c->loop_turns = again && c->loop_slots <= c->params.loop_buffer ? c->loop_turns + 1 : 1;
    c->loop_head = target;
    c->loop_after = after;
    c->loop_slots = 0;
    c->last_path = c->loop_path;
    c->loop_path = 0;
}

/* Does control, which goes on at `next`, leave the loop that the buffer has? */
static int leaves_buffer(const cv_core *c, uint64_t after, uint64_t next)
{
    if (!buffered(c))
        return 0;
    return next == after ? after == c->loop_after : next < c->loop_head || next >= c->loop_after;
}

/* Are the numbers of its segments and sites those of the code, and its references in order? */
static int valid_path(const cv_core *c, const cv_path *path)
{
    uint32_t segment = 0, site = 0;
    for (size_t i = 0; i < path->visits; i++) {
        segment = path->segments[i] > segment ? path->segments[i] : segment;
        if (path->first_reference[i] > path->first_reference[i + 1])
            return 0;
    }
    const size_t begin = path->visits ? path->first_reference[0] : 0, end = path->visits ? path->first_reference[path->visits] : 0;
    for (size_t k = begin; k < end; k++)
        site = path->sites[k] > site ? path->sites[k] : site;
    return (!path->visits || segment < c->segments) && (begin == end || site < c->sites);
}

/* The operation of a segment that has a reference; of none where the visit has no more. */
static uint32_t referring(const cv_core *c, const cv_path *path, uint32_t first, size_t reference, size_t end)
{
    return reference < end ? first + c->site_op[path->sites[reference]] : UINT32_MAX;
}

static void visit(cv_core *c, const cv_path *path, size_t i)
{
    const uint32_t segment = path->segments[i], next = i + 1 < path->visits ? path->segments[i + 1] : path->following;
    size_t at = path->first_reference[i];
    const size_t end = path->first_reference[i + 1];
    const uint32_t first = c->first_op[segment], last = c->first_op[segment + 1];
    if (first < last) {
        if (!c->taken && !c->repeated && !buffered(c) && c->ended_line != c->address[segment] >> c->line_shift)
            follow_line(c);
        c->ended_line = (c->next_address[segment] - 1) >> c->line_shift;
    }
    fetch_lines(c, c->address[segment], c->next_address[segment]);
    c->counted = i >= path->warm_visits;
    if (c->taken || c->decoded_line != c->address[segment] >> c->line_shift) {
        c->decoded_line = c->address[segment] >> c->line_shift;
        c->decoded_slots = 0;
    }
    uint64_t done = c->issued;
    uint32_t refers = referring(c, path, first, at, end); /* the next operation that has references */
    for (uint32_t number = first; number < last; number++) {
        const size_t begin = at;
        while (number == refers)
            refers = referring(c, path, first, ++at, end);
        done = step(c, path, number, begin, at);
    }
    c->walked += last - first;
    if (first == last)
        return;
    const uint64_t after = c->next_address[segment];
    const int known = next < c->segments;
    if (c->repeated) { /* its turns are no branches, and come from the same front end as what follows */
        c->loop_turns = 0;
        c->fetched = later(c->issued, c->fetched);
        return;
    }
    const int left = known && leaves_buffer(c, after, c->address[next]);
    if (left)
        c->loop_turns = 0;
    if (c->flags && (left || (c->flags[i] & CV_VISIT_MISPREDICTED)))
        restart(c, done, last - 1);
    else if (known && c->address[next] != after)
        take(c, &c->op[last - 1], segment, c->address[next]);
    if (c->flags && (c->flags[i] & CV_VISIT_OVERRIDDEN) && !left && !buffered(c))
        c->predicted += UINT64_C(2) * c->params.override_cycles;
}

void cv_core_owe(cv_core *c, size_t owner, const cv_core_course *course)
{
    if (!c->levels || owner >= c->far_owners)
        return;
    /* What was owed where the gaps begin is not known: of what may be, half is forgotten soonest, and each part of a line is as likely. */
    const float unknown = MOST_OWED / 2 + (float)course->phase / UINT16_MAX;
    far_lines *const one = &c->far[owner];
    for (uint32_t k = 0; k < c->levels; k++)
        one->owed[k] = course->lines > CV_CORE_COURSE ? unknown : 0;
    const uint32_t count = course->lines < CV_CORE_COURSE ? course->lines : CV_CORE_COURSE;
    for (uint32_t i = course->lines - count; i != course->lines; i++)
        owe(one, course->gap[i % CV_CORE_COURSE], 1);
    owe(one, course->since, 0);
}

cv_status cv_core_walk(cv_core *c, const cv_path *path, const uint8_t *flags, const uint16_t *latency)
{
    if (!valid_path(c, path))
        return CV_ERROR_ARGUMENT;
    if (!path->continues || !c->walked)
        empty_pipeline(c);
    c->flags = flags;
    c->latency = latency;
    for (size_t i = 0; i < path->visits; i++)
        visit(c, path, i);
    return CV_OK;
}

cv_status cv_core_turn(cv_core *c, const uint32_t *segments, size_t count, uint32_t warm, uint32_t turns)
{
    const size_t visits = (size_t)warm + turns;
    uint32_t *const visit = calloc(2 * visits + 1, sizeof *visit); /* and where the references of each begin */
    cv_status status = visit ? CV_OK : CV_ERROR_MEMORY;
    const cv_path path = {
        .following = CV_PATH_UNKNOWN, .visits = visits, .warm_visits = warm, .segments = visit, .first_reference = visit + visits};
    for (size_t i = 0; i < count && !status; i++) {
        for (size_t k = 0; k < visits; k++)
            visit[k] = segments[i];
        status = cv_core_walk(c, &path, NULL, NULL);
    }
    free(visit);
    return status;
}
