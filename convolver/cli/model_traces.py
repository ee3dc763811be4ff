"""The verbs of ``convolver model`` that start from MPI traces: sweep and scale."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import Dask, Jobs, new_file, print_json, say, wrote
from convolver.errors import UsageError

Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


def sweep_command(
    traces: Annotated[list[Path], typer.Argument(help="MPI traces (.dim, .parquet, ...) of one program, one a process count.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Measurement table to write.")],
    points: Annotated[int, typer.Option(help="Platforms a trace.", min=1)] = 200,
    latency: Annotated[str, typer.Option(help="Seconds, LOW:HIGH or LOW:HIGH:log.")] = "1e-6:1e-4:log",
    bandwidth: Annotated[str, typer.Option(help="Bytes per second, LOW:HIGH or LOW:HIGH:log.")] = "2e7:1e9:log",
    seed: Annotated[int, typer.Option(help="Seed of the design.")] = 0,
    design: Annotated[str, typer.Option(help="lhs (Latin hypercube) or random.")] = "random",
    wire: Annotated[bool, typer.Option("--wire", help="Latency passes in the network, not on the sender's processor.")] = False,
    correct: Annotated[bool, typer.Option("--correct", help="Scale bursts by the locality factor of each trace.")] = False,
    jobs: Jobs = None,
    dask: Dask = None,
    force: Force = False,
) -> None:
    """Replay traces on random latencies and bandwidths: the table that linear models T(P, L, BW) are fitted to.

    The platforms are equal nodes of one task; 'convolver replay sweep' varies a given network. An interrupted sweep goes on when
    started again.

    \b
    Examples:
      convolver model sweep bt.4.dim bt.9.dim bt.16.dim -o bt.parquet
      convolver model sweep bt.*.dim -o bt.csv --points 400 --latency 1e-6:5e-5 --jobs 4
    """
    from convolver.fanout import dask_executor
    from convolver.modeling.storm import locality_factors, sweep_replays, total_cpu_seconds
    from convolver.mpi.sources import load_events
    from convolver.mpi.sweep import plan_of
    from convolver.reporting.console import terminal_progress

    new_file(output, force)
    plan = plan_of({"latency_seconds": latency, "bandwidth_bytes_per_second": bandwidth}, points, seed, design)
    progress = terminal_progress()
    files: dict[int, Path] = {}
    totals: dict[int, float] = {}
    for path in traces:
        loaded = load_events(path, progress=progress)
        if loaded.ranks in files:
            raise UsageError(f"{path} has {loaded.ranks} ranks as another trace has; give one trace a process count.")
        files[loaded.ranks], totals[loaded.ranks] = path, total_cpu_seconds(loaded)
    factors = locality_factors(totals)
    scaled = factors if correct else None
    with dask_executor(dask) as executor:
        sweep_replays(files, plan, wire=wire, locality=scaled, output=output, executor=executor, jobs=jobs, progress=progress)
    say("Locality factors: " + ", ".join(f"P = {count}: {factor:.4f}" for count, factor in factors.items()))
    wrote(output)


def scale_command(
    traces: Annotated[list[Path], typer.Argument(help="Time-independent traces ('convolver mpi count'), one a process count.")],
    at: Annotated[int, typer.Option("--at", help="Process count to make the trace for.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="MPI events to write (.parquet), for 'convolver replay'.")],
    size: Annotated[
        list[int] | None, typer.Option(help="Grid points a side or vector length, for sizes and work in blocks; repeatable.")
    ] = None,
    rate: Annotated[
        float, typer.Option(help="Work a second: instructions, or 1e9 for measured SMPI traces of a 1 Gflop/s host.")
    ] = 1e9,
    force: Force = False,
    json: Annotated[bool, typer.Option("--json", help="Print the equations as JSON.")] = False,
) -> None:
    """Relate the phases of traces over process counts and make the trace for a count that was never run (P3S).

    \b
    Examples:
      convolver model scale bt.4.txt bt.9.txt bt.16.txt --at 64 --size 64 -o bt.64.parquet
      convolver model scale lu.4.txt lu.8.txt lu.16.txt --at 64 --rate 2e9 -o lu.64.parquet --json
    """
    from convolver.modeling.p3s.slt import build
    from convolver.modeling.p3s.trace import read_ti, to_events

    new_file(output, force)
    read = [read_ti(path) for path in traces]
    scalable = build({len(trace): trace for trace in read}, sizes_to_try=tuple(size or ()))
    to_events(scalable.at(at), seconds_per_work=1 / rate, name=output.name).save(output)
    rows = scalable.equations()
    if json:
        print_json(rows)
    else:
        for row in rows:
            typer.echo(f"{row['operation']:10} x{row['weight']:<8} {row['bytes']:28} {row['partner']}")
    if scalable.drift() > 0.1:
        say(f"The total work changes by {100 * scalable.drift():.0f} % over the traced counts; the times will be as uncertain.")
    wrote(output)


def add(models: typer.Typer) -> None:
    """Add the verbs to ``convolver model``."""
    models.command("sweep")(sweep_command)
    models.command("scale")(scale_command)
