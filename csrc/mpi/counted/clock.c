/* A clock of executed instructions, for simulators of MPI that take the time of computations themselves (SimGrid SMPI).
 *
 * Preloaded under Convolver's tracer, the processor-time clocks of thread and process show one nanosecond an instruction. What a
 * simulator takes for the duration of a computation is then its exact count, on a machine as busy as it likes. Elsewhere, and for
 * the other clocks, the system's clock is shown. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../cv_bursts.h"

int clock_gettime(clockid_t clock, struct timespec *time)
{
    unsigned long executed = 0;
    if (clock == CLOCK_THREAD_CPUTIME_ID || clock == CLOCK_PROCESS_CPUTIME_ID)
        executed = cv_bursts_request(CV_BURSTS_EXECUTED, 0, 0);
    if (!executed)
        return (int)syscall(SYS_clock_gettime, clock, time);
    time->tv_sec = (time_t)(executed / 1000000000);
    time->tv_nsec = (long)(executed % 1000000000);
    return 0;
}
