"""Memory systems for the detailed engine: from the machine document to what the C core wants, and its counts by name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native.detailed_engine import (
    COUNTS,
    DetailedGeometry,
    DetailedSimulator,
)
from convolver._native.simulator import Counts
from convolver.machine.hierarchy import INCLUSIONS, INDICES, POLICIES, PREFETCHERS, SEMANTICS, Level, Prefetcher, TlbLevel
from convolver.machine.memory_system import MemorySystem
from convolver.simulation.hit_rates import MORE_COUNTS

CAUSES = ("compulsory", "capacity", "conflict")
"""Counts that are there only where causes were asked for."""


class Details(NamedTuple):
    """What to find out beyond accesses, misses and write-backs. ``causes``: tell misses by cause."""

    causes: bool = False

    def __bool__(self) -> bool:
        """True where only the detailed engine can do it."""
        return self.causes


def cache_geometry(level: Level, details: Details) -> DetailedGeometry:
    """Return a cache level as the C core sees it."""
    prefetcher = level.prefetcher or Prefetcher(kind="none")
    return DetailedGeometry(
        sets=level.sets,
        line_bytes=level.line_bytes,
        sector_bytes=level.sector_bytes or level.line_bytes,
        seed=level.seed,
        ways=level.ways,
        policy=POLICIES.index(level.policy),
        inclusion=INCLUSIONS.index(level.inclusion),
        write_through=level.write == "through",
        no_allocate=not level.write_allocate,
        combining=level.write_combining,
        index_by=INDICES.index(level.index),
        slices=level.slices,
        prefetcher=PREFETCHERS.index(prefetcher.kind),
        degree=prefetcher.degree,
        entries=prefetcher.entries,
        shared=level.shared,
        classify=details.causes,
    )


def tlb_geometry(level: TlbLevel, details: Details) -> DetailedGeometry:
    """Return a level of a TLB as the C core sees it: a cache whose lines are pages."""
    return DetailedGeometry(
        sets=level.entries // level.ways,
        line_bytes=level.page_bytes,
        sector_bytes=level.page_bytes,
        seed=0,
        ways=level.ways,
        policy=POLICIES.index(level.policy),
        classify=details.causes,
    )


class DetailedMachine:
    """The simulation of one memory system, for one core or several; levels are the caches, then the TLB's."""

    def __init__(self, system: MemorySystem, details: Details, cores: int = 1) -> None:
        caches = [cache_geometry(level, details) for level in system.hierarchy]
        caches = [level._replace(shared=number >= system.private_levels) for number, level in enumerate(caches)]
        pages = [tlb_geometry(level, details) for level in system.tlb]
        semantics = SEMANTICS.index(system.semantics)
        if details.causes and system.semantics in ("cachegrind", "pycachesim"):
            caches = [level._replace(classify=False) for level in caches]
        self.simulator = DetailedSimulator(caches, pages, cores=cores, semantics=semantics)
        self.details = details

    def grouped_counts(self, level: int) -> Counts:
        """Return the counts that every engine has, shape (owners, groups)."""
        rows = self.simulator.grouped_counts(level)
        return Counts(*(np.ascontiguousarray(rows[..., column]) for column in range(3)))

    def more_counts(self, level: int) -> dict[str, NDArray[np.uint64]]:
        """Return the other counts by name; without causes where they were not asked for."""
        rows = self.simulator.counts(level)
        wanted = [name for name in MORE_COUNTS if self.details.causes or name not in CAUSES]
        return {name: np.ascontiguousarray(rows[:, COUNTS.index(name)]) for name in wanted}
