"""Convolver: a binary memory-trace convolver.

How fast will this program run on that machine? Profile the machine, trace the program once, simulate, convolve, predict.
"""

__version__ = "0.1.0"
