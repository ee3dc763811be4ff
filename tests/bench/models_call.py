"""Campaign: CALL on the matrix product of the paper, many ranks simulated by SimGrid SMPI on random networks.

Needs smpicc (libsimgrid-dev). Every run measures its own network; the time is fitted over N, P, latency and bandwidth.
    python tests/bench/models_call.py [FOLDER]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from convolver.modeling import fit
from convolver.modeling.call.instrument import instrument
from convolver.modeling.call.records import read_records, to_table
from convolver.modeling.call.runtime import build_runtime

SOURCE = Path(__file__).parents[2] / "examples/call/product.c"
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><cluster id="c" prefix="h" suffix="" radical="0-15" speed="1Gf" bw="{bw}Bps" lat="{lat}s"/></platform>
"""
CALLS = {1: "1", 2: "N/P", 3: "N^2/P"}
FEATURES = ["N", "P", "latency", "bandwidth"]


def formula(case: int) -> str:
    """Return equation 1 with the terms it lacks: Scatter and Bcast of the matrices, gathers that cost per partner."""
    calls, steps = CALLS[case], "ceil(log2(P))"
    latency = [f"{steps}*({calls})*latency", f"(P-1)*({calls})*latency", f"where(P>1,({calls})*latency,0)"]
    volume = [f"{steps}*4*N^2/bandwidth", "4*N^2*(P-1)/P/bandwidth"]
    return " + ".join(["1", "N^3/P", f"where(P>1,{calls},0)", *latency, *volume])


def build(folder: Path) -> Path:
    library = build_runtime(folder / "rt", compiler="smpicc", mpi=True)
    (folder / "product.c").write_text(instrument(SOURCE.read_text(), "product.c"))
    program = folder / "product"
    command = ["smpicc", "-O2", f"-I{folder / 'rt'}", str(folder / "product.c"), str(library), "-o", str(program), "-lm"]
    subprocess.run(command, check=True)
    return program


def run(program: Path, folder: Path, case: int, network: int, ranks: int, size: int, repetitions: int) -> None:
    rng = np.random.default_rng([7, network])
    bandwidth, latency = 10 ** rng.uniform(7.5, 9), 10 ** rng.uniform(-5.3, -4)
    (folder / "platform.xml").write_text(PLATFORM.format(bw=bandwidth, lat=latency))
    (folder / "hosts").write_text("".join(f"h{i}\n" for i in range(16)))
    records = folder / f"case{case}"
    records.mkdir(exist_ok=True)
    environment = {**os.environ, "CONVOLVER_CALL_DIR": str(records), "CONVOLVER_CALL_RUN": f"{network}-{ranks}-{size}"}
    command = ["smpirun", "-np", str(ranks), "-platform", str(folder / "platform.xml"), "-hostfile", str(folder / "hosts")]
    command += ["--cfg=smpi/host-speed:1Gf", "--log=root.thresh:error", str(program), str(case), str(size), str(repetitions)]
    subprocess.run(command, check=True, env=environment, capture_output=True)


def report(folder: Path, case: int) -> None:
    records = read_records(folder / f"case{case}")
    for record in records:
        record.parameters["network"] = float(record.run.split("-")[0])
    table = to_table(records).observations("time", [*FEATURES, "network"], centre="minimum")
    data = {**{name: table.x[name] for name in FEATURES}, "time": table.y}
    model = fit("analytic", data, target="time", features=FEATURES, formula=formula(case), centre="none")
    quality = model.quality
    error = 100 * quality["median_relative_error"]
    print(f"case {case}: {len(table)} points R2 {quality['r_squared']:.4f} median error {error:.1f} %")
    print("   ", model.equation(4))


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    program = build(folder)
    for case in (1, 2, 3):
        for network in range(6):
            for ranks in (1, 2, 5, 10):
                for size in (100, 150, 200):
                    run(program, folder, case, network, ranks, size, 5 if case < 3 else 2)
        report(folder, case)
