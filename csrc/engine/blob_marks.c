/* The part of the run that is traced (--start-at, --stop-at), which may begin and end many times. Code counts outside of it, too: what the
 * counters say at a beginning is subtracted from the base, and added at an end. A place is a head of its own in all code, which looks into
 * the engine; marks of the program (convolver_markers.h) are requests. Nothing is recorded outside. */
#include "blob.h"

#define BASE ((int64_t *)(CV_SHARED_BASE + CV_OFF_BASE))

int cv_marks_at(uint64_t address)
{
    const struct cv_blob_setup *setup = &SHARED->setup;
    const char *why;
    int marks = 0;
    const int number = setup->places ? cv_mapping_of(address, &why) : -1;
    for (uint64_t i = 0; number >= 0 && i < setup->places; i++) {
        const struct cv_blob_mapping *m = &MAPPINGS[number];
        const struct cv_blob_marked *place = &setup->place[i];
        int same = address - m->low + m->offset == place->offset && m->path_bytes == place->path_bytes;
        for (uint32_t k = 0; same && k < m->path_bytes; k++)
            same = m->path[k] == place->path[k];
        marks |= same ? (int)place->marks : 0;
    }
    return marks;
}

/* A thread learns of what another one came by at its next head. */
void cv_follow_part(struct cv_slot *slot)
{
    if (slot->mode == CV_NATIVE)
        return;
    if (!SHARED->inside) {
        cv_leave_heads(slot);
        if (slot->mode != CV_COUNTING)
            cv_go_on_as(slot, CV_COUNTING);
        return;
    }
    if (slot->interval_heads == CV_HEADS)
        cv_begin_heads(slot);
    if (slot->mode == CV_COUNTING && SHARED->mode != CV_COUNTING)
        cv_go_on_as(slot, SHARED->mode);
}

void cv_come_by(struct cv_slot *slot, int marks)
{
    cv_lock();
    const int begins = marks & CV_MARK_START && !SHARED->inside, ends = marks & CV_MARK_STOP && SHARED->inside;
    if ((begins || ends) && !slot->guest) {
        cv_add_counters(BASE, begins ? -1 : 1);
        SHARED->mode = begins ? SHARED->setup.mode : CV_COUNTING;
        SHARED->inside = (uint64_t)begins;
        SHARED->stopped |= (uint64_t)ends;
    }
    cv_unlock();
    if (!(begins || ends) || slot->guest)
        return;
    for (uint64_t i = 0; i < SHARED->slots; i++) {
        struct cv_slot *other = cv_slot_at(i);
        if (other != slot)
            cv_want(other, CV_WANT_MODE);
    }
    cv_follow_part(slot);
}
