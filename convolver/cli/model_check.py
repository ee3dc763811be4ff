"""``convolver model check``: errors of a model on measurements that it was not fitted to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import Csv, Json, printed
from convolver.cli.model_show import grid_of
from convolver.errors import UsageError
from convolver.reporting.console import out


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
    from convolver.modeling.table import Table

    loaded = Model.load(model)
    names = [name for name in loaded.features if name not in loaded.tables]
    feature = by or names[0]
    if feature not in names:
        raise UsageError(f"'{feature}' is no feature of the model '{loaded.name}'; it has {', '.join(names)}.")
    data = Table.load(table, loaded.target).observations(loaded.target, names, callpath=callpath, center="none")
    rows = checked(data.x[feature], data.y, loaded.apply(data.x), feature)
    if not printed(json, csv, lambda: rows):
        out().print(grid_of(rows, f"{loaded.name} on {table.name}"))
