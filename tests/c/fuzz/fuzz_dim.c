/* Records of a .dim file, and the replay of what they say on a small network. Input: rendezvous rule (1 byte), text. */
#include "cv_replay.h"
#include "target.h"

#include <string.h>

enum { RANKS = 3, ROOM = 512 };

static void replay(cv_dim_columns *c, int64_t rendezvous)
{
    int64_t first[RANKS + 1] = {0}, members_first[] = {0, RANKS, RANKS + 1};
    int32_t members[] = {0, 1, 2, 1}, nodes[] = {0, 1, 1}, links[] = {1, 1, 1}, none[RANKS] = {0};
    double latency[] = {1e-6, 1e-6, 0}, rate[] = {1e9, 1e9, 0};
    uint8_t rules[4 * CV_OPS];
    size_t count = 0;
    for (; count < c->count && (!count || c->task[count] >= c->task[count - 1]); count++)
        first[c->task[count] + 1] = (int64_t)count + 1;
    for (int i = 1; i <= RANKS; i++)
        first[i] = first[i] > first[i - 1] ? first[i] : first[i - 1];
    memset(rules, 2, sizeof rules);
    cv_replay_trace trace = {RANKS,  2,       first,    c->kind,  c->flags,   c->op,         c->partner,
                             c->tag, c->comm, c->bytes, c->extra, c->seconds, members_first, members};
    cv_replay_network net = {.nodes = RANKS,
                             .buses = 1,
                             .bytes_per_second = 1e8,
                             .latency_inter = latency,
                             .latency_intra = latency,
                             .bytes_per_second_intra = rate,
                             .buses_intra = none,
                             .in_intra = links,
                             .out_intra = links,
                             .in_inter = links,
                             .out_inter = links,
                             .node_of_rank = nodes,
                             .collectives = rules,
                             .rendezvous_bytes = rendezvous};
    cv_replay *handle = NULL;
    cv_replay_fault fault;
    cv_replay_result result = {0};
    if (cv_replay_new(&trace, &handle, &fault) == CV_OK && cv_replay_run(handle, &net, 1, &result) == CV_OK)
        cv_replay_result_free(&result);
    cv_replay_free(handle);
}

static void take(const uint8_t *data, size_t size)
{
    int32_t ids[] = {1, 9}, task[ROOM], partner[ROOM], tag[ROOM], comm[ROOM];
    uint8_t kind[ROOM], flags[ROOM], op[ROOM];
    int64_t bytes[ROOM], extra[ROOM];
    double seconds[ROOM];
    size_t consumed, lines;
    if (!size)
        return;
    cv_dim_columns c = {ROOM, 0, task, kind, flags, op, partner, tag, comm, bytes, extra, seconds, RANKS, 2, ids};
    cv_dim_parse((const char *)data + 1, size - 1, &c, &consumed, &lines);
    replay(&c, data[0] < 128 ? data[0] - 2 : 1000);
}
