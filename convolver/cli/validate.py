"""``convolver validate``: predicted against measured times of a campaign of programs, inputs and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import msgspec
import typer

from convolver.cli.common import AsData, finite, refuse_given, say, wrote
from convolver.cli.trace_plan import Engine
from convolver.errors import UsageError
from convolver.reporting.console import terminal_progress
from convolver.units import format_share

if TYPE_CHECKING:
    from convolver.validating.validation import Validation


def verb(
    *,
    context: typer.Context,
    campaign: Annotated[Path, typer.Argument(metavar="CAMPAIGN.toml", help="Programs, inputs and conditions.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of profiles, runs, traces and results.")] = Path(
        "validation"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="The campaign's quick selection, with fewer runs.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="This program alone; repeatable.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Trace every program with all references, too.")] = False,
    engine: Engine = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again: drop kept profiles and native runs.")] = False,
    wait: Annotated[float, typer.Option("--wait", min=0, callback=finite, help="Seconds to wait for a quiet machine.")] = 0.0,
    stop: Annotated[
        str | None, typer.Option("--stop", help="End when all is 'measured' (needs a quiet machine) or 'traced' (does not).")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Workers at a time [one a processor].")] = 1,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="NAME", help="Measure only, and write NAME.machine.json and times-NAME.csv."),
    ] = None,
    as_data: AsData = AsData(),
) -> None:
    """Predict and measure programs under several conditions and say how good the predictions are.

    Profiles, native runs and traces are kept in OUTPUT, so that an interrupted campaign goes on where it was and a changed model
    is judged by the same measurements. Writes validation.parquet, .json and a parity plot there.

    \b
    Examples:
      convolver validate mine.toml -o results --stop measured
      convolver validate mine.toml -o results --jobs 2
      convolver validate mine.toml -o results --export cloud-mine
      convolver validate tests/bench/campaign.toml --quick --only xz --json
    """
    from convolver.tracing.native_engine import checked_engine
    from convolver.validating.campaign import Campaign
    from convolver.validating.run_campaign import Stop, export_machine, validate
    from convolver.validating.validation import print_result, write_result

    chosen = Campaign.load(campaign).only(only or [])
    chosen = chosen.quick() if quick else chosen
    if engine is not None:
        chosen = msgspec.structs.replace(chosen, engine=checked_engine(engine))
    if full:
        chosen = msgspec.structs.replace(chosen, modes=("hybrid", "full"))
    if stop not in (None, *get_args(Stop)):
        raise UsageError(f"A campaign cannot stop at '{stop}'; choose {' or '.join(get_args(Stop))}.")
    ends = cast("Stop | None", stop)
    progress = terminal_progress()
    if stop is not None:
        refuse_given(context, ["as_json", "as_csv"], "with --stop")
    if export is not None:
        refuse_given(context, ["stop", "full", "engine", "jobs", "as_json", "as_csv"], "with --export")
        with _say_how_to_go_on(output):
            paths, left_out = export_machine(
                chosen, campaign.parent, output, export, fresh=fresh, patience=wait, progress=progress
            )
        for path in paths:
            wrote(path)
        for name, reason in left_out.items():
            say(f"Left out: {name}: {reason}")
        return
    with _say_how_to_go_on(output):
        result = validate(
            chosen, campaign.parent, output, stop=ends, fresh=fresh, patience=wait, processes=jobs, progress=progress
        )
    if result is None:
        say(f"All is {stop} and kept in {output}; the same command without --stop goes on.")
        return
    for path in write_result(result, output):
        wrote(path)
    _say_busy(result)
    if not as_data.printed(result.summary, lambda: result.rows):
        print_result(result)


@contextmanager
def _say_how_to_go_on(output: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say(f"What was measured and traced until then is kept in {output}; the same command without --fresh goes on.")
        raise


def _say_busy(result: Validation) -> None:
    noise = result.header["machine"]["noise"]
    if noise["busy"]:
        say(
            f"The machine was busy: others used {format_share(noise['others'])} of the CPUs, "
            f"the hypervisor {format_share(noise['steal'])}. Measure again with --fresh when it is quiet."
        )
