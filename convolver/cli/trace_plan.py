"""What of a run ``convolver trace`` records: its options as a sampling plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from convolver.cli import completing
from convolver.errors import UsageError
from convolver.units import parse_count

if TYPE_CHECKING:
    from convolver.signature.signature import Signature
    from convolver.tracing.sampling import SamplingPlan


Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="valgrind, native (fast), or auto: native where Valgrind cannot run the program [auto].",
        autocompletion=completing.engines,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which code is recorded."""

    top: int | None
    cover: float | None
    functions: list[str]
    ranges: list[str]
    addresses: bool

    @property
    def hottest(self) -> bool:
        """True when the hottest blocks are."""
        return self.top is not None or self.cover is not None


def chosen_blocks(choice: Choice, source: Signature | None, program: str) -> tuple[tuple[str, int, int], ...] | None:
    """Return the code to record as (module, first offset, end); None: all."""
    from convolver.tracing.places import range_blocks
    from convolver.tracing.preflight import find_program
    from convolver.tracing.selection import function_blocks, hot_blocks

    if (choice.hottest or choice.addresses) and source is None:
        raise UsageError("--top-blocks, --cover and --addresses need the signature of an earlier run; name it with --from SIG.")
    if source is not None and not (choice.hottest or choice.addresses):
        raise UsageError("--from SIG belongs to --top-blocks, --cover or --addresses; say what it is for.")
    if choice.functions or choice.ranges:
        if choice.hottest:
            raise UsageError("--function and --range contradict --top-blocks and --cover; choose one.")
        found = find_program(program)
        named = function_blocks(found, choice.functions) if choice.functions else ()
        return (*named, *range_blocks(found, choice.ranges))
    return hot_blocks(source, top=choice.top, cover=choice.cover) if source is not None and choice.hottest else None


def _warmup(text: str | None, sample: int) -> int:
    """A number of references, or with a percent sign a share of each burst."""
    if text is None:
        return 0
    if not text.endswith("%"):
        return parse_count(text)
    try:
        return round(float(text[:-1]) / 100 * sample)
    except ValueError as error:
        raise UsageError(f"'{text}' is no warm-up; write a number of references or a share like 20%.") from error


def _phase(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if match is None:
        raise UsageError(f"'{text}' is no phase; write for example 1/4.")
    return int(match[1]), int(match[2])


def sampling_plan(
    *,
    interval: str | None,
    sample: str | None,
    full: bool = False,
    counts_only: bool = False,
    block_limit: str = "0",
    sets: int | None = None,
    phase: str | None = None,
    blocks: tuple[tuple[str, int, int], ...] | None = None,
    paths: bool | None = None,
    warmup: str | None = None,
    start_at: str | None = None,
    stop_at: str | None = None,
    budget: str | None = None,
) -> SamplingPlan:
    """Return the checked plan that the options stand for."""
    from convolver.tracing.sampling import SamplingPlan

    if full and counts_only:
        raise UsageError("--full and --counts-only contradict each other; choose one.")
    if (full or counts_only) and (interval or sample or warmup or sets is not None):
        raise UsageError("--interval, --sample, --warmup and --sets belong to sampling; leave out --full and --counts-only.")
    default = SamplingPlan()
    burst = parse_count(sample) if sample else default.sample
    return SamplingPlan(
        mode="full" if full else "counts" if counts_only else "sample",
        interval=parse_count(interval) if interval else default.interval,
        sample=burst,
        warmup=_warmup(warmup, burst),
        sets=default.sets if sets is None else sets,
        block_limit=parse_count(block_limit),
        phase=_phase(phase),
        blocks=blocks,
        paths=paths,
        start_at=start_at,
        stop_at=stop_at,
        budget=None if budget is None else parse_count(budget.removesuffix("B")),
    ).check()


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
