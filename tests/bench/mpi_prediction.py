"""Parallel predictions against runs: ``python tests/bench/mpi_prediction.py [PART ...] [--runs N] [--hpl LIB=PROGRAM]``.

replay   real runs captured and replayed on the network measured just before: replayed time against the run's own. Programs: the
         halo exchange of ours, and HPL given with --hpl (it reads hpccinf.txt) or hpcc where it is installed (Debian: Open MPI).
disturb  base: this host as it is; target: the same host under a disturbance; the target's profile from probes alone, prediction
         against the run. Two ranks share processor 0, so that a load has the other one.
capture  cost of the interposer a call: messages of a task to itself with it and without it, interleaved.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parent))

from mpi_disturbances import DISTURBANCES, HUGE_PAGES, REAL_TIME, NotPossibleError, busy, warden
from mpi_runs import QUIET, Library, halo, hpl_input, libraries, load, repeated

from convolver.machine.profile import MachineProfile
from convolver.mpi.capture import build_interposer
from convolver.mpi.network import network_from_profile
from convolver.mpi.network_replay import replay
from convolver.mpi.pingpong import measure_network
from convolver.mpi.prediction import predict_parallel
from convolver.mpi.recorded_ranks import read_recording
from convolver.mpi.traced import record_blocks

CONVOLVER = [sys.executable, "-m", "convolver"]


def programs(library: Library, folder: Path, hpl: dict[str, str]) -> dict[str, list[str]]:
    """Return the programs of the replay part."""
    found = {
        "halo2d 1000": [str(halo(library, folder)), "1000", "200"],
        "halo2d 200": [str(halo(library, folder)), "200", "2000"],
    }
    if library.name in hpl:
        found["HPL 1000"] = [str(Path(hpl[library.name]).resolve())]
    hpcc = shutil.which("hpcc")
    if not hpl and hpcc and library.name == "openmpi" and "libmpi.so.40" in subprocess.getoutput(f"ldd {hpcc}"):
        found["hpcc 1000"] = [hpcc]
    return found


def network_of(library: Library) -> dict[str, Any]:
    """Measure the network between two tasks of a library."""
    measured = measure_network([*library.launcher, "-np", "2"], mpicc=library.mpicc)
    if os.sched_getscheduler(0) in REAL_TIME and measured["cpu_share"] > 0.85:
        measured["cpu_share"] = 1.0  # kernels stop real-time tasks late in each second, which these runs do not last
    return measured


def replays(runs: int, ranks: list[int], hpl: dict[str, str], only: list[str]) -> None:
    """Print the table of the replay part."""
    print("| library | program | ranks | measured s | replayed s | error | load |\n|---|---|---|---|---|---|---|")
    for library in (one for one in libraries() if one.name in only):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            measured = network_of(library)
            for title, words in programs(library, folder, hpl).items():
                for count in ranks:
                    hpl_input(folder, count)
                    seconds, run = repeated(library.command(count, words), folder, runs, mpicc=library.mpicc, cwd=folder)
                    events = read_recording(run)
                    found = replay(events, network_from_profile(measured, count), record=False).predicted_seconds
                    cells = f"{seconds:.4f} | {found:.4f} | {(found - seconds) / seconds:+.1%}"
                    print(f"| {library.name} | {title} | {count} | {cells} | {load()} |", flush=True)


def profile(folder: Path, name: str, library: Library) -> MachineProfile:
    """Probe this host as it is now: caches and memory on processor 0 in the program's pages, network between two tasks there."""
    path = folder / f"{name}.machine.json"
    words = ["--quick", "--cpu", "0", "--pages", "thp" if HUGE_PAGES.items() <= os.environ.items() else "4k"]
    subprocess.run([*CONVOLVER, "probe", *words, "-o", str(path), "--force"], check=True, stdout=subprocess.DEVNULL)
    network = network_of(library)
    return msgspec.structs.replace(MachineProfile.load(path), name=name, network=network)


def disturbed(runs: int, only: list[str], only_of: list[str], steps: int, guarded: bool) -> None:
    """Print the table of the disturbances."""
    os.sched_setaffinity(0, {0})
    os.environ |= HUGE_PAGES
    library = next(one for one in libraries(bound=False) if one.name in only_of)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = library.command(2, [str(halo(library, folder)), "1500", str(steps)])
        with warden(0, folder) if guarded else nullcontext():
            base = profile(folder, "base", library)
            measured, run = repeated(command, folder, runs, mpicc=library.mpicc)
        record_blocks(command, run, mpicc=library.mpicc)
        check = predict_parallel(run, base=base, target=base)
        print(
            f"Base ({load()}): measured {measured:.4f} s, replayed {check.seconds:.4f} s ({check.document['base_error']:+.1%})."
        )
        print("| target | predicted s | interval | measured s | error | CPU ratio | measured speedup |\n" + "|---" * 7 + "|")
        for title in only:
            try:
                # The load itself has the other processor.
                guard = warden(0, folder) if guarded and DISTURBANCES[title] is not busy else nullcontext()
                with guard, DISTURBANCES[title](0) as words:
                    target = profile(folder, title, library)
                    seconds, _ = repeated(command, folder / title, runs, mpicc=library.mpicc)
                    found = predict_parallel(run, base=base, target=target)
            except NotPossibleError as error:
                print(f"| {title}: not possible here, {error} | | | | | | |")
                continue
            low, high = found.document["interval_seconds"]
            error = (found.seconds - seconds) / seconds
            cells = f"{found.seconds:.4f} | {low:.4f} to {high:.4f} | {seconds:.4f} | {error:+.1%}"
            print(f"| {words} | {cells} | {found.document['cpu_ratio']:.3f} | {measured / seconds:.3f} |", flush=True)


PING = """#include <mpi.h>
#include <stdio.h>
int main(int c, char **v) { int r, n = 400000; char b; MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &r);
double t = MPI_Wtime(); for (int i = 0; i < n; i++) {
MPI_Sendrecv(&r, 0, MPI_INT, 0, 0, &b, 0, MPI_CHAR, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE); }
printf("%.9g\\n", (MPI_Wtime() - t) / n); MPI_Finalize(); return 0; }
"""


def capture(runs: int) -> None:
    """Print what recording adds to a call: a task that sends to itself, with and without the interposer, interleaved."""
    print("| library | plain us | recorded us | cost us a call |\n|---|---|---|---|")
    for library in libraries():
        with tempfile.TemporaryDirectory() as name:
            source, binary = Path(name) / "ping.c", Path(name) / "ping"
            source.write_text(PING)
            subprocess.run([library.mpicc, "-O2", str(source), "-o", str(binary)], check=True)
            preload = {"LD_PRELOAD": str(build_interposer(library.mpicc)), "CONVOLVER_MPI_OUT": name}
            times: list[list[float]] = [[], []]
            for _ in range(runs):
                for recorded, extra in enumerate(({}, preload)):
                    done = subprocess.run([str(binary)], env={**os.environ, **extra}, capture_output=True, text=True, check=True)
                    times[recorded].append(float(done.stdout) * 1e6)
            plain, seen = (min(one) for one in times)
            median = statistics.median(b - a for a, b in zip(*times, strict=True))
            print(f"| {library.name} | {plain:.3f} | {seen:.3f} | {seen - plain:.3f} (median of pairs {median:.3f}; {load()}) |")


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["replay", "disturb", "capture"], default=["capture", "replay", "disturb"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--guard", action="store_true", help="Keep other programs off the processors that disturb does not use.")
    parser.add_argument("--steps", type=int, default=100, help="Of the disturbed program.")
    parser.add_argument("--libraries", nargs="*", choices=["openmpi", "mpich"], default=["openmpi", "mpich"])
    parser.add_argument("--only", nargs="*", choices=list(DISTURBANCES), default=list(DISTURBANCES))
    parser.add_argument("--hpl", nargs="*", default=[], metavar="LIBRARY=PROGRAM", help="HPL for openmpi or mpich.")
    given = parser.parse_args()
    os.environ |= {name: value for name, value in QUIET.items() if name not in os.environ}
    hpl = dict(word.split("=", 1) for word in given.hpl)
    if "capture" in given.parts:
        capture(given.runs)
    if "replay" in given.parts:
        replays(given.runs, [int(word) for word in given.ranks.split(",")], hpl, given.libraries)
    if "disturb" in given.parts:
        disturbed(given.runs, given.only, given.libraries, given.steps, given.guard)


if __name__ == "__main__":
    main()
