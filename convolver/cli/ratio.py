"""``convolver ratio``: the CPU ratio of two tables of block times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import Csv, Json

HELP = """CPU ratio of one program on two machines: base time / target time, above 1 the target is faster.

\b
Examples:
  convolver ratio cg@host.times.parquet cg@server-hbm.times.parquet
  convolver ratio A.times.parquet B.times.parquet -o cg.ratio.json --json
"""


def ratio(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="Block times on the base machine (.times.parquet).")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Block times on the target machine.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the ratio, per block too, to this file.")] = None,
    top: Annotated[int, typer.Option("--top", min=0, help="Functions to show.")] = 10,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """Run the verb."""
    from convolver.cli.common import new_file, printed, wrote
    from convolver.convolution.block_times import BlockTimes
    from convolver.convolution.cpu_ratio import cpu_ratio

    if output is not None:
        new_file(output, force)
    result = cpu_ratio(BlockTimes.load(base), BlockTimes.load(target))
    if output is not None:
        result.save(output)
        wrote(output)
    rows = result.functions.head(top).to_dicts()
    if printed(as_json, as_csv, lambda: {**result.summary(), "functions": rows}, lambda: rows):
        return
    from convolver.reporting.console import out
    from convolver.reporting.tables import functions

    console = out()
    console.print(functions(result, top))
    console.print(f"CPU ratio {result.base['machine']} / {result.target['machine']}: [bold]{result.total:.4g}[/bold]")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("ratio", help=HELP)(ratio)
