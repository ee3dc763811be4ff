"""``convolver trace``: run a program under the tracer."""

from __future__ import annotations

from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convolver.cli.common import new_file, say, wrote
from convolver.errors import UsageError

if TYPE_CHECKING:
    from convolver.signature.signature import Signature
    from convolver.tracing.sampling import SamplingPlan


@dataclass(frozen=True)
class _Choice:
    top: int | None
    cover: float | None
    functions: list[str]
    ranges: list[str]
    addresses: bool

    @property
    def hottest(self) -> bool:
        return self.top is not None or self.cover is not None


def _chosen(choice: _Choice, source: Signature | None, program: str) -> tuple[tuple[str, int, int], ...] | None:
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
    from convolver.units import parse_count

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
    number, slash, count = text.partition("/")
    if not (slash and number.isdigit() and count.isdigit()):
        raise UsageError(f"'{text}' is no phase; write for example 1/4.")
    return int(number), int(count)


def _plan(
    interval: str | None,
    sample: str | None,
    full: bool,
    counts_only: bool,
    block_limit: str,
    sets: int | None,
    phase: str | None,
    blocks: tuple[tuple[str, int, int], ...] | None,
    paths: bool | None,
    warmup: str | None,
    start_at: str | None,
    stop_at: str | None,
) -> SamplingPlan:
    from convolver.tracing.sampling import SamplingPlan
    from convolver.units import parse_count

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
    ).check()


def _report(signature: Signature, reason: str, json: bool) -> None:
    """Say how the run ended; with ``json`` as one document on stderr, because stdout belongs to the traced program."""
    from convolver.signature.features import sampled_share
    from convolver.units import format_count

    header, totals = signature.header, signature.totals
    share = sampled_share(signature.table)
    if json:
        typer.echo(dumps(signature.summary(), ensure_ascii=False, allow_nan=False), err=True)
        return
    plan = header["sampling"]
    if plan["start_at"] and not totals["instructions"]:
        say(f"Note: nothing was traced, because the program never came to {plan['start_at']}.")
    if reason != "exited":
        say(f"{'Note' if header['complete'] else 'The trace is marked incomplete'}: {reason}.")
    say(
        f"{format_count(totals['instructions'])} instructions and {format_count(totals['memops'])} memory references in "
        f"{totals['blocks']} blocks; {share:.2%} of the references were recorded."
    )


@dataclass(frozen=True)
class _Job:
    command: list[str]
    plan: SamplingPlan
    output: Path
    force: bool
    json: bool
    scan: bool
    counts: Signature | None

    def new(self, path: Path) -> Path:
        return new_file(path, self.force)


def _simulated(job: _Job, machines: list[str]) -> int:
    from convolver.machine.catalog import find_machine
    from convolver.reporting.console import terminal_progress
    from convolver.simulation.simulate import simulate
    from convolver.tracing.tracer import LiveTrace, signature_path

    hits_path = job.new(job.output.with_name(job.output.name.removesuffix(".cvt") + ".hits.parquet"))
    signature_file = job.new(signature_path(job.output))
    profiles = [find_machine(name) for name in machines]
    live = LiveTrace(job.command, sampling=job.plan, scan=job.scan, counts=job.counts)
    hits = simulate(live, profiles, progress=terminal_progress())
    signature = live.signature
    signature.save(signature_file)
    hits.save(hits_path)
    wrote(signature_file)
    wrote(hits_path)
    _report(signature, str(live.header["reason"]), job.json)
    live.reraise()
    return int(live.header["exit_status"])


def _recorded(job: _Job) -> int:
    from convolver.reporting.console import terminal_progress
    from convolver.tracing.tracer import signature_path, trace

    job.new(job.output)
    job.new(signature_path(job.output))
    recorded = trace(
        job.command, output=job.output, sampling=job.plan, progress=terminal_progress(), scan=job.scan, counts=job.counts
    )
    wrote(job.output)
    wrote(signature_path(job.output))
    _report(recorded.signature, str(recorded.header["reason"]), job.json)
    return int(recorded.header["exit_status"])


def trace_command(
    command: Annotated[list[str], typer.Argument(help="Command to trace with its arguments, behind '--'.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Trace file; %r is the MPI rank, %p the process [COMMAND.cvt].")
    ] = None,
    interval: Annotated[str | None, typer.Option(help="Record bursts: one in every N memory references [1000000].")] = None,
    sample: Annotated[str | None, typer.Option(help="References in a burst [10000].")] = None,
    warmup: Annotated[
        str | None, typer.Option(help="So many references of each burst, or a share like 20%, only fill the caches [0].")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Record every address.")] = False,
    counts_only: Annotated[bool, typer.Option("--counts-only", help="Record no address, only exact counts.")] = False,
    sets: Annotated[int | None, typer.Option(help="Beside the bursts, record 1/N of the cache sets [32]; 0: off.")] = None,
    paths: Annotated[
        bool | None, typer.Option("--paths/--no-paths", help="Record code without references, too [yes in bursts].")
    ] = None,
    block_limit: Annotated[str, typer.Option(help="Record at most N visits of a code segment; 0: no limit.")] = "0",
    top_blocks: Annotated[int | None, typer.Option("--top-blocks", help="Record only the K hottest blocks of --from.")] = None,
    cover: Annotated[float | None, typer.Option(help="Record only blocks with this share of the references of --from.")] = None,
    source: Annotated[Path | None, typer.Option("--from", help="Signature to choose blocks or take counts from.")] = None,
    addresses: Annotated[
        bool, typer.Option("--addresses", help="Take the exact counts from --from, a --counts-only run.")
    ] = False,
    function: Annotated[list[str] | None, typer.Option(help="Record only this function of the program; repeatable.")] = None,
    code_range: Annotated[
        list[str] | None, typer.Option("--range", help="Record only code at 0xFIRST-0xEND, of a library with @FILE; repeatable.")
    ] = None,
    start_at: Annotated[
        str | None, typer.Option(help="Trace from here: marker (convolver_markers.h), a function's name or 0xADDRESS.")
    ] = None,
    stop_at: Annotated[str | None, typer.Option(help="Trace up to here: marker, a function's name or 0xADDRESS.")] = None,
    phase: Annotated[str | None, typer.Option(help="I/N: record only the I-th of N parts of the code; see merge.")] = None,
    simulate: Annotated[
        list[str] | None,
        typer.Option("--simulate", "-m", help="Simulate this machine while tracing, store no addresses; repeatable."),
    ] = None,
    scan: Annotated[bool, typer.Option("--scan/--no-scan", help="Look for AVX-512 code before running.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, on stderr.")] = False,
) -> None:
    """Run a program and record what it executes and which memory it touches.

    Writes COMMAND.cvt (sampled addresses) and COMMAND.sig.parquet (exact counts for every basic block). The program keeps its own
    input and output, and its exit status is this command's. Tracing slows the program down, five to ten times as a rule.

    \b
    Examples:
      convolver trace -- ./solver --size 100
      convolver trace --full -o sort.cvt -- sort -n numbers.txt
    """
    from convolver.signature.signature import Signature
    from convolver.tracing.launch import default_name, expand_name

    earlier = Signature.load(source) if source else None
    choice = _Choice(top_blocks, cover, function or [], code_range or [], addresses)
    blocks = _chosen(choice, earlier, command[0])
    plan = _plan(interval, sample, full, counts_only, block_limit, sets, phase, blocks, paths, warmup, start_at, stop_at)
    target = expand_name(output) if output else default_name(command[0])
    job = _Job(command, plan, target, force, json, scan, earlier if addresses else None)
    raise typer.Exit(_simulated(job, simulate) if simulate else _recorded(job))


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("trace", context_settings={"allow_interspersed_args": False})(trace_command)
