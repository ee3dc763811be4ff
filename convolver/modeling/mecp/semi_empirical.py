"""Semi-empirical models: a formula in features and parameters, the parameters fitted within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from convolver.errors import ModelUsageError
from convolver.modeling.base import parameter_term
from convolver.modeling.bounded import BoundedFit, bounded_fit
from convolver.modeling.expression import evaluate, names_of
from convolver.modeling.model_artifact import Model, Term
from convolver.modeling.table import Observations

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SemiEmpirical:
    """A formula with parameters to fit: ``bounds`` gives (lower, upper) of each, ``fixed`` the known ones."""

    formula: str
    bounds: dict[str, tuple[float, float]]
    fixed: dict[str, float] = field(default_factory=dict)

    def features(self) -> frozenset[str]:
        """Return the names of the formula that are neither fitted nor fixed."""
        return names_of(self.formula) - self.bounds.keys() - self.fixed.keys()

    def __call__(self, x: Mapping[str, Any], parameters: Mapping[str, float]) -> Values:
        """Return the model's values at points for given parameters."""
        return evaluate(self.formula, {**x, **self.fixed, **parameters})

    def fit(
        self, data: Observations, *, loss: str = "absolute", starts: int = 30, seed: int = 0, quiet: bool = False
    ) -> BoundedFit:
        """Return the best bounded least-squares fit; raises :class:`ModelError` when the data lack a feature."""
        missing = sorted(self.features() - data.x.keys())
        if missing:
            raise ModelUsageError(f"The formula needs {', '.join(missing)}: give it as a feature, a bound or a fixed value.")
        function = lambda p: np.broadcast_to(self(data.x, p), data.y.shape)  # noqa: E731
        return bounded_fit(function, data.y, self.bounds, loss=loss, starts=starts, seed=seed, quiet=quiet)


def fit_semi_empirical(
    data: Observations,
    /,
    *,
    formula: str,
    bounds: Mapping[str, Any],
    fixed: Mapping[str, float] | None = None,
    loss: str = "absolute",
    starts: int = 30,
    seed: int = 0,
) -> Model:
    """Fit a semi-empirical formula within bounds; parameters at a bound are flagged, as the data do not determine them.

    ``bounds`` maps each parameter to (lower, upper). Raises :class:`ModelError` for others.
    """
    limits = {name: _bounds(name, pair) for name, pair in bounds.items()}
    form = SemiEmpirical(formula, limits, dict(fixed or {}))
    return model_of(form, form.fit(data, loss=loss, starts=starts, seed=seed), data, relative=loss != "absolute")


def _bounds(name: str, pair: Any) -> tuple[float, float]:
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError) as error:
        raise ModelUsageError(f"The bounds of {name} are not two numbers; write for example bounds={name}:0.1:100.") from error
    return low, high


def model_of(form: SemiEmpirical, fit: BoundedFit, data: Observations, *, relative: bool) -> Model:
    """Return the artifact of a bounded fit; its interval is the data's scatter about it, ``relative`` or in their unit."""
    free = len(data) - len(fit.parameters) + len(fit.at_bound)
    errors = form(data.x, fit.parameters) - data.y
    squares = float(((errors / data.y if relative else errors) ** 2).sum())
    terms = [
        parameter_term(name, value, fit.standard_errors[name], free, "at bound" if name in fit.at_bound else "")
        for name, value in fit.parameters.items()
    ]
    terms += [Term(expression=name, coefficient=value, flag="fixed") for name, value in form.fixed.items()]
    return Model(
        name="semi-empirical",
        kind="semi-empirical",
        target=data.target,
        features=data.features,
        formula=form.formula,
        terms=tuple(terms),
        quality={"converged_starts": fit.converged},
        relative=relative,
        residual_variance=squares / free if free > 0 else None,
        degrees_of_freedom=max(free, 0),
    )
