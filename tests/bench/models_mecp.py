"""Campaign: MECP on transpositions (the communication of EVH1) simulated by SimGrid SMPI with contention on a shared backbone.

    python tests/bench/models_mecp.py CSV [--other] [--all] [--quick] [odd/even|NUMBER]...

Corrects equation 2 with 30 seeds for the paper's split (odd/even) and random halves, whose seeds are the numbers; case and space
are chosen without the held-out data. CSV holds the times; it is made with smpicc where it does not exist
(tests/unit/modeling/transpose.csv does; --other makes it on another cluster with another library's collectives). --all runs every
case on logarithms, not only the chosen one; --quick tries the first case only, with 10 seeds. Intervals are those of the folds of
the training half (:mod:`convolver.modeling.cross_validation`); the share of held-out points in them is their coverage. Kriging of
the same logarithms shows what the data allow: its lengths chosen by left-out training points or, as a bound that no honest choice
reaches, by the held-out points themselves.
"""

import subprocess
import sys
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np

from convolver.modeling.cross_validation import LeftOut, limits
from convolver.modeling.mecp.correct import WORTH, choose, compare, ensemble, trial
from convolver.modeling.mecp.evolve import Settings
from convolver.modeling.mecp.semi_empirical import SemiEmpirical
from convolver.modeling.table import Table
from tests.semi_empirical_forms import EVH1

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
<platform version="4.1"><cluster id="c" prefix="h" suffix="" radical="0-63" speed="1Gf" {network}/></platform>
"""
NETWORKS = {
    False: 'bw="125MBps" lat="20us" bb_bw="500MBps" bb_lat="5us"',
    True: 'bw="1GBps" lat="5us" bb_bw="2GBps" bb_lat="2us"',
}
SELECTORS = {False: "mpich", True: "ompi"}
"""Networks and collectives of the first cluster and of the other one."""


def measure(path: Path, other: bool) -> None:
    folder = Path(tempfile.mkdtemp())
    # the copy of a transposition, 8 ns a value: modeled, so that a loaded machine does not disturb it
    copy = "SMPI_SLEEP(8e-9 * (double)block * np)"
    source = PROGRAM.replace("SMPI_COPY", copy).replace("SMPI_SLEEP", "sleep_for")
    helper = "#include <unistd.h>\nstatic void sleep_for(double s) { usleep((unsigned)(1e6 * s)); }\n"
    (folder / "t.c").write_text(source.replace("int main", helper + "int main"))
    subprocess.run(["smpicc", "-O2", "t.c", "-o", "t"], cwd=folder, check=True)
    (folder / "p.xml").write_text(PLATFORM.format(network=NETWORKS[other]))
    (folder / "hosts").write_text("".join(f"h{i}\n" for i in range(64)))
    lines = ["param.np,param.nx,param.T,value,metric,unit,source"]
    for count in (1, 2, 4, 8, 16, 32, 64):
        for nx in (64, 128, 192, 256, 384, 512, 768, 1024):
            command = [
                "smpirun",
                "-np",
                str(count),
                "-platform",
                "p.xml",
                "-hostfile",
                "hosts",
                f"--cfg=smpi/coll-selector:{SELECTORS[other]}",
            ]
            command += ["--log=root.thresh:error", "--cfg=smpi/host-speed:1Gf", "./t", str(nx)]
            text = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
            lines.append(f"{count},{nx},1,{float(text.split('time')[1].split()[0])!r},time,s,simulated")
    path.write_text("\n".join(lines) + "\n")


# equation 2 for one transposition of nx x nx values a cycle (the hydrodynamics code transposes nx such planes)
TRANSPOSE = SemiEmpirical(EVH1.formula.replace("f*T*nx*", "T*"), {**EVH1.bounds, "g": (1e-10, 1e-3), "j": (1e-10, 1e-3)})

LEVELS = (0.8, 0.9, 0.95)
CANDIDATES = [(2, "log"), (1, "log"), (4, "log"), (3, "log")]
"""The paper's cases, corrections of ratios: the base model's errors grow with the times."""


def split(data, kind):
    index = np.arange(len(data))
    if kind == "odd/even":
        mask = index % 2 == 0
    else:
        mask = np.isin(index, np.random.default_rng(int(kind)).permutation(len(data))[: len(data) // 2])
    return data.take(mask), data.take(~mask)


def kriged(x, y, weights, length, noise, at):
    """Return kriging of values at points ``x`` for points ``at``, and its predictions of each point by the others."""
    near = lambda a, b: np.exp(-0.5 * (((a[:, None] - b[None]) / length) ** 2).sum(axis=-1))  # noqa: E731
    mean = np.average(y, weights=weights)
    inverse = np.linalg.inv(near(x, x) + noise * np.diag(1 / weights))
    return mean + near(at, x) @ inverse @ (y - mean), y - (inverse @ (y - mean)) / np.diag(inverse)


def bounds_of(train, held, base_train, base_held) -> tuple[float, float]:
    """Return the held-out squares of kriging over the base model's: lengths chosen by training and by held-out points."""
    logs = {name: np.log(train.x[name]) for name in ("np", "nx")}
    x, at = (
        np.column_stack([(np.log(part.x[name]) - logs[name].mean()) / logs[name].std() for name in logs])
        for part in (train, held)
    )
    y, weights = np.log(train.y / base_train), base_train / base_train.mean()
    results = []
    for length in product((0.4, 0.7, 1.2, 2.0, 4.0), repeat=2):
        for noise in (0.03, 0.1, 0.3, 1.0, 3.0):
            made, left_out = kriged(x, y, weights, np.array(length), noise, at)
            value = base_held * np.exp(np.clip(made, y.min(), y.max()))
            results.append((float((weights * (left_out - y) ** 2).sum()), float(((value - held.y) ** 2).mean())))
    base = ((base_held - held.y) ** 2).mean()
    return min(results)[1] / base, min(error for _, error in results) / base


def covered(residuals, corrected, held) -> np.ndarray:
    """Return for each level and held-out point whether its interval holds the measured time, and print the shares."""
    both = [limits([LeftOut(residuals=residuals)], held.x, corrected, level) for level in LEVELS]
    inside = np.array([(low <= held.y) & (held.y <= high) for low, high in both])
    shares = [
        f"{level:.0%}: {one.mean():.0%} of points, factor {np.median(high / corrected):.2f}"
        for level, one, (_, high) in zip(LEVELS, inside, both, strict=True)
    ]
    print(f"  intervals hold {'; '.join(shares)}")
    return inside


def campaign(data, kind: str, every: bool, quick: bool) -> tuple[float, int, np.ndarray]:
    """Print one split; return the held-out squares over the base model's, how many of the chosen terms are better than it, and
    which intervals held."""
    tried, terms = (CANDIDATES[:1], 10) if quick else (CANDIDATES, 30)
    train, held = split(data, kind)
    settings, start = Settings(), time.process_time()
    parameters = TRANSPOSE.fit(train, quiet=True, loss="log").parameters
    guess = np.broadcast_to(TRANSPOSE(held.x, parameters), held.y.shape)
    base = np.mean((guess - held.y) ** 2)
    compared = compare(TRANSPOSE, train, tried, loss="log", settings=settings)
    known = {candidate: float(np.average(values, weights=compared.points)) for candidate, values in compared.ratios.items()}
    best = choose(compared.ratios, compared.points)
    corrected = known[best] < WORTH
    kriging = bounds_of(train, held, np.broadcast_to(TRANSPOSE(train.x, parameters), train.y.shape), guess)
    print(
        f"{kind}: base RMSE {1e3 * base**0.5:.1f} ms, chosen case {best[0]} {best[1]} ({known[best]:.2f} when cross-validated), "
        f"{'corrected' if corrected else 'left alone'}; kriging {kriging[0] - 1:+.0%}, at best {kriging[1] - 1:+.0%}"
    )
    result = (1.0, 0, covered(compared.left_out[None], guess, held) if not corrected else np.zeros(0))
    for case, space in tried if every else (best,):
        made = [trial(TRANSPOSE, train, parameters, case=case, space=space, seed=s, settings=settings) for s in range(terms)]
        errors = np.array([np.mean((one(held.x) - held.y) ** 2) for one in made]) / base
        together = float(np.mean((ensemble(made, held.x) - held.y) ** 2) / base)
        better = int(np.sum(errors < 1))
        if (case, space) == best:
            if corrected:
                result = (together, better, covered(compared.left_out[best], ensemble(made, held.x), held))
            else:
                result = (1.0, better, result[2])
        mark = "  <- chosen" if (case, space) == best else ""
        changed = f"MSE {100 * (together - 1):+.0f} %, best {errors.min() - 1:+.0%}"
        print(f"  case {case} {space}: better {better}/{terms}, {changed}{mark}")
    print(f"  {time.process_time() - start:.0f} s of one core", flush=True)
    return result


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    path = Path(words[0])
    if not path.exists():
        measure(path, "--other" in sys.argv)
    data = Table.load(path).observations("time", ["np", "nx", "T"])
    quick = "--quick" in sys.argv
    results = [campaign(data, kind, "--all" in sys.argv, quick) for kind in words[1:] or ["odd/even", "1"]]
    ratios, better, inside = (list(column) for column in zip(*results, strict=True))
    ratios, shares = np.array(ratios), np.array(better) / (10 if quick else 30)
    print(
        f"{len(ratios)} halves: MSE {100 * (ratios.mean() - 1):+.0f} % in the mean, {(ratios <= 0.5).sum()} by half or more, "
        f"{(ratios > 1).sum()} worse; 90 % or more of terms better on {(shares >= 0.9).sum()}, {shares.mean():.1%} of all"
    )
    held = np.concatenate(inside, axis=1).mean(axis=1)
    print("intervals hold " + ", ".join(f"{level:.0%}: {share:.1%}" for level, share in zip(LEVELS, held, strict=True)))
