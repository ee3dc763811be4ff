"""``convolver choose``: a ranking of machines for one program, by time and by cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convolver.cli import completing
from convolver.cli.common import (
    BASE,
    AsData,
    Cores,
    Dark,
    Force,
    Measured,
    Pin,
    Plot,
    State,
    existing,
    machine_names,
    new_file,
    refuse_given,
    say,
    wrote,
)
from convolver.cli.wanted import Wanted
from convolver.errors import UsageError
from convolver.machine.states import SEPARATOR, STATES
from convolver.plotting import style
from convolver.reporting.console import out

if TYPE_CHECKING:
    from convolver.cli.predict_steps import Chain
    from convolver.convolution.block_times import BlockTimes


def verb(
    *,
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(metavar="APP.cvt", help="A trace of the program.")],
    machines: Annotated[
        list[str],
        typer.Option(
            "--machines", "-m", help="Machines to rank, at commas, or 'cloud-*'.", autocompletion=completing.machine_lists
        ),
    ],
    prices: Annotated[Path | None, typer.Option("--prices", help="CSV with machine,price_per_hour: adds costs of a run.")] = None,
    base: Annotated[str | None, BASE] = None,
    measured: Measured = None,
    cores: Cores = None,
    pin: Pin = None,
    state: State = "machine",
    plot: Plot = None,
    dark: Dark = False,
    force: Force = False,
    as_data: AsData = AsData(),
) -> None:
    """Rank machines for a program by predicted time, and by cost where prices are given.

    Machines are compared by the ratio of their times, whose common errors cancel; those that the remaining errors cannot tell
    from the best are grayed. A machine is efficient if none is both faster and cheaper. Each is taken as a machine, not as it
    was at the moment of its probe beside other virtual machines: with its whole last level; intervals include both (--state).

    \b
    Examples:
      convolver choose cg.cvt --machines host,cloud-server,server-hbm
      convolver choose cg.cvt -m cloud-server,cloud-epyc-milan --prices prices.csv --plot choice.png
    """
    from convolver.cli.predict_steps import Chain
    from convolver.convolution.choice import choose, load_prices, rows
    from convolver.reporting.choice_chart import chart, conclusion
    from convolver.reporting.limiters import sentence, threads_sentence

    names = machine_names(machines)
    if len(names) < 2:
        raise UsageError("One machine is no choice; give several with --machines, separated by commas.")
    if (base is None) != (measured is None):
        raise UsageError("--base and --measured belong together: a native run time and the machine that it is for.")
    if plot is None:
        refuse_given(context, ["dark"], "without --plot")
    existing(trace)
    if plot is not None:
        new_file(style.check_format(plot), force)
    known = load_prices(prices) if prices is not None else None
    if known is not None:
        known |= {f"{name}{SEPARATOR}{one}": price for name, price in known.items() for one in STATES}
    others = [name for name in names if name != base]
    first = base or names[0]
    chain = Chain(Wanted(base=first, target=others, cores=cores, pin=pin, state=state))
    chain.use(trace, None)
    predictions = chain.predict(measured, None, "norm")
    ranked = ([] if base is None else [predictions[0].base]) + [prediction.target for prediction in predictions]
    times = {one.machine: one for one in ranked if one is not None}
    if any(name.endswith(f"{SEPARATOR}alone") for name in times):
        say("Note: @alone has its whole last level; `--state probed`: what the probe found.")
    _say_too_large(chain, times)
    choices = choose(list(times.values()), known, measured)
    if plot is not None:
        from convolver.plotting.choice_picture import draw

        style.picture(plot, lambda look: draw(choices, look), dark=dark)
        wrote(plot)
    if not as_data.printed(lambda: rows(choices), lambda: rows(choices)):
        console = out()
        console.print(chart(choices))
        console.print(conclusion(choices))
        fastest = times[choices[0].machine]
        console.print(f"On {fastest.machine}: {sentence(fastest)}")
        if fastest.elapsed is not None:
            console.print(threads_sentence(fastest.elapsed))


def _say_too_large(chain: Chain, times: Mapping[str, BlockTimes]) -> None:
    """Name the machines of which none is known with as many CPUs as the program is given."""
    from convolver.convolution.elapsed_replay import larger_than_known

    for machine in {one.name: one for one in [chain.base, *chain.targets] if one.name in times}.values():
        elapsed = times[machine.name].elapsed
        why = None if elapsed is None else larger_than_known(machine, elapsed["cores"])
        if why:
            say(f"Note: {machine.name}: {why}.")
