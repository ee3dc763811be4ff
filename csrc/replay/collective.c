/* Collectives: blocking ones start at the last arrival and end for all members at once; non-blocking ones do the same in the
 * background; a Reduce (root sync) is one message from each member to the root. */
#include <math.h>

#include "internal.h"

static void wait_in(simulation *s, uint32_t rank, uint32_t id)
{
    collective *c = &s->collectives[id];
    s->ranks[rank].next_blocked = NONE;
    if (c->waiters == NONE)
        c->waiters = rank;
    else
        s->ranks[c->last_waiter].next_blocked = rank;
    c->last_waiter = rank;
    block(s, rank);
}

/* The members' sizes may differ: those of the root count, or of the last to arrive where no task calls itself root. */
static void arrive(simulation *s, uint32_t rank, const record *r)
{
    collective *c = &s->collectives[r->where];
    c->arrived++;
    c->last = rank;
    if (r->peer || !c->rooted) {
        c->root = rank;
        c->sent = r->bytes;
        c->received = r->extra;
        c->rooted = r->peer;
    }
}

static uint32_t members(const simulation *s, uint32_t id)
{
    uint32_t comm = s->trace->instances[id].comm;
    return (uint32_t)(s->trace->trace.member_first[comm + 1] - s->trace->trace.member_first[comm]);
}

static enum outcome reach_blocking(simulation *s, uint32_t rank, const record *r)
{
    arrive(s, rank, r);
    wait_in(s, rank, r->where);
    if (s->collectives[r->where].arrived == members(s, r->where))
        cv_bus_for_collective(s, r->where);
    return BLOCKED;
}

static enum outcome reach_wait(simulation *s, uint32_t rank, const record *r)
{
    rank_state *k = &s->ranks[rank];
    if (s->net->quirks & CV_REPLAY_QUIRK_ANY_COLLECTIVE_WAIT) {
        if (k->unclaimed) {
            k->unclaimed--;
            return GOES_ON;
        }
        k->waits_any = block(s, rank);
        return BLOCKED;
    }
    if (s->collectives[r->where].done)
        return GOES_ON;
    wait_in(s, rank, r->where);
    return BLOCKED;
}

static void send_to_root(simulation *s, uint32_t rank, const record *r)
{
    uint32_t id = cv_message_new(s, rank, (uint32_t)s->trace->instances[r->where].root, r);
    if (id == NONE)
        return;
    s->messages[id].reduce = true;
    block(s, rank);
    cv_transfer_request(s, id);
}

static enum outcome reach_reduce(simulation *s, uint32_t rank, const record *r)
{
    collective *c = &s->collectives[r->where];
    if ((int32_t)rank != s->trace->instances[r->where].root) {
        send_to_root(s, rank, r);
        return BLOCKED;
    }
    c->root = rank;
    if (++c->arrived == members(s, r->where))
        return GOES_ON;
    c->root_waits = block(s, rank);
    return BLOCKED;
}

/* A task reaches a collective record. NOT_YET: its startup has to be paid first. */
enum outcome cv_collective_reach(simulation *s, uint32_t rank, const record *r)
{
    if (r->flags == CV_REPLAY_BLOCKING)
        return reach_blocking(s, rank, r);
    if (!s->ranks[rank].stage)
        return NOT_YET;
    if (r->flags == CV_REPLAY_WAIT_NONBLOCKING)
        return reach_wait(s, rank, r);
    if (r->flags == CV_REPLAY_ROOT_SYNC)
        return reach_reduce(s, rank, r);
    arrive(s, rank, r);
    if (s->collectives[r->where].arrived == members(s, r->where))
        cv_bus_for_collective(s, r->where);
    return GOES_ON;
}

void cv_collective_begin(simulation *s, uint32_t id)
{
    collective *c = &s->collectives[id];
    c->start = s->now;
    c->duration = cv_collective_seconds(s, id);
    schedule(s, s->now + c->duration, EVENT_COLLECTIVE_END, id);
}

/* Ends a rank's call, which waited until `start` because of a rank and has been in a state since. */
static void end_call(simulation *s, uint32_t rank, double start, uint32_t waited_for, enum cv_replay_state state, int64_t row,
                     uint32_t cause)
{
    rank_state *k = &s->ranks[rank];
    cv_record_interval(s, rank, k->began, start, CV_REPLAY_STATE_WAIT_COLLECTIVE, -1, waited_for);
    cv_record_interval(s, rank, start, s->now, state, row, cause);
    k->wait += start - k->began;
    k->transfer += s->now - start;
    unblock(s, rank, s->now);
}

static void let_on(simulation *s, uint32_t rank, const collective *c)
{
    const double start = fmax(s->ranks[rank].began, fmin(c->start, s->now));
    end_call(s, rank, start, c->last == rank ? NONE : c->last, CV_REPLAY_STATE_COLLECTIVE, -1, NONE);
}

static void claim_any(simulation *s, uint32_t id)
{
    const cv_replay_trace *t = &s->trace->trace;
    uint32_t comm = s->trace->instances[id].comm;
    for (int64_t m = t->member_first[comm]; m < t->member_first[comm + 1]; m++) {
        rank_state *k = &s->ranks[t->members[m]];
        if (k->waits_any) {
            k->waits_any = false;
            let_on(s, (uint32_t)t->members[m], &s->collectives[id]);
        } else {
            k->unclaimed++;
        }
    }
}

void cv_collective_end(simulation *s, uint32_t id)
{
    collective *c = &s->collectives[id];
    c->done = true;
    if (s->machine_bus.capacity)
        cv_bus_after_collective(s);
    if (s->trace->instances[id].sync == CV_REPLAY_NONBLOCKING && (s->net->quirks & CV_REPLAY_QUIRK_ANY_COLLECTIVE_WAIT))
        claim_any(s, id);
    for (uint32_t rank = c->waiters, next; rank != NONE; rank = next) {
        next = s->ranks[rank].next_blocked;
        let_on(s, rank, c);
    }
    c->waiters = NONE;
}

static void end_reduce(simulation *s, uint32_t rank, const message *m, int64_t row, uint32_t cause)
{
    end_call(s, rank, fmax(s->ranks[rank].began, m->physical_send), cause, CV_REPLAY_STATE_TRANSFER, row, cause);
}

/* A contribution has reached the root: its sender goes on; so does the root when it was the last. */
void cv_reduce_arrival(simulation *s, uint32_t id)
{
    const message *m = &s->messages[id];
    collective *c = &s->collectives[m->channel];
    rank_state *root = &s->ranks[m->destination];
    int64_t row = cv_record_message(s, m, s->now);
    root->messages_received++;
    root->bytes_received += (uint64_t)m->bytes;
    if (++c->arrived == members(s, m->channel) && c->root_waits) {
        c->root_waits = false;
        end_reduce(s, m->destination, m, row, m->source);
    }
    end_reduce(s, m->source, m, row, NONE);
    cv_message_free(s, id);
}
