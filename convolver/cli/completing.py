"""Values that shells complete: machines known by name, views, kinds of models, and the words of options that have few."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
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


def _known(place: str) -> Callable[[str], list[str]]:
    """Return what completes a word from the names in ``module:name``, which is loaded where a shell asks."""

    def complete(incomplete: str) -> list[str]:
        module, _, name = place.partition(":")
        words = getattr(import_module(f"convolver.{module}"), name)
        return _beginning(get_args(words) or sorted(words), incomplete)

    return complete


views = _known("plotting.views:VIEWS")
model_kinds = _known("modeling.base:MODELERS")
engines = _known("tracing.native_engine:EngineChoice")
methods = _known("convolution.convolve:METHODS")
pinnings = _known("_native.thread_replay:PINNINGS")
states = _known("machine.states:STATES")
