/* Collectives, blocking and not. Sizes: sent is what this task gives to the operation, received what it gets. */
#include "cv_mpi_events.h"
#include "recorder.h"

int cvm_peers(MPI_Comm comm) { return cvm_comm_size(cvm_comm(comm)); }

int64_t cvm_sum(const int *counts, MPI_Datatype type, int n)
{
    int64_t sum = 0;
    for (int i = 0; counts && i < n; i++)
        sum += counts[i];
    return sum * cvm_bytes(1, type);
}

static int64_t sum_types(const int *counts, const MPI_Datatype *types, int n)
{
    int64_t sum = 0;
    for (int i = 0; counts && types && i < n; i++)
        sum += cvm_bytes(counts[i], types[i]);
    return sum;
}

void cvm_collective(cvm_scope *s, int op, MPI_Comm comm, int root, int64_t sent, int64_t received, const MPI_Request *request)
{
    uint32_t id = cvm_comm(comm);
    struct cvm_record record = {.call = request ? CVM_ICOLLECTIVE : CVM_COLLECTIVE,
                                .op = (uint16_t)op,
                                .comm = id,
                                .bytes = sent,
                                .extra = received,
                                .partner = root < 0 ? -1 : cvm_world_rank(id, root)};
    if (!s->outer)
        return;
    if (request) {
        cvm_request *q = *request == MPI_REQUEST_NULL ? NULL : cvm_request_add(CVM_KEY(*request));
        record.request = cvm_serial();
        if (q)
            *q = (cvm_request){.key = q->key,
                               .serial = record.request,
                               .comm = id,
                               .op = (uint16_t)op,
                               .call = CVM_ICOLLECTIVE,
                               .active = true,
                               .partner = record.partner};
    }
    cvm_put(s, record);
}

bool cvm_is_root(MPI_Comm comm, int root)
{
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank == root || root == MPI_ROOT;
}

#define UNPACK(...) __VA_ARGS__

/* Both forms of a collective, INAME the non-blocking one: P parameters, A arguments, C communicator, ROOT root or -1, SENT and RECEIVED
 * bytes. MPI_IN_PLACE as send buffer means that the receive side says what is sent. */
#define BOTH(NAME, INAME, OP, P, A, C, ROOT, SENT, RECEIVED)                                                                        \
    int MPI_##NAME(UNPACK P) { CVM_RECORDED(PMPI_##NAME(UNPACK A), cvm_collective(&s, CV_OP_##OP, C, ROOT, SENT, RECEIVED, NULL)) } \
    int MPI_##INAME(UNPACK P, MPI_Request *request)                                                                                 \
    {                                                                                                                               \
        CVM_RECORDED(PMPI_##INAME(UNPACK A, request), cvm_collective(&s, CV_OP_##OP, C, ROOT, SENT, RECEIVED, request))             \
    }

typedef MPI_Datatype type_t;
typedef MPI_Comm comm_t;

BOTH(Barrier, Ibarrier, BARRIER, (comm_t c), (c), c, -1, 0, 0)
BOTH(Bcast, Ibcast, BCAST, (void *b, int n, type_t t, int root, comm_t c), (b, n, t, root, c), c, root,
     cvm_is_root(c, root) ? cvm_bytes(n, t) : 0, cvm_bytes(n, t))
BOTH(Gather, Igather, GATHER, (const void *sb, int sn, type_t st, void *rb, int rn, type_t rt, int root, comm_t c),
     (sb, sn, st, rb, rn, rt, root, c), c, root, sb == MPI_IN_PLACE ? cvm_bytes(rn, rt) : cvm_bytes(sn, st),
     cvm_is_root(c, root) ? cvm_bytes(rn, rt) * cvm_peers(c) : 0)
BOTH(Gatherv, Igatherv, GATHERV, (const void *sb, int sn, type_t st, void *rb, const int *rn, const int *at, type_t rt, int root, comm_t c),
     (sb, sn, st, rb, rn, at, rt, root, c), c, root, sb == MPI_IN_PLACE ? 0 : cvm_bytes(sn, st),
     cvm_is_root(c, root) ? cvm_sum(rn, rt, cvm_peers(c)) : 0)
BOTH(Scatter, Iscatter, SCATTER, (const void *sb, int sn, type_t st, void *rb, int rn, type_t rt, int root, comm_t c),
     (sb, sn, st, rb, rn, rt, root, c), c, root, cvm_is_root(c, root) ? cvm_bytes(sn, st) * cvm_peers(c) : 0,
     rb == MPI_IN_PLACE ? cvm_bytes(sn, st) : cvm_bytes(rn, rt))
BOTH(Scatterv, Iscatterv, SCATTERV,
     (const void *sb, const int *sn, const int *at, type_t st, void *rb, int rn, type_t rt, int root, comm_t c),
     (sb, sn, at, st, rb, rn, rt, root, c), c, root, cvm_is_root(c, root) ? cvm_sum(sn, st, cvm_peers(c)) : 0,
     rb == MPI_IN_PLACE ? 0 : cvm_bytes(rn, rt))
BOTH(Allgather, Iallgather, ALLGATHER, (const void *sb, int sn, type_t st, void *rb, int rn, type_t rt, comm_t c),
     (sb, sn, st, rb, rn, rt, c), c, -1, sb == MPI_IN_PLACE ? cvm_bytes(rn, rt) : cvm_bytes(sn, st), cvm_bytes(rn, rt) * cvm_peers(c))
BOTH(Allgatherv, Iallgatherv, ALLGATHERV, (const void *sb, int sn, type_t st, void *rb, const int *rn, const int *at, type_t rt, comm_t c),
     (sb, sn, st, rb, rn, at, rt, c), c, -1, sb == MPI_IN_PLACE ? 0 : cvm_bytes(sn, st), cvm_sum(rn, rt, cvm_peers(c)))
BOTH(Alltoall, Ialltoall, ALLTOALL, (const void *sb, int sn, type_t st, void *rb, int rn, type_t rt, comm_t c), (sb, sn, st, rb, rn, rt, c),
     c, -1, (sb == MPI_IN_PLACE ? cvm_bytes(rn, rt) : cvm_bytes(sn, st)) * cvm_peers(c), cvm_bytes(rn, rt) * cvm_peers(c))
BOTH(Alltoallv, Ialltoallv, ALLTOALLV,
     (const void *sb, const int *sn, const int *sat, type_t st, void *rb, const int *rn, const int *rat, type_t rt, comm_t c),
     (sb, sn, sat, st, rb, rn, rat, rt, c), c, -1, sb == MPI_IN_PLACE ? cvm_sum(rn, rt, cvm_peers(c)) : cvm_sum(sn, st, cvm_peers(c)),
     cvm_sum(rn, rt, cvm_peers(c)))
BOTH(Alltoallw, Ialltoallw, ALLTOALLW,
     (const void *sb, const int *sn, const int *sat, const type_t *st, void *rb, const int *rn, const int *rat, const type_t *rt, comm_t c),
     (sb, sn, sat, st, rb, rn, rat, rt, c), c, -1, sb == MPI_IN_PLACE ? sum_types(rn, rt, cvm_peers(c)) : sum_types(sn, st, cvm_peers(c)),
     sum_types(rn, rt, cvm_peers(c)))
BOTH(Reduce, Ireduce, REDUCE, (const void *sb, void *rb, int n, type_t t, MPI_Op op, int root, comm_t c), (sb, rb, n, t, op, root, c), c,
     root, cvm_bytes(n, t), cvm_is_root(c, root) ? cvm_bytes(n, t) : 0)
BOTH(Allreduce, Iallreduce, ALLREDUCE, (const void *sb, void *rb, int n, type_t t, MPI_Op op, comm_t c), (sb, rb, n, t, op, c), c, -1,
     cvm_bytes(n, t), cvm_bytes(n, t))
BOTH(Reduce_scatter, Ireduce_scatter, REDUCE_SCATTER, (const void *sb, void *rb, const int *n, type_t t, MPI_Op op, comm_t c),
     (sb, rb, n, t, op, c), c, -1, cvm_sum(n, t, cvm_peers(c)), cvm_sum(n, t, cvm_peers(c)) / (cvm_peers(c) > 0 ? cvm_peers(c) : 1))
BOTH(Reduce_scatter_block, Ireduce_scatter_block, REDUCE_SCATTER_BLOCK, (const void *sb, void *rb, int n, type_t t, MPI_Op op, comm_t c),
     (sb, rb, n, t, op, c), c, -1, cvm_bytes(n, t) * cvm_peers(c), cvm_bytes(n, t))
BOTH(Scan, Iscan, SCAN, (const void *sb, void *rb, int n, type_t t, MPI_Op op, comm_t c), (sb, rb, n, t, op, c), c, -1, cvm_bytes(n, t),
     cvm_bytes(n, t))
BOTH(Exscan, Iexscan, SCAN, (const void *sb, void *rb, int n, type_t t, MPI_Op op, comm_t c), (sb, rb, n, t, op, c), c, -1, cvm_bytes(n, t),
     cvm_bytes(n, t))
/* Neighborhood collectives count as their global counterparts with the bytes of one neighbor. */
BOTH(Neighbor_allgather, Ineighbor_allgather, ALLGATHER, (const void *sb, int sn, type_t st, void *rb, int rn, type_t rt, comm_t c),
     (sb, sn, st, rb, rn, rt, c), c, -1, cvm_bytes(sn, st), cvm_bytes(rn, rt))
BOTH(Neighbor_alltoall, Ineighbor_alltoall, ALLTOALL, (const void *sb, int sn, type_t st, void *rb, int rn, type_t rt, comm_t c),
     (sb, sn, st, rb, rn, rt, c), c, -1, cvm_bytes(sn, st), cvm_bytes(rn, rt))
