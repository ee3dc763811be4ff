"""Campaign: CALL on the paper's matrix product (three cases): ranks simulated by SimGrid SMPI, and real ranks of Open MPI.

    python tests/bench/models_call.py count|clock|mpi FOLDER [CASE...]

count: SMPI on random networks, computation timed by exactly counted instructions (1 ns each; no clock is in the figures).
clock: SMPI on the same networks, computation timed by the processor's clock: wants a quiet machine.
mpi: one and two real ranks over shared memory and three ways through TCP and UDP, several launches of each: wants a quiet
machine. mpi-misses simulates the cache misses of their products beside any load; mpi takes them as a driver where they are.
Runs that FOLDER has already are not made again; pictures of the errors are drawn there. Needs smpicc, or Open MPI.
"""

import json
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from convolver.modeling.base import fit
from convolver.modeling.call.pragmas import build_runtime, instrument
from convolver.modeling.call.records import Record, join_metrics, read_records, to_table
from convolver.modeling.model_artifact import Model
from convolver.mpi.traced import count
from convolver.plotting import residuals, style

SOURCE = Path(__file__).parents[2] / "examples/call/product.c"
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><cluster id="c" prefix="h" suffix="" radical="0-15" speed="1Gf" bw="{bw}Bps" lat="{lat}s"/></platform>
"""
CALLS = {1: "1", 2: "N/P", 3: "N^2/P"}
FEATURES = ["N", "P", "latency", "bandwidth"]
NETWORKS = {1: 5, 2: 5, 3: 3}
OB1, OFI = (
    ["--mca", "pml", "ob1", "--mca", "btl"],
    ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include"],
)
TRANSPORTS = ([*OB1, "self,vader"], [*OB1, "self,tcp"], [*OFI, "tcp"], [*OFI, "udp"])
"""How Open MPI reaches the other rank: shared memory, its own TCP, and libfabric's TCP and UDP."""
LAUNCHES = {1: 9, 2: 3, 3: 3}
"""The times of case 1 are short and see the processor more than the network."""
CONVOLVER = Path(sys.executable).with_name("convolver")
SIZES = (100, 120, 128, 144, 160, 180, 192, 200)
MACHINE = "server-hbm"
"""Its caches are those of the machine that the campaign ran on: 48 KiB and 2 MiB a core."""


@dataclass(frozen=True)
class Run:
    """One run: case, network (or transport) by number, ranks and matrix size."""

    case: int
    network: int
    ranks: int
    size: int
    launch: int = 0

    def __str__(self) -> str:
        return f"{self.network}-{self.ranks}-{self.size}" + (f"-{self.launch}" if self.launch else "")


def formula(case: int) -> str:
    """Return equation 1 with the terms it lacks: Scatter and Bcast of the matrices, gathers that cost per partner."""
    calls, steps = CALLS[case], "ceil(log2(P))"
    latency = [f"{steps}*({calls})*latency", f"(P-1)*({calls})*latency", f"where(P>1,({calls})*latency,0)"]
    volume = [f"{steps}*4*N^2/bandwidth", "4*N^2*(P-1)/P/bandwidth"]
    return " + ".join(["1", "N^3/P", f"where(P>1,{calls},0)", *latency, *volume])


def short_formula(case: int, misses: bool) -> str:
    """Return equation 1 for at most two ranks, whose steps and partners cannot be distinguished."""
    network = [f"where(P>1,{term},0)" for term in (CALLS[case], f"({CALLS[case]})*latency", "4*N^2/bandwidth")]
    return " + ".join(["1", "N^3/P", *(["L1CM/P"] if misses else []), *network])


def build(folder: Path, compiler: str) -> Path:
    program = folder / f"product-{compiler}"
    if program.exists():
        return program
    library = build_runtime(folder / f"rt-{compiler}", compiler=compiler, mpi=True)
    source = folder / f"product-{compiler}.c"
    source.write_text(instrument(SOURCE.read_text(), "product.c"))
    command = [compiler, "-O2", f"-I{library.parent}", str(source), str(library), "-o", str(program), "-lm"]
    subprocess.run(command, check=True)
    return program


def plan(mode: str, case: int) -> list[Run]:
    if mode == "mpi":
        places = [(0, 1), *((transport, 2) for transport in range(len(TRANSPORTS)))]
        return [Run(case, t, p, n, launch) for launch in range(LAUNCHES[case]) for n in SIZES for t, p in places]
    every = [Run(case, w, p, n) for w in range(NETWORKS[case]) for p in (1, 2, 5, 10) for n in (100, 150, 200)]
    return [run for run in every if run.ranks > 1 or run.network == 0]


def simulated(folder: Path, run: Run, mode: str, records: Path) -> None:
    rng = np.random.default_rng([7, run.network])
    bandwidth, latency = 10 ** rng.uniform(7.5, 9), 10 ** rng.uniform(-5.3, -4)
    (folder / "platform.xml").write_text(PLATFORM.format(bw=bandwidth, lat=latency))
    (folder / "hosts").write_text("".join(f"h{i}\n" for i in range(16)))
    repetitions = {"count": 1, "clock": 2 if run.case == 3 else 5}[mode]
    words = ["smpirun", "-np", str(run.ranks), "-platform", str(folder / "platform.xml"), "-hostfile", str(folder / "hosts")]
    program = [str(build(folder, "smpicc")), str(run.case), str(run.size), str(repetitions)]
    os.environ |= {"CONVOLVER_CALL_DIR": str(records), "CONVOLVER_CALL_RUN": str(run)}
    if mode == "count":
        trace = folder / "ti.txt"
        trace.unlink(missing_ok=True)
        if count([*words, "--log=root.thresh:error", *program], trace):
            raise SystemExit(f"{run} failed")
    else:
        subprocess.run(
            [*words, "--cfg=smpi/host-speed:1Gf", "--log=root.thresh:error", *program], check=True, capture_output=True
        )


def mpirun(run: Run) -> list[str]:
    os.environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    place = ["--use-hwthread-cpus", "--bind-to", "hwthread", "--map-by", "hwthread"]
    return ["mpirun", *place, *TRANSPORTS[run.network], "-np", str(run.ranks)]


def real(folder: Path, run: Run, records: Path) -> None:
    environment = {"CONVOLVER_CALL_DIR": str(records), "CONVOLVER_CALL_RUN": str(run)}
    program = [str(build(folder, "mpicc")), str(run.case), str(run.size), "3" if run.case == 3 else "9"]
    subprocess.run([*mpirun(run), *program], check=True, env={**os.environ, **environment}, capture_output=True)


def misses(folder: Path) -> Path:
    """Return a file with the simulated misses of the first level, of all ranks and one repetition, for every N and P."""
    path = folder / "misses.csv"
    if not path.exists():
        runs = [run for run in plan("mpi", 1) if run.network == run.launch == 0]
        rows = [f"{run.size},{run.ranks},{_misses(folder, run, 2) - _misses(folder, run, 1)}" for run in runs]
        path.write_text("\n".join(["N,P,L1CM", *rows]) + "\n")
    return path


def _misses(folder: Path, run: Run, repetitions: int) -> int:
    """Return the misses of the program's own code: the last repetition alone is what the difference of two numbers leaves."""
    known = folder / f"misses-{run}-{repetitions}.txt"
    if not known.exists():
        traces = [folder / f"miss.{rank}.cvt" for rank in range(run.ranks)]
        options = ["--full", "--function", "main", "--no-scan", "--force", "-o", str(folder / "miss.%r.cvt"), "--"]
        program = [str(build(folder, "mpicc")), "1", str(run.size), str(repetitions)]
        words = [*mpirun(run), str(CONVOLVER), "trace", *options, *program]
        environment = {**os.environ, "CONVOLVER_CALL_DIR": str(folder)}
        subprocess.run(words, check=True, capture_output=True, env=environment)
        known.write_text(str(sum(_first_level(trace) for trace in traces)))
    return int(known.read_text())


def _first_level(trace: Path) -> int:
    words = [str(CONVOLVER), "simulate", str(trace), "-m", MACHINE, "--json", "--force"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return int(json.loads(text)[0]["levels"][0]["misses"])


def undisturbed(records: list[Record]) -> list[Record]:
    """Return records with the least latency and the median bandwidth of all runs on their network: times are the shortest."""
    known: dict[tuple[float, int], list[Record]] = {}
    for record in records:
        known.setdefault((record.parameters["network"], record.size), []).append(record)
    best = {
        of: {
            "latency": min(one.metrics["latency"].value for one in runs),
            "bandwidth": float(np.median([one.metrics["bandwidth"].value for one in runs])),
        }
        for of, runs in known.items()
    }
    changed = []
    for record in records:
        found = best[record.parameters["network"], record.size]
        metrics = {**record.metrics, **{name: replace(record.metrics[name], value=value) for name, value in found.items()}}
        changed.append(replace(record, metrics=metrics))
    return changed


def report(folder: Path, mode: str, case: int) -> None:
    records = read_records(folder / f"{mode}{case}")
    for record in records:
        record.parameters["network"] = float(record.run.split("-")[0])
    if mode == "mpi":
        records = undisturbed(records)
    features, known = FEATURES, folder / "misses.csv"
    if mode == "mpi" and known.exists():
        records, features = join_metrics(records, known), [*FEATURES, "L1CM"]
    data = to_table(records).observations("time", [*features, "network"], center="minimum")
    columns = {**{name: data.x[name] for name in features}, "time": data.y}
    text = short_formula(case, "L1CM" in features) if mode == "mpi" else formula(case)
    options = {"drop_outliers": 5.0} if mode == "mpi" else {}
    units = {"time": "s", "latency": "s", "bandwidth": "B/s"}
    model = fit("analytic", columns, target="time", features=features, formula=text, center="none", units=units, **options)
    print(f"{mode}, case {case}: {_errors(model)}")
    print("   ", model.equation(4))
    for note in model.notes:
        print("   ", note)
    if not model.empty:
        with style.drawing(style.LIGHT):
            style.save(residuals.draw(model, data, style.LIGHT, feature="N"), folder / f"{mode}{case}.png")


def _errors(model: Model) -> str:
    known = model.quality
    if model.empty:
        return f"{known['points']} points, no term is left"
    errors = f"median {known['median_relative_error']:.1%}, worst {known['max_relative_error']:.1%}"
    return f"{known['points']} points, R2 {known['r_squared']:.4f}, errors: {errors}"


def campaign(mode: str, folder: Path, case: int) -> None:
    records, done = folder / f"{mode}{case}", folder / f"{mode}{case}.done"
    records.mkdir(parents=True, exist_ok=True)
    have = set(done.read_text().split()) if done.exists() else set()
    for run in plan(mode, case):
        if str(run) not in have:
            real(folder, run, records) if mode == "mpi" else simulated(folder, run, mode, records)
            with done.open("a") as file:
                file.write(f"{run}\n")
    report(folder, mode, case)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    mode, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if mode == "mpi-misses":
        print(misses(folder).read_text())
    else:
        for case in [int(word) for word in sys.argv[3:]] or [1, 2, 3]:
            campaign(mode, folder, case)
