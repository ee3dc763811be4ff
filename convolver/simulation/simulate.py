"""One pass over a stream of references through the caches of N machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convolver._native.simulator import Counts, Geometry, Simulator
from convolver.errors import SimulationError
from convolver.progress import SILENT, Progress
from convolver.simulation.arrays import References, check_references
from convolver.simulation.hit_rates import PATTERN_MISSES, HitRates
from convolver.simulation.machines import MachineLike, Target, targets

if TYPE_CHECKING:
    import polars as pl

FEED = 1 << 20
"""References of one call into the C core, so that an interrupt is seen soon."""
DENSE_BLOCKS = 1 << 22
"""Block numbers below this index the counters directly."""


class TraceLike(Protocol):
    """A stream of references that knows the block of each of its sites; :class:`convolver.tracing.reader.Trace` is one."""

    @property
    def id(self) -> str:
        """Id of the recorded trace."""

    @property
    def header(self) -> Mapping[str, Any]:
        """Its description; ``sampling`` says what was recorded."""

    @property
    def site_blocks(self) -> NDArray[np.uint32]:
        """Block of each site."""

    def feed(self, simulator: Simulator, *, progress: Progress = SILENT) -> None:
        """Stream all references into a simulator; the owner of a reference is its site."""


class Group:
    """The machines of one pass; those with equal hierarchies share one simulation."""

    def __init__(self, machines: list[Target]) -> None:
        self.machines = machines
        distinct = {machine.hierarchy_id: machine.hierarchy for machine in machines}
        self._place = {key: place for place, key in enumerate(distinct)}
        self.simulator = Simulator(
            [[Geometry(level.sets, level.ways, level.line_bytes) for level in levels] for levels in distinct.values()]
        )

    def counts(self, machine: Target, level: int) -> Counts:
        """Return the counts per owner of one level of a machine."""
        return self.simulator.counts(self._place[machine.hierarchy_id], level)


class _Blocks:
    """Sums counts per owner into counts per block."""

    def __init__(self, owner_blocks: NDArray[np.uint32] | None, owners: int) -> None:
        self.owner_block: NDArray[np.intp] | None = None
        self.numbers = np.arange(owners, dtype=np.uint32)
        if owner_blocks is not None:
            self.numbers, inverse = np.unique(owner_blocks[:owners], return_inverse=True)
            self.owner_block = inverse

    def fold(self, counts: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the counts of the blocks in ``numbers``."""
        if self.owner_block is None:
            return counts
        folded = np.zeros(len(self.numbers), dtype=np.uint64)
        np.add.at(folded, self.owner_block, counts)
        return folded

    def fold_shares(self, counts: NDArray[np.uint64], shares: NDArray[np.float64]) -> NDArray[np.uint64]:
        """Return the counts of the blocks, each owner's weighted with its share, rounded down."""
        weighted = counts * shares[: len(counts)]
        if self.owner_block is None:
            return weighted.astype(np.uint64)
        folded = np.zeros(len(self.numbers))
        np.add.at(folded, self.owner_block, weighted)
        return folded.astype(np.uint64)


def _table(group: Group, owner_blocks: NDArray[np.uint32] | None, line_shares: NDArray[np.float64] | None) -> pl.DataFrame:
    import polars as pl

    frames = []
    blocks = _Blocks(owner_blocks, group.simulator.owners)
    for machine in group.machines:
        touched: Any = None
        for place, level in enumerate(machine.hierarchy):
            counts = group.counts(machine, place)
            accesses, misses, write_backs = (blocks.fold(array) for array in counts)
            touched = np.flatnonzero(accesses) if touched is None else touched
            columns: dict[str, Any] = {
                "block": blocks.numbers[touched],
                "machine": pl.repeat(machine.name, len(touched), eager=True, dtype=pl.String),
                "level": pl.repeat(level.level, len(touched), eager=True, dtype=pl.String),
                "accesses": accesses[touched],
                "hits": accesses[touched] - misses[touched],
                "misses": misses[touched],
                "write_backs": write_backs[touched],
            }
            if line_shares is not None:
                for number, name in enumerate(PATTERN_MISSES, 1):
                    columns[name] = blocks.fold_shares(counts.misses, line_shares[:, number])[touched]
            frames.append(pl.DataFrame(columns))
    return pl.concat(frames)


def _result(
    group: Group,
    owner_blocks: NDArray[np.uint32] | None,
    inputs: dict[str, Any],
    sampling: Any,
    line_shares: NDArray[np.float64] | None = None,
) -> HitRates:
    documents = [machine.to_document() for machine in group.machines]
    table = _table(group, owner_blocks, line_shares)
    return HitRates.make(table, machines=documents, references=group.simulator.references, inputs=inputs, sampling=sampling)


def simulate(trace: TraceLike, machines: MachineLike | Iterable[MachineLike], *, progress: Progress = SILENT) -> HitRates:
    """Simulate a recorded trace on machines, in one pass, and return counts per block of its signature.

    Raises :class:`UsageError` and :class:`MachineError` for machines that cannot be simulated (see
    :func:`convolver.simulation.machines.targets`) and :class:`FormatError` for a damaged trace.
    """
    group = Group(targets(machines))
    trace.feed(group.simulator, progress=progress)
    site_blocks = np.asarray(trace.site_blocks, dtype=np.uint32)
    if group.simulator.owners > len(site_blocks):
        raise SimulationError(
            f"The trace has references of site {group.simulator.owners - 1} that no block owns; record it again."
        )
    line_shares = getattr(trace, "site_line_shares", None)
    return _result(group, site_blocks, {"trace": trace.id}, trace.header.get("sampling"), line_shares)


def _owners(blocks: NDArray[np.uint32] | None) -> tuple[NDArray[np.uint32] | None, NDArray[np.uint32] | None]:
    """Return the owner of each reference and the block of each owner; large block numbers are made dense."""
    if blocks is None or not len(blocks) or int(blocks.max()) < DENSE_BLOCKS:
        return blocks, None
    owner_blocks, owners = np.unique(blocks, return_inverse=True)
    return owners.astype(np.uint32), owner_blocks


def _feed(simulator: Simulator, refs: References, progress: Progress) -> None:
    progress.start("Simulating", total=len(refs.addresses))
    try:
        for start in range(0, len(refs.addresses), FEED):
            part = [None if array is None else array[start : start + FEED] for array in refs]
            simulator.feed(*part)  # type: ignore[arg-type]
            progress.advance(len(part[0]))  # type: ignore[arg-type]
    finally:
        progress.finish()


def simulate_arrays(
    addresses: NDArray[np.uint64],
    *,
    sizes: NDArray[np.uint8] | NDArray[np.uint16] | None = None,
    writes: NDArray[np.bool_] | None = None,
    blocks: NDArray[np.uint32] | None = None,
    machines: MachineLike | Iterable[MachineLike],
    progress: Progress = SILENT,
) -> HitRates:
    """Simulate references given as arrays of one length on machines, in one pass, without copying them.

    ``addresses`` are first bytes, ``sizes`` bytes touched (default 1), ``writes`` true for writes (default: reads), ``blocks``
    what the counts are kept for (default: all in block 0). A reference that straddles a line touches both lines.
    Raises :class:`SimulationError` for arrays of another type, length or layout.
    """
    group = Group(targets(machines))
    refs = check_references(addresses, sizes, writes, blocks)
    owners, owner_blocks = _owners(refs.blocks)
    _feed(group.simulator, refs._replace(blocks=owners), progress)
    return _result(group, owner_blocks, {}, None)
