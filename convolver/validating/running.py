"""One native run of a program under a condition: pages, control group, CPU; what it took, user and system apart."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from convolver.child_processes import end_with_parent
from convolver.errors import TracerError, UsageError
from convolver.probing.load import Usage
from convolver.probing.runner import running, start
from convolver.validating.campaign import Condition, Job

_PR_SET_THP_DISABLE = 41
_PERIOD_MICROSECONDS = 20_000
"""Length of the control group's accounting period: short against a run of 0.1 s."""
_LEAVING_SECONDS = 2.0
"""How long the processes of a program that has ended may take to leave its control group."""
_GROUPS = itertools.count()


class NativeRun(msgspec.Struct, frozen=True, kw_only=True):
    """What one native run took. ``others`` is the share of all CPUs that other programs used meanwhile; ``steal`` the
    hypervisor's. ``witness_cycles``: what a taken branch took in the mean of short looks meanwhile, right before
    where there was no time to look (0: nobody looked). ``peak_bytes``: the largest resident set, of Convolver's own process
    before it became the program, at least."""

    job: str
    condition: str
    round: int
    wall_seconds: float
    user_seconds: float
    system_seconds: float
    status: int
    others: float
    steal: float
    witness_cycles: float = 0.0
    peak_bytes: int = 0

    @property
    def processor_seconds(self) -> float:
        """User and system time."""
        return self.user_seconds + self.system_seconds


def page_environment(condition: Condition, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the program's environment; with huge pages, glibc's allocator is set to ask for them."""
    merged = {**os.environ, **environment}
    if condition.pages == "thp":
        tunables = [merged.get("GLIBC_TUNABLES", ""), "glibc.malloc.hugetlb=1"]
        merged["GLIBC_TUNABLES"] = ":".join(part for part in tunables if part)
    return merged


def cpus_of(job: Job, condition: Condition, cpu: int) -> set[int] | None:
    """Return the CPUs that a job has under a condition, one a thread, none that the condition loads; None for too few."""
    free = [one for one in sorted(os.sched_getaffinity(0)) if one != cpu][condition.loaded_cpus :]
    return {cpu, *free[: job.threads - 1]} if job.threads <= len(free) + 1 else None


def _prepare(condition: Condition, cpus: Collection[int], group: Path | None, bind: Callable[[], None]) -> None:
    """Run in the child before the program: it inherits all of this."""
    os.sched_setaffinity(0, cpus)
    if condition.pages == "4k":
        ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
    bind()
    if group is not None:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def run_once(job: Job, condition: Condition, number: int, cpu: int, group: Path | None) -> NativeRun:
    """Run the program once and return what it took; raises :class:`TracerError` when it does not start."""
    cpus = cpus_of(job, condition, cpu) or {cpu}
    environment = page_environment(condition, job.environment)
    bind = end_with_parent()
    usage, before = Usage.now(), time.perf_counter()
    try:
        process = subprocess.Popen(
            job.command,
            cwd=job.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: _prepare(condition, cpus, group, bind),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise TracerError(f"The command '{job.command[0]}' could not be started: {error}.") from error
    _, status, taken = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - before
    spent = Usage.now().since(usage)
    return NativeRun(
        job=job.key,
        condition=condition.name,
        round=number,
        wall_seconds=wall,
        user_seconds=taken.ru_utime,
        system_seconds=taken.ru_stime,
        status=process.returncode,
        others=round(spent.others(taken.ru_utime + taken.ru_stime + condition.loaded_cpus * wall), 3),
        steal=round(spent.stolen, 3),
        peak_bytes=taken.ru_maxrss * 1024,
    )


def _make_group(quota: float) -> Path:
    """Make a control group with a CPU quota; raises :class:`UsageError` where this process may not."""
    root = Path("/sys/fs/cgroup")
    name = f"convolver-{os.getpid()}-{next(_GROUPS)}"
    allowed = round(quota * _PERIOD_MICROSECONDS)
    try:
        if (root / "cgroup.controllers").exists() and "cpu" in (root / "cgroup.controllers").read_text().split():
            group = root / name
            group.mkdir()
            (group / "cpu.max").write_text(f"{allowed} {_PERIOD_MICROSECONDS}")
            return group
        group = root / "cpu" / name
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROSECONDS))
        (group / "cpu.cfs_quota_us").write_text(str(allowed))
    except OSError as error:
        raise UsageError(
            f"A CPU quota is not possible here ({error.strerror}); run as root where control groups are writable."
        ) from error
    return group


@contextmanager
def control_group(condition: Condition) -> Iterator[Path | None]:
    """Hold a control group with the condition's quota; None without one."""
    if condition.cpu_quota == 1:
        yield None
        return
    group = _make_group(condition.cpu_quota)
    try:
        yield group
    finally:
        _remove_group(group)


def _remove_group(group: Path) -> None:
    """Remove a control group as soon as the last process has left it, which helpers of a program may do a little after it; one
    that they never leave stays, and takes nothing."""
    end = time.monotonic() + _LEAVING_SECONDS
    while True:
        try:
            return group.rmdir()
        except OSError:
            if time.monotonic() >= end:
                return
        time.sleep(0.01)


@contextmanager
def background_load(condition: Condition, cpu: int) -> Iterator[None]:
    """Keep other CPUs busy copying memory; raises :class:`UsageError` when there are too few, :class:`ProbeKilledError` where the
    load was killed meanwhile."""
    others = [one for one in sorted(os.sched_getaffinity(0)) if one != cpu]
    if condition.loaded_cpus > len(others):
        raise UsageError(
            f"The condition '{condition.name}' needs {condition.loaded_cpus} CPUs beside this one; there are {len(others)}."
        )
    with ExitStack() as loads:
        for other in others[: condition.loaded_cpus]:
            loads.enter_context(running(start_load(other), f"kept CPU {other} busy"))
        yield


def start_load(cpu: int, size_bytes: int = 256 << 20) -> subprocess.Popen[str]:
    """Start a process that copies so many bytes on a CPU until it is ended, and wait until it is warm."""
    return start("--forever", "copy", "--cpu", str(cpu), "--bytes", str(size_bytes))
