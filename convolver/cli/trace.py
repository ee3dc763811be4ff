"""``convolver trace``: run a program under the tracer."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convolver.cli.common import new_file, say, wrote
from convolver.errors import UsageError

if TYPE_CHECKING:
    from convolver.signature.signature import Signature
    from convolver.tracing.sampling import SamplingPlan


def _plan(
    interval: str | None, sample: str | None, full: bool, counts_only: bool, block_limit: str, sets: int | None
) -> SamplingPlan:
    from convolver.tracing.sampling import SamplingPlan
    from convolver.units import parse_count

    if full and counts_only:
        raise UsageError("--full and --counts-only contradict each other; choose one.")
    if (full or counts_only) and (interval or sample or sets is not None):
        raise UsageError("--interval, --sample and --sets belong to sampling; leave out --full and --counts-only.")
    default = SamplingPlan()
    return SamplingPlan(
        mode="full" if full else "counts" if counts_only else "sample",
        interval=parse_count(interval) if interval else default.interval,
        sample=parse_count(sample) if sample else default.sample,
        sets=default.sets if sets is None else sets,
        block_limit=parse_count(block_limit),
    ).check()


def _report(signature: Signature, json: bool) -> None:
    """Say how the run ended; with ``json`` as one document on stderr, because stdout belongs to the traced program."""
    from convolver.signature.features import sampled_share
    from convolver.units import format_count

    header, totals = signature.header, signature.totals
    share = sampled_share(signature.table)
    if json:
        typer.echo(dumps(signature.summary(), ensure_ascii=False, allow_nan=False), err=True)
        return
    ended = "" if header["complete"] else "The trace is incomplete. "
    say(
        f"{ended}{format_count(totals['instructions'])} instructions and {format_count(totals['memops'])} memory references in "
        f"{totals['blocks']} blocks; {share:.2%} of the references were recorded."
    )


def _default_output(command: list[str]) -> Path:
    return Path(Path(command[0]).name + ".cvt")


def _simulated(command: list[str], plan: SamplingPlan, machines: list[str], output: Path, force: bool, json: bool) -> int:
    from convolver.machine.catalog import find_machine
    from convolver.reporting.console import terminal_progress
    from convolver.simulation.simulate import simulate
    from convolver.tracing.tracer import LiveTrace, signature_path

    hits_path = new_file(output.with_name(output.name.removesuffix(".cvt") + ".hits.parquet"), force)
    signature_file = new_file(signature_path(output), force)
    profiles = [find_machine(name) for name in machines]
    live = LiveTrace(command, sampling=plan)
    hits = simulate(live, profiles, progress=terminal_progress())
    signature = live.signature
    signature.save(signature_file)
    hits.save(hits_path)
    wrote(signature_file)
    wrote(hits_path)
    _report(signature, json)
    live.reraise()
    return int(live.header["exit_status"])


def _recorded(command: list[str], plan: SamplingPlan, output: Path, force: bool, json: bool) -> int:
    from convolver.reporting.console import terminal_progress
    from convolver.tracing.tracer import signature_path, trace

    new_file(output, force)
    new_file(signature_path(output), force)
    recorded = trace(command, output=output, sampling=plan, progress=terminal_progress())
    wrote(output)
    wrote(signature_path(output))
    _report(recorded.signature, json)
    if not recorded.complete:
        say(f"The trace is marked incomplete: {recorded.header['reason']}.")
    return int(recorded.header["exit_status"])


def trace_command(
    command: Annotated[list[str], typer.Argument(help="Command to trace with its arguments, behind '--'.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Trace file [default: COMMAND.cvt].")] = None,
    interval: Annotated[str | None, typer.Option(help="Record bursts: one in every N memory references [1000000].")] = None,
    sample: Annotated[str | None, typer.Option(help="References in a burst [10000].")] = None,
    full: Annotated[bool, typer.Option("--full", help="Record every address.")] = False,
    counts_only: Annotated[bool, typer.Option("--counts-only", help="Record no address, only exact counts.")] = False,
    sets: Annotated[int | None, typer.Option(help="Beside the bursts, record 1/N of the cache sets; 0: off.")] = None,
    block_limit: Annotated[str, typer.Option(help="Record at most N visits of a code segment; 0: no limit.")] = "0",
    simulate: Annotated[
        list[str] | None,
        typer.Option("--simulate", "-m", help="Simulate this machine while tracing, store no addresses; repeatable."),
    ] = None,
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
    plan = _plan(interval, sample, full, counts_only, block_limit, sets)
    target = output or _default_output(command)
    if simulate:
        status = _simulated(command, plan, simulate, target, force, json)
    else:
        status = _recorded(command, plan, target, force, json)
    raise typer.Exit(status)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("trace", context_settings={"allow_interspersed_args": False})(trace_command)
