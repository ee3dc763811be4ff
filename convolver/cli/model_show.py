"""How ``convolver model`` shows a model and what it was validated with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from convolver.cli.common import AsData, say
from convolver.reporting.console import out
from convolver.reporting.grid import Table, grid

if TYPE_CHECKING:
    from convolver.modeling.model_artifact import Model

_ERROR = "_relative_error"
_OWN = ("P", "samples", "alpha_seconds", "beta_latencies", "gamma_bytes", "not_significant", "own_max_relative_error")


def show_model(model: Model, as_data: AsData) -> None:
    """Print a model: equation, terms with errors and flags, quality, validation, baselines."""
    summary = model.summary()
    if as_data.printed(lambda: summary, lambda: summary["terms"]):
        return
    from convolver.reporting.metadata import metadata

    console = out()
    console.print(metadata(*_about(model), inputs={"model": model.id, **model.provenance.get("inputs", {})}))
    console.print()
    console.print(model.equation())
    with_units = any(term.unit for term in model.terms)
    table = grid(["term"], ["coefficient", "standard error", "p", "flag", *(["unit"] if with_units else [])])
    for term in model.terms:
        numbers = (cell(term.coefficient), cell(term.standard_error), "-" if term.p is None else f"{term.p:.2g}")
        table.add_row(term.expression, *numbers, term.flag, *([term.unit] if with_units else []))
    console.print(table)
    for name, value in model.quality.items():
        console.print(f"{name}: {cell(value)}")
    for title, rows in tables_of(model):
        console.print()
        console.print(grid_of(rows, title))
    for baseline in model.baselines:
        console.print(f"baseline {baseline.name}: {_rounded(baseline.formula)}")
    for note in model.notes:
        say(note)


def _rounded(formula: str) -> str:
    """Return a formula with its long numbers cut to six digits."""
    return re.sub(r"\d+\.\d+(?:e[-+]?\d+)?", lambda found: f"{float(found[0]):.6g}", formula)


def _about(model: Model) -> list[tuple[str, str]]:
    units = {model.target: model.unit, **model.feature_units}
    named = {
        name: f"{name} ({units[name]})" if units.get(name, "") not in ("", "1") else name
        for name in (model.target, *model.features)
    }
    ranges = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in model.domain.items())
    predicts = f"{named[model.target]} from {', '.join(named[name] for name in model.features)}"
    return [("model", model.name), ("kind", model.kind), ("predicts", predicts), ("data", ranges)]


def tables_of(model: Model) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the validation table in two parts that a terminal holds: the fit of each P alone, and the model's errors."""
    if not model.validation:
        return []
    own = [{name: row[name] for name in _OWN if name in row} for row in model.validation]
    model_errors = [{name: row[name] for name in ("P", *(key for key in row if key not in _OWN))} for row in model.validation]
    return [("Each P alone, on its samples", own), ("Over all P: errors of the model, and without the P", model_errors)]


def grid_of(rows: Sequence[Mapping[str, Any]], title: str = "") -> Table:
    """Return a table of rows; relative errors are per cent, coefficients that are not significant marked N.S."""
    names = [name for name in rows[0] if name != "not_significant"]
    table = grid([], [name.removesuffix(_ERROR).replace("_", " ") for name in names], title)
    for row in rows:
        flagged = str(row.get("not_significant", "")).split(", ")
        table.add_row(*(_marked(name, row[name], name.split("_")[0] in flagged) for name in names))
    return table


def _marked(name: str, value: Any, flagged: bool) -> str:
    if name.endswith(_ERROR) and value is not None:
        return f"{100 * value:.3f} %"
    return f"{cell(value)} N.S." if flagged else cell(value)


def cell(value: Any) -> str:
    """Return a value of a table: six digits, yes or no, - for none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
