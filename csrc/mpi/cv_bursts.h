/* Which blocks a program executes between its MPI calls: the MPI interposer asks the tracer at each call. SPDX-License-Identifier: MIT
 *
 * The tracer's exact counters (cv_wire.h) grow all the time. At the beginning of a burst of computation they are subtracted from sums,
 * at its end added, so that the sums hold what was executed inside bursts alone: nothing of the MPI library, and no clock is needed.
 * When the sums have grown to a threshold, the interposer takes them as words and writes them into `rank-NNNNN.cvb`:
 *
 *   header: "CVBURST1", u32 rank, u32 reserved
 *   chunks: u64 first, u64 last (records of rank-NNNNN.cvm that these bursts precede), u64 words, words
 *
 * A word is counter << 40 | executions; a counter may have several words, which add up. */
#ifndef CV_BURSTS_H
#define CV_BURSTS_H

#include <stdint.h>

#define CV_BURSTS_MAGIC "CVBURST1"
#define CV_BURSTS_COUNT_BITS 40

#define CV_BURSTS_HERE (('C' << 24 | 'V' << 16) + 16)  /* answer 1: the tracer is here and can attribute */
#define CV_BURSTS_BEGIN (('C' << 24 | 'V' << 16) + 17) /* a burst begins */
#define CV_BURSTS_END (('C' << 24 | 'V' << 16) + 18)   /* a burst ends; answer: executions of code segments since the last take */
#define CV_BURSTS_TAKE (('C' << 24 | 'V' << 16) + 19)  /* buffer, words: fills it; answer: words. As many as asked for: take again */

#define CV_BURSTS_EXECUTED (('C' << 24 | 'V' << 16) + 20) /* answer: instructions so far; 0 without --total=yes */

#if defined(__x86_64__) && defined(__GNUC__)
static inline unsigned long cv_bursts_request(unsigned long request, unsigned long first, unsigned long second)
{
    unsigned long words[6] = {request, first, second, 0, 0, 0}, answer = 0;
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(words)
                     : "cc", "memory");
    return answer;
}
#else
static inline unsigned long cv_bursts_request(unsigned long request, unsigned long first, unsigned long second)
{
    (void)request, (void)first, (void)second;
    return 0;
}
#endif

#endif
