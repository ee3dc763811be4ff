/* Duration of a collective: fan-in and fan-out between nodes, plus the greatest of the same within a node (Dimemas' collective
 * model; docs/theory/replay.md has the formulae). */
#include <math.h>

#include "internal.h"

static unsigned log2_ceiling(uint64_t n)
{
    unsigned steps = 0;
    while (UINT64_C(1) << steps < n)
        steps++;
    return steps;
}

/* Rounds of a logarithmic fan of n participants when only `buses` of a step's messages travel at once (0: all). */
static double contended_steps(uint64_t n, int32_t buses)
{
    unsigned steps = log2_ceiling(n);
    if (buses == 0)
        return steps;
    uint64_t total = 0;
    for (unsigned i = 0; i < steps; i++) {
        uint64_t first = (UINT64_C(1) << i) - 1, stride = UINT64_C(2) << i;
        uint64_t messages = n - 1 > first ? (n - 1 - first + stride - 1) / stride : 0;
        total += (messages + (uint64_t)buses - 1) / (uint64_t)buses;
    }
    return (double)total;
}

static double factor(uint8_t model, uint64_t participants, int32_t buses)
{
    switch (model) {
    case CV_REPLAY_FAN_CONSTANT: return 1;
    case CV_REPLAY_FAN_LINEAR: return (double)participants - 1;
    case CV_REPLAY_FAN_LOGARITHMIC: return contended_steps(participants, buses);
    default: return 0;
    }
}

static double message_bytes(uint8_t rule, double own, double sent, double received)
{
    switch (rule) {
    case CV_REPLAY_SIZE_MIN: return fmin(sent, received);
    case CV_REPLAY_SIZE_MAX: return fmax(sent, received);
    case CV_REPLAY_SIZE_MEAN: return floor((sent + received) / 2);
    case CV_REPLAY_SIZE_2MAX: return 2 * fmax(sent, received);
    case CV_REPLAY_SIZE_SUM: return sent + received;
    default: return own;
    }
}

static double both_fans(const uint8_t rule[4], double sent, double received, double latency, double rate, uint64_t n, int32_t buses)
{
    double in = message_bytes(rule[1], sent, sent, received), out = message_bytes(rule[3], received, sent, received);
    double per_byte = rate == 0 ? 0 : 1 / rate;
    return (latency + in * per_byte) * factor(rule[0], n, buses) + (latency + out * per_byte) * factor(rule[2], n, buses);
}

double cv_collective_seconds(const simulation *s, uint32_t id)
{
    const collective *c = &s->collectives[id];
    const instance *what = &s->trace->instances[id];
    const comm_layout *layout = &s->layouts[what->comm];
    const cv_replay_network *net = s->net;
    const uint8_t *rule = net->collectives + 4 * what->op;
    double sent = (double)c->sent, received = (double)c->received, between = 0, within = 0;
    if (net->nodes > 1)
        between =
            both_fans(rule, sent, received, net->latency_inter[node_of(s, c->root)], net->bytes_per_second, layout->nodes, net->buses);
    if (s->uniform_nodes)
        return between +
               both_fans(rule, sent, received, net->latency_intra[0], net->bytes_per_second_intra[0], layout->tasks_of_fullest, 0);
    for (uint32_t i = 0; i < layout->share_count; i++) {
        const share *part = &s->shares[layout->first_share + i];
        within = fmax(within, both_fans(rule, sent, received, net->latency_intra[part->node], net->bytes_per_second_intra[part->node],
                                        part->tasks, 0));
    }
    return between + within;
}

/* Startup of a non-blocking collective or a Reduce: the greatest latency that the communicator's spread over nodes makes relevant. */
double cv_collective_latency(const simulation *s, uint32_t comm, uint32_t rank)
{
    const comm_layout *layout = &s->layouts[comm];
    uint32_t node = node_of(s, rank);
    double latency = layout->spans ? s->net->latency_inter[node] : 0;
    return layout->shares ? fmax(latency, s->net->latency_intra[node]) : latency;
}

bool cv_layouts_build(simulation *s)
{
    const cv_replay_trace *t = &s->trace->trace;
    uint32_t *tasks = calloc(s->net->nodes, sizeof *tasks);
    size_t total = (size_t)t->member_first[t->communicators];
    s->layouts = calloc(t->communicators + (size_t)1, sizeof *s->layouts);
    s->shares = calloc(total + 1, sizeof *s->shares);
    if (tasks == NULL || s->layouts == NULL || s->shares == NULL) {
        free(tasks);
        return false;
    }
    uint32_t used = 0;
    for (uint32_t comm = 0; comm < t->communicators; comm++) {
        comm_layout *layout = &s->layouts[comm];
        layout->first_share = used;
        for (int64_t m = t->member_first[comm]; m < t->member_first[comm + 1]; m++) {
            uint32_t node = node_of(s, (uint32_t)t->members[m]);
            if (tasks[node]++ == 0)
                s->shares[used++].node = node;
        }
        layout->share_count = layout->nodes = used - layout->first_share;
        for (uint32_t i = layout->first_share; i < used; i++) {
            uint32_t *count = &tasks[s->shares[i].node];
            s->shares[i].tasks = *count;
            if (*count > layout->tasks_of_fullest)
                layout->tasks_of_fullest = *count;
            *count = 0;
        }
        layout->spans = layout->nodes > 1;
        layout->shares = layout->tasks_of_fullest > 1;
    }
    free(tasks);
    s->uniform_nodes = true;
    for (uint32_t n = 1; n < s->net->nodes; n++)
        if (s->net->latency_intra[n] != s->net->latency_intra[0] || s->net->bytes_per_second_intra[n] != s->net->bytes_per_second_intra[0])
            s->uniform_nodes = false;
    return true;
}
