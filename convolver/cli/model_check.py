"""``convolver model check``: errors of a model on measurements that it was not fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convolver.cli.common import Csv, Json, printed
from convolver.cli.model_show import grid_of
from convolver.errors import UsageError
from convolver.reporting.console import out

if TYPE_CHECKING:
    from convolver.modeling.model_artifact import Model
    from convolver.modeling.table import Observations


def observations_of(model: Model, table: Path, feature: str | None, callpath: str | None) -> Observations:
    """Return all repetitions of measurements that a model can be compared with; raises :class:`UsageError` where ``feature`` is
    none of the model's."""
    from convolver.modeling.table import Table

    names = [name for name in model.features if name not in model.tables]
    if feature is not None and feature not in names:
        raise UsageError(f"'{feature}' is no feature of the model '{model.name}'; it has {', '.join(names)}.")
    return Table.load(table, model.target).observations(model.target, names, callpath=callpath, center="none")


def check_command(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    table: Annotated[Path, typer.Argument(help="Measurement table, best one that the model has not seen.")],
    by: Annotated[str | None, typer.Option(help="Feature whose values are the rows; default the first.")] = None,
    callpath: Annotated[str | None, typer.Option(help="Callpath to model, where the table has several.")] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Compare a model with measurements: mean and largest relative error for each value of a feature, and over all.

    \b
    Examples:
      convolver model check sp.model.json other_networks.parquet
      convolver model check product.model.json product.parquet --by N --json
    """
    from convolver.modeling.cross_validation import checked
    from convolver.modeling.model_artifact import Model

    loaded = Model.load(model)
    data = observations_of(loaded, table, by, callpath)
    feature = by or next(iter(data.x))
    rows = checked(data.x[feature], data.y, loaded.apply(data.x), feature)
    if not printed(json, csv, lambda: rows):
        out().print(grid_of(rows, f"{loaded.name} on {table.name}"))
