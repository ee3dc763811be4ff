"""A validation as Markdown: what docs/validation.md shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from convolver.validating.statistics import STATED
from convolver.validating.validation import Validation

_NOT_THE_RESULT = "All rows are there, good or bad; nothing is fitted to these programs."


def markdown(validation: Validation, picture: str | None = None) -> str:
    """Return the page: the machine, the statistics, each row, the CPU ratios, and what was left out."""
    header = validation.header
    parts = [f"# Validation: {header['campaign']}", "", *_machine(header), "", _NOT_THE_RESULT, ""]
    if picture:
        parts += [f"![predicted over measured]({picture})", ""]
    parts += ["## Errors", "", *_statistics(validation), "", "## Programs", "", *_rows(validation)]
    if ratios := validation.cpu_ratios():
        parts += ["", "## CPU ratios", "", *_ratios(ratios, validation.base)]
    if pairs := validation.pair_statistics():
        parts += ["", "## CPU ratios between machines", "", *_pairs(pairs)]
    if gone := {**header["left_out"], **header["refused"]}:
        parts += ["", "## Left out", "", *(f"- {name}: {reason}" for name, reason in gone.items())]
    return "\n".join(parts) + "\n"


def _machine(header: dict[str, Any]) -> list[str]:
    machine = header["machine"]
    noise = machine["noise"]
    words = [
        f"Measured {header['created']} on {machine['cpu'] or 'an unknown CPU'} ({machine['cpus']} CPUs, {machine['system']}), "
        f"{header['runs']} interleaved runs each; predicted by Convolver {header['convolver']}.",
        f"Meanwhile other programs used {noise['others']:.0%} of the CPUs and the hypervisor took {noise['steal']:.0%}.",
    ]
    if noise["busy"]:
        words.append("**The machine was busy: take these figures as a lower bound of what the method can do.**")
    return words


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(columns), _line(["---"] * len(columns)), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f} %"


def _signed(value: float) -> str:
    return f"{100 * value:+.0f} %"


def _statistics(validation: Validation) -> list[str]:
    columns = ["condition", "trace", "method", "programs", "count", "median", "mean", "90th percentile", "worst"]
    columns += ["median of user time", f"in the {STATED:.0%} interval", "CPU ratio median", "CPU ratio worst"]
    rows = []
    for entry in validation.statistics():
        error, ratio, user = entry["error"], entry["cpu_ratio_error"] or {}, entry["error_of_user_time"] or {}
        names = [str(entry[name]) for name in ("condition", "mode", "method", "origin", "count")]
        sizes = [_percent(error[name]) for name in ("median", "mean", "ninetieth", "worst")]
        ends = [_percent(user.get("median")), _percent(entry["coverage"], 0)]
        ends += [_percent(ratio.get(name)) for name in ("median", "worst")]
        rows.append([*names, *sizes, *ends])
    return _table(columns, rows)


def _rows(validation: Validation) -> list[str]:
    columns = [
        "program",
        "input",
        "condition",
        "trace",
        "method",
        "memops",
        "predicted s",
        "of it system s",
        "of it waited s",
        "interval s",
        "measured s",
    ]
    columns += ["user + system s", "± runs", "error", "coverage", "slowdown"]
    rows = []
    for row in validation.rows:
        user = "" if row["user_seconds"] is None else f"{row['user_seconds']:.3f} + {row['system_seconds']:.3f}"
        rows.append(
            [
                *(str(row[name]) for name in ("program", "input", "condition", "mode", "method")),
                f"{row['memops'] / 1e6:,.0f} M",
                f"{row['predicted_seconds']:.3f}",
                *("" if row.get(name) is None else f"{row[name]:.3f}" for name in ("predicted_system_seconds", "waited_seconds")),
                f"{row['low_seconds']:.3f} to {row['high_seconds']:.3f}",
                f"{row['measured_seconds']:.3f}" + (" (wall)" if row["timed"] == "wall" else ""),
                user,
                _percent(row["spread"]),
                _signed(row["error"]),
                _percent(row["coverage"]),
                "" if row["slowdown"] is None else f"{row['slowdown']:.1f}",
            ]
        )
    return _table(columns, rows)


def _pairs(entries: Sequence[dict[str, Any]]) -> list[str]:
    columns = ["of", "over", "trace", "method", "programs", "count", "median", "mean", "worst", f"in the {STATED:.0%} interval"]
    rows = []
    for entry in entries:
        names = [str(entry[name]) for name in ("base", "target", "mode", "method", "origin", "count")]
        sizes = [_percent(entry["error"][name]) for name in ("median", "mean", "worst")]
        rows.append([*names, *sizes, _percent(entry["coverage"], 0)])
    return _table(columns, rows)


def _ratios(ratios: Sequence[dict[str, Any]], base: str) -> list[str]:
    columns = ["program", "input", f"{base} over", "trace", "method", "predicted", "measured", "± rounds", "error"]
    rows = [
        [
            *(str(row[name]) for name in ("program", "input", "condition", "mode", "method")),
            f"{row['predicted']:.3f}",
            f"{row['measured']:.3f}",
            _percent(row["spread"]),
            _signed(row["error"]),
        ]
        for row in ratios
    ]
    return _table(columns, rows)
