"""``convolver diff``: two runs, two machines, two versions of a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convolver.cli.common import AsData, Force, new_file, wrote
from convolver.errors import UsageError
from convolver.heavy import pl
from convolver.reporting.console import out
from convolver.reporting.grid import WIDEST, grid, percent
from convolver.units import counted, format_count, format_seconds

if TYPE_CHECKING:
    from convolver.convolution.block_times import BlockTimes
    from convolver.reporting.differences import Difference


def verb(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="Block times or signature of the first run.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The same kind of artifact of the second.")],
    by: Annotated[
        str | None, typer.Option("--by", help="Match by block, line or function [default: the finest possible].")
    ] = None,
    measure: Annotated[
        str | None, typer.Option("--metric", help="seconds, memops, executions, ... [default: seconds, of signatures memops].")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=0, help="Rows to show.")] = 15,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the CPU ratio of one run on two machines.")] = None,
    force: Force = False,
    as_data: AsData = AsData(),
) -> None:
    """Compare two runs, machines or versions of a program block by block.

    Takes two tables of block times, or two signatures. Times of one run on two machines give its CPU ratio, base time / target
    time, and what decides it. Else blocks are matched by identity within one build or by source line; a change of time is
    significant where the two intervals do not meet, and counts are exact.

    \b
    Examples:
      convolver diff cg@host.times.parquet cg@server-hbm.times.parquet -o cg.ratio.json
      convolver diff old/cg@host.times.parquet new/cg@host.times.parquet
      convolver diff old/cg.sig.parquet new/cg.sig.parquet --metric memops --by function --json
    """
    from convolver.artifacts import load
    from convolver.reporting.differences import difference

    if output is not None:
        new_file(output, force)
    one, other = load(before), load(after)
    if measure is None and by != "line" and _of_one_run(one, other):
        _show_ratio(one, other, by or "function", top, output, as_data)
        return
    if output is not None:
        raise UsageError("-o writes the CPU ratio of one run on two machines; these are two runs, so leave it out.")
    found = difference(one, other, by=by, measure=measure)
    if not as_data.printed(lambda: found.document(top), lambda: found.table.iter_rows(named=True)):
        _about({"before": one, "after": other})
        _show(found, (one, other), top)


def _of_one_run(one: Any, other: Any) -> bool:
    from convolver.convolution.block_times import BlockTimes

    both = isinstance(one, BlockTimes) and isinstance(other, BlockTimes)
    return both and one.inputs.get("signature") == other.inputs.get("signature") and one.machine != other.machine


def _show_ratio(base: BlockTimes, target: BlockTimes, by: str, top: int, output: Path | None, as_data: AsData) -> None:
    """Print, and write, the CPU ratio of a run on two machines, by function or block."""
    from rich.text import Text

    from convolver.convolution.cpu_ratio import cpu_ratio
    from convolver.convolution.verdict import CANNOT_TELL, from_to, verdict
    from convolver.reporting.metadata import about_times
    from convolver.reporting.tables import deciding, ratios

    if by not in ("function", "block"):
        raise UsageError(f"'{by}' is no way to match blocks; choose one of block, line, function.")
    result = cpu_ratio(base, target)
    if output is not None:
        result.save(output)
        wrote(output)
    rows = deciding(result, by).head(top).to_dicts()
    if as_data.printed(lambda: {**result.summary(), f"{by}s": rows}, lambda: rows):
        return
    console = out()
    console.print(about_times([base, target]))
    console.print()
    console.print(ratios(result, by, top))
    words = verdict(result.interval)
    words = f"{words} which is faster" if words == CANNOT_TELL else f"{target.machine} is {words}"
    stated = "" if result.interval is None else f" ({from_to(result.interval)}); {words}"
    number = f"{result.total:.4g}", "bold"
    console.print(Text.assemble(f"CPU ratio of user time {base.machine} / {target.machine}: ", number, stated))


def _about(sides: dict[str, Any]) -> None:
    """Print what is compared: program, machine, what it rests on."""
    from convolver.convolution.block_times import BlockTimes
    from convolver.reporting.metadata import command_words, machine_names, metadata

    words = {name: command_words(side.header.get("command")) for name, side in sides.items()}
    for name, side in sides.items():
        if isinstance(side, BlockTimes):
            words[name] += f" on {machine_names([side])}, coverage {percent(side.coverage)}"
    console = out()
    console.print(metadata(*words.items(), inputs={name: side.id for name, side in sides.items()}))
    console.print()


def _show(found: Difference, sides: tuple[Any, Any], top: int) -> None:
    from convolver.plotting.labels import place

    console = out()
    shown = format_seconds if found.measure == "seconds" else format_count
    changed = found.table.filter(pl.col("change") != 0)
    if not changed.height:
        console.print(_nothing(found, shown(found.before)))
        return
    by_function = found.matched_by == "function"
    one, other = found.names
    title = f"{found.measure}: {one} -> {other}" if one != other else f"{found.measure}: {one}, before -> after"
    table = grid(
        ["function", "module" if by_function else "line"], ["before", "after", "change", "of the total", ""], title, WIDEST
    )
    for row in changed.head(top).iter_rows(named=True):
        where = row.get("module") or "" if by_function or row.get("line") is None else place(row)
        sign = "+" if row["change"] > 0 else "-"
        cells = [shown(row["before"]), shown(row["after"]), sign + shown(abs(row["change"])), f"{100 * row['share']:+.1f} %"]
        table.add_row(row["function"] or "?", where, *cells, "" if row["significant"] else "within the errors")
    console.print(table)
    ratio = "" if found.ratio is None else f" ({100 * (found.ratio - 1):+.2f} %)"
    name = "User time" if found.measure == "seconds" else "Total"
    console.print(f"{name}: {shown(found.before)} -> {shown(found.after)}{ratio}, matched by {found.matched_by}.")
    if found.measure == "seconds":
        before, after = (format_seconds(side.system.seconds) if side.system else "not predicted" for side in sides)
        console.print(f"System time: {before} -> {after}.")
    console.print(_counted(found, changed, top))


def _nothing(found: Difference, total: str) -> str:
    """Return the sentence for two sides that are the same."""
    what = f"{total} of user time" if found.measure == "seconds" else f"{total} {found.measure}"
    return f"Nothing changed: {what} before and after, in {counted(found.table.height, found.matched_by)}."


def _counted(found: Difference, changed: pl.DataFrame, top: int) -> str:
    """Return the sentence that says how many rows changed, by more than their errors, and how much of it is shown."""
    sizes = changed["change"].abs()
    held = sum(sizes[:top]) / sum(sizes)
    known = ""
    if found.measure == "seconds":
        known = f", {int(changed['significant'].sum())} of them by more than the errors"
    whole = counted(found.table.height, found.matched_by)
    return f"{changed.height} of {whole} changed{known}; {percent(held)} of the change shown."
