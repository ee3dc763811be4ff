"""A core table with the ports that the machine's probe found in place of those that were published."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from convolver.machine.core_figures import MixedKind, of_avx512
from convolver.machine.cores import CoreTable, InstructionKind

ALONE = 2.1
"""Cycles above which a kind that shares no ports keeps a unit of its own busy."""
HALVES = 0.06
"""A unit's cycles must lie so near to a whole number of half cycles."""

GATHERS = "gather"
"""How the names of kinds begin that load element by element."""


def mapped_core(table: CoreTable, found: Sequence[MixedKind]) -> tuple[CoreTable, tuple[str, ...]]:
    """Return the table with measured ports, slots and cycles of units, and the kinds that have them; the table itself where none
    were measured.

    A kind that was not measured goes where measured kinds go that have its ports in the table, and takes as many cycles as there.
    Additions go wherever address computations do: the probe's sign extensions, which stand for them, have fewer ports on some
    cores.
    """
    ports = {one.name: one.ports for one in found if one.ports}
    if not ports:
        return table, ()
    if "lea" in ports and "alu" in ports and len(ports["lea"][0]) > len(ports["alu"][0]):
        ports["alu"] = ports["lea"]
    seeds = {name: table.mask(table.kind(name).ports) for name in ports}
    kinds, measured = {}, []
    units = {one.name: one for one in found if not one.ports and one.cycles > ALONE}
    slots = {one.name: one.slots for one in found if one.slots}
    for name in dict.fromkeys((*table.kinds, *ports, *filter(of_avx512, units))):
        seed = table.kind(name)
        if name in ports:
            kinds[name] = _on(seed, ports[name], slots.get(name, seed.slots))
            measured.append(name)
            continue
        like = _alike(table, name, seeds)
        if name in units and name.startswith(GATHERS):
            kinds[name] = _gather(seed, units[name].cycles, table.params["issue_width"])
            measured.append(name)
        elif like is not None:
            first = ports[like][0]
            busy = seed.busy * len(first) / max(len(seed.ports.split()), 1)
            kinds[name] = msgspec.structs.replace(_on(seed, (first,), seed.slots), busy=max(round(2 * busy) / 2, 1))
        elif name in units and (of_avx512(name) or abs(2 * units[name].cycles - round(2 * units[name].cycles)) < 2 * HALVES):
            kinds[name] = msgspec.structs.replace(seed, busy=round(2 * units[name].cycles) / 2)
            measured.append(name)
        else:
            kinds[name] = seed
    used = [port for kind in kinds.values() for port in (*kind.ports.split(), *kind.also.split())]
    memory = " ".join((table.memory.load, table.memory.store, table.memory.vector_load)).split()
    names = sorted(dict.fromkeys((*used, *(port for port in table.ports if port in memory))), key=used.count)
    others = [one for one in found if not of_avx512(one.name)]
    if len(others) < len(found):  # what is measured of AVX-512 changes nothing of other kinds
        known, _ = mapped_core(table, others)
        kinds |= {name: known.kind(name) for name in kinds if not of_avx512(name)}
        names = [*dict.fromkeys((*known.ports, *names))]
    return msgspec.structs.replace(table, ports=tuple(names), kinds=kinds), tuple(measured)


def _gather(seed: InstructionKind, cycles: float, width: int) -> InstructionKind:
    """Return a gather that keeps one port busy for so long, and takes no more slots than are issued meanwhile."""
    busy = max(round(2 * cycles) / 2, 1)
    return msgspec.structs.replace(
        seed, ports=seed.ports.split()[0], also="", busy=busy, slots=min(seed.slots, int(width * busy))
    )


def _on(seed: InstructionKind, ports: Sequence[Sequence[int]], slots: int) -> InstructionKind:
    names = [" ".join(f"m{port}" for port in one) for one in ports]
    return msgspec.structs.replace(seed, ports=names[0], also=names[1] if len(names) > 1 else "", busy=1, slots=slots)


def _alike(table: CoreTable, name: str, seeds: dict[str, int]) -> str | None:
    """Return the measured kind whose published ports are the fewest that hold those of another kind; None without one."""
    own = table.mask(table.kind(name).ports)
    holding = [like for like, mask in seeds.items() if own and mask & own == own]
    return min(holding, key=lambda like: (seeds[like].bit_count(), like[0] != name[0]), default=None)
