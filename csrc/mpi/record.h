/* The file that the interposer writes: one a rank, `rank-NNNNN.cvm`, little-endian. The C core knows the layout for
 * the reader (convolver/mpi/recorded_ranks.py), and docs/formats/mpi_recording.md describes it.
 *
 * A header page, then records of 64 bytes. The file is mapped while it is written, and `used` counts the bytes of whole records,
 * so it is complete up to the last finished call after any end of the process, SIGKILL included. */
#ifndef CVM_RECORD_H
#define CVM_RECORD_H

#include <stdint.h>

#define CVM_VERSION 1
#define CVM_HEADER_BYTES 4096

enum cvm_end { CVM_RUNNING = 0, CVM_FINALIZED = 1, CVM_ABORTED = 2 };

struct cvm_header {
    char magic[8]; /* "CVMPI01\n" */
    uint32_t version, rank, size, pid;
    uint64_t used;     /* bytes of records after the header page */
    uint64_t begin_ns; /* monotonic clock when MPI_Init returned */
    uint64_t end_ns;   /* when MPI_Finalize was called, else of the last record */
    uint32_t end;      /* enum cvm_end */
    uint32_t lost;     /* 1: recording stopped early because the file could not grow */
    char host[64];
    char library[128];  /* name of the MPI library */
    uint64_t own_ns;    /* spent in the interposer itself, in no burst and no call */
    uint64_t polled_ns; /* inside calls that left no record: unsuccessful tests and probes */
    uint32_t counted;   /* 1: burst_cpu_ns of the records are instructions (under the tracer) */
};

enum cvm_call {
    CVM_SEND = 1,      /* blocking */
    CVM_ISEND = 2,     /* request */
    CVM_RECV = 3,      /* partner and tag resolved */
    CVM_IRECV = 4,     /* request; partner -1 and tag -1 when a wildcard is resolved by its completion */
    CVM_DONE_SEND = 5, /* a wait or successful test completed the request */
    CVM_DONE_RECV = 6, /* the same; partner, tag and bytes as received */
    CVM_COLLECTIVE = 7,
    CVM_ICOLLECTIVE = 8,
    CVM_DONE_COLLECTIVE = 9,
    CVM_COMM = 10,    /* comm: new id; bytes: members, in the 16 words a record that follow; extra: parent id + 1 or 0 */
    CVM_MEMBERS = 11, /* never in `call`: payload of CVM_COMM */
    CVM_OPAQUE = 12,  /* op: enum cvm_opaque */
    CVM_FREED = 13    /* the request was freed or cancelled without a completion */
};

enum cvm_flags { CVM_CONTINUES = 1 /* another result of the same MPI call: no burst before it */, CVM_SYNCHRONOUS = 2 };

struct cvm_record {
    uint8_t call, flags;
    uint16_t op;     /* collective: number as in .dim */
    int32_t partner; /* task of MPI_COMM_WORLD; collective: the root's task or -1; -2: MPI_PROC_NULL */
    int32_t tag;
    uint32_t comm;                   /* this rank's number of the communicator; 0 is MPI_COMM_WORLD, 1 MPI_COMM_SELF */
    uint32_t request;                /* serial number of the request, from 1 */
    uint32_t polled_ns;              /* inside calls without a record since the record before; at most 4.29 s */
    int64_t bytes;                   /* collective: sent */
    int64_t extra;                   /* collective: received */
    uint64_t burst_ns, burst_cpu_ns; /* computation before the call: elapsed time, thread CPU time (or instructions) */
    uint64_t call_ns;                /* inside the call */
};

_Static_assert(sizeof(struct cvm_record) == 64, "recording layout");

#endif
