"""One program as a check sees it: predicted seconds by function on the pinned machine, and counts; the baseline keeps them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from convolver import __version__
from convolver.analyzing.analyze import analyze
from convolver.convolution.convolve import convolve
from convolver.errors import FormatError, PredictionError, ProvenanceError, TracerError
from convolver.foreign_text import decode_json, json_text
from convolver.machine.profile import MachineProfile
from convolver.outputs import save_text
from convolver.progress import SILENT, Progress
from convolver.tracing.launch import closed_off
from convolver.tracing.sampling import BUDGET_BYTES, SamplingPlan

if TYPE_CHECKING:
    from convolver.convolution.block_times import BlockTimes
    from convolver.signature.signature import Signature
    from convolver.tracing.reader import Trace


DENSE = SamplingPlan(interval=100_000, sample=30_000, budget=BUDGET_BYTES)
"""What is recorded: programs that CI runs are short, and bursts that are rare miss parts of them by chance."""
FINE_ERROR = 0.002
"""Relative standard error of core cycles: chance differences of two builds, or hosts, shall be far below a threshold."""
KERNEL = "(kernel)"
OTHERS = "(others)"
_NAMED_SHARE = 0.001
"""Functions with less of the time are one row, :data:`OTHERS`."""


class FunctionTime(NamedTuple):
    """Seconds of a function, their standard error, and its hottest line (file:line, else empty)."""

    seconds: float
    error: float
    place: str = ""


class Observed(NamedTuple):
    """Predicted ``seconds`` of a program and their standard ``error``, all ``functions`` (name in module: time), which add up to
    the seconds, exact ``counts`` (``processes``: those that it started, whose time is left out), and the build id of each of the
    ``modules`` that ran."""

    seconds: float
    error: float
    functions: Mapping[str, FunctionTime]
    counts: Mapping[str, int]
    modules: Mapping[str, str]

    @classmethod
    def of_trace(cls, trace: Trace, machine: MachineProfile, progress: Progress = SILENT) -> Observed:
        """Predict a traced program; raises :class:`PredictionError` for a machine without a calibration."""
        times = convolve(analyze(trace, [machine], core_error=FINE_ERROR, progress=progress), machine)
        if times.header["method"] != "calibrated":
            raise PredictionError(f"The pinned machine '{machine.name}' is not calibrated; pin one that is.")
        return cls._of_times(times, trace.signature)

    @classmethod
    def _of_times(cls, times: BlockTimes, signature: Signature) -> Observed:
        import polars as pl

        seconds = times.total[0]
        named = pl.format("{} in {}", pl.col("function").fill_null("?"), pl.col("module").fill_null("?").str.replace(r"^.*/", ""))
        file = pl.col("file").str.replace(r"^.*/", "")
        line = pl.when(file != "").then(file + ":" + pl.col("line").cast(pl.String))
        sums = [
            pl.col("seconds").sum(),
            (pl.col("sampling_seconds") ** 2).sum().sqrt(),
            line.first().fill_null("").alias("place"),
        ]
        rows = times.table.group_by(named.alias("name"), maintain_order=True).agg(*sums).rows()
        large = {name: FunctionTime(*about) for name, *about in rows if about[0] >= _NAMED_SHARE * seconds}
        small = [about for name, *about in rows if name not in large]
        others = FunctionTime(sum(one[0] for one in small), math.hypot(*(one[1] for one in small)))
        kernel = {} if times.system is None else {KERNEL: FunctionTime(times.system.seconds, 0.0)}
        functions = {**large, OTHERS: others, **kernel}
        builds = signature.table.select("module", "build_id").unique().drop_nulls().sort("module").rows()
        counts = {name: int(signature.totals[name]) for name in ("instructions", "memops")}
        if started := (signature.header.get("system") or {}).get("forks"):
            counts["processes"] = int(started)
        error = math.hypot(*(one.error for one in functions.values()))
        return cls(seconds, error, functions, counts, {Path(module).name: build for module, build in builds if build})

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Observed:
        """Return what :meth:`document` wrote."""
        functions = {name: FunctionTime(**row) for name, row in document["functions"].items()}
        return cls(document["seconds"], document["error"], functions, document["counts"], document["modules"])

    def document(self) -> dict[str, Any]:
        """Return everything as a JSON-able document, times to six digits."""

        def short(value: float) -> float:
            return float(f"{value:.6g}")

        functions = {
            name: FunctionTime(short(one.seconds), short(one.error), one.place)._asdict() for name, one in self.functions.items()
        }
        return {**self._asdict(), "seconds": short(self.seconds), "error": short(self.error), "functions": functions}


def together(runs: Sequence[Observed]) -> Observed:
    """Return the mean of several runs of one program; the errors hold how much the runs differ, beside those of the samples."""
    names = dict.fromkeys(name for run in runs for name in run.functions)
    rows = {name: [run.functions.get(name, FunctionTime(0.0, 0.0)) for run in runs] for name in names}
    functions = {name: FunctionTime(*_mean(row), max(one.place for one in row)) for name, row in rows.items()}
    seconds, error = _mean(runs)
    return runs[0]._replace(seconds=seconds, error=error, functions=functions)


def _mean(rows: Sequence[Observed] | Sequence[FunctionTime]) -> tuple[float, float]:
    mean = math.fsum(one.seconds for one in rows) / len(rows)
    spread = math.fsum((one.seconds - mean) ** 2 for one in rows) / max(len(rows) - 1, 1)
    return mean, math.sqrt(spread + math.fsum(one.error**2 for one in rows) / len(rows))


def observe(
    argv: Sequence[str],
    machine: MachineProfile,
    *,
    marked: bool = False,
    plan: SamplingPlan = DENSE,
    expected: int | None = None,
    progress: Progress = SILENT,
) -> Observed:
    """Trace a command, or what it marks (convolver_markers.h), and predict it on the machine.

    Its output is dropped; each run has the same input. ``expected``: its memory references as an earlier run had them.

    Raises :class:`TracerError` for a command that fails or marks nothing, and what :func:`convolver.trace` raises.
    """
    from convolver.tracing.engine_choice import died_of_valgrind
    from convolver.tracing.tracer import trace

    plan = replace(plan, start_at="marker", stop_at="marker") if marked else plan
    with TemporaryDirectory(prefix="convolver-check-") as folder:
        with closed_off():
            recorded = trace(argv, output=Path(folder) / "run.cvt", sampling=plan, expected=expected, progress=progress)
        if status := recorded.header["exit_status"]:
            why = died_of_valgrind(plan, recorded.header)
            advice = f"{why}; check with --engine native" if why else "check a run that succeeds"
            raise TracerError(f"'{argv[0]}' ended with status {status}, so its time means nothing; {advice}.")
        if marked and not recorded.signature.totals["instructions"]:
            raise TracerError(f"'{argv[0]}' ran nothing between marks; `convolver --includes` finds their header.")
        return Observed.of_trace(recorded, machine, progress)


_AGAIN = "`convolver check --update -- COMMAND` makes the baseline anew"


class CheckBaseline:
    """Programs by name, and what their times rest on: the machine's id and the version of Convolver.

    The file is meant for version control: it has a line a number, and no id that a merge would break.
    """

    def __init__(self, machine: MachineProfile, programs: dict[str, Observed] | None = None) -> None:
        self.machine = machine
        self.programs = programs or {}

    @classmethod
    def load(cls, path: Path, machine: MachineProfile, *, anew: bool = False) -> CheckBaseline:
        """Read a baseline, an empty one where there is no file or, with ``anew``, one for something else.

        Raises :class:`FormatError` for something else, :class:`ProvenanceError` for another machine or version of Convolver.
        """
        if not path.exists():
            return cls(machine)
        try:
            document = decode_json(path.read_bytes(), str(path))
            made = {name: document[name] for name in ("machine", "machine_id", "convolver")}
            programs = {name: Observed.read(one) for name, one in document["programs"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, FormatError) as error:
            raise FormatError(f"{path} is no baseline ({error}); remove it, then {_AGAIN}.") from error
        current = (made["machine_id"], made["convolver"]) == (machine.id, __version__)
        if anew:
            return cls(machine, programs if current else {})
        if made["machine_id"] != machine.id:
            raise ProvenanceError(f"{path} is for another machine or profile ('{made['machine']}'); {_AGAIN}.")
        if made["convolver"] != __version__:
            raise ProvenanceError(f"{path} was made by Convolver {made['convolver']}, this is {__version__}; {_AGAIN}.")
        return cls(machine, programs)

    def document(self) -> dict[str, Any]:
        """Return everything as a JSON-able document."""
        programs = {name: self.programs[name].document() for name in sorted(self.programs)}
        return {"machine": self.machine.name, "machine_id": self.machine.id, "convolver": __version__, "programs": programs}

    def save(self, path: Path) -> None:
        """Write the file; raises :class:`FormatError` when that fails."""
        text = json_text(self.document(), indent=1) + "\n"
        save_text(path, text)
