/* SPDX-License-Identifier: GPL-2.0-or-later
 * The life of the traced process: threads, fork, exec, and how it ends.
 *
 * Valgrind tells a tool that the guest has ended, but not how. It then replays the end on itself, through VG_(client_exit) or
 * VG_(kill_self): the linker's --wrap brings both by here (and VG_(exit), which versions before 3.17 call), to write the last
 * record with the true exit status or signal. */
#include "tracer.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vkiscnums.h"

static Bool guest_ended, end_written;
static ThreadId current_thread;

ThreadId cv_current_thread(void) { return current_thread; }

static void write_end(enum cv_wire_end_reason reason, Int code)
{
    cv_calls_write();
    cv_synchronization_end();
    cv_region_end();
    struct cv_wire_end end = {.reason = reason, .code = code, .windows = cv_windows()};
    cv_stream_record(CV_WIRE_END, cv_region_unstopped(), &end, sizeof end);
    cv_flush();
    cv_counters_finished(True);
}

static void guest_end(enum cv_wire_end_reason reason, Int code)
{
    if (!guest_ended || end_written)
        return;
    end_written = True;
    cv_sampling_stop();
    write_end(reason, code);
}

void cv_process_end(Int exit_code)
{
    guest_ended = True;
    cv_flush();
}

void __real_vgPlain_client_exit(Int status) __attribute__((noreturn));
void __wrap_vgPlain_client_exit(Int status) __attribute__((noreturn));
void __real_vgPlain_exit(Int status) __attribute__((noreturn));
void __wrap_vgPlain_exit(Int status) __attribute__((noreturn));
void __real_vgPlain_kill_self(Int signal);
void __wrap_vgPlain_kill_self(Int signal);

void __wrap_vgPlain_client_exit(Int status)
{
    guest_end(CV_WIRE_EXITED, status);
    __real_vgPlain_client_exit(status);
}

void __wrap_vgPlain_exit(Int status)
{
    guest_end(CV_WIRE_EXITED, status);
    __real_vgPlain_exit(status);
}

void __wrap_vgPlain_kill_self(Int signal)
{
    guest_end(CV_WIRE_SIGNALED, signal);
    __real_vgPlain_kill_self(signal);
}

/* Valgrind is about to run guest code: after every syscall, signal and time slice. */
static void start_client_code(ThreadId thread, ULong blocks)
{
    if (thread != current_thread) {
        cv_synchronization_switch(current_thread, thread);
        current_thread = thread;
        if (cv_output_active())
            cv_stream_control(CV_WIRE_THREAD, thread);
        if (cv_options.data_objects)
            cv_objects_switch(thread);
    }
    cv_limit_discard();
    cv_synchronization_discard();
}

static Bool is_exec(UInt number) { return number == __NR_execve || number == __NR_execveat; }

/* A successful exec never returns, so its record is written before; when it fails, the records that follow say so. */
static void before_syscall(ThreadId thread, UInt number, UWord *arguments, UInt n)
{
    cv_call_begins(number, arguments);
    cv_synchronization_call_begins(thread, number, arguments);
    if (is_exec(number) && cv_output_active())
        write_end(CV_WIRE_EXECED, 0);
}

static void after_syscall(ThreadId thread, UInt number, UWord *arguments, UInt n, SysRes result)
{
    cv_call_ended(number, arguments, result);
    cv_synchronization_call_ended(thread, number, arguments, result);
    if (is_exec(number))
        cv_counters_finished(False);
}

static void after_fork_in_child(ThreadId thread)
{
    cv_stream_fork();
    cv_counters_fork();
    cv_region_fork();
    cv_sampling_fork();
    cv_calls_fork();
    cv_synchronization_fork(thread);
    if (cv_output_active())
        cv_stream_control(CV_WIRE_THREAD, thread);
    current_thread = thread;
}

void cv_process_register(void)
{
    VG_(track_start_client_code)(start_client_code);
    VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
    VG_(atfork)(NULL, NULL, after_fork_in_child);
}
