"""What verbs share: whole sentences in the list of ``--help``, a word where Ctrl-C ends one, and options in groups."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from click import HelpFormatter

LONGEST = 200
"""Characters of a verb's line in the list; Typer alone cuts it where the terminal ends."""


class Verbs(TyperGroup):
    """A group of verbs."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Run the verb; after Ctrl-C, which Typer alone ends without a word, say one sentence and exit with 130."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("convolver: interrupted; whatever was named as written is complete.", file=sys.stderr)
            raise typer.Exit(128 + signal.SIGINT) from None

    def format_commands(self, ctx: typer.Context, formatter: HelpFormatter) -> None:  # type: ignore[override]
        """Write the list of verbs."""
        rows = [(name, self.commands[name].get_short_help_str(LONGEST)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class _Group(typer.Typer):
    """Verbs that may take their options in groups (:func:`with_groups`)."""

    def command(self, *words: Any, **options: Any) -> Callable[[Any], Any]:
        """Return what adds a verb."""
        add = super().command(*words, **options)
        return lambda verb: add(with_groups(verb))


def new_group(words: str, cls: type[Verbs] = Verbs) -> typer.Typer:
    """Return an empty group of verbs with these words of help."""
    return _Group(cls=cls, no_args_is_help=True, help=words, rich_markup_mode=None)


def with_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb for the parser, to which a parameter that is a dataclass stands for its fields, an option each."""
    hints = get_type_hints(verb, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    if not groups:
        return verb
    flat: list[Parameter] = []
    for name, parameter in signature(verb).parameters.items():
        if name in groups:
            own = get_type_hints(groups[name], include_extras=True)
            given = {field.name: field.default for field in fields(groups[name])}
        else:
            own, given = hints, {name: parameter.default}
        flat += [
            Parameter(one, Parameter.KEYWORD_ONLY, annotation=own[one], default=Parameter.empty if value is MISSING else value)
            for one, value in given.items()
        ]

    @wraps(verb)
    def called(**options: Any) -> None:
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in fields(group)})  # type: ignore[operator]
        verb(**options)

    called.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    return called
