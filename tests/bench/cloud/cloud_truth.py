"""Predicts the compression rows of a public table of cloud machines and compares times and CPU ratios with its medians.

The table (Spare Cores, CC BY-SA 4.0) is not part of this repository: `--truth throughput.csv` has the columns cpu, suite,
workload, unit, threads, median, iqr_over_median, instances. Its programs run here from wheels of the time when most of it was
measured, so the machine code is the same (later ones allocate otherwise: pyzstd 0.20 has a page fault for each page of what it
unpacks, 0.16 none):

    python -m venv run/cloud/venv && run/cloud/venv/bin/pip install brotli==1.1.0 pyzstd==0.16.2 lz4==4.3.3
    python tests/bench/cloud/cloud_truth.py --truth throughput.csv --python run/cloud/venv/bin/python -o run/cloud

`--stress-ng PROGRAM` adds CPU ratios of the table's stable stressors that the program has (Debian's four, 0.20.01 all; times are
not compared, since other compilers built it). The text is fetched; where that is not possible, a copy of the corpus's `dickens`
at `run/cloud/text.txt` serves. Traces and predictions are kept: a run that was stopped goes on, and who has changed the model or
chooses other machines removes `predicted` from the output folder first.

Rows whose interquartile range is above `--most-range` of the median say little and are left out. The table has the better of two
times in one process, so what a first time takes alone (the interpreter, its imports, reading the file, new pages of the heap) is
predicted from a trace of one time and subtracted. Workloads and CPU models are
halved by a hash of their names, as programs of a campaign are; `--half looked` leaves the other half of both out, so that who
changes the model does not see it. The measured machines' own CPU models are in either half.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from cloud_text import SIZE, write_text
from compression_job import parse
from thread_scaling import OPERATIONS
from thread_scaling import trace as trace_stressor

from convolver.analyzing.analyze import analyze
from convolver.convolution.convolve import convolve
from convolver.convolution.cpu_ratio import ratio_interval
from convolver.machine.catalog import find_machine
from convolver.machine.profile import MachineProfile

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from campaign_results import HALVES, half  # noqa: E402
from result_file import write_result  # noqa: E402

MEASURED = {
    "cloud-server@machine": "Intel(R) Xeon(R) 6975P-C",
    "cloud-epyc-milan@machine": "AMD EPYC 7R13 Processor",
    "cloud-epyc-genoa@machine": "AMD EPYC 9R14",
    "cloud-epyc-turin@machine": "AMD EPYC 9B45",
}
"""The measured machines without what other VMs took, and the row of the table that has their CPU."""
PUBLIC_RANGE = 0.05
"""Rows of stress-ng are stable up to this interquartile range."""
LOOKED_AT: dict[str, tuple[int, int]] = {
    "gzip-1-compress": (SIZE, 2),
    "gzip-5-compress": (6_000_000, 2),
    "gzip-9-compress": (2_000_000, 2),
    "gzip-5-decompress": (SIZE, 4),
    "bzip2-1-compress": (3_000_000, 2),
    "bzip2-9-compress": (2_700_000, 2),
    "bzip2-1-decompress": (6_000_000, 2),
    "bzip2-9-decompress": (3_600_000, 2),
    "brotli-0-compress": (SIZE, 3),
    "brotli-4-compress": (SIZE, 2),
    "brotli-8-compress": (2_000_000, 2),
    "brotli-4-decompress": (SIZE, 5),
    "zstd-1-compress": (SIZE, 4),
    "zstd-7-compress": (SIZE, 2),
    "zstd-7-decompress": (SIZE, 12),
    'lz4-1-compress{"block_size": 65536}': (SIZE, 6),
    'lz4-1-compress{"block_size": 4194304}': (SIZE, 6),
    'lz4-6-compress{"block_size": 1048576}': (4_000_000, 2),
    'lz4-12-compress{"block_size": 4194304}': (2_000_000, 2),
    'lz4-1-decompress{"block_size": 4194304}': (SIZE, 20),
}
"""Bytes of text and how often they are packed, which after the first time takes some 0.2 s. Who changed the model saw these."""
FRESH: dict[str, tuple[int, int]] = {
    "gzip-1-decompress": (SIZE, 4),
    "gzip-9-decompress": (SIZE, 4),
    "bzip2-5-compress": (3_000_000, 2),
    "bzip2-5-decompress": (6_000_000, 2),
    "brotli-11-compress": (600_000, 2),
    "brotli-0-decompress": (SIZE, 5),
    "brotli-8-decompress": (SIZE, 5),
    "brotli-11-decompress": (SIZE, 5),
    "zstd-14-compress": (3_000_000, 2),
    "zstd-22-compress": (3_000_000, 2),
    "zstd-1-decompress": (SIZE, 12),
    "zstd-14-decompress": (SIZE, 12),
    "zstd-22-decompress": (SIZE, 12),
    'lz4-1-compress{"block_size": 1048576}': (SIZE, 6),
    'lz4-6-compress{"block_size": 65536}': (4_000_000, 2),
    'lz4-6-compress{"block_size": 4194304}': (4_000_000, 2),
    'lz4-12-compress{"block_size": 65536}': (2_000_000, 2),
    'lz4-12-compress{"block_size": 1048576}': (2_000_000, 2),
    'lz4-16-compress{"block_size": 65536}': (2_000_000, 2),
    'lz4-16-compress{"block_size": 1048576}': (2_000_000, 2),
    'lz4-16-compress{"block_size": 4194304}': (2_000_000, 2),
    'lz4-1-decompress{"block_size": 65536}': (SIZE, 20),
    'lz4-1-decompress{"block_size": 1048576}': (SIZE, 20),
    'lz4-6-decompress{"block_size": 65536}': (SIZE, 20),
    'lz4-6-decompress{"block_size": 1048576}': (SIZE, 20),
    'lz4-6-decompress{"block_size": 4194304}': (SIZE, 20),
    'lz4-12-decompress{"block_size": 65536}': (SIZE, 20),
    'lz4-12-decompress{"block_size": 1048576}': (SIZE, 20),
    'lz4-12-decompress{"block_size": 4194304}': (SIZE, 20),
    'lz4-16-decompress{"block_size": 65536}': (SIZE, 20),
    'lz4-16-decompress{"block_size": 1048576}': (SIZE, 20),
    'lz4-16-decompress{"block_size": 4194304}': (SIZE, 20),
}
"""The table's other rows, predicted for the first time when the model of November 2026 was done."""
WORK = LOOKED_AT | FRESH


class Job(NamedTuple):
    """What is traced: a workload, so often or once."""

    name: str
    words: tuple[str, ...]


class Predicted(NamedTuple):
    """Seconds of a job by machine, and the ends of its CPU ratio's 90 % interval by pair, relative to the ratio."""

    seconds: dict[str, float]
    ends: dict[tuple[str, str], tuple[float, float]]


def jobs(workload: str, python: str, folder: Path) -> tuple[Job, Job]:
    """Return the workload, so often and once; writes what it unpacks."""
    _, _, direction, _ = parse(workload)
    size, times = WORK[workload]
    text = folder / "text.txt"
    short = workload.translate(str.maketrans({"{": "-", "}": "", '"': "", ":": "", " ": ""}))
    packed = text if direction == "compress" else folder / f"{short}.{size}"
    script = str(HERE / "compression_job.py")

    def job(count: int) -> Job:
        return Job(f"{short}-{count}", (script, workload, str(packed), str(size), str(count)))

    if not packed.exists():
        subprocess.run([python, script, workload, str(text), str(size), "1", str(packed)], check=True)
    return job(times), job(1)


def trace(job: Job, python: str, folder: Path) -> Path:
    """Return the job's trace, made unless it is there."""
    path = folder / f"{job.name}.cvt"
    if not path.exists():
        part = path.with_suffix(".part.cvt")
        options = ["--interval", "1M", "--sample", "30k", "--sets", "32", "--force"]
        asked = [python, "-c", "import site; print(site.getsitepackages()[0])"]
        site = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        # Without `site` the interpreter starts with less to trace.
        command = [sys.executable, "-m", "convolver", "trace", *options, "-o", str(part), "--", python, "-S", *job.words]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": site})
        part.rename(path)
        part.with_suffix(".sig.parquet").unlink(missing_ok=True)
    return path


def predict(path: Path, machines: Sequence[MachineProfile]) -> Predicted:
    """Return what a trace takes on the machines."""
    analysis = analyze(path, machines)
    times = {one.name: convolve(analysis, one) for one in machines}
    ends = {}
    for first, second in combinations(times, 2):
        known = ratio_interval(times[first], times[second])
        if known is not None:
            whole = times[first].seconds / times[second].seconds
            ends[first, second] = (known[0] / whole, known[1] / whole)
    return Predicted({name: one.total[0] for name, one in times.items()}, ends)


def predicted(paths: Sequence[Path], machines: Mapping[str, MachineProfile]) -> dict[str, Any]:
    """Return seconds by machine, and the ends of ratios' intervals by pair, of a trace, less what a second one takes."""
    whole, *first = (predict(path, list(machines.values())) for path in paths)
    seconds = {name: whole.seconds[one.name] - sum(less.seconds[one.name] for less in first) for name, one in machines.items()}
    names = {one.name: name for name, one in machines.items()}
    ends = {f"{names[a]} {names[b]}": end for (a, b), end in whole.ends.items()}
    ends |= {f"{names[b]} {names[a]}": (1 / high, 1 / low) for (a, b), (low, high) in whole.ends.items()}
    return {"seconds": seconds, "ends": ends}


def truth(path: Path, most_range: float, suite: str = "compression") -> dict[str, dict[str, float]]:
    """Return bytes (or bogo operations) a second by workload and CPU, of a suite's rows that say something."""
    found: dict[str, dict[str, float]] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            if row["suite"].startswith(suite) and row["threads"] == "1" and float(row["iqr_over_median"]) <= most_range:
                found.setdefault(row["workload"], {})[row["cpu"]] = float(row["median"])
    return found


def amount(workload: str) -> int:
    """Return the bytes, or bogo operations of a stressor, that predicted seconds are for."""
    if workload in OPERATIONS:
        return OPERATIONS[workload]
    size, times = WORK[workload]
    return size * (times - 1)


def rows(
    results: Mapping[str, Mapping[str, Any]], known: Mapping[str, Mapping[str, float]], cpus: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield one row a workload and ordered pair of machines that the table knows."""
    for workload, result in results.items():
        names = [name for name in result["seconds"] if cpus.get(name) in known.get(workload, {})]
        for first in names:
            one = amount(workload) / known[workload][cpus[first]]
            yield {"workload": workload, "base": first, "target": "", "predicted": result["seconds"][first], "measured": one}
            for second in names:
                if second != first:
                    other = amount(workload) / known[workload][cpus[second]]
                    predicted = result["seconds"][first] / result["seconds"][second]
                    low, high = result["ends"].get(f"{first} {second}", (0.0, 0.0))
                    inside = low * predicted <= one / other <= high * predicted if high else None
                    yield {
                        "workload": workload,
                        "base": first,
                        "target": second,
                        "predicted": predicted,
                        "measured": one / other,
                        "covered": inside,
                    }


def line(title: str, errors: Iterable[float]) -> str:
    """Return the statistics of errors in one line."""
    sizes = sorted(abs(error) for error in errors)
    figures = (("median", median(sizes)), ("mean", mean(sizes)), ("worst", sizes[-1]))
    return f"{title:58s} {len(sizes):5d}" + "".join(f"  {name} {100 * value:6.1f} %" for name, value in figures)


def error(row: Mapping[str, Any]) -> float:
    """Return the relative error of a row."""
    return float(row["predicted"] / row["measured"] - 1)


def one_factor(pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with one prediction for all workloads of a pair, the median of their measured ratios."""
    measured: dict[tuple[str, str], list[float]] = {}
    for row in pairs:
        measured.setdefault((row["base"], row["target"]), []).append(row["measured"])
    return [{**row, "predicted": median(measured[row["base"], row["target"]])} for row in pairs]


def public_factor(
    pairs: Sequence[Mapping[str, Any]], public: Mapping[str, Mapping[str, float]], cpus: Mapping[str, str]
) -> list[tuple[float, float]]:
    """Return the errors of one factor that needs none of these workloads, the median of other ones' ratios in a public table, and
    those of the predictions; of the pairs that have such a factor."""
    found = []
    for pair in dict.fromkeys((row["base"], row["target"]) for row in pairs):
        first, second = (cpus[name] for name in pair)
        ratios = [rates[second] / rates[first] for rates in public.values() if {first, second} <= rates.keys()]
        if ratios:
            own = [row for row in pairs if (row["base"], row["target"]) == pair]
            found += [(median(ratios) / row["measured"] - 1, error(row)) for row in own]
    return found


def divided(found: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the rows of times and those of CPU ratios, without those of stressors."""
    own = [row for row in found if row["workload"] in WORK]
    return [row for row in own if not row["target"]], [row for row in own if row["target"]]


def groups(found: Sequence[Mapping[str, Any]], cpus: Mapping[str, str]) -> dict[str, list[Mapping[str, Any]]]:
    """Return CPU ratios by name: stressors, pairs of measured machines, workloads that nobody looked at, and each half."""
    _, pairs = divided(found)
    of = {
        "stressors": [row for row in found if row["target"] and row["workload"] in OPERATIONS],
        "measured": [row for row in pairs if {row["base"], row["target"]} <= MEASURED.keys()],
        "fresh": [row for row in pairs if row["workload"] in FRESH],
    }
    for name in HALVES:
        of[f"workloads, {name}"] = [row for row in pairs if half(row["workload"]) == name]
        of[f"CPU models, {name}"] = [row for row in pairs if {half(cpus[row[end]]) for end in ("base", "target")} == {name}]
    return of


def report(
    found: Sequence[Mapping[str, Any]], public: Mapping[str, Mapping[str, float]], cpus: Mapping[str, str]
) -> Iterator[str]:
    """Yield the errors of times and of ratios: over all, by half, by workload, by machine."""
    times, pairs = divided(found)
    yield line("time", map(error, times))
    yield line("CPU ratio, all ordered pairs", map(error, pairs))
    yield line("  one factor for all workloads of a pair", map(error, one_factor(pairs)))
    if both := public_factor(pairs, public, cpus):
        yield line("  one factor a pair, by public rows of stress-ng", (one for one, _ in both))
        yield line("    CPU ratio of these pairs", (own for _, own in both))
    inside = [row["covered"] for row in pairs if row["covered"] is not None]
    if inside:
        yield f"  in the 90 % interval: {sum(inside)} of {len(inside)}"
    for name, chosen in groups(found, cpus).items():
        if chosen:
            yield line(f"  {name}", map(error, chosen))
            yield line("    one factor", map(error, one_factor(chosen)))
    for workload in dict.fromkeys(row["workload"] for row in found):
        signed = ", ".join(f"{row['base']} {100 * error(row):+.0f}" for row in times if row["workload"] == workload)
        ratios = [error(row) for row in found if row["target"] and row["workload"] == workload]
        yield (line(f"  {workload}", ratios) if ratios else f"  {workload}:") + (f"  times: {signed} %" if signed else "")
    for machine in dict.fromkeys(row["base"] for row in times):
        yield line(f"  time on {machine}", (error(row) for row in times if row["base"] == machine))


def three(errors: Iterable[float]) -> str:
    """Return median, mean and worst of errors in percent."""
    sizes = sorted(100 * abs(error) for error in errors)
    return f"{median(sizes):.1f}/{mean(sizes):.1f}/{sizes[-1]:.0f}"


def store(
    name: str, found: Sequence[Mapping[str, Any]], public: Mapping[str, Mapping[str, float]], cpus: Mapping[str, str]
) -> Path:
    """Write benchmarks/results/NAME.json: errors of times and of ratios, and what one factor for each pair errs by."""
    times, pairs = divided(found)
    inside = [row["covered"] for row in pairs if row["covered"] is not None]
    both = public_factor(pairs, public, cpus)
    values = {
        "times": three(map(error, times)),
        "ratios": three(map(error, pairs)),
        "one_factor": three(map(error, one_factor(pairs))),
        "public_factor": three(one for one, _ in both),
        "ratios with a public factor": three(own for _, own in both),
        "covered": f"{sum(inside) / max(len(inside), 1):.0%}",
        "machines": len({row["base"] for row in found}),
        "workloads": len({row["workload"] for row in times}),
    }
    for group, chosen in groups(found, cpus).items():
        if chosen:
            values |= {f"{group}_ratios": three(map(error, chosen)), f"{group}_one_factor": three(map(error, one_factor(chosen)))}
    rows = []
    for what in ("workload", "base"):
        for one in dict.fromkeys(row[what] for row in found):
            errors = ([error(row) for row in some if row[what] == one] for some in (times, pairs, one_factor(pairs)))
            rows.append([one, *(three(some) if some else "" for some in errors)])
    columns = ["workload or machine", "times, in %: median/mean/worst", "ratios", "one factor"]
    return write_result(name, columns, rows, values)


def main() -> None:
    """Trace, predict, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with brotli, pyzstd and lz4")
    parser.add_argument("--stress-ng", metavar="PROGRAM")
    parser.add_argument("--machine", action="append", metavar="NAME=CPU", help="default: the measured machines")
    parser.add_argument("--workload", action="append", help="this one alone; repeatable")
    parser.add_argument("--half", choices=["both", "looked"], default="both")
    parser.add_argument("--most-range", type=float, default=0.03)
    parser.add_argument("--stop", choices=["traced"])
    parser.add_argument("--store", metavar="NAME", help="write benchmarks/results/NAME.json, of all rows cloud-truth")
    parser.add_argument("-o", "--output", type=Path, default=Path("run/cloud"))
    options = parser.parse_args()
    folder = options.output.resolve()
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    print(
        "text:",
        "the corpus" if write_text(folder / "text.txt") else "generated, of like statistics: the corpus cannot be had here",
    )
    cpus = dict(word.split("=", 1) for word in options.machine) if options.machine else MEASURED
    known, public = truth(options.truth, options.most_range), truth(options.truth, PUBLIC_RANGE, "stress-ng")
    if options.half == "looked":
        cpus = {name: cpu for name, cpu in cpus.items() if name in MEASURED or half(cpu) == HALVES[0]}
    stressors = OPERATIONS if options.stress_ng else {}
    chosen = [one for one in (*WORK, *stressors) if one in known | public and (not options.workload or one in options.workload)]
    chosen = [one for one in chosen if options.half == "both" or half(one) == HALVES[0]]
    machines = {name: find_machine(name) for name in cpus}
    results: dict[str, dict[str, Any]] = {}
    for workload in chosen:
        if workload in WORK:
            paths = [trace(one, options.python, folder / "traces") for one in jobs(workload, options.python, folder)]
        else:
            paths = [path for path in [trace_stressor(workload, options.stress_ng, folder / "traces")] if path]
        if paths and options.stop != "traced":
            kept = folder / "predicted" / f"{paths[0].stem}.json"
            if not kept.exists():
                kept.parent.mkdir(exist_ok=True)
                kept.write_text(json.dumps(predicted(paths, machines)))
            results[workload] = json.loads(kept.read_text())
    if results:
        found = list(rows(results, known | public, cpus))
        (folder / "cloud_truth.json").write_text(json.dumps({"results": results, "rows": found}, indent=1))
        print("\n".join(report(found, public, cpus)))
        if options.store:
            print(store(options.store, found, public, cpus))


if __name__ == "__main__":
    main()
