"""The rate model: seconds of a block from the lines that its references move.

    near = ((max(core, serial) + loaded)^n + stored^n)^(1/n)
    T = max((near^p + L3^p + ... + memory^p + pages^p + window^p)^(1/p), waiting)

``loaded`` is the time in which the nearest farther level delivers what loads ask of it, as far as a line that enters the first
level takes turns there with the loads, so that nothing overlaps: more of it on Intel's cores than on AMD's. (The
execution-cache-memory model says so: Stengel, Treibig, Hager and Wellein, "Quantifying performance bottlenecks of stencil
computations using the Execution-Cache-Memory model", ICS 2015; Hofmann, Alappat, Hager, Fey and Wellein, "Bridging the
architecture gap", 2019.) ``stored`` is the rest, and that of the lines of stores, which leave through a buffer beside it.
``L3`` ... ``memory`` are the times in which a level delivers the lines that are asked of it, by how they are asked for, and takes
dirty lines back; ``pages`` that in which translations are looked up; ``serial`` that of loads which wait for one another,
where no path is walked; ``window``, there too, that of misses which the core cannot see in time, since only so many loads fit
into its window; ``waiting`` that of the executed path where it is walked with all latencies, those of chained loads and of what
does not fit into the window included: these may be charged to another block of their loop than the one with the loads, so both
would count them twice. Every part is linear in the work, so the time of twice the work is twice the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convolver.analyzing.falls import DEPENDENT, RANDOM, SEQUENTIAL, STRIDED, Array
from convolver.machine.calibration import Calibration


@dataclass(frozen=True)
class BlockWork:
    """What blocks (rows) ask of a machine, in totals.

    ``core``: seconds when every reference hits the first level and none waits for another. ``lines``: by farther level and class,
    shape (blocks, levels, 4). ``written``: dirty lines that arrive at each level. ``between``: lines left out before each
    strided one. ``coming``: references to lines on their way. ``alone``: share of the sequential lines that come in one
    stream at a time, x that of the references that find their line in the first level. ``loads``.
    ``chased``: loads that wait for one another; ``chased_share``: of the dependent lines, those that they bring; ``chains``:
    how many such chains run side by side. ``walks``: pages, asked for out of order, whose translation is not near;
    ``chased_walks``: those that chased loads ask for.
    """

    core: Array
    lines: Array
    written: Array
    between: Array
    coming: Array
    alone: Array
    loads: Array
    chased: Array
    chased_share: Array
    chains: Array
    walks: Array
    chased_walks: Array


class Farther(NamedTuple):
    """Seconds by block and farther level (columns): ``streamed`` for lines at the rate at which they stream, ``scattered`` for
    what lines out of order take beyond that, ``taken`` for dirty lines that arrive, ``latency`` for chased loads, ``window`` for
    misses that the core cannot see in time. By block: ``first`` for the first level's latency of chased loads, ``walked`` for
    their translations."""

    streamed: Array
    scattered: Array
    taken: Array
    latency: Array
    window: Array
    first: Array
    walked: Array


def farther(work: BlockWork, machine: Calibration) -> Farther:
    """Return what the levels after the first level take."""
    sequential, random = np.array(machine.sequential), np.array(machine.random)
    scattered = work.lines[:, :, RANDOM] + work.lines[:, :, DEPENDENT]
    strided = work.lines[:, :, STRIDED] * (1 + machine.between * work.between)[:, None]
    streamed = (work.lines[:, :, SEQUENTIAL] + strided) * sequential + scattered * np.minimum(sequential, random)
    # A prefetcher stops where its page ends. Until a load of the next one starts it again, memory rests, unless another stream
    # asks for lines meanwhile, or the core itself sees far ahead, as it does where few references share a line.
    streamed[:, -1] += work.lines[:, -1, SEQUENTIAL] * sequential[-1] * machine.alone * work.alone
    chased_lines = work.lines[:, :, DEPENDENT] * work.chased_share[:, None]
    return Farther(
        streamed,
        scattered * np.maximum(random - sequential, 0.0),
        work.written * np.array(machine.write_back),
        chased_lines * (np.array(machine.latency) - machine.first_latency) / work.chains[:, None],
        _window(scattered - chased_lines, work.loads - work.chased, machine),
        work.chased * machine.first_latency / work.chains,
        work.chased_walks * machine.walk_latency / work.chains,
    )


def of_loads(work: BlockWork) -> Array:
    """Return the share of the nearest farther level's lines that loads bring: a line that leaves the first level dirty was
    brought by a store, which pays for both ways."""
    lines = work.lines[:, 0].sum(axis=1)
    return np.asarray(1 - np.minimum(work.written[:, 0] / np.where(lines > 0, lines, 1.0), 1.0))


def parts(work: BlockWork, machine: Calibration, waiting: Array | None = None) -> Array:
    """Return the seconds of each part, shape (parts, blocks): core, loaded, stored, the levels beyond the nearest, pages, serial
    and window (both 0 where waiting is given), waiting (else 0)."""
    far, none = farther(work, machine), np.zeros_like(work.core)
    asked = far.streamed + far.scattered
    nearest = asked[:, 0] * of_loads(work)
    return np.vstack(
        [
            work.core + work.coming * machine.coming,
            machine.blocked * nearest,
            (1 - machine.blocked) * nearest + far.taken[:, 0],
            (asked + far.taken)[:, 1:].T,
            work.walks * machine.walk,
            far.first + far.latency.sum(axis=1) + far.walked if waiting is None else none,
            far.window.sum(axis=1) if waiting is None else none,
            none if waiting is None else waiting,
        ]
    )


def joined(parts: Array, near: float, exponent: float) -> Array:
    """Return the seconds of each block from its parts, as the formula of this module says; both exponents infinite: perfect
    overlap, both 1: none.

    The longer of core and serial time counts: both hold the chains of loads that wait for one another, the core as if all their
    data were near, the serial time with the latencies of where they are, and one path is walked once.
    """
    core, loaded, stored = parts[:3]
    pages, serial, window, waiting = parts[-4:]
    first = combine(np.vstack([np.maximum(core, serial) + loaded, stored]), near)
    farther = [one for one in (*parts[3:-4], pages, window) if one.any()]  # a norm takes long, and often there is no window
    return np.maximum(combine(np.vstack([first, *farther]), exponent), waiting)


def contributions(parts: Array, near: float, exponent: float) -> Array:
    """Return what each part adds to the seconds of a block, shape (parts, blocks): they add up to :func:`joined`.

    In a norm a part x of the whole has the share x^p / sum of all x^p, the only split in which parts that a part is cut into
    keep their sum where p is 1, and which is continuous (Euler's theorem: the norm's derivative by x times x). Of a maximum the
    longer has all.
    """
    core, loaded, stored = parts[:3]
    serial, waiting = parts[-3], parts[-1]
    longer = np.maximum(core, serial) + loaded
    first = combine(np.vstack([longer, stored]), near)
    outer = np.vstack([first, parts[3:-4], parts[-4], parts[-2]])
    whole = combine(outer, exponent)
    given = norm_shares(outer, exponent) * whole * (whole >= waiting)
    inner = norm_shares(np.vstack([longer, stored]), near) * given[0]
    each = np.divide(inner[0], longer, out=np.zeros_like(longer), where=longer > 0)
    found = np.zeros_like(parts)
    found[0], found[-3] = core * each * (core >= serial), serial * each * (core < serial)
    found[1], found[2] = loaded * each, inner[1]
    found[3:-4], found[-4], found[-2] = given[1:-2], given[-2], given[-1]
    found[-1] = waiting * (whole < waiting)
    return found


def norm_shares(parts: Array, exponent: float) -> Array:
    """Return x^p / sum x^p of the parts (rows) per block; the first of the longest has all for infinity."""
    if np.isinf(exponent):
        return np.asarray(np.arange(len(parts))[:, None] == parts.argmax(axis=0), dtype=float)
    largest = parts.max(axis=0)
    powers = (parts / np.where(largest > 0, largest, 1.0)) ** exponent
    whole = powers.sum(axis=0)
    return np.asarray(powers / np.where(whole > 0, whole, 1.0))


def _window(lines: Array, loads: Array, machine: Calibration) -> Array:
    """Return the time of the longest latencies, one a window, by the farthest level that the window's lines come from."""
    windows = np.maximum(loads, 0.0) / machine.window
    left = windows.copy()
    seconds = np.zeros_like(lines)
    for level in reversed(range(lines.shape[1])):
        waiting = np.minimum(left, np.maximum(lines[:, level], 0.0))
        seconds[:, level] = waiting * machine.latency[level]
        left -= waiting
    return seconds


def combine(parts: Array, exponent: float) -> Array:
    """Return the p-norm of the parts (rows) per block: the maximum for infinity, the sum for 1."""
    largest = parts.max(axis=0)
    if np.isinf(exponent):
        return largest
    # Relative to the largest part, so that a part alone comes out exactly and nothing underflows.
    relative = parts / np.where(largest > 0, largest, 1.0)
    return np.maximum(largest, largest * (relative**exponent).sum(axis=0) ** (1 / exponent))


def seconds(work: BlockWork, machine: Calibration) -> Array:
    """Return the time of each block."""
    return joined(parts(work, machine), machine.near_exponent, machine.exponent)
