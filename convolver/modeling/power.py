"""The power law y = c x1^b1 x2^b2 ..., fitted in logarithms: the simplest scaling model and a baseline of the others."""

from __future__ import annotations

import numpy as np

from convolver.errors import ModelError
from convolver.modeling.base import parameter_term
from convolver.modeling.model_artifact import Model
from convolver.modeling.regress import ols
from convolver.modeling.table import Observations


def fit_power_law(data: Observations, /) -> Model:
    """Fit the power law by least squares of logarithms; raises :class:`ModelError` for values <= 0."""
    if (data.y <= 0).any() or any((values <= 0).any() for values in data.x.values()):
        raise ModelError("A power law needs values and features above 0; leave other points out.")
    design = np.column_stack([np.ones(len(data)), *(np.log(values) for values in data.x.values())])
    fit = ols(np.log(data.y), design, ("1", *data.features))
    names = ["c", *(f"b_{name}" for name in data.features)]
    values = [float(np.exp(fit.coefficients[0])), *fit.coefficients[1:].tolist()]
    errors = [values[0] * float(fit.standard_errors[0]), *fit.standard_errors[1:].tolist()]
    return Model(
        name="power-law",
        kind="power-law",
        target=data.target,
        features=data.features,
        formula="c*" + "*".join(f"{name}^b_{name}" for name in data.features),
        terms=tuple(parameter_term(*item, fit.degrees_of_freedom) for item in zip(names, values, errors, strict=True)),
        residual_variance=fit.residual_variance,
        degrees_of_freedom=fit.degrees_of_freedom,
        relative=True,
    )
