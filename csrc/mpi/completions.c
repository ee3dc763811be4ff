/* Waits and tests: each completed request becomes a record. */
#include <stdlib.h>

#include "recorder.h"

int MPI_Wait(MPI_Request *q, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    uint64_t key = CVM_KEY(*q);
    cvm_scope s = cvm_enter();
    int result = PMPI_Wait(q, seen);
    cvm_leave(&s);
    cvm_completed(&s, key, seen);
    cvm_close(&s);
    return result;
}

int MPI_Test(MPI_Request *q, int *flag, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    uint64_t key = CVM_KEY(*q);
    cvm_scope s = cvm_enter();
    int result = PMPI_Test(q, flag, seen);
    cvm_leave(&s);
    if (*flag)
        cvm_completed(&s, key, seen);
    cvm_close(&s);
    return result;
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

int MPI_Waitall(int n, MPI_Request *q, MPI_Status *statuses)
{
    room m;
    make_room(&m, n, q, statuses);
    cvm_scope s = cvm_enter();
    int result = PMPI_Waitall(n, q, m.statuses);
    cvm_leave(&s);
    for (int i = 0; s.outer && i < n; i++)
        cvm_completed(&s, m.keys[i], &m.statuses[i]);
    cvm_close(&s);
    free_room(&m, statuses);
    return result;
}

int MPI_Testall(int n, MPI_Request *q, int *flag, MPI_Status *statuses)
{
    room m;
    make_room(&m, n, q, statuses);
    cvm_scope s = cvm_enter();
    int result = PMPI_Testall(n, q, flag, m.statuses);
    cvm_leave(&s);
    for (int i = 0; s.outer && *flag && i < n; i++)
        cvm_completed(&s, m.keys[i], &m.statuses[i]);
    cvm_close(&s);
    free_room(&m, statuses);
    return result;
}

int MPI_Waitany(int n, MPI_Request *q, int *index, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    room m;
    make_room(&m, n, q, m.few);
    cvm_scope s = cvm_enter();
    int result = PMPI_Waitany(n, q, index, seen);
    cvm_leave(&s);
    if (s.outer && *index != MPI_UNDEFINED)
        cvm_completed(&s, m.keys[*index], seen);
    cvm_close(&s);
    free_room(&m, m.few);
    return result;
}

int MPI_Testany(int n, MPI_Request *q, int *index, int *flag, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    room m;
    make_room(&m, n, q, m.few);
    cvm_scope s = cvm_enter();
    int result = PMPI_Testany(n, q, index, flag, seen);
    cvm_leave(&s);
    if (s.outer && *flag && *index != MPI_UNDEFINED)
        cvm_completed(&s, m.keys[*index], seen);
    cvm_close(&s);
    free_room(&m, m.few);
    return result;
}

#define SOME(NAME)                                                                        \
    int MPI_##NAME(int n, MPI_Request *q, int *count, int *indices, MPI_Status *statuses) \
    {                                                                                     \
        room m;                                                                           \
        make_room(&m, n, q, statuses);                                                    \
        cvm_scope s = cvm_enter();                                                        \
        int result = PMPI_##NAME(n, q, count, indices, m.statuses);                       \
        cvm_leave(&s);                                                                    \
        for (int i = 0; s.outer && *count != MPI_UNDEFINED && i < *count; i++)            \
            cvm_completed(&s, m.keys[indices[i]], &m.statuses[i]);                        \
        cvm_close(&s);                                                                    \
        free_room(&m, statuses);                                                          \
        return result;                                                                    \
    }
SOME(Waitsome)
SOME(Testsome)
