#include "interrupt.h"

#include <stddef.h>
#include <time.h>

#define MILLISECONDS 50 /* between two questions */

static int (*interrupted)(void);
static __thread int64_t asked;

void cv_ask_for_interrupts(int (*ask)(void)) { interrupted = ask; }

cv_status cv_interrupt_due(void)
{
    struct timespec time;
    if (!interrupted)
        return CV_OK;
    clock_gettime(CLOCK_MONOTONIC, &time);
    const int64_t now = (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
    if (now - asked < MILLISECONDS)
        return CV_OK;
    asked = now;
    return interrupted() ? CV_ERROR_INTERRUPTED : CV_OK;
}
