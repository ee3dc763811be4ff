"""What all groups of verbs share: whole sentences in the list of ``--help``, and a word where Ctrl-C ends one."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

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


def new_group(words: str, cls: type[Verbs] = Verbs) -> typer.Typer:
    """Return an empty group of verbs with these words of help."""
    return typer.Typer(cls=cls, no_args_is_help=True, help=words, rich_markup_mode=None)
