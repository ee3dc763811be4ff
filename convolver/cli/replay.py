"""``convolver replay``: predict a parallel run from its MPI events and a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convolver.cli.common import new_file, print_json, say, wrote

if TYPE_CHECKING:
    from convolver.mpi.events import Events
    from convolver.mpi.network import Network
    from convolver.mpi.timeline import Timeline

HELP = """Replay an MPI trace (.dim or recorded events) on a parameterised network and predict its run time.

Computation is divided by the CPU ratio (2: twice as fast); communication follows Dimemas' model.

\b
Examples:
  convolver replay app.dim --config cluster.cfg --json
  convolver replay app.events.parquet --config cluster.cfg --latency 0 --bandwidth inf -o ideal.timeline.parquet
"""


def read_events(path: Path) -> Events:
    """Read MPI events from a .dim file, a recording folder or an artifact."""
    from convolver.mpi.sources import load_events

    return load_events(path)


def _network(config: Path, events: Events, options: dict[str, Any]) -> Network:
    from dataclasses import replace

    from convolver.errors import UsageError
    from convolver.mpi.network import NEVER, what_if
    from convolver.mpi.sources import load_network
    from convolver.units import parse_bytes

    network = load_network(config, events.ranks)
    if options["eager"] and options["never_rendezvous"]:
        raise UsageError("--eager and --never-rendezvous contradict each other; give one of them.")
    if options["eager"]:
        network = replace(network, rendezvous_bytes=parse_bytes(options["eager"]))
    elif options["never_rendezvous"]:
        network = replace(network, rendezvous_bytes=NEVER)
    network = replace(
        network, wire_latency_seconds=options["wire_latency"], gap_seconds=options["gap"], quirks=options["dimemas_quirks"]
    )
    return what_if(
        network,
        latency_seconds=options["latency"],
        bandwidth_bytes_per_second=options["bandwidth"],
        contention=not options["no_contention"],
    )


def _print(timeline: Timeline) -> None:
    from rich.table import Table

    from convolver.reporting.console import out
    from convolver.units import format_seconds

    table = Table("rank", "seconds", "compute", "transfer", "wait", box=None)
    rows = timeline.document()["ranks"]
    for row in rows if len(rows) <= 64 else sorted(rows, key=lambda r: -r["seconds"])[:64]:
        table.add_row(str(row["rank"]), *(format_seconds(row[k]) for k in list(row)[1:]))
    console = out()
    console.print(f"Predicted: {format_seconds(timeline.predicted_seconds)} ({len(rows)} ranks)")
    console.print(table)


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""

    @app.command("replay", help=HELP)
    def replay_command(
        trace: Annotated[Path, typer.Argument(help="A .dim trace, an events artifact or a folder of 'convolver mpi trace'.")],
        config: Annotated[Path, typer.Option("--config", help="Dimemas configuration (.cfg) or machine profile with a network.")],
        eager: Annotated[
            str | None, typer.Option(help="Messages of this size and more wait for their receiver, e.g. 64KiB.")
        ] = None,
        never_rendezvous: Annotated[bool, typer.Option(help="No send waits for its receiver.")] = False,
        cpu_ratio: Annotated[float, typer.Option(help="Divides all computation; 2 means twice as fast.", min=0)] = 1.0,
        latency: Annotated[float | None, typer.Option(help="What if: latency in seconds everywhere.", min=0)] = None,
        bandwidth: Annotated[float | None, typer.Option(help="What if: bytes per second everywhere, or inf.", min=0)] = None,
        no_contention: Annotated[bool, typer.Option(help="What if: unlimited links and buses.")] = False,
        wire_latency: Annotated[float, typer.Option(help="Seconds between the end of a transfer and its arrival.", min=0)] = 0.0,
        gap: Annotated[float, typer.Option(help="Shortest time for which a message holds its links (LogGP's g).", min=0)] = 0.0,
        dimemas_quirks: Annotated[bool, typer.Option(help="Copy the defects of stock Dimemas that change times.")] = False,
        output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the timeline (Parquet).")] = None,
        prv: Annotated[Path | None, typer.Option(help="Write the timeline for Paraver (.prv, .pcf, .row).")] = None,
        force: Annotated[bool, typer.Option(help="Overwrite existing files.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    ) -> None:
        from convolver.mpi.replay import replay
        from convolver.reporting.console import terminal_progress

        for path in (output, prv):
            if path is not None:
                new_file(path, force)
        events = read_events(trace)
        options = {key: value for key, value in locals().items() if key in _OPTIONS}
        network = _network(config, events, options)
        timeline = replay(events, network, cpu_ratio, record=bool(output or prv), progress=terminal_progress())
        if output:
            timeline.save(output)
            wrote(output)
        if prv:
            from convolver.mpi.prv import write_prv

            write_prv(timeline, prv, placement=network.placement(events.ranks))
            wrote(prv)
        if as_json:
            print_json(timeline.document())
        else:
            _print(timeline)
            say(f"{events.records} records; computation divided by {cpu_ratio:g}.")


_OPTIONS = ("eager", "never_rendezvous", "latency", "bandwidth", "no_contention", "wire_latency", "gap", "dimemas_quirks")
