"""How long a report of 50,000 blocks, or of a program's artifacts, takes to open and sort in headless Chromium, by elapsed time.

Chromium's own clock stands still under a virtual time budget, so whole processes are timed: an empty page, the report, and the
report with a script that sorts it SORTS times. Opening = report - empty page; a sort = (sorting - report) / SORTS.

    python -m tests.bench.report_page [FOLDER | FILE...]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from convolver.reporting.html.page import render
from convolver.reporting.report_input import gather
from tests.artifact_chain import make_chain
from tests.chromium import dump_dom

BLOCKS, SORTS, ROUNDS = 50_000, 40, 3
SORTING = """<script>
const wait = setInterval(() => {{
  if (!window.report) return;
  clearInterval(wait);
  for (let n = 0; n < {sorts}; n++) window.report.table.by(["memops", "function", "seconds", "place"][n % 4]);
  document.body.setAttribute("data-sorted", "");
}}, 5);
</script></body>"""


def timed(path: Path) -> float:
    """Return the elapsed time of one Chromium that opens a page and prints what became of it."""
    start = time.perf_counter()
    dump_dom(path)
    return time.perf_counter() - start


def main(inputs: list[str]) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not inputs:
            make_chain(folder, BLOCKS)
            inputs = [name, f"{name}/base.machine.json"]
        bundle = gather(inputs)
        page = render(bundle)
        pages = {"empty": "<!doctype html><title>empty</title>", "report": page}
        pages["sorted"] = page.replace("</body>", SORTING.format(sorts=SORTS))
        for key, text in pages.items():
            (folder / f"{key}.html").write_text(text)
        times = {key: median(timed(folder / f"{key}.html") for _ in range(ROUNDS)) for key in pages}
        print(f"{bundle.signature.totals['blocks']} blocks, {len(page.encode()) / 1e6:.2f} MB")
        print(f"empty page {times['empty']:.2f} s, report {times['report']:.2f} s, with {SORTS} sorts {times['sorted']:.2f} s")
        sort = (times["sorted"] - times["report"]) / SORTS
        print(f"opening {times['report'] - times['empty']:.2f} s, one sort {sort * 1e3:.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Time a report in headless Chromium.")
    parser.add_argument("inputs", nargs="*", help="what `convolver report` takes [a made-up program of 50,000 blocks]")
    main(parser.parse_args().inputs)
