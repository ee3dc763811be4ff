/* The optional timeline of a run: intervals of the ranks and messages, in the order in which they end. */
#include "internal.h"

void cv_record_interval(simulation *s, uint32_t rank, double begin, double end, enum cv_replay_state state, int64_t row, uint32_t cause)
{
    recorder *r = &s->recorder;
    if (!r->on || end <= begin)
        return;
    if (!CV_ROOM(r->intervals, r->interval_capacity, r->interval_count)) {
        s->no_memory = true;
        return;
    }
    int64_t at = s->ranks[rank].next - s->trace->trace.first[rank];
    r->intervals[r->interval_count++] = (cv_replay_interval){begin, end, at, row, rank, cause == NONE ? -1 : (int32_t)cause, state, 0};
}

int64_t cv_record_message(simulation *s, const message *m, double logical_receive)
{
    recorder *r = &s->recorder;
    if (!r->on)
        return -1;
    if (!CV_ROOM(r->messages, r->message_capacity, r->message_count)) {
        s->no_memory = true;
        return -1;
    }
    const channel_key *key = m->reduce ? NULL : &s->trace->channels[m->channel];
    r->messages[r->message_count] = (cv_replay_message){
        .logical_send = m->logical_send,
        .request = m->request,
        .physical_send = m->physical_send,
        .logical_receive = logical_receive,
        .physical_receive = m->arrival,
        .bytes = m->bytes,
        .send_record = m->record,
        .source = m->source,
        .destination = m->destination,
        .tag = key ? key->tag : -1,
        .comm = key ? key->comm : (int32_t)s->trace->instances[m->channel].comm,
        .by_receiver = m->by_receiver,
    };
    return (int64_t)r->message_count++;
}
