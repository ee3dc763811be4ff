"""``convolver what-if``: which change of a machine would help a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import (
    BASE,
    AsData,
    Cores,
    Dark,
    Force,
    Hits,
    Pin,
    Plot,
    existing,
    new_file,
    pinning,
    refuse_given,
    say_one_thread,
    wrote,
)
from convolver.plotting import style
from convolver.reporting.console import out, terminal_progress


def verb(
    *,
    context: typer.Context,
    program: Annotated[Path, typer.Argument(metavar="APP.cvt", help="A trace of the program, or a signature with --hits.")],
    base: Annotated[str, BASE] = "host",
    hits: Hits = None,
    cores: Cores = None,
    pin: Pin = None,
    plot: Plot = None,
    dark: Dark = False,
    force: Force = False,
    as_data: AsData = AsData(),
) -> None:
    """Predict a program's time on a machine with larger caches, a faster memory or core, or huge pages.

    Each change is simulated and convolved as a machine of its own, all in one pass over the trace. A signature with its analysis
    answers only what needs no simulation.

    \b
    Examples:
      convolver what-if cg.cvt --base host
      convolver what-if cg.cvt --base cloud-server --plot what-if.png
    """
    from convolver.convolution.machine_changes import rows, what_if
    from convolver.machine.catalog import find_machine
    from convolver.plotting.labels import machine_label
    from convolver.reporting.choice_chart import what_if_chart, what_if_conclusion

    if plot is None:
        refuse_given(context, ["dark"], "without --plot")
    else:
        new_file(style.check_format(plot), force)
    existing(program)
    machine = find_machine(base)
    found = what_if(program, machine, hits=hits, cores=cores, pinning=pinning(pin), progress=terminal_progress())
    if found[0].processor_seconds is None:
        say_one_thread(cores=cores, pin=pin)
    name = machine_label(machine.name, machine.projected)
    if plot is not None:
        from convolver.plotting.choice_picture import draw_what_if

        style.picture(plot, lambda look: draw_what_if(found, name, look), dark=dark)
        wrote(plot)
    if not as_data.printed(lambda: rows(found), lambda: rows(found)):
        console = out()
        console.print(what_if_chart(found, name))
        console.print(what_if_conclusion(found))
