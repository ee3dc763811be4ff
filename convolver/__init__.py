"""Convolver: a binary memory-trace convolver.

How fast will this program run on that machine? Profile the machine, trace the program once, simulate, convolve, predict::

    import convolver as cv

    host = cv.probe()
    trace = cv.trace(["./cg", "60"], output="cg.cvt")
    print(cv.predict(trace, base=host, target="desktop-2024").cpu_ratio)

Names are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "load": "convolver.artifacts",
    "probe": "convolver.probing.machine_probe",
    "trace": "convolver.tracing.tracer",
    "simulate": "convolver.simulation.one_pass",
    "simulate_arrays": "convolver.simulation.one_pass",
    "convolve": "convolver.convolution.convolve",
    "cpu_ratio": "convolver.convolution.cpu_ratio",
    "replay": "convolver.mpi.network_replay",
    "predict": "convolver.pipeline",
    "fit": "convolver.modeling.base",
    "MachineProfile": "convolver.machine.profile",
    "Signature": "convolver.signature.signature",
    "HitRates": "convolver.simulation.hit_rates",
    "SamplingPlan": "convolver.tracing.sampling",
    "Prediction": "convolver.pipeline",
    "ConvolverError": "convolver.errors",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'convolver' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
