/* Fortran entry points (mpif.h and `use mpi`, names in lower case with one underscore; `use mpi_f08` through two files that include
 * this one: handles are structures of one integer there, passed by reference, and buffers go through untouched). Open MPI's Fortran layer
 * calls PMPI_* directly and MPICH's may call MPI_*: each wrapper calls the library's own Fortran function, so that special addresses
 * (MPI_IN_PLACE, MPI_STATUS_IGNORE) need no translation, and what that calls in turn is not recorded twice. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "cv_mpi_events.h"
#include "recorder.h"

typedef MPI_Fint fint;

/* The name of a Fortran function as its compiler spells it; fortran_f08.c and fortran_f08ts.c say it otherwise. */
#ifndef F
#define F(NAME) mpi_##NAME##_
#endif
#define WORD(text) #text
#define SPELLED(name) WORD(name)

#define REAL(NAME)                    \
    static __typeof__(&F(NAME)) real; \
    if (real == NULL)                 \
        real = (__typeof__(&F(NAME)))dlsym(RTLD_NEXT, SPELLED(F(NAME)));

#define TYPE(t) MPI_Type_f2c(*(t))
#define COMM(c) MPI_Comm_f2c(*(c))

enum { STATUS_WORDS = 32, FEW = 64 };

static bool ignored(const fint *status)
{
#ifdef MPICH
    if (status == (const fint *)MPI_F08_STATUS_IGNORE || status == (const fint *)MPI_F08_STATUSES_IGNORE)
        return true;
#endif
    return status == MPI_F_STATUS_IGNORE || status == MPI_F_STATUSES_IGNORE;
}

static MPI_Status c_status(const fint *status)
{
    MPI_Status c;
    PMPI_Status_f2c((fint *)status, &c);
    return c;
}

static uint64_t key_of(fint request) { return CVM_KEY(PMPI_Request_f2c(request)); }

void F(init)(fint *error)
{
    REAL(init)
    real(error);
    cvm_start();
}

void F(init_thread)(fint *required, fint *provided, fint *error)
{
    REAL(init_thread)
    real(required, provided, error);
    cvm_start();
}

void F(finalize)(fint *error)
{
    REAL(finalize)
    cvm_stop(CVM_FINALIZED);
    real(error);
}

void F(abort)(fint *comm, fint *code, fint *error)
{
    REAL(abort)
    cvm_stop(CVM_ABORTED);
    real(comm, code, error);
}

/* The body of a function that calls the library's own one. */
#define RECORDED(NAME, ARGUMENTS, RECORD) \
    REAL(NAME)                            \
    CVM_BRACKETED(real ARGUMENTS, RECORD)

#define SEND(NAME, SYNCHRONOUS)                                                                                  \
    void F(NAME)(void *b, fint *n, fint *t, fint *to, fint *tag, fint *c, fint *error)                           \
    {                                                                                                            \
        RECORDED(NAME, (b, n, t, to, tag, c, error), cvm_sent(&s, *n, TYPE(t), *to, *tag, COMM(c), SYNCHRONOUS)) \
    }
SEND(send, false)
SEND(ssend, true)
SEND(bsend, false)
SEND(rsend, false)

#define POST(NAME, AFTER)                                                                         \
    void F(NAME)(void *b, fint *n, fint *t, fint *peer, fint *tag, fint *c, fint *q, fint *error) \
    {                                                                                             \
        RECORDED(NAME, (b, n, t, peer, tag, c, q, error), AFTER)                                  \
    }
#define POSTED(SEND, SYNCHRONOUS) cvm_posted(&s, SEND, *n, TYPE(t), *peer, *tag, COMM(c), PMPI_Request_f2c(*q), SYNCHRONOUS)
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

static void received(cvm_scope *s, fint *from, fint *tag, fint *c, const fint *status, fint *n, fint *t)
{
    MPI_Status found = c_status(status);
    cvm_received(s, *from, *tag, COMM(c), &found, *n, TYPE(t));
}

void F(recv)(void *b, fint *n, fint *t, fint *from, fint *tag, fint *c, fint *status, fint *error)
{
    fint own[STATUS_WORDS], *seen = ignored(status) ? own : status;
    RECORDED(recv, (b, n, t, from, tag, c, seen, error), received(&s, from, tag, c, seen, n, t))
}

void F(sendrecv)(void *sb, fint *sn, fint *st, fint *to, fint *stag, void *rb, fint *rn, fint *rt, fint *from, fint *rtag, fint *c,
                 fint *status, fint *error)
{
    fint own[STATUS_WORDS], *seen = ignored(status) ? own : status;
    RECORDED(sendrecv, (sb, sn, st, to, stag, rb, rn, rt, from, rtag, c, seen, error),
             cvm_posted(&s, true, *sn, TYPE(st), *to, *stag, COMM(c), MPI_REQUEST_NULL, false);
             received(&s, from, rtag, c, seen, rn, rt))
}

void F(start)(fint *q, fint *error) { RECORDED(start, (q, error), cvm_started(&s, key_of(*q))) }

void F(startall)(fint *n, fint *q, fint *error)
{
    RECORDED(startall, (n, q, error), for (fint i = 0; i < *n; i++) cvm_started(&s, key_of(q[i])))
}

void F(request_free)(fint *q, fint *error)
{
    uint64_t key = key_of(*q);
    RECORDED(request_free, (q, error), cvm_dropped(&s, key))
}

static void completed(cvm_scope *s, uint64_t key, const fint *status)
{
    MPI_Status found = c_status(status);
    cvm_completed(s, key, &found);
}

void F(wait)(fint *q, fint *status, fint *error)
{
    fint own[STATUS_WORDS], *seen = ignored(status) ? own : status;
    uint64_t key = key_of(*q);
    RECORDED(wait, (q, seen, error), completed(&s, key, seen))
}

void F(test)(fint *q, fint *flag, fint *status, fint *error)
{
    fint own[STATUS_WORDS], *seen = ignored(status) ? own : status;
    uint64_t key = key_of(*q);
    RECORDED(test, (q, flag, seen, error), if (*flag) completed(&s, key, seen))
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
    m->statuses = !ignored(given) ? given : n > FEW ? malloc((size_t)n * STATUS_WORDS * sizeof(fint)) : m->few;
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

static void all_completed(cvm_scope *s, room *m, fint n)
{
    for (fint i = 0; i < n; i++)
        completed(s, m->keys[i], m->statuses + (size_t)i * (size_t)m->words);
}

/* A call for several requests. */
#define SEVERAL(NAME, ARGUMENTS, STATUSES, RECORD) \
    room m;                                        \
    make_room(&m, *n, q, STATUSES);                \
    RECORDED(NAME, ARGUMENTS, RECORD)              \
    free_room(&m, STATUSES);

void F(waitall)(fint *n, fint *q, fint *statuses, fint *error)
{
    SEVERAL(waitall, (n, q, m.statuses, error), statuses, all_completed(&s, &m, *n))
}

void F(testall)(fint *n, fint *q, fint *flag, fint *statuses, fint *error)
{
    SEVERAL(testall, (n, q, flag, m.statuses, error), statuses, all_completed(&s, &m, *flag ? *n : 0))
}

void F(waitany)(fint *n, fint *q, fint *index, fint *status, fint *error)
{
    fint own[STATUS_WORDS], *seen = ignored(status) ? own : status;
    SEVERAL(waitany, (n, q, index, seen, error), m.few, if (*index >= 1 && *index <= *n) completed(&s, m.keys[*index - 1], seen))
}

/* --- collectives ------------------------------------------------------------------------------------- */

#define COLLECTIVE(NAME, P, A, OP, C, ROOT, SENT, RECEIVED) \
    void F(NAME) P { RECORDED(NAME, A, cvm_collective(&s, CV_OP_##OP, COMM(C), ROOT, SENT, RECEIVED, NULL)) }

#define SIZE(n, t) cvm_bytes(*(n), TYPE(t))
#define PEERS cvm_peers(COMM(c))
#define IS_ROOT cvm_is_root(COMM(c), *root)

COLLECTIVE(barrier, (fint * c, fint *error), (c, error), BARRIER, c, -1, 0, 0)
COLLECTIVE(bcast, (void *b, fint *n, fint *t, fint *root, fint *c, fint *error), (b, n, t, root, c, error), BCAST, c, *root,
           IS_ROOT ? SIZE(n, t) : 0, SIZE(n, t))
COLLECTIVE(gather, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *rt, fint *root, fint *c, fint *error),
           (sb, sn, st, rb, rn, rt, root, c, error), GATHER, c, *root, SIZE(sn, st), IS_ROOT ? SIZE(rn, rt) * PEERS : 0)
COLLECTIVE(gatherv, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *at, fint *rt, fint *root, fint *c, fint *error),
           (sb, sn, st, rb, rn, at, rt, root, c, error), GATHERV, c, *root, SIZE(sn, st), IS_ROOT ? cvm_sum(rn, TYPE(rt), PEERS) : 0)
COLLECTIVE(scatter, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *rt, fint *root, fint *c, fint *error),
           (sb, sn, st, rb, rn, rt, root, c, error), SCATTER, c, *root, IS_ROOT ? SIZE(sn, st) * PEERS : 0, SIZE(rn, rt))
COLLECTIVE(scatterv, (void *sb, fint *sn, fint *at, fint *st, void *rb, fint *rn, fint *rt, fint *root, fint *c, fint *error),
           (sb, sn, at, st, rb, rn, rt, root, c, error), SCATTERV, c, *root, IS_ROOT ? cvm_sum(sn, TYPE(st), PEERS) : 0, SIZE(rn, rt))
COLLECTIVE(allgather, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *rt, fint *c, fint *error),
           (sb, sn, st, rb, rn, rt, c, error), ALLGATHER, c, -1, SIZE(rn, rt), SIZE(rn, rt) * PEERS)
COLLECTIVE(allgatherv, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *at, fint *rt, fint *c, fint *error),
           (sb, sn, st, rb, rn, at, rt, c, error), ALLGATHERV, c, -1, SIZE(sn, st), cvm_sum(rn, TYPE(rt), PEERS))
COLLECTIVE(alltoall, (void *sb, fint *sn, fint *st, void *rb, fint *rn, fint *rt, fint *c, fint *error), (sb, sn, st, rb, rn, rt, c, error),
           ALLTOALL, c, -1, SIZE(rn, rt) * PEERS, SIZE(rn, rt) * PEERS)
COLLECTIVE(alltoallv, (void *sb, fint *sn, fint *sat, fint *st, void *rb, fint *rn, fint *rat, fint *rt, fint *c, fint *error),
           (sb, sn, sat, st, rb, rn, rat, rt, c, error), ALLTOALLV, c, -1, cvm_sum(rn, TYPE(rt), PEERS), cvm_sum(rn, TYPE(rt), PEERS))
COLLECTIVE(reduce, (void *sb, void *rb, fint *n, fint *t, fint *op, fint *root, fint *c, fint *error), (sb, rb, n, t, op, root, c, error),
           REDUCE, c, *root, SIZE(n, t), IS_ROOT ? SIZE(n, t) : 0)
COLLECTIVE(allreduce, (void *sb, void *rb, fint *n, fint *t, fint *op, fint *c, fint *error), (sb, rb, n, t, op, c, error), ALLREDUCE, c,
           -1, SIZE(n, t), SIZE(n, t))
COLLECTIVE(reduce_scatter, (void *sb, void *rb, fint *n, fint *t, fint *op, fint *c, fint *error), (sb, rb, n, t, op, c, error),
           REDUCE_SCATTER, c, -1, cvm_sum(n, TYPE(t), PEERS), PEERS > 0 ? cvm_sum(n, TYPE(t), PEERS) / PEERS : 0)
COLLECTIVE(scan, (void *sb, void *rb, fint *n, fint *t, fint *op, fint *c, fint *error), (sb, rb, n, t, op, c, error), SCAN, c, -1,
           SIZE(n, t), SIZE(n, t))

/* --- communicators --------------------------------------------------------------------------------------------------------------- */

#define MAKE(NAME, P, A) \
    void F(NAME) P { RECORDED(NAME, A, cvm_collective(&s, CV_OP_BARRIER, COMM(c), -1, 0, 0, NULL); cvm_comm_new(&s, COMM(made), COMM(c))) }
MAKE(comm_dup, (fint * c, fint *made, fint *error), (c, made, error))
MAKE(comm_split, (fint * c, fint *color, fint *key, fint *made, fint *error), (c, color, key, made, error))
MAKE(comm_create, (fint * c, fint *group, fint *made, fint *error), (c, group, made, error))
MAKE(cart_create, (fint * c, fint *n, fint *dims, fint *periods, fint *reorder, fint *made, fint *error),
     (c, n, dims, periods, reorder, made, error))
MAKE(cart_sub, (fint * c, fint *remain, fint *made, fint *error), (c, remain, made, error))

void F(comm_free)(fint *comm, fint *error)
{
    REAL(comm_free)
    cvm_scope s = cvm_enter();
    if (s.outer)
        cvm_comm_forget(COMM(comm));
    real(comm, error);
    cvm_leave(&s);
    cvm_close(&s);
}
