/* Explains a deadlock: for every rank that is blocked for ever, the record and the rank that it waits for. */
#include "internal.h"

/* Has the rank reached its own record of this instance (other than the wait for it)? */
static bool has_reached(simulation *s, uint32_t rank, uint32_t id)
{
    const cv_replay_trace *t = &s->trace->trace;
    const rank_state *k = &s->ranks[rank];
    int64_t passed = k->finished ? k->end : k->next + 1;
    for (int64_t i = t->first[rank]; i < passed && !is_interrupted(s); i++) {
        const record *r = &s->trace->records[i];
        if (r->kind == CV_REPLAY_COLLECTIVE && r->where == id && r->flags != CV_REPLAY_WAIT_NONBLOCKING)
            return true;
    }
    return false;
}

static int32_t missing_member(simulation *s, uint32_t id)
{
    const cv_replay_trace *t = &s->trace->trace;
    uint32_t comm = s->trace->instances[id].comm;
    for (int64_t m = t->member_first[comm]; m < t->member_first[comm + 1]; m++)
        if (!has_reached(s, (uint32_t)t->members[m], id))
            return t->members[m];
    return -1;
}

void cv_deadlock_explain(simulation *s, cv_replay_rank *ranks)
{
    /* Ranks in one collective wait for the same member: ask once. */
    int32_t *known = malloc((s->trace->instance_count + (size_t)1) * sizeof *known);
    for (uint32_t i = 0; known && i < s->trace->instance_count; i++)
        known[i] = -2;
    for (uint32_t rank = 0; rank < s->trace->trace.ranks; rank++) {
        const rank_state *k = &s->ranks[rank];
        if (k->finished)
            continue;
        const record *r = &s->trace->records[k->next];
        ranks[rank].blocked_record = k->next - s->trace->trace.first[rank];
        ranks[rank].blocked_on = r->peer;
        if (r->kind == CV_REPLAY_COLLECTIVE) {
            if (known == NULL || known[r->where] == -2) {
                int32_t member = missing_member(s, r->where);
                ranks[rank].blocked_on = member;
                if (known)
                    known[r->where] = member;
            } else {
                ranks[rank].blocked_on = known[r->where];
            }
        }
    }
    free(known);
}
