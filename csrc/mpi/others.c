/* Start and end, communicators, and what is only seen from outside: one-sided operations. */
#include <stdlib.h>

#include "cv_mpi_events.h"
#include "recorder.h"

int MPI_Init(int *argc, char ***argv)
{
    int result = PMPI_Init(argc, argv);
    cvm_start();
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int result = PMPI_Init_thread(argc, argv, required, provided);
    cvm_start();
    return result;
}

int MPI_Finalize(void)
{
    cvm_stop(CVM_FINALIZED);
    return PMPI_Finalize();
}

int MPI_Abort(MPI_Comm comm, int code)
{
    cvm_stop(CVM_ABORTED);
    return PMPI_Abort(comm, code);
}

/* A communicator is made by its parent's members together: the replay takes that as a barrier. */
#define MAKE(NAME, P, A, PARENT, TOGETHER)                                                                   \
    int MPI_##NAME P                                                                                         \
    {                                                                                                        \
        CVM_RECORDED(PMPI_##NAME A, if (TOGETHER) cvm_collective(&s, CV_OP_BARRIER, PARENT, -1, 0, 0, NULL); \
                     cvm_comm_new(&s, *made, PARENT))                                                        \
    }

MAKE(Comm_dup, (MPI_Comm c, MPI_Comm *made), (c, made), c, true)
MAKE(Comm_idup, (MPI_Comm c, MPI_Comm *made, MPI_Request *q), (c, made, q), c, false)
MAKE(Comm_dup_with_info, (MPI_Comm c, MPI_Info i, MPI_Comm *made), (c, i, made), c, true)
MAKE(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *made), (c, color, key, made), c, true)
MAKE(Comm_split_type, (MPI_Comm c, int type, int key, MPI_Info i, MPI_Comm *made), (c, type, key, i, made), c, true)
MAKE(Comm_create, (MPI_Comm c, MPI_Group g, MPI_Comm *made), (c, g, made), c, true)
MAKE(Comm_create_group, (MPI_Comm c, MPI_Group g, int tag, MPI_Comm *made), (c, g, tag, made), c, false)
MAKE(Cart_create, (MPI_Comm c, int n, const int *dims, const int *periods, int reorder, MPI_Comm *made),
     (c, n, dims, periods, reorder, made), c, true)
MAKE(Cart_sub, (MPI_Comm c, const int *remain, MPI_Comm *made), (c, remain, made), c, true)
MAKE(Graph_create, (MPI_Comm c, int n, const int *index, const int *edges, int reorder, MPI_Comm *made),
     (c, n, index, edges, reorder, made), c, true)
MAKE(Dist_graph_create,
     (MPI_Comm c, int n, const int *sources, const int *degrees, const int *to, const int *weights, MPI_Info i, int reorder,
      MPI_Comm *made),
     (c, n, sources, degrees, to, weights, i, reorder, made), c, true)
MAKE(Dist_graph_create_adjacent,
     (MPI_Comm c, int in, const int *from, const int *from_weights, int out, const int *to, const int *to_weights, MPI_Info i, int reorder,
      MPI_Comm *made),
     (c, in, from, from_weights, out, to, to_weights, i, reorder, made), c, true)
MAKE(Intercomm_create, (MPI_Comm c, int leader, MPI_Comm peer, int remote, int tag, MPI_Comm *made), (c, leader, peer, remote, tag, made),
     c, true)
MAKE(Intercomm_merge, (MPI_Comm c, int high, MPI_Comm *made), (c, high, made), c, false)

int MPI_Comm_free(MPI_Comm *comm)
{
    cvm_scope s = cvm_enter();
    if (s.outer)
        cvm_comm_forget(*comm);
    int result = PMPI_Comm_free(comm);
    cvm_leave(&s);
    cvm_close(&s);
    return result;
}

/* One-sided operations: opaque events. */
#define OPAQUE(CODE, NAME, P, A) \
    int MPI_##NAME P { CVM_RECORDED(PMPI_##NAME A, cvm_put(&s, (struct cvm_record){.call = CVM_OPAQUE, .op = CODE})) }

OPAQUE(1, Put, (const void *b, int n, MPI_Datatype t, int to, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w),
       (b, n, t, to, at, tn, tt, w))
OPAQUE(2, Get, (void *b, int n, MPI_Datatype t, int to, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w), (b, n, t, to, at, tn, tt, w))
OPAQUE(3, Accumulate, (const void *b, int n, MPI_Datatype t, int to, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Op o, MPI_Win w),
       (b, n, t, to, at, tn, tt, o, w))
OPAQUE(4, Win_fence, (int assertion, MPI_Win w), (assertion, w))
OPAQUE(5, Win_lock, (int type, int rank, int assertion, MPI_Win w), (type, rank, assertion, w))
OPAQUE(6, Win_unlock, (int rank, MPI_Win w), (rank, w))
OPAQUE(7, Win_lock_all, (int assertion, MPI_Win w), (assertion, w))
OPAQUE(8, Win_unlock_all, (MPI_Win w), (w))
OPAQUE(9, Win_flush, (int rank, MPI_Win w), (rank, w))
OPAQUE(10, Win_flush_all, (MPI_Win w), (w))
OPAQUE(11, Win_post, (MPI_Group g, int assertion, MPI_Win w), (g, assertion, w))
OPAQUE(12, Win_start, (MPI_Group g, int assertion, MPI_Win w), (g, assertion, w))
OPAQUE(13, Win_complete, (MPI_Win w), (w))
OPAQUE(14, Win_wait, (MPI_Win w), (w))
OPAQUE(15, Get_accumulate,
       (const void *b, int n, MPI_Datatype t, void *rb, int rn, MPI_Datatype rt, int to, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Op o,
        MPI_Win w),
       (b, n, t, rb, rn, rt, to, at, tn, tt, o, w))
OPAQUE(16, Fetch_and_op, (const void *b, void *rb, MPI_Datatype t, int to, MPI_Aint at, MPI_Op o, MPI_Win w), (b, rb, t, to, at, o, w))
OPAQUE(17, Compare_and_swap, (const void *b, const void *cb, void *rb, MPI_Datatype t, int to, MPI_Aint at, MPI_Win w),
       (b, cb, rb, t, to, at, w))
OPAQUE(18, Rput, (const void *b, int n, MPI_Datatype t, int to, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w, MPI_Request *q),
       (b, n, t, to, at, tn, tt, w, q))
OPAQUE(19, Rget, (void *b, int n, MPI_Datatype t, int to, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Win w, MPI_Request *q),
       (b, n, t, to, at, tn, tt, w, q))
OPAQUE(20, Raccumulate,
       (const void *b, int n, MPI_Datatype t, int to, MPI_Aint at, int tn, MPI_Datatype tt, MPI_Op o, MPI_Win w, MPI_Request *q),
       (b, n, t, to, at, tn, tt, o, w, q))
OPAQUE(21, Win_flush_local, (int rank, MPI_Win w), (rank, w))
OPAQUE(22, Win_flush_local_all, (MPI_Win w), (w))
OPAQUE(23, Win_sync, (MPI_Win w), (w))
OPAQUE(24, Win_test, (MPI_Win w, int *flag), (w, flag))
OPAQUE(25, Win_create, (void *b, MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, MPI_Win *w), (b, n, unit, i, c, w))
OPAQUE(26, Win_allocate, (MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, void *b, MPI_Win *w), (n, unit, i, c, b, w))
OPAQUE(27, Win_free, (MPI_Win * w), (w))
