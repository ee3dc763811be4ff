"""Writes the result of a campaign (Parquet, JSON, parity plot) and prints it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from convolver.errors import ToolNotFoundError
from convolver.plotting import style
from convolver.reporting.console import out
from convolver.reporting.grid import grid
from convolver.units import counted, format_seconds, format_share
from convolver.validating.validation import Validation

PICTURE = "parity.svg"


def write_result(result: Validation, folder: Path) -> list[Path]:
    """Write everything into the folder; returns what was written. Without matplotlib there is no picture."""
    table, document = (folder / f"validation.{suffix}" for suffix in ("parquet", "json"))
    result.save(table)
    result.save_json(document)
    picture = folder / PICTURE
    return [table, document, *([picture] if _draw(result, picture) else [])]


def _draw(result: Validation, path: Path) -> bool:
    from convolver.plotting.campaign_parity import draw

    try:
        style.picture(path, lambda look: draw(result.rows, look))
    except ToolNotFoundError:
        return False
    return True


def print_result(result: Validation) -> None:
    """Print programs, errors and what was left out on stdout."""
    from convolver.reporting.metadata import metadata

    console = out()
    conditions = list(dict.fromkeys(row["condition"] for row in result.rows))
    programs = len({row["program"] for row in result.rows})
    measured = f"{counted(programs, 'program')} under {', '.join(conditions)}"
    console.print(metadata(("campaign", result.header.get("campaign")), ("measured", measured), inputs={"validation": result.id}))
    console.print()
    words = ["program", "input", "condition", "trace", "method"]
    table = grid(words, ["predicted", "measured", "error", "in interval"])
    for row in result.rows:
        names = [row[name] for name in ("program", "input", "condition", "mode", "method")]
        seconds = [format_seconds(row[name]) for name in ("predicted_seconds", "measured_seconds")]
        table.add_row(*names, *seconds, f"{row['error']:+.1%}", "yes" if row["covered"] else "no")
    console.print(table)
    console.print()
    console.print(_errors(result.statistics()))
    for name, reason in {**result.header["left_out"], **result.header["refused"]}.items():
        console.print(f"left out: {name}: {reason}")


def _errors(entries: list[dict[str, Any]]) -> Any:
    names = ("condition", "mode", "method", "origin", "count")
    table = grid(names, ["median", "mean", "90th", "worst", "in interval", "CPU ratio median", "worst"])
    for entry in entries:
        error, ratio = entry["error"], entry["cpu_ratio_error"]
        sizes = [format_share(error[name], 1) for name in ("median", "mean", "ninetieth", "worst")]
        ends = [format_share(ratio[name], 1) for name in ("median", "worst")] if ratio else ["", ""]
        table.add_row(*(str(entry[name]) for name in names), *sizes, format_share(entry["coverage"]), *ends)
    return table
