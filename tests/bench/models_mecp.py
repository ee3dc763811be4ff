"""Campaign: MECP on transpositions (the communication of EVH1) simulated by SimGrid SMPI with contention on a shared backbone.

Corrects equation 2 with 30 seeds for the paper's split (odd/even) and random halves; case and space are chosen without the
held-out data. CSV holds the times; it is made with smpicc where it does not exist (tests/unit/modeling/transpose.csv does).
Numbers are seeds of halves; ``all`` runs every case and space, not only the chosen one.
    python tests/bench/models_mecp.py CSV [all] [odd/even|NUMBER]...
"""

import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from convolver.modeling import Table
from convolver.modeling.mecp.correct import SIMPLEST, WORTH, choose, compare, ensemble, trial
from convolver.modeling.mecp.evolve import Settings
from convolver.modeling.mecp.semi_empirical import EVH1, SemiEmpirical

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    int np, rank, nx = atoi(argv[1]), cycles = 3;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &np);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int rows = nx / np ? nx / np : 1, block = rows * rows * 6;
    double *a = malloc(sizeof(double) * block * np), *b = malloc(sizeof(double) * block * np);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < 2 * cycles; i++) {
        MPI_Alltoall(a, block, MPI_DOUBLE, b, block, MPI_DOUBLE, MPI_COMM_WORLD);
        SMPI_COPY;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("time %.9e\n", (MPI_Wtime() - start) / cycles);
    MPI_Finalize();
    return 0;
}
"""
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <cluster id="c" prefix="h" suffix="" radical="0-63" speed="1Gf" bw="125MBps" lat="20us" bb_bw="500MBps" bb_lat="5us"/>
</platform>
"""


def measure(path: Path) -> None:
    folder = Path(tempfile.mkdtemp())
    # the copy of a transposition, 8 ns a value: modelled, so that a loaded machine does not disturb it
    copy = "SMPI_SLEEP(8e-9 * (double)block * np)"
    source = PROGRAM.replace("SMPI_COPY", copy).replace("SMPI_SLEEP", "sleep_for")
    helper = "#include <unistd.h>\nstatic void sleep_for(double s) { usleep((unsigned)(1e6 * s)); }\n"
    (folder / "t.c").write_text(source.replace("int main", helper + "int main"))
    subprocess.run(["smpicc", "-O2", "t.c", "-o", "t"], cwd=folder, check=True)
    (folder / "p.xml").write_text(PLATFORM)
    (folder / "hosts").write_text("".join(f"h{i}\n" for i in range(64)))
    lines = ["param.np,param.nx,param.T,value,metric,unit,source"]
    for count in (1, 2, 4, 8, 16, 32, 64):
        for nx in (64, 128, 192, 256, 384, 512, 768, 1024):
            command = ["smpirun", "-np", str(count), "-platform", "p.xml", "-hostfile", "hosts", "--cfg=smpi/coll-selector:mpich"]
            command += ["--log=root.thresh:error", "--cfg=smpi/host-speed:1Gf", "./t", str(nx)]
            text = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
            lines.append(f"{count},{nx},1,{float(text.split('time')[1].split()[0])!r},time,s,simulated")
    path.write_text("\n".join(lines) + "\n")


# equation 2 for one transposition of nx x nx values a cycle (the hydrodynamics code transposes nx such planes)
TRANSPOSE = SemiEmpirical(EVH1.formula.replace("f*T*nx*", "T*"), {**EVH1.bounds, "g": (1e-10, 1e-3), "j": (1e-10, 1e-3)})


def split(data, kind):
    index = np.arange(len(data))
    if kind == "odd/even":
        mask = index % 2 == 0
    else:
        mask = np.isin(index, np.random.default_rng(int(kind)).permutation(len(data))[: len(data) // 2])
    return data.take(mask), data.take(~mask)


def campaign(data, kind: str, every: bool) -> None:
    train, held = split(data, kind)
    parameters = TRANSPOSE.fit(train, quiet=True, loss="log").parameters
    base = np.mean((TRANSPOSE(held.x, parameters) - held.y) ** 2)
    settings, start = Settings(), time.process_time()
    ratios, points = compare(TRANSPOSE, train, list(SIMPLEST), loss="log", settings=settings)
    known = {candidate: float(np.average(values, weights=points)) for candidate, values in ratios.items()}
    best = choose(ratios, points)
    kept = "corrected" if known[best] < WORTH else "left alone"
    seconds = time.process_time() - start
    smallest = min(known, key=known.get)
    print(f"{kind}: base RMSE {1e3 * base**0.5:.1f} ms, smallest cv {smallest}, chosen {best}, {kept}, {seconds:.0f} s")
    print("  cv", {f"{c} {s}": round(v, 2) for (c, s), v in known.items()}, flush=True)
    for case, space in SIMPLEST if every else (best,):
        start = time.process_time()
        made = [trial(TRANSPOSE, train, parameters, case=case, space=space, seed=s, settings=settings) for s in range(30)]
        errors = np.array([np.mean((one(held.x) - held.y) ** 2) for one in made]) / base
        together = np.mean((ensemble(made, held.x) - held.y) ** 2) / base
        mark = "  <- chosen" if (case, space) == best else ""
        seconds = time.process_time() - start
        print(
            f"  case {case} {space}: better {np.sum(errors < 1)}/30, best {1 - errors.min():.2f}, "
            f"ensemble reduces MSE by {1 - together:.2f}, {seconds:.1f} s{mark}",
            flush=True,
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    path = Path(sys.argv[1])
    if not path.exists():
        measure(path)
    words = sys.argv[2:]
    data = Table.load(path).observations("time", ["np", "nx", "T"])
    for kind in [word for word in words if word != "all"] or ["odd/even", "1"]:
        campaign(data, kind, "all" in words)
