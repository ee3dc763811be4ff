/* What threads record: parts of a slot's buffer, which the controller reads in turn, and bursts. */
#include "blob.h"

#define VISITS_AT_ONCE 4096 /* between two looks at how much has been recorded */
#define FEWEST_VISITS 64
#define VISIT_BYTES 1216 /* at most */
#define SPARE_HITS 2048  /* that a superblock may record beyond a full part */

static struct cv_blob_part *part_of(const struct cv_slot *slot)
{
    return (struct cv_blob_part *)(slot->self + CV_SLOT_PARTS) + slot->handed % CV_PARTS;
}

static uint64_t part_begin(const struct cv_slot *slot) { return slot->self + CV_SLOT_BUFFER + slot->handed % CV_PARTS * CV_PART_BYTES; }

/* The controller is slow: the program waits for it. Without a controller nobody ever reads. */
static void await_room(struct cv_slot *slot)
{
    const uint64_t moment[2] = {0, 50000};
    while (slot->handed - __atomic_load_n(&slot->taken, __ATOMIC_ACQUIRE) == CV_PARTS) {
        if (cv_system(SYS_kill, SHARED->controller, 0, 0, 0, 0, 0) == -3) {
            SHARED->leave = 1;
            cv_want(slot, CV_WANT_NATIVE);
            return;
        }
        cv_system(SYS_nanosleep, (uint64_t)moment, 0, 0, 0, 0, 0);
    }
}

static void begin_part(struct cv_slot *slot, int kind, int first)
{
    await_room(slot);
    cv_assert(!slot->in_part);
    *part_of(slot) = (struct cv_blob_part){
        .kind = (uint32_t)kind, .first = (uint32_t)first, .sets = SHARED->mode == CV_FILTERING, .interval = SHARED->interval};
    slot->buffer = part_begin(slot);
    slot->marked_to = 0;
    __atomic_store_n(&slot->in_part, 1, __ATOMIC_SEQ_CST); /* from now on the thread hears of events */
    part_of(slot)->events = __atomic_load_n(&SHARED->events, __ATOMIC_SEQ_CST);
    if (kind == CV_PART_HITS) {
        slot->left = CV_PART_BYTES / 16 - SPARE_HITS;
        slot->set_mask = SHARED->set_mask;
        slot->leaves_repeated = SHARED->leaves_repeated;
        slot->line_negated = slot->written_negated = 0;
    }
    if (SHARED->objects)
        cv_put_events(slot);
}

void cv_put_events(struct cv_slot *slot)
{
    uint64_t *at = (uint64_t *)slot->buffer;
    if (!slot->in_part)
        return;
    if (slot->marked_to != slot->buffer) {
        *at = CV_PART_EVENTS;
        at += 2;
        slot->burst_references -= 2; /* they are none */
        if (slot->mode == CV_FILTERING && !--slot->left) {
            __atomic_fetch_or(&slot->flag, UINT64_C(1) << 32, __ATOMIC_ACQ_REL);
            cv_look(slot);
        }
    }
    at[-1] = __atomic_load_n(&SHARED->events, __ATOMIC_ACQUIRE);
    slot->marked_to = slot->buffer = (uint64_t)at;
}

void cv_end_part(struct cv_slot *slot, int last)
{
    if (!slot->in_part)
        return;
    struct cv_blob_part *part = part_of(slot);
    cv_assert(slot->buffer >= part_begin(slot) && slot->buffer <= part_begin(slot) + CV_PART_BYTES && slot->buffer % 8 == 0);
    part->bytes = (uint32_t)(slot->buffer - part_begin(slot));
    part->last = (uint32_t)last;
    slot->in_part = 0;
    if (part->bytes || last)
        __atomic_store_n(&slot->handed, slot->handed + 1, __ATOMIC_RELEASE);
}

void cv_hand_part(struct cv_slot *slot)
{
    if (!slot->in_part || slot->buffer - part_begin(slot) <= sizeof(uint64_t[2])) /* the number of events */
        return;
    slot->burst_references += (slot->buffer - part_begin(slot)) / 8;
    cv_end_part(slot, 0);
    begin_part(slot, slot->mode == CV_RECORDING ? CV_PART_VISITS : CV_PART_HITS, 0);
}

static void next_visits(struct cv_slot *slot)
{
    cv_assert(slot->buffer <= part_begin(slot) + CV_PART_BYTES);
    const uint64_t room = (part_begin(slot) + CV_PART_BYTES - slot->buffer) / VISIT_BYTES;
    slot->part_visits = room < VISITS_AT_ONCE ? room : VISITS_AT_ONCE;
    slot->left = slot->part_visits + 1;
}

void cv_go_on_as(struct cv_slot *slot, uint64_t mode)
{
    if (!(slot->heads & CV_HEADS)) /* the controller may have asked for a look already */
        cv_begin_heads(slot);
    cv_end_part(slot, slot->mode == CV_RECORDING);
    slot->mode = mode;
    if (mode == CV_FILTERING)
        begin_part(slot, CV_PART_HITS, 0);
    if (mode == CV_RECORDING) {
        slot->burst_visits = slot->burst_references = 0;
        begin_part(slot, CV_PART_VISITS, 1);
        next_visits(slot);
    }
}

uint64_t cv_begin_burst(struct cv_slot *slot)
{
    cv_burst_begins(slot);
    cv_go_on_as(slot, CV_RECORDING);
    return cv_find(slot, slot->target);
}

static uint64_t end_burst(struct cv_slot *slot)
{
    slot->bursts++;
    cv_burst_ends(slot);
    if (SHARED->bursts_only)
        return cv_go_native(slot, slot->target);
    cv_go_on_as(slot, SHARED->mode);
    return cv_find(slot, slot->target);
}

uint64_t cv_burst_end(struct cv_slot *slot, uint64_t *registers)
{
    (void)registers;
    slot->link = 0;
    slot->burst_visits += slot->part_visits;
    const uint64_t words = slot->burst_references + (slot->buffer - part_begin(slot)) / 8, wanted = SHARED->burst_references;
    if (words - slot->burst_visits >= wanted || slot->burst_visits >= 16 * wanted + VISITS_AT_ONCE)
        return end_burst(slot);
    if (part_begin(slot) + CV_PART_BYTES - slot->buffer < FEWEST_VISITS * VISIT_BYTES) {
        slot->burst_references = words;
        cv_end_part(slot, 0);
        begin_part(slot, CV_PART_VISITS, 0);
    }
    next_visits(slot);
    return cv_find(slot, slot->target);
}
