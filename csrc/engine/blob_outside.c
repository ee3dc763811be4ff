/* Code that the program makes itself (Java, JavaScript, LuaJIT): nobody says when it changes, so it runs natively, where it is. The rest of
 * the program stays in the engine: from the first such code on, the code of files may be read but not executed where it lies. A thread that
 * comes back to it faults, and the handler lets it go on in the engine. How often and how long threads are outside is counted. A page to
 * which they come back often is opened: what lies there (a function that made code calls in its loops) then runs natively, too, unless
 * there is a system call, which the engine must see. */
#include "blob.h"

enum { SIGSEGV = 11 };

#define MOST_PAGES 8192
#define OFTEN 200
#define BEFORE 64 /* bytes of code before what may be a system call */

static struct {
    uint64_t page, times;
} pages[MOST_PAGES];

/* Those two bytes are more often part of a displacement. Decoded from any place before, code comes back to its instructions soon: no
 * instruction begins where none of many ways comes to. */
static int begins_none(const uint8_t *code, int at)
{
    int over = 0;
    for (int start = at - BEFORE; start < at - BEFORE / 2; start++) {
        int i = start, length = 1;
        for (; i < at && length; i += length) {
            struct cv_x86 x;
            length = cv_x86_decode(code + i, 15, 0, &x);
        }
        if (i == at)
            return 0;
        over += i > at;
    }
    return over >= BEFORE / 4;
}

int cv_calls_system(uint64_t page)
{
    uint8_t code[BEFORE + 4096 + 16] = {0};
    const int n = cv_read(page - BEFORE, code, BEFORE + 4097);
    for (int i = BEFORE - 1; i + 1 < n; i++)
        if (code[i] == 0x0f && (code[i + 1] == 0x05 || code[i + 1] == 0x34) && !(i >= BEFORE && begins_none(code, i)))
            return 1;
    return n < BEFORE + 4096;
}

int cv_open_often(uint64_t address)
{
    const uint64_t page = address & ~UINT64_C(4095);
    uint64_t i = (page >> 12) % MOST_PAGES, tries = 0;
    if (SHARED->objects) /* allocations are to be seen */
        return 0;
    for (; pages[i].page && pages[i].page != page; i = (i + 1) % MOST_PAGES)
        if (++tries == 64)
            return 0;
    pages[i].page = page;
    if (++pages[i].times < OFTEN)
        return 0;
    if (cv_calls_system(page)) { /* looked at again: other code may come there */
        pages[i].times = 1;
        return 0;
    }
    return !cv_system(SYS_mprotect, page, 4096, 5, 0, 0, 0);
}

void cv_close_again(void)
{
    cv_lock();
    if (SHARED->outside && !SHARED->leave)
        cv_close_code();
    cv_unlock();
}

uint64_t cv_go_outside(struct cv_slot *slot, uint64_t target)
{
    const uint64_t fault = UINT64_C(1) << (SIGSEGV - 1);
    cv_lock();
    if (!SHARED->outside && !SHARED->leave) {
        SHARED->outside = 1;
        cv_keep_faults();
        cv_close_code();
    }
    cv_unlock();
    cv_system(SYS_sigprocmask, 1, (uint64_t)&fault, 0, 8, 0, 0); /* blocked, it would kill */
    if (SHARED->objects)
        cv_hand_part(slot);
    slot->outside_target = target;
    slot->outside_entries++;
    slot->outside_since = cv_time_now();
    return (uint64_t)cv_enter_outside;
}

void cv_come_back(struct cv_slot *slot)
{
    if (slot->outside_since)
        slot->outside_time += cv_time_now() - slot->outside_since;
    slot->outside_since = 0;
}

/* Something was asked of the thread before it had gone. */
uint64_t cv_outside_asked(struct cv_slot *slot, uint64_t *registers)
{
    slot->outside_since = 0;
    slot->outside_entries--;
    slot->target = slot->outside_target;
    return cv_poll(slot, registers);
}
