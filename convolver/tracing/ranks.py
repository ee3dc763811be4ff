"""Groups the traces of an MPI program's ranks: one table with the blocks of every rank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.errors import ProvenanceError, UsageError
from convolver.heavy import pl
from convolver.tracing.reader import Trace

if TYPE_CHECKING:
    from convolver.signature.signature import Signature


def _asked(trace: Trace) -> dict[str, Any]:
    """Return the sampling plan without what a budget made of it: each rank has its own."""
    plan = dict(trace.header["sampling"] or {})
    for name in ("sets", "burst_interval", "set_share") if plan.get("budget") else ():
        plan.pop(name, None)
    return plan


def _check(traces: Sequence[Trace]) -> None:
    found = [trace.header.get("rank") for trace in traces]
    if None in found:
        alone = traces[found.index(None)].path
        raise UsageError(f"{alone} has no rank: it was not traced under an MPI launcher; group traces of ranks only.")
    ranks = sorted(int(number) for number in found if number is not None)
    if ranks != list(range(len(ranks))):
        have = ", ".join(map(str, ranks))
        raise UsageError(f"Each rank from 0 on is needed, once; there are {have}.")
    first = traces[0]
    for trace in traces:
        if _asked(trace) != _asked(first):
            raise ProvenanceError(f"{trace.path} and {first.path} have different sampling plans; trace all ranks in one run.")


def group_ranks(paths: Sequence[str | Path]) -> Signature:
    """Return the blocks of all ranks as one signature, in the order of ranks, with a column ``rank``.

    ``inputs`` names the trace of every rank, so the traces stay usable each by itself. Raises :class:`UsageError` when a rank is
    missing or there twice, :class:`ProvenanceError` when the traces are of different plans.
    """
    from convolver.signature.signature import Signature

    traces = sorted(
        (Trace.load(path) for path in paths), key=lambda trace: -1 if trace.header.get("rank") is None else trace.header["rank"]
    )
    if not traces:
        raise UsageError("There is nothing to merge; give the traces of all ranks.")
    _check(traces)
    tables = [
        trace.signature.table.with_columns(pl.lit(number, dtype=pl.UInt32).alias("rank")) for number, trace in enumerate(traces)
    ]
    table = pl.concat(tables, how="diagonal").with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).alias("block"))
    header: dict[str, Any] = dict(traces[0].header)
    fields = {name: header[name] for name in ("command", "sampling")}
    fields["complete"] = all(trace.complete for trace in traces)
    fields["exit_status"] = max(int(trace.header.get("exit_status", 0)) for trace in traces)
    return Signature(table, inputs={f"rank {number}": trace.id for number, trace in enumerate(traces)}, **fields)
