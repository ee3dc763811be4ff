"""Disturbances of the host that make another machine of it: a copying program, no huge pages, half the CPU quota."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

COPY_FOREVER = "import numpy as np\na = np.ones(1 << 23); b = np.empty_like(a)\nwhile True: np.copyto(b, a); np.copyto(a, b)"
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Environment in which glibc (2.35 and later) asks for huge pages, where the kernel gives them to those who ask."""
REAL_TIME = (os.SCHED_RR, os.SCHED_FIFO)
GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"))


class NotPossibleError(Exception):
    """The host does not let us; the words say why."""


WARDEN = 'int main(void) { for (;;) __asm__ volatile("pause"); }'


@contextlib.contextmanager
def warden(own: int, folder: Path) -> Iterator[None]:
    """A real-time task that only pauses on the other processors: it keeps other programs away, which would share the core."""
    (folder / "warden.c").write_text(WARDEN)
    subprocess.run(["cc", "-O1", str(folder / "warden.c"), "-o", str(folder / "warden")], check=True)
    others = sorted(set(range(os.cpu_count() or 1)) - {own})
    chrt = ["chrt", "-r", "1"] if shutil.which("chrt") and os.geteuid() == 0 else []
    processes = [subprocess.Popen([*chrt, "taskset", "-c", str(cpu), str(folder / "warden")]) for cpu in others]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def busy(own: int) -> Iterator[str]:
    """A process that copies 64 MiB to and fro on another processor than ``own``."""
    others = sorted(set(range(os.cpu_count() or 1)) - {own})
    if not others:
        raise NotPossibleError("there is no other processor")
    process = subprocess.Popen(["taskset", "-c", str(others[0]), sys.executable, "-c", COPY_FOREVER])
    try:
        yield f"a copying program on processor {others[0]}"
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def no_huge_pages(own: int) -> Iterator[str]:
    """No transparent huge pages for the program's data: glibc does not ask for them."""
    before = os.environ.pop("GLIBC_TUNABLES", None)
    if before is None:
        raise NotPossibleError("the base has no huge pages either")
    try:
        yield "huge pages off"
    finally:
        os.environ["GLIBC_TUNABLES"] = before


@contextlib.contextmanager
def half_quota(own: int) -> Iterator[str]:
    """Half a processor for this process and its children, by control group."""
    root = next((path for path in GROUPS if (path / "cgroup.procs").exists()), None)
    if root is None:
        raise NotPossibleError("no control groups are mounted")
    group = root / "convolver-bench"
    try:
        group.mkdir(exist_ok=True)
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text("50000 100000")
        else:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("50000")
        if os.sched_getscheduler(0) in REAL_TIME:
            (group / "cpu.rt_period_us").write_text("100000")
            (group / "cpu.rt_runtime_us").write_text("50000")
        weight, most = ("cpu.weight", "10000") if (group / "cpu.weight").exists() else ("cpu.shares", "262144")
        (group / weight).write_text(most)  # what else runs must not take more
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise NotPossibleError(f"the control group cannot be used: {error}") from error
    try:
        yield "half the CPU quota (50 of 100 ms)"
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


DISTURBANCES = {"busy": busy, "pages": no_huge_pages, "quota": half_quota}
