"""Campaign: MECP on transpositions (the communication of EVH1) simulated by SimGrid SMPI with contention on a shared backbone.

Needs smpicc. Corrects equation 2 for two splits and 30 seeds, chosen without held-out data. CSV holds the times; it is made where
it does not exist (without it, in a temporary folder).
    python tests/bench/models_mecp.py [CSV]
"""

import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from convolver.modeling import Table
from convolver.modeling.mecp.correct import choose, ensemble, trial
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
    mask = (
        index % 2 == 0
        if kind == "odd/even"
        else np.isin(index, np.random.default_rng(1).permutation(len(data))[: len(data) // 2])
    )
    return data.take(mask), data.take(~mask)


def campaign(data, kind: str) -> None:
    train, held = split(data, kind)
    form = TRANSPOSE
    parameters = form.fit(train, quiet=True, loss="log").parameters
    base = np.mean((form(held.x, parameters) - held.y) ** 2)
    settings, start = Settings(), time.perf_counter()
    known = choose(form, train, [(c, s) for c in (1, 2, 3, 4) for s in ("log", "raw")], loss="log", settings=settings)
    best = min(known, key=known.get)
    print(f"{kind}: chosen {best} in {time.perf_counter() - start:.1f} s, cv { ({k: round(v, 2) for k, v in known.items()}) }")
    for case in (1, 2, 3, 4):
        for space in ("log", "raw"):
            start = time.perf_counter()
            made = [trial(form, train, parameters, case=case, space=space, seed=s, settings=settings) for s in range(30)]
            errors = np.array([np.mean((one(held.x) - held.y) ** 2) for one in made]) / base
            together = np.mean((ensemble(made, held.x) - held.y) ** 2) / base
            mark = "  <- chosen" if (case, space) == best else ""
            seconds = time.perf_counter() - start
            print(
                f"  case {case} {space}: better {np.sum(errors < 1)}/30, best {1 - errors.min():.2f}, "
                f"ensemble reduces MSE by {1 - together:.2f}, {seconds:.1f} s{mark}"
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "transpose.csv"
    if not path.exists():
        measure(path)
    data = Table.load(path).observations("time", ["np", "nx", "T"])
    for kind in ("odd/even", "random"):
        campaign(data, kind)
