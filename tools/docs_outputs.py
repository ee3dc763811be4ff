"""Run the commands of the documentation and write what they print into its pages.

``make docs-outputs`` runs the commands of all pages (lines that begin with ``$``). Getting started comes first, in a folder of
its own: it profiles and calibrates this machine and traces the program that the other pages show. Each of these then runs in a
copy of that folder, so all show one machine profile and one trace, whatever order they run in. The pictures in docs/pictures
are drawn from the same folder, but for that of the validation.

It needs gcc, Valgrind with callgrind_annotate, sqlite3, Open MPI's mpicc and mpirun, and a quiet machine: pages that measure
run one at a time, the others afterwards, one a processor. What each page printed is kept in build/docs-outputs/. The same
command goes on from there after an interruption: only pages that were not run since getting started was, or whose commands
changed, are run. ``PAGES=cli/info.md`` runs these pages again, ``FRESH=1`` all of them. What fails is named at the end, and its
page stays as it is.

A test runs the same commands on a smaller problem and compares loosely: numbers may differ, the words of most lines must not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from convolver.machine.catalog import host_name  # noqa: E402
from tools.docs_pages import DOCS, HOST, START, commands, pages, refreshed  # noqa: E402

KEPT = ROOT / "build" / "docs-outputs"
MEASURES = re.compile(r"convolver (doctor|probe|validate|mpi|predict .* -- )|mpirun")
"""What asks for a processor that nobody disturbs."""
PICTURES = {
    "maps": "convolver plot maps host.machine.json run/cg@{host}.times.parquet",
    "blocks": "convolver plot blocks run/cg@{host}.times.parquet run/cg@desktop-32m.times.parquet",
}


def run(command: str, folder: Path, *others: Path) -> list[str]:
    """Run a command as a user in the folder would; returns what it printed, without what is this machine's alone.

    ``others`` are folders whose paths are left out, too. Raises :class:`RuntimeError` when it fails.
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
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, timeout=900, check=False, **streams)  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError(f"{command}\n{done.stdout}")
    text = done.stdout
    for here in (folder, *others, ROOT):
        text = text.replace(f"{here}/", "").replace(str(here), ".")
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


@dataclass(frozen=True)
class Outputs:
    """What the pages printed, in a folder that is kept between calls."""

    folder: Path

    @property
    def start(self) -> Path:
        """The folder in which getting started was run."""
        return self.folder / "start"

    def record(self, page: Path) -> Path:
        """The file with what a page printed."""
        return self.folder / "printed" / page.relative_to(DOCS).with_suffix(".json")

    def printed(self, page: Path) -> list[list[str]] | None:
        """Return what a page's commands printed, or None where they were not run since getting started was, or are others now."""
        if not self.record(page).exists():
            return None
        kept = json.loads(self.record(page).read_text())
        of_this_start = page == START or (self.record(START).exists() and kept["start"] == self._started())
        same = kept["commands"] == [command.text for command in commands(page)]
        return kept["printed"] if same and of_this_start else None

    def _started(self) -> str:
        return str(json.loads(self.record(START).read_text())["start"])

    def forget(self, page: Path) -> None:
        """Have a page run again."""
        self.record(page).unlink(missing_ok=True)

    def prepare(self, page: Path) -> Path:
        """Return a new folder for a page: an empty one for getting started, a copy of its folder for all others."""
        where = self.start if page == START else self.folder / "pages" / page.relative_to(DOCS).with_suffix("")
        shutil.rmtree(where, ignore_errors=True)
        if page != START:
            shutil.copytree(self.start, where, symlinks=True)
            return where
        where.mkdir(parents=True)
        shutil.copytree(ROOT / "examples", where / "examples")
        return where

    def run(self, page: Path) -> float:
        """Run a page's commands and keep what they print; returns the seconds. Raises :class:`RuntimeError` when one fails."""
        began, folder = time.time(), self.prepare(page)
        wanted = [command.text for command in commands(page)]
        printed = [run(text.replace(f"@{HOST}.", f"@{host_name()}."), folder, self.start) for text in wanted]
        start = str(time.time_ns()) if page == START else self._started()
        record = self.record(page)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({"start": start, "commands": wanted, "printed": printed}, indent=1))
        if page == START:
            self.draw()
        else:
            shutil.rmtree(folder)
        return time.time() - began

    def draw(self) -> None:
        """Draw the pictures of the pages."""
        for name, command in PICTURES.items():
            file = DOCS / "pictures" / f"{name}.svg"
            run(f"{command.format(host=host_name())} --force -o {file}", self.start)


def write(outputs: Outputs, page: Path, wanted: Sequence[Path]) -> str:
    """Run a page's commands where they were not, and write what they print into it if wanted; returns what went wrong."""
    name = page.relative_to(DOCS)
    try:
        took = f"{outputs.run(page):.0f} s" if outputs.printed(page) is None else "kept"
        if page in wanted:
            page.write_text(refreshed(page, outputs.printed(page) or [], host_name()))
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"{name}: failed", file=sys.stderr)
        return f"{name}: {error}"
    print(f"{name}: {took}", file=sys.stderr)
    return ""


def measures(page: Path) -> bool:
    """Return whether a page's commands ask for a quiet machine."""
    return any(MEASURES.search(command.text) for command in commands(page))


def write_all(outputs: Outputs, wanted: Sequence[Path]) -> list[str]:
    """Write pages: getting started, those that measure one after the other, then all others; returns what went wrong."""
    problems = [write(outputs, START, wanted)]
    others = [page for page in wanted if page != START and not problems[0]]
    problems += [write(outputs, page, wanted) for page in others if measures(page)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems += pool.map(lambda page: write(outputs, page, wanted), [page for page in others if not measures(page)])
    return [text for text in problems if text]


def main(names: list[str], folder: Path, fresh: bool) -> int:
    """Run the named pages again, or all that were not run, and write what they printed; returns the exit status."""
    outputs = Outputs(folder.resolve())
    if fresh:
        shutil.rmtree(outputs.folder, ignore_errors=True)
    for name in names:
        outputs.forget(DOCS / name)
    problems = write_all(outputs, [DOCS / name for name in names] or pages())
    print("".join(f"\n{text}\n" for text in problems), end="", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write what the commands of the pages print into the pages.")
    parser.add_argument("pages", nargs="*", help="pages below docs/ to run again [those that were not run]")
    parser.add_argument("--folder", type=Path, default=KEPT, help="what is kept between calls [build/docs-outputs]")
    parser.add_argument("--fresh", action="store_true", help="run everything again")
    given = parser.parse_args()
    sys.exit(main(given.pages, given.folder, given.fresh))
