"""``convolver ratio``: the CPU ratio of two tables of block times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import Csv, Json
from convolver.errors import UsageError

HELP = """CPU ratio of one program on two machines: base time / target time, above 1 the target is faster.

\b
Examples:
  convolver ratio cg@host.times.parquet cg@server-hbm.times.parquet
  convolver ratio A.times.parquet B.times.parquet --by block -o cg.ratio.json --json
"""


def ratio(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="Block times on the base machine (.times.parquet).")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Block times on the target machine.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the ratio, per block too, to this file.")] = None,
    by: Annotated[str, typer.Option("--by", help="Show functions or blocks: function, block.")] = "function",
    top: Annotated[int, typer.Option("--top", min=0, help="Rows to show.")] = 10,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Run the verb."""
    from convolver.cli.common import new_file, printed, wrote
    from convolver.convolution.block_times import BlockTimes
    from convolver.convolution.cpu_ratio import cpu_ratio
    from convolver.reporting.tables import deciding, ratios

    if by not in ("function", "block"):
        raise UsageError(f"'{by}' is neither function nor block; choose one of them for --by.")
    if output is not None:
        new_file(output, force)
    one, other = BlockTimes.load(base), BlockTimes.load(target)
    result = cpu_ratio(one, other)
    if output is not None:
        result.save(output)
        wrote(output)
    rows = deciding(result, by).head(top).to_dicts()
    if printed(as_json, as_csv, lambda: {**result.summary(), f"{by}s": rows}, lambda: rows):
        return
    from convolver.convolution.verdict import from_to, verdict
    from convolver.reporting.console import out
    from convolver.reporting.metadata import about_times

    console = out()
    console.print(about_times([one, other]))
    console.print()
    console.print(ratios(result, by, top))
    interval = "" if result.interval is None else f" ({from_to(result.interval)})"
    words = f"{result.target['machine']} is {verdict(result.interval)}" if result.interval else ""
    names = f"{result.base['machine']} / {result.target['machine']}"
    console.print(f"CPU ratio of user time {names}: [bold]{result.total:.4g}[/bold]{interval}" + (f"; {words}" if words else ""))


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("ratio", help=HELP)(ratio)
