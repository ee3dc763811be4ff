"""What a traced program had of the kernel: pages that a native run faults in, system calls, bytes moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from convolver._native.enums import enum_names
from convolver._native.trace_decoder import PAGES_KNOWN, SYSTEM, SYSTEM_CALL

_FIRST = """
read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn ioctl
pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise shmget shmat shmctl dup dup2 pause
nanosleep getitimer alarm setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind listen
getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit wait4 kill uname semget semop semctl
shmdt msgget msgsnd msgrcv msgctl fcntl flock fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir
rmdir creat link unlink symlink readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo times
ptrace getuid syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setgroups
setresuid getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget capset rt_sigpending rt_sigtimedwait
rt_sigqueueinfo rt_sigsuspend sigaltstack utime mknod uselib personality ustat statfs fstatfs sysfs getpriority setpriority
sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max sched_get_priority_min
sched_rr_get_interval mlock munlock mlockall munlockall vhangup modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex
setrlimit chroot sync acct settimeofday mount umount2 swapon swapoff reboot sethostname setdomainname iopl ioperm
create_module init_module delete_module get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg afs_syscall tuxcall
security gettid readahead setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
removexattr lremovexattr fremovexattr tkill time futex sched_setaffinity sched_getaffinity set_thread_area io_setup io_destroy
io_getevents io_submit io_cancel get_thread_area lookup_dcookie epoll_create epoll_ctl_old epoll_wait_old remap_file_pages
getdents64 set_tid_address restart_syscall semtimedop fadvise64 timer_create timer_settime timer_gettime timer_getoverrun
timer_delete clock_settime clock_gettime clock_getres clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes vserver
mbind set_mempolicy get_mempolicy mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load waitid
add_key request_key keyctl ioprio_set ioprio_get inotify_init inotify_add_watch inotify_rm_watch migrate_pages openat mkdirat
mknodat fchownat futimesat newfstatat unlinkat renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll unshare
set_robust_list get_robust_list splice tee sync_file_range vmsplice move_pages utimensat epoll_pwait signalfd timerfd_create
eventfd fallocate timerfd_settime timerfd_gettime accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv
pwritev rt_tgsigqueueinfo perf_event_open recvmmsg fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at
clock_adjtime syncfs sendmmsg setns getcpu process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr
renameat2 seccomp getrandom memfd_create kexec_file_load bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2
pwritev2 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq
"""

_LATER = """
pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig fsmount fspick
pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 mount_setattr quotactl_fd
landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv
set_mempolicy_home_node
"""
"""From 424 on, where all architectures have the same numbers."""

_FIRST_NAMES, _LATER_NAMES = _FIRST.split(), _LATER.split()


def system_call_name(number: int) -> str:
    """Return the name of a system call; ``call_N`` for a number that is not known here."""
    if number < len(_FIRST_NAMES):
        return _FIRST_NAMES[number]
    later = number - 424
    return _LATER_NAMES[later] if 0 <= later < len(_LATER_NAMES) else f"call_{number}"


TARGETS = ("", *enum_names("cv_wire_target", "CV_WIRE_TO_")[1:-1])
"""What a call that moves bytes has as its first argument, by ``enum cv_wire_target``."""

OF_THE_VDSO = frozenset(("clock_gettime", "gettimeofday", "time", "getcpu"))
"""System calls under Valgrind alone: a native run reads the time without the kernel, in the vdso."""


def system_document(payload: bytes) -> dict[str, Any] | None:
    """Return the tracer's record (``struct cv_wire_system`` and its calls) as a JSON-able document; None where there was none.

    ``pages`` counts pages of ``page_bytes`` (None where the kernel did not tell), ``calls`` has one entry for each system call
    and what it moved bytes to or from: ``call``, ``target``, ``calls``, ``bytes``. Calls that a native run answers in the vdso
    are left out.
    """
    if not payload:
        return None
    head = np.frombuffer(payload, SYSTEM, 1)[0]
    pages = head["pages"]
    calls = np.frombuffer(payload, SYSTEM_CALL, int(head["calls"]), SYSTEM.itemsize).tolist()
    return {
        "page_bytes": int(head["page_bytes"]),
        "pages": {name: int(pages[name]) for name in pages.dtype.names} if head["flags"] & PAGES_KNOWN else None,
        "forks": int(head["forks"]),
        "threads": int(head["threads"]),
        "calls": [
            {"call": name, "target": TARGETS[target] if target < len(TARGETS) else "other", "calls": calls, "bytes": moved}
            for name, target, calls, moved in ((system_call_name(number), *rest) for number, *rest in calls)
            if name not in OF_THE_VDSO
        ],
    }


def faults(pages: dict[str, int]) -> int:
    """Return how many page faults a native run with pages of 4 KiB has: its ``ru_minflt``, but for what is left out."""
    return pages["anonymous"] + pages["shared"] + pages["windows"]
