"""What the page's script works on: one JSON document, columns instead of rows, numbers cut to what can be seen."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.convolution.block_times import HIT_RATE, BlockTimes
from convolver.heavy import pl
from convolver.machine.profile import MachineProfile
from convolver.plotting.maps_picture import block_points, shown_curves
from convolver.reporting.limiters import largest_causes
from convolver.reporting.program_report import Source, hot_files, read_source
from convolver.reporting.report_input import Bundle

if TYPE_CHECKING:
    from convolver.mpi.timeline import Timeline

CIRCLES = 400
"""Blocks drawn on the curves at most."""

INTERVALS = 20_000
"""Intervals of a timeline that are drawn at most; the shortest are left out."""

SOURCES_BYTES = 2 << 20
"""Source text that the page holds at most."""


def pack(document: Any) -> str:
    """Return a document as base64 of deflated JSON: short, and free of characters that HTML gives a meaning."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(zlib.compress(text, 9)).decode()


def page_data(bundle: Bundle) -> dict[str, Any]:
    """Return everything that the page shows interactively; blocks are in order of the base's time."""
    order = bundle.base.table.select("block").with_row_index("row")
    return {
        "command": bundle.signature.header.get("command") or ["?"],
        "machines": [_machine(times, bundle.machines.get(times.machine), order) for times in bundle.times],
        "blocks": _blocks(bundle, order),
        "sources": [_source(source) for source in sources(bundle) if not source.problem],
        "unreadable": [[source.path, source.problem] for source in sources(bundle) if source.problem],
        "timeline": None if bundle.timeline is None else _timeline(bundle.timeline),
    }


def sources(bundle: Bundle) -> list[Source]:
    """Return the hot source files as far as they fit: those of the program itself first, the hottest first, those that cannot be
    read last."""
    program = Path(str((bundle.signature.header.get("command") or ["?"])[0])).name
    table = bundle.signature.table
    own = set(table.filter(pl.col("module").str.split("/").list.last() == program)["file"])
    traced_at = bundle.signature_path.stat().st_mtime
    found, size = [], 0
    known = set(table["file"])
    for path in hot_files(bundle.times):
        if path not in known:
            continue  # block times that name other files than their signature were changed
        source = read_source(path, traced_at, bundle.roots)
        size += len(source.text)
        if size > SOURCES_BYTES:
            break
        found.append(source)
    return sorted(found, key=lambda source: (bool(source.problem), source.path not in own))


def _source(source: Source) -> dict[str, Any]:
    return {"path": source.path, "text": source.text, "newer": source.newer, "problem": source.problem}


def _numbers(column: pl.Series, digits: int = 4) -> list[Any]:
    return column.round_sig_figs(digits).to_list() if column.dtype.is_float() else column.to_list()


def _named(column: pl.Series) -> dict[str, Any]:
    """Return a text column as its distinct values and one index a row."""
    names = column.unique(maintain_order=True).to_list()
    index = {name: number for number, name in enumerate(names)}
    return {"names": names, "index": [index[name] for name in column]}


def _blocks(bundle: Bundle, order: pl.DataFrame) -> dict[str, Any]:
    counts = [
        "executions",
        "instructions",
        "memops",
        "flops",
        "bytes",
        "working_set_bytes",
        "sampled_references",
        "line",
        "offset",
    ]
    table = order.join(bundle.signature.table, on="block", how="left", maintain_order="left")
    columns = {name: _numbers(table[name]) for name in counts}
    texts = {name: _named(table[name]) for name in ("function", "module", "file")}
    sampled = (pl.col("sampled_references") > 0).cast(pl.Int8)
    return {"block": table["block"].to_list(), **columns, **texts, "sampled": table.select(sampled).to_series().to_list()}


def _machine(times: BlockTimes, machine: MachineProfile | None, order: pl.DataFrame) -> dict[str, Any]:
    table = order.join(times.table, on="block", how="left", maintain_order="left")
    numbers = {"seconds": "seconds", "rate": "memory_rate", "random": "random_share", "error": "error_seconds"}
    columns = {name: _numbers(table[column].fill_null(0.0)) for name, column in numbers.items()}
    return {
        "name": times.machine,
        "projected": bool(times.header.get("projected")),
        "seconds": times.seconds,
        "levels": times.levels,
        **{f"block_{name}": values for name, values in columns.items()},
        "block_hits": [_numbers(table[HIT_RATE + level]) for level in times.levels],
        "block_limit": _named(pl.Series(largest_causes(table), dtype=pl.String)),
        "block_location": _named(table["data_set_location"].fill_null("")),
        "maps": None if machine is None or not machine.maps else _maps(machine, times, order),
    }


def _maps(machine: MachineProfile, times: BlockTimes, order: pl.DataFrame) -> dict[str, Any]:
    rows = dict(order.select("block", "row").iter_rows())
    points = block_points(machine, times)[:CIRCLES]
    return {
        "curves": [
            {"label": label, "points": [[p.working_set_bytes, 1 / p.seconds_per_reference] for p in curve.points]}
            for label, curve in shown_curves(machine)
        ],
        "edges": [[level.level, level.size_bytes] for level in machine.hierarchy],
        "circles": [
            [rows[p["block"]], round(p["working_set_bytes"]), round(p["share"], 6)] for p in points if p["block"] in rows
        ],
    }


def _timeline(timeline: Timeline) -> dict[str, Any]:
    from convolver.mpi.timeline import STATES

    length = pl.col("end") - pl.col("begin")
    whole = timeline.intervals.filter(length > 0)
    table = whole.sort(length, descending=True).head(INTERVALS).sort("rank", "begin")
    return {
        "seconds": timeline.predicted_seconds,
        "ranks": timeline.ranks.height,
        "each": timeline.each,
        "states": STATES,
        "left_out": whole.height - table.height,
        "rank": table["rank"].to_list(),
        "state": table["state"].to_list(),
        "begin": _numbers(table["begin"], 6),
        "end": _numbers(table["end"], 6),
    }
