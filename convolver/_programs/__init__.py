"""Compiled helper programs (probe binary, Valgrind tool): filled by the build, found by :mod:`convolver.locations`."""
