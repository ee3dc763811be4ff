"""``convolver predict --mpi``: a recorded and traced parallel run, predicted on other machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.cli.common import existing, new_file, new_folder, printed, say, wrote
from convolver.errors import UsageError
from convolver.units import format_share

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile
    from convolver.mpi.prediction import ParallelPrediction

SHOWN = 6


@dataclass(frozen=True)
class ParallelJob:
    """What the command line asks for."""

    folder: Path
    base: str
    targets: tuple[str, ...]
    network: Path | None
    target_network: Path | None
    clusters: int
    overlap: str
    output: Path | None
    force: bool
    cores: int | None = None

    def path(self, target: str, suffix: str) -> Path:
        """Return where an artifact of a target goes."""
        assert self.output is not None
        return self.output / f"{self.folder.name.removesuffix('.mpi')}@{target}{suffix}"


SUFFIXES = (".run.json", ".timeline.parquet", ".ranks.png", ".dim", ".cfg")


def predict_runs(job: ParallelJob, as_json: bool, as_csv: bool = False) -> None:
    """Predict, print and keep the artifacts of each target."""
    from convolver.machine.catalog import find_machine

    existing(job.folder, "convolver.mpi_events")
    base = find_machine(job.base)
    targets = [find_machine(name) for name in job.targets]
    if job.output is not None:
        new_folder(job.output)
        for target in targets:
            for suffix in SUFFIXES:
                new_file(job.path(target.name, suffix), job.force)
    found = [_one(job, base, target) for target in targets]
    files = [_keep(job, one) if job.output is not None else {} for one in found]
    rows = [{**one.summary(), "artifacts": {k: str(v) for k, v in kept.items()}} for one, kept in zip(found, files, strict=True)]
    ranks = [{"base": row["base"], "target": row["target"], **rank} for row in rows for rank in row["ranks"]]
    if not printed(as_json, as_csv, lambda: rows[0] if len(rows) == 1 else {"targets": rows}, lambda: ranks):
        for one in found:
            _show(one)


def _one(job: ParallelJob, base: MachineProfile, target: MachineProfile) -> ParallelPrediction:
    from convolver.mpi.prediction import predict_parallel
    from convolver.mpi.recorded_ranks import read_ranks
    from convolver.mpi.sources import load_network
    from convolver.reporting.console import terminal_progress

    ranks = len(read_ranks(job.folder)) if job.network or job.target_network else 0
    own = load_network(job.network, ranks) if job.network else None
    other = load_network(job.target_network, ranks) if job.target_network else None
    for machine, given in ((base, own), (target, other or own)):
        if given is None and not machine.network:
            raise UsageError(
                f"The profile of '{machine.name}' has no network; measure one with 'convolver probe --launcher' or give a "
                "configuration with --network or --target-network."
            )
    return predict_parallel(
        job.folder,
        base=base,
        target=target,
        base_network=own,
        target_network=other or (own if not target.network else None),
        clusters=job.clusters,
        overlap=job.overlap,
        cores=job.cores,
        progress=terminal_progress(),
    )


def _keep(job: ParallelJob, one: ParallelPrediction) -> dict[str, Path]:
    """Write the document, the timeline with its picture, and the trace with its clusters as modules for Dimemas."""
    from dataclasses import replace

    from convolver.mpi.cfg_writer import write_cfg
    from convolver.mpi.dim import write_dim
    from convolver.mpi.network import flat_configuration
    from convolver.mpi.prediction import with_cluster_events
    from convolver.plotting import style
    from convolver.plotting.rank_timeline import draw

    assert one.ratios is not None
    assert one.timeline is not None
    target = one.document["target"]
    paths = {suffix.lstrip(".").replace(".", " "): job.path(target, suffix) for suffix in SUFFIXES}
    one.save(paths["run json"])
    one.timeline.save(paths["timeline parquet"])
    with style.drawing(style.LIGHT):
        style.save(draw(one.timeline, style.LIGHT), paths["ranks png"])
    events, modules = with_cluster_events(one.ratios)
    write_dim(events, paths["dim"])
    write_cfg(replace(flat_configuration(events.ranks), modules=modules), paths["cfg"])
    for path in paths.values():
        wrote(path)
    return paths


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
