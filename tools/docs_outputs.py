"""The commands of the documentation and what they print.

``make docs-outputs`` runs the commands of all pages (lines that begin with ``$``), getting started first, in one new folder, and
writes below each what it printed. A test runs the same commands on a smaller problem and compares loosely: numbers may differ,
the words of most lines must not.

A long output is cut to its first and last lines with ``...`` between. ``<!-- shown: 8+3 -->`` before a block of commands says how
many; ``<!-- shown: 0+0 -->`` shows none. ``<!-- shown: 8+3, varies -->``: it hangs on the machine and is not compared.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
START = DOCS / "getting-started.md"
INDENT, PROMPT = "    ", "    $ "
CUT = "..."
HOST = "vm"
"""What the machine that wrote the pages is called there."""

_SHOWN = re.compile(r"<!-- shown: (\d+)\+(\d+)(, varies)? -->")
_USUAL = (16, 5)
_WORD = re.compile(r"(?<!\w)[A-Za-z][A-Za-z_-]{2,}(?!\w)")
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*")
_UNITS = {"KiB", "MiB", "GiB"}
ROW = 3
"""A line with so many numbers is a row of a table."""


@dataclass(frozen=True)
class Command:
    """A command of a page, the lines below it that show its output, and how many first and last lines are to be shown."""

    text: str
    line: int
    output: tuple[str, ...]
    end: int
    shown: tuple[int, int]
    varies: bool = False


def pages() -> list[Path]:
    """Return the pages with commands, getting started first."""
    return [START, *sorted(page for page in DOCS.rglob("*.md") if page != START and PROMPT in page.read_text())]


def commands(page: Path) -> list[Command]:
    """Return the commands of a page in order."""
    lines = page.read_text().splitlines()
    found, shown, varies = [], _USUAL, False
    for number, line in enumerate(lines):
        if marked := _SHOWN.match(line):
            shown, varies = (int(marked[1]), int(marked[2])), bool(marked[3])
        elif line and not line.startswith(INDENT):
            shown, varies = _USUAL, False
        if line.startswith(PROMPT):
            end = _end(lines, number + 1)
            output = tuple(one.removeprefix(INDENT) for one in lines[number + 1 : end])
            found.append(Command(line.removeprefix(PROMPT), number, output, end, shown, varies))
    return found


def _end(lines: list[str], start: int) -> int:
    """Return the line behind an output: it ends with the block, before the blank lines behind it, or at the next command."""
    end = start
    for number in range(start, len(lines)):
        if lines[number].startswith(PROMPT) or (lines[number] and not lines[number].startswith(INDENT)):
            break
        if lines[number]:
            end = number + 1
    return end


def run(command: str, folder: Path) -> list[str]:
    """Run a command as a user in the folder would; returns what it printed, without what is this machine's alone.

    Raises :class:`RuntimeError` when it fails.
    """
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CONVOLVER_CACHE": str(folder / "cache"),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PYTHONUNBUFFERED": "1",
    }
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, timeout=300, check=False, **streams)  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError(f"{command}\n{done.stdout}")
    text = done.stdout.replace(f"{folder}/", "").replace(f"{ROOT}/", "").replace(str(folder), ".")
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def shortened(output: list[str], shown: tuple[int, int]) -> list[str]:
    """Return an output with its middle left out where it is long."""
    first, last = shown
    if not first + last:
        return []
    if len(output) <= first + last + 1:
        return output
    return [*output[:first], CUT, *(output[-last:] if last else [])]


def words(line: str) -> frozenset[str]:
    """Return what must agree between a line that is shown and one that is printed elsewhere: of rows of numbers, their name."""
    found = [word for word in _WORD.findall(line) if word not in _UNITS]
    return frozenset(found[:1] if len(_NUMBER.findall(line)) >= ROW else found)


def missing(shown: tuple[str, ...] | list[str], real: list[str]) -> list[str]:
    """Return the lines of a page's output whose words stand together on no line of the real output."""
    printed = [frozenset(_WORD.findall(line)) for line in real]
    return [line for line in shown if line != CUT and words(line) and not any(words(line) <= one for one in printed)]


def agree(shown: tuple[str, ...] | list[str], real: list[str]) -> bool:
    """Return whether at least two thirds of the lines that are shown are printed, but for their numbers.

    The rest may differ with the machine (what is installed, how noisy it is) and with the size of the problem.
    """
    told = [line for line in shown if line != CUT and words(line)]
    return 3 * len(missing(shown, real)) <= len(told)


def refreshed(page: Path, folder: Path) -> str:
    """Return a page with the present output of its commands."""
    lines = page.read_text().splitlines()
    text: list[str] = []
    at = 0
    for command in commands(page):
        print(f"{page.relative_to(DOCS)}: {command.text[:100]}", file=sys.stderr)
        here = _host_name()
        printed = run(command.text.replace(f"@{HOST}.", f"@{here}."), folder)
        named = [re.sub(rf"(?<!\w){re.escape(here)}(?!\w)", HOST, line) for line in printed]
        text += lines[at : command.line + 1]
        text += [f"{INDENT}{line}".rstrip() for line in shortened(named, command.shown)]
        at = command.end
    return "\n".join([*text, *lines[at:]]) + "\n"


def _host_name() -> str:
    from convolver.machine.catalog import host_name

    return host_name()


def main(names: list[str], kept: Path | None) -> None:
    """Write the present outputs into the named pages, or into all; ``kept`` is used again when getting started was run there."""
    wanted = [DOCS / name for name in names] or pages()
    with tempfile.TemporaryDirectory() as temporary:
        folder = kept.resolve() if kept else Path(temporary)
        folder.mkdir(exist_ok=True)
        started = (folder / "examples").is_symlink()
        if not started:
            (folder / "examples").symlink_to(ROOT / "examples")
        for page in [*([] if started else [START]), *(page for page in pages() if page in wanted and page != START)]:
            text = refreshed(page, folder)
            if page in wanted:
                page.write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write what the commands of the pages print into the pages.")
    parser.add_argument("pages", nargs="*", help="pages below docs/ [all]")
    parser.add_argument("--folder", type=Path, help="folder to work in; where getting started was run there, it is not run again")
    given = parser.parse_args()
    main(given.pages, given.folder)
