"""``convolver machine``: list and show machine profiles."""

from __future__ import annotations

from typing import Annotated

import typer

from convolver.cli.common import print_json

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

machines = typer.Typer(no_args_is_help=True, help="List and show machine profiles.", rich_markup_mode=None)


@machines.command("list")
def list_command(json: Json = False) -> None:
    """List the machines that are known by name.

    \b
    Examples:
      convolver machine list
      convolver machine list --json
    """
    from convolver.reporting.machines import machine_rows, print_machines

    rows = machine_rows()
    if json:
        print_json(rows)
    else:
        print_machines(rows)


@machines.command("show")
def show_command(
    machine: Annotated[str, typer.Argument(help="Name of a machine, or path of its profile.")],
    json: Json = False,
) -> None:
    """Show a machine: geometry, cost of a reference by pattern and level, instructions, where the numbers come from.

    \b
    Examples:
      convolver machine show host
      convolver machine show node.machine.json --json
    """
    from convolver.machine.catalog import find_machine
    from convolver.reporting.machines import print_profile, profile_rows

    profile = find_machine(machine)
    if json:
        print_json({**profile.summary(), "plateaus": profile_rows(profile), "provenance": profile.provenance})
    else:
        print_profile(profile)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.add_typer(machines, name="machine")
