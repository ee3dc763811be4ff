/* Drives the replay core and the .dim parser for the sanitizers: rings with rendezvous, contention, collectives, a Reduce, a
 * deadlock, contradictory and malformed input. Prints one line a case: name, seconds, deadlock. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cv_replay.h"

enum { RANKS = 6, ROOM = 4096 };

static struct {
    int64_t first[RANKS + 1], bytes[ROOM], extra[ROOM], member_first[2];
    uint8_t kind[ROOM], flags[ROOM], op[ROOM];
    int32_t partner[ROOM], tag[ROOM], comm[ROOM], members[RANKS];
    double seconds[ROOM];
} t;
static int64_t used;

static void add(uint8_t kind, int32_t partner, int64_t bytes, uint8_t flags, uint8_t op, double seconds)
{
    t.kind[used] = kind;
    t.partner[used] = partner;
    t.bytes[used] = bytes;
    t.extra[used] = bytes;
    t.flags[used] = flags;
    t.op[used] = op;
    t.tag[used] = t.comm[used] = 0;
    t.seconds[used++] = seconds;
}

static uint32_t measured;  /* 1: with costs of messages as measured */
static int32_t processors; /* of a node, which its two tasks share; 0: each has its own */

static void replay_case(const char *name, int32_t links, int32_t buses, int64_t rendezvous)
{
    cv_replay_trace trace = {RANKS, 1,      t.first, t.kind,  t.flags,   t.op,           t.partner,
                             t.tag, t.comm, t.bytes, t.extra, t.seconds, t.member_first, t.members};
    double latency[RANKS], rate[RANKS], half[ROOM];
    int32_t link[RANKS], none[RANKS], node[RANKS], cpus[RANKS];
    uint8_t rules[4 * CV_OPS];
    for (int i = 0; i < RANKS; i++) {
        latency[i] = 1e-5 * (1 + i % 2);
        rate[i] = 1e9;
        link[i] = links;
        none[i] = 0;
        node[i] = i / 2;
        cpus[i] = processors;
        t.members[i] = i;
    }
    memset(rules, 3, sizeof rules);
    t.member_first[1] = RANKS;
    cv_replay *handle = NULL;
    cv_replay_fault fault;
    cv_replay_result result = {0};
    for (int64_t i = 0; i < used; i++)
        half[i] = t.seconds[i] / 2;
    cv_status status = cv_replay_new(&trace, &handle, &fault);
    if (status == CV_OK) {
        static const double sizes[] = {0, 1000, 65536}, send[] = {1e-7, 2e-7, 2e-6}, travel[] = {1e-7, 1e-7, 3e-6},
                            receive[] = {2e-7, 9e-7, 1e-5};
        cv_replay_network net = {.nodes = RANKS,
                                 .buses = buses,
                                 .bytes_per_second = 1e8,
                                 .latency_inter = latency,
                                 .latency_intra = latency,
                                 .bytes_per_second_intra = rate,
                                 .buses_intra = none,
                                 .in_intra = link,
                                 .out_intra = none,
                                 .in_inter = link,
                                 .out_inter = link,
                                 .node_of_rank = node,
                                 .collectives = rules,
                                 .rendezvous_bytes = rendezvous,
                                 .wire_latency = 1e-6,
                                 .gap = 2e-6,
                                 .quirks = 1,
                                 .cost_points = measured ? 3 : 0,
                                 .cost_bytes = sizes,
                                 .cost_send = send,
                                 .cost_transfer = travel,
                                 .cost_receive = receive,
                                 .cost_post = 5e-8,
                                 .sends_wait = measured,
                                 .cpus = processors ? cpus : NULL,
                                 .handover = 1e-6};
        cv_replay_durations(handle, half);
        status = cv_replay_run(handle, &net, 1, &result);
    }
    double end = 0;
    for (int i = 0; result.ranks && i < RANKS; i++)
        end = result.ranks[i].seconds > end ? result.ranks[i].seconds : end;
    printf("%s %d %d %.9f %u %zu\n", name, status, fault.kind, end, result.deadlock, result.message_count);
    cv_replay_result_free(&result);
    cv_replay_free(handle);
}

static void ring(int laps, uint8_t flags, bool post_first)
{
    used = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        t.first[rank] = used;
        for (int lap = 0; lap < laps; lap++) {
            int32_t right = (rank + 1) % RANKS, left = (rank + RANKS - 1) % RANKS;
            add(CV_REPLAY_EVENT, 0, 7, 0, 0, 0);
            t.extra[used - 1] = lap % 3;
            add(CV_REPLAY_BURST, 0, 0, 0, 0, 1e-3 * (rank + 1));
            if (post_first)
                add(CV_REPLAY_IRECV, left, 100000, 0, 0, 0);
            add(CV_REPLAY_SEND, right, 100000, flags, 0, 0);
            add(post_first ? CV_REPLAY_WAIT : CV_REPLAY_RECV, left, 100000, 0, 0, 0);
            if (flags & CV_REPLAY_IMMEDIATE)
                add(CV_REPLAY_SEND_WAIT, right, 100000, flags, 0, 0);
            add(CV_REPLAY_COLLECTIVE, 1, 4096, CV_REPLAY_BLOCKING, 11, 0);
            add(CV_REPLAY_COLLECTIVE, 3, 4096, CV_REPLAY_ROOT_SYNC, CV_OP_REDUCE, 0);
            add(CV_REPLAY_COLLECTIVE, 0, 4096, CV_REPLAY_NONBLOCKING, 1, 0);
            add(CV_REPLAY_COLLECTIVE, 0, 4096, CV_REPLAY_WAIT_NONBLOCKING, 1, 0);
        }
        t.first[rank + 1] = used;
    }
}

static void parse_case(const char *text)
{
    size_t length = strlen(text), consumed, lines;
    char *copy = malloc(length); /* exactly as long as the text: a read after it is caught */
    int32_t ids[] = {1, 9};
    cv_dim_columns c = {.capacity = ROOM,
                        .tasks = RANKS,
                        .communicators = 2,
                        .comm_ids = ids,
                        .task = t.partner,
                        .kind = t.kind,
                        .flags = t.flags,
                        .op = t.op,
                        .partner = t.partner,
                        .tag = t.tag,
                        .comm = t.comm,
                        .bytes = t.bytes,
                        .extra = t.extra,
                        .seconds = t.seconds};
    memcpy(copy, text, length);
    enum cv_dim_error error = cv_dim_parse(copy, length, &c, &consumed, &lines);
    printf("parse %d %zu %zu %zu\n", error, c.count, lines, consumed);
    free(copy);
}

int main(void)
{
    ring(20, 0, false);
    replay_case("eager", 1, 0, CV_REPLAY_NEVER);
    replay_case("half", 0, 1, CV_REPLAY_NEVER);
    ring(20, CV_REPLAY_RENDEZVOUS, true);
    replay_case("posted", 2, 2, CV_REPLAY_TRUST_TRACE);
    measured = 1;
    replay_case("costs-posted", 2, 2, CV_REPLAY_TRUST_TRACE);
    ring(20, 0, false);
    replay_case("costs-eager", 1, 0, CV_REPLAY_NEVER);
    processors = 1;
    replay_case("shared-eager", 1, 0, CV_REPLAY_NEVER);
    ring(20, CV_REPLAY_RENDEZVOUS | CV_REPLAY_IMMEDIATE, true);
    replay_case("shared-posted", 2, 2, CV_REPLAY_TRUST_TRACE);
    measured = processors = 0;
    ring(2, CV_REPLAY_RENDEZVOUS, false);
    replay_case("deadlock", 1, 1, CV_REPLAY_TRUST_TRACE);
    ring(20, CV_REPLAY_RENDEZVOUS | CV_REPLAY_IMMEDIATE, false);
    replay_case("immediate", 1, 3, 1000);
    t.partner[2] = 77;
    replay_case("partner", 1, 3, 1000);
    ring(2, 0, false);
    t.op[4] = 12;
    replay_case("mismatch", 1, 3, 1000);
    parse_case("1:0:0:0.125\n2:0:0:1:-1:10:3:9:1\n3:1:0:0:10:3:9:2\n10:5:0:11:1:0:0:8:8:1\n20:0:0:18446744073709551615:1\n0:0:0\n");
    parse_case("1:0:0:1e-3\r\n\n#x\n1:0:0:12345678901234567890.5\n1:0:0:.\n");
    parse_case("2:0:0:1:-1:10:3:9:1:::::::::::::::::::\n");
    parse_case("1:0:0:1\n1:0:0:2");
    parse_case("\n");
    parse_case(":");
    return 0;
}
