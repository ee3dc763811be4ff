"""Predicted and measured elapsed times of 19 programs with one, two and eight threads on two processors:
``python tests/bench/thread_times.py``.

Each program runs natively with each number of threads, in turn, on so many CPUs, while nothing else uses them or shares their
cores, until ``--rounds`` runs of each were undisturbed. The median of the shortest third counts of these, or of what runs would
have taken undisturbed (``runs_that_count.py``). They are traced with each number of threads and predicted for two cores from the
profile ``--machine``, one of this processor's kind; what threads do to each other is probed between the rounds, since hosts move
the CPUs of virtual machines, and takes the place of what the profile says of it.
``--folder`` keeps inputs, times and traces, and takes those that are there: ``--only times`` adds to those that are kept. What is
not installed is left out. ``--cores 16``: with 1, 2, 4, 8 and 16 threads instead, on so many processors; measured on such a
machine (``--only times``) and predicted on any.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, median

import msgspec
from campaign_inputs import library_text
from result_file import write_result

from convolver.machine.catalog import as_machine
from convolver.probing.kernel import kernel_costs
from convolver.probing.load import QUIET_SHARE, Usage, others_share
from convolver.probing.runner import tell
from convolver.validating.measuring import CampaignRuns, chosen_runs, undisturbed
from convolver.validating.running import NativeRun
from convolver.validating.sharing import is_shared, watched, witness_cycles

KERNELS = [
    "triadl3",
    "dgemm",
    "cg",
    "lock",
    "lockhot",
    "imbalance",
    "dynamic",
    "barriers",
    "tasks",
    "amdahl",
    "falsesharing",
    "atomics",
]
SOURCE = Path(__file__).parent / "programs" / "thread_kernels.c"
COLUMNS = [
    *("program", "1 thread", "2 threads", "predicted", "error", "in its interval", "speedup", "predicted speedup"),
    *("8 threads on 2 cores", "predicted for 8", "error for 8"),
]
CROWDED = (1, 2, 8)
"""Threads on two processors."""
COSTS = "costs.json"
Key = tuple[str, int]
"""A program and its number of threads."""
CONVOLVER = [sys.executable, "-m", "convolver"]


def commands(threads: int) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return command and environment of each program."""
    found = {one: (["./kernels", one], {"OMP_NUM_THREADS": str(threads)}) for one in KERNELS}
    found["xz"] = (["xz", "-k", "-c", "-1", f"-T{threads}", "--block-size=500KiB", "text"], {})
    found["zstd"] = (["zstd", "-q", "-c", "-6", f"-T{threads}", "-B524288", "text"], {})
    found["pigz"] = (["pigz", "-k", "-c", f"-p{threads}", "text"], {})
    found["pbzip2"] = (["pbzip2", "-k", "-c", f"-p{threads}", "-b5", "text"], {})
    found["lbzip2"] = (["lbzip2", "-k", "-c", f"-n{threads}", "-5", "text"], {})
    found["plzip"] = (["plzip", "-k", "-c", "-1", f"-n{threads}", "-B500KiB", "text"], {})
    found["sort"] = (["sort", "-n", f"--parallel={threads}", "-S", "64M", "numbers"], {"LC_ALL": "C"})
    return {name: one for name, one in found.items() if name in KERNELS or shutil.which(one[0][0])}


def make_inputs(folder: Path) -> None:
    """Write what the programs read, and build the kernels."""
    (folder / "text").write_bytes(library_text(6_000_000))
    state, numbers = 1, []
    for _ in range(300_000):
        state = (state * 1664525 + 1013904223) % 2**32
        numbers.append(f"{state}\n")
    (folder / "numbers").write_text("".join(numbers))
    subprocess.run(["gcc", "-g", "-O2", "-fopenmp", "-o", folder / "kernels", SOURCE, "-lm"], check=True)


def numbers_of_threads(cores: int) -> tuple[int, ...]:
    """Return with how many threads programs run on so many processors."""
    return CROWDED if cores == 2 else tuple(2**power for power in range(cores.bit_length()))


def native(folder: Path, counts: Sequence[int], rounds: int, kept: Path, patience: float, alone: float) -> None:
    """Run each program with each number of threads until so many runs were undisturbed, or patience ends (seconds); add the runs
    to ``kept``. A taken branch takes ``alone`` cycles on a core alone."""
    runs = CampaignRuns(kept)
    taken = by_job(runs)
    lacking = {(name, threads): rounds for threads in counts for name in commands(2)}
    for key in lacking:
        lacking[key] -= sum(undisturbed(run, alone) for run in taken.setdefault(key, []))
    end, probed = time.monotonic() + patience, 0
    while time.monotonic() < end and max(lacking.values()) > 0:
        name, threads = key = min((key for key, count in lacking.items() if count > 0), key=lambda key: len(taken[key]))
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        if others_share() > QUIET_SHARE or any(is_shared(witness_cycles(cpu), alone) for cpu in cpus):
            continue
        if probed <= len(taken[key]):
            probed = len(taken[key]) + 1
            probe_threads(kept.with_name(COSTS))
        run = run_once(folder, name, threads, cpus)
        lacking[key] -= undisturbed(run, alone)
        taken[key].append(run)
        runs.add(run)


def run_once(folder: Path, name: str, threads: int, cpus: Sequence[int]) -> NativeRun:
    """Run a program on some CPUs and return what it took, with what taken branches took there in the mean."""
    words, more = commands(threads)[name]
    with ExitStack() as watches:
        seen = [watches.enter_context(watched(cpu)) for cpu in cpus]
        usage, before, began = Usage.now(), os.times(), time.perf_counter()
        subprocess.run(
            words,
            cwd=folder,
            env=os.environ | more,
            stdout=subprocess.DEVNULL,
            check=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
        seconds, spent, after = time.perf_counter() - began, Usage.now().since(usage), os.times()
    user, system = after.children_user - before.children_user, after.children_system - before.children_system
    return NativeRun(
        job=name,
        condition=str(threads),
        round=0,
        wall_seconds=seconds,
        user_seconds=user,
        system_seconds=system,
        status=0,
        others=spent.others(user + system),
        steal=spent.stolen,
        witness_cycles=mean(one.witness_cycles for one in seen),
    )


def by_job(runs: CampaignRuns) -> dict[Key, list[NativeRun]]:
    """Return runs by program and number of threads."""
    found: dict[Key, list[NativeRun]] = {}
    for run in runs.all:
        found.setdefault((run.job, int(run.condition)), []).append(run)
    return found


def probe_threads(kept: Path) -> None:
    """Add what threads cost each other now to the samples by name in ``kept``."""
    known = json.loads(kept.read_text()) if kept.exists() else {}
    for one in tell("the kernel", "--system", "--cpu", "0"):
        if one["name"].startswith("thread."):
            known.setdefault(one["name"], []).extend(one["seconds"])
    kept.write_text(json.dumps(known))


def of_these_rounds(machine: str, folder: Path) -> str:
    """Return the profile with what was probed between the rounds, where that is kept."""
    if not (folder / COSTS).exists():
        return machine
    found = kernel_costs(
        [{"name": name, "seconds": samples} for name, samples in json.loads((folder / COSTS).read_text()).items()]
    )
    profile = as_machine(machine)
    others = [one for one in profile.kernel if one.name not in {cost.name for cost in found}]
    path = folder / "these-rounds.machine.json"
    msgspec.structs.replace(profile, kernel=(*others, *found)).save(path)
    return str(path)


def counted(runs: Sequence[NativeRun], alone: float) -> float:
    """Return the seconds that count of a program's runs."""
    seconds = sorted(run.wall_seconds for run in chosen_runs(runs, alone))
    return median(seconds[: max(len(seconds) // 3, 1)])


def traced(folder: Path, name: str, threads: int) -> Path:
    """Trace a program where that was not done; return where the trace is."""
    words, more = commands(threads)[name]
    trace = folder / f"{name}-{threads}.cvt"
    if not trace.exists():
        command = [*CONVOLVER, "trace", "-o", trace, "--", *words]
        environment = os.environ | more
        subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return trace


def predicted(trace: Path, machine: str, cores: int) -> dict:
    """Return what ``predict --json`` says of a trace on so many cores of a machine."""
    asked = [*CONVOLVER, "predict", "--base", machine, trace, "--cores", str(cores), "--json"]
    base = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)["base"]
    return {"elapsed_seconds": base["seconds"], **base}  # of one thread: processor time


def percent(share: float) -> str:
    """Return a share in per cent."""
    return f"{share:.0%}".replace("%", " %")


def shown(error: float) -> str:
    """Return an error in per cent, with its sign."""
    return f"{error:+.0%}".replace("%", " %")


def main() -> None:
    """Measure, predict and write ``benchmarks/results/threads.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", default="cloud-epyc-genoa")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--wait", type=float, default=1800, help="Seconds in which the machine may become quiet enough.")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", choices=("traces", "times"), help="End after this part, kept in --folder.")
    options = parser.parse_args()
    counts = numbers_of_threads(options.cores)
    costs = {one.kernel: one.seconds for one in as_machine(options.machine).floating_point}
    alone = costs["branch"] / costs["cycle"]
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        folder.mkdir(exist_ok=True)
        if not (folder / "kernels").exists():
            make_inputs(folder)
        kept = folder / "times.jsonl"
        if options.only == "times" or (options.only is None and not kept.exists()):
            native(folder, counts, options.rounds, kept, options.wait, alone)
        if options.only != "times":
            traces = {(one, threads): traced(folder, one, threads) for one in commands(2) for threads in counts}
        if options.only is None:
            seconds = {key: counted(runs, alone) for key, runs in by_job(CampaignRuns(kept)).items()}
            if lacking := [f"{name} ({threads})" for name, threads in traces if (name, threads) not in seconds]:
                sys.exit(f"Not measured yet: {', '.join(lacking)}. Measure them with --only times, on a quiet machine.")
            machine = of_these_rounds(options.machine, folder)
            says = {key: predicted(trace, machine, options.cores) for key, trace in traces.items()}
            if options.cores == 2:
                report(seconds, says)
            else:
                report_scaling(seconds, says, counts)


def report(seconds: dict[tuple[str, int], float], says: dict[tuple[str, int], dict]) -> None:
    """Print a row a program and write all of them."""
    rows, errors, speedups, crowded = [], {}, {}, {}
    for one in commands(2):
        alone, both, eight = (seconds[one, threads] for threads in CROWDED)
        guess, elapsed, many = (says[one, threads]["elapsed_seconds"] for threads in CROWDED)
        low, high = says[one, 2]["elapsed_interval_seconds"]
        errors[one], crowded[one] = elapsed / both - 1, many / eight - 1
        speedups[one] = guess / elapsed / (alone / both) - 1
        held = "yes" if low <= both <= high else "no"
        row = [f"{alone:.3f} s", f"{both:.3f} s", f"{elapsed:.3f} s", shown(errors[one]), held]
        row += [f"{alone / both:.2f}", f"{guess / elapsed:.2f}", f"{eight:.3f} s", f"{many:.3f} s", shown(crowded[one])]
        rows.append([one, *row])
        print(*rows[-1], flush=True)
    worst = max(errors, key=lambda one: abs(errors[one]))
    values = {"programs": str(len(rows)), "worst_program": worst, "held": str(sum(row[5] == "yes" for row in rows))}
    for name, found in {"": errors, "speedup_": speedups, "eight_": crowded}.items():
        sizes = [abs(one) for one in found.values()]
        values |= {
            f"{name}median": percent(median(sizes)),
            f"{name}worst": percent(max(sizes)),
        }
    print(values, write_result("threads", COLUMNS, rows, values))


def report_scaling(seconds: dict[tuple[str, int], float], says: dict[tuple[str, int], dict], counts: Sequence[int]) -> None:
    """Print a row a program with the measured time and the error for each number of threads, and write all of them."""
    rows, errors, speedups = [], {n: [] for n in counts}, {n: [] for n in counts}
    for one in commands(2):
        row = [one]
        for n in counts:
            guess = says[one, n]["elapsed_seconds"]
            errors[n].append(abs(guess / seconds[one, n] - 1))
            speedups[n].append(abs(says[one, 1]["elapsed_seconds"] / guess / (seconds[one, 1] / seconds[one, n]) - 1))
            row.append(f"{seconds[one, n]:.3f} s {shown(guess / seconds[one, n] - 1)}")
        rows.append(row)
        print(*row, sep="  ", flush=True)
    values = {"programs": str(len(rows))}
    for name, found in (("elapsed", errors), ("speedup", speedups)):
        medians = {n: percent(median(found[n])) for n in counts}
        values |= {f"{name}_{n}": one for n, one in medians.items()}
        rows.append([f"{name}, median error", *medians.values()])
        print(*rows[-1], sep="  ")
    columns = ["program", "1 thread", *(f"{n} threads" for n in counts[1:])]
    print(write_result(f"threads-{counts[-1]}", columns, rows, values))


if __name__ == "__main__":
    main()
