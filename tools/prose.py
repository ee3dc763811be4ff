"""Check the prose of pages and help texts: proselint's rules, and the words and sentence length of CONTRIBUTING.md's style sheet.

``python tools/prose.py`` reads README, CONTRIBUTING, ARCHITECTURE, docs/ and what ``convolver VERB --help`` says, prints
``file:line: what is wrong``, and exits with 1 where anything is. Code, commands and their output are left out. Comments,
docstrings and messages of the code are held to the list of words alone.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path
from typing import Any, NamedTuple

import typer

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 40
"""Words of a sentence above which it is reported; the style sheet asks for 25."""
CODE = (
    re.compile(r"^```.*?^```", re.S | re.M),
    re.compile(r"<!--.*?-->", re.S),
    re.compile(r"^( {4}|\t).*$", re.M),
    re.compile(r"``[^`]+``|`[^`]+`"),
    re.compile(r"\]\([^)]*\)"),
    re.compile(r"https?://\S+"),
    re.compile(r"^\|?[^|\n]*(?=\|)", re.M),  # the first cell of a row is a name
)
CODE_IN_TEXT = (re.compile(r"``[^`]+``|`[^`]+`|:\w+:`[^`]+`"), re.compile(r"https?://\S+"))
C_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])* (?:\\.|[^"\\\n])*"', re.S)
IGNORED = ("typography.", "lexical_illusions", "misc.capitalization.days")
"""Checks of proselint that do not suit pages: typography is Markdown's, tables repeat words, `monday` is a machine's name."""


class Finding(NamedTuple):
    """Where something is wrong, and what."""

    source: str
    line: int
    what: str


def prose(text: str, code: tuple[re.Pattern[str], ...] = CODE) -> str:
    """Return a page with everything that is not prose replaced by blanks, lines kept."""
    for pattern in code:
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def help_texts() -> dict[str, str]:
    """Return the help of every verb and option, by command."""
    from convolver.cli.app import app

    found: dict[str, str] = {}

    def walk(command: Any, name: str) -> None:
        texts = [re.sub(r"^ +.*$", "", str(command.help or "").replace("\b", ""), flags=re.M)]  # examples are indented
        texts += [str(getattr(one, "help", "") or "") for one in command.params]
        found[f"{name} --help"] = "\n\n".join(texts)
        for word, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{name} {word}")

    walk(typer.main.get_command(app), "convolver")
    return found


def code_texts() -> dict[str, str]:
    """Return the comments and the strings of more than one word of each source file, everything else replaced by blanks."""
    listed = subprocess.run(["git", "ls-files", "*.py", "*.c", "*.h"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = {}
    for name in listed.stdout.split():
        text = (ROOT / name).read_text()
        spans = _python_spans(text) if name.endswith(".py") else [match.span() for match in C_TEXT.finditer(text)]
        kept = bytearray(re.sub(r"[^\n]", " ", text).encode("ascii"))
        for first, end in spans:
            kept[first:end] = text[first:end].encode("ascii", "replace")
        found[name] = prose(kept.decode("ascii"), CODE_IN_TEXT)
    return found


def _python_spans(text: str) -> list[tuple[int, int]]:
    starts = [0, *(match.end() for match in re.finditer(r"\n", text))]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    wanted = [one for one in tokens if one.type in (tokenize.COMMENT, tokenize.STRING) and " " in one.string]
    return [(starts[one.start[0] - 1] + one.start[1], starts[one.end[0] - 1] + one.end[1]) for one in wanted]


def words() -> list[tuple[re.Pattern[str], str]]:
    """Return the patterns of ``tools/words.txt`` with what to write instead."""
    lines = [line for line in (ROOT / "tools" / "words.txt").read_text().splitlines() if line and not line.startswith("#")]
    return [(re.compile(pattern, re.I), instead) for pattern, instead in (line.split("\t") for line in lines)]


WORDS = words()


def line_of(text: str, match: re.Match[str]) -> int:
    """Return the line of a text, from 1, on which a match begins."""
    return text.count("\n", 0, match.start()) + 1


def word_findings(source: str, text: str) -> list[Finding]:
    """Return house words and British spellings."""
    found = [(match, instead) for pattern, instead in WORDS for match in pattern.finditer(text)]
    return [Finding(source, line_of(text, match), f"'{match[0]}': write {instead}") for match, instead in found]


def own_findings(source: str, text: str) -> list[Finding]:
    """Return house words, British spellings and sentences that are too long."""
    found = word_findings(source, text)
    for block in re.finditer(r"(?:^(?!\s*$|\s*[|#*-]|\s*\d+\.).*\n?)+", text, re.M):
        long = [one.strip() for one in re.split(r"(?<=[.!?:;])\s", block[0]) if len(one.split()) > LONGEST]
        found += [Finding(source, line_of(text, block), f"{len(one.split())} words in a sentence: {one[:40]}...") for one in long]
    return found


def proselint_findings(texts: dict[str, str]) -> list[Finding]:
    """Return what proselint says of the texts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {}
        for number, (source, text) in enumerate(texts.items()):
            path = folder / f"{number}.md"
            path.write_text(text or " ")
            files[str(path)] = source
        command = [sys.executable, "-m", "proselint", "-o", "compact", "check", *files]
        printed = subprocess.run(command, capture_output=True, text=True)
    if printed.returncode not in (0, 1) or (printed.returncode and not printed.stdout):
        raise SystemExit(f"proselint failed: {printed.stderr.strip() or printed.stdout.strip()}")
    found = []
    for line in printed.stdout.splitlines():
        if match := re.match(r"(?P<file>.+?\.md):(?P<line>\d+):\d+: (?P<what>.*)", line):
            source = files.get(match["file"]) or next((own for path, own in files.items() if path.endswith(match["file"])), "?")
            found.append(Finding(source, int(match["line"]), match["what"]))
    return [finding for finding in found if not finding.what.startswith(IGNORED)]


def main() -> int:
    """Print all findings; 1 where there are any."""
    pages = [path for name in ("README", "CONTRIBUTING", "ARCHITECTURE") if (path := ROOT / f"{name}.md").is_file()]
    pages += sorted((ROOT / "docs").rglob("*.md"))
    texts = {str(page.relative_to(ROOT)): prose(page.read_text()) for page in pages}
    texts |= {name: prose(text) for name, text in help_texts().items()}
    found = [finding for source, text in texts.items() for finding in own_findings(source, text)]
    # A column's name stands in code as it is.
    found += [one for source, text in code_texts().items() for one in word_findings(source, text) if "memop" not in one.what]
    found += proselint_findings(texts)
    for finding in sorted(found):
        print(f"{finding.source}:{finding.line}: {finding.what}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
