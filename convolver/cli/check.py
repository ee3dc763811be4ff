"""``convolver check``: a program's predicted time on a pinned machine, against limits and a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convolver.cli.common import Json, new_file, print_json, say, wrote
from convolver.cli.trace_plan import Engine, on_engine

REGRESSED = 7
"""Exit status for a program that became slower or is over its limit."""
RUNS = 3
"""Runs of which a baseline is the mean: they also tell how much a program's runs differ."""


def verb(
    command: Annotated[list[str], typer.Argument(metavar="-- CMD ARGS", help="Command to check, after '--'.")],
    limits: Annotated[
        Path | None, typer.Option("--limits", help="TOML with machine, threshold, baseline, and limits of programs.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", "-n", help="Name in limits and baseline [the command's].")] = None,
    marked: Annotated[
        bool, typer.Option("--marked", help="Check only what it marks (convolver_markers.h, convolver.marked).")
    ] = False,
    update: Annotated[bool, typer.Option("--update", help="Keep the program's times as the new baseline.")] = False,
    comment: Annotated[
        Path | None, typer.Option("--markdown", help="Write the result as a comment in Markdown, over an earlier one.")
    ] = None,
    suite: Annotated[Path | None, typer.Option("--junit", help="Write the result as JUnit XML, over an earlier one.")] = None,
    engine: Engine = None,
    as_json: Json = False,
) -> None:
    """Check a program's time on a pinned machine against limits and a baseline, for CI.

    The command is traced and its seconds are predicted for one bundled machine, so that neither the runner nor its load matter. A
    program that is slower than its baseline, or over its limit, ends with status 7 and the function that is the cause.

    \b
    Examples:
      convolver check --update -- ./cg 60
      convolver check --limits limits.toml --markdown comment.md -- ./cg 60
    """
    from convolver.checking.comparison import compare, junit, markdown
    from convolver.checking.limits import Limits
    from convolver.checking.observed import DENSE, CheckBaseline, Observed, observe, together
    from convolver.outputs import save_text
    from convolver.reporting.console import terminal_progress

    allowed = Limits() if limits is None else Limits.load(limits)
    reports = [(path, text) for path, text in ((comment, markdown), (suite, junit)) if path is not None]
    for path in (*(path for path, _ in reports), *([allowed.baseline] if update else [])):
        new_file(path, force=True)  # each run in one workspace renews them
    for path, _ in reports:
        if path.is_file() and not path.is_symlink():  # such as /dev/stdout
            path.unlink()  # a run that fails leaves none of an earlier one
    known_as = name or Path(command[0]).name
    if allowed.programs and known_as not in allowed.programs:
        say(f"Note: {limits} has no [program.{known_as}], only {', '.join(allowed.programs)}; no limit of its own holds.")
    machine = allowed.pinned()
    baseline = CheckBaseline.load(allowed.baseline, machine, anew=update)
    progress = terminal_progress()
    plan = on_engine(engine, command, DENSE)
    before, own = baseline.programs.get(known_as), allowed.of(known_as)
    expected = None if before is None else before.counts["memops"]

    def run() -> Observed:
        return observe(command, machine, marked=marked, plan=plan, expected=expected, progress=progress)

    now = together([run() for _ in range(RUNS if update else 1)])
    if started := now.counts.get("processes"):
        say(f"Note: processes that {known_as} started ({started}) are left out; check what they run instead.")
    found = compare(known_as, machine.name, before, now, own)
    if not found.passed and not update:
        again = run()  # a regression that one run alone shows is none
        found = compare(known_as, machine.name, before, min(now, again, key=lambda one: one.seconds), own)
    if update:
        baseline.programs[known_as] = now
        baseline.save(allowed.baseline)
    for path, text in reports:
        save_text(path, text([found]))
        wrote(path)
    if as_json:
        print_json(found.document())
    else:
        typer.echo(found.sentence)
        for note in found.notes:
            typer.echo(note)
    if update:
        wrote(allowed.baseline)
    elif found.change is None:
        say(f"{allowed.baseline} has no program '{known_as}'; --update keeps this run.")
    if not found.passed and not update:
        raise typer.Exit(REGRESSED)
