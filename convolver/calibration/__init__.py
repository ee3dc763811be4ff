"""From a measured profile to calibrated coefficients: its probe kernels, simulated, against their times."""
