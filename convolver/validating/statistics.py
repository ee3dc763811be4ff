"""How good the predictions of a campaign are: errors, their distribution, coverage of the stated intervals, CPU ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, median
from typing import Any, NamedTuple


class Errors(NamedTuple):
    """Absolute relative errors of a set of predictions."""

    programs: int
    median: float
    mean: float
    ninetieth: float
    worst: float


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies, interpolated; ``values`` must not be empty."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def errors(signed: Iterable[float]) -> Errors | None:
    """Summarize signed relative errors; None without any."""
    sizes = [abs(error) for error in signed]
    if not sizes:
        return None
    return Errors(len(sizes), median(sizes), mean(sizes), percentile(sizes, 0.9), max(sizes))


def coverage(rows: Iterable[dict[str, Any]]) -> float | None:
    """Return the share of rows whose measured time lies in the prediction's interval; None without rows."""
    inside = [row["low_seconds"] <= row["measured_seconds"] <= row["high_seconds"] for row in rows]
    return sum(inside) / len(inside) if inside else None


def ratios(rows: Iterable[dict[str, Any]], base: str) -> list[dict[str, Any]]:
    """Return the CPU ratio (base time / other time) of every program between the base and each other condition.

    Measured is the median over the rounds in which the program ran undisturbed under both, where there was one, else the quotient
    of the medians. ``error`` is relative: predicted ratio / measured ratio - 1. ``spread``: half the range of the rounds' ratios
    over their median, None for a quotient of medians.
    Where either is timed as elapsed time, both are, and both wait for as long as the base was measured to.
    """
    keep = ("program", "input", "mode", "method")
    rows = list(rows)
    bases = {tuple(row[name] for name in keep): row for row in rows if row["condition"] == base}
    found = []
    for row in rows:
        first = bases.get(tuple(row[name] for name in keep))
        if first is None or row["condition"] == base:
            continue
        predicted = (first["predicted_seconds"] + (row.get("waited_seconds") or 0.0)) / row["predicted_seconds"]
        clock = "wall_seconds" if "wall" in (first["timed"], row["timed"]) else "measured_seconds"
        start, end = (one[clock] or one["measured_seconds"] for one in (first, row))
        measured = row.get("measured_ratio") or start / end
        found.append(
            {**{name: row[name] for name in keep}, "condition": row["condition"], "predicted": predicted, "measured": measured}
            | {"error": predicted / measured - 1, "spread": row.get("ratio_spread")}
        )
    return found


def summarize(rows: Sequence[dict[str, Any]], base: str) -> list[dict[str, Any]]:
    """Return errors, coverage and CPU-ratio errors by condition, mode and method: of all programs, and by origin."""
    ratio_rows = ratios(rows, base)
    origin_of = {(row["program"], row["input"]): row["origin"] for row in rows}

    def belongs(row: dict[str, Any], group: str) -> bool:
        return group in ("", origin_of[row["program"], row["input"]])

    groups = dict.fromkeys((row["condition"], row["mode"], row["method"]) for row in rows)
    names = ["", *dict.fromkeys(row["origin"] for row in rows if row["origin"])]
    found = []
    for condition, mode, method in groups:
        for name in names:
            chosen = [row for row in rows if _is(row, condition, mode, method) and belongs(row, name)]
            ratio = [row for row in ratio_rows if _is(row, condition, mode, method) and belongs(row, name)]
            found.append(_summary(chosen, ratio, condition, mode, method, name))
    return [entry for entry in found if entry["count"]]


def _is(row: dict[str, Any], condition: str, mode: str, method: str) -> bool:
    return (row["condition"], row["mode"], row["method"]) == (condition, mode, method)


def _user(row: dict[str, Any]) -> float:
    """Return the predicted user time of a row."""
    return float(row["predicted_seconds"] - (row.get("predicted_system_seconds") or 0.0))


def _summary(
    rows: Sequence[dict[str, Any]], ratio_rows: Sequence[dict[str, Any]], condition: str, mode: str, method: str, origin: str
) -> dict[str, Any]:
    of_time = errors(row["error"] for row in rows)
    processor = [row for row in rows if row["user_seconds"] and row["timed"] == "processor"]
    of_user = errors(_user(row) / row["user_seconds"] - 1 for row in processor)
    of_ratio = errors(row["error"] for row in ratio_rows)
    return {
        "condition": condition,
        "mode": mode,
        "method": method,
        "origin": origin or "all",
        "count": len(rows),
        "error": of_time._asdict() if of_time else None,
        "error_of_user_time": of_user._asdict() if of_user else None,
        "coverage": coverage(rows),
        "cpu_ratio_error": of_ratio._asdict() if of_ratio else None,
    }
