"""Runs the probe binary over a plan, line by line, so that an interruption loses at most one point."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from convolver.child_processes import how_it_ended
from convolver.errors import ProbeError, ProbeKilledError
from convolver.locations import program
from convolver.machine.profile_check import is_disturbed, unsettled_share
from convolver.outputs import append_line, open_kept
from convolver.probing.plan import Item, Plan
from convolver.probing.samples import Line, by_point, combine, is_settled, spread, steadied
from convolver.progress import Progress
from convolver.units import format_bytes

_HINT = "install gcc and install Convolver again."
_TIMEOUT_SECONDS = 120.0


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel of the probe binary, as its table describes it."""

    kernel: str
    pattern: str
    operation: str
    width_bytes: int
    stride_bytes: int
    chains: int
    per_iteration: int
    flops: int
    supported: bool


def probe_binary() -> Path:
    """Return the path of the probe; raises :class:`ToolNotFoundError` when it was not built."""
    return program("convolver-probe", _HINT)


def list_kernels() -> tuple[dict[str, Kernel], str]:
    """Return the probe's kernels by name and the compiler it was built with; raises :class:`ProbeError` when it does not run."""
    try:
        done = subprocess.run([probe_binary(), "--list"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise ProbeError(f"The probe does not start ({error}); install Convolver again.") from error
    if done.returncode:
        raise ProbeError(f"The probe failed with status {done.returncode}; install Convolver again.")
    first, *lines = done.stdout.splitlines()
    kernels = [msgspec.json.decode(line, type=Kernel) for line in lines]
    return {kernel.kernel: kernel for kernel in kernels}, json.loads(first)["compiler"]


def tell(what: str, *options: str) -> list[dict[str, Any]]:
    """Run the probe once with options and return the objects that it prints, a line each; raises :class:`ProbeError`, which names
    what it measured."""
    command = [str(probe_binary()), *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ProbeError(f"The probe failed while it measured {what} ({error}); probe again.") from error
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_alive(status: int | None, what: str) -> None:
    """Raise :class:`ProbeKilledError` where a signal has ended a probe, given its status (None: it runs) and what it did."""
    if status is not None and (status < 0 or status > 128):
        raise ProbeKilledError(f"The probe {how_it_ended(status)} while it {what}; probe again.")


def start(*options: str) -> subprocess.Popen[str]:
    """Start the probe with options under which it runs until it is ended, and wait until it says that it does."""
    process = subprocess.Popen([str(probe_binary()), *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@contextmanager
def running(process: subprocess.Popen[str], what: str) -> Iterator[None]:
    """End a probe that :func:`start` made after the body; raises :class:`ProbeKilledError` where somebody else had ended it."""
    try:
        yield
        check_alive(process.poll(), what)
    finally:
        process.terminate()
        process.wait()


def options_of(plan: Plan, cpu: int | str, largest: int | str | None = None) -> list[str]:
    """Return the probe's options for a plan; the bundle's own words may stand for the CPU and the largest working set."""
    effort = plan.effort
    options: dict[str, Any] = {
        "cpu": cpu,
        "bytes": largest or max(plan.largest_bytes, 1 << 20),
        "pages": plan.pages,
        "sample": effort.sample_seconds,
        "limit": effort.limit_seconds,
        "warmup": effort.warmup_seconds,
        "precision": effort.precision,
        "least": effort.least,
        "most": effort.most,
    }
    if plan.beside:
        options["beside"] = plan.beside
    if plan.other >= 0:
        options["other"] = plan.other
    return [text for key, value in options.items() for text in (f"--{key}", str(value))]


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _resume(partial: Path, header: dict[str, Any]) -> list[Line]:
    """Return the lines that an interrupted probe of the same plan left behind; starts the file anew when there are none."""
    with open_kept(partial) as file:
        try:
            first, *rest = file.readlines()
            if json.loads(first) == header:
                return [msgspec.json.decode(line, type=Line) for line in rest]
        except (ValueError, RecursionError, msgspec.MsgspecError):
            pass  # empty, or cut off by a crash: measuring again costs seconds
        file.truncate(0)
    append_line(partial, json.dumps(header).encode())
    return []


def _measure(plan: Plan, items: Sequence[Item], cpu: int) -> Iterator[Line]:
    """Yield the lines of the probe as they come; raises :class:`ProbeError` when it fails."""
    with tempfile.TemporaryFile("w+") as todo, tempfile.TemporaryFile("w+") as errors:
        todo.writelines(f"{item.kernel} {item.working_set_bytes} {item.threads}\n" for item in items)
        todo.seek(0)
        process = subprocess.Popen(
            [str(probe_binary()), *options_of(plan, cpu)], stdin=todo, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.endswith("\n"):  # a killed probe leaves half a line
                    yield msgspec.json.decode(line, type=Line)
            status = process.wait()
        finally:
            process.terminate()
            process.wait()
        check_alive(status, f"measured on CPU {cpu}")
        if status:
            errors.seek(0)
            reason = (errors.read().strip().splitlines() or [f"it ended with status {status}"])[-1]
            raise ProbeError(f"The probe failed on CPU {cpu}: {reason}.")


def run_plan(plan: Plan, cpu: int, progress: Progress, partial: Path | None = None) -> list[Line]:
    """Measure all rounds of a plan, and more of what has not settled, on one CPU and return every line, near points at one clock
    (:func:`~convolver.probing.samples.steadied`).

    With ``partial``, lines are also kept in that file as they come, and those that an interrupted run of the same plan on the
    same CPU since the last boot left there are not measured again. Raises :class:`ProbeError` when the probe fails.
    """
    header = {"plan": plan.id, "cpu": cpu, "boot": _boot()}
    lines = _resume(partial, header) if partial else []
    try:
        for line in _rounds(plan, lines, cpu, progress):
            if partial:
                append_line(partial, msgspec.json.encode(line))
            lines.append(line)
            progress.advance(1.0, f"{line.kernel} {format_bytes(line.working_set_bytes)}")
    except OSError as error:
        raise ProbeError(
            f"The probe cannot go on ({error.strerror or error}); free some space or choose another folder."
        ) from error
    finally:
        progress.finish()
    return steadied(lines, plan.near_bytes)


def _next_items(plan: Plan, lines: Sequence[Line], rounds: int, spent_seconds: float) -> Sequence[Item]:
    """Return what to measure in the next round: the rest of the planned ones, then what has not settled and can be paid for.

    A disturbance lasts for seconds, so where the budget ended within one, patience adds to it.
    """
    done = len(lines)
    if done < plan.rounds * len(plan.items):
        return plan.items[done % len(plan.items) :]
    measured = by_point(steadied(lines, plan.near_bytes))
    disturbed = is_disturbed(unsettled_share(map(combine, measured.values())))
    if rounds >= plan.most_rounds and not (disturbed and plan.patience_seconds):
        return ()
    unsettled = {item: measured.get((item.kernel, item.threads, item.working_set_bytes), ()) for item in plan.items}
    unsettled = {item: found for item, found in unsettled.items() if not is_settled(found, plan.settled)}
    start = max(spent_seconds - sum(line.elapsed_seconds for line in lines), 0.0) / max(rounds, 1)
    left = plan.budget_seconds - spent_seconds - start
    return _affordable(unsettled, left) or (_affordable(unsettled, left + plan.patience_seconds) if disturbed else ())


def _affordable(unsettled: Mapping[Item, Sequence[Line]], seconds: float) -> list[Item]:
    """Return as many items as can be measured in that time, those that are least settled first, in their old order."""
    chosen = set()
    for item in sorted(unsettled, key=lambda one: -spread(unsettled[one])):
        seconds -= max((line.elapsed_seconds for line in unsettled[item]), default=0.0)
        if seconds <= 0:
            break
        chosen.add(item)
    return [item for item in unsettled if item in chosen]


def _rounds(plan: Plan, lines: Sequence[Line], cpu: int, progress: Progress) -> Iterator[Line]:
    """Yield the lines of the rounds that are missing in ``lines``, which the caller extends.

    Each round is a process of its own, because it then gets other physical pages: which ones share a cache set, or look
    alike to the store buffer, can cost a small working set a factor of ten.
    """
    rounds = len(lines) // len(plan.items)
    begin = time.monotonic() - sum(line.elapsed_seconds for line in lines)
    while items := _next_items(plan, lines, rounds, time.monotonic() - begin):
        progress.start(f"probing CPU {cpu}, round {rounds + 1}", float(len(items)))
        yield from _measure(plan, items, cpu)
        rounds += 1
