"""Artifacts in other tools' formats: callgrind's profiles, Chrome trace events, collapsed stacks and speedscope's JSON.

Callgrind: Valgrind manual, "Callgrind Format Specification", version 1. Costs are kept a line of a function; names are compressed
as the specification allows. Counts are the signature's own, exact; misses are accesses times simulated miss ratios; times are
whole picoseconds, so that sums over many small blocks lose nothing that matters.

Chrome: Google, "Trace Event Format": begins and ends (B, E), flows (s, f) for messages, metadata (M), in microseconds. Without
``displayTimeUnit``: Perfetto takes the "ns" that is meant for display as the unit of all times, which are then a thousandth.

Stacks: there are no calls in a signature; a stack here is module, function, place, and what limits it: it groups, it does not say
who called whom.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver import __version__
from convolver.convolution.block_times import HIT_RATE, BlockTimes
from convolver.convolution.limit_shares import KERNEL, LIMIT, WAITING
from convolver.errors import PredictionError, ProvenanceError
from convolver.heavy import pl
from convolver.mpi.timeline import STATES, Timeline
from convolver.reporting.limiters import LABELS

if TYPE_CHECKING:
    from convolver.signature.signature import Signature


COUNTS = {
    "Ir": ("instructions", "Instructions"),
    "Dr": ("loads", "Loads"),
    "Dw": ("stores", "Stores"),
    "Flop": ("flops", "Floating-point operations"),
}
UNKNOWN = "???"
"""callgrind's own word for an unknown file or function."""


def events(times: BlockTimes | None) -> dict[str, str]:
    """Return name and meaning of every cost: counts, then misses by level and picoseconds where there are block times."""
    found = {name: meaning for name, (_, meaning) in COUNTS.items()}
    if times is not None:
        found |= {f"{level}m": f"References that miss {level} of {times.machine}" for level in times.levels}
        found["Ps"] = f"Predicted picoseconds on {times.machine}"
    return found


def costs(signature: Signature, times: BlockTimes | None = None) -> pl.DataFrame:
    """Return module, file, function, line and one whole-numbered column a cost, summed by line, in the order of the names.

    Raises :class:`ProvenanceError` when the times are of another signature.
    """
    counts = [pl.col(column).alias(name) for name, (column, _) in COUNTS.items()]
    table = signature.table.select("block", "module", "file", "function", "line", "memops", *counts)
    if times is not None:
        if times.inputs.get("signature") != signature.id:
            raise ProvenanceError("The block times are of another signature; give the one that they were convolved from.")
        rates = {f"{level}m": HIT_RATE + level for level in times.levels}
        table = table.join(times.table.select("block", "seconds", *rates.values()), on="block", how="left")
        floats = {name: pl.col("memops") * (1 - pl.col(rate).fill_null(1.0)) for name, rate in rates.items()}
        floats["Ps"] = pl.col("seconds").fill_null(0.0) * 1e12
        table = table.with_columns(value.round().cast(pl.UInt64).alias(name) for name, value in floats.items())
    keys = ["module", "file", "function", "line"]
    return table.group_by(keys).agg(pl.col(*events(times)).sum()).sort(keys)


class _Names:
    """Compresses names: ``(1) name`` on first use, ``(1)`` after."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        text = name or UNKNOWN
        if text in self._known:
            return f"({self._known[text]})"
        self._known[text] = len(self._known) + 1
        return f"({self._known[text]}) {text}"


def callgrind(signature: Signature, times: BlockTimes | None = None) -> Iterator[str]:
    """Yield the profile line by line, without line ends."""
    table = costs(signature, times)
    names = list(events(times))
    total = " ".join(str(int(table[name].sum())) for name in names)
    yield "# callgrind format"
    yield "version: 1"
    yield f"creator: convolver-{__version__}"
    yield f"cmd: {' '.join(str(word) for word in signature.header.get('command') or ['?'])}"
    yield f"desc: Convolver signature: {signature.id}"
    if times is not None:
        yield f"desc: Convolver block times: {times.id} ({times.machine})"
    yield "positions: line"
    for name, meaning in events(times).items():
        yield f"event: {name} : {meaning}"
    yield f"events: {' '.join(names)}"
    yield f"summary: {total}"
    yield ""
    yield from _bodies(table, names)
    yield f"totals: {total}"


def _bodies(table: pl.DataFrame, names: list[str]) -> Iterator[str]:
    modules, files, functions = _Names(), _Names(), _Names()
    before: tuple[str, str, str] | None = None
    for module, file, function, line, *values in table.select("module", "file", "function", "line", *names).iter_rows():
        if (module, file, function) != before:
            if before is not None:
                yield ""
            yield f"ob={modules(module)}"
            yield f"fl={files(file)}"
            # callgrind_annotate adds up equal names of all objects, so an unknown function is named after its own
            yield f"fn={functions(function or f'{Path(module).name}:{UNKNOWN}')}"
            before = (module, file, function)
        yield f"{line} {' '.join(map(str, values))}"
    if before is not None:
        yield ""


NANOSECONDS = 1e9
PROCESS = 1


def _named(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": PROCESS, "tid": thread, "args": {"name": name}}


def _microseconds(seconds: float) -> float:
    """Return the time to the nanosecond: one and the same moment is written in one way."""
    return round(seconds * NANOSECONDS) / 1000


def _intervals(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield a begin and an end for each interval, rank by rank.

    Not complete events with a duration: begin + duration is seldom the next begin, and readers then take the next one as nested.
    Ends repeat name and arguments, since some readers look for their begin by them.
    """
    for row in timeline.intervals.sort("rank", "begin", "end").iter_rows(named=True):
        begin, end = _microseconds(row["begin"]), _microseconds(row["end"])
        if end <= begin:
            continue
        details = {"record": row["record"], **{name: row[name] for name in ("message", "cause") if row[name] >= 0}}
        same = {
            "name": STATES[row["state"]],
            "cat": "compute" if row["state"] == 1 else "mpi" if timeline.each == "rank" else "wait",
            "args": details,
        }
        yield {"ph": "B", **same, "pid": PROCESS, "tid": row["rank"], "ts": begin}
        yield {"ph": "E", **same, "pid": PROCESS, "tid": row["rank"], "ts": end}


def _messages(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield a flow for each message, from the call that sends it to when it is there and asked for.

    Not to the call that asks for it, which may come before the message is sent: readers drop flows that end before they begin.
    """
    for number, row in enumerate(timeline.messages.iter_rows(named=True)):
        same = {"name": "message", "cat": "message", "id": number, "pid": PROCESS}
        details = {"bytes": row["bytes"], "tag": row["tag"]}
        yield {**same, "ph": "s", "tid": row["source"], "ts": _microseconds(row["logical_send"]), "args": details}
        end = max(row["logical_receive"], row["physical_receive"])
        yield {**same, "ph": "f", "bp": "e", "tid": row["destination"], "ts": _microseconds(end)}


def trace_events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield the events; raises :class:`PredictionError` when the replay recorded no intervals."""
    if timeline.intervals.is_empty():
        raise PredictionError("This timeline has no intervals: replay with -o FILE or --prv, which record them.")
    yield _named("process_name", 0, "predicted run")
    for rank in timeline.ranks["rank"]:
        yield _named("thread_name", rank, f"{timeline.each} {rank}")
        yield {"ph": "M", "name": "thread_sort_index", "pid": PROCESS, "tid": rank, "args": {"sort_index": rank}}
    yield from _intervals(timeline)
    yield from _messages(timeline)


def chrome(timeline: Timeline) -> Iterator[str]:
    """Yield the JSON document line by line: one event a line, so that a large one is never held in memory as text."""
    about = {"predicted_seconds": timeline.predicted_seconds, "timeline": timeline.id}
    yield f'{{"otherData": {json.dumps(about)}, "traceEvents": ['
    before = ""
    for event in trace_events(timeline):
        if before:
            yield before + ","
        before = json.dumps(event)
    yield before
    yield "]}"


Frames = tuple[str, ...]


def _frames(row: dict[str, Any]) -> Frames:
    module = Path(row["module"]).name or "?"
    place = f"{Path(row['file']).name}:{row['line']}" if row["file"] else f"block {row['block']}"
    return tuple(name.replace(";", ":") for name in (module, row["function"] or "?", place))


def _cause(column: str) -> str:
    name = column.removeprefix(LIMIT)
    return LABELS.get(name, name.replace("_", " "))


def stacks(times: BlockTimes) -> dict[Frames, float]:
    """Return seconds by (module, function, place, cause), the largest first; without a cause in times that know none. The
    kernel and waiting have stacks of their own."""
    found: dict[Frames, float] = {(LABELS[name],): seconds for name, seconds in times.limits.items() if name in (KERNEL, WAITING)}
    causes = [name for name in times.table.columns if name.startswith(LIMIT)]
    for row in times.table.iter_rows(named=True):
        frames = _frames(row)
        parts = {(*frames, _cause(name)): row[name] for name in causes} or {frames: row["seconds"]}
        for stack, seconds in parts.items():
            if seconds:
                found[stack] = found.get(stack, 0.0) + seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def collapsed(times: BlockTimes) -> Iterator[str]:
    """Yield one stack a line with whole nanoseconds; stacks below half a nanosecond are left out."""
    for frames, seconds in stacks(times).items():
        nanoseconds = round(seconds * 1e9)
        if nanoseconds:
            yield f"{';'.join(frames)} {nanoseconds}"


def speedscope(times: BlockTimes) -> Iterator[str]:
    """Yield speedscope's JSON (https://www.speedscope.app/file-format-schema.json), a sampled profile weighted in seconds."""
    index: dict[str, int] = {}
    found = stacks(times)
    samples = [[index.setdefault(frame, len(index)) for frame in frames] for frames in found]
    total = sum(found.values())
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"convolver {__version__}",
        "name": " ".join(str(word) for word in times.header.get("command") or ["?"]),
        "shared": {"frames": [{"name": name} for name in index]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"predicted on {times.machine}",
                "unit": "seconds",
                "startValue": 0,
                "endValue": total,
                "samples": samples,
                "weights": list(found.values()),
            }
        ],
    }
    yield json.dumps(document)
