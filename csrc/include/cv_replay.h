/* Replay of MPI events on a parameterized network with the semantics of Dimemas (docs/theory/replay.md).
 *
 * cv_replay_new packs the events of all ranks once: messages are bound to channels and collectives to instances, so that a run does
 * no look-ups. A run changes nothing in the packed trace except the effective burst durations (cv_replay_durations), so one handle can
 * be replayed on many networks, one run at a time. */
#ifndef CV_REPLAY_H
#define CV_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "cv_mpi_events.h"
#include "cv_status.h"

/* Events of all ranks as columns, rank after rank. The arrays belong to the caller and must outlive the handle. */
typedef struct {
    uint32_t ranks;
    uint32_t communicators;
    const int64_t *first;   /* ranks + 1: record range of each rank */
    const uint8_t *kind;    /* enum cv_replay_kind */
    const uint8_t *flags;   /* send: flags; collective: enum cv_replay_sync */
    const uint8_t *op;      /* collective: enum cv_mpi_op */
    const int32_t *partner; /* destination or source task; collective: root flag (Reduce: root task) */
    const int32_t *tag;
    const int32_t *comm;         /* index of the communicator */
    const int64_t *bytes;        /* message bytes, sent bytes of a collective, event type */
    const int64_t *extra;        /* received bytes of a collective, event value */
    const double *seconds;       /* burst */
    const int64_t *member_first; /* communicators + 1 */
    const int32_t *members;      /* tasks of each communicator, rising */
} cv_replay_trace;

/* What is wrong with a trace: cv_replay_new sets it beside CV_ERROR_FORMAT. */
enum cv_replay_fault_kind {
    CV_REPLAY_FAULT_NONE = 0,
    CV_REPLAY_FAULT_PARTNER = 1,  /* no such task */
    CV_REPLAY_FAULT_MEMBER = 2,   /* the task is no member of the communicator */
    CV_REPLAY_FAULT_NO_POST = 3,  /* wait for a non-blocking collective that was not started */
    CV_REPLAY_FAULT_MISMATCH = 4, /* members call different operations */
    CV_REPLAY_FAULT_KIND = 5      /* unknown record kind, operation, communicator or negative quantity */
};

typedef struct {
    int32_t kind; /* enum cv_replay_fault_kind */
    uint32_t rank;
    int64_t record; /* index among the rank's records */
} cv_replay_fault;

typedef struct cv_replay cv_replay;

cv_status cv_replay_new(const cv_replay_trace *trace, cv_replay **replay, cv_replay_fault *fault);
void cv_replay_free(cv_replay *replay);

/* Sets the effective duration of every burst; seconds: one a record, of which those of bursts count. */
void cv_replay_durations(cv_replay *replay, const double *seconds);

enum cv_replay_fan { CV_REPLAY_FAN_NONE = 0, CV_REPLAY_FAN_CONSTANT = 1, CV_REPLAY_FAN_LINEAR = 2, CV_REPLAY_FAN_LOGARITHMIC = 3 };
enum cv_replay_size {
    CV_REPLAY_SIZE_OWN = 0, /* fan-in: sent bytes, fan-out: received bytes */
    CV_REPLAY_SIZE_MIN = 1,
    CV_REPLAY_SIZE_MAX = 2,
    CV_REPLAY_SIZE_MEAN = 3,
    CV_REPLAY_SIZE_2MAX = 4,
    CV_REPLAY_SIZE_SUM = 5
};

#define CV_REPLAY_TRUST_TRACE (-1)
#define CV_REPLAY_NEVER (-2)
#define CV_REPLAY_QUIRK_ANY_COLLECTIVE_WAIT 1 /* a wait is satisfied by any finished non-blocking collective of the task */

#define CV_REPLAY_TOPOLOGY_LEVELS 16
enum cv_replay_topology { CV_REPLAY_FLAT = 0, CV_REPLAY_TORUS = 1, CV_REPLAY_FAT_TREE = 2 };

/* The network; arrays are per node unless said otherwise. 0 links or buses: unlimited; bandwidth 0: instantaneous. */
typedef struct {
    uint32_t nodes;
    int32_t buses;
    double bytes_per_second;
    const double *latency_inter;
    const double *latency_intra;
    const double *bytes_per_second_intra;
    const int32_t *buses_intra;
    const int32_t *in_intra;
    const int32_t *out_intra;
    const int32_t *in_inter;
    const int32_t *out_inter;
    const int32_t *node_of_rank; /* one a rank */
    const uint8_t *collectives;  /* CV_OPS x (fan-in model, size rule, fan-out model, size rule) */
    int64_t rendezvous_bytes;    /* >= 0: messages of at least so many bytes; or CV_REPLAY_TRUST_TRACE, CV_REPLAY_NEVER */
    double wire_latency;         /* from the end of the transfer to the arrival; Dimemas: 0 */
    double gap;                  /* links and bus are held at least so long (LogGP's g); Dimemas: 0 */
    /* What messages of some sizes were measured to cost, linear in between; it replaces startup and transfer time of point-to-point
     * messages. cost_points 0: Dimemas' rule. */
    uint32_t cost_points;
    const double *cost_bytes;    /* rising, from 0 */
    const double *cost_send;     /* the sender is busy */
    const double *cost_transfer; /* from the send to the arrival */
    const double *cost_receive;  /* the receiver is busy once the message is there */
    double cost_post;            /* posting a receive */
    uint32_t sends_wait;         /* 1: a rendezvous send, or the wait for it, ends when its receiver has copied, inside a call of its own;
                                  * Dimemas: a blocking one when that may begin */
    uint32_t quirks;
    const int32_t *cpus; /* per node: its tasks take turns on so many processors, the i-th on i mod n; NULL: each task has its own */
    uint32_t topology;   /* enum cv_replay_topology: links between the nodes, in the order of their numbers */
    uint32_t topology_levels;
    const int32_t *topology_down; /* torus: nodes in each dimension; fat tree: children of a switch, from the lowest level */
    const int32_t *topology_up;   /* fat tree: parents of a node or switch, from the nodes on */
    double handover;              /* with cpus: seconds until a processor that one task leaves runs the next */
} cv_replay_network;

enum cv_replay_state {
    CV_REPLAY_STATE_COMPUTE = 1,
    CV_REPLAY_STATE_STARTUP = 2,
    CV_REPLAY_STATE_WAIT_MESSAGE = 3,
    CV_REPLAY_STATE_TRANSFER = 4,
    CV_REPLAY_STATE_WAIT_RECEIVER = 5,
    CV_REPLAY_STATE_WAIT_COLLECTIVE = 6,
    CV_REPLAY_STATE_COLLECTIVE = 7,
    CV_REPLAY_STATE_WAIT_PROCESSOR = 8
};

typedef struct {
    double begin, end;
    int64_t record;
    int64_t message; /* row of the message that ended it, or -1 */
    uint32_t rank;
    int32_t cause;  /* rank whose action ended it, or -1 */
    uint32_t state; /* enum cv_replay_state */
    uint32_t reserved;
} cv_replay_interval;

typedef struct {
    double logical_send, request, physical_send, logical_receive, physical_receive;
    int64_t bytes;
    int64_t send_record;
    uint32_t source, destination;
    int32_t tag;
    int32_t comm;
    uint32_t by_receiver; /* 1: the receiver's post started the transfer */
    uint32_t reserved;
} cv_replay_message;

typedef struct {
    double seconds, compute, transfer, wait;
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
    int64_t blocked_record; /* index of the record at which the rank is blocked for ever, -1: it finished */
    int32_t blocked_on;     /* the rank it waits for */
    int32_t reserved;
} cv_replay_rank;

/* Result of a run; intervals and messages are there only when record was set. */
typedef struct {
    cv_replay_rank *ranks;
    cv_replay_interval *intervals;
    cv_replay_message *messages;
    size_t interval_count, message_count;
    uint64_t events; /* processed by the event queue */
    uint32_t deadlock;
    uint32_t reserved;
} cv_replay_result;

cv_status cv_replay_run(const cv_replay *replay, const cv_replay_network *network, int record, cv_replay_result *result);
void cv_replay_result_free(cv_replay_result *result);

/* Bytes that a handle occupies, and its numbers of channels and collective instances. */
void cv_replay_size_of(const cv_replay *replay, uint64_t *bytes, uint64_t *channels, uint64_t *instances);

/* --- .dim parser ------------------------------------------------------------------------------------------------------------- */

enum cv_dim_error {
    CV_DIM_OK = 0,
    CV_DIM_FULL = 1, /* no room in the columns: parse the rest with fresh ones */
    CV_DIM_KIND = 2,
    CV_DIM_NUMBER = 3,
    CV_DIM_FIELDS = 4,
    CV_DIM_TASK = 5,
    CV_DIM_THREAD = 6,
    CV_DIM_RANGE = 7,
    CV_DIM_WILDCARD = 8,
    CV_DIM_COMM = 9,
    CV_DIM_OP = 10,
    CV_DIM_SYNC = 11
};

typedef struct {
    size_t capacity;
    size_t count;
    int32_t *task;
    uint8_t *kind, *flags, *op;
    int32_t *partner, *tag, *comm;
    int64_t *bytes, *extra;
    double *seconds;
    int32_t tasks; /* ids are 0..tasks-1 */
    int32_t communicators;
    const int32_t *comm_ids; /* rising; a record's communicator becomes its index here */
} cv_dim_columns;

/* Parses whole lines of text; consumed: bytes of the lines that were parsed, lines: their number. On an error the offending line is
 * number lines (from 0) after the text's first. Comment (#) and empty lines are skipped. */
enum cv_dim_error cv_dim_parse(const char *text, size_t bytes, cv_dim_columns *columns, size_t *consumed, size_t *lines);

#endif
