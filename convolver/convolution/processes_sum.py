"""One prediction for all processes of a command: their processor time together, and its ratio between machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from convolver.convolution.cpu_ratio import anchored


def sum_of_processes(documents: Sequence[Mapping[str, Any]], measured: float | None) -> dict[str, Any]:
    """Return base and target of a command as a prediction has them (docs/formats/prediction.md): sums over its processes.

    ``documents`` are predictions of the processes for the same two machines, ``measured`` seconds of all of them together. The
    errors of a machine's model are taken for the same in all processes, so that the ends of intervals add up.
    """
    sides = {name: _side([document[name] for document in documents]) for name in ("base", "target")}
    base = sides["base"]["seconds"]
    ends = None
    if all(document["cpu_ratio_interval"] is not None for document in documents):
        ends = [base / sum(one["base"]["seconds"] / one["cpu_ratio_interval"][end] for one in documents) for end in (0, 1)]
    ratio = base / sides["target"]["seconds"]
    sides["target"] |= anchored(measured, ratio, ends)
    return {**sides, "cpu_ratio": ratio, "cpu_ratio_interval": ends, "measured_seconds": measured}


def _side(sides: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    systems = [side["system_seconds"] for side in sides]
    return {
        "machine": sides[0]["machine"],
        "projected": sides[0]["projected"],
        "seconds": sum(side["seconds"] for side in sides),
        "interval_seconds": [sum(side["interval_seconds"][end] for side in sides) for end in (0, 1)],
        "system_seconds": None if None in systems else sum(systems),
    }
