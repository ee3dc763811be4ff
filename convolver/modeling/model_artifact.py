"""The model artifact: terms with their errors, units, domain, quality and provenance; it predicts with intervals.

A model is a sum of ``coefficient * expression`` or, when ``formula`` is set, that formula with its terms as named parameters. An
ensemble (``members``) predicts the median of its formulas. ``tables`` give features a default by interpolation over another one
(the locality factor over P).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from convolver import schema
from convolver.artifact_kinds import KINDS
from convolver.errors import ExtrapolationWarning, ModelError, ModelUsageError, SchemaError
from convolver.modeling.cross_validation import LeftOut, limits
from convolver.modeling.expression import Values, evaluate, names_of

SCHEMA = "convolver.model"


class Term(msgspec.Struct, kw_only=True, frozen=True):
    """One term: its expression in the features (or the name of a parameter), coefficient, error, t, p and a flag.

    ``flag`` is empty, ``N.S.`` (not significant), ``at bound``, ``fixed``, ``dropped`` or ``N.S., dropped``.
    """

    expression: str
    coefficient: float
    standard_error: float | None = None
    t: float | None = None
    p: float | None = None
    flag: str = ""
    unit: str = ""


class Baseline(msgspec.Struct, kw_only=True, frozen=True):
    """A simple model of the same data, printed beside every prediction."""

    name: str
    formula: str


class Lookup(msgspec.Struct, kw_only=True, frozen=True):
    """A feature given by interpolation between points of another: ``points`` are (of, value) pairs, ascending."""

    of: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Predicted:
    """Values with interval limits (nan where the model has none) and, for each point, whether it lies outside the domain."""

    values: Values
    low: Values
    high: Values
    outside: npt.NDArray[np.bool_]


class Model(msgspec.Struct, kw_only=True):
    """A fitted model; see docs/formats/model.md for each field."""

    name: str
    kind: str
    target: str
    features: tuple[str, ...]
    terms: tuple[Term, ...]
    unit: str = ""
    feature_units: dict[str, str] = {}
    formula: str = ""
    members: tuple[str, ...] = ()
    tables: dict[str, Lookup] = {}
    domain: dict[str, tuple[float, float]] = {}
    quality: dict[str, float | int | str | None] = {}
    validation: tuple[dict[str, float | int | str | None], ...] = ()
    covariance: tuple[tuple[float, ...], ...] = ()
    residual_variance: float | None = None
    degrees_of_freedom: int = 0
    relative: bool = False
    scatter: float = 0.0
    left_out: tuple[LeftOut, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    notes: tuple[str, ...] = ()
    provenance: dict[str, Any] = {}

    @property
    def active(self) -> tuple[Term, ...]:
        """Return the terms that count in a prediction."""
        return tuple(term for term in self.terms if not term.flag.endswith("dropped"))

    @property
    def empty(self) -> bool:
        """Return whether no term was left by the elimination."""
        return not self.formula and not self.members and not self.active

    def equation(self, digits: int = 6) -> str:
        """Return the model as one readable equation."""
        if self.members:
            return f"{self.target} = median of {len(self.members)} corrections (members of the file) of {self.formula}"
        if self.formula:
            return f"{self.target} = {self.formula}"
        text = ""
        for term in self.active:
            size = f"{abs(term.coefficient):.{digits}g}" + ("" if term.expression == "1" else f" * {term.expression}")
            minus = term.coefficient < 0
            text += (" - " if minus else " + ") + size if text else ("-" if minus else "") + size
        return f"{self.target} = " + (text or "0 (empty model)")

    def apply(self, points: Mapping[str, npt.ArrayLike]) -> Values:
        """Return the predicted values at points (one array a feature); warns with :class:`ExtrapolationWarning` outside the
        domain. Raises :class:`ModelError` for a missing feature or an empty model."""
        return self.predict(points).values

    def predict(self, points: Mapping[str, npt.ArrayLike], level: float = 0.95) -> Predicted:
        """Return values, prediction interval of the given level and which points lie outside the domain."""
        from scipy import stats

        if self.empty:
            raise ModelError(f"The model '{self.name}' is empty: elimination left no term, so it predicts nothing.")
        x = self._complete(points)
        values = self._evaluate(x)
        outside = self._outside(x)
        if outside.any():
            self._warn(x, outside)
        if self.left_out:
            return Predicted(values, *limits(self.left_out, x, values, level), outside)
        variance = self._variance(x, values)
        quantile = stats.t.ppf(0.5 + level / 2, min(self.degrees_of_freedom, 10**9)) if self.degrees_of_freedom > 0 else math.nan
        half = quantile * np.sqrt(variance)
        return Predicted(values, values - half, values + half, outside)

    def baseline_values(self, points: Mapping[str, npt.ArrayLike]) -> dict[str, Values]:
        """Return what each baseline predicts at the points."""
        x = self._complete(points)
        size = np.broadcast_shapes(*(v.shape for v in x.values()))
        return {b.name: np.broadcast_to(evaluate(b.formula, x), size).copy() for b in self.baselines}

    def _complete(self, points: Mapping[str, npt.ArrayLike]) -> dict[str, Values]:
        x = {name: np.atleast_1d(np.asarray(values, dtype=np.float64)) for name, values in points.items()}
        for name, lookup in self.tables.items():
            if name not in x and lookup.of in x:
                known = np.array(lookup.points, dtype=np.float64)
                x[name] = np.interp(x[lookup.of], known[:, 0], known[:, 1])
        missing = [name for name in self.features if name not in x]
        if missing:
            raise ModelUsageError(f"The model '{self.name}' needs {', '.join(missing)}; give it for every point.")
        return x

    def _evaluate(self, x: Mapping[str, Values]) -> Values:
        size = np.broadcast_shapes(*(v.shape for v in x.values())) if x else (1,)
        if self.members:
            every = np.array([np.broadcast_to(evaluate(text, x), size) for text in self.members])
            return np.asarray(np.median(np.where(np.isfinite(every), every, np.nan), axis=0))
        if self.formula:
            known = {**x, **{term.expression: np.asarray(term.coefficient) for term in self.active}}
            return np.broadcast_to(evaluate(self.formula, known), size).astype(np.float64)
        return self._design(x, size) @ np.array([term.coefficient for term in self.active])

    def _design(self, x: Mapping[str, Values], size: tuple[int, ...]) -> Values:
        return np.stack([np.broadcast_to(evaluate(term.expression, x), size) for term in self.active], axis=-1)

    def _variance(self, x: Mapping[str, Values], values: Values) -> Values:
        """Return the variance of a new observation: of the noise, of the coefficients and of the lack of fit."""
        if self.residual_variance is None:
            return np.full(values.shape, np.nan)
        noise = self.residual_variance * (values**2 if self.relative else 1.0) + (self.scatter * values) ** 2
        if not self.covariance:
            return np.asarray(noise + np.zeros(values.shape))
        design = self._design(x, values.shape)
        return np.asarray(noise + np.einsum("...i,ij,...j->...", design, np.array(self.covariance), design))

    def _outside(self, x: Mapping[str, Values]) -> npt.NDArray[np.bool_]:
        size = np.broadcast_shapes(*(v.shape for v in x.values())) if x else (1,)
        outside = np.zeros(size, dtype=bool)
        for name, (low, high) in self.domain.items():
            if name in x:
                slack = 1e-9 * max(abs(low), abs(high))
                outside |= (x[name] < low - slack) | (x[name] > high + slack)
        return outside

    def _warn(self, x: Mapping[str, Values], outside: npt.NDArray[np.bool_]) -> None:
        ranges = ", ".join(f"{name} {low:g}..{high:g}" for name, (low, high) in self.domain.items() if name in x)
        message = f"{int(outside.sum())} of {outside.size} points lie outside the data of the model '{self.name}' ({ranges})."
        warnings.warn(message, ExtrapolationWarning, stacklevel=4)

    @property
    def id(self) -> str:
        """Return the content id."""
        return schema.document_id(self._document())

    def _document(self) -> dict[str, Any]:
        header = {"schema": SCHEMA, "version": KINDS[SCHEMA].version}
        fields = finite(msgspec.to_builtins(self))
        for name in ("validation", "left_out"):  # files from before there was any keep their id
            if not fields[name]:
                del fields[name]
        return {**header, **fields}

    def save(self, path: str | Path) -> str:
        """Write the model as JSON and return its id."""
        return schema.save_document(self._document(), path)

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Read a model file; raises :class:`FormatError` and its kin when it is none."""
        document = schema.load_document(path, SCHEMA)
        fields = {key: value for key, value in document.items() if key not in ("schema", "version", "id")}
        try:
            model = msgspec.convert(fields, cls, strict=False)
            for text in (*model.members, *((model.formula,) if model.formula else ())):
                names_of(text)
        except (msgspec.ValidationError, ModelError, UnicodeEncodeError) as error:
            raise SchemaError(f"{path} is no valid model: {error}; {KINDS[SCHEMA].maker}.") from error
        return model

    def summary(self) -> dict[str, Any]:
        """Return what a person asks first: the equation, terms, domain, quality."""
        document = {
            "name": self.name,
            "kind": self.kind,
            "equation": self.equation(),
            "terms": msgspec.to_builtins(self.terms),
            "domain": self.domain,
            "quality": self.quality,
            "validation": list(self.validation),
            "baselines": {b.name: b.formula for b in self.baselines},
            "notes": list(self.notes),
        }
        return dict(finite(document))


def finite(value: Any) -> Any:
    """Return the document with nan and infinity as null, which JSON can hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
