"""``convolver export``: artifacts in other tools' formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import Force, new_file, wrote
from convolver.cli.verb_group import new_group
from convolver.errors import UsageError
from convolver.outputs import save_text

verb = new_group("Write artifacts in other tools' formats.")

Times = Annotated[Path, typer.Argument(help="Block times (.times.parquet).")]
Replayed = Annotated[Path, typer.Argument(help="Timeline of a replay (.timeline.parquet).")]


@dataclass(frozen=True)
class ExportDestination:
    """Where lines go: to a file, whole or not at all, or to stdout."""

    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write; without it the data go to stdout.")] = None
    force: Force = False

    def take(self, lines: Callable[[], Iterable[str]]) -> None:
        """Write the lines; none is made where the file may not be written."""
        if self.output is None:
            for line in lines():
                typer.echo(line)
            return
        save_text(new_file(self.output, self.force), (f"{line}\n" for line in lines()))
        wrote(self.output)


@verb.command("callgrind")
def callgrind_command(
    signature: Annotated[Path, typer.Argument(help="Signature (.sig.parquet).")],
    times: Annotated[Path | None, typer.Argument(help="Block times (.times.parquet); adds misses by level and time.")] = None,
    to: ExportDestination = ExportDestination(),
) -> None:
    """Write a profile that callgrind_annotate and kcachegrind open.

    \b
    Examples:
      convolver export callgrind cg.sig.parquet | callgrind_annotate /dev/stdin
      convolver export callgrind cg.sig.parquet cg@host.times.parquet -o callgrind.out.cg
      callgrind_annotate --sort=Ps callgrind.out.cg
    """
    from convolver.convolution.block_times import BlockTimes
    from convolver.reporting.exports import callgrind
    from convolver.signature.signature import Signature

    to.take(lambda: callgrind(Signature.load(signature), BlockTimes.load(times) if times else None))


@verb.command("chrome")
def chrome_command(timeline: Replayed, to: ExportDestination = ExportDestination()) -> None:
    """Write a replayed run as Chrome trace events for ui.perfetto.dev or chrome://tracing.

    \b
    Examples:
      convolver export chrome app.timeline.parquet -o app.trace.json
      convolver export chrome app.timeline.parquet | gzip > app.trace.json.gz
    """
    from convolver.mpi.timeline import Timeline
    from convolver.reporting.exports import chrome

    to.take(lambda: chrome(Timeline.load(timeline)))


@verb.command("prv")
def prv_command(
    timeline: Replayed,
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write; .pcf and .row go beside it.")],
    force: Force = False,
) -> None:
    """Write a replayed run for Paraver, all ranks on one node; `convolver replay --prv` knows their nodes.

    \b
    Examples:
      convolver export prv app.timeline.parquet -o app.prv
      convolver export prv app.timeline.parquet -o app.prv --force
    """
    from convolver.mpi.prv import write_prv
    from convolver.mpi.timeline import Timeline

    new_file(output, force)
    write_prv(Timeline.load(timeline), output)
    wrote(output)


@verb.command("collapsed")
def collapsed_command(times: Times, to: ExportDestination = ExportDestination()) -> None:
    """Write module;function;place and nanoseconds, one a line, for flamegraph.pl, inferno or speedscope.

    \b
    Examples:
      convolver export collapsed cg@host.times.parquet | flamegraph.pl > cg.svg
      convolver export collapsed cg@host.times.parquet -o cg.folded
    """
    from convolver.convolution.block_times import BlockTimes
    from convolver.reporting.exports import collapsed

    to.take(lambda: collapsed(BlockTimes.load(times)))


@verb.command("speedscope")
def speedscope_command(times: Times, to: ExportDestination = ExportDestination()) -> None:
    """Write speedscope's JSON (www.speedscope.app).

    \b
    Examples:
      convolver export speedscope cg@host.times.parquet -o cg.speedscope.json
      convolver export speedscope cg@host.times.parquet > cg.speedscope.json
    """
    from convolver.convolution.block_times import BlockTimes
    from convolver.reporting.exports import speedscope

    to.take(lambda: speedscope(BlockTimes.load(times)))


@verb.command("csv")
def csv_command(
    artifact: Annotated[Path, typer.Argument(help="Any artifact that holds a table.")],
    to: ExportDestination = ExportDestination(),
) -> None:
    """Write an artifact's table as CSV: signature, hit rates, block times, CPU ratio, timeline, events, measurements.

    \b
    Examples:
      convolver export csv cg@host.times.parquet | head
      convolver export csv cg.sig.parquet -o cg.csv
    """
    from convolver.artifacts import load

    def lines() -> list[str]:
        table = getattr(load(artifact), "table", None)
        if table is None:
            raise UsageError(f"{artifact} holds no table; `convolver info {artifact} --json` prints what it holds.")
        return table.write_csv().rstrip("\n").split("\n")

    to.take(lines)
