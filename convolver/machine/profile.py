"""The machine profile: one JSON document per machine, measured or projected."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec

from convolver.artifact_kinds import KINDS
from convolver.errors import PredictionError, SchemaError, UsageError
from convolver.machine.calibration import Calibration
from convolver.machine.core_figures import CoreFigure, MixedKind
from convolver.machine.hierarchy import Level, TlbLevel
from convolver.machine.kernel_costs import KernelCost, check_kernel_costs
from convolver.machine.maps import MEMORY, Curve, Point, Rate, check_curves, plateau
from convolver.machine.memory_system import PAGE_BYTES, MemorySystem, Placement, make_system, parse_system
from convolver.machine.page_frames import in_frames
from convolver.schema import document_id, load_document, save_document

__all__ = ["MEMORY", "Curve", "DetectedLevel", "MachineProfile", "Point", "Rate", "Throughput"]

SCHEMA = "convolver.machine"
SUFFIX = ".machine.json"
PLACED = "placed"
"""Field of a CPU on which a program's threads have several last levels: how many, and how many threads in a row share one."""
MOST_CPUS = "most_cpus"
"""Field of a CPU that was not probed: how many CPUs the largest machine has that is known to have it."""
SETS = 64
"""A size that is made up has a number of sets that samples of up to 1 / 64 of the sets can hold."""
_LINE_BYTES = 64
"""Of the probe's walks."""


class Throughput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Cost of one instruction whose operands are in registers.

    ``operation`` is add, multiply, fma, divide, add_latency, ... on ``width_bytes`` of doubles, or instruction: a typical mix of
    integer instructions. ``flops`` is what one instruction counts for, ``seconds`` its time in a long run of its kind.
    """

    kernel: str
    operation: str
    seconds: float
    width_bytes: int = 8
    flops: int = 0
    samples_seconds: tuple[float, ...] = ()
    spread: float = 0.0
    stable: bool = True


class DetectedLevel(msgspec.Struct, frozen=True, kw_only=True):
    """A capacity at which the measured latency rises; the true knee lies between ``low_bytes`` and ``high_bytes``.

    ``confidence`` in 0..1 says how much of the rise this edge explains.
    """

    level: str
    size_bytes: int
    low_bytes: int
    high_bytes: int
    confidence: float


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """Another CPU, and how many times slower instructions run while it is busy: 1 for a core of its own, 1.3 to 2 for a shared
    one, whatever the topology reports."""

    cpu: int
    slowdown: float
    reported_sibling: bool = False


class Residency(msgspec.Struct, frozen=True, kw_only=True):
    """How long lines that are left alone survive in the last cache; ``at_least`` where they outlived the longest pause.

    ``points`` are pairs of a pause and the seconds of a dependent load after it, over ``working_set_bytes``: of a line that was
    last visited a turn over all of them before the pause began.
    """

    seconds: float
    at_least: bool
    working_set_bytes: int
    points: tuple[tuple[float, float], ...] = ()

    @property
    def lives(self) -> tuple[tuple[float, float], ...]:
        """Pairs of a time in seconds and the share of lines that live so long, shares adding up to 1: those that went between two
        pauses live for their mean and the turn before. All live for ``seconds`` where the points show no loss."""
        worst = [*accumulate((seconds for _, seconds in self.points), max)]
        lost = worst[-1] - worst[0] if worst else 0.0
        if not lost:
            return ((self.seconds, 1.0),)
        turn = self.working_set_bytes / _LINE_BYTES * self.points[0][1]
        steps = zip(pairwise(self.points), pairwise(worst), strict=True)
        return tuple(
            (turn + (before[0] + after[0]) / 2, (more - less) / lost) for (before, after), (less, more) in steps if more > less
        )


class Contention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The caches as one of ``threads`` busy CPUs sees them; ``beside`` as in :class:`Curve`."""

    threads: int
    hierarchy: tuple[Level, ...]
    beside: str = ""


def _check_throughputs(entries: tuple[Throughput, ...]) -> None:
    for entry in entries:
        if not 0 < entry.seconds < math.inf or entry.width_bytes < 1 or entry.flops < 0:
            raise SchemaError(f"the throughput '{entry.kernel}' has no positive time and width")


class MachineProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What is known of a machine. Times are in seconds, sizes in bytes.

    ``hierarchy`` is what simulations use; ``hierarchy_reported`` is what the operating system said, where it differs;
    ``detected`` is what the measured curves show. ``huge_maps`` are curves on huge pages beside those of ``maps``, which the
    calibration alone uses. ``core_ports`` says which kinds of instructions share ports. ``tlb`` has levels for each size of page,
    of which those for ``page_bytes`` are simulated; ``semantics`` is what a write does. ``provenance`` says when, where and how
    the numbers were made.
    """

    name: str
    hierarchy: tuple[Level, ...]
    tlb: tuple[TlbLevel, ...] = ()
    page_bytes: int = PAGE_BYTES
    semantics: str = "write-back"
    projected: bool = False
    provenance: dict[str, Any] = {}
    cpu: dict[str, Any] = {}
    hierarchy_reported: tuple[Level, ...] = ()
    detected: tuple[DetectedLevel, ...] = ()
    maps: tuple[Curve, ...] = ()
    huge_maps: tuple[Curve, ...] = ()
    floating_point: tuple[Throughput, ...] = ()
    core: tuple[CoreFigure, ...] = ()
    core_ports: tuple[MixedKind, ...] = ()
    kernel: tuple[KernelCost, ...] = ()
    calibration: Calibration | None = None
    neighbours: tuple[Neighbour, ...] = ()
    residency: Residency | None = None
    contention: tuple[Contention, ...] = ()
    network: dict[str, Any] | None = None
    derived_from: dict[str, Any] | None = None
    changes: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: str | Path) -> MachineProfile:
        """Read a ``.machine.json`` file.

        Raises :class:`FormatError` and its kinds for a file that is none, :class:`HierarchyError` for an impossible geometry.
        """
        document = load_document(path, SCHEMA)
        profile = cls.from_document(document, str(path))
        # The id is the file's: fields that this version does not know are part of it.
        profile.__dict__["id"] = document.get("id") or document_id(document)  # one that was written is checked
        return profile

    @classmethod
    def from_document(cls, document: dict[str, Any], where: str = "The machine profile") -> MachineProfile:
        """Return the profile in a JSON document; unknown fields are ignored."""
        levels = document.get("hierarchy")
        if not isinstance(levels, list):
            raise SchemaError(f"{where} has no 'hierarchy': give it a list of cache levels, nearest first.")
        parse_system(document, where)
        try:
            profile = msgspec.convert(document, cls)
            maps, huge_maps = check_curves(profile.maps), check_curves(profile.huge_maps)
            _check_throughputs(profile.floating_point)
            check_kernel_costs(profile.kernel)
        except (msgspec.ValidationError, SchemaError, UnicodeEncodeError) as error:
            raise SchemaError(f"{where} is no valid machine profile: {error}.") from error
        if not profile.name or "/" in profile.name:
            raise SchemaError(f"{where} is no valid machine profile: its name is empty or holds a '/'.")
        return msgspec.structs.replace(profile, maps=maps, huge_maps=huge_maps)

    def to_document(self) -> dict[str, Any]:
        """Return the profile as a JSON document with schema and version, without id."""
        return {"schema": SCHEMA, "version": KINDS[SCHEMA].version, **msgspec.to_builtins(self)}

    def save(self, path: str | Path) -> str:
        """Write the profile as JSON and return its id."""
        return save_document(self.to_document(), path)

    @cached_property
    def id(self) -> str:
        """Hash of the whole document."""
        return document_id(msgspec.json.decode(msgspec.json.encode(self.to_document())))

    @property
    def hierarchy_id(self) -> str:
        """Hash of the simulated geometry alone: machines that share it need one simulation."""
        return self.system.id

    @property
    def system(self) -> MemorySystem:
        """What simulations use: caches, the TLB for the pages that programs have, what a write does."""
        return make_system(self.hierarchy, self.tlb, self.semantics, self.page_bytes)._replace(placed=self._placed)

    @property
    def _placed(self) -> Placement:
        return Placement(*map(int, self.cpu.get(PLACED, ())))

    @property
    def known_cpus(self) -> int:
        """CPUs of the machine that was probed, or of the largest that is known to have its CPU; 0: not known."""
        found = self.cpu.get("cpus", self.cpu.get(MOST_CPUS))
        return max(found, 0) if isinstance(found, int) else 0

    @property
    def translations(self) -> MemorySystem | None:
        """What keeps translations of pages, as a cache of pages; None where the calibration found no cost in them."""
        levels = self.calibration.translation if self.calibration else ()
        return MemorySystem(levels) if levels else None

    @property
    def scattered_system(self) -> MemorySystem | None:
        """The caches as lines out of order find them: with a smaller last level; None where streams find the same."""
        share = self.calibration.scattered_share if self.calibration else 0.0
        return self._with_last(share * self.hierarchy[-1].size_bytes) if 0 < share < 1 and self.system.plain else None

    def _with_last(self, size_bytes: float) -> MemorySystem:
        *inner, last = self.hierarchy
        step = last.ways * last.line_bytes * SETS
        smaller = msgspec.structs.replace(last, size_bytes=max(round(size_bytes / step), 1) * step)
        return MemorySystem((*inner, smaller), placed=self._placed)

    @property
    def framed_system(self) -> MemorySystem | None:
        """The caches with pages of the second level in frames, as lines out of order find it; None where the curve of dependent
        loads shows no sign of that."""
        chase = next((curve for curve in self.maps if curve.kernel == "chase" and curve.threads == 1), None)
        levels = in_frames(self.hierarchy, chase, self.calibration) if self.system.plain else None
        return None if levels is None else MemorySystem(levels, placed=self._placed)

    @property
    def limited_residency(self) -> Residency | None:
        """The residency where others were seen to push lines out of the last cache; else None."""
        return None if self.residency is None or self.residency.at_least else self.residency

    @property
    def left_systems(self) -> tuple[MemorySystem, ...]:
        """The caches with smaller and smaller last levels, the largest first: what a program keeps where other VMs push out lines
        that are left alone; empty where the profile does not say that, or the calibration says it of lines out of order."""
        lives, known = self.limited_residency, self.calibration
        if lives is None or not lives.seconds or known is None or known.scattered_share or not self.system.plain:
            return ()
        last, before = self.hierarchy[-1].size_bytes, self.hierarchy[-2].size_bytes if len(self.hierarchy) > 1 else 0
        sizes = [last / 2**number for number in range(1, 32)]
        return tuple(self._with_last(size) for size in sizes if before and size >= before)

    def curve(
        self,
        pattern: str,
        operation: str = "load",
        *,
        width_bytes: int = 8,
        stride_bytes: int = 0,
        chains: int = 1,
        threads: int = 1,
    ) -> Curve:
        """Return the curve of a pattern and an operation whose width, stride, chains and threads are nearest to those asked for.

        Raises :class:`PredictionError` when the machine has no such curve.
        """
        alike = [curve for curve in self.maps if curve.pattern == pattern and curve.operation == operation]
        candidates = [curve for curve in alike if not curve.beside] or alike
        if not candidates:
            raise PredictionError(self._missing(f"no {pattern} {operation} curve" if self.maps else "no measured maps"))

        def distance(curve: Curve) -> tuple[float, ...]:
            wanted = (
                (curve.threads, threads),
                (curve.chains, chains),
                (curve.stride_bytes, stride_bytes),
                (curve.width_bytes, width_bytes),
            )
            return tuple(abs(math.log(max(have, 1) / max(want, 1))) for have, want in wanted)

        return min(candidates, key=distance)

    def plateau(
        self,
        pattern: str,
        operation: str,
        level_name: str,
        *,
        width_bytes: int = 8,
        stride_bytes: int = 0,
        chains: int = 1,
        threads: int = 1,
    ) -> Rate:
        """Return the seconds per reference of a pattern whose data lie in ``level_name`` (or in ``"memory"``).

        Raises :class:`PredictionError` when the machine has no such curve or level.
        """
        curve = self.curve(pattern, operation, width_bytes=width_bytes, stride_bytes=stride_bytes, chains=chains, threads=threads)
        return plateau(curve, self.hierarchy, level_name)

    def throughput(self, operation: str, *, width_bytes: int = 8) -> Throughput:
        """Return the measured instruction of an operation with the nearest width; raises :class:`PredictionError` without one."""
        candidates = [entry for entry in self.floating_point if entry.operation == operation]
        if not candidates:
            raise PredictionError(self._missing(f"no measured '{operation}' throughput"))
        return min(candidates, key=lambda entry: abs(math.log(entry.width_bytes / width_bytes)))

    @property
    def usual_cycle(self) -> float:
        """How long a cycle of the core usually is, relative to that of the profile's near figures, at least 1.

        A probe keeps the shortest samples of each point, so those of the fastest clock; programs run at the clock that there
        usually is, the median of the probe's looks at it. 1 where the profile does not say; that of its base for a projection.
        """
        if self.projected:
            return float(self.provenance.get("base", {}).get("usual_cycle", 1.0))
        usual = self.provenance.get("noise", {}).get("cycle_seconds_median", 0.0)
        fastest = [entry.seconds for entry in self.floating_point if entry.operation == "cycle"]
        return max(usual / min(fastest), 1.0) if fastest else 1.0

    @property
    def clock_range(self) -> float:
        """How far the core's clock moved while it was probed: the logarithm of its usual cycle over the shortest; 0 where the
        profile does not say."""
        noise = self.provenance.get("noise", {})
        least, usual = noise.get("cycle_seconds_least", 0.0), noise.get("cycle_seconds_median", 0.0)
        return math.log(usual / least) if usual > least > 0 else 0.0

    def flop_rate(self, operation: str = "mixed", *, width_bytes: int = 8) -> float:
        """Return floating-point operations per second with operands in registers.

        ``mixed`` is as many additions as multiplications, the usual reading of a plain count of operations. Raises
        :class:`PredictionError` when none was measured.
        """
        if operation == "mixed":
            return 2.0 / sum(1.0 / self.flop_rate(kind, width_bytes=width_bytes) for kind in ("add", "multiply"))
        entry = self.throughput(operation, width_bytes=width_bytes)
        if entry.flops < 1:
            raise UsageError(f"'{operation}' counts no floating-point operations, so it has no rate of them.")
        return entry.flops / entry.seconds

    @property
    def instruction_seconds(self) -> float:
        """Seconds per integer instruction of typical parallelism; raises :class:`PredictionError` when it was not measured."""
        return self.throughput("instruction").seconds

    def _missing(self, what: str) -> str:
        return f"The machine '{self.name}' has {what}: run `convolver probe` on it and use the profile that this writes."

    def summary(self) -> dict[str, Any]:
        """Return name, kind, geometry and number of curves, as JSON-able values."""
        return {
            "name": self.name,
            "id": self.id,
            "projected": self.projected,
            "hierarchy_id": self.hierarchy_id,
            "levels": [msgspec.to_builtins(level) for level in self.hierarchy],
            "tlb": [msgspec.to_builtins(level) for level in self.tlb],
            "page_bytes": self.page_bytes,
            "semantics": self.semantics,
            "curves": len(self.maps),
            "points": sum(len(curve.points) for curve in self.maps),
            "throughputs": len(self.floating_point),
            "cpu": self.cpu.get("model", ""),
            "cpus": self.known_cpus or None,
        }
