"""Answers from hit rates: misses per block and per source line, per thousand instructions, and what moves between levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convolver.errors import ProvenanceError
from convolver.heavy import pl
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.level_samples import ALL

if TYPE_CHECKING:
    from convolver.signature.signature import Signature


def _check(signature: Signature, rates: HitRates) -> None:
    trace, simulated = signature.inputs.get("trace"), rates.inputs.get("trace")
    if trace is not None and simulated is not None and trace != simulated:
        raise ProvenanceError(f"The hit rates come from another trace ({simulated}, not {trace}); simulate the right one.")


def _level_misses(rows: pl.DataFrame, reach: NDArray[np.float64], memops: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a level's misses by block; multiplies ``reach``, the share of the accesses that get there, with its miss rate."""
    blocks, accesses, misses = (rows[name].to_numpy().astype(float) for name in ("block", "accesses", "misses"))
    where = blocks.astype(np.intp)
    whole = misses.sum() / accesses.sum() if accesses.sum() else 0.0
    local = np.full(len(reach), whole)
    local[where] = np.divide(misses, accesses, out=np.full(len(misses), whole), where=accesses > 0)
    reach *= local
    if rows.height and set(rows["sample"]) == {ALL}:
        exact = np.zeros(len(reach))
        exact[where] = misses
        return exact
    return reach * memops


def block_misses(signature: Signature, rates: HitRates, machine: str) -> pl.DataFrame:
    """Return block, and one column per level of the machine, caches and TLB: its misses in the whole run.

    Exact where all references were simulated. From a sample, the block's accesses times the product of its local miss rates; a
    block that the sample missed has the rates of the whole program. Raises :class:`ProvenanceError` for those of another trace.
    """
    _check(signature, rates)
    table = rates.table.filter(pl.col("machine") == machine)
    memops = signature.table["memops"].to_numpy().astype(float)
    columns: dict[str, Any] = {"block": signature.table["block"]}
    for names in (rates.levels(machine), [level["level"] for level in rates.tlb_totals(machine)]):
        reach = np.ones(len(memops))
        for name in names:
            columns[name] = _level_misses(table.filter(pl.col("level") == name), reach, memops)
    return pl.DataFrame(columns)


def line_misses(signature: Signature, rates: HitRates, machine: str) -> pl.DataFrame:
    """Return the misses per source line: function, file, line, instructions, memops, and one column per level.

    Lines with the most misses of the last cache level come first.
    """
    misses = block_misses(signature, rates, machine)
    names = misses.columns[1:]
    where = signature.table.select("block", "function", "file", "line", "instructions", "memops")
    joined = where.join(misses, on="block")
    sums = joined.group_by("function", "file", "line").agg(pl.col("instructions", "memops", *names).sum())
    last = rates.levels(machine)[-1]
    return sums.sort([last, "function", "line"], descending=[True, False, False])


def mpki(signature: Signature, rates: HitRates, machine: str) -> dict[str, float | None]:
    """Return by level, caches and TLB, the misses per thousand instructions of the whole run; None where nothing was executed."""
    instructions = int(signature.table["instructions"].sum())
    misses = block_misses(signature, rates, machine)
    return {name: 1000 * float(misses[name].sum()) / instructions if instructions else None for name in misses.columns[1:]}


def traffic(rates: HitRates, machine: str) -> list[dict[str, Any]]:
    """Return per cache level level, bytes_read from the next one and bytes_written to it, and how well its prefetcher did.

    ``accuracy`` is useful prefetches / prefetches, ``coverage`` useful prefetches / (useful prefetches + misses); None without a
    prefetch. Of a sampled level the bytes are those of the sample.
    """
    document = next(document for document in rates.header["machines"] if document["machine"] == machine)
    rows = []
    for level, total in zip(document["hierarchy"], rates.totals(machine), strict=True):
        line = level.get("line_bytes", 64)
        issued, useful = total.get("prefetches") or 0, total.get("useful_prefetches") or 0
        rows.append(
            {
                "level": level["level"],
                "bytes_read": total.get("bytes_read", total["misses"] * line),
                "bytes_written": total.get("bytes_written", total["write_backs"] * line),
                "accuracy": useful / issued if issued else None,
                "coverage": useful / (useful + total["misses"]) if issued and useful + total["misses"] else None,
            }
        )
    return rows
