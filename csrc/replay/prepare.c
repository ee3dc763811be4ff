/* Packs the event columns: each message record is bound to its channel (source, destination, tag, communicator) and each collective
 * record to its instance, the k-th of its kind on its communicator. */
#include "internal.h"

enum { CLASS_BLOCKING, CLASS_NONBLOCKING, CLASS_REDUCE, CLASSES };

typedef struct {
    uint32_t *ids;
    uint32_t count;
    size_t capacity;
} id_list;

typedef struct {
    cv_replay *replay;
    uint32_t *table; /* open addressing: channel index + 1, 0 empty */
    uint64_t mask;
    size_t channel_capacity, instance_capacity;
    id_list *lists;            /* communicators x CLASSES: instances in order */
    uint32_t *posted, *waited; /* the same, of the current rank */
    uint32_t *stamp;           /* per communicator: rank + 1 whose counters are valid */
} builder;

static uint64_t hash_key(channel_key key)
{
    uint64_t h = ((uint64_t)(uint32_t)key.source << 32 | (uint32_t)key.destination) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= (h >> 29) ^ ((uint64_t)(uint32_t)key.tag << 32 | (uint32_t)key.comm) * UINT64_C(0xbf58476d1ce4e5b9);
    h *= UINT64_C(0x94d049bb133111eb);
    return h ^ h >> 31;
}

static bool grow_table(builder *b)
{
    uint64_t size = b->mask ? 2 * (b->mask + 1) : 1024;
    uint32_t *table = calloc(size, sizeof *table);
    if (table == NULL)
        return false;
    for (uint32_t c = 0; c < b->replay->channel_count; c++) {
        uint64_t slot = hash_key(b->replay->channels[c]) & (size - 1);
        while (table[slot])
            slot = (slot + 1) & (size - 1);
        table[slot] = c + 1;
    }
    free(b->table);
    b->table = table;
    b->mask = size - 1;
    return true;
}

static uint32_t channel_of(builder *b, channel_key key)
{
    cv_replay *r = b->replay;
    if (b->mask == 0 || r->channel_count >= (b->mask + 1) / 2)
        if (!grow_table(b))
            return NONE;
    uint64_t slot = hash_key(key) & b->mask;
    for (; b->table[slot]; slot = (slot + 1) & b->mask)
        if (memcmp(&r->channels[b->table[slot] - 1], &key, sizeof key) == 0)
            return b->table[slot] - 1;
    if (!CV_ROOM(r->channels, b->channel_capacity, r->channel_count))
        return NONE;
    r->channels[r->channel_count] = key;
    b->table[slot] = ++r->channel_count;
    return r->channel_count - 1;
}

static uint32_t instance_of(builder *b, id_list *list, uint32_t k, instance defined)
{
    cv_replay *r = b->replay;
    if (k < list->count)
        return list->ids[k];
    if (!CV_ROOM(list->ids, list->capacity, list->count) || !CV_ROOM(r->instances, b->instance_capacity, r->instance_count))
        return NONE;
    r->instances[r->instance_count] = defined;
    list->ids[list->count++] = r->instance_count;
    return r->instance_count++;
}

static bool is_member(const cv_replay_trace *t, int32_t comm, int32_t rank)
{
    int64_t low = t->member_first[comm], high = t->member_first[comm + 1];
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (t->members[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->member_first[comm + 1] && t->members[low] == rank;
}

static int pack_message(builder *b, uint32_t rank, int64_t i, record *out)
{
    const cv_replay_trace *t = &b->replay->trace;
    bool send = t->kind[i] == CV_REPLAY_SEND || t->kind[i] == CV_REPLAY_SEND_WAIT;
    int32_t partner = t->partner[i];
    if (partner < 0 || (uint32_t)partner >= t->ranks)
        return CV_REPLAY_FAULT_PARTNER;
    if (t->bytes[i] < 0)
        return CV_REPLAY_FAULT_KIND;
    channel_key key = {send ? (int32_t)rank : partner, send ? partner : (int32_t)rank, t->tag[i], t->comm[i]};
    out->bytes = t->bytes[i];
    out->peer = partner;
    out->where = channel_of(b, key);
    if (send && (t->flags[i] & CV_REPLAY_RENDEZVOUS))
        b->replay->may_meet = true;
    return CV_REPLAY_FAULT_NONE;
}

static int pack_collective(builder *b, uint32_t rank, int64_t i, record *out)
{
    const cv_replay_trace *t = &b->replay->trace;
    int32_t comm = t->comm[i];
    uint8_t op = t->op[i], sync = t->flags[i];
    if (comm < 0 || (uint32_t)comm >= t->communicators || op >= CV_OPS || sync > CV_REPLAY_ROOT_SYNC || t->bytes[i] < 0 ||
        t->extra[i] < 0 || (sync == CV_REPLAY_ROOT_SYNC && op != CV_OP_REDUCE))
        return CV_REPLAY_FAULT_KIND;
    uint32_t *posted = b->posted + (size_t)comm * CLASSES, *waited = b->waited + (size_t)comm * CLASSES;
    if (b->stamp[comm] != rank + 1) {
        if (!is_member(t, comm, (int32_t)rank))
            return CV_REPLAY_FAULT_MEMBER;
        memset(posted, 0, CLASSES * sizeof *posted);
        memset(waited, 0, CLASSES * sizeof *waited);
        b->stamp[comm] = rank + 1;
    }
    out->bytes = t->bytes[i];
    out->extra = t->extra[i];
    bool reduce = op == CV_OP_REDUCE;
    out->peer = reduce ? t->partner[i] == (int32_t)rank : t->partner[i] != 0;
    if (sync == CV_REPLAY_WAIT_NONBLOCKING) {
        if (waited[CLASS_NONBLOCKING] >= posted[CLASS_NONBLOCKING])
            return CV_REPLAY_FAULT_NO_POST;
        out->where = b->lists[(size_t)comm * CLASSES + CLASS_NONBLOCKING].ids[waited[CLASS_NONBLOCKING]++];
        return CV_REPLAY_FAULT_NONE;
    }
    int class = sync == CV_REPLAY_BLOCKING ? CLASS_BLOCKING : sync == CV_REPLAY_ROOT_SYNC ? CLASS_REDUCE : CLASS_NONBLOCKING;
    int32_t root = sync == CV_REPLAY_ROOT_SYNC ? t->partner[i] : -1;
    if (root >= 0 && !is_member(t, comm, root))
        return CV_REPLAY_FAULT_MEMBER;
    instance defined = {(uint32_t)comm, op, sync, root};
    out->where = instance_of(b, &b->lists[(size_t)comm * CLASSES + class], posted[class]++, defined);
    if (out->where == NONE)
        return CV_REPLAY_FAULT_NONE;
    const instance *found = &b->replay->instances[out->where];
    return found->op == op && found->root == root ? CV_REPLAY_FAULT_NONE : CV_REPLAY_FAULT_MISMATCH;
}

static cv_status pack(builder *b, cv_replay_fault *fault)
{
    const cv_replay_trace *t = &b->replay->trace;
    uint32_t steps = 0;
    for (uint32_t rank = 0; rank < t->ranks; rank++)
        for (int64_t i = t->first[rank]; i < t->first[rank + 1]; i++) {
            record *out = &b->replay->records[i];
            int wrong = CV_REPLAY_FAULT_NONE;
            out->kind = t->kind[i];
            out->flags = t->flags[i];
            out->op = t->op[i];
            switch (t->kind[i]) {
            case CV_REPLAY_BURST:
            case CV_REPLAY_GPU:
                out->seconds = t->seconds[i];
                if (!(t->seconds[i] >= 0))
                    wrong = CV_REPLAY_FAULT_KIND;
                break;
            case CV_REPLAY_SEND:
            case CV_REPLAY_RECV:
            case CV_REPLAY_IRECV:
            case CV_REPLAY_WAIT:
            case CV_REPLAY_SEND_WAIT: wrong = pack_message(b, rank, i, out); break;
            case CV_REPLAY_COLLECTIVE: wrong = pack_collective(b, rank, i, out); break;
            case CV_REPLAY_NOOP:
            case CV_REPLAY_EVENT: break;
            default: wrong = CV_REPLAY_FAULT_KIND;
            }
            if (wrong) {
                *fault = (cv_replay_fault){wrong, rank, i - t->first[rank]};
                return CV_ERROR_FORMAT;
            }
            if (out->where == NONE)
                return CV_ERROR_MEMORY;
            cv_status status = cv_interrupt_look(&steps);
            if (status)
                return status;
        }
    return CV_OK;
}

cv_status cv_replay_new(const cv_replay_trace *trace, cv_replay **replay, cv_replay_fault *fault)
{
    if (trace == NULL || trace->ranks == 0 || replay == NULL || fault == NULL)
        return CV_ERROR_ARGUMENT;
    size_t records = (size_t)trace->first[trace->ranks], lists = (size_t)trace->communicators * CLASSES;
    cv_replay *r = calloc(1, sizeof *r);
    builder b = {.replay = r};
    *fault = (cv_replay_fault){0};
    *replay = NULL;
    if (r == NULL)
        return CV_ERROR_MEMORY;
    r->trace = *trace;
    r->records = calloc(records + 1, sizeof *r->records);
    b.lists = calloc(lists + 1, sizeof *b.lists);
    b.posted = calloc(lists + 1, sizeof *b.posted);
    b.waited = calloc(lists + 1, sizeof *b.waited);
    b.stamp = calloc(trace->communicators + (size_t)1, sizeof *b.stamp);
    cv_status status = CV_ERROR_MEMORY;
    if (r->records && b.lists && b.posted && b.waited && b.stamp)
        status = pack(&b, fault);
    for (size_t i = 0; b.lists && i < lists; i++)
        free(b.lists[i].ids);
    free(b.lists);
    free(b.posted);
    free(b.waited);
    free(b.stamp);
    free(b.table);
    if (status == CV_OK)
        *replay = r;
    else
        cv_replay_free(r);
    return status;
}

void cv_replay_durations(cv_replay *replay, const double *seconds)
{
    for (int64_t i = 0; i < replay->trace.first[replay->trace.ranks]; i++)
        if (replay->records[i].kind == CV_REPLAY_BURST)
            replay->records[i].seconds = seconds[i];
}

void cv_replay_free(cv_replay *replay)
{
    if (replay == NULL)
        return;
    free(replay->records);
    free(replay->channels);
    free(replay->instances);
    free(replay);
}

void cv_replay_size_of(const cv_replay *replay, uint64_t *bytes, uint64_t *channels, uint64_t *instances)
{
    *channels = replay->channel_count;
    *instances = replay->instance_count;
    *bytes = sizeof *replay + (uint64_t)replay->trace.first[replay->trace.ranks] * sizeof(record) + *channels * sizeof(channel_key) +
             *instances * sizeof(instance);
}
