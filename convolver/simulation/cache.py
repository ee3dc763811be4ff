"""Hit rates that are simulated once: a cache by (trace id, hierarchy id).

A machine whose caches were already simulated for a trace costs nothing, whatever its name, its curves and its clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from convolver import __version__
from convolver.errors import ConvolverError, CoverageError, FormatError, ProvenanceError
from convolver.locations import cache_folder
from convolver.machine.calibration import PAGE, PAGES, SCATTERED
from convolver.machine.memory_system import MemorySystem
from convolver.machine.profile import MachineProfile
from convolver.progress import SILENT, Progress
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.level_samples import sampled
from convolver.simulation.one_pass import TraceLike, simulate
from convolver.simulation.targets import Target

if TYPE_CHECKING:
    import polars as pl

REVISION = 8
"""To be raised whenever columns or meaning of hit rates change, so that older ones in a cache are not used."""
SETS = 64
"""A size that is made up has a number of sets that samples of up to 1 / 64 of the sets can hold."""
CACHED_FILES = 500
"""Hit rates kept in the cache; the oldest go first."""


def hit_rates(trace: TraceLike, machines: Sequence[MachineProfile], *, progress: Progress = SILENT) -> HitRates:
    """Return the hit rates of a trace on machines; hierarchies that are in the cache are not simulated again.

    Raises :class:`CoverageError` for a trace that holds no address and what :func:`convolver.simulation.one_pass.simulate` does.
    """
    holds = sampled(trace.header.get("sampling"))
    if holds.windows is None and not holds.classes:
        raise CoverageError("The trace holds no addresses, so nothing is known of the program's memory; trace it with a sample.")
    wanted = {machine.hierarchy_id: machine.system for machine in machines}
    pages = {machine.name: system for machine in machines if holds.windows and (system := translation(machine))}
    scattered = {machine.name: system for machine in machines if (system := smaller(machine))}
    wanted |= {system.id: system for system in [*pages.values(), *scattered.values()]}
    known = {key: _cached(trace, key) for key in wanted}
    missing = [Target(key, wanted[key]) for key, rates in known.items() if rates is None]
    if missing:
        fresh = simulate(trace, missing, progress=progress)
        for document in fresh.header["machines"]:
            key = document["machine"]
            known[key] = own = _renamed(fresh, [(key, key)])
            _keep(trace, key, own)
    names = list(dict.fromkeys((machine.hierarchy_id, machine.name) for machine in machines))
    if len({name for _, name in names}) < len(names):
        raise ProvenanceError("Two machines with one name have different caches; rename one of the profiles.")
    found = {name: _renamed(rates, [(key, name)]) for key, name in names if (rates := known[key]) is not None}
    for more, joined in ((pages, _with_pages), (scattered, _with_scattered)):
        found |= {name: joined(found[name], rates) for name, system in more.items() if (rates := known[system.id]) is not None}
    return join_hit_rates(list(found.values()))


def translation(machine: MachineProfile) -> MemorySystem | None:
    """Return what keeps the machine's translations of pages, as a cache; None where its calibration found no cost in them."""
    levels = machine.calibration.translation if machine.calibration else ()
    return MemorySystem(levels) if levels else None


def smaller(machine: MachineProfile) -> MemorySystem | None:
    """Return the machine's caches as lines out of order find them; None where streams find the same."""
    share = machine.calibration.scattered_share if machine.calibration else 0.0
    *inner, last = machine.hierarchy
    if not 0 < share < 1 or not machine.system.plain:
        return None
    step = last.ways * last.line_bytes * SETS
    return MemorySystem((*inner, msgspec.structs.replace(last, size_bytes=max(round(share * last.size_bytes / step), 1) * step)))


def _with_pages(rates: HitRates, pages: HitRates) -> HitRates:
    """Return the hit rates of one machine with the rows of its translations, as a level that is none of its caches."""
    (document,) = rates.header["machines"]
    also = [*document.get("tlb", []), {"level": PAGES, "page_bytes": PAGE}]
    return _with_rows(rates, pages.table, {**document, "tlb": also})


def _with_scattered(rates: HitRates, other: HitRates) -> HitRates:
    """Return the hit rates of one machine with the rows of the last level as lines out of order find it."""
    import polars as pl

    (document,) = rates.header["machines"]
    last = document["hierarchy"][-1]["level"]
    return _with_rows(rates, other.table.filter(pl.col("level") == last).with_columns(level=pl.lit(SCATTERED)), document)


def _with_rows(rates: HitRates, rows: pl.DataFrame, document: dict[str, Any]) -> HitRates:
    import polars as pl

    rows = rows.with_columns(machine=pl.lit(document["machine"]))
    return HitRates.make(
        pl.concat([rates.table, rows], how="diagonal"),
        machines=[document],
        references=rates.references,
        inputs=rates.inputs,
        sampling=rates.header["sampling"],
    )


def _renamed(rates: HitRates, names: Iterable[tuple[str, str]]) -> HitRates:
    """Return the rows of some machines under new names."""
    import polars as pl

    mapping = dict(names)
    table = rates.table.filter(pl.col("machine").is_in(list(mapping))).with_columns(pl.col("machine").replace(mapping))
    documents = [{**d, "machine": mapping[d["machine"]]} for d in rates.header["machines"] if d["machine"] in mapping]
    return HitRates.make(
        table, machines=documents, references=rates.references, inputs=rates.inputs, sampling=rates.header["sampling"]
    )


def join_hit_rates(parts: Sequence[HitRates]) -> HitRates:
    """Return the hit rates of several machines on one trace as one artifact; raises :class:`ProvenanceError` for two traces."""
    import polars as pl

    first = parts[0]
    if any(part.inputs != first.inputs for part in parts):
        raise ProvenanceError("Hit rates of different traces cannot be joined; simulate the machines on one trace.")
    return HitRates.make(
        pl.concat([part.table for part in parts], how="diagonal"),
        machines=[document for part in parts for document in part.header["machines"]],
        references=first.references,
        inputs=first.inputs,
        sampling=first.header["sampling"],
    )


def _cache_path(trace: TraceLike, hierarchy_id: str) -> Path:
    folder = cache_folder() / "hit_rates"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{trace.id}-{hierarchy_id}-{__version__}-{REVISION}.hits.parquet"


def _cached(trace: TraceLike, hierarchy_id: str) -> HitRates | None:
    try:
        path = _cache_path(trace, hierarchy_id)
        rates = HitRates.load(path)
    except (OSError, ConvolverError):
        return None  # absent, damaged or of another version: simulated anew
    return rates if rates.inputs.get("trace") == trace.id and rates.machines == [hierarchy_id] else None


def _keep(trace: TraceLike, hierarchy_id: str, rates: HitRates) -> None:
    """Put hit rates into the cache; a cache that cannot be written is no reason to fail."""
    try:
        path = _cache_path(trace, hierarchy_id)
        rates.save(path)
        files = sorted(path.parent.glob("*.hits.parquet"), key=lambda file: file.stat().st_mtime)
        for file in files[:-CACHED_FILES]:
            file.unlink(missing_ok=True)
    except (OSError, FormatError):
        pass
