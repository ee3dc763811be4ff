"""What synchronization costs on a machine, and how much memory several of its cores get together."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from convolver.machine.derived import MEMORY_BANDWIDTHS
from convolver.machine.maps import Curve
from convolver.machine.profile import MachineProfile

DEFAULT_COSTS = {
    "create": 23e-6,
    "start": 17e-6,
    "join": 3e-6,
    "wake": 22e-6,
    "wake_each": 4.4e-6,
    "spin": 1e-3,
    "fork": 0.8e-6,
    "fork_each": 40e-9,
    "barrier": 85e-9,
    "barrier_each": 30e-9,
    "lock": 6e-9,
    "handover": 27e-9,
    "given": 1e-9,
    "taken": 1.8e-9,
    "pass": 20e-9,
    "asleep": 7e-6,
    "chunk": 15e-9,
    "call": 0.0,
    "fault": 0.0,
    "counter": 0.28e-9,
    "sum": 2.5e-9,
    "crowded": 4.7,
    "crowded_atomic": 4.7,
    "step": 1.1e-9,
    "shared_3": 1.4e-9,
    "shared_9": 2.3e-9,
    "shared_27": 4.7e-9,
    "shared_81": 5.1e-9,
    "shared_243": 5.1e-9,
    "atomic_3": 9.3e-9,
    "atomic_9": 9.5e-9,
    "atomic_27": 9.9e-9,
    "atomic_81": 10e-9,
    "atomic_243": 10e-9,
}
"""Seconds: probed on two CPUs of a Zen 4 cloud machine, ``asleep`` on Zen 5, on Zen 3 ``sum`` and what a runtime of OpenMP takes;
``call`` and ``fault`` follow from system time. Between 0 and 30 steps of work, what is lost at a line is interpolated. A lock
passes in three quarters of a handover, whether CPUs share a last level or not; lines in a row are given in 1/27 and taken in 1/15
of one (Zen 3, CPUs that share a last level; 1/43 and 1/24 where they do not). Runtimes count those that come to a barrier in one
word, which all then read: each thread beyond two takes 1.1 handovers, and 1.5 where a region begins (16 CPUs of Emerald Rapids).
The kernel wakes one after another of those that sleep on a word, each in a fifth of a wake (Zen 3)."""
_AS_DEAR_AS = {
    **dict.fromkeys(("pass", "given", "taken", "barrier_each", "fork_each"), "handover"),
    "wake_each": "wake",
}
"""Of a cost that is not probed, the one that says how dear it is here."""
STEPS = (3, 9, 27, 81, 243)
"""Of work between two visits of a line, after which the probe looks what is lost there."""
_LOSSES = tuple(f"{kind}_{steps}" for kind in ("shared", "atomic") for steps in STEPS)
PROBED = (
    *("create", "start", "join", "wake", "wake_each", "asleep", "handover", "given", "taken", "pass", "barrier", "lock", "fork"),
    *("counter", "sum", "crowded", "crowded_atomic", "step", *_LOSSES),
)
"""What ``convolver probe`` measures, as ``thread.*`` among the kernel's costs."""

SPREAD = 2.0
"""What is not probed lies between 1 / SPREAD and SPREAD times what is said, 90 %: so far apart lay six rounds on another VM."""
NORMAL_90 = 1.645
SEED = 20261123
_NOISE = 0.02  # of a profile that does not say how noisy it is
_UNSEEN_CORES = 0.2  # deviation of the logarithm of what memory gives to more cores than were measured together
_CROWDED = {"crowded": ("counter", "counters"), "crowded_atomic": ("sum", "sums")}
"""Costs that are quotients of two that are probed: alone, and together."""
_LOST = {"shared": ("shared", "counter", "crowded"), "atomic": ("shared_atomic", "sum", "crowded_atomic")}
"""What older profiles say that threads lose at a line: after as long as :data:`_STEPS` take, and at once."""
_STEPS = 30
_PROBED_AS = {**_CROWDED, "fork": ("region",), "fork_each": ("region_all",), "barrier_each": ("barrier_all",)}
"""Samples that costs under other names follow from."""
_FOR_ALL = {"barrier": "barrier_all", "fork": "fork_all"}
"""What a team of one thread a CPU takes, beside what one of two does."""
PROPORTIONAL_CORES = 4
"""Bandwidth of more cores than were measured together: that of so many single ones at most."""
_LINE_LOADS = ("load", "copy")


def thread_costs(machine: MachineProfile) -> tuple[dict[str, float], list[str]]:
    """Return the seconds that events take, and what is assumed of them, in sentences without a full stop."""
    measured = {cost.name.removeprefix("thread."): cost.seconds for cost in machine.kernel if cost.name.startswith("thread.")}
    for name, (alone, together) in _CROWDED.items():
        if measured.get(alone) and measured.get(together):
            measured[name] = max(measured[together] / measured[alone], 1.0)
    for kind, (lost, alone, crowded) in _LOST.items():
        if lost in measured and {alone, crowded} <= measured.keys():
            first = (measured[crowded] - 1) * measured[alone]
            for steps in STEPS:
                part = min(steps / _STEPS, 1.0)
                measured.setdefault(f"{kind}_{steps}", first + part * (measured[lost] - first))
    for size in ("", "_all"):  # a region ends with a barrier
        if measured.get(f"region{size}"):
            measured[f"fork{size}"] = max(measured[f"region{size}"] - measured.get(f"barrier{size}", 0.0), 0.0)
    known = {name: seconds for name, seconds in measured.items() if name in PROBED}
    for name, other in _AS_DEAR_AS.items():
        if other in known:
            known.setdefault(name, known[other] * DEFAULT_COSTS[name] / DEFAULT_COSTS[other])
    parties = int(machine.cpu.get("cpus", 1))
    for name, of_all in _FOR_ALL.items():
        if measured.get(name) and measured.get(of_all) and parties > 2:
            known[f"{name}_each"] = max(measured[of_all] - measured[name], 0.0) / (parties - 2)
    missing = dict.fromkeys(name.partition("_")[0] if name in _LOSSES else name for name in PROBED if name not in known)
    which = f" ({', '.join(missing)})" if known else ""
    says = f"what threads cost each other{which} is that of an AMD Zen 4 machine, as it was not probed here"
    notes = [says] if missing else []
    return {**DEFAULT_COSTS, **known}, notes


def drawn_costs(machine: MachineProfile, count: int) -> dict[str, NDArray[np.float64]]:
    """Return ``count`` draws of what events take: within what the probe's samples leave, or :data:`SPREAD`, which errs alike on
    all machines. Differences of two probed times can have samples near nothing, but are no less certain than guesses."""
    probed = {cost.name.removeprefix("thread."): cost for cost in machine.kernel if cost.name.startswith("thread.")}
    found = {}
    for name, seconds in thread_costs(machine)[0].items():
        samples = [probed[one] for one in _PROBED_AS.get(name, (name,)) if one in probed]
        width = min(sum(math.log(one.high / one.low) for one in samples) if samples else math.inf, 2 * math.log(SPREAD))
        key = zlib.crc32(repr([name, samples]).encode())
        normal = np.random.default_rng([SEED, key]).standard_normal(count)
        found[name] = seconds * np.exp(width / 2 / NORMAL_90 * normal)
    return found


def drawn_capacity(machine: MachineProfile, cores: int, count: int) -> NDArray[np.float64]:
    """Return ``count`` factors of what memory gives to so many cores."""
    noise = float(machine.provenance.get("noise", {}).get("median_spread", _NOISE))
    unseen = _UNSEEN_CORES if cores > max((one.threads for one in machine.maps), default=1) else 0.0
    normal = np.random.default_rng([SEED, 1]).standard_normal(count)
    return np.asarray(np.exp(math.hypot(noise, unseen) * normal))


def _streams(machine: MachineProfile, threads: int) -> list[Curve]:
    """Return the curves of so many busy CPUs that load line after line."""
    known = [one for one in machine.maps if one.threads == threads and not one.beside and one.pattern == "unit"]
    return [one for one in known if one.operation in _LINE_LOADS and one.points]


def _bandwidth(machine: MachineProfile, threads: int) -> float:
    """Return the bytes a second that so many busy CPUs load from memory together; 0 where that was not measured."""
    far = [(one, one.points[-1]) for one in _streams(machine, threads)]
    beyond = max((level.size_bytes for level in machine.hierarchy), default=0)
    rates = [one.width_bytes / point.seconds_per_reference for one, point in far if point.working_set_bytes > beyond]
    return threads * max(rates, default=0.0)


def _last_level_bandwidth(machine: MachineProfile, threads: int) -> float:
    """Return the same from the last level: with sets of several times the level before it, of which all threads' fit."""
    if len(machine.hierarchy) < 2:
        return 0.0
    before, last = machine.hierarchy[-2].size_bytes, machine.hierarchy[-1].size_bytes
    rates = [
        one.width_bytes / point.seconds_per_reference
        for one in _streams(machine, threads)
        for point in one.points
        if 2 * before <= point.working_set_bytes <= last / 2 / threads
    ]
    return threads * max(rates, default=0.0)


def _measured(machine: MachineProfile, bandwidth: Callable[[MachineProfile, int], float]) -> dict[int, float]:
    """Return the bandwidth of each number of busy CPUs of which the profile tells it."""
    return {count: rate for count in {one.threads for one in machine.maps} if (rate := bandwidth(machine, count)) > 0}


def _between(known: Mapping[int, float], cores: int) -> NDArray[np.float64]:
    """Return what 1, 2, ... ``cores`` cores get, straight between the numbers of them for which it is known."""
    places = sorted(known)
    return np.interp(np.arange(1, cores + 1), places, [known[one] for one in places])


def _saturating(known: Mapping[int, float], cores: int) -> NDArray[np.float64]:
    """Return what 1, 2, ... ``cores`` cores get that share a way to memory, from what some numbers of them do. Beyond the most of
    these each doubling adds half of what the one before it added."""
    found = {count: max(rate, known[1]) for count, rate in known.items()}
    top = max(found)
    half = found[max((one for one in found if 2 * one <= top), default=1)]
    gain = min(max(found[top] / half - 1, 0.0), 1.0) if top > 1 else 1.0
    while top < cores:
        gain /= 2
        found[2 * top] = found[top] * (1 + gain)
        top *= 2
    return _between(found, cores)


def complex_capacity(machine: MachineProfile, cores: int) -> NDArray[np.float64]:
    """Return the bytes a second that 1, 2, ... ``cores`` busy cores of one complex get from memory together; empty: unknown."""
    known = {count: rate for count, rate in _memory_rates(machine).items() if count <= cores}
    return _saturating(known, cores) if 1 in known else np.zeros(0)


def last_level_capacity(machine: MachineProfile, cores: int) -> NDArray[np.float64]:
    """Return the same from their last level: as much for each further core as the most that were measured have; empty where
    several at a time were not."""
    known = {count: rate for count, rate in _measured(machine, _last_level_bandwidth).items() if count <= cores}
    top = max(known, default=0)
    if 1 not in known or top < 2:
        return np.zeros(0)
    known[max(cores, top)] = known[top] * max(cores, top) / top
    return _between({count: max(rate, known[1]) for count, rate in known.items()}, cores)


def _memory_rates(machine: MachineProfile) -> dict[int, float]:
    """Return the bytes a second that numbers of busy CPUs were measured to get from memory together."""
    known = _measured(machine, _bandwidth)
    return known | {int(count): float(rate) for count, rate in machine.cpu.get(MEMORY_BANDWIDTHS, {}).items() if int(count) > 1}


def memory_capacity(machine: MachineProfile, cores: int) -> tuple[NDArray[np.float64], list[str]]:
    """Return the bytes a second that 1, 2, ... ``cores`` busy cores get from memory together, and what is assumed.

    Measured counts are kept, counts between are interpolated, more cores get what :data:`PROPORTIONAL_CORES` single ones would,
    or so many times what that many or more were measured to get.
    Empty where the profile has no curve that reaches memory.
    """
    known = _memory_rates(machine)
    if 1 not in known:
        return np.zeros(0), [f"memory is taken to have bandwidth for all: no curve of {machine.name} reaches it"]
    for count in known:
        known[count] = max(known[count], known[1])
    top = max(known)
    notes = []
    if cores > top >= PROPORTIONAL_CORES:
        most = min(cores, PROPORTIONAL_CORES * top)
        known[most] = known[top] * most / top
        notes = [f"memory gives each of up to {PROPORTIONAL_CORES * top} cores what each of {top} gets: no more were measured"]
    elif cores > top:
        known[cores] = max(known[top], known[1] * min(cores, PROPORTIONAL_CORES))
        known.setdefault(min(cores, PROPORTIONAL_CORES), known[cores])
        several = f"{top} cores" if top > 1 else "one core"
        notes = [f"memory gives more than {several} what {PROPORTIONAL_CORES} single ones get: its curves end there"]
    return _between(known, cores), notes
