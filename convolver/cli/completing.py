"""Values that shells complete: machines known by name, views, kinds of models."""

from __future__ import annotations


def _beginning(names: list[str], incomplete: str) -> list[str]:
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

    return _beginning(list(VIEWS), incomplete)


def model_kinds(incomplete: str) -> list[str]:
    """Return the kinds of models of ``convolver model fit``."""
    from convolver.modeling.base import MODELERS

    return _beginning(sorted(MODELERS), incomplete)
