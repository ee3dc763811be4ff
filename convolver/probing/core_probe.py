"""What the core itself takes: latencies and rates of instructions, forwarding, mispredictions, and the sizes of its buffers.

The probe times pieces of code over a chain of multiplications beside them, so that the numbers are cycles whatever the clock
does. A buffer's size shows in two independent loads that miss every cache: they overlap as long as the core holds both and the
instructions between them (the method of Henry Wong, "Measuring reorder buffer capacity", 2013).

Loads renamed to the stores that they read from: in a loop of so many pairs of a store and a load of it, whose addresses are in
two registers, a pair takes a cycle or less while the core foresees each load's store, and all that forwarding takes once there
are more loads than it can keep. Pairs whose address is named by one register, which stays as it is, may be known by that name, as
may those of push and pop, however many there are.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Protocol

from convolver.errors import ProbeError
from convolver.machine.core_figures import CoreFigure
from convolver.machine.cores import REGISTER_FILES
from convolver.probing.front import FILLING, LOOPS, TURNS, fetch_figures, front_figures, line_figures, loop_figures, turn_figures
from convolver.probing.runner import check_alive, probe_binary
from convolver.progress import SILENT, Progress

PAIRS = "pairs."
"""What the samples of pairs are called: a number of pairs whose load names another register, or one of these."""
STACK, NAMED = "stack", "named"
RENAMED = 2.0
"""Cycles of a pair below which the load was renamed."""


def pair_figures(pairs: Mapping[str, Sequence[float]]) -> list[CoreFigure]:
    """Return ``forward.pairs``, the most loads that are foreseen, ``forward.named`` (1: push and pop are known by name, 2: any
    register) and ``forward.late``, the cycles of a pair that is not foreseen, from sorted samples; nothing where none is."""
    cycles = {name: samples[len(samples) // 4] for name, samples in pairs.items() if samples}
    counts = sorted(int(name) for name in cycles if name.isdigit())
    late = [count for count in counts if cycles[str(count)] >= RENAMED]
    foreseen = [count for count in counts if count < min(late, default=counts[-1] + 1)] if counts else []
    if not foreseen or not late:
        return []
    exact = [("forward.pairs", foreseen[-1])]
    if cycles.get(STACK, RENAMED) < RENAMED:
        exact.append(("forward.named", 2 if cycles.get(NAMED, RENAMED) < RENAMED else 1))
    found = [CoreFigure.exact(name, value) for name, value in exact]
    late_pairs = CoreFigure.of_samples("forward.late", pairs[str(counts[-1])])
    return found if late_pairs is None else [*found, late_pairs]


WINDOWS = {
    **{"window.reorder_buffer": 5, "window.scheduler": 1, "window.load_buffer": 1, "window.store_buffer": 1},
    **{f"window.{file}": 1 for file in REGISTER_FILES},
}
"""Kinds of buffers, and the instructions in a piece that fills them."""
BYTES = 32 << 20
"""Of the two chains: far beyond the second level of any core we know."""
MOST = 1280
"""Instructions that no core holds between two loads."""
REPEATS = 3
_APART = 1.3
"""Two loads one after the other take at least this many times what overlapping ones do, or nothing is known."""
_LOOKS = 3


class Answers(Protocol):
    """Who answers what the probe of a core asks: a running probe, or what one has recorded."""

    def ask(self, line: str) -> None:
        """Ask for a name and a count."""

    def cycles(self, name: str, count: int) -> list[float]:
        """Return the sorted samples of what is asked for; empty when there is no answer."""

    def answer(self) -> tuple[str, list[float]] | None:
        """Return a name and the cycles of its samples; None at the end."""


class _Process:
    """The probe, which answers each line with one."""

    def __init__(self, cpu: int, pages: str) -> None:
        command = [str(probe_binary()), "--core", "--cpu", str(cpu), "--bytes", str(BYTES), "--pages", pages]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the answer says why
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def cycles(self, name: str, count: int) -> list[float]:
        """Return the sorted samples of what is asked for; empty when the probe has ended."""
        self.ask(f"{name} {count}")
        answer = self.answer()
        return [] if answer is None else answer[1]

    def answer(self) -> tuple[str, list[float]] | None:
        """Return a name and the cycles of its samples; None when the probe has ended by itself."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            check_alive(self._process.wait(), "measured the core")
            return None
        found = json.loads(line)
        return str(found["name"]), sorted(found["cycles"])


def capacity(serial: Callable[[int], bool], step: int = 1, most: int = MOST) -> int | None:
    """Return the least number, a multiple of ``step``, with which two loads follow each other; None where they always overlap."""
    low, high = 1, most // step
    if not serial(high * step) or serial(low * step):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if serial(middle * step) else (middle, high)
    return high * step


class _NoSampleError(Exception):
    """Other work disturbed every sample of several looks."""


def _window(process: Answers, name: str, step: int) -> CoreFigure | None:
    """Return the size of a buffer; None where no two loads are seen to follow each other, or the CPU is too busy to tell."""
    try:
        return _size(process, name, step)
    except _NoSampleError:
        return None


def _size(process: Answers, name: str, step: int) -> CoreFigure | None:
    def cycles(count: int) -> float:
        for _ in range(_LOOKS):
            process.ask(f"{name} {count}")
            answer = process.answer()
            if answer is None:
                raise ProbeError(f"The probe gave no answer while it measured {name}; probe again.")
            if answer[1]:
                return median(answer[1])
        raise _NoSampleError

    def serial(count: int) -> bool:
        # Lines that are still near, or a disturbance, mislead a single look.
        return sum(cycles(count) > limit for _ in range(_LOOKS)) * 2 > _LOOKS

    together, apart = min(cycles(step) for _ in range(_LOOKS)), min(cycles(MOST) for _ in range(_LOOKS))
    if apart < _APART * together:
        return None
    limit = (together * apart) ** 0.5
    sizes = [capacity(serial, step) for _ in range(REPEATS)]
    found = [size for size in sizes if size is not None]
    if len(found) < REPEATS:
        return None
    return CoreFigure(name=name, value=float(median(found)), low=float(min(found) - step), high=float(max(found)))


def measure_core(cpu: int, pages: str = "default", progress: Progress = SILENT) -> tuple[CoreFigure, ...]:
    """Measure the core of a CPU, a second or two, or eight where others share it; empty where code cannot be made at run time
    or on another architecture.

    Raises :class:`ProbeError` when the probe stops answering or is killed.
    """
    progress.start(f"probing the core of CPU {cpu}")
    try:
        with _Process(cpu, pages) as process:
            return core_figures(process)
    except OSError:
        return ()
    finally:
        progress.finish()


def core_figures(process: Answers) -> tuple[CoreFigure, ...]:
    """Return the figures of a core from the answers of its probe."""
    found: list[CoreFigure | None] = []
    parts: dict[str, dict[str, list[float]]] = {family: {} for family in (FILLING, PAIRS, LOOPS, TURNS)}
    process.ask("window.reorder_buffer 1")  # answered after all bodies
    while (answer := process.answer()) is not None and answer[0] not in WINDOWS:
        family = next((one for one in parts if answer[0].startswith(one)), None)
        if family:
            parts[family][answer[0].removeprefix(family)] = answer[1]
        else:
            found.append(CoreFigure.of_samples(*answer))
    found += [*pair_figures(parts[PAIRS]), *fetch_figures(parts[LOOPS]), *turn_figures(parts[TURNS])]
    found += line_figures({int(count): samples for count, samples in parts[FILLING].items()})
    if answer is not None:
        found += front_figures(process.cycles, capacity)  # before what takes long: a shared core may leave no time for both
        found += [_window(process, name, step) for name, step in WINDOWS.items()]
        found += loop_figures(process.cycles, capacity)
    return tuple(one for one in found if one is not None)
