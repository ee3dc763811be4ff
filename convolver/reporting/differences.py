"""Two runs, two machines or two versions of a program: what changed, block by block, and whether the change means anything.

Counts are exact, so every difference of counts is one. A difference of times is called significant where it exceeds what is
known of both errors together, that is, where the two intervals do not meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convolver.convolution.block_times import BlockTimes
from convolver.errors import UsageError
from convolver.heavy import pl
from convolver.signature.block_columns import IDENTITY
from convolver.signature.signature import Signature

KEYS = {
    "block": ("block",),
    "identity": IDENTITY,
    "line": ("module", "function", "file", "line"),
    "function": ("module", "function"),
}
"""Columns that make two rows the same: ``block`` within one signature, ``identity`` within one build, else line or function."""

CHOICES = ("block", "line", "function")
MEASURES = ("seconds", "memops", "instructions", "executions", "flops", "bytes")


@dataclass(frozen=True)
class Difference:
    """What changed from one run to the other.

    ``table``: the key's columns and function, module, file, line where known, then before, after, change, share (of the change in
    the larger total), significant; the largest change first. ``matched_by`` names the key.
    """

    measure: str
    matched_by: str
    names: tuple[str, str]
    before: float
    after: float
    table: pl.DataFrame

    @property
    def ratio(self) -> float | None:
        """after / before, None where nothing was before."""
        return self.after / self.before if self.before else None

    def document(self, count: int | None = None) -> dict[str, Any]:
        """Return everything as a JSON-able document, with at most ``count`` rows."""
        rows = self.table if count is None else self.table.head(count)
        return {
            "measure": self.measure,
            "matched_by": self.matched_by,
            "names": list(self.names),
            "before": self.before,
            "after": self.after,
            "ratio": self.ratio,
            "changed": self.table.filter(pl.col("change") != 0).height,
            "significant": int(self.table["significant"].sum()),
            "rows": rows.to_dicts(),
        }


def difference(one: Any, other: Any, *, by: str | None = None, measure: str | None = None) -> Difference:
    """Return what changed between two tables of block times (seconds, memops, executions) or two signatures (counts).

    ``by`` is block, line or function; by default the finest key that both share. Raises :class:`UsageError` for two different
    kinds of artifact, an unknown measure or key, or blocks of two different builds.
    """
    if type(one) is not type(other) or not isinstance(one, BlockTimes | Signature):
        raise UsageError(
            "A diff takes two tables of block times or two signatures; `convolver machine compare` compares machines."
        )
    chosen = measure or ("seconds" if isinstance(one, BlockTimes) else "memops")
    if chosen not in one.table.columns or chosen not in MEASURES:
        known = ", ".join(name for name in MEASURES if name in one.table.columns)
        raise UsageError(f"'{chosen}' cannot be compared here; choose one of {known}.")
    key = _key(one, other, by)
    programs = {_program(other): _program(one)}
    table = _joined([_summed(one, key, chosen), _summed(other, key, chosen, programs)], KEYS[key])
    before, after = (float(artifact.table[chosen].sum()) for artifact in (one, other))
    matched = "block" if key == "identity" else key
    return Difference(chosen, matched, (_name(one), _name(other)), before, after, _judged(table, max(before, after)))


def _name(artifact: BlockTimes | Signature) -> str:
    words = [str(word).rpartition("/")[2] for word in artifact.header.get("command") or ["?"]]
    return " ".join(words) + (f" on {artifact.machine}" if isinstance(artifact, BlockTimes) else "")


def _program(artifact: BlockTimes | Signature) -> str:
    return str((artifact.header.get("command") or [""])[0]).rpartition("/")[2]


def _key(one: BlockTimes | Signature, other: BlockTimes | Signature, by: str | None) -> str:
    if by is not None and by not in CHOICES:
        raise UsageError(f"'{by}' is no way to match blocks; choose one of {', '.join(CHOICES)}.")
    if by in ("line", "function"):
        return by
    if isinstance(one, Signature) and isinstance(other, Signature):
        if _same_build(one, other):
            return "identity"
    elif one.inputs.get("signature") == other.inputs.get("signature"):
        return "block"
    if by == "block":
        raise UsageError("These blocks are of two runs or builds, so their numbers mean nothing; compare --by line or function.")
    return "line"


def _same_build(one: Signature, other: Signature) -> bool:
    """Return whether two runs share modules and none of these was built anew in between; libraries are shared by all versions."""
    programs = {_program(other): _program(one)}
    builds = [{Path(module).name: build for module, build in _modules(side)} for side in (one, other)]
    builds[1] = {programs.get(name, name): build for name, build in builds[1].items()}
    shared = builds[0].keys() & builds[1].keys()
    return bool(shared) and all(builds[0][name] == builds[1][name] for name in shared)


def _modules(side: Signature) -> list[tuple[str, str]]:
    """Return path and build-id of the modules that have one."""
    rows = side.table.select("module", "build_id").unique().iter_rows()
    return [(module, build) for module, build in rows if build]


def _summed(artifact: BlockTimes | Signature, key: str, measure: str, programs: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Return one row a key: its text columns, the measure's sum and the sum of what is known of its error.

    Folders of modules and files are left out of the key: another checkout of the same program is the same program, and so is one
    of the other name in ``programs``.
    """
    table = artifact.table
    if key in ("line", "function"):
        table = table.with_columns(pl.col("module", "file").str.replace(r"^.*/", ""))
        table = table.with_columns(pl.col("module").replace(programs or {}))
    columns = KEYS[key]
    texts = [name for name in ("function", "module", "file", "line") if name not in columns]
    error = pl.col("error_seconds") if measure == "seconds" else pl.lit(0.0)
    sums = [pl.col(measure).cast(pl.Float64).sum().alias("value"), error.sum().alias("error")]
    return table.group_by(columns, maintain_order=True).agg(*sums, pl.col(texts).first())


def _joined(sides: Sequence[pl.DataFrame], key: Sequence[str]) -> pl.DataFrame:
    one, other = sides
    joined = one.join(other, on=list(key), how="full", suffix="_after", coalesce=True)
    texts = [name for name in ("function", "module", "file", "line") if f"{name}_after" in joined.columns]
    return joined.with_columns(
        *(pl.coalesce(name, f"{name}_after").alias(name) for name in texts),
        before=pl.col("value").fill_null(0.0),
        after=pl.col("value_after").fill_null(0.0),
        error=pl.col("error").fill_null(0.0) + pl.col("error_after").fill_null(0.0),
    ).drop("value", "value_after", "error_after", *(f"{name}_after" for name in texts))


def _judged(table: pl.DataFrame, total: float) -> pl.DataFrame:
    change = pl.col("after") - pl.col("before")
    judged = table.with_columns(change.alias("change"), (change / max(total, 1e-300)).alias("share"))
    judged = judged.with_columns((pl.col("change").abs() > pl.col("error")).alias("significant"))
    return judged.sort(pl.col("change").abs(), descending=True, maintain_order=True)
