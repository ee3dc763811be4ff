"""The probe as one file, and what it prints on another machine: the same measurements as here, made without anybody who asks.

The bundle is the probe without libraries with a plan beyond its end (``probes/bundle.c``). It prints answers to everything that
could be asked; reading them goes the way of a probe of this machine, with :class:`_Recorded` in the place of the running probe.
"""

from __future__ import annotations

import datetime
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from convolver.errors import FormatError, HierarchyError, MachineError, ToolNotFoundError
from convolver.foreign_text import decode_json
from convolver.locations import program
from convolver.machine.profile import MachineProfile
from convolver.machine.this_machine import describe_cpu, read_hierarchy
from convolver.outputs import save_bytes
from convolver.probing.core_probe import BYTES, MOST, WINDOWS, core_figures
from convolver.probing.front import (
    CROWDED,
    FEW,
    JUMPS,
    LINE_STEP,
    LINES,
    LONG,
    LOOKS,
    MANY,
    MANY_LINES,
    MOST_SLOTS,
    PASSES,
    SHORT,
    STEADY,
    STEP,
)
from convolver.probing.interference import beside, loaded_plan
from convolver.probing.kernel import kernel_costs
from convolver.probing.machine_probe import WITHOUT_HUGE, Around, Measured, near_bytes, page_bytes_of, profile_of
from convolver.probing.moments import quietest_figures
from convolver.probing.plan import Plan, full_plan, quick_plan
from convolver.probing.port_probe import least_taken, port_figures
from convolver.probing.runner import Kernel, options_of
from convolver.probing.samples import Line, steadied
from convolver.schema import held

MARK = b"CVBUNDLE"
ROUNDS = {"quick": 6, "full": 3}
"""Rounds of a bundle by plan, which cannot see what has settled: as many as a disturbed probe has."""
OTHER_ROUNDS = 2
"""Rounds on huge pages, and beside CPUs that copy memory."""
BUSY = 1 << 16
"""Stands for the number of CPUs of a machine that is not known yet."""
FILES = (
    *("/proc/loadavg", "/sys/kernel/mm/transparent_hugepage/enabled"),
    *("/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor"),
)
_NEAR_COUNTS = 480
"""Buffers up to so many entries are found to the entry, larger ones to :data:`_FAR_STEP`."""
_FAR_STEP = 16


def plan_of_bundle(name: str, threads: int = BUSY) -> Plan:
    """Return what a bundle measures, for any machine: the quick plan, or the full one with so many busy CPUs."""
    whole = full_plan(threads=(1, threads), cpus=2) if name == "full" else quick_plan(cpus=2)
    return msgspec.structs.replace(whole, rounds=ROUNDS[name], most_rounds=ROUNDS[name], patience_seconds=0.0)


def _lines(plan: Plan) -> list[str]:
    return [f"{item.kernel} {item.working_set_bytes} {'%n' if item.threads == BUSY else item.threads}" for item in plan.items]


def _core_asks() -> list[str]:
    """Return all that the probe of a core may ask for, in its order."""
    asks = [f"{next(iter(WINDOWS))} 1"]
    asks += [f"{JUMPS} {count}" for count in (FEW, *range(STEP, MANY + 1, STEP))]
    asks += [f"{CROWDED} {FEW}"]
    asks += [f"{LINES} {count}" for count in range(LINE_STEP, MANY_LINES + 1, LINE_STEP)]
    for name, step in WINDOWS.items():
        counts = [*range(step, _NEAR_COUNTS, step), *range(_NEAR_COUNTS, MOST, _FAR_STEP), MOST, MOST, MOST]
        asks += [f"{name} {count}" for count in (step, step, *counts)]
    asks += [f"loop.1 {count}" for _ in range(PASSES) for count in (*range(SHORT, LONG + 1), *STEADY)]
    asks += [
        f"loop.{slots} {turns}" for slots in range(1, MOST_SLOTS + 1) for turns in (SHORT, LONG, *STEADY) for _ in range(LOOKS)
    ]
    return asks


def _plan_text(plan: Plan) -> str:
    """Return the plan as probes/bundle.c reads it."""
    tasks: list[tuple[str, list[str], list[str]]] = [("kernels", ["--list"], [])]
    core = ["--core", "--cpu", "%c", "--bytes", str(BYTES)]
    asked = [("round", plan, plan.rounds), ("huge", plan.on_huge_pages(), OTHER_ROUNDS)]
    if plan.loaded:
        asked.append(("loaded", loaded_plan(plan), OTHER_ROUNDS))
    for name, part, rounds in asked:
        for number in range(rounds):
            tasks += [(f"{name}-{number}", options_of(part, "%c", "%b"), _lines(part)), (f"core-{name}-{number}", core, [])]
            if part is plan:
                tasks.append((f"ports-{number}", ["--ports", "--cpu", "%c"], []))
    tasks.append(("core", core, _core_asks()))
    tasks.append(("system", ["--system", "--cpu", "%c"], []))
    text = [f"plan {plan.name}", *(f"file {name}" for name in FILES)]
    for name, options, lines in tasks:
        text += [f"task {name} {plan.largest_bytes} {' '.join(options)}", *lines, "."]
    return "\n".join([*text, "file /proc/loadavg", ""])


def bundled(plan: str) -> bytes:
    """Return the probe with a plan, executable; raises :class:`ToolNotFoundError` where it was not built without libraries."""
    try:
        binary = program("convolver-probe-static", "").read_bytes()
    except ToolNotFoundError as error:
        raise ToolNotFoundError(
            "The probe without libraries is not built: install a static libc (Debian: libc6-dev, Fedora: glibc-static) and gcc, "
            "and install Convolver again."
        ) from error
    return binary + plan.encode() + MARK + struct.pack("<Q", len(plan.encode()))


def write_bundle(path: Path, *, full: bool = False) -> None:
    """Write the probe as one executable file, with the quick or the full plan; raises what :func:`bundled` does."""
    content = bundled(_plan_text(plan_of_bundle("full" if full else "quick")))
    save_bytes(path, content, executable=True)


class _Recorded:
    """The answers of a probe of a core that nobody asked; those to one question come round in turn."""

    def __init__(self, lines: Sequence[Mapping[str, Any]]) -> None:
        first = next((number for number, line in enumerate(lines) if line["name"] in WINDOWS), len(lines))
        self._bodies = [(str(line["name"]), sorted(map(float, line["cycles"]))) for line in lines[: first + 1]]
        self._known: dict[str, dict[int, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
        for line in lines[first + 1 :]:
            self._known[line["name"]][int(line["filled"])].append(sorted(map(float, line["cycles"])))
        self._turn: dict[tuple[str, int], int] = defaultdict(int)
        self._waiting: list[tuple[str, list[float]]] = []

    def ask(self, line: str) -> None:
        name, _, count = line.partition(" ")
        if self._bodies:
            self._waiting, self._bodies = [*self._bodies], []
        else:
            self._waiting.append((name, self.cycles(name, int(count))))

    def answer(self) -> tuple[str, list[float]] | None:
        return self._waiting.pop(0) if self._waiting else None

    def cycles(self, name: str, count: int) -> list[float]:
        """Return an answer to this count or to the nearest one; to one that was asked once, its neighbors take turns with it."""
        known = self._known.get(name)
        if not known:
            return []
        turn = self._turn[name, count]
        self._turn[name, count] += 1
        ordered = sorted(known, key=lambda one: (abs(one - count), one))
        if len(known[ordered[0]]) == 1 and name in WINDOWS:
            return known[ordered[turn % min(LOOKS, len(ordered))]][0]
        answers = known[ordered[0]]
        return answers[turn % len(answers)]


def _parts(path: Path) -> Iterator[dict[str, Any]]:
    try:
        for line in path.read_bytes().splitlines():
            one = decode_json(line, "a line")
            if not isinstance(one, dict):
                raise ValueError("a line is no object")
            yield one
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, FormatError) as error:
        found = held(path)
        why = f"it holds {found}" if found else str(error)
        raise FormatError(
            f"{path} is not what a bundled probe prints ({why}); run the file that `convolver probe --bundle` wrote."
        ) from error


def read_measurements(path: Path) -> MachineProfile:
    """Return the profile of the machine on which a bundled probe printed this file, not calibrated yet.

    Raises :class:`FormatError` for something else or a run that did not end.
    """
    try:
        return _read(path)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError, msgspec.MsgspecError) as error:
        raise FormatError(f"{path} is damaged or of another version: {type(error).__name__} {error}.") from error


def _read(path: Path) -> MachineProfile:
    about: dict[str, Any] = {}
    files: list[tuple[str, str]] = []
    tasks: dict[str, list[dict[str, Any]]] = {}
    ended: dict[str, int] = {}
    now = ""
    for one in _parts(path):
        if "bundle" in one:
            about = one
        elif "plan" in one:
            about = {**about, **one}
        elif "file" in one:
            files.append((str(one["file"]), str(one["text"])))
        elif "task" in one and "status" in one:
            ended[one["task"]] = int(one["status"])
        elif "task" in one:
            now = str(one["task"])
            tasks[now] = []
        elif now:
            tasks[now].append(one)
    if ended.get("system") != 0 or any(status and not name.startswith("huge") for name, status in ended.items()):
        raise FormatError(f"{path} holds no whole run of a bundled probe; run it again, and keep all that it prints.")
    return _profile(about, files, tasks, ended)


def _profile(
    about: Mapping[str, Any],
    files: Sequence[tuple[str, str]],
    tasks: Mapping[str, list[dict[str, Any]]],
    ended: Mapping[str, int],
) -> MachineProfile:
    cpu = int(about["cpu"])
    with TemporaryDirectory(prefix="convolver-machine-") as folder:
        root = Path(folder)
        for name, text in files:
            copy = root / name.lstrip("/")
            if ".." not in copy.parts:
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(text)
        described = describe_cpu(cpu, root, about)
        try:
            reported = read_hierarchy(cpu, root / "sys/devices/system/cpu")
        except (MachineError, HierarchyError):
            reported = ()
    first, *rows = tasks["kernels"]
    kernels = {row["kernel"]: msgspec.convert(row, Kernel) for row in rows}

    def lines(name: str) -> list[Line]:
        found = [one for task, rows in tasks.items() if task.startswith(name) and not ended.get(task) for one in rows]
        return [msgspec.convert(one, Line) for one in found]

    measured, huge, loaded = lines("round"), lines("huge"), lines("loaded")
    busy = max((one.threads for one in measured if one.working_set_bytes), default=1)
    plan = plan_of_bundle(str(about.get("plan", "quick")), busy)
    plan = plan.restricted(name for name, kernel in kernels.items() if kernel.supported)
    plan = msgspec.structs.replace(plan, near_bytes=near_bytes(reported))
    seen = {(one.kernel, one.working_set_bytes, one.threads) for one in measured}
    plan = msgspec.structs.replace(plan, items=tuple(item for item in plan.items if tuple(item) in seen))
    loads = [tuple(float(word) for word in text.split()[:3]) for name, text in files if name == "/proc/loadavg"] or [(0.0,) * 3]
    started = datetime.datetime.fromtimestamp(int(about["started"]), datetime.UTC)
    seconds = sum(one.elapsed_seconds for one in [*measured, *huge, *loaded])
    moments = [core_figures(_Recorded(tasks[name])) for name in tasks if name.startswith("core")]
    mixes = [tasks[one] for one in tasks if one.startswith("ports")]
    alone = least_taken(moments, mixes)
    core, kernel = quietest_figures(moments, alone), kernel_costs(tasks["system"])
    without = "" if huge else f"{WITHOUT_HUGE}the machine gave none."
    page_bytes = page_bytes_of(plan.pages, described)
    around = Around(beside(steadied(loaded, plan.near_bytes), loaded_plan(plan), kernels, page_bytes) if loaded else ())
    name = str(about["host"]).split(".")[0].replace("/", "-") or "machine"
    return profile_of(
        Measured(
            plan=plan,
            cpu=cpu,
            kernels=kernels,
            compiler=str(first["compiler"]),
            host=name,
            described=described,
            reported=reported,
            lines=steadied(measured, plan.near_bytes),
            huge_lines=steadied(huge, plan.near_bytes),
            without_huge=without,
            core=core,
            ports=port_figures(mixes, alone),
            kernel=kernel,
            started=started,
            duration_seconds=seconds,
            load_before=loads[0],
            load_after=loads[-1],
        ),
        lambda *_: around,
    )
