"""Hypothesis strategies and small builders that many tests share."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import strategies as st

from convolver.signature.block_columns import block_schema

_TEXT = {"module": "/usr/bin/app", "build_id": "ab" * 20, "function": "f", "file": "app.c"}


def block_rows(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Return a valid signature table from rows that name only what matters; the rest is zero or derived."""
    filled = []
    for number, row in enumerate(rows):
        base: dict[str, Any] = {name: _TEXT.get(name, 0) for name in block_schema()}
        base |= {"block": number, "offset": 64 * number, "length_bytes": 32, "line": number + 1, **row}
        base["memops"] = base["loads"] + base["stores"]
        base["bytes"] = base["load_bytes"] + base["store_bytes"]
        filled.append(base)
    further = {name: pl.UInt64() for row in filled for name in row if name not in block_schema()}
    return pl.DataFrame(filled, schema={**block_schema(), **further})


@st.composite
def signature_rows(draw: st.DrawFn, max_blocks: int = 6) -> list[dict[str, Any]]:
    """Rows for :func:`block_rows`: counts up to a million, features that fit the samples, some blocks unsampled."""
    rows = []
    for _ in range(draw(st.integers(1, max_blocks))):
        loads, stores = draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6))
        sampled = draw(st.one_of(st.just(0), st.integers(0, loads + stores)))
        parts = sorted(draw(st.integers(0, sampled)) for _ in range(4))
        features = dict(
            zip(
                ("unit_references", "strided_references", "random_references", "dependent_references"),
                (b - a for a, b in zip([0, *parts[:3]], parts, strict=True)),
                strict=True,
            )
        )
        rows.append(
            {
                "executions": draw(st.integers(1, 10**6)),
                "instructions": draw(st.integers(1, 10**7)),
                "loads": loads,
                "stores": stores,
                "load_bytes": 8 * loads,
                "store_bytes": 8 * stores,
                "flops": draw(st.integers(0, 10**6)),
                "sampled_references": sampled,
                **features,
            }
        )
    return rows
