/* Queues of messages (and of collectives that want the machine's buses), linked through the elements themselves, and the pool of messages.
 */
#include "internal.h"

void cv_fifo_append(simulation *s, fifo *list, uint32_t reference)
{
    *next_of(s, reference) = NONE;
    if (list->head == NONE)
        list->head = reference;
    else
        *next_of(s, list->tail) = reference;
    list->tail = reference;
    list->count++;
}

void cv_fifo_prepend(simulation *s, fifo *list, uint32_t reference)
{
    *next_of(s, reference) = list->head;
    if (list->head == NONE)
        list->tail = reference;
    list->head = reference;
    list->count++;
}

uint32_t cv_fifo_take(simulation *s, fifo *list)
{
    uint32_t first = list->head;
    if (first != NONE) {
        list->head = *next_of(s, first);
        if (list->head == NONE)
            list->tail = NONE;
        list->count--;
    }
    return first;
}

void cv_fifo_remove(simulation *s, fifo *list, uint32_t reference)
{
    uint32_t before = NONE;
    for (uint32_t at = list->head; at != NONE; before = at, at = *next_of(s, at)) {
        if (at != reference)
            continue;
        if (before == NONE)
            list->head = *next_of(s, at);
        else
            *next_of(s, before) = *next_of(s, at);
        if (list->tail == at)
            list->tail = before;
        list->count--;
        return;
    }
}

uint32_t cv_message_new(simulation *s, uint32_t rank, uint32_t destination, const record *r)
{
    rank_state *k = &s->ranks[rank];
    uint32_t id = s->message_free;
    if (id != NONE) {
        s->message_free = s->messages[id].next;
    } else {
        if (s->message_count >= COLLECTIVE_BIT - 1 || !CV_ROOM(s->messages, s->message_capacity, s->message_count)) {
            s->no_memory = true;
            return NONE;
        }
        id = s->message_count++;
    }
    s->messages[id] = (message){.bytes = r->bytes,
                                .record = k->next - s->trace->trace.first[rank],
                                .logical_send = s->now,
                                .request = s->now,
                                .source = rank,
                                .destination = destination,
                                .channel = r->where,
                                .next = NONE,
                                .older = NONE,
                                .newer = NONE,
                                .inside = node_of(s, rank) == node_of(s, destination),
                                .uses = 1};
    k->messages_sent++;
    k->bytes_sent += (uint64_t)r->bytes;
    return id;
}

void cv_message_free(simulation *s, uint32_t id)
{
    if (--s->messages[id].uses)
        return;
    s->messages[id].next = s->message_free;
    s->message_free = id;
}
