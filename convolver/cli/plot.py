"""``convolver plot``: pictures of artifacts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli import completing
from convolver.cli.common import Dark, Force, new_file, wrote
from convolver.errors import UsageError
from convolver.plotting import style


def verb(
    view: Annotated[str, typer.Argument(metavar="VIEW", help="Which picture; see above.", autocompletion=completing.views)],
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Artifacts, in any order; a machine also by name.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Picture: .png, .svg or .pdf [default: VIEW.png].")
    ] = None,
    dark: Dark = False,
    top: Annotated[int | None, typer.Option("--top", min=0, help="Rows to show.")] = None,
    at: Annotated[list[str] | None, typer.Option("--fix", help="scaling: NAME=VALUE fixes a feature; repeatable.")] = None,
    to: Annotated[float | None, typer.Option("--to", help="scaling: end of the curve.")] = None,
    force: Force = False,
) -> None:
    """Draw a picture from artifacts: PNG, SVG or PDF, light or dark, readable when printed in gray.

    \b
    Views and what they take:
      maps      machine, block times (may be left out)    curves with the program's blocks on them
      roofline  machine, signature, block times           flop/s over flop/byte
      blocks    block times of the base, of the target    what decides the CPU ratio
      misses    hit rates                                 miss ratio over cache size
      parity    predictions                               predicted over measured
      ranks     timeline                                  what every rank does
      scaling   model                                     a fitted curve with its interval
      threads   predictions with --scaling                elapsed time over cores

    \b
    Examples:
      convolver plot maps host.machine.json cg@host.times.parquet -o maps.png
      convolver plot blocks cg@host.times.parquet cg@server-hbm.times.parquet -o blocks.svg --dark
    """
    from convolver.plotting.views import Options, find_view, gather

    chosen = find_view(view)
    path = new_file(style.check_format(output or Path(f"{view}.png")), force)
    found, options = gather(chosen, inputs), Options(top, _pairs(at or []), to)
    style.picture(path, lambda look: chosen.draw(found, look, options), dark=dark)
    wrote(path)


def _pairs(words: list[str]) -> dict[str, float]:
    found = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise UsageError(f"'{word}' is not NAME=NUMBER; write for example --fix p=64.") from error
    return found
