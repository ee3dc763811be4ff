/* Probes, and the messages that matched ones took out of the queue. */
#include "recorder.h"

/* A matched probe leaves the queue; its receive names the message by a handle: the source was kept in the status of the probe. */
int MPI_Probe(int from, int tag, MPI_Comm c, MPI_Status *status) { CVM_RECORDED(PMPI_Probe(from, tag, c, status), ) }

int MPI_Iprobe(int from, int tag, MPI_Comm c, int *flag, MPI_Status *status) { CVM_RECORDED(PMPI_Iprobe(from, tag, c, flag, status), ) }

static struct {
    uint64_t key;
    MPI_Comm comm;
} matched[64];

static void remember(MPI_Message message, MPI_Comm comm)
{
    for (int i = 0; i < 64; i++)
        if (matched[i].key == 0) {
            matched[i].key = CVM_KEY(message);
            matched[i].comm = comm;
            return;
        }
}

static MPI_Comm recall(uint64_t key)
{
    for (int i = 0; i < 64; i++)
        if (matched[i].key == key) {
            matched[i].key = 0;
            return matched[i].comm;
        }
    return MPI_COMM_WORLD;
}

int MPI_Mprobe(int from, int tag, MPI_Comm c, MPI_Message *message, MPI_Status *status)
{
    CVM_RECORDED(PMPI_Mprobe(from, tag, c, message, status), remember(*message, c))
}

int MPI_Improbe(int from, int tag, MPI_Comm c, int *flag, MPI_Message *message, MPI_Status *status)
{
    CVM_RECORDED(PMPI_Improbe(from, tag, c, flag, message, status), if (*flag) remember(*message, c))
}

int MPI_Mrecv(void *b, int n, MPI_Datatype t, MPI_Message *message, MPI_Status *status)
{
    MPI_Status own, *seen = status == MPI_STATUS_IGNORE ? &own : status;
    uint64_t key = CVM_KEY(*message);
    CVM_RECORDED(PMPI_Mrecv(b, n, t, message, seen), cvm_received(&s, seen->MPI_SOURCE, seen->MPI_TAG, recall(key), seen, n, t))
}

int MPI_Imrecv(void *b, int n, MPI_Datatype t, MPI_Message *message, MPI_Request *q)
{
    uint64_t key = CVM_KEY(*message);
    CVM_RECORDED(PMPI_Imrecv(b, n, t, message, q), cvm_posted(&s, false, n, t, MPI_ANY_SOURCE, MPI_ANY_TAG, recall(key), *q, false))
}
