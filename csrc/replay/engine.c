/* The run: each rank walks through its records; what touches others happens in global time order through the event queue. A rank
 * whose next step is earlier than everything in the queue takes it at once. */
#include "internal.h"

bool cv_goes_on_at(simulation *s, uint32_t rank, double time)
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

bool cv_startup(simulation *s, uint32_t rank, uint8_t stage, double seconds)
{
    rank_state *k = &s->ranks[rank];
    k->stage = stage;
    k->transfer += seconds;
    cv_record_interval(s, rank, s->now, s->now + seconds, CV_REPLAY_STATE_STARTUP, -1, NONE);
    return cv_goes_on_at(s, rank, s->now + seconds);
}

/* --- ranks ------------------------------------------------------------------------------------------------------------------- */

static bool collective_step(simulation *s, uint32_t rank, const record *r)
{
    enum outcome outcome = cv_collective_reach(s, rank, r);
    if (outcome == NOT_YET) {
        if (!cv_startup(s, rank, 1, cv_collective_latency(s, s->trace->instances[r->where].comm, rank)))
            return false;
        outcome = cv_collective_reach(s, rank, r);
    }
    return outcome == GOES_ON;
}

static bool burst_step(simulation *s, uint32_t rank, const record *r)
{
    rank_state *k = &s->ranks[rank];
    if (r->seconds == 0 || k->stage == 1)
        return true;
    k->stage = 1;
    k->compute += r->seconds;
    cv_record_interval(s, rank, s->now, s->now + r->seconds, CV_REPLAY_STATE_COMPUTE, -1, NONE);
    if (s->processors && r->kind == CV_REPLAY_GPU)
        cv_processor_release(s, rank);
    return cv_goes_on_at(s, rank, s->now + r->seconds);
}

/* Computation does not look at messages, nor do calls that return at once. */
static bool may_copy(const record *r)
{
    switch (r->kind) {
    case CV_REPLAY_SEND: return !(r->flags & CV_REPLAY_IMMEDIATE);
    case CV_REPLAY_RECV:
    case CV_REPLAY_WAIT:
    case CV_REPLAY_SEND_WAIT:
    case CV_REPLAY_COLLECTIVE: return true;
    default: return false;
    }
}

/* Returns false where the rank blocks, or goes on later through the queue. */
static bool step(simulation *s, uint32_t rank, const record *r)
{
    switch (r->kind) {
    case CV_REPLAY_BURST:
    case CV_REPLAY_GPU: return burst_step(s, rank, r);
    case CV_REPLAY_SEND_WAIT: return cv_send_wait(s, rank, r);
    case CV_REPLAY_SEND:
    case CV_REPLAY_RECV:
    case CV_REPLAY_WAIT: return cv_message_step(s, rank, r);
    case CV_REPLAY_IRECV:
        if (s->net->cost_points && !s->ranks[rank].stage && !cv_startup(s, rank, 1, s->net->cost_post))
            return false;
        cv_receive_post(s, r);
        return true;
    case CV_REPLAY_COLLECTIVE: return collective_step(s, rank, r);
    default: return true;
    }
}

static bool walk(simulation *s, uint32_t rank)
{
    rank_state *k = &s->ranks[rank];
    for (; k->next < k->end; k->next++) {
        if (is_interrupted(s) || (s->processors && !cv_processor_take(s, rank)))
            return false;
        const record *r = &s->trace->records[k->next];
        if (k->pending != NONE && may_copy(r))
            cv_see_pending(s, rank);
        if (!step(s, rank, r))
            return false;
        k->stage = 0;
    }
    k->finished = true;
    k->finish = s->now;
    cv_see_pending(s, rank);
    return true;
}

void cv_rank_resume(simulation *s, uint32_t rank)
{
    if ((walk(s, rank) || s->ranks[rank].blocked) && s->processors)
        cv_processor_release(s, rank);
}

/* A blocked rank has a processor for a moment; one that is no longer blocked has it for good. */
static void visit(simulation *s, uint32_t rank)
{
    rank_state *k = &s->ranks[rank];
    if (!k->blocked || !k->has_processor)
        return;
    cv_see_pending(s, rank);
    cv_processor_release(s, rank);
}

static void drain(simulation *s)
{
    while (s->queue.count && !s->no_memory && !is_interrupted(s)) {
        event e = cv_queue_pop(&s->queue);
        assert(e.time >= s->now);
        s->now = e.time;
        switch (e.order & 7) {
        case EVENT_RANK: cv_rank_resume(s, e.id); break;
        case EVENT_END:
            cv_transfer_release(s, e.id);
            cv_message_arrival(s, e.id);
            break;
        case EVENT_RELEASE:
            cv_transfer_release(s, e.id);
            cv_message_free(s, e.id);
            break;
        case EVENT_ARRIVAL: cv_message_arrival(s, e.id); break;
        case EVENT_COPIED: cv_send_copied(s, e.id); break;
        case EVENT_VISIT: visit(s, e.id); break;
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
    if (s->ranks == NULL || s->channels == NULL || s->collectives == NULL || !cv_links_build(s) || !cv_layouts_build(s) ||
        !cv_fabric_build(s) || !cv_processors_build(s))
        return false;
    for (uint32_t c = 0; c < t->channel_count; c++)
        s->channels[c] = (channel){.arrived = {NONE, NONE, 0}, .blocked = {NONE, NONE, 0}, .pairs = NONE, .last_pair = NONE};
    for (uint32_t i = 0; i < t->instance_count; i++)
        s->collectives[i].waiters = s->collectives[i].last = s->collectives[i].next = NONE;
    for (uint32_t r = 0; r < t->trace.ranks; r++) {
        s->ranks[r].next = t->trace.first[r];
        s->ranks[r].end = t->trace.first[r + 1];
        s->ranks[r].pending = s->ranks[r].last_pending = NONE;
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
        result->ranks[r] = (cv_replay_rank){k->finished ? k->finish : s->now,
                                            k->compute,
                                            k->transfer,
                                            k->wait,
                                            k->messages_sent,
                                            k->bytes_sent,
                                            k->messages_received,
                                            k->bytes_received,
                                            -1,
                                            -1,
                                            0};
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
    cv_fabric_clear(s);
    free(s->processors);
    free(s->messages);
    free(s->pairs);
    free(s->recorder.intervals);
    free(s->recorder.messages);
}

static bool acceptable(const cv_replay *replay, const cv_replay_network *net)
{
    if (net->nodes == 0 || net->buses < 0 || !(net->bytes_per_second >= 0) || !(net->wire_latency >= 0) || !(net->gap >= 0) ||
        !(net->cost_post >= 0) || !(net->handover >= 0) || !cv_fabric_possible(net))
        return false;
    for (uint32_t n = 0; n < net->nodes; n++)
        if (!(net->latency_inter[n] >= 0) || !(net->latency_intra[n] >= 0) || !(net->bytes_per_second_intra[n] >= 0) ||
            (net->cpus && net->cpus[n] < 1) || net->buses_intra[n] < 0 || net->in_intra[n] < 0 || net->out_intra[n] < 0 ||
            net->in_inter[n] < 0 || net->out_inter[n] < 0)
            return false;
    for (uint32_t p = 0; p < net->cost_points; p++)
        if (!(net->cost_send[p] >= 0) || !(net->cost_transfer[p] >= 0) || !(net->cost_receive[p] >= 0) ||
            !(p == 0 ? net->cost_bytes[0] == 0 : net->cost_bytes[p] > net->cost_bytes[p - 1]))
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
        if (!s.no_memory && (s.interrupted || collect(&s, result)))
            status = s.interrupted ? CV_ERROR_INTERRUPTED : CV_OK;
    }
    clear(&s);
    if (status)
        cv_replay_result_free(result);
    return status;
}

void cv_replay_result_free(cv_replay_result *result)
{
    free(result->ranks);
    free(result->intervals);
    free(result->messages);
    *result = (cv_replay_result){0};
}
