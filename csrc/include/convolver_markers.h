/* Marks the part of a program that Convolver's tracer shall record. SPDX-License-Identifier: MIT
 *
 *     #include "convolver_markers.h"
 *     ...
 *     CONVOLVER_START();
 *     solve();
 *     CONVOLVER_STOP();
 *
 * Outside the tracer a mark costs a handful of instructions and does nothing. The tracer obeys marks when it runs with
 * --start-at=marker or --stop-at=marker; between stop and start nothing is counted and nothing recorded. A mark is a request to
 * Valgrind: rotations of a register that together change nothing, which compilers never emit. x86-64 and GNU C; elsewhere the
 * marks are empty. */
#ifndef CONVOLVER_MARKERS_H
#define CONVOLVER_MARKERS_H

#define CONVOLVER_REQUEST_START (('C' << 24 | 'V' << 16) + 1)
#define CONVOLVER_REQUEST_STOP (('C' << 24 | 'V' << 16) + 2)

#if defined(__x86_64__) && defined(__GNUC__)
#define CONVOLVER_REQUEST(request)                                                                               \
    do {                                                                                                         \
        unsigned long convolver_request_[6] = {(request), 0, 0, 0, 0, 0}, convolver_answer_ = 0;                 \
        __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx" \
                         : "+d"(convolver_answer_)                                                               \
                         : "a"(convolver_request_)                                                               \
                         : "cc", "memory");                                                                      \
    } while (0)
#else
#define CONVOLVER_REQUEST(request) ((void)0)
#endif

#define CONVOLVER_START() CONVOLVER_REQUEST(CONVOLVER_REQUEST_START)
#define CONVOLVER_STOP() CONVOLVER_REQUEST(CONVOLVER_REQUEST_STOP)

#endif
