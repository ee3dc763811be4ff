"""The registry of models and ``fit``, the one entry to all of them; the simple models that every other must beat.

A modeler is a function ``(data: Observations, **options) -> Model``; a new one is one file and one line here.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, get_type_hints

import msgspec
import numpy as np

from convolver import __version__
from convolver.errors import ModelError, ModelUsageError
from convolver.heavy import pl
from convolver.modeling.cross_validation import quality
from convolver.modeling.expression import Values, coefficient_unit, parse_unit
from convolver.modeling.model_artifact import Baseline, Model, Term
from convolver.modeling.regress import Fit, nnls, ols, relative_weights
from convolver.modeling.table import Observations, Table
from convolver.progress import SILENT, Progress

SCALING_NAMES = ("P", "p", "np", "procs", "ranks", "processes", "n")


def amdahl(x: Values, y: Values) -> tuple[float, float]:
    """Return (a, b) >= 0 of y = a + b / x by relative non-negative least squares."""
    fit = nnls(y, np.column_stack([np.ones_like(x), 1 / x]), ("1", "1/x"), relative_weights(y))
    return fit["1"], fit["1/x"]


def constant_work(x: Values, y: Values) -> float:
    """Return the mean of x y: total work, if it did not change with x."""
    return float(np.mean(x * y))


def scaling_feature(features: tuple[str, ...]) -> str | None:
    """Return the feature that counts processes: one with a usual name, or the only one."""
    named = [name for name in features if name in SCALING_NAMES]
    if named:
        return named[0]
    return features[0] if len(features) == 1 else None


def baselines(data: Observations) -> tuple[Baseline, ...]:
    """Return the baselines that the data allow: power law over all features, and over the process count Amdahl, ideal scaling
    of the last point and the last point itself."""
    result = [Baseline(name="mean", formula=f"{float(np.mean(data.y))!r}")]
    result += _power(data)
    name = scaling_feature(data.features)
    if name is None or (data.x[name] <= 0).any():
        return tuple(result)
    x = data.x[name]
    last = float(np.max(x))
    value = float(np.median(data.y[x == last]))
    result.append(Baseline(name="last point", formula=f"{value!r}"))
    if len(data.features) == 1:
        result.append(Baseline(name="last point, ideal", formula=f"{value * last!r}/{name}"))
        result.append(Baseline(name="constant work", formula=f"{constant_work(x, data.y)!r}/{name}"))
        if (data.y > 0).all() and len(np.unique(x)) > 1:
            serial, parallel = amdahl(x, data.y)
            result.append(Baseline(name="Amdahl", formula=f"{serial!r} + {parallel!r}/{name}"))
    return tuple(result)


def _power(data: Observations) -> list[Baseline]:
    names = [name for name in data.features if (data.x[name] > 0).all() and len(np.unique(data.x[name])) > 1]
    if (data.y <= 0).any() or not names or len(data) < len(names) + 1:
        return []
    design = np.column_stack([np.ones(len(data)), *(np.log(data.x[name]) for name in names)])
    try:
        fit = ols(np.log(data.y), design, ("1", *names))
    except ModelError:  # features that move together
        return []
    factors = "*".join(f"{name}^({float(power)!r})" for name, power in zip(names, fit.coefficients[1:], strict=True))
    return [Baseline(name="power law", formula=f"{float(np.exp(fit.coefficients[0]))!r}*{factors}")]


class Modeler(Protocol):
    """Fits one kind of model to observations; options are keyword arguments."""

    def __call__(self, data: Observations, /, **options: Any) -> Model: ...


MODELERS: dict[str, str] = {
    "analytic": "convolver.modeling.analytic:fit_formula",
    "linear": "convolver.modeling.linear:fit_linear",
    "mecp": "convolver.modeling.mecp.correct:fit_mecp",
    "normal-form": "convolver.modeling.normal_form:fit_normal_form",
    "paths": "convolver.modeling.scaled_paths:fit_paths_model",
    "power-law": "convolver.modeling.normal_form:fit_power_law",
    "scaled-paths": "convolver.modeling.scaled_paths:fit_scaled_paths",
    "segmented": "convolver.modeling.normal_form:fit_segmented",
    "semi-empirical": "convolver.modeling.mecp.semi_empirical:fit_semi_empirical",
}
"""Kind of model -> ``module:function``; imported when it is asked for."""


def modeler(kind: str) -> Modeler:
    """Return the modeler of a kind; raises :class:`ModelUsageError` for an unknown one."""
    if kind not in MODELERS:
        raise ModelUsageError(f"The model '{kind}' is unknown; use one of {', '.join(sorted(MODELERS))}.")
    module, _, function = MODELERS[kind].partition(":")
    found: Modeler = getattr(importlib.import_module(module), function)
    return found


_PROGRESS = "progress"
"""Parameter of a model that takes long to fit; no option of its."""


def fit(
    model: str,
    table: Table | pl.DataFrame | Mapping[str, Any] | str | Path,
    *,
    target: str,
    features: Sequence[str],
    callpath: str | None = None,
    center: str = "median",
    name: str = "",
    units: Mapping[str, str] | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> Model:
    """Fit a model of a metric over features and return the artifact, baselines and provenance included.

    ``table`` is a measurement table, a path to one, or plain columns (a frame or mapping of ``target`` and parameters);
    ``center`` makes one point of the repetitions (median, minimum, mean, none). ``units`` names those of the target and of
    parameters, which count as pure numbers otherwise. Further options belong to the model.
    """
    build = modeler(model)
    _check_options(model, build, options)
    data = as_table(table, target).observations(target, features, callpath=callpath, center=center)
    data = _with_units(data, units or {})
    shown = {_PROGRESS: progress} if _PROGRESS in inspect.signature(build).parameters else {}
    fitted = build(data, **options, **shown)
    return complete(fitted, data, name=name or f"{model}-{target}", options=options)


def _check_options(model: str, build: Modeler, options: Mapping[str, Any]) -> None:
    """Raise :class:`ModelUsageError` for an option that the model does not know or lacks, or a value of a wrong type."""
    known = {p.name: p for p in inspect.signature(build).parameters.values() if p.kind is p.KEYWORD_ONLY and p.name != _PROGRESS}
    unknown = [name for name in options if name not in known]
    if unknown:
        has = f"it has {', '.join(known)}" if known else "it has none"
        raise ModelUsageError(f"The model '{model}' has no option '{unknown[0]}'; {has}.")
    missing = [name for name, p in known.items() if p.default is p.empty and name not in options]
    if missing:
        raise ModelUsageError(
            f"The model '{model}' needs {' and '.join(missing)}: give --option NAME=VALUE, or a keyword in Python."
        )
    takes = get_type_hints(build)
    for name, value in options.items():
        try:
            msgspec.convert(_plain(value), takes[name], str_keys=True)
        except msgspec.ValidationError as error:
            raise ModelUsageError(f"The option '{name}' of the model '{model}' cannot be {value!r}: {error}.") from error


def _with_units(data: Observations, units: Mapping[str, str]) -> Observations:
    unknown = [name for name in units if name not in (data.target, *data.features)]
    if unknown:
        raise ModelUsageError(
            f"'{unknown[0]}' is neither the target nor a feature; units are those of {', '.join(data.features)}."
        )
    for text in units.values():
        parse_unit(text)
    own = {name: unit for name, unit in units.items() if name != data.target}
    return replace(data, unit=units.get(data.target, data.unit), units={**data.units, **own})


def as_table(table: Table | pl.DataFrame | Mapping[str, Any] | str | Path, target: str) -> Table:
    """Return what :func:`fit` accepts as a :class:`Table`."""
    if isinstance(table, Table):
        return table
    if isinstance(table, str | Path):
        return Table.load(table, target)
    columns = {key: np.asarray(table[key]) for key in (table.keys() if isinstance(table, Mapping) else table.columns)}
    if "value" in columns:
        raise ModelUsageError("Pass a long table as Table.of(frame); plain columns must not be named 'value'.")
    return Table.of_columns(columns, target)


def complete(model: Model, data: Observations, *, name: str, options: Mapping[str, Any]) -> Model:
    """Return the model with name, domain, quality, baselines and provenance of its data filled in."""
    known = {"points": len(data)} if model.empty else quality(data.y, np.asarray(model.apply(data.x)))
    domain = {key: (float(values.min()), float(values.max())) for key, values in data.x.items()}
    provenance = {
        "inputs": data.inputs,
        "convolver": __version__,
        "options": {key: _plain(value) for key, value in options.items()},
    }
    units = {**model.feature_units, **data.units}
    unit = model.unit or data.unit
    return msgspec.structs.replace(
        model,
        name=name,
        unit=unit,
        feature_units=units,
        terms=model.terms if model.formula else tuple(_with_unit(term, unit, units) for term in model.terms),
        domain=model.domain or domain,
        quality={**known, **model.quality},
        baselines=model.baselines or baselines(data),
        provenance={**provenance, **model.provenance},
    )


def _with_unit(term: Term, target: str, units: Mapping[str, str]) -> Term:
    return msgspec.structs.replace(term, unit=term.unit or coefficient_unit(target, term.expression, units))


def _plain(value: Any) -> Any:
    """Return an option as something JSON can hold."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


def linear_model(fit: Fit, data: Observations, *, kind: str, dropped: Mapping[str, str] | None = None, **fields: Any) -> Model:
    """Return the artifact of a linear regression; terms with p > 0.05 are flagged N.S., eliminated ones ``dropped``."""
    terms = fit_terms(fit, fit.names)
    terms += [Term(expression=name, coefficient=0.0, flag="dropped") for name in dropped or {}]
    return Model(
        name=kind,
        kind=kind,
        target=data.target,
        features=data.features,
        terms=tuple(terms),
        covariance=tuple(tuple(row) for row in np.nan_to_num(fit.covariance).tolist()),
        residual_variance=_number(fit.residual_variance),
        degrees_of_freedom=fit.degrees_of_freedom,
        notes=(*fields.pop("notes", ()), *(f"{key}: {why}" for key, why in (dropped or {}).items())),
        **fields,
    )


def fit_terms(fit: Fit, names: Sequence[str], *, alpha: float = 0.05, units: Sequence[str] = ()) -> list[Term]:
    """Return the coefficients of a regression as terms of these names; those with p > ``alpha`` are flagged N.S."""
    columns = zip(names, fit.coefficients, fit.standard_errors, fit.t, fit.p, units or [""] * len(names), strict=True)
    return [
        Term(
            expression=name,
            coefficient=float(coefficient),
            standard_error=_number(error),
            t=_number(t),
            p=_number(p),
            flag="N.S." if p > alpha else "",
            unit=unit,
        )
        for name, coefficient, error, t, p, unit in columns
    ]


def parameter_term(name: str, value: float, error: float, degrees_of_freedom: int, flag: str = "", unit: str = "") -> Term:
    """Return a parameter with its t-test against 0; without an error or a degree of freedom it has none."""
    from scipy import stats

    if not (np.isfinite(error) and error > 0 and degrees_of_freedom > 0):
        return Term(expression=name, coefficient=value, standard_error=_number(error), flag=flag, unit=unit)
    t = value / error
    p = float(2 * stats.t.sf(abs(t), degrees_of_freedom))
    return Term(
        expression=name, coefficient=value, standard_error=error, t=t, p=p, flag=flag or ("N.S." if p > 0.05 else ""), unit=unit
    )


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
