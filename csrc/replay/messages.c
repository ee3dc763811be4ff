/* Point-to-point messages: what a send and a receive do, and what an arrival does to those who wait. Messages of a channel are matched
 * in order of arrival, as Dimemas does; a rendezvous send pairs with the receive of the same rank in the channel's order of posts. */
#include <math.h>

#include "internal.h"

static double point_latency(const simulation *s, uint32_t source, uint32_t destination)
{
    uint32_t node = node_of(s, source);
    return node == node_of(s, destination) ? s->net->latency_intra[node] : s->net->latency_inter[node];
}

/* --- pairing of sends and posted receives (only where a rendezvous is possible) ------------------------------------------------ */

static void pair_add(simulation *s, channel *c, bool send, uint8_t flag)
{
    uint32_t id = s->pair_free;
    if (id != NONE) {
        s->pair_free = s->pairs[id].next;
    } else {
        if (!CV_ROOM(s->pairs, s->pair_capacity, s->pair_count)) {
            s->no_memory = true;
            return;
        }
        id = s->pair_count++;
    }
    s->pairs[id] = (pairing){NONE, flag};
    if (c->pairs == NONE)
        c->pairs = id;
    else
        s->pairs[c->last_pair].next = id;
    c->last_pair = id;
    c->pairs_are_sends = send;
}

/* Pairs a send (flag: rendezvous) or a receive (flag: irecv) with the oldest unpaired counterpart; returns its flag, 0 if none. */
static uint8_t pair(simulation *s, channel *c, bool send, uint8_t flag)
{
    uint32_t id = c->pairs;
    if (id == NONE || c->pairs_are_sends == send) {
        pair_add(s, c, send, flag);
        return 0;
    }
    c->pairs = s->pairs[id].next;
    s->pairs[id].next = s->pair_free;
    s->pair_free = id;
    return s->pairs[id].flag;
}

/* --- point to point ---------------------------------------------------------------------------------------------------------- */

static bool is_rendezvous(const simulation *s, const record *r)
{
    int64_t limit = s->net->rendezvous_bytes;
    return limit >= 0 ? r->bytes >= limit : limit == CV_REPLAY_TRUST_TRACE && (r->flags & CV_REPLAY_RENDEZVOUS);
}

static double receive_cost(const simulation *s, const message *m)
{
    return s->net->cost_points ? cv_message_cost(s, s->net->cost_receive, m->bytes) : 0;
}

static bool send_goes_on(simulation *s, uint32_t rank, const record *r, double logical)
{
    channel *c = &s->channels[r->where];
    bool meets = is_rendezvous(s, r), posted = s->pairing_on && pair(s, c, true, meets);
    uint32_t id = cv_message_new(s, rank, (uint32_t)r->peer, r);
    if (id == NONE)
        return false;
    message *m = &s->messages[id];
    m->logical_send = logical;
    bool immediate = r->flags & CV_REPLAY_IMMEDIATE;
    m->reports = meets && s->net->sends_wait && immediate;
    if (!meets || posted || c->waiting) {
        m->sender_waits = meets && s->net->sends_wait && !immediate;
        bool waits = m->sender_waits && block(s, rank);
        cv_transfer_request(s, id);
        return !waits;
    }
    m->sender_blocked = !immediate;
    cv_fifo_append(s, &c->blocked, id);
    return !m->sender_blocked || !block(s, rank);
}

static void start_blocked_sender(simulation *s, channel *c)
{
    uint32_t id = cv_fifo_take(s, &c->blocked);
    if (id == NONE)
        return;
    message *m = &s->messages[id];
    m->request = s->now;
    m->by_receiver = true;
    if (m->sender_blocked) {
        rank_state *k = &s->ranks[m->source];
        cv_record_interval(s, m->source, k->began, s->now, CV_REPLAY_STATE_WAIT_RECEIVER, -1, m->destination);
        k->wait += s->now - k->began;
        k->began = s->now;
        if (s->net->sends_wait)
            m->sender_waits = true;
        else
            unblock(s, m->source, s->now);
    }
    cv_transfer_request(s, id);
}

static void consume(simulation *s, uint32_t rank, uint32_t id)
{
    s->ranks[rank].messages_received++;
    s->ranks[rank].bytes_received += (uint64_t)s->messages[id].bytes;
    cv_message_free(s, id);
}

/* --- rendezvous sends that end with the receiver's copy ------------------------------------------------------------------------ */

/* The receiver copies from now to `time`: that is when the sender's buffer is free. */
static void copied_at(simulation *s, message *m, double time)
{
    if (m->sender_waits) {
        rank_state *sender = &s->ranks[m->source];
        cv_record_interval(s, m->source, sender->began, time, CV_REPLAY_STATE_TRANSFER, -1, NONE);
        sender->transfer += time - sender->began;
        unblock(s, m->source, time);
    } else if (m->reports) {
        schedule(s, time, EVENT_COPIED, m->channel);
    }
    m->sender_waits = m->reports = false;
}

void cv_send_copied(simulation *s, uint32_t id)
{
    channel *c = &s->channels[id];
    if (++c->copied < c->awaited || !c->source_waits)
        return;
    uint32_t rank = (uint32_t)s->trace->channels[id].source;
    rank_state *k = &s->ranks[rank];
    c->source_waits = false;
    cv_record_interval(s, rank, k->began, s->now, CV_REPLAY_STATE_TRANSFER, -1, (uint32_t)s->trace->channels[id].destination);
    k->transfer += s->now - k->began;
    unblock(s, rank, s->now);
}

bool cv_send_wait(simulation *s, uint32_t rank, const record *r)
{
    channel *c = &s->channels[r->where];
    if (!s->net->sends_wait || !is_rendezvous(s, r) || ++c->awaited <= c->copied)
        return true;
    c->source_waits = true;
    block(s, rank);
    return false;
}

void cv_see_pending(simulation *s, uint32_t rank)
{
    rank_state *k = &s->ranks[rank];
    double time = s->now;
    while (k->pending != NONE) {
        message *m = &s->messages[k->pending];
        time += receive_cost(s, m);
        k->pending = m->newer;
        copied_at(s, m, time);
    }
    k->last_pending = NONE;
}

/* The destination does not wait for this message: it copies once it looks, at once where it waits for another one. */
static void leave_for(simulation *s, uint32_t id)
{
    message *m = &s->messages[id];
    rank_state *k = &s->ranks[m->destination];
    m->newer = NONE;
    if (k->pending == NONE)
        k->pending = id;
    else
        s->messages[k->last_pending].newer = id;
    k->last_pending = id;
    if (k->finished || (k->blocked && s->processors == NULL))
        cv_see_pending(s, m->destination);
    else if (k->blocked)
        cv_processor_visit(s, m->destination);
}

static bool receive_goes_on(simulation *s, uint32_t rank, const record *r)
{
    channel *c = &s->channels[r->where];
    if (r->kind == CV_REPLAY_RECV && s->pairing_on)
        pair(s, c, false, 0);
    uint32_t id = cv_fifo_take(s, &c->arrived);
    if (id != NONE) {
        cv_record_message(s, &s->messages[id], s->now);
        double cost = receive_cost(s, &s->messages[id]);
        consume(s, rank, id);
        return cost == 0 || cv_startup(s, rank, 2, cost);
    }
    start_blocked_sender(s, c);
    c->waiting = true;
    block(s, rank);
    return false;
}

void cv_message_arrival(simulation *s, uint32_t id)
{
    message *m = &s->messages[id];
    m->arrival = s->now;
    if (m->reduce) {
        cv_reduce_arrival(s, id);
        return;
    }
    channel *c = &s->channels[m->channel];
    if (!c->waiting) {
        cv_fifo_append(s, &c->arrived, id);
        if (m->sender_waits || m->reports)
            leave_for(s, id);
        return;
    }
    uint32_t rank = m->destination;
    rank_state *k = &s->ranks[rank];
    double start = fmax(k->began, m->physical_send);
    int64_t row = cv_record_message(s, m, k->began);
    cv_record_interval(s, rank, k->began, start, CV_REPLAY_STATE_WAIT_MESSAGE, row, m->source);
    cv_record_interval(s, rank, start, s->now, CV_REPLAY_STATE_TRANSFER, row, m->source);
    k->wait += start - k->began;
    k->transfer += s->now - start;
    c->waiting = false;
    k->blocked = false;
    k->stage = 3;
    k->taken = id;
    cv_rank_resume(s, rank);
}

void cv_receive_post(simulation *s, const record *r)
{
    if (s->pairing_on && pair(s, &s->channels[r->where], false, 1))
        start_blocked_sender(s, &s->channels[r->where]);
}

bool cv_message_step(simulation *s, uint32_t rank, const record *r)
{
    rank_state *k = &s->ranks[rank];
    bool send = r->kind == CV_REPLAY_SEND;
    uint32_t peer = (uint32_t)r->peer;
    if (k->stage == 2)
        return true;
    if (k->stage == 3) {
        message *m = &s->messages[k->taken];
        double cost = receive_cost(s, m);
        copied_at(s, m, s->now + cost);
        consume(s, rank, k->taken);
        return cost == 0 || cv_startup(s, rank, 2, cost);
    }
    double latency = send ? point_latency(s, rank, peer) : point_latency(s, peer, rank);
    if (s->net->cost_points)
        latency = send ? cv_message_cost(s, s->net->cost_send, r->bytes) : 0;
    if (!k->stage && !cv_startup(s, rank, 1, latency))
        return false;
    return send ? send_goes_on(s, rank, r, s->now - latency) : receive_goes_on(s, rank, r);
}
