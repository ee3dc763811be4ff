/* Point to point: blocking, non-blocking, persistent; probes.c and completions.c have the rest. */
#include "recorder.h"

void cvm_sent(cvm_scope *s, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, bool synchronous)
{
    uint32_t id = cvm_comm(comm);
    cvm_put(s, (struct cvm_record){.call = CVM_SEND,
                                   .flags = synchronous ? CVM_SYNCHRONOUS : 0,
                                   .partner = cvm_world_rank(id, to),
                                   .tag = tag,
                                   .comm = id,
                                   .bytes = cvm_bytes(count, type)});
}

static int64_t received_bytes(const MPI_Status *status)
{
    int bytes = 0;
    PMPI_Get_count(status, MPI_BYTE, &bytes);
    return bytes == MPI_UNDEFINED ? 0 : bytes;
}

void cvm_received(cvm_scope *s, int from, int tag, MPI_Comm comm, MPI_Status *status, int count, MPI_Datatype type)
{
    uint32_t id = cvm_comm(comm);
    bool nobody = from == MPI_PROC_NULL;
    cvm_put(s, (struct cvm_record){.call = CVM_RECV,
                                   .partner = nobody ? -2 : cvm_world_rank(id, status->MPI_SOURCE),
                                   .tag = nobody ? tag : status->MPI_TAG,
                                   .comm = id,
                                   .bytes = nobody ? cvm_bytes(count, type) : received_bytes(status)});
}

static void describe(cvm_request *q, bool send, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    q->call = send ? CVM_ISEND : CVM_IRECV;
    q->comm = cvm_comm(comm);
    q->partner = peer == MPI_ANY_SOURCE ? -1 : cvm_world_rank(q->comm, peer);
    q->tag = tag == MPI_ANY_TAG ? -1 : tag;
    q->bytes = cvm_bytes(count, type);
    q->op = 0;
}

static void put_post(cvm_scope *s, const cvm_request *q, bool synchronous)
{
    cvm_put(s, (struct cvm_record){.call = q->call,
                                   .flags = synchronous ? CVM_SYNCHRONOUS : 0,
                                   .partner = q->partner,
                                   .tag = q->tag,
                                   .comm = q->comm,
                                   .request = q->serial,
                                   .bytes = q->bytes});
}

void cvm_posted(cvm_scope *s, bool send, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request request,
                bool synchronous)
{
    cvm_request local = {0}, *q;
    if (!s->outer)
        return;
    q = request == MPI_REQUEST_NULL ? &local : cvm_request_add(CVM_KEY(request));
    if (q == NULL)
        return;
    describe(q, send, count, type, peer, tag, comm);
    q->serial = cvm_serial();
    q->persistent = false;
    q->active = true;
    put_post(s, q, synchronous);
}

void cvm_prepared(bool send, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request request)
{
    cvm_request *q = cvm_request_add(CVM_KEY(request));
    if (q == NULL)
        return;
    describe(q, send, count, type, peer, tag, comm);
    q->persistent = true;
    q->active = false;
}

void cvm_started(cvm_scope *s, uint64_t key)
{
    cvm_request *q = s->outer ? cvm_request_find(key) : NULL;
    if (q == NULL)
        return;
    q->serial = cvm_serial();
    q->active = true;
    put_post(s, q, false);
}

/* A wait or a successful test has completed the request. */
void cvm_completed(cvm_scope *s, uint64_t key, const MPI_Status *status)
{
    cvm_request *q = s->outer && key != CVM_KEY(MPI_REQUEST_NULL) ? cvm_request_find(key) : NULL;
    if (q == NULL || !q->active)
        return;
    struct cvm_record record = {.call = (uint8_t)(q->call + 3),
                                .partner = q->partner,
                                .tag = q->tag,
                                .comm = q->comm,
                                .request = q->serial,
                                .bytes = q->bytes,
                                .op = q->op};
    if (q->call == CVM_ISEND)
        record.call = CVM_DONE_SEND;
    else if (q->call == CVM_ICOLLECTIVE)
        record.call = CVM_DONE_COLLECTIVE;
    else {
        int cancelled = 0;
        record.call = CVM_DONE_RECV;
        PMPI_Test_cancelled(status, &cancelled);
        if (cancelled) {
            record.call = CVM_FREED;
        } else if (q->partner != -2) {
            record.partner = cvm_world_rank(q->comm, status->MPI_SOURCE);
            record.tag = status->MPI_TAG;
            record.bytes = received_bytes(status);
        }
    }
    cvm_put(s, record);
    if (q->persistent)
        q->active = false;
    else
        cvm_request_drop(key);
}

void cvm_dropped(cvm_scope *s, uint64_t key)
{
    cvm_request *q = s->outer ? cvm_request_find(key) : NULL;
    if (q == NULL)
        return;
    if (q->active && q->call == CVM_IRECV)
        cvm_put(s, (struct cvm_record){.call = CVM_FREED, .comm = q->comm, .request = q->serial});
    cvm_request_drop(key);
}

/* --- the MPI functions --------------------------------------------------------------------------------------------------------- */

#define SEND(NAME, SYNCHRONOUS)                                                                     \
    int MPI_##NAME(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c)               \
    {                                                                                               \
        CVM_RECORDED(PMPI_##NAME(b, n, t, to, tag, c), cvm_sent(&s, n, t, to, tag, c, SYNCHRONOUS)) \
    }
SEND(Send, false)
SEND(Ssend, true)
SEND(Bsend, false)
SEND(Rsend, false)

#define POST(NAME, BUFFER, RECORD)                                                                 \
    int MPI_##NAME(BUFFER b, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c, MPI_Request *q) \
    {                                                                                              \
        CVM_RECORDED(PMPI_##NAME(b, n, t, peer, tag, c, q), RECORD)                                \
    }
#define POSTED(SEND, SYNCHRONOUS) cvm_posted(&s, SEND, n, t, peer, tag, c, *q, SYNCHRONOUS)
#define PREPARED(SEND) cvm_prepared(SEND, n, t, peer, tag, c, *q)
POST(Isend, const void *, POSTED(true, false))
POST(Issend, const void *, POSTED(true, true))
POST(Ibsend, const void *, POSTED(true, false))
POST(Irsend, const void *, POSTED(true, false))
POST(Irecv, void *, POSTED(false, false))
POST(Send_init, const void *, PREPARED(true))
POST(Ssend_init, const void *, PREPARED(true))
POST(Bsend_init, const void *, PREPARED(true))
POST(Rsend_init, const void *, PREPARED(true))
POST(Recv_init, void *, PREPARED(false))

int MPI_Recv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    CVM_RECORDED(PMPI_Recv(b, n, t, from, tag, c, seen), cvm_received(&s, from, tag, c, seen, n, t))
}

/* As a non-blocking send and a receive, so that two tasks may exchange. */
#define EXCHANGED(SENT, SENT_TYPE, RECEIVED, RECEIVED_TYPE)                      \
    cvm_posted(&s, true, SENT, SENT_TYPE, to, stag, c, MPI_REQUEST_NULL, false); \
    cvm_received(&s, from, rtag, c, seen, RECEIVED, RECEIVED_TYPE)

int MPI_Sendrecv(const void *sb, int sn, MPI_Datatype st, int to, int stag, void *rb, int rn, MPI_Datatype rt, int from, int rtag,
                 MPI_Comm c, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    CVM_RECORDED(PMPI_Sendrecv(sb, sn, st, to, stag, rb, rn, rt, from, rtag, c, seen), EXCHANGED(sn, st, rn, rt))
}

int MPI_Sendrecv_replace(void *b, int n, MPI_Datatype t, int to, int stag, int from, int rtag, MPI_Comm c, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    CVM_RECORDED(PMPI_Sendrecv_replace(b, n, t, to, stag, from, rtag, c, seen), EXCHANGED(n, t, n, t))
}

int MPI_Start(MPI_Request *q) { CVM_RECORDED(PMPI_Start(q), cvm_started(&s, CVM_KEY(*q))) }

int MPI_Startall(int n, MPI_Request *q) { CVM_RECORDED(PMPI_Startall(n, q), for (int i = 0; i < n; i++) cvm_started(&s, CVM_KEY(q[i]))) }

int MPI_Request_free(MPI_Request *q)
{
    uint64_t key = CVM_KEY(*q);
    CVM_RECORDED(PMPI_Request_free(q), cvm_dropped(&s, key))
}
