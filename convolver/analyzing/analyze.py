"""From a trace and machines to an :class:`Analysis`: caches simulated, translations, core cycles, in one pass and only once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from convolver._native.path_builder import Paths
from convolver._native.path_sample import PathSample
from convolver._native.trace_decoder import Decoder
from convolver.analyzing import analysis_store
from convolver.analyzing.analysis_store import StoredAnalysis
from convolver.analyzing.core_cycles import core_cycles, cycle_seconds, has_paths
from convolver.analyzing.falls import Falls, blended, fold, page_misses, with_frames, with_scattered, with_written_past
from convolver.analyzing.kept import asked_of_last, assumed_seconds, miss_ratio, size_shares
from convolver.analyzing.known_lines import unread_lines
from convolver.analyzing.program_analysis import Analysis, MachineAnalysis
from convolver.analyzing.written_past import written_past
from convolver.artifacts import load
from convolver.errors import CoverageError, ProvenanceError, SchemaError, UsageError
from convolver.execution.core_time import core_table, gather_paths
from convolver.execution.sampled_walk import CORE_ERROR
from convolver.heavy import pl
from convolver.machine.calibration import PAGES
from convolver.machine.catalog import MachineName, as_machine
from convolver.machine.memory_system import MemorySystem
from convolver.machine.profile import MachineProfile
from convolver.progress import SILENT, Progress
from convolver.schema import BUNDLE_SCHEMA, TRACE_SCHEMA, document_id, other_kind, schema_of
from convolver.signature.signature import Signature
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.level_samples import Fed, RecordedTrace, sampled
from convolver.simulation.one_pass import simulate
from convolver.simulation.targets import Target
from convolver.tracing.thread_log import ThreadLog


class PredictableTrace(RecordedTrace, Protocol):
    """What is needed of a trace; :class:`convolver.tracing.reader.Trace` is one."""

    @property
    def signature(self) -> Signature:
        """Exact counts and sampled features of its blocks."""

    @property
    def thread_log(self) -> ThreadLog | None:
        """What its threads did, where a second one ran."""


class _Systems(NamedTuple):
    """What is simulated for a machine: its caches, what keeps translations, its caches with the last level, and the second one,
    as lines out of order find them, and with the last levels that other VMs may leave of it."""

    caches: MemorySystem
    pages: MemorySystem | None
    scattered: MemorySystem | None
    framed: MemorySystem | None
    left: tuple[MemorySystem, ...]

    def named(self) -> list[tuple[str, MemorySystem]]:
        """Return all of them, with what their names add to that of the machine."""
        one_each = (
            ("", self.caches),
            (" (translations)", self.pages),
            (" (out of order)", self.scattered),
            (" (pages in frames)", self.framed),
        )
        known = [(what, system) for what, system in one_each if system is not None]
        return known + [(f" (last level of {system.hierarchy[-1].size_bytes} bytes)", system) for system in self.left]

    @property
    def in_full(self) -> list[MemorySystem]:
        """Those of which all levels count; of the others the last one does."""
        return [system for system in (self.caches, self.pages, self.framed) if system is not None]


def analyze(
    program: PredictableTrace | Signature | str | Path,
    machines: MachineName | Iterable[MachineName],
    *,
    hits: HitRates | str | Path | None = None,
    core_error: float = CORE_ERROR,
    progress: Progress = SILENT,
) -> Analysis:
    """Return everything that predictions of a program on machines need, from its trace.

    What was once found out of a trace on a machine comes from a store. A signature instead of a trace takes ``hits``, its
    simulated hit rates (:func:`convolver.simulate`) or an analysis that was saved; with hit rates alone translations and core
    cycles are not known, and predictions say so among their assumptions. ``core_error``: relative standard error of the program's
    core cycles at which the walk along its paths ends.

    Raises :class:`CoverageError` for a trace that holds no address, :class:`ProvenanceError` when signature and hit rates do not
    belong together, :class:`UsageError` for something that is no program, and what :func:`convolver.simulate` raises.
    """
    named = machines if isinstance(machines, Iterable) and not isinstance(machines, str) else [machines]
    profiles = list({(one.name, one.id): one for one in map(as_machine, named)}.values())
    if not profiles:
        raise UsageError("No machine is given; name at least one to analyze the program for.")
    if isinstance(program, (str, Path)):
        program = load_program(program)
    if isinstance(program, Signature):
        if hits is None:
            raise UsageError("A signature alone has no addresses; give its hit rates, too, or the trace instead.")
        return _of_hits(program, hits, profiles)
    if hits is not None:
        raise UsageError("A trace needs no hit rates; give them with a signature, or leave them out.")
    if not isinstance(program, Fed):
        raise UsageError(
            f"{type(program).__name__} is no program; give a trace, the path of one, or a signature and its hit rates."
        )
    return _of_trace(program, profiles, core_error, progress)


def load_program(path: str | Path) -> Any:
    """Read a trace or a signature; raises :class:`FormatError` when it is damaged, :class:`SchemaError` for something else."""
    schema = schema_of(path)
    if schema == BUNDLE_SCHEMA:
        raise SchemaError(f"{path} is a bundle; `convolver bundle --unpack FOLDER {path}` writes the trace that is in it.")
    if schema not in (TRACE_SCHEMA, "convolver.signature"):
        raise other_kind(path, schema, TRACE_SCHEMA)
    return load(path)


def _of_hits(signature: Signature, hits: HitRates | str | Path, machines: Sequence[MachineProfile]) -> Analysis:
    if isinstance(hits, (str, Path)):
        if schema_of(hits) == "convolver.analysis":
            return Analysis.load(hits, signature)
        hits = HitRates.load(hits)
    check_belong(signature, hits)
    documents = {document["machine"]: document for document in hits.header.get("machines", [])}
    parts = []
    for machine in machines:
        if machine.name not in documents:
            known = ", ".join(documents) or "none"
            raise ProvenanceError(
                f"The hit rates are not of the machine '{machine.name}' (they are of: {known}); simulate it first."
            )
        levels = tuple(level["level"] for level in documents[machine.name]["hierarchy"])
        where = fold(hits.table, machine.name, list(levels), signature.table.height)
        parts.append(MachineAnalysis(machine.name, documents[machine.name]["hierarchy_id"], levels, where))
    inputs = {"trace": hits.inputs.get("trace"), "signature": signature.id, "hit_rates": hits.id}
    return Analysis(parts, inputs, signature=signature, hit_rates=hits, sampling=hits.header.get("sampling"))


def check_belong(signature: Signature, hits: HitRates) -> None:
    """Raise :class:`ProvenanceError` unless the two are of one trace, and the blocks exist."""
    for kind, own in {"trace": signature.inputs.get("trace"), "signature": signature.id}.items():
        named = hits.inputs.get(kind)
        if own is not None and named is not None and own != named:
            raise ProvenanceError(f"The hit rates come from another {kind} ({named}, not {own}); simulate the right one.")
    blocks = hits.table["block"]
    if len(blocks) and int(blocks.max()) >= signature.table.height:  # type: ignore[arg-type]
        raise ProvenanceError("The hit rates name blocks that the signature does not have; simulate the trace of this signature.")


def _of_trace(trace: PredictableTrace, machines: Sequence[MachineProfile], core_error: float, progress: Progress) -> Analysis:
    holds = sampled(trace.header.get("sampling"))
    if holds.windows is None and not holds.classes:
        raise CoverageError("The trace holds no addresses, so nothing is known of the program's memory; trace it with a sample.")
    systems = [_systems(machine, bool(holds.windows)) for machine in machines]
    keys = [_key(machine, own, core_error) for machine, own in zip(machines, systems, strict=True)]
    one_each = {machine.name: key for machine, key in zip(machines, keys, strict=True)}
    if any(one_each[machine.name] != key for machine, key in zip(machines, keys, strict=True)):
        raise ProvenanceError("Two machines with one name have different caches or cores; rename one of the profiles.")
    known = {key: analysis_store.find(trace.id, key, trace.signature) if trace.id else None for key in keys}
    missing = {key: number for number, key in enumerate(keys) if known[key] is None}
    fresh = _found([(machines[number], systems[number], key) for key, number in missing.items()], trace, core_error, progress)
    for one in fresh:
        analysis_store.keep(trace.id, one, trace.signature)
    found = known | {one.part.key: one for one in fresh}
    entries = [(machine, entry) for machine, key in zip(machines, keys, strict=True) if (entry := found[key]) is not None]
    named = {machine.name: (entry.hit_rates, {entry.part.key: machine.name}) for machine, entry in entries}
    hits = HitRates.joined([rates for rates, _ in named.values()], [names for _, names in named.values()])
    parts = {(machine.name, entry.part.key): replace(entry.part, machine=machine.name) for machine, entry in entries}
    inputs = {"trace": trace.id, "signature": trace.signature.id, "hit_rates": hits.id}
    sampling = trace.header.get("sampling")
    return Analysis(list(parts.values()), inputs, signature=trace.signature, hit_rates=hits, sampling=sampling)


def _found(
    wanted: Sequence[tuple[MachineProfile, _Systems, str]], trace: PredictableTrace, core_error: float, progress: Progress
) -> list[StoredAnalysis]:
    """Return what the trace says of machines, from one pass over it."""
    if not wanted:
        return []
    every: dict[str, Target] = {}  # by memory system, under the name of the first machine that has it
    in_full = {system.id for _, systems, _ in wanted for system in systems.in_full}
    for machine, systems, _ in wanted:
        for what, system in systems.named():
            every.setdefault(system.id, Target(machine.name + what, system, last_alone=system.id not in in_full))
    samples: list[PathSample] = []
    gather = None
    if has_paths(trace) and any(cycle_seconds(machine) is not None for machine, _, _ in wanted):
        sample_of = partial(gather_paths, trace)

        def gather(decoder: Decoder, paths: Paths) -> None:
            samples.append(sample_of(decoder, paths))

    lines = unread_lines(trace)
    join = None if lines is None else lines.join
    rates = simulate(trace, list(every.values()), paths=gather, references=join, progress=progress)
    if lines is not None:
        lines.keep()
    counts = trace.signature.table
    past = written_past(trace)
    falls = []
    for machine, systems, _ in wanted:
        busy = _busy(trace, machine)
        where = _kept(rates.table, machine, systems, every, counts, busy)
        if systems.framed is not None:
            where = with_frames(where, fold(rates.table, every[systems.framed.id].name, _levels(machine), counts.height))
        if past is not None:
            where = with_written_past(where, past.bytes_each / machine.hierarchy[-1].line_bytes, past.share)
        falls.append(where)
    near = [(machine, where) for (machine, _, _), where in zip(wanted, falls, strict=True)]
    cores = core_cycles(trace, near, samples[0] if samples else None, progress, core_error)
    found = []
    for (machine, systems, key), where, core in zip(wanted, falls, cores, strict=True):
        part = MachineAnalysis(machine.name, machine.hierarchy_id, tuple(_levels(machine)), where, core, key)
        found.append(StoredAnalysis(part, rates.renamed({every[systems.caches.id].name: key})))
    return found


def _levels(machine: MachineProfile) -> list[str]:
    return [level.level for level in machine.hierarchy]


def _falls(table: pl.DataFrame, machine: MachineProfile, systems: _Systems, named: dict[str, Target], blocks: int) -> Falls:
    """Return where the references fall, from the counts of a machine's memory systems."""
    where = fold(table, named[systems.caches.id].name, _levels(machine), blocks)
    if systems.pages is not None:
        where = replace(where, pages=page_misses(table, named[systems.pages.id].name, PAGES, blocks))
    if systems.scattered is not None:
        where = with_scattered(where, _with_last(table, machine, systems, named, systems.scattered, blocks))
    return where


def _with_last(
    table: pl.DataFrame, machine: MachineProfile, systems: _Systems, named: dict[str, Target], other: MemorySystem, blocks: int
) -> Falls:
    """Return where the references fall with the last level of another of a machine's memory systems."""
    levels, caches = _levels(machine), named[systems.caches.id].name
    last, name = pl.col("level") == levels[-1], pl.col("machine")
    rows = table.filter(((name == caches) & ~last) | ((name == named[other.id].name) & last)).with_columns(machine=pl.lit(caches))
    return fold(rows, caches, levels, blocks)


def _busy(trace: PredictableTrace, machine: MachineProfile) -> float:
    """Return how many of a machine's CPUs the program keeps busy in the mean."""
    log = trace.thread_log
    return 1.0 if log is None else min(log.at_once, max(float(machine.cpu.get("cpus", log.at_once)), 1.0))


def _kept(
    table: pl.DataFrame,
    machine: MachineProfile,
    systems: _Systems,
    named: dict[str, Target],
    counts: pl.DataFrame,
    busy: float,
) -> Falls:
    """Return where the references fall in the part of the last level that other VMs leave the program, which keeps so many CPUs
    busy."""
    where = _falls(table, machine, systems, named, counts.height)
    cycle, residency, known = cycle_seconds(machine), machine.residency, machine.calibration
    if not systems.left or cycle is None or residency is None or known is None:
        return where
    references = counts["memops"].to_numpy().astype(float)
    smaller = [_with_last(table, machine, systems, named, system, counts.height) for system in systems.left]
    every = [*reversed(smaller), where]
    line = machine.hierarchy[-1].line_bytes
    sizes = [system.hierarchy[-1].size_bytes / line for system in (*reversed(systems.left), systems.caches)]
    seconds = assumed_seconds(float(counts["instructions"].sum()), references, where, known, cycle) / busy
    if not seconds:
        return where
    rate = asked_of_last(references, where) / seconds / systems.caches.placed.complexes
    shares = size_shares(rate, residency.lives, sizes, [miss_ratio(references, one) for one in every])
    return replace(blended(every, shares), pages=where.pages)


def _systems(machine: MachineProfile, in_order: bool) -> _Systems:
    """Return what is simulated for a machine; translations only from references in order."""
    pages = machine.translations if in_order else None
    return _Systems(machine.system, pages, machine.scattered_system, machine.framed_system, machine.left_systems)


def _key(machine: MachineProfile, systems: _Systems, core_error: float) -> str:
    """Return a hash of all that an analysis takes from a profile."""
    known, cycle = machine.calibration, cycle_seconds(machine)
    core = None if cycle is None else [core_table(machine)[0], machine.hierarchy[0].line_bytes, cycle]
    far = None if known is None or cycle is None else [known.latency, known.walk_latency]
    lives = [machine.residency.lives, machine.cpu.get("cpus")] if systems.left and machine.residency else None
    known_systems = [system.id for _, system in systems.named()]
    document = {"systems": known_systems, "core": core, "far": far, "lives": lives, "error": core_error}
    return document_id(msgspec.to_builtins(document))
