"""Write the measured figures of the pages from the result files of ``benchmarks/results/``.

A page holds blocks such as

    <!-- result tracer-slowdown: table program,counts -->
    ...what is generated...
    <!-- /result -->

Within a line, ``<!-- value tracer-slowdown.counts -->3 to 11<!-- /value -->`` is one value. The words after the colon are
``table`` or ``table COLUMN,COLUMN``, either followed by ``where COLUMN=VALUE and COLUMN=VALUE``, or a text with fields in braces,
which are values of the result file. ``python tools/result_tables.py`` writes the blocks; ``--check`` says which pages are not
current and exits with 1.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"(<!-- result (?P<name>[\w-]+): (?P<what>.*?) -->\n)(?P<body>.*?)(<!-- /result -->)", re.S)
VALUE = re.compile(r"(<!-- value (?P<name>[\w-]+)\.(?P<key>\w+) -->)(?P<body>.*?)(<!-- /value -->)")
FIELDS = ("name", "command", "commit", "machine", "date")


class StaleResultError(Exception):
    """A page names a result, a column or a value that is not there."""


def load(name: str) -> dict[str, Any]:
    """Return a result: the :data:`FIELDS`, and ``columns`` with ``rows``, ``values``, or both."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise StaleResultError(f"There is no result file {path.relative_to(ROOT)}.")
    result: dict[str, Any] = json.loads(path.read_text())
    missing = [field for field in FIELDS if not result.get(field)]
    if missing:
        raise StaleResultError(f"{path.relative_to(ROOT)} lacks {', '.join(missing)}.")
    return result


def table(result: dict[str, Any], wanted: str) -> str:
    """Return a Markdown table of the wanted columns (comma-separated; empty: all) and rows (``where COLUMN=VALUE and ...``)."""
    columns = result["columns"]
    wanted, _, condition = wanted.partition("where ")
    names = [name.strip() for name in wanted.split(",")] if wanted.strip() else columns
    asked = dict(one.strip().split("=", 1) for one in condition.split(" and ")) if condition else {}
    unknown = [name for name in (*names, *asked) if name not in columns]
    if unknown:
        raise StaleResultError(f"The result {result['name']} has no column {', '.join(unknown)}; it has {', '.join(columns)}.")
    places = [columns.index(name) for name in names]
    chosen = [row for row in result["rows"] if all(str(row[columns.index(key)]) == value for key, value in asked.items())]
    if not chosen:
        raise StaleResultError(f"The result {result['name']} has no row with {condition}.")
    rows = [[("" if row[place] is None else str(row[place])) for place in places] for row in chosen]
    if len(names) == 1 or not all(row[0] for row in rows):  # Markdown needs outer bars here
        return "\n".join(f"| {' | '.join(row)} |" for row in [names, ["---"] * len(names), *rows])
    return "\n".join([" | ".join(names), "|".join(["---"] * len(names)), *(" | ".join(row).rstrip() for row in rows)])


def rendered(name: str, what: str) -> str:
    """Return what a block shows."""
    result = load(name)
    if what == "table" or what.startswith("table "):
        return "\n" + table(result, what.removeprefix("table").strip()) + "\n\n"
    try:
        return what.format_map({**result, **result.get("values", {})}) + "\n"
    except (KeyError, ValueError, IndexError) as error:
        raise StaleResultError(f"The text of a block with the result {name} cannot be filled in: {error!r}.") from error


def current(text: str) -> str:
    """Return a page's text with all of its blocks and values generated anew."""
    text = BLOCK.sub(lambda found: found[1] + rendered(found["name"], found["what"]) + found[5], text)
    return VALUE.sub(lambda found: found[1] + rendered(found["name"], f"{{{found['key']}}}").strip() + found[5], text)


def main() -> int:
    """Write or check all pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a page is not current")
    check = parser.parse_args().check
    stale = []
    for page in PAGES:
        text = page.read_text()
        try:
            new = current(text)
        except StaleResultError as error:
            print(f"{page.relative_to(ROOT)}: {error}", file=sys.stderr)
            return 1
        if new != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(new)
    if stale:
        print(("Not current, run `make tables`: " if check else "Written: ") + ", ".join(stale))
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
