"""Directive ``commands``: what ``--help`` says of a verb (or of all), as definition lists for the pages and the manual page."""

from __future__ import annotations

from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from convolver.cli.app import VERBS, app


def _definition(term: str, description: str) -> nodes.definition_list_item:
    body = nodes.definition("", *(nodes.paragraph(text=text) for text in description.split("\n\n") if text))
    return nodes.definition_list_item("", nodes.term("", "", nodes.literal(text=term)), body)


def _parameters(command: Any, context: Any) -> list[nodes.Node]:
    records = [record for record in (parameter.get_help_record(context) for parameter in command.get_params(context)) if record]
    return [nodes.definition_list("", *(_definition(term.strip(), text) for term, text in records))] if records else []


def _description(command: Any) -> list[nodes.Node]:
    """Paragraphs as text, indented ones (examples, tables) as they are."""
    found: list[nodes.Node] = []
    for text in (command.help or "").replace("\b\n", "").split("\n\n"):
        body = "\n".join(line.rstrip() for line in text.splitlines())
        found.append(nodes.literal_block(body, body) if "\n  " in body else nodes.paragraph(text=body))
    return found


def _usage(command: Any, context: Any) -> list[nodes.Node]:
    """Return how a command is written; of a group its commands say it."""
    words = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    return [] if getattr(command, "commands", {}) else [nodes.literal_block(words, words)]


def describe(command: Any, name: str, parent: Any = None) -> nodes.section:
    """Return the section of a command with its sub-commands."""
    context = typer.Context(command, info_name=name, parent=parent)
    section = nodes.section("", nodes.title(text=context.command_path), ids=[nodes.make_id("command " + context.command_path)])
    section += [*_usage(command, context), *_description(command), *_parameters(command, context)]
    for word in getattr(command, "commands", {}):
        section += describe(command.commands[word], word, context)
    return section


class Commands(Directive):
    """``commands`` describes everything, ``commands VERB`` one verb."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return one section a verb, or the contents of the named verb's."""
        root = typer.main.get_command(app)
        context = typer.Context(root, info_name="convolver", **root.context_settings)
        if self.arguments:
            return describe(root.commands[self.arguments[0]], self.arguments[0], context).children[1:]  # type: ignore[attr-defined]
        return [describe(command, word, context) for word, command in root.commands.items()]  # type: ignore[attr-defined]


def _append_help(_sphinx: Sphinx, page: str, source: list[str]) -> None:
    """End every page of a verb with what its ``--help`` says."""
    folder, _, verb = page.partition("/")
    if folder == "cli" and any(one.rstrip("_") == verb for one in VERBS):
        source[0] += f"\n\n## Options\n\n```{{commands}} {verb}\n```\n"


def setup(sphinx: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    sphinx.add_directive("commands", Commands)
    sphinx.connect("source-read", _append_help)
    return {"parallel_read_safe": True}
