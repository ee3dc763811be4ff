"""The formulas that the MECP paper prints, with their layout reconstructed.

The grouping of equation 2 was lost in print; the one used agrees with the printed parameters and with the remark that one process
is dominated by the copy. The other, token for token, is 0 there.
"""

from convolver.modeling.mecp.semi_empirical import SemiEmpirical

EVH1 = SemiEmpirical(
    "f*T*nx*(g*nx^2/np + (np-1)^h*(i + j*nx^2/np^2))",
    {"g": (1e-9, 1e-3), "h": (1.0, 1.5), "i": (1e-9, 1e-3), "j": (1e-9, 1e-3)},
    {"f": 4965.0},
)
"""Equation 2: communication of a transposing hydrodynamics code, f cycles, copy g, contention h, latency i, bandwidth j."""

GYRO = SemiEmpirical(
    "cycles*(tl + bytes/bw)*np^ex",
    {"ex": (1e-2, 0.5), "tl": (1e-8, 1e-2), "bw": (1e3, 1e6)},
)
"""Equation 4 (5 is its expansion, whose grouping is lost): messages of some bytes, contention as a power of the processes."""
