"""``convolver replay``: predict a parallel run from its MPI events and a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convolver.cli.common import AsData, Dask, Force, Jobs, new_file, wrote
from convolver.cli.verb_group import Verbs, new_group
from convolver.errors import UsageError
from convolver.reporting.console import out, terminal_progress
from convolver.reporting.grid import grid
from convolver.units import counted, format_count, format_seconds, format_share, parse_bytes

if TYPE_CHECKING:
    from convolver.mpi.events import Events
    from convolver.mpi.network import Network
    from convolver.mpi.timeline import Timeline


class _RunByDefault(Verbs):
    """``convolver replay APP.dim ...`` means ``convolver replay run APP.dim ...``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the default command in front where none is given."""
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


verb = new_group(
    "Replay MPI traces on a network: run (the default: convolver replay TRACE --config NET.cfg), analyze, sweep.", _RunByDefault
)


Config = Annotated[Path, typer.Option("--config", help="Network: a machine profile with one, or a Dimemas .cfg.")]
Trace = Annotated[Path, typer.Argument(help="A .dim trace, an events artifact or a folder of 'convolver mpi trace'.")]
Ratio = Annotated[float, typer.Option(help="Divides all computation; 2 means twice as fast.", min=0)]
Eager = Annotated[str | None, typer.Option(help="Messages of this size and more wait for their receiver.")]


@dataclass(frozen=True, kw_only=True)
class NetworkChanges:
    """Options that change the network of a replay."""

    eager: Eager = None
    never_rendezvous: Annotated[bool, typer.Option("--never-rendezvous", help="No send waits for its receiver.")] = False
    latency: Annotated[float | None, typer.Option(help="What if: latency in seconds everywhere.", min=0)] = None
    bandwidth: Annotated[float | None, typer.Option(help="What if: bytes per second everywhere, or inf.", min=0)] = None
    no_contention: Annotated[bool, typer.Option("--no-contention", help="What if: unlimited links, buses, topology.")] = False
    share_cpus: Annotated[bool, typer.Option("--share-cpus", help="Tasks of a node take turns on its processors.")] = False
    topology: Annotated[str | None, typer.Option(help="Links between nodes: torus:4x4x2 or fat-tree:16x8:1x8.")] = None
    wire_latency: Annotated[float | None, typer.Option(help="Seconds between the end of a transfer and its arrival.", min=0)] = (
        None
    )
    gap: Annotated[float, typer.Option(help="Shortest time for which a message holds its links (LogGP's g).", min=0)] = 0.0
    dimemas_quirks: Annotated[
        bool, typer.Option("--dimemas-quirks", help="Copy the defects of stock Dimemas that change times.")
    ] = False

    def network(self, config: Path, ranks: int) -> Network:
        """Return a configuration's network with these changes."""
        from convolver.mpi.network import NEVER, parse_topology, what_if
        from convolver.mpi.sources import load_network

        network = load_network(config, ranks)
        if self.eager and self.never_rendezvous:
            raise UsageError("--eager and --never-rendezvous contradict each other; give one of them.")
        if self.eager:
            network = replace(network, rendezvous_bytes=parse_bytes(self.eager))
        elif self.never_rendezvous:
            network = replace(network, rendezvous_bytes=NEVER)
        network = replace(
            network,
            gap_seconds=self.gap,
            quirks=self.dimemas_quirks,
            share_cpus=network.share_cpus or self.share_cpus,
            topology=parse_topology(self.topology) if self.topology else network.topology,
        )
        return what_if(
            network,
            latency_seconds=self.latency,
            wire_latency_seconds=self.wire_latency,
            bandwidth_bytes_per_second=self.bandwidth,
            contention=not self.no_contention,
        )


def _about(trace: Path, events: Events, config: Path, network: Network, cpu_ratio: float) -> None:
    """Print what is replayed on what."""
    from convolver.reporting.metadata import metadata

    nodes = network.configuration.node_count
    shared = ", tasks take turns on processors" if network.share_cpus else ""
    measured = events.notes.get("measured_seconds")
    console = out()
    console.print(
        metadata(
            ("trace", f"{trace}: {events.ranks} ranks, {format_count(events.records)} records"),
            ("network", f"{config}: {counted(nodes, 'node')}{shared}"),
            ("CPU ratio", f"{cpu_ratio:g}"),
            ("measured", None if measured is None else format_seconds(measured)),
        )
    )
    console.print()


def _print(timeline: Timeline) -> None:
    table = grid(["rank"], ["seconds", "compute", "transfer", "wait"])
    rows = timeline.document()["ranks"]
    for row in rows if len(rows) <= 64 else sorted(rows, key=lambda r: -r["seconds"])[:64]:
        table.add_row(str(row["rank"]), *(format_seconds(row[k]) for k in list(row)[1:]))
    console = out()
    console.print(f"Predicted: {format_seconds(timeline.predicted_seconds)} ({len(rows)} ranks)")
    console.print(table)


@verb.command("run")
def run_command(
    trace: Trace,
    config: Config,
    cpu_ratio: Ratio = 1.0,
    changes: NetworkChanges = NetworkChanges(),
    algorithms: Annotated[
        str | None, typer.Option(help="Real collective algorithms: default, or allreduce=ring,bcast=binomial-bcast,...")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the timeline (Parquet).")] = None,
    prv: Annotated[Path | None, typer.Option(help="Write the timeline for Paraver (.prv, .pcf, .row).")] = None,
    force: Force = False,
    as_data: AsData = AsData(),
) -> None:
    """Replay an MPI trace (.dim or recorded events) on a parameterized network and predict its run time.

    Computation is divided by the CPU ratio (2: twice as fast); communication follows Dimemas' model.

    \b
    Examples:
      convolver replay app.dim --config cluster.cfg --json
      convolver replay app.events.parquet --config cluster.cfg --latency 0 --bandwidth inf -o ideal.timeline.parquet
    """
    from convolver.mpi.network_replay import replay
    from convolver.mpi.sources import load_events

    for path in (output, prv):
        if path is not None:
            new_file(path, force)
    events = load_events(trace, progress=terminal_progress())
    network = changes.network(config, events.ranks)
    if algorithms:
        from convolver.mpi.algorithms import expand, parse_choice

        events = expand(events, parse_choice(algorithms))
    timeline = replay(events, network, cpu_ratio, record=bool(output or prv), progress=terminal_progress())
    if output:
        timeline.save(output)
        wrote(output)
    if prv:
        from convolver.mpi.prv import write_prv

        write_prv(timeline, prv, placement=network.placement(events.ranks))
        wrote(prv)
    if not as_data.printed(timeline.document, lambda: timeline.document()["ranks"]):
        _about(trace, events, config, network, cpu_ratio)
        _print(timeline)


@verb.command("analyze")
def analyze_command(
    trace: Trace,
    config: Config,
    cpu_ratio: Ratio = 1.0,
    eager: Eager = None,
    as_data: AsData = AsData(),
) -> None:
    """Say what limits the run: critical path by activity, rank and phase, parallel efficiency, sensitivity to the machine.

    \b
    Examples:
      convolver replay analyze app.dim --config cluster.cfg
      convolver replay analyze app.mpi --config cluster.cfg --cpu-ratio 2 --json
    """
    from convolver.mpi.analysis import critical_path, efficiency, phase_bounds, sensitivity
    from convolver.mpi.network_replay import Replayer
    from convolver.mpi.sources import load_events

    events = load_events(trace, progress=terminal_progress())
    network = NetworkChanges(eager=eager).network(config, events.ranks)
    replayer = Replayer(events)
    timeline = replayer.run(network, cpu_ratio, record=True)
    path = critical_path(timeline)
    document: dict[str, Any] = {
        "efficiency": efficiency(replayer, network, cpu_ratio),
        "critical_path": {
            "shares": path.shares,
            "by_rank": path.by_rank().to_dicts(),
            "by_phase": path.by_phase(phase_bounds(events, timeline)).to_dicts(),
        },
        "sensitivity": sensitivity(replayer, network, cpu_ratio),
    }
    if not as_data.printed(lambda: document, lambda: document["sensitivity"]):
        _about(trace, events, config, network, cpu_ratio)
        _print_analysis(document)


def _print_analysis(document: dict[str, Any]) -> None:
    console = out()
    for name, value in document["efficiency"].items():
        console.print(f"{name:22} {format_seconds(value) if name.endswith('seconds') else format_share(value, 1)}")
    shares = ", ".join(f"{name} {format_share(share, 1)}" for name, share in document["critical_path"]["shares"].items())
    console.print(f"critical path          {shares}")
    table = grid(["change"], ["seconds", "speedup"])
    for row in document["sensitivity"]:
        table.add_row(row["change"], format_seconds(row["seconds"]), f"{row['speedup']:.3f}")
    console.print(table)


@verb.command("sweep")
def sweep_command(
    trace: Trace,
    config: Config,
    output: Annotated[Path, typer.Option("-o", "--output", help="Table of results (Parquet).")],
    points: Annotated[int, typer.Option(help="Number of replays.", min=1)] = 100,
    latency: Annotated[str | None, typer.Option(help="Seconds, LOW:HIGH or LOW:HIGH:log.")] = None,
    bandwidth: Annotated[str | None, typer.Option(help="Bytes per second, LOW:HIGH or LOW:HIGH:log.")] = None,
    cpu_ratio: Annotated[str | None, typer.Option(help="CPU ratio, LOW:HIGH or LOW:HIGH:log.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the design.")] = 0,
    design: Annotated[str, typer.Option(help="lhs (Latin hypercube) or random.")] = "lhs",
    jobs: Jobs = None,
    dask: Dask = None,
    force: Force = False,
) -> None:
    """Replay over ranges of latency, bandwidth and CPU ratio; an interrupted sweep goes on when started again.

    \b
    Examples:
      convolver replay sweep app.dim --config net.cfg -o sweep.parquet --latency 1e-6:1e-4:log --points 500
      convolver replay sweep app.dim --config net.cfg -o s.parquet --bandwidth 1e8:1e10:log --cpu-ratio 0.5:4 --dask tcp://host:8786
    """
    from convolver.fanout import dask_executor
    from convolver.mpi.sources import load_events, load_network
    from convolver.mpi.sweep import plan_of, sweep

    new_file(output, force)
    given = {"latency_seconds": latency, "bandwidth_bytes_per_second": bandwidth, "cpu_ratio": cpu_ratio}
    plan = plan_of(given, points, seed, design)
    network = load_network(config, load_events(trace, progress=terminal_progress()).ranks)
    with dask_executor(dask) as executor:
        sweep(trace, network, plan, output=output, executor=executor, jobs=jobs, progress=terminal_progress())
    wrote(output)
