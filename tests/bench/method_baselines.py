"""How far Convolver, and the simplest methods beside it, miss the campaign's times on two makers' machines and their ratio.

``python tests/bench/method_baselines.py TRACES``: a folder with a trace for each row of ``times-*.csv``, PROGRAM-INPUT.cvt, as a
campaign's working folder holds them; some minutes. The cycle formula is that of tools based on callgrind: accesses (instructions
included) that hit L1, five for each that another level serves, 35 for each in memory, here at the machine's clock.
"""

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median

from result_file import write_result

from convolver.analyzing.analyze import analyze
from convolver.convolution.convolve import convolve
from convolver.machine.catalog import as_machine
from convolver.machine.profile import MachineProfile

HERE = Path(__file__).parent
MACHINES = {"time on Intel": "cloud-server", "time on AMD Milan": "cloud-epyc-milan"}
RATIO = ("CPU ratio Milan / Intel", "cloud-epyc-milan", "cloud-server")
METHODS = ("Convolver", "paper's method", "L1 + 5 L2 + 35 RAM", "one factor")


def measured(machine: str) -> dict[str, float]:
    """Return the seconds by the names of the traces."""
    with (HERE / f"times-{machine}.csv").open() as file:
        return {f"{row['program']}-{row['input']}".rstrip("-"): float(row["seconds"]) for row in csv.DictReader(file)}


def predicted(trace: Path, machines: Mapping[str, MachineProfile]) -> dict[tuple[str, str], float]:
    """Return the seconds by method and machine."""
    analysis = analyze(trace, list(machines.values()))
    table, found = analysis.signature.table, {}
    instructions, references = float(table["instructions"].sum()), table["memops"].to_numpy().astype(float)
    for name, machine in machines.items():
        for method, how in (("Convolver", None), ("paper's method", "paper")):
            times = convolve(analysis, machine) if how is None else convolve(analysis, machine, method=how)
            found[method, name] = times.total[0]
        served = references @ analysis.of(machine).falls.served
        cycles = instructions + served[0] + 5 * served[1:-1].sum() + 35 * served[-1]
        cycle = next(one.seconds for one in machine.floating_point if one.operation == "cycle")
        found[METHODS[2], name] = cycles * cycle
    return found


def shown(errors: Sequence[float]) -> str:
    """Return median, mean and worst error."""
    sizes = [100 * abs(error) for error in errors]
    return f"{median(sizes):.0f} / {mean(sizes):.0f} / {max(sizes):.0f} %"


def main(folder: Path) -> None:
    """Predict all traces and write the result file."""
    machines = {name: as_machine(name) for name in MACHINES.values()}
    times = {name: measured(name) for name in machines}
    traces = {path.stem: path for path in sorted(folder.glob("*.cvt")) if all(path.stem in one for one in times.values())}
    seconds = {job: predicted(path, machines) for job, path in traces.items()}
    rows = []
    for what, machine in MACHINES.items():
        of: Callable[[str], list[float]] = lambda method, at=machine: [seconds[j][method, at] / times[at][j] - 1 for j in traces]  # noqa: E731
        rows.append([what, *(shown(of(method)) for method in METHODS[:3]), ""])
    what, base, target = RATIO
    truth = {job: times[base][job] / times[target][job] for job in traces}
    row = [
        shown([seconds[j][method, base] / seconds[j][method, target] / truth[j] - 1 for j in traces]) for method in METHODS[:3]
    ]
    rows.append([what, *row, shown([median(truth.values()) / one - 1 for one in truth.values()])])
    print(write_result("methods", ["error, median / mean / worst", *METHODS], rows, {"jobs": len(traces)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
