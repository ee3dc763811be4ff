/* Processors of nodes that have more tasks than processors. The i-th task of a node has its processor i mod n, as launchers bind tasks
 * and kernels keep them. A task needs it for whatever it does, bursts and messages alike, and keeps it until it waits for another task;
 * then it goes to the end of the line. Handing a processor over takes a while: the task that waits there has to see that it has
 * nothing to do. */
#include "internal.h"

static processor *processor_of(const simulation *s, uint32_t rank) { return &s->processors[s->ranks[rank].processor]; }

bool cv_processors_build(simulation *s)
{
    const cv_replay_network *net = s->net;
    uint32_t ranks = s->trace->trace.ranks;
    if (net->cpus == NULL)
        return true;
    uint64_t total = 0;
    uint32_t *tasks = calloc(net->nodes, sizeof *tasks), *first = calloc(net->nodes, sizeof *first);
    for (uint32_t r = 0; tasks && r < ranks; r++)
        tasks[node_of(s, r)]++;
    for (uint32_t n = 0; tasks && first && n < net->nodes; n++) {
        first[n] = (uint32_t)total;
        total += tasks[n] < (uint32_t)net->cpus[n] ? tasks[n] : (uint32_t)net->cpus[n];
    }
    s->processors = calloc(total + 1, sizeof *s->processors);
    bool built = tasks && first && s->processors;
    for (uint64_t p = 0; built && p < total; p++)
        s->processors[p] = (processor){.first = NONE, .last = NONE};
    for (uint32_t r = ranks; built && r-- > 0;) {
        uint32_t n = node_of(s, r), cpus = (uint32_t)net->cpus[n];
        s->ranks[r].processor = first[n] + --tasks[n] % cpus;
        processor_of(s, r)->handover = processor_of(s, r)->tasks++ ? net->handover : 0;
    }
    free(tasks);
    free(first);
    return built;
}

static void stand_in_line(simulation *s, processor *p, uint32_t rank)
{
    s->ranks[rank].next_in_line = NONE;
    if (p->first == NONE)
        p->first = rank;
    else
        s->ranks[p->last].next_in_line = rank;
    p->last = rank;
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
    processor *p = processor_of(s, rank);
    if (k->has_processor)
        return true;
    if (!p->busy) {
        p->busy = true;
        return cv_goes_on_at(s, rank, taken(s, rank, s->now, s->now > 0 ? p->handover : 0, NONE));
    }
    k->lacks_since = s->now;
    if (k->in_line == ABSENT)
        stand_in_line(s, p, rank);
    k->in_line = TO_RUN;
    return false;
}

void cv_processor_visit(simulation *s, uint32_t rank)
{
    rank_state *k = &s->ranks[rank];
    processor *p = processor_of(s, rank);
    if (k->has_processor || k->in_line != ABSENT)
        return;
    if (p->busy) {
        stand_in_line(s, p, rank);
        k->in_line = TO_LOOK;
        return;
    }
    p->busy = true;
    k->has_processor = true;
    schedule(s, s->now + p->handover, EVENT_VISIT, rank);
}

void cv_processor_release(simulation *s, uint32_t rank)
{
    processor *p = processor_of(s, rank);
    uint32_t next = p->first;
    if (!s->ranks[rank].has_processor)
        return;
    s->ranks[rank].has_processor = false;
    if (next == NONE) {
        p->busy = false;
        return;
    }
    rank_state *k = &s->ranks[next];
    p->first = k->next_in_line;
    if (k->in_line == TO_RUN) {
        schedule(s, taken(s, next, k->lacks_since, p->handover, rank), EVENT_RANK, next);
    } else {
        k->has_processor = true;
        schedule(s, s->now + p->handover, EVENT_VISIT, next);
    }
    k->in_line = ABSENT;
}
