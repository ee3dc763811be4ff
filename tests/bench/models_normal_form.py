"""Campaign: error of the normal form at 4 times the measured range, by noise and selection.

For each of the 42 published terms, random coefficients in 10..1000, p = 4..128, five repetitions with uniform noise, prediction
at p = 512. An argument names an Extra-P file with parameters p and n (RELeARN's, say): its largest p is held out too.
"""

import sys
import warnings

import numpy as np

from convolver.modeling.expression import evaluate
from convolver.modeling.normal_form import EXPONENTS, fit_normal_form, term_text
from convolver.modeling.table import Observations, Table

POINTS = np.array([4.0, 8, 16, 32, 64, 128])


def campaign(noise: float, select: str, trials: int = 20) -> np.ndarray:
    rng = np.random.default_rng(7)
    errors = []
    for term in (term_text("p", power, logs) for power, logs in EXPONENTS):
        for _ in range(trials):
            a, b = rng.uniform(10, 1000, 2)
            exact = a + b * evaluate(term, {"p": POINTS})
            measured = (exact * (1 + rng.uniform(-noise, noise, (5, 6)))).mean(axis=0)
            model = fit_normal_form(Observations("time", "s", {"p": POINTS}, measured), select=select)
            want = a + b * evaluate(term, {"p": np.array(512.0)})
            errors.append(abs(model.apply({"p": [512.0]})[0] / want - 1))
    return np.array(errors)


def held_out(path: str) -> None:
    table = Table.load(path)
    for callpath in table.summary()["callpaths"]:
        data = table.observations(table.metrics[0], ["p", "n"], callpath=callpath)
        top = data.x["p"] == data.x["p"].max()
        error = np.abs(fit_normal_form(data.take(~top)).apply(data.take(top).x) - data.y[top])
        if (data.y[top] > 0).all():
            print(f"{callpath:50} mean {100 * np.mean(error / data.y[top]):8.2f} %")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for noise in (0.0, 0.02, 0.05, 0.10):
        for select in ("evidence", "leave-one-out"):
            errors = 100 * campaign(noise, select)
            print(f"noise {noise:4.2f} {select:14} mean {errors.mean():6.2f} % max {errors.max():6.1f} %")
    for path in sys.argv[1:]:
        held_out(path)
