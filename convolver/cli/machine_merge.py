"""``convolver machine merge``: one profile from several probes of a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from convolver.cli import completing
from convolver.cli.common import Csv, Force, Json, new_file, printed, say, wrote
from convolver.reporting.console import terminal_progress


def merge_command(
    probes: Annotated[
        list[str],
        typer.Argument(help="Names of one machine's profiles, or their paths; at least two.", autocompletion=completing.machines),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Profile to write, NAME.machine.json.")],
    calibrate: Annotated[bool, typer.Option("--calibrate/--no-calibrate", help="Fit the rate model on the curves.")] = True,
    force: Force = False,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Merge probes that were made at different moments: the quietest of the core, the median of last cache and memory.

    The spread of each point is then that between the probes, and the rate model is fitted once, on all of them.

    \b
    Examples:
      convolver machine merge morning.machine.json noon.machine.json night.machine.json -o node.machine.json
      convolver machine merge monday tuesday -o host.machine.json --force --json
    """
    from convolver.calibration.calibrate import calibrated
    from convolver.machine.catalog import find_machine
    from convolver.machine.profile import SUFFIX
    from convolver.probing.merge_probes import merge
    from convolver.reporting.machine_tables import print_profile, profile_rows

    path = new_file(output, force)
    profile = msgspec.structs.replace(merge([find_machine(name) for name in probes]), name=path.name.removesuffix(SUFFIX))
    if calibrate:
        profile, why = calibrated(profile, progress=terminal_progress())
        if why:
            say(why)
    profile.save(path)
    rows = profile_rows(profile)
    about = {"plateaus": rows, "provenance": profile.provenance}
    if not printed(json, csv, lambda: {**profile.summary(), **about}, lambda: rows):
        print_profile(profile)
    wrote(path)
