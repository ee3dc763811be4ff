"""Kill random processes of long verbs at random moments: ``python -m tests.robust.kill_runs --kills 100``.

The target is the verb itself, its tracer or a worker; the signal SIGKILL, SIGTERM or SIGHUP. Afterwards nothing of ours may
run, no shared memory may outlive the next start, and every file with its final name must be whole. Shared memory is this
command's own where ``unshare -m`` is allowed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

from convolver.artifacts import describe
from convolver.mpi.dim import write_dim
from convolver.mpi.events import EventsBuilder
from convolver.tracing.run_folder import sweep

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
NOBODY = "nobody"
"""What is killed where the run has ended before."""
FIRST_SECONDS = 0.2
"""Seconds until the first kill."""
IDLE_SECONDS, MOST_PROCESSOR_SECONDS = 30.0, 150.0
"""After a kill, processes hang that use no processor time for so long, or more of it than a whole run: on a machine with much
other work a run that goes on can take minutes."""
PROGRAM = """
#include <stdlib.h>
static volatile double numbers[1 << 12];
int main(int argc, char **argv)
{
    for (long turn = 0; turn < atol(argv[1]); turn++)
        for (int i = 0; i < 1 << 12; i++)
            numbers[i] += turn;
    return 0;
}
"""
RING = """
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, number = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int turn = 0; turn < 100; turn++) {
        MPI_Sendrecv_replace(&number, 1, MPI_INT, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep(20000);
    }
    MPI_Finalize();
    return 0;
}
"""
CAMPAIGN = """name = "c"
runs = 2
[[program]]
name = "turns"
command = ["./turns", "{input}"]
inputs = { small = ["2000"], large = ["4000"] }
[[condition]]
name = "host"
"""
COMMANDS = {
    "trace": ["trace", "-o", "a.cvt", "--", "./turns", "20000"],
    "children": ["trace", "--trace-children", "-o", "a-%p.cvt", "--", "sh", "-c", "./turns 3000 & ./turns 5000; wait"],
    "predict": ["predict", "--base", "server-hbm", "--target", "desktop-32m", "-o", "out", "--", "./turns", "5000"],
    "validate": ["validate", "c.toml", "-o", "out", "--jobs", "2"],
    "probe": ["probe", "-o", "x.machine.json"],
    "mpi trace": ["mpi", "trace", "-o", "e.parquet", "--", "mpirun", "--oversubscribe", "-n", "2", "./ring"],
    "model sweep": ["model", "sweep", "2.dim", "4.dim", "8.dim", "-o", "s.parquet", "--points", "2000", "--jobs", "2"],
    "replay sweep": ["replay", "sweep", "8.dim", "--config", "n.cfg", "-o", "s.parquet", "--latency", "1e-6:1e-4", "--jobs", "2"],
    "simulate": ["simulate", "traces", "-m", "server-hbm", "-m", "desktop-32m", "-o", "h.parquet", "--jobs", "2"],
}


def prepare(folder: Path) -> None:
    """Make what the commands read."""
    (folder / "turns.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-o", folder / "turns", folder / "turns.c"], check=True)
    (folder / "ring.c").write_text(RING)
    if shutil.which("mpicc"):
        subprocess.run(["mpicc", "-o", folder / "ring", folder / "ring.c"], check=True)
    (folder / "c.toml").write_text(CAMPAIGN)
    shutil.copyfile(Path(__file__).resolve().parents[2] / "examples" / "cluster.cfg", folder / "n.cfg")
    for ranks in (2, 4, 8):
        builder = EventsBuilder(ranks)
        for _ in range(200):
            for rank in range(ranks):
                builder.burst(rank, 1e-3).send(rank, (rank + 1) % ranks, 1000).receive((rank + 1) % ranks, rank, 1000)
        write_dim(builder.build(), folder / f"{ranks}.dim")
    (folder / "traces").mkdir()
    command = [sys.executable, "-m", "convolver", "trace", "-o", "traces/0.cvt", "--", "./turns", "2000"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    for number in range(1, 6):
        shutil.copyfile(folder / "traces" / "0.cvt", folder / "traces" / f"{number}.cvt")


def processes(session: int) -> list[int]:
    """Return the processes of a session that run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = entry.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        found += [int(entry.parent.name)] if int(of) == session and state != "Z" else []
    return found


def processor_seconds(running: list[int]) -> float:
    """Return the processor time that processes have used."""
    ticks = 0
    for one in running:
        with suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def ends(session: int) -> bool:
    """Wait until all processes of a session have ended; False where they hang."""
    latest, since, first = 0.0, time.monotonic(), processor_seconds(processes(session))
    while left := processes(session):
        used = processor_seconds(left)
        if used > latest + 0.05 or used < latest:
            latest, since = used, time.monotonic()
        if time.monotonic() - since > IDLE_SECONDS or used - first > MOST_PROCESSOR_SECONDS:
            return False
        time.sleep(0.05)
    return True


def shared() -> set[str]:
    """Return what of ours lies in shared memory."""
    return {name for name in os.listdir("/dev/shm") if name.startswith("convolver")}


def one_kill(name: str, made: Path, rng: random.Random, longest: float) -> tuple[str, list[str]]:
    """Run a command, kill one of its processes; return what was killed and what is wrong then."""
    before, wrong = shared(), []
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "run"
        shutil.copytree(made, folder, copy_function=os.link)
        given = set(folder.rglob("*"))
        process = subprocess.Popen(
            [sys.executable, "-m", "convolver", *COMMANDS[name]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(folder / "messages", "w"),  # noqa: SIM115
            env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )
        time.sleep(rng.uniform(FIRST_SECONDS, longest))
        running, number = processes(process.pid), rng.choice(SIGNALS)
        target = rng.choice(running) if running else 0
        what = f"{number.name} to {'the verb' if target == process.pid else 'another process' if target else NOBODY}"
        if target:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(target, number)
        waited = Thread(target=process.wait)
        waited.start()
        for one in [] if ends(process.pid) else processes(process.pid):
            wrong.append(f"hangs: {Path(f'/proc/{one}/cmdline').read_bytes()[:200]!r}")
            os.kill(one, signal.SIGKILL)
        waited.join()
        if left_folders := shared() - before:  # killed before its tracer began, or after it had ended: the next start removes it
            what += ", swept later"
            for one in left_folders:
                os.utime(Path("/dev/shm") / one, (0, 0))
            sweep(Path("/dev/shm"))
            wrong += [f"left in shared memory: {one}" for one in sorted(shared() - before)]
        for path in sorted(set(folder.rglob("*")) - given):
            if path.suffix in (".cvt", ".parquet") or path.name.endswith((".machine.json", ".prediction.json", ".ratio.json")):
                try:
                    describe(path)
                except Exception as error:
                    wrong.append(f"{path.name}: {error}")
        if "defect of Convolver" in (folder / "messages").read_text(errors="replace"):
            wrong.append((folder / "messages").read_text(errors="replace").strip().splitlines()[-2])
    return what, wrong


def run(kills: int, names: list[str], seed: int, longest: float, say: Callable[[str], object] = print) -> int:
    """Kill so many times, not counting runs that ended before; return how many times something was wrong."""
    rng, bad, killed, latest = random.Random(seed), 0, 0, dict.fromkeys(names, longest)
    with tempfile.TemporaryDirectory() as home:
        prepare(Path(home))
        while killed < kills:
            name = names[killed % len(names)]
            what, wrong = one_kill(name, Path(home), rng, latest[name])
            bad += bool(wrong)
            say(f"{killed:3} {name:12} {what:42} {'; '.join(wrong) or 'fine'}")
            if NOBODY in what:
                latest[name] = max(FIRST_SECONDS, 0.8 * latest[name])
            killed += NOBODY not in what
    return bad


def main() -> int:
    """Kill in shared memory of our own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--verb", action="append", choices=list(COMMANDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=float, default=6.0, help="seconds until the signal, at most")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside and not subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        words = [sys.executable, "-m", "tests.robust.kill_runs", *sys.argv[1:], "--inside"]
        os.execvp("unshare", ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh", *words])
    bad = run(options.kills, options.verb or list(COMMANDS), options.seed, options.longest, lambda text: print(text, flush=True))
    print(f"{options.kills} kills, {bad} with something wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
