"""``convolver model``: fit statistical models, apply and show them, convert measurement tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convolver.cli import completing
from convolver.cli.common import AsData, Dark, Force, Json, new_file, say, wrote
from convolver.cli.model_show import cell, grid_of, show_model
from convolver.cli.model_traces import traces
from convolver.cli.verb_group import new_group
from convolver.errors import UsageError
from convolver.plotting import style
from convolver.reporting.console import out, terminal_progress
from convolver.reporting.grid import grid

if TYPE_CHECKING:
    from convolver.modeling.model_artifact import Model
    from convolver.modeling.table import Observations


verb = new_group("Fit, apply and show statistical models.")


def parse_value(text: str) -> Any:
    """Return an option's value: a number, true or false, a mapping (``g:1e-9:1e-3,h:1:1.5``), a list at commas, or the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if ":" in text:
        words = [part.split(":") for part in text.split(",")]
        return {name: parse_value(rest[0]) if len(rest) == 1 else [parse_value(word) for word in rest] for name, *rest in words}
    return [parse_value(part) for part in text.split(",")] if "," in text and "(" not in text else text


def parse_pairs(pairs: list[str]) -> dict[str, Any]:
    """Return ``NAME=VALUE`` words as a dictionary; raises :class:`UsageError` for a word without ``=``."""
    result = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"'{pair}' is not NAME=VALUE; write for example P=64.")
        result[name] = parse_value(value)
    return result


@verb.command("fit")
def fit_command(
    table: Annotated[Path, typer.Argument(help="Measurement table: .parquet, .csv, .jsonl, .json or .txt.")],
    kind: Annotated[
        str,
        typer.Option(
            "--kind", "-k", help="Kind of model; 'convolver model kinds' lists them.", autocompletion=completing.model_kinds
        ),
    ],
    target: Annotated[str, typer.Option("--metric", "-y", help="Metric to model.")],
    features: Annotated[str, typer.Option("--features", "-x", help="Parameters or metrics to model it with, at commas.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Model file; default NAME-KIND.model.json.")] = None,
    callpath: Annotated[str | None, typer.Option(help="Callpath to model, where the table has several.")] = None,
    center: Annotated[str, typer.Option(help="Point of the repetitions: median, minimum, mean or none.")] = "median",
    option: Annotated[
        list[str] | None, typer.Option("--option", "-s", help="NAME=VALUE option of the model; repeatable.")
    ] = None,
    unit: Annotated[list[str] | None, typer.Option("--unit", help="NAME=UNIT of a parameter, such as L=s; repeatable.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit a model to a table of measurements and write it as an artifact.

    \b
    Examples:
      convolver model fit runs.jsonl --kind normal-form --metric time --features p
      convolver model fit runs.csv -k analytic -y time -x N,P,L2CM -s "formula=1 + N^3/P + L2CM"
      convolver model fit runs.csv -k analytic -y time -x P,L --unit L=s -s "formula=1 + log2(P)*L"
    """
    from convolver.modeling.base import fit

    path = new_file(output or Path(f"{table.name.split('.')[0]}-{kind}.model.json"), force)
    names = [name.strip() for name in features.split(",") if name.strip()]
    options = parse_pairs(option or [])
    units = {name: str(value) for name, value in parse_pairs(unit or []).items()}
    given: dict[str, Any] = {"target": target, "features": names, "callpath": callpath, "center": center, "units": units}
    model = fit(kind, table, progress=terminal_progress(), **given, **options)
    model.save(path)
    show_model(model, AsData(as_json=json))
    wrote(path)


@verb.command("apply")
def apply_command(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    point: Annotated[list[str], typer.Argument(help="FEATURE=VALUE words; a value may be a list at commas.")],
    level: Annotated[float, typer.Option("--confidence", help="Level of the prediction interval.")] = 0.95,
    as_data: AsData = AsData(),
) -> None:
    """Predict at a point, with interval and baselines; a point outside the data is named in a warning.

    \b
    Examples:
      convolver model apply bt-normal-form.model.json p=1024
      convolver model apply bt.model.json P=36,49,64 L=1e-5 BW=1e8 --json
    """
    rows = _applied(model, point, level)
    if not as_data.printed(lambda: rows):
        out().print(_grid(rows))


def _applied(path: Path, point: list[str], level: float) -> list[dict[str, Any]]:
    import numpy as np

    from convolver.modeling.model_artifact import Model

    if not 0 < level < 1:
        raise UsageError(f"The level {level} is no probability between 0 and 1.")
    model = Model.load(path)
    given = {name: np.atleast_1d(_finite(name, value)) for name, value in parse_pairs(point).items()}
    known = dict.fromkeys([*model.features, *(lookup.of for lookup in model.tables.values())])
    if unknown := next((name for name in given if name not in known), None):
        raise UsageError(f"The model '{model.name}' has no feature '{unknown}'; it has {', '.join(known)}.")
    size = max((len(value) for value in given.values()), default=1)
    if any(len(value) not in (1, size) for value in given.values()):
        raise UsageError("The lists of values have different lengths; give one value or as many as the longest list.")
    x = {name: np.broadcast_to(value, (size,)) for name, value in given.items()}
    result, baselines = model.predict(x, level), model.baseline_values(x)
    rows = []
    for index in range(size):
        row: dict[str, Any] = {name: float(value[index]) for name, value in x.items()}
        numbers = [float(values[index]) for values in (result.values, result.low, result.high)]
        row[model.target], row["low"], row["high"] = (number if math.isfinite(number) else None for number in numbers)
        row["outside"] = bool(result.outside[index])
        row["baselines"] = {name: float(values[index]) for name, values in baselines.items()}
        rows.append(row)
    return rows


def _finite(name: str, value: Any) -> Any:
    import numpy as np

    try:
        numbers = np.asarray(value, dtype=np.float64)
    except ValueError:
        numbers = np.array(np.nan)
    if not np.isfinite(numbers).all():
        raise UsageError(f"The value of {name} is no number; write for example {name}=64 or {name}=16,32,64.")
    return numbers


def _grid(rows: list[dict[str, Any]]) -> Any:
    plain = [name for name in rows[0] if name != "baselines"]
    table = grid([], [*plain, *rows[0]["baselines"]])
    for row in rows:
        cells = [row[name] for name in plain] + list(row["baselines"].values())
        table.add_row(*map(cell, cells))
    return table


@verb.command("show")
def show_command(model: Annotated[Path, typer.Argument(help="Model file.")], as_data: AsData = AsData()) -> None:
    """Print a model: equation, terms with errors and flags, domain, quality, baselines.

    \b
    Examples:
      convolver model show bt.model.json
      convolver model show bt.model.json --json
    """
    from convolver.modeling.model_artifact import Model

    show_model(Model.load(model), as_data)


def observations_of(model: Model, table: Path, feature: str | None, callpath: str | None) -> Observations:
    """Return all repetitions of measurements that a model can be compared with; raises :class:`UsageError` where ``feature`` is
    none of the model's."""
    from convolver.modeling.table import Table

    names = [name for name in model.features if name not in model.tables]
    if feature is not None and feature not in names:
        raise UsageError(f"'{feature}' is no feature of the model '{model.name}'; it has {', '.join(names)}.")
    return Table.load(table, model.target).observations(model.target, names, callpath=callpath, center="none")


@verb.command("check")
def check_command(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    table: Annotated[Path, typer.Argument(help="Measurement table, best one that the model has not seen.")],
    by: Annotated[str | None, typer.Option(help="Feature whose values are the rows; default the first.")] = None,
    callpath: Annotated[str | None, typer.Option(help="Callpath to model, where the table has several.")] = None,
    as_data: AsData = AsData(),
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
    if not as_data.printed(lambda: rows):
        out().print(grid_of(rows, f"{loaded.name} on {table.name}"))


@verb.command("residuals")
def residuals_command(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    table: Annotated[Path, typer.Argument(help="Measurement table to compare it with.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Picture: .png, .svg or .pdf.")],
    feature: Annotated[str | None, typer.Option(help="Feature of the horizontal axis; default the first.")] = None,
    callpath: Annotated[str | None, typer.Option(help="Callpath to model, where the table has several.")] = None,
    dark: Dark = False,
    force: Force = False,
) -> None:
    """Draw a model against measurements: values over a feature, and the errors below.

    \b
    Examples:
      convolver model residuals bt.model.json runs.parquet -o bt.svg
      convolver model residuals product.model.json product.parquet -o product.png --feature N
    """
    from convolver.modeling.model_artifact import Model
    from convolver.plotting import residuals

    new_file(style.check_format(output), force)
    loaded = Model.load(model)
    data = observations_of(loaded, table, feature, callpath)
    style.picture(output, lambda look: residuals.draw(loaded, data, look, feature=feature), dark=dark)
    wrote(output)


@verb.command("convert")
def convert_command(
    source: Annotated[Path, typer.Argument(help="Table to read.")],
    target: Annotated[Path, typer.Argument(help="Table to write; its ending is the format.")],
    force: Force = False,
) -> None:
    """Convert a measurement table between Parquet, CSV and Extra-P's JSON Lines, JSON and text.

    \b
    Examples:
      convolver model convert runs.parquet runs.jsonl
      convolver model convert extrap.txt runs.parquet
    """
    from convolver.modeling.table import Table

    new_file(target, force)
    Table.load(source).save(target)
    wrote(target)


@verb.command("collect")
def collect_command(
    source: Annotated[Path, typer.Argument(help="Folder of the CALL runtime's records, one such file, or XML.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Table (.parquet, .csv, .jsonl, ...), .xml or .prv.")],
    monitor: Annotated[Path | None, typer.Option(help="CSV of a monitor: host, time, latency, bandwidth, ...")] = None,
    metrics: Annotated[
        Path | None, typer.Option(help="CSV of metrics by parameters: N, P, L1CM, ... (simulated cache misses, for example).")
    ] = None,
    by_rank: Annotated[bool, typer.Option("--by-rank", help="Keep the ranks apart.")] = False,
    app: Annotated[str, typer.Option(help="Name of the program.")] = "",
    force: Force = False,
) -> None:
    """Collect the records of an instrumented program into a table, join them with a monitor or other metrics, or convert them.

    \b
    Examples:
      convolver model collect records/ -o product.parquet
      convolver model collect records/ -o product.xml --monitor network.csv
      convolver model collect records/ -o product.parquet --metrics misses.csv
    """
    from convolver.modeling.call.records import (
        formulas,
        join_metrics,
        join_monitor,
        read_records,
        to_table,
        troubles,
        write_paraver,
        write_xml,
    )

    new_file(output, force)
    records = read_records(source)
    if monitor:
        records = join_monitor(records, monitor)
    if metrics:
        records = join_metrics(records, metrics)
    if output.suffix == ".xml":
        write_xml(records, output)
    elif output.suffix == ".prv":
        write_paraver(records, output)
    else:
        to_table(records, app=app, by_rank=by_rank).save(output)
    for text in troubles(records):
        say(text)
    for region, formula in formulas(records).items():
        say(f"{region}: formula {formula}")
    wrote(output)


@verb.command("kinds")
def kinds_command(as_data: AsData = AsData()) -> None:
    """List the kinds of models with what each is for.

    \b
    Examples:
      convolver model kinds
      convolver model kinds --json
    """
    from convolver.modeling.base import MODELERS, modeler

    rows = {kind: (modeler(kind).__doc__ or "").split("\n")[0].split(";")[0] for kind in sorted(MODELERS)}
    if not as_data.printed(lambda: rows, lambda: [{"kind": kind, "meaning": text} for kind, text in rows.items()]):
        for kind, text in rows.items():
            typer.echo(f"{kind:14} {text}")


verb.add_typer(traces)
