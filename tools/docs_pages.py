"""The pages of the documentation: their commands, the outputs shown below these, and when shown and printed outputs agree.

A long output is cut to its first and last lines with ``...`` between. ``<!-- shown: 8+3 -->`` before a block of commands says how
many; ``<!-- shown: 0+0 -->`` shows none. ``<!-- shown: 8+3, varies -->``: it hangs on the machine and is not compared.
"""

from __future__ import annotations

import re
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
    """Return the line after an output: it ends with the block, before the blank lines after it, or at the next command."""
    end = start
    for number in range(start, len(lines)):
        if lines[number].startswith(PROMPT) or (lines[number] and not lines[number].startswith(INDENT)):
            break
        if lines[number]:
            end = number + 1
    return end


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
    compared = [line for line in shown if line != CUT and words(line)]
    return 3 * len(missing(shown, real)) <= len(compared)


def refreshed(page: Path, printed: list[list[str]], host: str) -> str:
    """Return a page with what its commands printed on a machine of that name."""
    lines = page.read_text().splitlines()
    text: list[str] = []
    at = 0
    for command, output in zip(commands(page), printed, strict=True):
        named = [re.sub(rf"(?<!\w){re.escape(host)}(?!\w)", HOST, line) for line in output]
        text += lines[at : command.line + 1]
        text += [f"{INDENT}{line}".rstrip() for line in shortened(named, command.shown)]
        at = command.end
    return "\n".join([*text, *lines[at:]]) + "\n"
