typedef struct {
    uint32_t ranks;
    uint32_t communicators;
    const int64_t *first;
    const uint8_t *kind;
    const uint8_t *flags;
    const uint8_t *op;
    const int32_t *partner;
    const int32_t *tag;
    const int32_t *comm;
    const int64_t *bytes;
    const int64_t *extra;
    const double *seconds;
    const int64_t *member_first;
    const int32_t *members;
} cv_replay_trace;

typedef struct {
    int32_t kind;
    uint32_t rank;
    int64_t record;
} cv_replay_fault;

typedef struct cv_replay cv_replay;

cv_status cv_replay_new(const cv_replay_trace *trace, cv_replay **replay, cv_replay_fault *fault);
void cv_replay_free(cv_replay *replay);

typedef struct {
    int64_t type;
    int64_t value;
    double ratio;
} cv_replay_module;

cv_status cv_replay_scale(cv_replay *replay, const double *rank_ratio, const double *burst_ratio, const cv_replay_module *modules,
                          size_t module_count);

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
    const int32_t *node_of_rank;
    const uint8_t *collectives;
    int64_t rendezvous_bytes;
    double wire_latency;
    double gap;
    uint32_t quirks;
} cv_replay_network;

typedef struct {
    double begin, end;
    int64_t record;
    int64_t message;
    uint32_t rank;
    int32_t cause;
    uint32_t state;
    uint32_t reserved;
} cv_replay_interval;

typedef struct {
    double logical_send, request, physical_send, logical_receive, physical_receive;
    int64_t bytes;
    int64_t send_record;
    uint32_t source, destination;
    int32_t tag;
    int32_t comm;
    uint32_t by_receiver;
    uint32_t reserved;
} cv_replay_message;

typedef struct {
    double seconds, compute, transfer, wait;
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
    int64_t blocked_record;
    int32_t blocked_on;
    int32_t reserved;
} cv_replay_rank;

typedef struct {
    cv_replay_rank *ranks;
    cv_replay_interval *intervals;
    cv_replay_message *messages;
    size_t interval_count, message_count;
    uint64_t events;
    uint32_t deadlock;
    uint32_t reserved;
} cv_replay_result;

cv_status cv_replay_run(const cv_replay *replay, const cv_replay_network *network, int record, cv_replay_result *result);
void cv_replay_result_free(cv_replay_result *result);
void cv_replay_size_of(const cv_replay *replay, uint64_t *bytes, uint64_t *channels, uint64_t *instances);

enum cv_dim_error {
    CV_DIM_OK = 0,
    CV_DIM_FULL = 1,
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
    int32_t tasks;
    int32_t communicators;
    const int32_t *comm_ids;
} cv_dim_columns;

enum cv_dim_error cv_dim_parse(const char *text, size_t bytes, cv_dim_columns *columns, size_t *consumed, size_t *lines);
