"""Block times as stacks: collapsed (flamegraph.pl, inferno, speedscope) and speedscope's own JSON.

There are no call stacks in a signature; a stack here is module, function, place, and what limits it: it groups, it does not say
who called whom.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver import __version__
from convolver.convolution.limit_shares import KERNEL, LIMIT, WAITING
from convolver.reporting.limiters import LABELS

if TYPE_CHECKING:
    from convolver.convolution.block_times import BlockTimes


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
