"""One pass over a stream of references through the caches of N machines."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native.detailed_engine import AnySimulator
from convolver._native.simulator import OwnerLimitError
from convolver._native.sinks import Decoded, ObjectOwners, PathReader, ReferenceReader, Sinks
from convolver.artifacts import load
from convolver.errors import SamplingWarning, SimulationError, UsageError
from convolver.heavy import pl
from convolver.progress import SILENT, Progress, step
from convolver.simulation.detailed import Details
from convolver.simulation.group import LINE_BYTES, BlockSums, Group
from convolver.simulation.hit_rate_table import SimulatedRuns
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.level_samples import ALL, BURSTS, Fed, RecordedTrace, Sampled, fits_sets, sampled
from convolver.simulation.object_hits import ObjectHits
from convolver.simulation.parallel import ParallelSimulator
from convolver.simulation.targets import MachineLike, Target, targets


class References(NamedTuple):
    """A stream of references as contiguous arrays of one length."""

    addresses: NDArray[np.uint64]
    sizes: NDArray[np.uint16] | None
    writes: NDArray[np.bool_] | None
    blocks: NDArray[np.uint32] | None


def _check(name: str, array: Any, dtypes: tuple[str, ...], length: int | None) -> NDArray[Any]:
    wanted = " or ".join(dtypes)
    if not isinstance(array, np.ndarray):
        raise SimulationError(f"{name} is {type(array).__name__}; give a numpy array of {wanted}.")
    if array.dtype not in [np.dtype(dtype) for dtype in dtypes]:
        raise SimulationError(f"{name} has the type {array.dtype}; convert it to {wanted} first.")
    if array.ndim != 1 or (length is not None and len(array) != length):
        shape = "a one-dimensional array" if length is None else f"{length} elements, one per address"
        raise SimulationError(f"{name} has the shape {array.shape}; {shape} is needed.")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise SimulationError(f"{name} is a strided or unaligned view; pass numpy.ascontiguousarray of it.")
    return array


def check_references(addresses: Any, sizes: Any = None, writes: Any = None, blocks: Any = None) -> References:
    """Return the arrays unchanged; only 8-bit sizes are widened.

    Raises :class:`SimulationError` for a wrong type, length or layout, and for a size of 0.
    """
    addresses = _check("addresses", addresses, ("uint64",), None)
    n = len(addresses)
    if sizes is not None:
        sizes = _check("sizes", sizes, ("uint8", "uint16"), n).astype(np.uint16, copy=False)
        if n and not sizes.min():
            raise SimulationError(f"sizes has a 0 at position {int(sizes.argmin())}; a reference touches at least one byte.")
    if writes is not None:
        writes = _check("writes", writes, ("bool",), n)
    if blocks is not None:
        blocks = _check("blocks", blocks, ("uint32",), n)
    return References(addresses, sizes, writes, blocks)


DENSE_BLOCKS = 1 << 22
"""Block numbers below this index the counters directly."""
NO_DETAILS = Details()


def _set_group(machines: list[Target], holds: Sampled, details: Details = NO_DETAILS) -> Group | None:
    """Return the group that is fed the set-sampled references: the machines whose sets such a sample holds."""
    fitting = [machine for machine in machines if fits_sets(machine, holds.classes) and not details]
    for machine in machines:
        if holds.windows is None and machine not in fitting:
            raise SimulationError(
                f"Only 1/{holds.classes} of the cache sets is given, but a level of '{machine.name}' has a number of sets, "
                "a line size or an option that does not fit; take all references or bursts."
            )
        if machine not in fitting and machine.hierarchy[0].line_bytes == LINE_BYTES:  # pages are always taken from the bursts
            warnings.warn(
                f"A level of '{machine.name}' has a number of sets, a line size or an option that 1/{holds.classes} of the "
                "sets do not fit: all its levels are simulated from the bursts, which see too few hits in the larger ones.",
                SamplingWarning,
                stacklevel=3,
            )
    if not fitting:
        return None
    group = Group(fitting, classes=holds.classes)
    if holds.set_share < 1:
        group.simulator.group_bursts()  # by stretch
    else:  # by the bits above those that are the same for the whole sample
        group.simulator.group_sets((LINE_BYTES * holds.classes).bit_length() - 1)
    return group


def simulate(
    trace: RecordedTrace | str | Path,
    machines: MachineLike | Iterable[MachineLike],
    *,
    details: Details = NO_DETAILS,
    jobs: int = 1,
    paths: PathReader | None = None,
    references: ReferenceReader | None = None,
    progress: Progress = SILENT,
) -> HitRates:
    """Simulate a recorded trace, or that of a path, on machines, in one pass, and return counts per block of its signature.

    Where the trace has bursts and a set sample, the larger levels of each machine are taken from the set sample, and the first
    one too where it is even, or else from the bursts (:mod:`convolver.simulation.level_samples`), unless the detailed engine
    simulates the machine: it takes all from the bursts.
    ``details`` asks for more than the fast engine has. ``jobs`` is how many threads may run the fast engine beside the decoder;
    the counts are the same. ``paths`` reads the executed paths in the same pass, ``references`` what the caches get.

    Raises :class:`UsageError` and :class:`MachineError` for machines that cannot be simulated (see
    :func:`convolver.simulation.targets.targets`) and for something that is no trace, :class:`SimulationError` for a trace without
    addresses and :class:`FormatError` for a damaged one.
    """
    return _simulated(trace, targets(machines), details, jobs, progress, paths=paths, references=references)[0]


def simulate_objects(
    trace: RecordedTrace | str | Path,
    machines: MachineLike | Iterable[MachineLike],
    *,
    details: Details = NO_DETAILS,
    jobs: int = 1,
    progress: Progress = SILENT,
) -> tuple[HitRates, ObjectHits]:
    """Do as :func:`simulate`, and return beside it what each data object has of the counts, from the same pass.

    Raises :class:`UsageError` for a trace that knows no data objects.
    """
    found = targets(machines)
    rates, runs, decoded, owners = _simulated(trace, found, details, jobs, progress, by_object=True)
    assert decoded.objects is not None
    return rates, _object_hits(decoded.objects, decoded.site_blocks, runs, owners, found, rates)


def _object_hits(
    attribution: ObjectOwners,
    site_blocks: NDArray[Any],
    runs: SimulatedRuns,
    owners: int,
    machines: list[Target],
    rates: HitRates,
) -> ObjectHits:
    """Sum the counts of pairs by data object and block."""
    blocks = site_blocks[attribution.sites].astype(np.uint64)
    keys, key_of = np.unique(attribution.objects.astype(np.uint64) << np.uint64(32) | blocks, return_inverse=True)
    regrouped = runs.regrouped(BlockSums(key_of.astype(np.uint32), owners), (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    rows = pl.concat([regrouped.rows(machine) for machine in machines], how="diagonal")
    here = keys[rows["block"].to_numpy()]
    table = rows.with_columns(
        pl.Series("object", (here >> np.uint64(32)).astype(np.uint32)), pl.Series("block", here.astype(np.uint32))
    ).select("object", *rows.columns)
    return ObjectHits.make(table, attribution.documents, rates)


def _simulated(
    trace: RecordedTrace | str | Path,
    found: list[Target],
    details: Details,
    jobs: int,
    progress: Progress,
    *,
    by_object: bool = False,
    paths: PathReader | None = None,
    references: ReferenceReader | None = None,
) -> tuple[HitRates, SimulatedRuns, Decoded, int]:
    """Return hit rates by block, the runs that they are from, what decoding reported, and how many owners there are."""
    if isinstance(trace, (str, Path)):
        trace = load(trace)
    if not isinstance(trace, Fed):
        raise UsageError(f"{type(trace).__name__} is no trace; load one with convolver.load.")
    holds = sampled(trace.header.get("sampling"))
    if holds.windows is None and not holds.classes:
        raise SimulationError("The trace has counts but no addresses; record it with sampling or in full to simulate caches.")
    threads = max(int(trace.header.get("threads") or 1), 1)
    sets = _set_group(found, holds, details) if holds.classes else None
    windows = Group(found, details, by_burst=holds.windows == BURSTS, threads=threads, farther=sets)
    with windows.share_decoded(jobs) as fed:
        decoded = trace.feed(Sinks(fed, sets.simulator if sets else None, by_object, paths, references), progress)
    site_blocks, line_shares = decoded.site_blocks, decoded.line_shares
    if decoded.objects is not None and by_object:
        site_blocks = site_blocks[decoded.objects.sites]
        line_shares = None if line_shares is None else line_shares[decoded.objects.sites]
    owners = max(windows.owners, sets.owners if sets else 0)
    if owners > len(site_blocks):
        raise SimulationError(f"The trace has references of site {owners - 1} that no block owns; record it again.")
    runs = SimulatedRuns(holds, windows, sets, BlockSums(site_blocks, owners), line_shares, decoded.block_memops)
    references_fed = windows.references + (sets.simulator.references if sets else 0)
    return runs.hit_rates(found, references_fed, {"trace": trace.id}, trace.header.get("sampling")), runs, decoded, owners


Simulators = Sequence[AnySimulator | ParallelSimulator]


def _feed(simulators: Simulators, refs: References, feed: int, progress: Progress) -> None:
    with step(progress, "Simulating", total=len(refs.addresses), unit="references"):
        for start in range(0, len(refs.addresses), feed):
            part = [None if array is None else array[start : start + feed] for array in refs]
            for simulator in simulators:
                simulator.feed(*part)  # type: ignore[arg-type]
            progress.advance(len(part[0]))  # type: ignore[arg-type]


def _fed(
    make: Callable[[], tuple[Group, Simulators]], refs: References, progress: Progress
) -> tuple[Group, NDArray[np.uint32] | None]:
    """Return a group that was fed, and the block of each of its owners (None: owners are blocks)."""
    group, simulators = make()
    for simulator in simulators:
        simulator.limit_owners(DENSE_BLOCKS)
    try:
        _feed(simulators, refs, group.at_once, progress)
        return group, None
    except OwnerLimitError:
        if refs.blocks is None:
            raise
    owner_blocks, owners = np.unique(refs.blocks, return_inverse=True)
    group, simulators = make()
    _feed(simulators, refs._replace(blocks=owners.astype(np.uint32)), group.at_once, progress)
    return group, owner_blocks


def simulate_arrays(
    addresses: NDArray[np.uint64],
    *,
    sizes: NDArray[np.uint8] | NDArray[np.uint16] | None = None,
    writes: NDArray[np.bool_] | None = None,
    blocks: NDArray[np.uint32] | None = None,
    machines: MachineLike | Iterable[MachineLike],
    sets: int = 1,
    set_class: int = 0,
    jobs: int = 1,
    details: Details = NO_DETAILS,
    progress: Progress = SILENT,
) -> HitRates:
    """Simulate references given as arrays of one length on machines, in one pass, without copying them.

    ``addresses`` are first bytes, ``sizes`` bytes touched (default 1), ``writes`` true for writes (default: reads), ``blocks``
    what the counts are kept for (default: all in block 0). A reference that straddles a line touches both lines. ``sets``
    simulates only the lines of one of so many classes of sets, ``set_class``, and gives standard errors. ``jobs`` is how many
    threads may be used by the fast engine; the counts are the same. ``details`` asks for more than
    it has. Raises :class:`SimulationError` for arrays of another type, length or layout,
    and :class:`UsageError` for machines that cannot be simulated and for impossible classes.
    """
    found = targets(machines)
    refs = check_references(addresses, sizes, writes, blocks)
    if sets > 1:
        return _simulate_class(found, refs, sets, set_class, progress)

    def make() -> tuple[Group, Simulators]:
        group = Group(found, details)
        return group, group.share(jobs) if jobs > 1 else group.simulators

    group, owner_blocks = _fed(make, refs, progress)
    runs = SimulatedRuns(Sampled(ALL, 0), group, None, BlockSums(owner_blocks, group.owners))
    return runs.hit_rates(found, len(addresses), {}, None)


def _simulate_class(machines: list[Target], refs: References, classes: int, set_class: int, progress: Progress) -> HitRates:
    if classes & (classes - 1) or not 0 <= set_class < classes:
        raise UsageError(f"There is no class {set_class} of {classes}; the number of classes must be a power of two.")
    holds = Sampled(None, classes)

    def make() -> tuple[Group, Simulators]:
        group = _set_group(machines, holds)
        assert group is not None  # without bursts, machines that do not fit are refused
        group.simulator.select(classes - 1, set_class)
        return group, [group.simulator]

    group, owner_blocks = _fed(make, refs, progress)
    blocks = BlockSums(owner_blocks, group.owners)
    runs = SimulatedRuns(holds, group, group, blocks)
    plan = {"mode": "sample", "sample": 0, "sets": classes, "set_class": set_class}
    return runs.hit_rates(machines, group.simulator.references, {}, plan)
