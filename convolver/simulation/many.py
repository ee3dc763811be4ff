"""Many traces, as of the ranks of a run, on many machines: one task a trace on any executor, one Parquet dataset, resumable."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from convolver.errors import UsageError
from convolver.fanout import Journal, run_missing
from convolver.heavy import pl
from convolver.outputs import save_bytes
from convolver.progress import SILENT, Progress, step
from convolver.schema import TableArtifact, canonical, table_header
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.one_pass import simulate
from convolver.simulation.targets import MachineLike, Target, targets

SCHEMA = "convolver.many_hit_rates"
SUFFIX = ".cvt"


class ManyHitRates(TableArtifact):
    """Hit rates of several traces in one table; its first column is the name of the trace."""

    schema = SCHEMA

    def summary(self) -> dict[str, Any]:
        """Return the references of each trace and the sums over all traces per machine and level."""
        traces = [{"trace": one["trace"], "references": one["references"]} for one in self.header["traces"]]
        return {"traces": traces, "levels": totals_of(self.table)}


def traces_in(folder: str | Path) -> list[Path]:
    """Return the traces of a folder by name; raises :class:`UsageError` when there is none."""
    found = sorted(Path(folder).glob(f"*{SUFFIX}"))
    if not found:
        raise UsageError(f"{folder} holds no trace (*{SUFFIX}); record one with: convolver trace.")
    return [path.resolve() for path in found]


def simulate_one(trace: str, stamp: int, machines: list[Target]) -> bytes:
    """Return the hit rates of one trace as the bytes of their file: what a worker does. ``stamp``: when the trace was changed."""
    from convolver.tracing.reader import Trace

    return simulate(Trace.load(trace), machines).to_bytes()


class _Parts:
    """Files of finished traces in a folder beside the output."""

    def __init__(self, output: Path, identity: str) -> None:
        self.folder = Path(f"{output}.parts")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.journal = Journal(Path(f"{output}.journal"), identity)
        lost = [task for task, name in self.journal.done.items() if not (self.folder / name).exists()]
        for task in lost:
            del self.journal.done[task]

    def keep(self, task: int, content: bytes) -> str:
        """Write the file of a task and return its name: it is whole before the journal knows it."""
        name = f"{task:06d}.hits.parquet"
        save_bytes(self.folder / name, content)
        return name

    def load(self, task: int) -> HitRates:
        return HitRates.load(self.folder / self.journal.done[task])

    def remove(self) -> None:
        self.journal.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


def simulate_many(
    traces: Iterable[str | Path],
    machines: MachineLike | Iterable[MachineLike],
    output: str | Path,
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    progress: Progress = SILENT,
) -> pl.DataFrame:
    """Simulate every trace on all machines and write one table: hit rates with the name of the trace as first column.

    ``executor`` is anything with ``submit``; without one a process pool of ``jobs`` workers is used. An interrupted run goes on
    from what lies beside the output (``OUTPUT.journal``, ``OUTPUT.parts``). Raises what :func:`simulate` raises.
    """
    found, paths, output = targets(machines), [Path(trace) for trace in traces], Path(output)
    stamps = [path.stat().st_mtime_ns if path.exists() else 0 for path in paths]
    documents = [machine.to_document() for machine in found]
    plan = [[str(path) for path in paths], stamps, documents]
    parts = _Parts(output, hashlib.sha256(canonical(plan)).hexdigest()[:32])
    tasks = {number: (str(path), stamp, found) for number, (path, stamp) in enumerate(zip(paths, stamps, strict=True))}
    with step(progress, "Simulating traces", len(tasks), unit="traces"):
        run_missing(
            *(simulate_one, tasks, parts.journal),
            keep=parts.keep,
            executor=executor,
            jobs=jobs,
            advance=lambda name: progress.advance(1, name),
        )
    table = _join(paths, parts, documents, output)
    parts.remove()
    return table


def _join(paths: list[Path], parts: _Parts, machines: list[dict[str, Any]], output: Path) -> pl.DataFrame:
    frames, inputs, about = [], {}, []
    for number, path in enumerate(paths):
        rates, name = parts.load(number), path.name.removesuffix(SUFFIX)
        frames.append(rates.table.select(pl.lit(name).alias("trace"), pl.all()))
        inputs[name] = rates.inputs["trace"]
        about.append({"trace": name, "references": rates.references, "sampling": rates.header["sampling"]})
    table = pl.concat(frames, how="diagonal")
    ManyHitRates(table, table_header(SCHEMA, table, inputs, {"machines": machines, "traces": about})).save(output)
    return table


def totals_of(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return machine, level, accesses, hits, misses and write_backs over all traces, in the order of the table."""
    sums = table.group_by("machine", "level", maintain_order=True).agg(pl.col("accesses", "hits", "misses", "write_backs").sum())
    return sums.rows(named=True)
