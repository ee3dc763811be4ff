"""The columns of a signature: one row a static basic block, counts as executed, exact.

A block is identified by (build_id, offset, length_bytes), never by an address: addresses differ between runs, those three do not.
"""

from __future__ import annotations

from convolver.errors import SchemaError
from convolver.heavy import pl

IDENTITY = ("build_id", "offset", "length_bytes")
"""Columns that name the same block in every run of the same binaries."""

COUNTS = (
    "executions",
    "instructions",
    "loads",
    "stores",
    "memops",
    "load_bytes",
    "store_bytes",
    "bytes",
    "flops",
)
"""Executed totals, exact."""

PATTERNS = ("unit_references", "strided_references", "random_references", "dependent_references")
"""Classes of the sampled references; each sampled reference is in one of them or, the first of its kind, in none."""

FEATURES = ("sampled_references", *PATTERNS, "working_set_bytes")
LINES = ("new_lines", "strided_lines", "skipped_lines", "coming_references")
"""Optional columns: of a part of the sampled references, lines that they brought into a small cache, those of them in strided
streams, the lines left out between these, and the references to lines that were brought just before."""
ALONE = ("sequential_lines", "alone_lines")
"""Optional columns, of the same part: lines that came beside one of their stream, and those before which no other stream brought
one."""
TOTALS = ("instructions", "loads", "stores", "memops", "flops", "bytes")


def block_schema() -> dict[str, pl.DataType]:
    """Return name and type of every required column, in order."""
    types: dict[str, pl.DataType] = {"block": pl.UInt32()}
    types |= {"module": pl.String(), "build_id": pl.String(), "offset": pl.UInt64(), "length_bytes": pl.UInt32()}
    types |= {"function": pl.String(), "file": pl.String(), "line": pl.UInt32()}
    types |= {name: pl.UInt64() for name in (*COUNTS, *FEATURES)}
    return types


def conform(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with the required columns first, in their types; further columns are kept after them.

    Integers of another width are converted. Raises :class:`SchemaError` for a missing column, a type or a value that does not
    fit, blocks that are not numbered 0..n-1, or counts that contradict each other.
    """
    types = block_schema()
    missing = [name for name in types if name not in table.columns]
    if missing:
        raise SchemaError(f"The signature misses the column{'s' * (len(missing) > 1)} {', '.join(missing)}.")
    try:
        table = table.with_columns(pl.col(name).cast(kind, strict=True) for name, kind in types.items())
    except pl.exceptions.PolarsError as error:
        raise SchemaError(f"The signature has a column of a wrong type: {str(error).splitlines()[0]}.") from error
    rest = [name for name in table.columns if name not in types]
    table = table.select([*types, *rest])
    _check_values(table)
    return table


def _check_values(table: pl.DataFrame) -> None:
    for name in block_schema():
        if table[name].null_count():
            raise SchemaError(f"The signature has empty cells in column {name}.")
    if not (table["block"] == pl.Series(range(table.height), dtype=pl.UInt32)).all():
        raise SchemaError(f"The signature does not number its blocks 0 to {table.height - 1} in order.")
    rules = {
        "memops differ from loads + stores": pl.col("memops") != pl.col("loads") + pl.col("stores"),
        "bytes differ from load_bytes + store_bytes": pl.col("bytes") != pl.col("load_bytes") + pl.col("store_bytes"),
        "more references of one pattern than were sampled": pl.max_horizontal(PATTERNS) > pl.col("sampled_references"),
    }
    for sentence, rule in rules.items():
        wrong = table.filter(rule)
        if wrong.height:
            raise SchemaError(f"The signature contradicts itself in block {wrong['block'][0]}: {sentence}.")
