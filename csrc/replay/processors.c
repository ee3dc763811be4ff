/* Processors of a node that has more tasks than processors: a burst takes one and keeps it to its end, first come first served.
 * Waiting for messages takes none (libraries yield), nor does what a message costs its processor. */
#include "internal.h"

bool cv_processors_build(simulation *s)
{
    if (s->net->cpus == NULL)
        return true;
    s->processors = malloc(s->net->nodes * sizeof *s->processors);
    if (s->processors == NULL)
        return false;
    for (uint32_t n = 0; n < s->net->nodes; n++)
        s->processors[n] = (processors){s->net->cpus[n], NONE, NONE};
    return true;
}

bool cv_processor_take(simulation *s, uint32_t rank)
{
    rank_state *k = &s->ranks[rank];
    processors *p = s->processors ? &s->processors[node_of(s, rank)] : NULL;
    if (p == NULL || k->stage == 3)
        return true;
    if (p->free > 0) {
        p->free--;
        return true;
    }
    k->began = s->now;
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
    processors *p = s->processors ? &s->processors[node_of(s, rank)] : NULL;
    if (p == NULL)
        return;
    uint32_t next = p->first;
    if (next == NONE) {
        p->free++;
        return;
    }
    rank_state *k = &s->ranks[next];
    p->first = k->next_blocked;
    k->wait += s->now - k->began;
    cv_record_interval(s, next, k->began, s->now, CV_REPLAY_STATE_WAIT_PROCESSOR, -1, rank);
    k->stage = 3;
    schedule(s, s->now, EVENT_RANK, next);
}
