"""What limits a program: the seconds of its blocks divided among causes, which add up to them.

A block's time combines parts by norms and maxima; of a norm each part has its share x^p / sum of all x^p, of a maximum the longer
has all (:func:`convolver.convolution.rates.contributions`). Each part has its own causes: the core's cycles as the walk counts
them, levels by what their lines wait for. docs/theory.md, "What limits it", lists them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from convolver.analyzing.core_causes import CORE, DEPENDENT, PAGE_WALKS, PORT, WIDTH, Causes, in_proportion
from convolver.analyzing.falls import Array
from convolver.convolution.rates import BlockWork, contributions, farther, norm_shares, parts
from convolver.convolution.work import NearSeconds
from convolver.heavy import pl
from convolver.machine.calibration import Calibration
from convolver.machine.maps import MEMORY

BANDWIDTH, LATENCY, KERNEL, WAITING, PORTS = "memory_bandwidth", "memory_latency", "kernel", "waiting", "ports"
LIMIT = "limit_"
"""Prefix of the columns with the seconds of causes in block times."""


def of_rates(near: NearSeconds) -> Causes:
    """Return the causes of core time that is known from rates alone: the longest of the three has it."""
    longest = np.argmax(np.stack(near), axis=0)
    names = (PORT + "memory", DEPENDENT, WIDTH)
    return {name: np.where(longest == number, near.seconds, 0.0) for number, name in enumerate(names)}


def calibrated_limits(
    work: BlockWork,
    machine: Calibration,
    caches: Sequence[str],
    exponents: tuple[float, float],
    core: Causes,
    waiting: tuple[Array, Causes] | None = None,
) -> Causes:
    """Return the seconds of each block by cause.

    ``core`` are the causes of ``work.core``, and of ``waiting`` where that is known: its seconds, and their causes.
    """
    far, first = farther(work, machine), caches[0]
    levels = [*caches[1:], MEMORY]

    def delivered(number: int) -> Causes:
        streamed, scattered = far.streamed[:, number] + far.taken[:, number], far.scattered[:, number]
        if levels[number] == MEMORY:
            return {BANDWIDTH: streamed, MEMORY: scattered}
        return {levels[number]: streamed + scattered}

    by_part: list[Causes] = [
        {**core, levels[0]: core.get(levels[0], 0.0) + work.coming * machine.coming},
        delivered(0),
        delivered(0),
        *map(delivered, range(1, len(levels))),
        {PAGE_WALKS: work.walks},
        {first: far.first, **dict(zip(levels, far.latency.T, strict=True)), PAGE_WALKS: far.walked},
        dict(zip(levels, far.window.T, strict=True)),
        {} if waiting is None else waiting[1],
    ]
    seconds = parts(work, machine, None if waiting is None else waiting[0])
    return _summed(contributions(seconds, *exponents), by_part)


def simple_limits(seconds: Array, by_level: Array, caches: Sequence[str], core: Sequence[Causes], exponent: float) -> Causes:
    """Return the same where memory, shape (blocks, levels), and each of the core's parts are joined by one norm: of the methods
    without a calibration. Lines from memory count as bandwidth."""
    memory = dict(zip([*caches, BANDWIDTH], by_level.T, strict=True))
    shares = norm_shares(np.stack([by_level.sum(axis=1), *map(sum_of, core)]), exponent)
    return _summed(shares * seconds, [memory, *core])


def sum_of(causes: Causes) -> Array:
    """Return the seconds of all causes together."""
    return np.asarray(np.sum(list(causes.values()), axis=0))


def _summed(given: Array, by_part: Sequence[Causes]) -> Causes:
    found: Causes = {}
    for seconds, causes in zip(given, by_part, strict=True):
        if not seconds.any():
            continue
        for name, values in in_proportion(seconds, causes).items():
            cause = LATENCY if name == MEMORY else name
            found[cause] = found.get(cause, 0.0) + values
    return found


def ordered(levels: Sequence[str], causes: Sequence[str]) -> list[str]:
    """Return names of causes from the core outwards, single ports after dependent arithmetic."""
    ports = sorted(name for name in causes if name.startswith(PORT))
    known = [*CORE, *ports, *levels, BANDWIDTH, LATENCY, PAGE_WALKS, KERNEL]
    return [name for name in known if name in causes]


def grouped(rows: pl.DataFrame, system_seconds: float = 0.0, waiting_seconds: float = 0.0) -> dict[str, float]:
    """Return the seconds of rows of block times by cause, the largest first, all ports as one, and of the kernel and waiting."""
    found = {KERNEL: system_seconds, WAITING: waiting_seconds}
    for column in rows.columns:
        if column.startswith(LIMIT):
            name = column.removeprefix(LIMIT)
            name = PORTS if name.startswith(PORT) else name
            found[name] = found.get(name, 0.0) + float(rows[column].sum())
    return dict(sorted(((name, seconds) for name, seconds in found.items() if seconds > 0), key=lambda item: -item[1]))


def busy_ports(rows: pl.DataFrame) -> list[str]:
    """Return the ports that hold most of what ports take of rows of block times, the busiest first."""
    first = LIMIT + PORT
    ports = {name.removeprefix(first): float(rows[name].sum()) for name in rows.columns if name.startswith(first)}
    order = sorted(ports, key=lambda name: -ports[name])
    left, found = 0.8 * sum(ports.values()), []
    for name in order:
        if left <= 0:
            break
        found.append(name)
        left -= ports[name]
    return found
