"""``convolver predict --mpi``: a recorded and traced parallel run, predicted on other machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.cli.common import AsData, existing, new_file, new_folder, say, wrote
from convolver.errors import UsageError
from convolver.units import format_share

if TYPE_CHECKING:
    from convolver.cli.wanted import Parallel, Wanted
    from convolver.machine.profile import MachineProfile
    from convolver.mpi.prediction import ParallelPrediction

SHOWN = 6


SUFFIXES = (".run.json", ".timeline.parquet", ".ranks.png", ".dim", ".cfg")


def predict_runs(parallel: Parallel, wanted: Wanted, overlap: str, as_data: AsData) -> None:
    """Predict, print and keep the artifacts of each target."""
    from convolver.machine.catalog import find_machine

    assert parallel.mpi is not None
    existing(parallel.mpi, "convolver.mpi_events")
    base = find_machine(wanted.base)
    targets = [find_machine(name) for name in wanted.target or [wanted.base]]
    kept: list[dict[str, Path]] = [{} for _ in targets]
    if wanted.output is not None:
        new_folder(wanted.output)
        stem = wanted.output / parallel.mpi.name.removesuffix(".mpi")
        for paths, target in zip(kept, targets, strict=True):
            for suffix in SUFFIXES:
                paths[suffix.lstrip(".").replace(".", " ")] = new_file(Path(f"{stem}@{target.name}{suffix}"), wanted.force)
    found = [_one(parallel, parallel.mpi, base, target, overlap=overlap, cores=wanted.cores) for target in targets]
    for one, paths in zip(found, kept, strict=True):
        if paths:
            _keep(one, paths)
    rows = [{**one.summary(), "artifacts": {k: str(v) for k, v in paths.items()}} for one, paths in zip(found, kept, strict=True)]
    ranks = [{"base": row["base"], "target": row["target"], **rank} for row in rows for rank in row["ranks"]]
    if not as_data.printed(lambda: rows[0] if len(rows) == 1 else {"targets": rows}, lambda: ranks):
        for one in found:
            _show(one)


def _one(parallel: Parallel, folder: Path, base: MachineProfile, target: MachineProfile, **how: Any) -> ParallelPrediction:
    from convolver.mpi.prediction import predict_parallel
    from convolver.mpi.recorded_ranks import read_ranks
    from convolver.mpi.sources import load_network
    from convolver.reporting.console import terminal_progress

    ranks = len(read_ranks(folder)) if parallel.network or parallel.target_network else 0
    own = load_network(parallel.network, ranks) if parallel.network else None
    other = load_network(parallel.target_network, ranks) if parallel.target_network else None
    for machine, given in ((base, own), (target, other or own)):
        if given is None and not machine.network:
            raise UsageError(
                f"The profile of '{machine.name}' has no network; give another profile's or a configuration with --network or "
                "--target-network, or measure it there with `convolver mpi network`."
            )
    return predict_parallel(
        folder,
        base=base,
        target=target,
        base_network=own,
        target_network=other or (own if not target.network else None),
        clusters=parallel.clusters,
        progress=terminal_progress(),
        **how,
    )


def _keep(one: ParallelPrediction, paths: dict[str, Path]) -> None:
    """Write the document, the timeline with its picture, and the trace with its clusters as modules for Dimemas."""
    from dataclasses import replace

    from convolver.mpi.cfg import write_cfg
    from convolver.mpi.dim import write_dim
    from convolver.mpi.network import flat_configuration
    from convolver.mpi.prediction import with_cluster_events
    from convolver.plotting import style
    from convolver.plotting.rank_timeline import draw

    assert one.ratios is not None
    assert one.timeline is not None
    one.save(paths["run json"])
    one.timeline.save(paths["timeline parquet"])
    with style.drawing(style.LIGHT):
        style.save(draw(one.timeline, style.LIGHT), paths["ranks png"])
    events, modules = with_cluster_events(one.ratios)
    write_dim(events, paths["dim"])
    write_cfg(replace(flat_configuration(events.ranks), modules=modules), paths["cfg"])
    for path in paths.values():
        wrote(path)


def _show(one: ParallelPrediction) -> None:
    from convolver.convolution.verdict import run_check
    from convolver.reporting.console import out
    from convolver.reporting.grid import grid
    from convolver.reporting.metadata import metadata
    from convolver.units import format_seconds

    document, console = one.document, out()
    low, high = document["interval_seconds"]
    machines = f"{document['base']}, {document['target']}"
    covered = f"{format_share(document['attributed_share'], 1)} of the time of bursts lies in traced blocks"
    ids = {name: str(document["inputs"][name]) for name in ("base", "target")}
    console.print(metadata(("program", document["recording"]), ("machines", machines), ("coverage", covered), inputs=ids))
    console.print()
    console.print(
        f"{document['recording']} on {document['target']}: {format_seconds(document['seconds'])} "
        f"({format_seconds(low)} to {format_seconds(high)}), CPU ratio {document['cpu_ratio']:.3f}."
    )
    if document["measured_seconds"]:
        check = run_check(document)
        console.print(check.sentence, style=None if check.passed else "bold")
    for title, name in (("cluster", "clusters"), ("rank", "ranks"), ("module", "modules")):
        console.print(_table(grid([title], ["on base", "on target", "CPU ratio"]), title, document[name][:SHOWN]))
    if len(document["ranks"]) > SHOWN:
        say(f"{len(document['ranks'])} ranks; --json prints them all.")


def _table(table: Any, title: str, rows: list[dict[str, Any]]) -> Any:
    from convolver.units import format_seconds

    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        table.add_row(str(row[title]), format_seconds(row["base_seconds"]), format_seconds(row["target_seconds"]), ratio)
    return table
