"""``convolver doctor``: what is installed, what is missing, and the command that gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from convolver import __version__
from convolver.cli.common import AsData
from convolver.errors import ToolError
from convolver.reporting.console import out
from convolver.reporting.grid import grid

if TYPE_CHECKING:
    from convolver.reporting.installation import Check


def verb(as_data: AsData = AsData()) -> None:
    """Check what is installed, what is missing, and say the exact command to get it.

    Ends with status 0 when the chain probe, trace, simulate, predict can run here, else with 4.

    \b
    Examples:
      convolver doctor
      convolver doctor --json
    """
    from convolver.reporting.installation import checks, ready

    found = checks()
    good = ready(found)
    rows = [check.document() for check in found]
    if not as_data.printed(lambda: {"version": __version__, "ready": good, "checks": rows}, lambda: rows):
        _show(found, good, __version__)
    if not good:
        raise typer.Exit(ToolError.exit_code)


def _show(found: list[Check], good: bool, version: str) -> None:
    from rich.text import Text

    console = out()
    table = grid(["", "part", "for", "found"])
    for check in found:
        mark = ("ok", "green") if check.found else ("MISSING", "bold red") if check.needed else ("no", "yellow")
        table.add_row(Text(*mark), Text(check.part), Text(check.what_for), Text(check.detail))
    console.print(table)
    console.print()
    for check in found:
        if check.get:
            console.print(f"{check.part}: {check.get}", soft_wrap=True)
    verdict = "can run here" if good else "cannot run here yet: get what is MISSING above"
    console.print(f"Convolver {version}: the chain probe, trace, simulate, predict {verdict}.", soft_wrap=True)
