"""What the tracer records of the addresses: the sampling plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from convolver._native.trace_decoder import Decoder
from convolver.errors import UsageError
from convolver.tracing.places import named_place

BUDGET_BYTES = 24_000_000
"""Addresses that a process leaves, before compression, where nothing else is asked for: so much is decoded in a second or so."""
STRETCH = 64
"""Intervals that follow each other in which the sets are sampled, between gaps: most programs fill a last cache meanwhile."""
COARSEST_SETS = 256
"""So seldom a set is sampled before there are gaps: of 1024 sets four are left."""
USUAL_CLASS = 21
"""Low bits of this number name the class of sets: no multiple of a small power of two, where aligned data gather."""

PERIOD_SECONDS = 0.02
"""Of a program that runs natively between bursts: one of them in each."""

_USUAL = (1_000_000, 30_000, 32, 0)
"""Interval, sample, sets and warm-up that nobody asked for."""

STALE = 3
"""Of so many references of a burst one comes early: the caches hold what the burst before left there, so simulators do not count
it. A first level is mostly filled anew by then."""

Mode = Literal["counts", "sample", "full"]
Engine = Literal["valgrind", "native"]


def tell_warm_ups(decoder: Decoder, plan: Mapping[str, Any]) -> None:
    """Tell a decoder which references of each burst fill the caches and are not counted; ``plan`` is a plan's document."""
    bursts = plan.get("mode") == "sample" and bool(plan.get("interval"))
    decoder.warmup(bool(plan.get("warmup")))
    decoder.stale(int(plan.get("sample") or 0) // STALE if bursts and not plan.get("warmup") else 0)


class SamplingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Exact counts are always taken; this says which addresses come with them.

    ``mode``: "counts" (none), "sample" (bursts, sets or both) or "full" (all). Bursts: of every ``interval`` executed memory
    references the first ``sample`` are recorded. ``sets``: beside the bursts, all references to one of ``sets`` classes of
    cache sets (a power of two; 0: off): those whose line number has ``set_class`` in its low bits. ``block_limit``: at most
    so many recorded visits of a code segment (0: no limit). ``phase`` (i, n): record only the i-th of n parts of the code,
    counted from 1. ``blocks``: record only code that overlaps one of these (module, first offset, end). Neither changes a count.
    ``warmup``: so many of each burst's first references only fill the caches and are not counted. ``start_at``, ``stop_at``:
    trace from one to the other, each "marker" (convolver_markers.h), the name of a function that is entered, or "0x" and an
    address of the program as its symbol table has it; counts are those of that part.
    ``data_objects``: tell which data objects (allocation sites, variables, stacks, mappings) the recorded references touch;
    ``allocators``: names of functions whose callers are allocation sites, too.
    ``engine``: what runs the program; the native one cannot carry out every plan (see :meth:`missing_natively`).
    ``bursts_only``: the program runs natively but for a burst of ``sample`` references in each :data:`PERIOD_SECONDS` (the native
    engine only); counts are those of the bursts.
    ``budget``: about so many bytes of addresses, before compression, are kept of a run that gives more, spread evenly over it
    (:mod:`convolver.tracing.thinning`). 0: all are kept; None: :data:`BUDGET_BYTES`, or all where another interval, sample,
    warm-up or number of sets is asked for.
    ``paths``: record visits of code without references, too, so that what is recorded is the path; None: in bursts.
    """

    mode: Mode = "sample"
    interval: int = _USUAL[0]
    sample: int = _USUAL[1]
    sets: int = _USUAL[2]
    set_class: int | None = None
    block_limit: int = 0
    phase: tuple[int, int] | None = None
    blocks: tuple[tuple[str, int, int], ...] | None = None
    paths: bool | None = None
    warmup: int = 0
    start_at: str | None = None
    stop_at: str | None = None
    data_objects: bool = False
    allocators: tuple[str, ...] = ()
    engine: Engine = "valgrind"
    bursts_only: bool = False
    budget: int | None = None

    @classmethod
    def checked(cls, plan: SamplingPlan | None) -> SamplingPlan:
        """Return a plan, the usual one for None; raises :class:`UsageError` for something else, and as :meth:`check` does."""
        if plan is not None and not isinstance(plan, cls):
            raise UsageError(f"{plan!r} is no sampling plan; give for example SamplingPlan(mode='full').")
        return (plan or cls()).check()

    def check(self) -> SamplingPlan:
        """Return the plan itself; raises :class:`UsageError` when it contradicts itself or a field is of another type."""
        try:
            msgspec.convert(msgspec.to_builtins(self), SamplingPlan)
        except (msgspec.ValidationError, TypeError) as error:
            raise UsageError(f"This is no sampling plan: {error}.") from error
        if self.mode == "sample" and self.interval < 1 and not self.sets:
            raise UsageError("A sample needs an interval of at least one reference, or sets; record counts only instead.")
        if self.mode == "sample" and not 0 <= self.sample <= self.interval:
            raise UsageError(f"A sample of {self.sample} references does not fit in an interval of {self.interval}.")
        if self.warmup and not (self.mode == "sample" and 0 < self.warmup < self.sample):
            raise UsageError(f"A warm-up of {self.warmup} references leaves nothing of a burst of {self.sample}; shorten it.")
        if self.sets < 0 or self.sets & (self.sets - 1) or self.sets > 1 << 20:
            raise UsageError(f"1/{self.sets} of the sets cannot be recorded: the number must be a power of two up to 1048576.")
        if self.set_class is not None and not 0 <= self.set_class < max(self.sets, 1):
            raise UsageError(f"There is no set class {self.set_class}: there are {self.sets}.")
        if self.block_limit < 0:
            raise UsageError(f"A block limit of {self.block_limit} visits is impossible; 0 means no limit.")
        if self.phase is not None and not 1 <= self.phase[0] <= self.phase[1]:
            raise UsageError(f"There is no phase {self.phase[0]}/{self.phase[1]}; phases are counted from 1/n to n/n.")
        if self.budget is not None and self.budget < 0:
            raise UsageError(f"A budget of {self.budget} bytes is impossible; 0 means no limit.")
        if self.budget and not self.can_thin:
            raise UsageError(
                "A budget thins out bursts; leave it out with --full, --counts-only, --phase, --block-limit and --data-objects."
            )
        if self.data_objects and (self.mode == "counts" or self.phase is not None):
            raise UsageError("Data objects are derived from recorded addresses of one run; leave out --counts-only and --phase.")
        if self.allocators and not self.data_objects:
            raise UsageError("Allocation functions belong to data objects; add --data-objects.")
        if any(not name or "," in name for name in self.allocators):
            raise UsageError("The name of an allocation function is empty or has a comma in it; write one function each time.")
        if self.bursts_only and (self.engine != "native" or self.mode != "sample" or self.sets or not self.sample):
            raise UsageError(
                "Bursts alone are recorded by the native engine, without sets; leave out other choices of what to record."
            )
        missing = self.missing_natively() if self.engine == "native" else None
        if missing:
            raise UsageError(f"The native engine cannot {missing}; leave that out, or trace with --engine valgrind.")
        return self

    def missing_natively(self) -> str | None:
        """Return what of the plan the native engine cannot do, as the end of a sentence; None: nothing."""
        wanted = (
            (self.bursts_only and (self.start_at or self.stop_at) is not None, "start and stop at a place in bursts alone"),
            (self.bursts_only and self.data_objects, "tell data objects of a run that it does not follow between bursts"),
        )
        return next((name for has, name in wanted if has), None)

    @property
    def can_thin(self) -> bool:
        """True when samples can be left out afterwards: there are intervals, and nothing else rests on every sample."""
        bursts = self.mode == "sample" and self.interval > 0 and self.sample > 0
        return bursts and not (self.block_limit or self.phase or self.data_objects)

    @property
    def kept_bytes(self) -> int:
        """The budget; 0: everything is kept."""
        if self.budget is not None:
            return self.budget
        usual = (self.interval, self.sample, self.sets, self.warmup) == _USUAL
        return BUDGET_BYTES if usual and self.can_thin else 0

    def choose(self, decoder: Decoder) -> None:
        """Tell a decoder which code is recorded."""
        phase = None if self.phase is None else (self.phase[0] - 1, self.phase[1])
        decoder.choose(phase, self.blocks or ())
        tell_warm_ups(decoder, self.document())
        if self.data_objects:
            decoder.attribute()

    def options(self, program: str = "") -> list[str]:
        """Return the tracer's options; addresses to start and stop at are those of ``program``."""
        options = [f"--mode={self.mode}", f"--block-limit={self.block_limit}"]
        if self.mode == "sample":
            options += [f"--interval={self.interval}", f"--sample={self.sample}", f"--sets={self.sets}"]
            options += [f"--set-class={self.chosen_class}", f"--warmup={self.warmup}"]
        options += [f"--stretch={STRETCH}"] if self.kept_bytes else []
        options += [f"--start-at={named_place(program, self.start_at)}"] if self.start_at else []
        options += [f"--stop-at={named_place(program, self.stop_at)}"] if self.stop_at else []
        options += ["--data-objects=yes"] if self.data_objects else []
        options += [f"--allocators={','.join(self.allocators)}"] if self.allocators else []
        if self.paths is not None:
            options.append(f"--all-visits={'yes' if self.paths else 'no'}")
        return options

    @property
    def whole_paths(self) -> bool:
        """True when every visit in a window is recorded, so that each visit is followed by the one that was executed next."""
        bursts = self.mode == "sample" and self.interval > 0 and self.sample > 0
        recorded = self.paths if self.paths is not None else bursts
        return recorded and self.mode != "counts" and not (self.block_limit or self.phase or self.blocks)

    @property
    def chosen_class(self) -> int:
        """The class of sets that is recorded."""
        if self.set_class is not None:
            return self.set_class
        return USUAL_CLASS & (self.sets - 1) if self.sets else 0

    def document(self) -> dict[str, Any]:
        """Return the plan as a JSON-able document."""
        sets = self.sets if self.mode == "sample" else 0
        paths = {"paths": self.whole_paths}
        return {
            **msgspec.to_builtins(self),
            **paths,
            "budget": self.kept_bytes,
            "sets": sets,
            "set_class": self.chosen_class if sets else 0,
        }
