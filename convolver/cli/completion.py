"""``convolver completion``: what a shell needs to complete verbs, options and values, made from the parser itself."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import say, wrote
from convolver.outputs import save_text

PROGRAM = "convolver"
VARIABLE = "_CONVOLVER_COMPLETE"


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def script(shell: Shell) -> str:
    """Return the script that a shell reads."""
    from typer.completion import get_completion_script

    return get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value) + "\n"


def place(shell: Shell) -> Path:
    """Return the file of this user from which the shell loads completions (bash by way of the bash-completion package)."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return {
        Shell.BASH: data / "bash-completion/completions" / PROGRAM,
        Shell.ZSH: home / ".zfunc" / f"_{PROGRAM}",
        Shell.FISH: settings / "fish/completions" / f"{PROGRAM}.fish",
    }[shell]


ADVICE = {
    Shell.BASH: "New shells complete it where the package bash-completion is installed; else source this file in ~/.bashrc.",
    Shell.ZSH: "Put 'fpath+=~/.zfunc; autoload -Uz compinit; compinit' into ~/.zshrc; new shells complete it.",
    Shell.FISH: "New shells complete it.",
}


def verb(
    shell: Annotated[Shell, typer.Argument(help="Shell to complete in.")],
    install: Annotated[bool, typer.Option("--install", help="Write the script where the shell finds it.")] = False,
) -> None:
    """Print the completion script of a shell, or put it where the shell finds it (--install).

    Verbs, options, machine names, views and kinds of models are completed by the program itself, so they are always those
    installed.

    \b
    Examples:
      convolver completion bash --install
      convolver completion zsh > ~/.zfunc/_convolver
    """
    if not install:
        typer.echo(script(shell), nl=False)
        return
    path = place(shell)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_text(path, script(shell))
    wrote(path)
    say(ADVICE[shell])
