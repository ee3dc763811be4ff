"""The ports of a core: the probe mixes every two kinds of instructions, and what the mixes take says which ports they share."""

from __future__ import annotations

import json
import math
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from convolver.machine.core_figures import CoreFigure, MixedKind, is_widest, of_avx512
from convolver.probing.moments import ALIKE, WITNESS, taken_cycles
from convolver.probing.port_fit import Mix, fit_ports, fit_wide, kind_cycles
from convolver.probing.runner import check_alive, probe_binary
from convolver.progress import SILENT, Progress

SLOT = "slot"
"""What takes a slot and no port; a piece has many of them beside the one whose slots are asked for."""
WHOLE = 0.4
"""Slots must lie so near a whole number."""
MOST_ASTRAY = 0.25
"""Distance from whole numbers that a tenth of the kinds' slots may exceed, or none counts: that of a clock which is off by 1 %. A
core that takes a piece now at one pace, now at another, moves them by two slots (Raptor Cove)."""
LONGEST = 2.1
"""Cycles of a kind whose ports are looked for: what takes longer keeps a unit busy."""
ISSUED = 1.1
"""Times what the issue width allows: ports of a kind that is as fast are not seen."""
LEAST_SHARE = 0.9
"""Of the other kinds, with which a kind must have been seen undisturbed."""
EXPLAINED = 0.3
"""Share of a kind's own cycles by which its ports may err."""
PATIENCE_SECONDS = 60
TOO_LOW = 2
"""Of the samples of a mix."""


def port_samples(cpu: int, progress: Progress = SILENT) -> list[dict[str, Any]]:
    """Return what the probe prints of mixes on the core of a CPU at one moment, some seconds.

    Empty where code cannot be made at run time, or the probe does not end. Raises :class:`ProbeKilledError`.
    """
    progress.start(f"probing the ports of CPU {cpu}")
    command = [str(probe_binary()), "--ports", "--cpu", str(cpu)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        check_alive(error.returncode, "measured the ports")
        return []
    except (OSError, subprocess.SubprocessError):
        return []
    finally:
        progress.finish()
    return [json.loads(line) for line in done.stdout.splitlines()]


def least_taken(core: Iterable[Iterable[CoreFigure]], ports: Iterable[Iterable[Mapping[str, Any]]]) -> float:
    """Return the cycles of a taken branch on the core alone, as any moment of its figures or its ports saw it; infinite where
    none looked. Others may share the core at all moments of one of the two."""
    looks = [cycles for cycles in map(taken_cycles, core) if cycles]
    looks += [float(cycles) for lines in ports for line in lines if line["name"] == WITNESS for cycles in line["cycles"]]
    return min(looks, default=math.inf)


def port_figures(moments: Iterable[Iterable[Mapping[str, Any]]], taken: float | None = None) -> tuple[MixedKind, ...]:
    """Return the kinds of a core from what its probe printed at one or more moments.

    ``taken`` are the cycles of a taken branch on the core alone, where they are known: moments at which it took more do not
    count. Empty where the CPU lacks AVX2, or others kept the core busy all the time.
    """
    cycles: dict[str, list[float]] = defaultdict(list)
    for lines in moments:
        moment = {str(line["name"]): [*map(float, line["cycles"])] for line in lines}
        if taken and min(moment.pop(WITNESS, []), default=taken) > ALIKE * taken:
            continue
        for name, samples in moment.items():
            cycles[name] += samples
    seen = {name: _least(samples) for name, samples in cycles.items() if samples}
    alone = {name.partition(".")[2]: value for name, value in seen.items() if name.startswith("alone.")}
    slot = alone.pop(SLOT, 0.0)
    if not slot:
        return ()
    pieces = {kind: seen[f"slots.{kind}"] / slot for kind in alone if f"slots.{kind}" in seen}
    slots: dict[str, int] = {}
    for avx512 in (False, True):  # what is added where the CPU has AVX-512 changes nothing of the others
        own = {kind: value for kind, value in alone.items() if of_avx512(kind) == avx512}
        slots |= _slots({kind: pieces[kind] for kind in own if kind in pieces}, own, slot)
    asked = [name.split(".") for name in cycles if name.startswith("mix.")]
    narrow, wide = ([mix for mix in asked if of_avx512(mix[1]) | of_avx512(mix[3]) == avx512] for avx512 in (False, True))
    mixed = {
        kind: alone[kind]
        for kind in alone
        if ISSUED * slot < alone[kind] < LONGEST and _seen(kind, wide if of_avx512(kind) else narrow, seen)
    }
    mixes, wide_mixes = ([*_mixes(own, mixed, seen)] for own in (narrow, wide))
    each, width = {kind: slots[kind] or 1 for kind in mixed}, round(1 / slot)
    first = {kind: value for kind, value in mixed.items() if not of_avx512(kind)}
    ports = fit_ports(first, mixes, each, width).ports if mixes else {}
    closed = 0
    if ports and wide_mixes:
        more = fit_wide(ports, mixed, wide_mixes, each, width)
        ports, closed = {**ports, **more.ports}, more.closed
    found = []
    for kind, value in alone.items():
        one = MixedKind(name=kind, cycles=round(value, 3), slots=slots[kind])
        if kind in ports and abs(kind_cycles(ports[kind]) / value - 1) < EXPLAINED:
            one = msgspec.structs.replace(one, ports=tuple(map(_numbers, ports[kind])))
            if is_widest(kind):  # few of them among others start slowly, which looks like more slots than micro-operations
                one = msgspec.structs.replace(one, slots=min(one.slots, len(one.ports)), closes=_numbers(closed))
        found.append(one)
    return tuple(found)


def _numbers(mask: int) -> tuple[int, ...]:
    return tuple(port for port in range(mask.bit_length()) if mask >> port & 1)


def _mixes(asked: Iterable[Sequence[str]], mixed: Mapping[str, float], seen: Mapping[str, float]) -> Iterator[Mix]:
    """Yield those that were seen of kinds whose ports are looked for."""
    for mix in asked:
        _, kind, count, other, others = mix
        if kind in mixed and other in mixed and ".".join(mix) in seen:
            yield Mix(kind, int(count), other, int(others), seen[".".join(mix)])


def _least(samples: Sequence[float]) -> float:
    """Return the third least of many samples: a core does not always make the best of a mix, and what it makes of it stays the
    same for a while; one at which the clock stopped is too low."""
    return sorted(samples)[min(TOO_LOW, len(samples) // 3)]


def _slots(pieces: Mapping[str, float], alone: Mapping[str, float], slot: float) -> dict[str, int]:
    """Return how many slots one of each kind takes, 0 where that is no whole number or more than it takes alone.

    ``pieces``: slots of a piece, by kind. Most kinds take one: what half of them are beyond it is the front end's or the clock's.
    """
    found = dict.fromkeys(alone, 0)
    if not pieces:
        return found
    usual = median(pieces.values())
    exact = {kind: 1 + piece - usual for kind, piece in pieces.items()}
    astray = sum(abs(one - round(one)) > MOST_ASTRAY for one in exact.values())
    if 10 * astray > len(exact):
        return found
    for kind, one in exact.items():
        if abs(one - round(one)) < WHOLE and 1 <= round(one) < alone[kind] / slot + WHOLE:
            found[kind] = round(one)
    return found


def _seen(kind: str, asked: Sequence[Sequence[str]], seen: Mapping[str, float]) -> bool:
    """Tell whether a kind's mixes with most others were seen. Moments may mix other numbers of the same two: each balances what
    it saw of both alone, so that a disturbed one asks for mixes that no other moment has."""
    others = {frozenset(mix[1::2]) for mix in asked if kind in mix[1::2]}
    known = {frozenset(mix[1::2]) for mix in asked if ".".join(mix) in seen}
    return bool(others) and len(others & known) >= LEAST_SHARE * len(others)
