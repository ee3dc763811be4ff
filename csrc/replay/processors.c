/* Processors of a node that has more tasks than processors. A task needs one for whatever it does, bursts and messages alike, and keeps
 * it until it waits for another task; then it goes to the end of the queue. Handing a processor over takes a while: the task
 * that waits there has to see that it has nothing to do. */
#include "internal.h"

bool cv_processors_build(simulation *s)
{
    const cv_replay_network *net = s->net;
    if (net->cpus == NULL)
        return true;
    s->processors = calloc(net->nodes, sizeof *s->processors);
    if (s->processors == NULL)
        return false;
    for (uint32_t n = 0; n < net->nodes; n++)
        s->processors[n] = (processors){.free = net->cpus[n], .first = NONE, .last = NONE};
    for (uint32_t r = 0; r < s->trace->trace.ranks; r++)
        s->processors[node_of(s, r)].tasks++;
    for (uint32_t n = 0; n < net->nodes; n++)
        s->processors[n].handover = s->processors[n].tasks > (uint32_t)net->cpus[n] ? net->handover : 0;
    return true;
}

/* The time since `began` was spent without a processor. */
static double taken(simulation *s, uint32_t rank, double began, double handover, uint32_t cause)
{
    rank_state *k = &s->ranks[rank];
    double time = s->now + handover;
    k->has_processor = true;
    k->wait += time - began;
    cv_record_interval(s, rank, began, time, CV_REPLAY_STATE_WAIT_PROCESSOR, -1, cause);
    return time;
}

bool cv_processor_take(simulation *s, uint32_t rank)
{
    rank_state *k = &s->ranks[rank];
    processors *p = &s->processors[node_of(s, rank)];
    if (k->has_processor)
        return true;
    if (p->free > 0) {
        p->free--;
        return cv_goes_on_at(s, rank, taken(s, rank, s->now, s->now > 0 ? p->handover : 0, NONE));
    }
    k->lacks_since = s->now;
    k->next_blocked = NONE;
    if (p->first == NONE)
        p->first = rank;
    else
        s->ranks[p->last].next_blocked = rank;
    p->last = rank;
    return false;
}

void cv_processor_release(simulation *s, uint32_t rank)
{
    processors *p = &s->processors[node_of(s, rank)];
    uint32_t next = p->first;
    if (!s->ranks[rank].has_processor)
        return;
    s->ranks[rank].has_processor = false;
    if (next == NONE) {
        p->free++;
        return;
    }
    p->first = s->ranks[next].next_blocked;
    schedule(s, taken(s, next, s->ranks[next].lacks_since, p->handover, rank), EVENT_RANK, next);
}
