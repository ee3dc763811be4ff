/* Numbers of MPI events as the .dim format has them: for the replay core, the interposer and the player (csrc/mpi). Freestanding. */
#ifndef CV_MPI_EVENTS_H
#define CV_MPI_EVENTS_H

enum cv_replay_kind {
    CV_REPLAY_NOOP = 0,
    CV_REPLAY_BURST = 1,
    CV_REPLAY_SEND = 2,
    CV_REPLAY_RECV = 3,
    CV_REPLAY_IRECV = 4,
    CV_REPLAY_WAIT = 5,
    CV_REPLAY_COLLECTIVE = 6,
    CV_REPLAY_EVENT = 7,
    CV_REPLAY_GPU = 8,
    CV_REPLAY_SEND_WAIT = 9 /* for an immediate send, of which it repeats partner, tag, bytes and flags; Dimemas has none */
};

enum cv_replay_send_flags { CV_REPLAY_RENDEZVOUS = 1, CV_REPLAY_IMMEDIATE = 2 };

enum cv_replay_sync { CV_REPLAY_NONBLOCKING = 0, CV_REPLAY_BLOCKING = 1, CV_REPLAY_WAIT_NONBLOCKING = 2, CV_REPLAY_ROOT_SYNC = 3 };

enum cv_mpi_op {
    CV_OP_BARRIER = 0,
    CV_OP_BCAST = 1,
    CV_OP_GATHER = 2,
    CV_OP_GATHERV = 3,
    CV_OP_SCATTER = 4,
    CV_OP_SCATTERV = 5,
    CV_OP_ALLGATHER = 6,
    CV_OP_ALLGATHERV = 7,
    CV_OP_ALLTOALL = 8,
    CV_OP_ALLTOALLV = 9,
    CV_OP_REDUCE = 10,
    CV_OP_ALLREDUCE = 11,
    CV_OP_REDUCE_SCATTER = 12,
    CV_OP_REDUCE_SCATTER_BLOCK = 13,
    CV_OP_SCAN = 14,
    CV_OP_ALLTOALLW = 15,
    CV_OPS = 16
};

#endif
