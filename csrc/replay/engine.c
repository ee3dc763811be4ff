/* The run: each rank walks through its records; what touches others happens in global time order through the event queue. A rank
 * whose next step is earlier than everything in the queue takes it at once. Messages of a channel are matched in order of arrival,
 * as Dimemas does; a rendezvous send pairs with the receive of the same rank in the channel's order of posts. */
#include <math.h>

#include "internal.h"

/* Returns true when the rank can go on at `time` right away, false when it was put into the queue. */
static bool goes_on_at(simulation *s, uint32_t rank, double time)
{
    if (time > s->now) {
        if (s->queue.count && s->queue.heap[0].time <= time) {
            schedule(s, time, EVENT_RANK, rank);
            return false;
        }
        s->now = time;
        s->queue.processed++;
    }
    return true;
}

static bool startup(simulation *s, uint32_t rank, double latency)
{
    rank_state *k = &s->ranks[rank];
    k->stage = 1;
    k->transfer += latency;
    cv_record_interval(s, rank, s->now, s->now + latency, CV_REPLAY_STATE_STARTUP, -1, NONE);
    return goes_on_at(s, rank, s->now + latency);
}

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
        if (s->pair_count == s->pair_capacity) {
            uint32_t capacity = s->pair_capacity ? 2 * s->pair_capacity : 1024;
            pairing *pairs = realloc(s->pairs, (size_t)capacity * sizeof *pairs);
            if (pairs == NULL) {
                s->no_memory = true;
                return;
            }
            s->pairs = pairs;
            s->pair_capacity = capacity;
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

static bool send_goes_on(simulation *s, uint32_t rank, const record *r, double logical)
{
    channel *c = &s->channels[r->where];
    rank_state *k = &s->ranks[rank];
    bool meets = is_rendezvous(s, r), posted = s->pairing_on && pair(s, c, true, meets);
    uint32_t id = cv_message_new(s);
    if (id == NONE)
        return false;
    message *m = &s->messages[id];
    m->bytes = r->bytes;
    m->record = k->next - s->trace->trace.first[rank];
    m->logical_send = logical;
    m->request = s->now;
    m->source = rank;
    m->destination = (uint32_t)r->peer;
    m->channel = r->where;
    m->inside = node_of(s, rank) == node_of(s, (uint32_t)r->peer);
    k->messages_sent++;
    k->bytes_sent += (uint64_t)r->bytes;
    if (!meets || posted || c->waiting) {
        cv_transfer_request(s, id);
        return true;
    }
    m->sender_blocked = !(r->flags & CV_REPLAY_IMMEDIATE);
    cv_fifo_append(s, &c->blocked, id);
    if (!m->sender_blocked)
        return true;
    k->blocked = true;
    k->began = s->now;
    return false;
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
        k->blocked = false;
        k->stage = 0;
        k->next++;
        schedule(s, s->now, EVENT_RANK, m->source);
    }
    cv_transfer_request(s, id);
}

static void consume(simulation *s, uint32_t rank, uint32_t id)
{
    s->ranks[rank].messages_received++;
    s->ranks[rank].bytes_received += (uint64_t)s->messages[id].bytes;
    cv_message_free(s, id);
}

static bool receive_goes_on(simulation *s, uint32_t rank, const record *r)
{
    channel *c = &s->channels[r->where];
    rank_state *k = &s->ranks[rank];
    if (r->kind == CV_REPLAY_RECV && s->pairing_on)
        pair(s, c, false, 0);
    uint32_t id = cv_fifo_take(s, &c->arrived);
    if (id != NONE) {
        cv_record_message(s, &s->messages[id], s->now);
        consume(s, rank, id);
        return true;
    }
    start_blocked_sender(s, c);
    c->waiting = true;
    k->blocked = true;
    k->began = s->now;
    return false;
}

static void arrival(simulation *s, uint32_t id)
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
    k->stage = 0;
    k->next++;
    consume(s, rank, id);
    cv_rank_resume(s, rank);
}

/* --- ranks ------------------------------------------------------------------------------------------------------------------- */

static bool message_step(simulation *s, uint32_t rank, const record *r)
{
    rank_state *k = &s->ranks[rank];
    bool send = r->kind == CV_REPLAY_SEND;
    uint32_t peer = (uint32_t)r->peer;
    double latency = send ? point_latency(s, rank, peer) : point_latency(s, peer, rank);
    if (!k->stage && !startup(s, rank, latency))
        return false;
    return send ? send_goes_on(s, rank, r, s->now - latency) : receive_goes_on(s, rank, r);
}

static bool collective_step(simulation *s, uint32_t rank, const record *r)
{
    enum outcome outcome = cv_collective_reach(s, rank, r);
    if (outcome == NOT_YET) {
        if (!startup(s, rank, cv_collective_latency(s, s->trace->instances[r->where].comm, rank)))
            return false;
        outcome = cv_collective_reach(s, rank, r);
    }
    return outcome == GOES_ON;
}

void cv_rank_resume(simulation *s, uint32_t rank)
{
    rank_state *k = &s->ranks[rank];
    for (; k->next < k->end; k->next++) {
        const record *r = &s->trace->records[k->next];
        switch (r->kind) {
        case CV_REPLAY_BURST:
        case CV_REPLAY_GPU:
            if (k->stage || r->seconds == 0)
                break;
            k->stage = 1;
            k->compute += r->seconds;
            cv_record_interval(s, rank, s->now, s->now + r->seconds, CV_REPLAY_STATE_COMPUTE, -1, NONE);
            if (!goes_on_at(s, rank, s->now + r->seconds))
                return;
            break;
        case CV_REPLAY_SEND:
        case CV_REPLAY_RECV:
        case CV_REPLAY_WAIT:
            if (!message_step(s, rank, r))
                return;
            break;
        case CV_REPLAY_IRECV:
            if (s->pairing_on && pair(s, &s->channels[r->where], false, 1))
                start_blocked_sender(s, &s->channels[r->where]);
            break;
        case CV_REPLAY_COLLECTIVE:
            if (!collective_step(s, rank, r))
                return;
            break;
        default: break;
        }
        k->stage = 0;
    }
    k->finished = true;
    k->finish = s->now;
}

static void drain(simulation *s)
{
    while (s->queue.count && !s->no_memory) {
        event e = cv_queue_pop(&s->queue);
        s->now = e.time;
        switch (e.order & 7) {
        case EVENT_RANK: cv_rank_resume(s, e.id); break;
        case EVENT_END:
            cv_transfer_release(s, e.id);
            arrival(s, e.id);
            break;
        case EVENT_RELEASE:
            cv_transfer_release(s, e.id);
            cv_message_free(s, e.id);
            break;
        case EVENT_ARRIVAL: arrival(s, e.id); break;
        case EVENT_COLLECTIVE_END: cv_collective_end(s, e.id); break;
        }
    }
}

/* --- set-up and result ------------------------------------------------------------------------------------------------------- */

static bool build(simulation *s)
{
    const cv_replay *t = s->trace;
    s->ranks = calloc(t->trace.ranks, sizeof *s->ranks);
    s->channels = malloc((t->channel_count + (size_t)1) * sizeof *s->channels);
    s->collectives = calloc(t->instance_count + (size_t)1, sizeof *s->collectives);
    if (s->ranks == NULL || s->channels == NULL || s->collectives == NULL || !cv_links_build(s) || !cv_layouts_build(s))
        return false;
    for (uint32_t c = 0; c < t->channel_count; c++)
        s->channels[c] = (channel){{NONE, NONE, 0}, {NONE, NONE, 0}, NONE, NONE, false, false};
    for (uint32_t i = 0; i < t->instance_count; i++)
        s->collectives[i].waiters = s->collectives[i].last = s->collectives[i].next = NONE;
    for (uint32_t r = 0; r < t->trace.ranks; r++) {
        s->ranks[r].next = t->trace.first[r];
        s->ranks[r].end = t->trace.first[r + 1];
        schedule(s, 0, EVENT_RANK, r);
    }
    int64_t limit = s->net->rendezvous_bytes;
    s->pairing_on = limit >= 0 || (limit == CV_REPLAY_TRUST_TRACE && t->may_meet);
    return !s->no_memory;
}

static bool collect(simulation *s, cv_replay_result *result)
{
    uint32_t ranks = s->trace->trace.ranks;
    result->ranks = calloc(ranks, sizeof *result->ranks);
    if (result->ranks == NULL)
        return false;
    for (uint32_t r = 0; r < ranks; r++) {
        const rank_state *k = &s->ranks[r];
        result->ranks[r] =
            (cv_replay_rank){k->finished ? k->finish : s->now, k->compute,          k->transfer, k->wait, k->messages_sent, k->bytes_sent,
                             k->messages_received,             k->bytes_received, -1,          -1,      0};
        if (!k->finished)
            result->deadlock = 1;
    }
    if (result->deadlock)
        cv_deadlock_explain(s, result->ranks);
    result->events = s->queue.processed;
    result->intervals = s->recorder.intervals;
    result->interval_count = s->recorder.interval_count;
    result->messages = s->recorder.messages;
    result->message_count = s->recorder.message_count;
    s->recorder = (recorder){0};
    return true;
}

static void clear(simulation *s)
{
    free(s->queue.heap);
    free(s->ranks);
    free(s->channels);
    free(s->collectives);
    free(s->layouts);
    free(s->shares);
    free(s->node_ports);
    free(s->task_ports);
    free(s->node_buses);
    free(s->messages);
    free(s->pairs);
    free(s->recorder.intervals);
    free(s->recorder.messages);
}

static bool acceptable(const cv_replay *replay, const cv_replay_network *net)
{
    if (net->nodes == 0 || net->buses < 0 || !(net->bytes_per_second >= 0) || !(net->wire_latency >= 0) || !(net->gap >= 0))
        return false;
    for (uint32_t n = 0; n < net->nodes; n++)
        if (!(net->latency_inter[n] >= 0) || !(net->latency_intra[n] >= 0) || !(net->bytes_per_second_intra[n] >= 0) ||
            net->buses_intra[n] < 0 || net->in_intra[n] < 0 || net->out_intra[n] < 0 || net->in_inter[n] < 0 || net->out_inter[n] < 0)
            return false;
    for (uint32_t r = 0; r < replay->trace.ranks; r++)
        if (net->node_of_rank[r] < 0 || (uint32_t)net->node_of_rank[r] >= net->nodes)
            return false;
    return true;
}

cv_status cv_replay_run(const cv_replay *replay, const cv_replay_network *network, int recorded, cv_replay_result *result)
{
    *result = (cv_replay_result){0};
    if (replay == NULL || !acceptable(replay, network))
        return CV_ERROR_ARGUMENT;
    simulation s = {.trace = replay, .net = network, .message_free = NONE, .pair_free = NONE};
    s.recorder.on = recorded != 0;
    cv_status status = CV_ERROR_MEMORY;
    if (build(&s)) {
        drain(&s);
        if (!s.no_memory && collect(&s, result))
            status = CV_OK;
    }
    clear(&s);
    return status;
}

void cv_replay_result_free(cv_replay_result *result)
{
    free(result->ranks);
    free(result->intervals);
    free(result->messages);
    *result = (cv_replay_result){0};
}
