/* Waits and tests: each completed request becomes a record. */
#include <stdlib.h>

#include "recorder.h"

int MPI_Wait(MPI_Request *q, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    uint64_t key = CVM_KEY(*q);
    CVM_RECORDED(PMPI_Wait(q, seen), cvm_completed(&s, key, seen))
}

int MPI_Test(MPI_Request *q, int *flag, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    uint64_t key = CVM_KEY(*q);
    CVM_RECORDED(PMPI_Test(q, flag, seen), if (*flag) cvm_completed(&s, key, seen))
}

/* Room for the keys and statuses of the many-request calls. */
enum { FEW = 64 };
typedef struct {
    uint64_t few_keys[FEW], *keys;
    MPI_Status few[FEW], *statuses;
} room;

static void make_room(room *m, int n, const MPI_Request *q, MPI_Status *given)
{
    m->keys = n > FEW ? malloc((size_t)n * sizeof *m->keys) : m->few_keys;
    m->statuses = given != MPI_STATUSES_IGNORE ? given : n > FEW ? malloc((size_t)n * sizeof *m->statuses) : m->few;
    for (int i = 0; m->keys && i < n; i++)
        m->keys[i] = CVM_KEY(q[i]);
}

static void free_room(room *m, const MPI_Status *given)
{
    if (m->keys != m->few_keys)
        free(m->keys);
    if (m->statuses != given && m->statuses != m->few)
        free(m->statuses);
}

/* A call for several requests. */
#define SEVERAL(CALL, STATUSES, RECORD)      \
    room m;                                  \
    make_room(&m, n, q, STATUSES);           \
    CVM_BRACKETED(int result = CALL, RECORD) \
    free_room(&m, STATUSES);                 \
    return result;

static void all_completed(cvm_scope *s, room *m, int n)
{
    for (int i = 0; i < n; i++)
        cvm_completed(s, m->keys[i], &m->statuses[i]);
}

int MPI_Waitall(int n, MPI_Request *q, MPI_Status *statuses) { SEVERAL(PMPI_Waitall(n, q, m.statuses), statuses, all_completed(&s, &m, n)) }

int MPI_Testall(int n, MPI_Request *q, int *flag, MPI_Status *statuses)
{
    SEVERAL(PMPI_Testall(n, q, flag, m.statuses), statuses, all_completed(&s, &m, *flag ? n : 0))
}

int MPI_Waitany(int n, MPI_Request *q, int *index, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    SEVERAL(PMPI_Waitany(n, q, index, seen), m.few, if (*index != MPI_UNDEFINED) cvm_completed(&s, m.keys[*index], seen))
}

int MPI_Testany(int n, MPI_Request *q, int *index, int *flag, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    SEVERAL(PMPI_Testany(n, q, index, flag, seen), m.few, if (*flag && *index != MPI_UNDEFINED) cvm_completed(&s, m.keys[*index], seen))
}

#define SOME(NAME)                                                                                                                 \
    int MPI_##NAME(int n, MPI_Request *q, int *count, int *indices, MPI_Status *statuses)                                          \
    {                                                                                                                              \
        SEVERAL(PMPI_##NAME(n, q, count, indices, m.statuses), statuses,                                                           \
                for (int i = 0; *count != MPI_UNDEFINED && i < *count; i++) cvm_completed(&s, m.keys[indices[i]], &m.statuses[i])) \
    }
SOME(Waitsome)
SOME(Testsome)
