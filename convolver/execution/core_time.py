"""Core time: cycles of a block when its data are near, from executed paths or, where no window shows it, from its code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native.branch_predictor import Branches
from convolver._native.core_walk import CAUSES, DEPENDENT_CAUSE, WIDTH_CAUSE, Code, Core
from convolver._native.path_builder import Paths
from convolver._native.path_sample import PathSample, SamplePlan, SampleWalk
from convolver._native.trace_decoder import Decoder
from convolver.execution.calibrated import calibrated_core
from convolver.execution.core_parameters import core_parameters
from convolver.execution.program import DecodedCode, Operations, operations, program_code
from convolver.execution.sampled_walk import CORE_ERROR, NEGLIGIBLE, Array, BlockCycles, heaviest, walk_windows
from convolver.execution.shared_walk import SharedWalk
from convolver.execution.static import static_cycles
from convolver.heavy import pl
from convolver.machine.cores import WIDTHS, CoreTable, choose_core
from convolver.machine.profile import MachineProfile
from convolver.machine.project import CORE_THREADS
from convolver.progress import SILENT, Progress
from convolver.tracing.definitions import CONTINUED, starts

if TYPE_CHECKING:
    from convolver.tracing.reader import Trace

WINDOW, STATIC = "window", "static"
PLAN = SamplePlan(counted=2000, warm=1000, most=4096, shown=8)
"""Windows of 2000 instructions after 1000 that fill the pipeline take as long as within the path, to some 0.1 %."""
LEAST_EXECUTIONS = 3
"""A block that the windows show more rarely is estimated from its code: the first execution in a window fills the pipeline."""
UNDECODED = 0.0001
"""Share of the program's instructions in blocks whose code is not decoded: mostly what starts it."""
MOST_STATIC = 4096
"""Blocks estimated from their code, at most."""


class FarLevels(NamedTuple):
    """For each block and farther level the share of the block's references that bring a line from there out of order, and the
    cycles until it is there: arrays (blocks, levels). ``walks``: cycles until the page of such a line is translated, one a
    block."""

    rates: NDArray[np.float32]
    latencies: NDArray[np.uint16]
    walks: NDArray[np.uint16]


class Walk(NamedTuple):
    """One walk: a core with lines of so many bytes, how far away its data are (None: all in the first level), and the relative
    standard error of the program's cycles at which it ends."""

    table: CoreTable
    line_bytes: int
    far: FarLevels | None = None
    target: float = CORE_ERROR


class WalkedCore(NamedTuple):
    """What was walked, the relative standard error of the program's cycles (0: nothing was walked), and for each block the cycles
    in the windows by cause.

    ``table`` has one row a block of the trace's signature: ``block``, ``cycles_per_execution``, ``how``, ``share``, ``error``.
    ``how`` is "window" (walked through the core model along executed paths, with predicted branches) or "static" (its code alone:
    the larger of ports and loop-carried dependence), ``share`` the part of its executions that were walked, ``error``
    the relative standard error between windows.
    """

    walk: Walk
    table: pl.DataFrame
    error: float
    causes: Array


def core_table(machine: MachineProfile) -> tuple[CoreTable, str]:
    """Return the core table of a machine, with what its probes measured, and how the table was found (:func:`choose_core`)."""
    table, how = choose_core(machine.cpu)
    own = calibrated_core(table, machine)[0]
    width = float(machine.cpu.get("core_width", 1.0))
    own = own.with_params(**{name: round(width * value) for name, value in own.params.items() if name in WIDTHS})
    threads = int(machine.cpu.get(CORE_THREADS, 1))
    return own.shared_by(threads) if threads > 1 else own, how


def gather_paths(trace: Trace, decoder: Decoder, paths: Paths, plan: SamplePlan = PLAN) -> PathSample:
    """Return a sample of the path that ``decoder`` decodes of a trace from now on: what :func:`core_times` needs of it."""
    branches = Branches(decoder, flags_alone=True)
    branches.attach(paths)
    return PathSample(decoder, paths, branches, plan, trace.site_blocks, len(trace.blocks))


def decoded_paths(trace: Trace, plan: SamplePlan = PLAN, progress: Progress = SILENT) -> PathSample:
    """Return a sample of all of a trace's path."""
    samples: list[PathSample] = []

    def prepare(decoder: Decoder, paths: Paths) -> None:
        decoder.paths_alone()
        samples.append(gather_paths(trace, decoder, paths, plan))

    trace.walk(prepare, progress)
    return samples[0]


def core_times(
    trace: Trace, machines: Sequence[Sequence[Walk]], progress: Progress = SILENT, *, sample: PathSample | None = None
) -> list[list[WalkedCore]]:
    """Return what walks of machines find along a trace's paths. Those of one machine have one table, and the last of them
    sees all windows that the others see; what other machines are walked beside it changes nothing.

    ``sample`` is what :func:`gather_paths` gathered while all of the trace was decoded; without, the trace is decoded here.
    """
    if sample is None and trace.whole_paths and len(trace.definitions.instructions):
        sample = decoded_paths(trace, progress=progress)
    walked = _CoreWalks(trace, sample)
    return [walked.of_machine(walks, progress) for walks in machines]


def _with_static(causes: Array, unseen: NDArray[np.bool_], chained: NDArray[np.bool_]) -> Array:
    """Return the causes with those of blocks that no window shows: dependences, or as many instructions as can be issued."""
    found = np.where(unseen[:, None], 0.0, causes)
    found[unseen & chained, DEPENDENT_CAUSE] = found[unseen & ~chained, WIDTH_CAUSE] = 1.0
    return found


def _chosen_static(work: Array, total: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the blocks to estimate from their code, and those of them that stand for all others with work.

    ``work``: instructions of each block that no window shows, of ``total``. Of very many those with most work,
    and some of the rest, evenly by their work, which stand for the rest.
    """
    wanted = heaviest(work, NEGLIGIBLE * total)
    if len(wanted) <= MOST_STATIC:
        return np.sort(wanted), wanted
    first, rest = np.split(wanted, [MOST_STATIC // 2])
    some = rest[:: -(-len(rest) // (MOST_STATIC // 2))]
    return np.sort(np.concatenate([first, some])), some


def _worth_decoding(work: Array) -> NDArray[np.bool_]:
    """Return all blocks but those with least work, which together have :data:`UNDECODED` of it; ``work``: their instructions."""
    found = np.zeros(len(work), dtype=bool)
    found[heaviest(work, UNDECODED * work.sum())] = True
    return found


class _CoreWalks:
    """The walks of one program."""

    def __init__(self, trace: Trace, sample: PathSample | None) -> None:
        self.trace, self.sample = trace, sample
        blocks = trace.blocks
        self.executions = blocks.counts["executions"].astype(float)
        own = np.divide(blocks.counts["instructions"], self.executions, out=np.ones(len(blocks)), where=self.executions > 0)
        self.length = np.maximum(own, 1.0)
        wanted = _worth_decoding(self.executions * self.length)[blocks.instruction_blocks]
        self.code = DecodedCode(trace.definitions, wanted)
        self._made: list[tuple[CoreTable, tuple[Operations, Code]]] = []
        self._near: list[tuple[CoreTable, int, SharedWalk]] = []

    def of_machine(self, walks: Sequence[Walk], progress: Progress) -> list[WalkedCore]:
        walked = self._walked(walks, progress) or [self._nothing() for _ in walks]
        unseen = (walked[0][0].executions < LEAST_EXECUTIONS) & (self.executions > 0)
        static, chained = self._static(walks[0].table, unseen)
        return [
            WalkedCore(walk, self._table(one, unseen, static), one.error, _with_static(causes, unseen, chained))
            for walk, (one, causes) in zip(walks, walked, strict=True)
        ]

    def _walked(self, walks: Sequence[Walk], progress: Progress) -> list[tuple[BlockCycles, Array]]:
        definitions, blocks = self.trace.definitions, self.trace.blocks
        if self.sample is None or not len(self.sample):
            return []
        native = [self._begun(walk, self.sample) for walk in walks]
        first = np.minimum(starts(definitions.segments["instructions"]), len(blocks.instruction_blocks) - 1)
        segment_blocks = blocks.instruction_blocks[first].astype(np.int64)
        found = walk_windows(self.sample, native, segment_blocks, self.executions, self.length, walks[0].target, progress)
        return [(one, walk.causes.astype(float)) for one, walk in zip(found, native, strict=True)]

    def _begun(self, walk: Walk, sample: PathSample) -> SampleWalk | SharedWalk:
        """Return a walk; one of data that are near is the same on all machines that have its core."""
        if walk.far is not None:
            return self._native(walk, sample)
        first = next((one for table, line_bytes, one in self._near if (table, line_bytes) == walk[:2]), None)
        shared = SharedWalk(partial(self._native, walk, sample), first)
        if first is None:
            self._near.append((walk.table, walk.line_bytes, shared))
        return shared

    def _native(self, walk: Walk, sample: PathSample) -> SampleWalk:
        definitions, blocks = self.trace.definitions, self.trace.blocks
        counted = (definitions.instructions["flags"] & CONTINUED) == 0
        model = self._model(walk, *self._on(walk.table))
        return SampleWalk(sample, model, blocks.instruction_blocks, counted, len(blocks))

    def _on(self, table: CoreTable) -> tuple[Operations, Code]:
        """Return the program's operations on a core, and its code of these: many machines have one."""
        for known, made in self._made:
            if known == table:
                return made
        ops = operations(self.code, table)
        self._made.append((table, (ops, program_code(self.trace.definitions, ops))))
        return self._made[-1][1]

    def _static(self, table: CoreTable, unseen: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
        """Return the cycles of an execution of blocks that no window shows, and whether their dependences take longest, from
        their code.

        Those which together have next to none of the program's instructions, and of very many most, are taken to cost what the
        others do.
        """
        blocks = self.trace.blocks
        work = np.where(unseen, self.executions * self.length, 0.0)
        chosen, alike = _chosen_static(work, float((self.executions * self.length).sum()))
        if not len(chosen):
            return np.where(unseen, self.length, 0.0), np.zeros(len(blocks), dtype=bool)
        cycles, chained = static_cycles(blocks, self._on(table)[0], table, chosen)
        each = (cycles[alike] * self.executions[alike]).sum() / max(work[alike].sum(), 1e-300)
        cycles[unseen] = np.where(cycles[unseen] > 0, cycles[unseen], each * self.length[unseen])
        return cycles, chained

    def _nothing(self) -> tuple[BlockCycles, Array]:
        zero = np.zeros(len(self.trace.blocks))
        return BlockCycles(zero, zero, zero, 0.0, zero), np.zeros((len(zero), CAUSES))

    def _model(self, walk: Walk, ops: Operations, code: Code) -> Core:
        model = Core(core_parameters(walk.table, walk.line_bytes), ops.classes, code)
        if walk.far is not None:
            model.levels(self.trace.site_blocks, *walk.far)
        return model

    def _table(self, found: BlockCycles, unseen: NDArray[np.bool_], static: Array) -> pl.DataFrame:
        window = ~unseen & (found.executions > 0)
        return pl.DataFrame(
            {
                "block": np.arange(len(static), dtype=np.uint32),
                "cycles_per_execution": np.where(window, found.cycles / np.maximum(found.executions, 1e-9), static),
                "how": np.where(window, WINDOW, STATIC),
                "share": np.where(window, np.minimum(found.executions / np.maximum(self.executions, 1), 1.0), 0.0),
                "error": np.where(window, found.errors, 0.0),
            }
        )
