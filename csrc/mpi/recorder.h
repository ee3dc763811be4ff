/* Inside of the interposer: one recorder a process. */
#ifndef CVM_RECORDER_H
#define CVM_RECORDER_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "record.h"

/* Handles are pointers in Open MPI and integers in MPICH. */
#define CVM_KEY(handle) ((uint64_t)(uintptr_t)(handle))

typedef struct {
    uint64_t begin; /* when the call was entered; after cvm_leave its duration */
    uint64_t entered;
    bool outer; /* false: called from inside another MPI call, or nothing is recorded */
    bool first;
} cvm_scope;

void cvm_start(void);
void cvm_stop(enum cvm_end end);

/* Brackets an MPI call. cvm_leave takes the time; then come the records; cvm_close begins the next burst. */
cvm_scope cvm_enter(void);
void cvm_leave(cvm_scope *scope);
void cvm_close(cvm_scope *scope);

/* The body of an MPI function: CALL the library's own one, RECORD what an outer call leaves. */
#define CVM_BRACKETED(CALL, RECORD) \
    cvm_scope s = cvm_enter();      \
    CALL;                           \
    cvm_leave(&s);                  \
    if (s.outer) {                  \
        RECORD;                     \
    }                               \
    cvm_close(&s);
#define CVM_RECORDED(CALL, RECORD)           \
    CVM_BRACKETED(int result = CALL, RECORD) \
    return result;

/* Writes a record of the call; the first one of a scope carries the burst and the call's time. */
void cvm_put(cvm_scope *scope, struct cvm_record record);

/* Communicators: number of a handle and world rank of a member. */
uint32_t cvm_comm(MPI_Comm comm);
int cvm_world_rank(uint32_t comm, int rank);
int cvm_comm_size(uint32_t comm);
void cvm_comm_new(cvm_scope *scope, MPI_Comm comm, MPI_Comm parent);
void cvm_comm_forget(MPI_Comm comm);

/* Requests: what a completion has to know. */
typedef struct {
    uint64_t key;
    uint32_t serial, comm;
    uint16_t op;
    uint8_t call; /* CVM_ISEND, CVM_IRECV, CVM_ICOLLECTIVE */
    bool persistent, active;
    int32_t partner, tag;
    int64_t bytes;
} cvm_request;

cvm_request *cvm_request_find(uint64_t key);
cvm_request *cvm_request_add(uint64_t key);
void cvm_request_drop(uint64_t key);
uint32_t cvm_serial(void);

static inline int64_t cvm_bytes(int count, MPI_Datatype type)
{
    int size = 0;
    PMPI_Type_size(type, &size);
    return (int64_t)count * size;
}

/* p2p.c, for completions.c and the Fortran layer too */
void cvm_sent(cvm_scope *s, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, bool synchronous);
void cvm_received(cvm_scope *s, int from, int tag, MPI_Comm comm, MPI_Status *status, int count, MPI_Datatype type);
void cvm_posted(cvm_scope *s, bool send, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request request,
                bool synchronous);
void cvm_prepared(bool send, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request request);
void cvm_started(cvm_scope *s, uint64_t key);
void cvm_completed(cvm_scope *s, uint64_t key, const MPI_Status *status);
void cvm_dropped(cvm_scope *s, uint64_t key);

/* bursts.c: nothing outside Convolver's tracer. `record`: number of the record that the burst before this call will stand in. */
void cvm_bursts_open(const char *folder, int rank);
void cvm_bursts_begin(void);
void cvm_bursts_end(uint64_t record);
void cvm_bursts_close(void);

/* collectives.c */
void cvm_collective(cvm_scope *s, int op, MPI_Comm comm, int root, int64_t sent, int64_t received, const MPI_Request *request);
int64_t cvm_sum(const int *counts, MPI_Datatype type, int n);
int cvm_peers(MPI_Comm comm);
bool cvm_is_root(MPI_Comm comm, int root);

#endif
