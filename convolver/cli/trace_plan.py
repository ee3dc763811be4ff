"""What of a run ``convolver trace`` records: its options as a sampling plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from convolver.cli import completing
from convolver.errors import UsageError
from convolver.units import parse_count

if TYPE_CHECKING:
    from convolver.signature.signature import Signature
    from convolver.tracing.sampling import Mode, SamplingPlan


Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="valgrind, native (fast), or auto: native where Valgrind cannot run the program [auto].",
        autocompletion=completing.engines,
    ),
]


def _phase(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if match is None:
        raise UsageError(f"'{text}' is no phase; write for example 1/4.")
    return int(match[1]), int(match[2])


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Options of ``convolver predict`` and ``trace``: which addresses of a run are recorded."""

    interval: Annotated[str | None, typer.Option("--interval", help="Record bursts: one in every N memory references [1M].")] = (
        None
    )
    sample: Annotated[str | None, typer.Option("--sample", help="References in a burst [30k].")] = None
    sets: Annotated[int | None, typer.Option("--sets", help="Beside the bursts, record 1/N of the cache sets [32]; 0: off.")] = (
        None
    )
    budget: Annotated[
        str | None, typer.Option("--budget", help="Keep about so many bytes of samples [24MB]; 0, --interval ...: all of them.")
    ] = None
    full: Annotated[bool, typer.Option("--full", help="Record every reference.")] = False
    data_objects: Annotated[
        bool, typer.Option("--data-objects", help="Tell which data objects the references touch: APP.objects.parquet.")
    ] = False

    @property
    def burst(self) -> int:
        """References of a burst."""
        from convolver.tracing.sampling import SamplingPlan

        return parse_count(self.sample) if self.sample else SamplingPlan().sample

    @property
    def samples(self) -> bool:
        """Whether the samples are chosen."""
        return bool(self.interval or self.sample or self.sets is not None)

    @property
    def mode(self) -> Mode:
        """What addresses are recorded."""
        return "full" if self.full else "sample"

    def plan(self, **more: Any) -> SamplingPlan:
        """Return the checked plan that the options stand for, and these fields of it."""
        from convolver.tracing.sampling import SamplingPlan

        if self.mode != "sample" and self.samples:
            raise UsageError("--interval, --sample, --warmup and --sets belong to sampling; leave out --full and --counts-only.")
        default = SamplingPlan()
        return SamplingPlan(
            mode=self.mode,
            interval=parse_count(self.interval) if self.interval else default.interval,
            sample=self.burst,
            sets=default.sets if self.sets is None else self.sets,
            budget=None if self.budget is None else parse_count(self.budget.removesuffix("B")),
            data_objects=self.data_objects,
            **more,
        ).check()


@dataclass(frozen=True, kw_only=True)
class RecordedPart(Sampling):
    """Options of ``convolver trace``: which part of a run is recorded, and which code."""

    warmup: Annotated[
        str | None, typer.Option(help="So many references of each burst, or a share like 20%, only fill the caches [0].")
    ] = None
    counts_only: Annotated[bool, typer.Option("--counts-only", help="Record no address, only exact counts.")] = False
    paths: Annotated[
        bool | None, typer.Option("--paths/--no-paths", help="Record code without references, too [yes in bursts].")
    ] = None
    block_limit: Annotated[str, typer.Option(help="Record at most N visits of a code segment; 0: no limit.")] = "0"
    top_blocks: Annotated[int | None, typer.Option("--top-blocks", help="Record only the K hottest blocks of --from.")] = None
    cover: Annotated[float | None, typer.Option(help="Record only blocks with this share of the references of --from.")] = None
    source: Annotated[Path | None, typer.Option("--from", help="Signature to choose blocks or take counts from.")] = None
    addresses: Annotated[bool, typer.Option("--addresses", help="Take the exact counts from --from, a --counts-only run.")] = (
        False
    )
    bursts_only: Annotated[
        bool, typer.Option("--bursts-only", help="Run natively but for a burst in each 20 ms, by the native engine.")
    ] = False
    function: Annotated[list[str] | None, typer.Option(help="Record only this function of the program; repeatable.")] = None
    code_range: Annotated[
        list[str] | None, typer.Option("--range", help="Record only code at 0xFIRST-0xEND, of a library with @FILE; repeatable.")
    ] = None
    start_at: Annotated[
        str | None, typer.Option(help="Trace from here: marker (convolver_markers.h), a function's name or 0xADDRESS.")
    ] = None
    stop_at: Annotated[str | None, typer.Option(help="Trace up to here: marker, a function's name or 0xADDRESS.")] = None
    phase: Annotated[str | None, typer.Option(help="I/N: record only the I-th of N parts of the code; see merge.")] = None
    allocator: Annotated[
        list[str] | None, typer.Option(help="With --data-objects: take this function's callers as allocation sites; repeatable.")
    ] = None

    def blocks(self, source: Signature | None, program: str) -> tuple[tuple[str, int, int], ...] | None:
        """Return the code to record as (module, first offset, end); None: all."""
        from convolver.tracing.places import range_blocks
        from convolver.tracing.preflight import find_program
        from convolver.tracing.selection import function_blocks, hot_blocks

        hottest = self.top_blocks is not None or self.cover is not None
        if (hottest or self.addresses) and source is None:
            raise UsageError(
                "--top-blocks, --cover and --addresses need the signature of an earlier run; name it with --from SIG."
            )
        if source is not None and not (hottest or self.addresses):
            raise UsageError("--from SIG belongs to --top-blocks, --cover or --addresses; say what it is for.")
        if self.function or self.code_range:
            if hottest:
                raise UsageError("--function and --range contradict --top-blocks and --cover; choose one.")
            found = find_program(program)
            named = function_blocks(found, self.function) if self.function else ()
            return (*named, *range_blocks(found, self.code_range or []))
        return hot_blocks(source, top=self.top_blocks, cover=self.cover) if source is not None and hottest else None

    def plan_of(self, source: Signature | None, program: str) -> SamplingPlan:
        """Return the checked plan; ``source`` is the signature of an earlier run, ``program`` the command's."""
        return self.plan(
            blocks=self.blocks(source, program),
            warmup=self._warmup(),
            block_limit=parse_count(self.block_limit),
            phase=_phase(self.phase),
            paths=self.paths,
            start_at=self.start_at,
            stop_at=self.stop_at,
            allocators=tuple(self.allocator or ()),
        )

    @property
    def samples(self) -> bool:
        """Whether the samples are chosen."""
        return super().samples or bool(self.warmup)

    @property
    def mode(self) -> Mode:
        """What addresses are recorded; raises :class:`UsageError` where two answers are given."""
        if self.full and self.counts_only:
            raise UsageError("--full and --counts-only contradict each other; choose one.")
        return "counts" if self.counts_only else super().mode

    def _warmup(self) -> int:
        """A number of references, or with a percent sign a share of each burst."""
        text = self.warmup or "0"
        if not text.endswith("%"):
            return parse_count(text)
        try:
            return round(float(text[:-1]) / 100 * self.burst)
        except ValueError as error:
            raise UsageError(f"'{text}' is no warm-up; write a number of references or a share like 20%.") from error


def on_engine(engine: str | None, command: Sequence[str], plan: SamplingPlan) -> SamplingPlan:
    """Return the plan for the engine that ``--engine`` names, and say why where it is not Valgrind by itself."""
    from convolver.tracing.engine_choice import choose_engine

    chosen, why = choose_engine(engine or "auto", command, plan)
    return switched(engine, chosen, why) or chosen


def switched(engine: str | None, plan: SamplingPlan, why: str | None, again: str = "") -> SamplingPlan | None:
    """Return the plan with the native engine, or ``again`` with the other one, and say ``why``; None: there is no reason to, or
    ``--engine`` names one."""
    from convolver.cli.common import say

    if why is None or engine not in (None, "auto"):
        return None
    native = not again or plan.engine == "valgrind"
    say(f"Tracing{again} with {'the native engine' if native else 'Valgrind'}, because {why}.")
    return replace(plan, engine="native" if native else "valgrind")
