/* A decoder and simulators side by side: two buffers of batches go round between one writer and several readers. */
#include "cv_relay.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BATCHES 32 /* of a buffer: a millisecond of work and more, so that handing it over costs nothing, and little to wait for */
#define ROOM ((size_t)BATCHES * CV_TRACE_BATCH)
#define BUFFERS 2

typedef struct {
    uint64_t *address;
    uint32_t *owner;
    uint16_t *size;
    uint8_t *write;
    cv_batch about[BATCHES];
    size_t first[BATCHES + 1];
    size_t batches;
} cv_buffer;

typedef struct {
    cv_relay *relay;
    cv_sim *simulator;
    pthread_t thread;
    int started;
    uint64_t done; /* buffers simulated */
} cv_reader;

struct cv_relay {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    cv_buffer buffers[BUFFERS];
    uint64_t published; /* buffers handed to the readers so far */
    int stop;
    cv_status status;
    uint32_t count;
    cv_reader readers[];
};

/* Left in the middle when the relay is stopped. */
static cv_status simulate(const cv_relay *relay, cv_sim *simulator, const cv_buffer *buffer)
{
    cv_status status = CV_OK;
    for (size_t b = 0; b < buffer->batches && !status && !__atomic_load_n(&relay->stop, __ATOMIC_RELAXED); b++) {
        size_t first = buffer->first[b];
        cv_refs refs = {buffer->address + first, buffer->owner + first, buffer->size + first, buffer->write + first,
                        buffer->first[b + 1] - first};
        status = cv_trace_simulate(simulator, &refs, &buffer->about[b]);
    }
    return status;
}

static void *read_buffers(void *context)
{
    cv_reader *self = context;
    cv_relay *relay = self->relay;
    pthread_mutex_lock(&relay->lock);
    for (;;) {
        while (!relay->stop && self->done == relay->published)
            pthread_cond_wait(&relay->filled, &relay->lock);
        if (self->done == relay->published)
            break;
        const cv_buffer *buffer = &relay->buffers[self->done % BUFFERS];
        cv_status status = relay->status;
        pthread_mutex_unlock(&relay->lock);
        if (!status)
            status = simulate(relay, self->simulator, buffer);
        pthread_mutex_lock(&relay->lock);
        if (status && !relay->status)
            relay->status = status;
        self->done++;
        pthread_cond_signal(&relay->emptied);
    }
    pthread_mutex_unlock(&relay->lock);
    return NULL;
}

static uint64_t slowest(const cv_relay *relay)
{
    uint64_t done = relay->published;
    for (uint32_t r = 0; r < relay->count; r++)
        done = relay->readers[r].done < done ? relay->readers[r].done : done;
    return done;
}

/* Hand over the buffer that was filled, and wait until at most `unread` buffers are not simulated. */
static cv_status publish(cv_relay *relay, uint64_t unread)
{
    pthread_mutex_lock(&relay->lock);
    if (relay->buffers[relay->published % BUFFERS].batches) {
        relay->published++;
        pthread_cond_broadcast(&relay->filled);
    }
    assert(relay->published - slowest(relay) <= BUFFERS);
    while (relay->published - slowest(relay) > unread)
        pthread_cond_wait(&relay->emptied, &relay->lock);
    cv_status status = relay->status;
    relay->buffers[relay->published % BUFFERS].batches = 0;
    pthread_mutex_unlock(&relay->lock);
    return status;
}

static void append(cv_buffer *to, const cv_refs *refs, const cv_batch *batch)
{
    size_t first = to->first[to->batches];
    assert(to->batches < BATCHES && first + refs->count <= ROOM);
    memcpy(to->address + first, refs->address, refs->count * sizeof *to->address);
    memcpy(to->owner + first, refs->owner, refs->count * sizeof *to->owner);
    memcpy(to->size + first, refs->size, refs->count * sizeof *to->size);
    memcpy(to->write + first, refs->write, refs->count * sizeof *to->write);
    to->about[to->batches++] = *batch;
    to->first[to->batches] = first + refs->count;
}

cv_status cv_relay_sink(void *context, const cv_refs *refs, const cv_batch *batch)
{
    cv_relay *relay = context;
    if (batch->kind != CV_BATCH_WINDOW)
        return CV_OK;
    if (refs->count > CV_TRACE_BATCH || relay->stop)
        return CV_ERROR_ARGUMENT;
    cv_buffer *to = &relay->buffers[relay->published % BUFFERS];
    append(to, refs, batch);
    return to->batches == BATCHES ? publish(relay, BUFFERS - 1) : CV_OK;
}

cv_status cv_relay_drain(cv_relay *relay) { return relay->stop ? CV_ERROR_ARGUMENT : publish(relay, 0); }

static int reserve(cv_buffer *buffer)
{
    buffer->address = malloc(ROOM * sizeof *buffer->address);
    buffer->owner = malloc(ROOM * sizeof *buffer->owner);
    buffer->size = malloc(ROOM * sizeof *buffer->size);
    buffer->write = malloc(ROOM * sizeof *buffer->write);
    return buffer->address && buffer->owner && buffer->size && buffer->write;
}

cv_status cv_relay_new(cv_sim *const *simulators, uint32_t count, cv_relay **made)
{
    if (!count)
        return CV_ERROR_ARGUMENT;
    cv_relay *relay = calloc(1, sizeof *relay + count * sizeof *relay->readers);
    if (!relay)
        return CV_ERROR_MEMORY;
    relay->count = count;
    pthread_mutex_init(&relay->lock, NULL);
    pthread_cond_init(&relay->filled, NULL);
    pthread_cond_init(&relay->emptied, NULL);
    int ready = 1;
    for (int b = 0; b < BUFFERS; b++)
        ready &= reserve(&relay->buffers[b]);
    for (uint32_t r = 0; r < count && ready; r++) {
        relay->readers[r].relay = relay;
        relay->readers[r].simulator = simulators[r];
        ready = relay->readers[r].started = !pthread_create(&relay->readers[r].thread, NULL, read_buffers, &relay->readers[r]);
    }
    if (!ready) {
        cv_relay_free(relay);
        return CV_ERROR_MEMORY;
    }
    *made = relay;
    return CV_OK;
}

void cv_relay_stop(cv_relay *relay)
{
    pthread_mutex_lock(&relay->lock);
    __atomic_store_n(&relay->stop, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&relay->filled);
    pthread_mutex_unlock(&relay->lock);
    for (cv_reader *reader = relay->readers; reader < relay->readers + relay->count; reader++) {
        if (reader->started)
            pthread_join(reader->thread, NULL);
        reader->started = 0;
    }
}

void cv_relay_free(cv_relay *relay)
{
    if (!relay)
        return;
    cv_relay_stop(relay);
    for (int b = 0; b < BUFFERS; b++) {
        free(relay->buffers[b].address);
        free(relay->buffers[b].owner);
        free(relay->buffers[b].size);
        free(relay->buffers[b].write);
    }
    pthread_mutex_destroy(&relay->lock);
    pthread_cond_destroy(&relay->filled);
    pthread_cond_destroy(&relay->emptied);
    free(relay);
}
