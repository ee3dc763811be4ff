"""Every picture by name: which artifacts it needs, and how it is drawn from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from convolver.artifact_kinds import KINDS
from convolver.artifacts import load
from convolver.errors import UsageError
from convolver.plotting.style import Figure, Look
from convolver.schema import schema_of

MACHINE, TIMES, SIGNATURE, HITS, PREDICTION, TIMELINE, MODEL = (
    f"convolver.{name}" for name in ("machine", "block_times", "signature", "hit_rates", "prediction", "timeline", "model")
)


@dataclass(frozen=True)
class Options:
    """What the command line may say: labelled blocks, fixed features and the end of a scaling curve."""

    top: int | None = None
    at: Mapping[str, float] = field(default_factory=dict)
    to: float | None = None


@dataclass(frozen=True)
class View:
    """A picture that ``module`` draws: ``needs`` says how many artifacts of each schema it takes (least, most; None: any number),
    ``options`` which of :class:`Options`."""

    needs: Mapping[str, tuple[int, int | None]]
    module: str
    options: tuple[str, ...] = ()

    def draw(self, inputs: Mapping[str, Sequence[Any]], look: Look, options: Options) -> Figure:
        """Return the picture of artifacts in the order of ``needs``; where any number of a schema goes, they are a list."""
        artifacts: list[Any] = []
        for schema, (_, most) in self.needs.items():
            found = inputs[schema]
            artifacts += [found] if most is None else [*found, *[None] * (most - len(found))]
        chosen = {name: getattr(options, name) for name in self.options if getattr(options, name) is not None}
        drawn: Figure = import_module(f"convolver.plotting.{self.module}").draw(*artifacts, look, **chosen)
        return drawn


ONE, OPTIONAL = (1, 1), (0, 1)
VIEWS: dict[str, View] = {
    "maps": View({MACHINE: ONE, TIMES: OPTIONAL}, "maps_picture", ("top",)),
    "roofline": View({MACHINE: ONE, SIGNATURE: ONE, TIMES: ONE}, "roofline", ("top",)),
    "blocks": View({TIMES: (2, 2)}, "compared_blocks", ("top",)),
    "parity": View({PREDICTION: (1, None)}, "parity"),
    "ranks": View({TIMELINE: ONE}, "rank_timeline"),
    "scaling": View({MODEL: ONE}, "scaling_curve", ("at", "to")),
    "threads": View({PREDICTION: (1, None)}, "elapsed_curves"),
    "misses": View({HITS: ONE}, "miss_ratios"),
}


def find_view(name: str) -> View:
    """Return a view by name; raises :class:`UsageError` for an unknown one."""
    if name not in VIEWS:
        raise UsageError(f"There is no view '{name}'; choose one of {', '.join(VIEWS)}.")
    return VIEWS[name]


def gather(view: View, words: Sequence[str]) -> dict[str, list[Any]]:
    """Return the artifacts that the words name, by schema; a word that is no file names a machine.

    Raises :class:`UsageError` when one is missing or superfluous and whatever reading them raises.
    """
    from convolver.machine.catalog import find_machine

    found: dict[str, list[Any]] = {schema: [] for schema in view.needs}
    for word in words:
        schema = schema_of(word) if Path(word).is_file() or Path(word).suffix else MACHINE
        if schema not in found:
            raise UsageError(f"{word} holds {KINDS[schema].what}; this view takes {_wanted(view)}.")
        found[schema].append(find_machine(word) if schema == MACHINE else load(word))
    for schema, (least, most) in view.needs.items():
        have = len(found[schema])
        if have < least or (most is not None and have > most):
            wrong = "is missing" if have < least else f"was given {have} times"
            raise UsageError(f"This view takes {_wanted(view)}; {KINDS[schema].what} {wrong}.")
    return found


def _wanted(view: View) -> str:
    words = {(1, 1): "", (0, 1): " (may be left out)", (2, 2): " twice", (1, None): " or several"}
    return ", ".join(KINDS[schema].what + words[number] for schema, number in view.needs.items())
