/* Fortran entry points (mpif.h and `use mpi`, names in lower case with one underscore). Open MPI's Fortran layer calls PMPI_* directly
 * and MPICH's may call MPI_*: each wrapper calls the library's own Fortran function, so that special addresses (MPI_IN_PLACE,
 * MPI_STATUS_IGNORE) need no translation, and what that calls in turn is not recorded twice. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "recorder.h"

typedef MPI_Fint fint;

#define REAL(NAME)                                                                                                      \
    static __typeof__(&NAME##_) real;                                                                                   \
    if (real == NULL)                                                                                                   \
        real = (__typeof__(&NAME##_))dlsym(RTLD_NEXT, #NAME "_");

#define TYPE(t) MPI_Type_f2c(*(t))
#define COMM(c) MPI_Comm_f2c(*(c))

enum { STATUS_WORDS = 32, FEW = 64 };

static MPI_Status c_status(const fint *status)
{
    MPI_Status c;
    PMPI_Status_f2c((fint *)status, &c);
    return c;
}

static uint64_t key_of(fint request)
{
    return CVM_KEY(PMPI_Request_f2c(request));
}

void mpi_init_(fint *error)
{
    REAL(mpi_init)
    real(error);
    cvm_start();
}

void mpi_init_thread_(fint *required, fint *provided, fint *error)
{
    REAL(mpi_init_thread)
    real(required, provided, error);
    cvm_start();
}

void mpi_finalize_(fint *error)
{
    REAL(mpi_finalize)
    cvm_stop(CVM_FINALIZED);
    real(error);
}

void mpi_abort_(fint *comm, fint *code, fint *error)
{
    REAL(mpi_abort)
    cvm_stop(CVM_ABORTED);
    real(comm, code, error);
}

#define SEND(NAME, SYNCHRONOUS)                                                                                         \
    void mpi_##NAME##_(void *b, fint *n, fint *t, fint *to, fint *tag, fint *c, fint *error)                            \
    {                                                                                                                   \
        REAL(mpi_##NAME)                                                                                                \
        cvm_scope s = cvm_enter();                                                                                      \
        real(b, n, t, to, tag, c, error);                                                                               \
        cvm_leave(&s);                                                                                                  \
        if (s.outer)                                                                                                    \
            cvm_sent(&s, *n, TYPE(t), *to, *tag, COMM(c), SYNCHRONOUS);                                                 \
        cvm_close(&s);                                                                                                  \
    }
SEND(send, false)
SEND(ssend, true)
SEND(bsend, false)
SEND(rsend, false)

#define POST(NAME, AFTER)                                                                                               \
    void mpi_##NAME##_(void *b, fint *n, fint *t, fint *peer, fint *tag, fint *c, fint *q, fint *error)                 \
    {                                                                                                                   \
        REAL(mpi_##NAME)                                                                                                \
        cvm_scope s = cvm_enter();                                                                                      \
        real(b, n, t, peer, tag, c, q, error);                                                                          \
        cvm_leave(&s);                                                                                                  \
        if (s.outer)                                                                                                    \
            AFTER;                                                                                                      \
        cvm_close(&s);                                                                                                  \
    }
#define POSTED(SEND, SYNCHRONOUS) \
    cvm_posted(&s, SEND, *n, TYPE(t), *peer, *tag, COMM(c), PMPI_Request_f2c(*q), SYNCHRONOUS)
#define PREPARED(SEND) cvm_prepared(SEND, *n, TYPE(t), *peer, *tag, COMM(c), PMPI_Request_f2c(*q))
POST(isend, POSTED(true, false))
POST(issend, POSTED(true, true))
POST(ibsend, POSTED(true, false))
POST(irsend, POSTED(true, false))
POST(irecv, POSTED(false, false))
POST(send_init, PREPARED(true))
POST(ssend_init, PREPARED(true))
POST(rsend_init, PREPARED(true))
POST(recv_init, PREPARED(false))

void mpi_recv_(void *b, fint *n, fint *t, fint *from, fint *tag, fint *c, fint *status, fint *error)
{
    REAL(mpi_recv)
    fint own[STATUS_WORDS], *seen = status == MPI_F_STATUS_IGNORE ? own : status;
    cvm_scope s = cvm_enter();
    real(b, n, t, from, tag, c, seen, error);
    cvm_leave(&s);
    if (s.outer) {
        MPI_Status found = c_status(seen);
        cvm_received(&s, *from, *tag, COMM(c), &found, *n, TYPE(t));
    }
    cvm_close(&s);
}

void mpi_sendrecv_(void *sb, fint *sn, fint *st, fint *to, fint *stag, void *rb, fint *rn, fint *rt, fint *from, fint *rtag, fint *c,
                   fint *status, fint *error)
{
    REAL(mpi_sendrecv)
    fint own[STATUS_WORDS], *seen = status == MPI_F_STATUS_IGNORE ? own : status;
    cvm_scope s = cvm_enter();
    real(sb, sn, st, to, stag, rb, rn, rt, from, rtag, c, seen, error);
    cvm_leave(&s);
    if (s.outer) {
        MPI_Status found = c_status(seen);
        cvm_posted(&s, true, *sn, TYPE(st), *to, *stag, COMM(c), MPI_REQUEST_NULL, false);
        cvm_received(&s, *from, *rtag, COMM(c), &found, *rn, TYPE(rt));
    }
    cvm_close(&s);
}

void mpi_start_(fint *q, fint *error)
{
    REAL(mpi_start)
    cvm_scope s = cvm_enter();
    real(q, error);
    cvm_leave(&s);
    cvm_started(&s, key_of(*q));
    cvm_close(&s);
}

void mpi_startall_(fint *n, fint *q, fint *error)
{
    REAL(mpi_startall)
    cvm_scope s = cvm_enter();
    real(n, q, error);
    cvm_leave(&s);
    for (fint i = 0; i < *n; i++)
        cvm_started(&s, key_of(q[i]));
    cvm_close(&s);
}

void mpi_request_free_(fint *q, fint *error)
{
    REAL(mpi_request_free)
    uint64_t key = key_of(*q);
    cvm_scope s = cvm_enter();
    real(q, error);
    cvm_leave(&s);
    cvm_dropped(&s, key);
    cvm_close(&s);
}

static void completed(cvm_scope *s, uint64_t key, const fint *status)
{
    MPI_Status found = c_status(status);
    cvm_completed(s, key, &found);
}

void mpi_wait_(fint *q, fint *status, fint *error)
{
    REAL(mpi_wait)
    fint own[STATUS_WORDS], *seen = status == MPI_F_STATUS_IGNORE ? own : status;
    uint64_t key = key_of(*q);
    cvm_scope s = cvm_enter();
    real(q, seen, error);
    cvm_leave(&s);
    if (s.outer)
        completed(&s, key, seen);
    cvm_close(&s);
}

void mpi_test_(fint *q, fint *flag, fint *status, fint *error)
{
    REAL(mpi_test)
    fint own[STATUS_WORDS], *seen = status == MPI_F_STATUS_IGNORE ? own : status;
    uint64_t key = key_of(*q);
    cvm_scope s = cvm_enter();
    real(q, flag, seen, error);
    cvm_leave(&s);
    if (s.outer && *flag)
        completed(&s, key, seen);
    cvm_close(&s);
}

typedef struct {
    uint64_t few_keys[FEW], *keys;
    fint few[FEW * STATUS_WORDS], *statuses;
    int words; /* of one status: the library's size where the program gave the array */
} room;

static void make_room(room *m, fint n, const fint *q, fint *given)
{
    m->words = (int)(sizeof(MPI_Status) / sizeof(fint));
    m->keys = n > FEW ? malloc((size_t)n * sizeof *m->keys) : m->few_keys;
    m->statuses = given != MPI_F_STATUSES_IGNORE ? given : n > FEW ? malloc((size_t)n * STATUS_WORDS * sizeof(fint)) : m->few;
    for (fint i = 0; m->keys && i < n; i++)
        m->keys[i] = key_of(q[i]);
}

static void free_room(room *m, const fint *given)
{
    if (m->keys != m->few_keys)
        free(m->keys);
    if (m->statuses != given && m->statuses != m->few)
        free(m->statuses);
}

void mpi_waitall_(fint *n, fint *q, fint *statuses, fint *error)
{
    REAL(mpi_waitall)
    room m;
    make_room(&m, *n, q, statuses);
    cvm_scope s = cvm_enter();
    real(n, q, m.statuses, error);
    cvm_leave(&s);
    for (fint i = 0; s.outer && i < *n; i++)
        completed(&s, m.keys[i], m.statuses + (size_t)i * (size_t)m.words);
    cvm_close(&s);
    free_room(&m, statuses);
}

void mpi_testall_(fint *n, fint *q, fint *flag, fint *statuses, fint *error)
{
    REAL(mpi_testall)
    room m;
    make_room(&m, *n, q, statuses);
    cvm_scope s = cvm_enter();
    real(n, q, flag, m.statuses, error);
    cvm_leave(&s);
    for (fint i = 0; s.outer && *flag && i < *n; i++)
        completed(&s, m.keys[i], m.statuses + (size_t)i * (size_t)m.words);
    cvm_close(&s);
    free_room(&m, statuses);
}

void mpi_waitany_(fint *n, fint *q, fint *index, fint *status, fint *error)
{
    REAL(mpi_waitany)
    fint own[STATUS_WORDS], *seen = status == MPI_F_STATUS_IGNORE ? own : status;
    room m;
    make_room(&m, *n, q, m.few);
    cvm_scope s = cvm_enter();
    real(n, q, index, seen, error);
    cvm_leave(&s);
    if (s.outer && *index >= 1 && *index <= *n)
        completed(&s, m.keys[*index - 1], seen);
    cvm_close(&s);
    free_room(&m, m.few);
}

/* --- collectives: numbers of the .dim format ------------------------------------------------------------------------------------- */

#define COLLECTIVE(NAME, P, A, OP, C, ROOT, SENT, RECEIVED)                                                             \
    void mpi_##NAME##_ P                                                                                                \
    {                                                                                                                   \
        REAL(mpi_##NAME)                                                                                                \
        cvm_scope s = cvm_enter();                                                                                      \
        real A;                                                                                                         \
        cvm_leave(&s);                                                                                                  \
        if (s.outer)                                                                                                    \
            cvm_collective(&s, OP, COMM(C), ROOT, SENT, RECEIVED, NULL);                                                \
        cvm_close(&s);                                                                                                  \
    }

static bool is_root(const fint *comm, const fint *root)
{
    int rank;
    PMPI_Comm_rank(COMM(comm), &rank);
    return rank == *root;
}

#define SIZE(n, t) cvm_bytes(*(n), TYPE(t))
#define PEERS cvm_peers(COMM(c))

COLLECTIVE(barrier, (fint *c, fint *error), (c, error), 0, c, -1, 0, 0)
COLLECTIVE(bcast, (void *b, fint *n, fint *t, fint *root, fint *c, fint *error), (b, n, t, root, c, error), 1, c, *root,
           is_root(c, root) ? SIZE(n, t) : 0, SIZE(n, t))
COLLECTIVE(gather, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *rt, fint *root, fint *c, fint *error),
           (sb, sn, st, rb, rn, rt, root, c, error), 2, c, *root, SIZE(sn, st), is_root(c, root) ? SIZE(rn, rt) * PEERS : 0)
COLLECTIVE(gatherv, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *at, fint *rt, fint *root, fint *c, fint *error),
           (sb, sn, st, rb, rn, at, rt, root, c, error), 3, c, *root, SIZE(sn, st),
           is_root(c, root) ? cvm_sum(rn, TYPE(rt), PEERS) : 0)
COLLECTIVE(scatter, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *rt, fint *root, fint *c, fint *error),
           (sb, sn, st, rb, rn, rt, root, c, error), 4, c, *root, is_root(c, root) ? SIZE(sn, st) * PEERS : 0, SIZE(rn, rt))
COLLECTIVE(scatterv, (void *sb, fint *sn, fint *at, fint *st, void *rb, fint *rn, fint *rt, fint *root, fint *c, fint *error),
           (sb, sn, at, st, rb, rn, rt, root, c, error), 5, c, *root, is_root(c, root) ? cvm_sum(sn, TYPE(st), PEERS) : 0,
           SIZE(rn, rt))
COLLECTIVE(allgather, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *rt, fint *c, fint *error),
           (sb, sn, st, rb, rn, rt, c, error), 6, c, -1, SIZE(rn, rt), SIZE(rn, rt) * PEERS)
COLLECTIVE(allgatherv, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *at, fint *rt, fint *c, fint *error),
           (sb, sn, st, rb, rn, at, rt, c, error), 7, c, -1, SIZE(sn, st), cvm_sum(rn, TYPE(rt), PEERS))
COLLECTIVE(alltoall, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *rt, fint *c, fint *error),
           (sb, sn, st, rb, rn, rt, c, error), 8, c, -1, SIZE(rn, rt) * PEERS, SIZE(rn, rt) * PEERS)
COLLECTIVE(alltoallv, (void *sb, fint *sn, fint *sat, fint *st, void *rb, fint *rn, fint *rat, fint *rt, fint *c, fint *error),
           (sb, sn, sat, st, rb, rn, rat, rt, c, error), 9, c, -1, cvm_sum(rn, TYPE(rt), PEERS), cvm_sum(rn, TYPE(rt), PEERS))
COLLECTIVE(reduce, (void *sb, void *rb, fint *n, fint *t, fint *op, fint *root, fint *c, fint *error),
           (sb, rb, n, t, op, root, c, error), 10, c, *root, SIZE(n, t), is_root(c, root) ? SIZE(n, t) : 0)
COLLECTIVE(allreduce, (void *sb, void *rb, fint *n, fint *t, fint *op, fint *c, fint *error), (sb, rb, n, t, op, c, error), 11, c, -1,
           SIZE(n, t), SIZE(n, t))
COLLECTIVE(reduce_scatter, (void *sb, void *rb, fint *n, fint *t, fint *op, fint *c, fint *error), (sb, rb, n, t, op, c, error), 12, c,
           -1, cvm_sum(n, TYPE(t), PEERS), PEERS > 0 ? cvm_sum(n, TYPE(t), PEERS) / PEERS : 0)
COLLECTIVE(scan, (void *sb, void *rb, fint *n, fint *t, fint *op, fint *c, fint *error), (sb, rb, n, t, op, c, error), 14, c, -1,
           SIZE(n, t), SIZE(n, t))

/* --- communicators --------------------------------------------------------------------------------------------------------------- */

#define MAKE(NAME, P, A)                                                                                                \
    void mpi_##NAME##_ P                                                                                                \
    {                                                                                                                   \
        REAL(mpi_##NAME)                                                                                                \
        cvm_scope s = cvm_enter();                                                                                      \
        real A;                                                                                                         \
        cvm_leave(&s);                                                                                                  \
        if (s.outer) {                                                                                                  \
            cvm_collective(&s, 0, COMM(c), -1, 0, 0, NULL);                                                             \
            cvm_comm_new(&s, COMM(made), COMM(c));                                                                      \
        }                                                                                                               \
        cvm_close(&s);                                                                                                  \
    }
MAKE(comm_dup, (fint *c, fint *made, fint *error), (c, made, error))
MAKE(comm_split, (fint *c, fint *color, fint *key, fint *made, fint *error), (c, color, key, made, error))
MAKE(comm_create, (fint *c, fint *group, fint *made, fint *error), (c, group, made, error))
MAKE(cart_create, (fint *c, fint *n, fint *dims, fint *periods, fint *reorder, fint *made, fint *error),
     (c, n, dims, periods, reorder, made, error))
MAKE(cart_sub, (fint *c, fint *remain, fint *made, fint *error), (c, remain, made, error))

void mpi_comm_free_(fint *comm, fint *error)
{
    REAL(mpi_comm_free)
    cvm_scope s = cvm_enter();
    if (s.outer)
        cvm_comm_forget(COMM(comm));
    real(comm, error);
    cvm_leave(&s);
    cvm_close(&s);
}
