/* The replay of records on a small network. Input: rendezvous rule (1 byte), then records, rank after rank while their ranks rise. */
#include "cv_replay.h"
#include "target.h"

#include <string.h>

enum { RANKS = 3, ROOM = 512 };

typedef struct {
    int64_t bytes, extra;
    double seconds;
    int32_t partner, tag, comm;
    uint8_t rank, kind, flags, op;
} given;

static void take(const uint8_t *data, size_t size)
{
    int32_t partner[ROOM], tag[ROOM], comm[ROOM];
    uint8_t kind[ROOM], flags[ROOM], op[ROOM], rank = 0;
    int64_t bytes[ROOM], extra[ROOM], first[RANKS + 1] = {0}, members_first[] = {0, RANKS, RANKS + 1};
    double seconds[ROOM], latency[] = {1e-6, 1e-6, 0}, rate[] = {1e9, 1e9, 0};
    int32_t members[] = {0, 1, 2, 1}, nodes[] = {0, 1, 1}, links[] = {1, 1, 1}, none[RANKS] = {0};
    uint8_t rules[4 * CV_OPS];
    given one;
    for (size_t i = 0; i < ROOM && size >= 1 + (i + 1) * sizeof one; i++) {
        memcpy(&one, data + 1 + i * sizeof one, sizeof one);
        if (one.rank < rank || one.rank >= RANKS)
            break;
        rank = one.rank;
        bytes[i] = one.bytes, extra[i] = one.extra, seconds[i] = one.seconds;
        partner[i] = one.partner, tag[i] = one.tag, comm[i] = one.comm;
        kind[i] = one.kind, flags[i] = one.flags, op[i] = one.op;
        for (int r = rank + 1; r <= RANKS; r++)
            first[r] = (int64_t)i + 1;
    }
    memset(rules, 2, sizeof rules);
    cv_replay_trace trace = {RANKS, 2, first, kind, flags, op, partner, tag, comm, bytes, extra, seconds, members_first, members};
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
                             .rendezvous_bytes = size && data[0] < 128 ? data[0] - 2 : 1000};
    cv_replay *handle = NULL;
    cv_replay_fault fault;
    cv_replay_result result = {0};
    if (cv_replay_new(&trace, &handle, &fault) == CV_OK && cv_replay_run(handle, &net, 1, &result) == CV_OK)
        cv_replay_result_free(&result);
    cv_replay_free(handle);
}
