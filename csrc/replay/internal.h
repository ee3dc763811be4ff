/* What the files of the replay core share. Sources in reading order: prepare, queue, lists, cost, message_cost, links, fabric,
 * record, collective, messages, processors, engine, deadlock. All times are seconds in double; equal times are served in the order in which
 * they were scheduled, so a run is deterministic. */
#ifndef CV_REPLAY_INTERNAL_H
#define CV_REPLAY_INTERNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../common/interrupt.h"
#include "../trace/grow.h"
#include "cv_replay.h"

#define NONE UINT32_MAX

/* --- prepared trace ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    union {
        double seconds; /* burst: effective duration */
        int64_t bytes;  /* message; collective: sent */
    };
    int64_t extra;  /* collective: received bytes */
    uint32_t where; /* channel of a message, instance of a collective */
    int32_t peer;   /* partner; collective: 1 where this task is the root */
    uint8_t kind, flags, op;
} record;

typedef struct {
    int32_t source, destination, tag, comm;
} channel_key;

typedef struct {
    uint32_t comm;
    uint8_t op, sync;
    int32_t root; /* of a root-synchronous Reduce, else -1 */
} instance;

struct cv_replay {
    cv_replay_trace trace;
    record *records;
    channel_key *channels;
    instance *instances;
    uint32_t channel_count, instance_count;
    bool may_meet; /* some send carries the rendezvous bit */
};

/* --- event queue ------------------------------------------------------------------------------------------------------------- */

enum event_kind { EVENT_RANK, EVENT_ARRIVAL, EVENT_RELEASE, EVENT_END, EVENT_COLLECTIVE_END, EVENT_COPIED, EVENT_VISIT };

typedef struct {
    double time;
    uint64_t order; /* serial number << 3 | event kind */
    uint32_t id;
} event;

typedef struct {
    event *heap;
    size_t count, capacity;
    uint64_t serial, processed;
} queue;

bool cv_queue_push(queue *q, double time, enum event_kind kind, uint32_t id);
event cv_queue_pop(queue *q);

/* --- state of a run ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t head, tail, count; /* through message.next; machine bus: COLLECTIVE_BIT | instance too */
} fifo;

#define COLLECTIVE_BIT UINT32_C(0x80000000)

typedef struct {
    int32_t free, capacity; /* of one direction; half duplex: of both together */
    int32_t free_in;
    bool infinite, half;
    fifo want_out, want_in;
    uint32_t holders, last_holder; /* messages that hold an out-link, oldest first, through message.older/newer */
} port;

typedef struct {
    int32_t capacity, used;
    fifo want;
} bus;

typedef struct {
    bool busy;
    uint32_t tasks;
    uint32_t first, last; /* ranks that wait, through rank.next_in_line */
    double handover;      /* seconds until the next task runs; 0 with one task */
} processor;

typedef struct {
    int64_t bytes;
    int64_t record; /* of the sender; -1: a contribution to a Reduce */
    double logical_send, request, physical_send;
    uint32_t source, destination;
    uint32_t channel; /* or instance of a Reduce */
    uint32_t next, older, newer;
    bool has_out, has_in, waits_in, on_bus, inside; /* inside: one node */
    bool reduce, sender_blocked, by_receiver, sender_waits;
    bool has_route; /* through the fabric */
    bool reports;   /* a wait for the send ends with the receiver's copy */
    uint8_t uses;   /* arrival not consumed, resources not released */
    double arrival; /* physical receive */
} message;

typedef struct {
    uint32_t next;
    uint8_t flag;
} pairing;

typedef struct {
    fifo arrived, blocked;
    uint32_t pairs, last_pair; /* unmatched sends or unmatched receives, never both */
    bool pairs_are_sends;
    bool waiting; /* the destination is blocked in a receive or wait on this channel */
    bool source_waits;
    uint32_t copied, awaited; /* of its immediate rendezvous sends */
} channel;

typedef struct {
    double start, duration;
    uint32_t arrived, last, root;
    uint32_t waiters; /* ranks that are blocked in it, through rank.next_blocked, oldest first */
    uint32_t last_waiter;
    uint32_t next; /* in the machine bus's queue */
    int32_t buses;
    int64_t sent, received; /* of the root, or of the last to arrive */
    bool rooted, done, root_waits;
} collective;

enum in_line { ABSENT, TO_LOOK, TO_RUN }; /* for a processor: to look at messages while blocked, or to go on */

typedef struct {
    int64_t next, end;  /* records, global index */
    double began;       /* of the current blocking or startup */
    double lacks_since; /* without a processor */
    uint32_t taken;     /* stage 3: the message */
    uint32_t pending;   /* rendezvous messages that it has not seen yet, oldest first, through message.newer */
    uint32_t last_pending;
    uint32_t processor, next_in_line;
    double compute, transfer, wait, finish;
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
    uint32_t next_blocked;
    uint32_t unclaimed; /* quirk: finished non-blocking collectives without a wait */
    uint8_t stage;      /* of the current record; 1: the startup is paid, 2: so is what follows the arrival, 3: that is due */
    bool blocked, finished, waits_any, has_processor;
    uint8_t in_line; /* enum in_line */
} rank_state;

typedef struct {
    uint32_t nodes, tasks_of_fullest;
    bool shares, spans;
    uint32_t first_share, share_count; /* per node (node, tasks), where nodes differ */
} comm_layout;

typedef struct {
    uint32_t node, tasks;
} share;

typedef struct {
    cv_replay_interval *intervals;
    cv_replay_message *messages;
    size_t interval_count, interval_capacity, message_count, message_capacity;
    bool on;
} recorder;

typedef struct fabric fabric;

typedef struct {
    const cv_replay *trace;
    const cv_replay_network *net;
    double now;
    queue queue;
    rank_state *ranks;
    channel *channels;
    collective *collectives;
    comm_layout *layouts;
    share *shares;
    port *node_ports, *task_ports;
    bus machine_bus, *node_buses;
    fabric *fabric;        /* NULL: no links but those of the nodes */
    processor *processors; /* NULL: each task has its own */
    message *messages;
    uint32_t message_count, message_free;
    size_t message_capacity;
    pairing *pairs;
    uint32_t pair_count, pair_free;
    size_t pair_capacity;
    bool pairing_on, uniform_nodes, no_memory, interrupted;
    uint32_t steps; /* for cv_interrupt_look */
    recorder recorder;
} simulation;

static inline uint32_t node_of(const simulation *s, uint32_t rank) { return (uint32_t)s->net->node_of_rank[rank]; }

static inline uint32_t *next_of(simulation *s, uint32_t reference)
{
    return reference & COLLECTIVE_BIT ? &s->collectives[reference & ~COLLECTIVE_BIT].next : &s->messages[reference].next;
}

static inline void schedule(simulation *s, double time, enum event_kind kind, uint32_t id)
{
    if (!cv_queue_push(&s->queue, time, kind, id))
        s->no_memory = true;
}

/* The rank waits from now on. */
static inline bool block(simulation *s, uint32_t rank)
{
    s->ranks[rank].began = s->now;
    return s->ranks[rank].blocked = true;
}

/* What it waited for has come: it goes on after the record. */
static inline void unblock(simulation *s, uint32_t rank, double time)
{
    s->ranks[rank].blocked = false;
    s->ranks[rank].stage = 0;
    s->ranks[rank].next++;
    schedule(s, time, EVENT_RANK, rank);
}

static inline bool is_interrupted(simulation *s)
{
    s->interrupted = s->interrupted || cv_interrupt_look(&s->steps);
    return s->interrupted;
}

void cv_fifo_append(simulation *s, fifo *list, uint32_t reference);
void cv_fifo_prepend(simulation *s, fifo *list, uint32_t reference);
uint32_t cv_fifo_take(simulation *s, fifo *list);
void cv_fifo_remove(simulation *s, fifo *list, uint32_t reference);
/* A message of the rank's record, which counts as sent; NONE: no memory. */
uint32_t cv_message_new(simulation *s, uint32_t rank, uint32_t destination, const record *r);
void cv_message_free(simulation *s, uint32_t id);

/* cost.c: duration of one collective */
bool cv_layouts_build(simulation *s);
double cv_collective_seconds(const simulation *s, uint32_t instance_id);
double cv_collective_latency(const simulation *s, uint32_t comm, uint32_t rank);

/* message_cost.c: measured costs of a message */
double cv_message_cost(const simulation *s, const double *curve, int64_t bytes);

/* links.c: transfers */
bool cv_links_build(simulation *s);
void cv_transfer_request(simulation *s, uint32_t id);
void cv_transfer_start(simulation *s, uint32_t id);
void cv_transfer_release(simulation *s, uint32_t id);
void cv_bus_for_collective(simulation *s, uint32_t instance_id);
void cv_bus_after_collective(simulation *s);

/* fabric.c: links between the nodes; take and release only where s->fabric is not NULL */
bool cv_fabric_possible(const cv_replay_network *net);
bool cv_fabric_build(simulation *s);
void cv_fabric_clear(simulation *s);
/* Returns false when the message has to wait; cv_transfer_start is called for it then. */
bool cv_fabric_take(simulation *s, uint32_t id);
void cv_fabric_release(simulation *s, const message *done);

/* collective.c */
enum outcome { GOES_ON, BLOCKED, NOT_YET };
enum outcome cv_collective_reach(simulation *s, uint32_t rank, const record *r);
void cv_collective_begin(simulation *s, uint32_t instance_id);
void cv_collective_end(simulation *s, uint32_t instance_id);
void cv_reduce_arrival(simulation *s, uint32_t id);

/* processors.c: the tasks of a node take turns, first come first served; take and release only where s->processors is not NULL */
bool cv_processors_build(simulation *s);
/* Returns false when the rank does not run yet; it is resumed once it has a processor. */
bool cv_processor_take(simulation *s, uint32_t rank);
void cv_processor_release(simulation *s, uint32_t rank);
/* A blocked rank has messages to look at: it is called back (EVENT_VISIT) once it has a processor. */
void cv_processor_visit(simulation *s, uint32_t rank);

/* messages.c */
bool cv_message_step(simulation *s, uint32_t rank, const record *r);
void cv_receive_post(simulation *s, const record *r);
void cv_message_arrival(simulation *s, uint32_t id);
bool cv_send_wait(simulation *s, uint32_t rank, const record *r);
void cv_send_copied(simulation *s, uint32_t channel_id);
/* A rank inside a call copies what came while it computed. */
void cv_see_pending(simulation *s, uint32_t rank);

/* engine.c */
void cv_rank_resume(simulation *s, uint32_t rank);
/* Returns true when the rank can go on at `time` right away, false when it was put into the queue. */
bool cv_goes_on_at(simulation *s, uint32_t rank, double time);
/* Pays what the current record takes until `stage`; returns as cv_goes_on_at. */
bool cv_startup(simulation *s, uint32_t rank, uint8_t stage, double seconds);

/* record.c */
void cv_record_interval(simulation *s, uint32_t rank, double begin, double end, enum cv_replay_state state, int64_t row, uint32_t cause);
int64_t cv_record_message(simulation *s, const message *m, double logical_receive);

/* deadlock.c */
void cv_deadlock_explain(simulation *s, cv_replay_rank *ranks);

#endif
