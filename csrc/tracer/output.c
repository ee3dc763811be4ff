/* SPDX-License-Identifier: GPL-2.0-or-later
 * The buffers that records are written into, and the pipe or file after them. A reader that goes away ends the stream, not the
 * traced program.
 *
 * A full buffer goes into a pipe as it is, its pages and no copy of them (vmsplice), so nothing may be written into them before the
 * reader has taken them. There are several buffers: the next one is one whose pages the reader has. Where there is none, or no pipe,
 * the content is copied by a plain write and the buffer used again. Each buffer begins at a multiple of twice its size, and room for
 * a record lies beyond it: one bit of an address tells inline code that the buffer is full. */
#include "tracer.h"
#include "private.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_vkiscnums.h"

ULong *cv_next;
ULong *cv_high_mark;

#define BUFFERS 6                    /* more than a pipe of the usual 1 MiB holds */
#define LEAST_SPLICE_BYTES (1 << 14) /* less is cheaper to copy */
#define POLL_OUT 4                   /* this and what follows is not among the constants that Valgrind passes on */
#define UNREAD 0x541b                /* FIONREAD */
#define WIPE_ON_FORK 18              /* MADV_WIPEONFORK */

static Addr memory;
static UInt current;
static ULong sent;               /* bytes, so far */
static ULong sent_with[BUFFERS]; /* ... when the buffer went into the pipe */
static Int wire = -1;
static Bool splices; /* as far as is known */

static ULong *beginning(UInt buffer) { return (ULong *)(memory + 2 * buffer * (Addr)cv_options.buffer_bytes); }

static void use(UInt buffer)
{
    current = buffer;
    cv_next = beginning(buffer);
    cv_high_mark = cv_next + cv_options.buffer_bytes / sizeof *cv_next;
}

ULong cv_output_full_bit(void) { return cv_options.buffer_bytes; }

void cv_output_prepare(void)
{
    Long bytes = 1;
    while (bytes < cv_options.buffer_bytes)
        bytes *= 2;
    cv_options.buffer_bytes = bytes;
    tl_assert(bytes >= 2 * CV_RECORD_WORDS * (Long)sizeof(ULong));
    SizeT size = 2 * BUFFERS * bytes;
    memory = ((Addr)VG_(am_shadow_alloc)(size + 2 * bytes) + 2 * bytes - 1) & -(Addr)(2 * bytes);
    /* A forked child has no use for the records, and its writes must not reach pages that its parent's pipe holds. */
    VG_(do_syscall)(__NR_madvise, memory, size, WIPE_ON_FORK, 0, 0, 0, 0, 0);
    use(0);
}

void cv_output_open(Int descriptor)
{
    wire = VG_(safe_fd)(descriptor);
    splices = True;
    sent = 0;
    VG_(memset)(sent_with, 0, sizeof sent_with);
}

Bool cv_output_active(void) { return wire >= 0; }

void cv_output_close(void)
{
    if (wire >= 0)
        VG_(close)(wire);
    wire = -1;
}

/* A write to a pipe without reader leaves a SIGPIPE pending for this thread (Valgrind's own code runs with signals blocked), which
 * the guest would receive: take it out of the queue. */
static void swallow_sigpipe(void)
{
    vki_sigset_t pipe_only;
    vki_siginfo_t information;
    VG_(memset)(&pipe_only, 0, sizeof pipe_only);
    pipe_only.sig[0] = 1UL << (VKI_SIGPIPE - 1);
    VG_(sigtimedwait_zero)(&pipe_only, &information);
}

static void wait_writable(void)
{
    struct vki_pollfd poll = {.fd = wire, .events = POLL_OUT};
    VG_(poll)(&poll, 1, 1000);
}

/* The number of bytes that the pipe took, or a negative error. */
static Long hand_over(const UChar *at, SizeT bytes, Bool splice)
{
    if (!splice)
        return VG_(write)(wire, at, bytes);
    struct vki_iovec piece = {.iov_base = (void *)at, .iov_len = bytes};
    SysRes result = VG_(do_syscall)(__NR_vmsplice, wire, (UWord)&piece, 1, 0, 0, 0, 0, 0);
    return sr_isError(result) ? -(Long)sr_Err(result) : (Long)sr_Res(result);
}

/* Nobody would remove what it shared with this process either. */
static void reader_is_gone(void)
{
    static const HChar sentence[] = "convolver: the reader of the trace is gone; the program goes on, and nothing of it is recorded.\n";
    if (cv_counters_remove())
        VG_(write)(2, sentence, sizeof sentence - 1);
}

static void send(const void *data, SizeT bytes, Bool splice)
{
    const UChar *at = data;
    while (bytes && wire >= 0) {
        Long taken = hand_over(at, bytes, splice);
        if (taken > 0) {
            at += taken;
            bytes -= taken;
            sent += taken;
        } else if (taken == -VKI_EAGAIN) {
            wait_writable();
        } else if (taken == -VKI_EPIPE) {
            swallow_sigpipe();
            cv_output_close();
            reader_is_gone();
        } else if (splice && taken != -VKI_EINTR) {
            splice = splices = False; /* a file, or a kernel that does not do it */
        } else if (taken != -VKI_EINTR) {
            VG_(umsg)("The stream of addresses ends here: error %lld while writing it.\n", -taken);
            cv_output_close();
        }
    }
}

void cv_output_copy(const void *data, SizeT bytes) { send(data, bytes, False); }

/* A buffer beside the current one that the reader has taken wholly: always the same as long as it keeps up, so that they stay in the
 * cache. BUFFERS: none. */
static UInt free_buffer(void)
{
    Int unread = 0;
    if (!splices || sr_isError(VG_(do_syscall)(__NR_ioctl, wire, UNREAD, (UWord)&unread, 0, 0, 0, 0, 0)))
        return BUFFERS;
    for (UInt b = 0; b < BUFFERS; b++)
        if (b != current && sent_with[b] + unread <= sent)
            return b;
    return BUFFERS;
}

void cv_output_flush(void)
{
    SizeT bytes = (cv_next - beginning(current)) * sizeof *cv_next;
    UInt next = bytes < LEAST_SPLICE_BYTES || wire < 0 ? BUFFERS : free_buffer();
    send(beginning(current), bytes, next < BUFFERS);
    sent_with[current] = sent;
    use(next < BUFFERS ? next : current);
}

void cv_output_drop(void) { use(current); }
