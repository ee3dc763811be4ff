"""The verbs of ``convolver model`` that start from MPI traces: sweep, and those of P3S."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import Dask, Force, Jobs, new_file, say, wrote
from convolver.cli.model_points import points_command
from convolver.cli.model_scale import scale_command
from convolver.cli.model_speedup import speedup_command
from convolver.errors import UsageError
from convolver.reporting.console import terminal_progress


def sweep_command(
    traces: Annotated[
        list[Path], typer.Argument(help="MPI traces (.dim, .parquet, SMPI's .txt, ...) of one program, one a process count.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Measurement table to write.")],
    points: Annotated[int, typer.Option(help="Platforms a trace.", min=1)] = 200,
    latency: Annotated[str, typer.Option(help="Seconds, LOW:HIGH or LOW:HIGH:log.")] = "1e-6:1e-4:log",
    bandwidth: Annotated[str, typer.Option(help="Bytes per second, LOW:HIGH or LOW:HIGH:log.")] = "2e7:1e9:log",
    seed: Annotated[int, typer.Option(help="Seed of the design.")] = 0,
    design: Annotated[str, typer.Option(help="lhs (Latin hypercube) or random.")] = "random",
    wire: Annotated[bool, typer.Option("--wire", help="Latency passes in the network, not on the sender's processor.")] = False,
    correct: Annotated[bool, typer.Option("--locality", help="Scale bursts by the locality factor of each trace.")] = False,
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
      convolver model sweep bt.4.txt bt.9.txt bt.16.txt --wire -o bt.parquet
    """
    from convolver.fanout import dask_executor
    from convolver.modeling.storm import critical_path_factors, ideal_seconds, locality_factors, sweep_replays, total_cpu_seconds
    from convolver.mpi.sources import load_events
    from convolver.mpi.sweep import plan_of

    new_file(output, force)
    plan = plan_of({"latency_seconds": latency, "bandwidth_bytes_per_second": bandwidth}, points, seed, design)
    progress = terminal_progress()
    files: dict[int, Path] = {}
    totals: dict[int, float] = {}
    ideal: dict[int, float] = {}
    for path in traces:
        loaded = load_events(path, progress=progress)
        if loaded.ranks in files:
            raise UsageError(f"{path} has {loaded.ranks} ranks as another trace has; give one trace a process count.")
        files[loaded.ranks], totals[loaded.ranks] = path, total_cpu_seconds(loaded)
        ideal[loaded.ranks] = ideal_seconds(loaded)
    factors = locality_factors(totals)
    scaled = factors if correct else None
    with dask_executor(dask) as executor:
        sweep_replays(files, plan, wire=wire, locality=scaled, output=output, executor=executor, jobs=jobs, progress=progress)
    say(f"Locality factors, for 'convolver model fit': {_option(factors)}")
    say(f"Those of the critical path, in their place: {_option(critical_path_factors(ideal))}")
    wrote(output)


def _option(factors: dict[int, float]) -> str:
    return "-s locality=" + ",".join(f"{count}:{factor:.6g}" for count, factor in factors.items())


def add(models: typer.Typer) -> None:
    """Add the verbs to ``convolver model``."""
    models.command("sweep")(sweep_command)
    models.command("scale")(scale_command)
    models.command("points")(points_command)
    models.command("speedup")(speedup_command)
