"""``convolver predict --trace-children``: a command with all processes that it starts, each predicted, and their sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.analyzing.analyze import analyze, load_program
from convolver.cli.common import AsData, say
from convolver.cli.predict_steps import say_failed
from convolver.convolution.processes_sum import sum_of_processes
from convolver.convolution.verdict import base_check, judged_target
from convolver.errors import ConvolverError, UsageError

if TYPE_CHECKING:
    from convolver.cli.predict_steps import Chain
    from convolver.pipeline import Prediction
    from convolver.tracing.processes import ChildTrace
    from convolver.tracing.sampling import SamplingPlan


class ProcessPrediction:
    """What is predicted of one program of a process, on each target: what a sum needs, since a command may start thousands."""

    def __init__(self, child: ChildTrace, predictions: list[Prediction], pages: Mapping[str, int]) -> None:
        self.documents, self.pages = [one.document for one in predictions], Counter(pages)
        base = self.documents[0]["base"]
        process = child.process
        self.row = {
            **{"process": process.pid, "parent": process.parent, "command": process.command, "trace": str(child.path)},
            "seconds": {side["machine"]: side["seconds"] for side in (base, *(one["target"] for one in self.documents))},
            "cpu_ratios": {one["target"]["machine"]: one["cpu_ratio"] for one in self.documents},
        }
        """Of the table and of JSON."""


def predict_children(
    chain: Chain, argv: list[str], plan: SamplingPlan, *, runs: int, measured: float | None, overlap: str, method: str
) -> tuple[list[ProcessPrediction], list[dict[str, Any]]]:
    """Measure a command where that is not done, trace all its processes and predict each; return these, those that take longest
    first, and one sum a target.

    A process that ended before anything of it could be predicted is left out, with a sentence.
    """
    from convolver.tracing.children import trace_children
    from convolver.tracing.launch import closed_off
    from convolver.tracing.preflight import check_command

    folder = chain.output or Path(".")
    if chain.measurement is None:
        check_command(argv, scan=plan.engine == "valgrind")
        chain.make_folder()
        chain.find_machines(probe=True)
        chain.say_how_long(argv, runs)
        if runs:
            chain.measure(argv, runs)
    name = str(folder / f"{Path(argv[0]).name}.%p.cvt")
    with closed_off():
        status, children = trace_children(argv, output=name, sampling=plan, progress=chain.progress, force=chain.force)
    say_failed(status)
    found = [one for child in children if (one := _predicted(chain, child, overlap, method)) is not None]
    if not found:
        raise UsageError(f"Nothing of '{argv[0]}' and the processes that it started can be predicted; see the sentences above.")
    seconds = chain.measured_seconds(measured)
    sums = [sum_of_processes([one.documents[i] for one in found], seconds) for i in range(len(chain.targets))]
    return sorted(found, key=lambda one: -one.documents[0]["base"]["seconds"]), sums


def _predicted(chain: Chain, child: ChildTrace, overlap: str, method: str) -> ProcessPrediction | None:
    try:
        trace = load_program(child.path)
        analysis = analyze(trace, chain.machines, progress=chain.progress)
        predictions = chain.on_targets(analysis, overlap=overlap, method=method)
    except ConvolverError as error:
        say(f"Process {child.process.pid}, {' '.join(child.process.command)}, is left out: {error}")
        return None
    return ProcessPrediction(child, predictions, (trace.signature.header.get("system") or {}).get("pages") or {})


def report_children(chain: Chain, found: list[ProcessPrediction], sums: list[dict[str, Any]], top: int, as_data: AsData) -> bool:
    """Print the sums and the processes; return False where the check on the base failed."""
    rows = [one.row for one in found]
    pages = sum((one.pages for one in found), Counter())
    check = base_check(sums[0], {"pages": pages}, chain.seen)

    def document() -> dict[str, Any]:
        return {
            "base": sums[0]["base"],
            "measured_seconds": sums[0]["measured_seconds"],
            "targets": [judged_target(one) for one in sums],
            "check": None if check is None else check._asdict(),
            "measurement": None if chain.measurement is None else chain.measurement.to_document(),
            "processes": rows,
        }

    if not as_data.printed(document, lambda: rows):
        _show(rows, sums, top)
        if check is not None:
            say(check.sentence)
    return check is None or check.passed


def _show(rows: list[dict[str, Any]], sums: list[dict[str, Any]], top: int) -> None:
    from convolver.reporting.console import out
    from convolver.reporting.grid import WIDEST, grid
    from convolver.reporting.tables import predictions
    from convolver.units import format_seconds

    console, machines = out(), list(rows[0]["seconds"])
    table = grid(["process", "command"], [*machines, *(f"ratio {name}" for name in rows[0]["cpu_ratios"])], "Processes", WIDEST)
    for row in rows[:top]:
        ratios = (f"{ratio:.3g}" for ratio in row["cpu_ratios"].values())
        table.add_row(str(row["process"]), " ".join(row["command"]), *map(format_seconds, row["seconds"].values()), *ratios)
    if top:
        console.print(table)
        console.print(f"{min(top, len(rows))} of {len(rows)} processes shown", style="dim")
        console.print()
    console.print(predictions(sums))
    console.print()
