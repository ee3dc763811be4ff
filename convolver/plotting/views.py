"""Every picture by name: which artifacts it needs, and how it is drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
Inputs = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Options:
    """What the command line may say: labelled blocks, fixed features and the end of a scaling curve."""

    top: int | None = None
    at: Mapping[str, float] = field(default_factory=dict)
    to: float | None = None

    def labelled(self) -> dict[str, int]:
        """Return ``top`` as keyword where it was given."""
        return {} if self.top is None else {"top": self.top}


@dataclass(frozen=True)
class View:
    """A picture: ``needs`` says how many artifacts of each schema it takes (least, most; None: any number)."""

    needs: Mapping[str, tuple[int, int | None]]
    draw: Callable[[Inputs, Look, Options], Figure]


def _maps(inputs: Inputs, look: Look, options: Options) -> Figure:
    from convolver.plotting.maps_picture import draw

    machine, times = inputs[MACHINE][0], next(iter(inputs[TIMES]), None)
    if times is not None and times.machine != machine.name:
        raise UsageError(f"The block times are of '{times.machine}', not of '{machine.name}'; give that machine's profile.")
    return draw(machine, times, look, **options.labelled())


def _roofline(inputs: Inputs, look: Look, options: Options) -> Figure:
    from convolver.plotting.roofline import draw

    return draw(inputs[MACHINE][0], inputs[SIGNATURE][0], inputs[TIMES][0], look, **options.labelled())


def _blocks(inputs: Inputs, look: Look, options: Options) -> Figure:
    from convolver.plotting.compared_blocks import draw

    base, target = inputs[TIMES]
    return draw(base, target, look, **options.labelled())


def _parity(inputs: Inputs, look: Look, options: Options) -> Figure:
    from convolver.plotting.parity import draw

    return draw(inputs[PREDICTION], look)


def _ranks(inputs: Inputs, look: Look, options: Options) -> Figure:
    from convolver.plotting.rank_timeline import draw

    return draw(inputs[TIMELINE][0], look)


def _scaling(inputs: Inputs, look: Look, options: Options) -> Figure:
    from convolver.plotting.scaling_curve import draw

    return draw(inputs[MODEL][0], look, at=options.at, to=options.to)


def _threads(inputs: Inputs, look: Look, options: Options) -> Figure:
    from convolver.plotting.elapsed_curves import draw

    return draw(inputs[PREDICTION], look)


def _misses(inputs: Inputs, look: Look, options: Options) -> Figure:
    from convolver.plotting.miss_ratios import draw

    return draw(inputs[HITS][0], look)


ONE, OPTIONAL = (1, 1), (0, 1)
VIEWS: dict[str, View] = {
    "maps": View({MACHINE: ONE, TIMES: OPTIONAL}, _maps),
    "roofline": View({MACHINE: ONE, SIGNATURE: ONE, TIMES: ONE}, _roofline),
    "blocks": View({TIMES: (2, 2)}, _blocks),
    "parity": View({PREDICTION: (1, None)}, _parity),
    "ranks": View({TIMELINE: ONE}, _ranks),
    "scaling": View({MODEL: ONE}, _scaling),
    "threads": View({PREDICTION: (1, None)}, _threads),
    "misses": View({HITS: ONE}, _misses),
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
