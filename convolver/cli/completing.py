"""Values that shells complete: machines known by name, views, kinds of models, and the words of options that have few."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def machines(incomplete: str) -> list[str]:
    """Return the machines known by name, ``host`` among them; where none fits, the shell offers files."""
    from convolver.machine.catalog import HOST, list_machines

    return _beginning([HOST, *(entry.name for entry in list_machines())], incomplete)


def machine_lists(incomplete: str) -> list[str]:
    """Return lists of machines at commas, each with one more name."""
    listed, comma, last = incomplete.rpartition(",")
    return [f"{listed}{comma}{name}" for name in machines(last)]


def views(incomplete: str) -> list[str]:
    """Return the pictures of ``convolver plot``."""
    from convolver.plotting.views import VIEWS

    return _beginning(VIEWS, incomplete)


def model_kinds(incomplete: str) -> list[str]:
    """Return the kinds of models of ``convolver model fit``."""
    from convolver.modeling.base import MODELERS

    return _beginning(sorted(MODELERS), incomplete)


def engines(incomplete: str) -> list[str]:
    """Return the words of --engine."""
    from convolver.tracing.native_engine import EngineChoice

    return _beginning(get_args(EngineChoice), incomplete)


def methods(incomplete: str) -> list[str]:
    """Return the words of --method."""
    from convolver.convolution.convolve import METHODS

    return _beginning(METHODS, incomplete)


def pinnings(incomplete: str) -> list[str]:
    """Return the words of --pin."""
    from convolver._native.thread_replay import PINNINGS

    return _beginning(PINNINGS, incomplete)


def states(incomplete: str) -> list[str]:
    """Return the words of --state."""
    from convolver.machine.states import STATES

    return _beginning(STATES, incomplete)
