"""Statistical models on top of predictions and measurements."""

from convolver.modeling.base import fit
from convolver.modeling.model_artifact import Model
from convolver.modeling.table import Table

__all__ = ["Model", "Table", "fit"]
