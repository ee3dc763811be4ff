"""Campaign: Extra-P's own readers and ours on the same files, and Extra-P on files that we wrote.

    python tests/bench/extrap_files.py PYTHON DATA

PYTHON is an interpreter that has Extra-P (pip install extrap 'numpy<2', in an environment of its own), DATA the folder tests/data
of its repository (extra-p/extrap). Compared are mean, median, least and largest value of each region, metric and point.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from convolver.errors import ConvolverError
from convolver.modeling.table import Table

THEIRS = """
import json, sys, warnings
warnings.simplefilter("ignore")
from extrap.fileio.file_reader.json_file_reader import JsonFileReader
from extrap.fileio.file_reader.jsonlines_file_reader import read_jsonlines_file
from extrap.fileio.file_reader.text_file_reader import TextFileReader
readers = {"jsonl": read_jsonlines_file, "json": JsonFileReader().read_experiment, "txt": TextFileReader().read_experiment}
result = {}
for path in sys.argv[1:]:
    try:
        read = readers[path.lower().rsplit(".", 1)[1]](path)
    except Exception as error:
        result[path] = str(error)
        continue
    result[path] = [
        [str(callpath), str(metric), [str(p) for p in read.parameters], list(map(float, m.coordinate.as_tuple())),
         [float(m.mean), float(m.median), float(m.minimum), float(m.maximum)]]
        for (callpath, metric), listed in read.measurements.items() for m in listed
    ]
json.dump(result, sys.stdout)
"""


def theirs(python: str, paths: list[str]) -> dict:
    done = subprocess.run([python, "-c", THEIRS, *paths], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def ours(path: str, parameters: list[str]) -> dict:
    groups: dict = {}
    for row in Table.load(path).table.iter_rows(named=True):
        metric = "" if row["metric"] == "<default>" else row["metric"]
        point = tuple(row[f"param.{name}"] for name in parameters)
        groups.setdefault((row["callpath"], metric, point), []).append(row["value"])
    return {key: (statistics.fmean(v), statistics.median(v), min(v), max(v)) for key, v in groups.items()}


def same(read: list, path: str) -> bool:
    parameters = read[0][2]
    known = ours(path, parameters)
    other = {(callpath, metric.replace("<default>", ""), tuple(point)): values for callpath, metric, _, point, values in read}
    return known.keys() == other.keys() and all(np.allclose(known[key], other[key], rtol=1e-9) for key in known)


def compare(python: str, paths: list[str]) -> None:
    equal, refused = 0, []
    for path, read in theirs(python, paths).items():
        if isinstance(read, str):
            try:
                Table.load(path)
                refused.append(f"{path}: only Extra-P refuses it ({read})")
            except ConvolverError as error:
                refused.append(f"{path}: both refuse it ({error})")
        elif same(read, path):
            equal += 1
        else:
            print(f"{path}: DIFFERENT")
    print(f"{equal} of {len(paths) - len(refused)} files read alike")
    print("\n".join(refused))


def written(folder: Path) -> list[str]:
    """Return files of ours: two parameters, two regions, three repetitions."""
    rng = np.random.default_rng(0)
    rows = [
        {"param.p": p, "param.n": n, "callpath": path, "metric": "time", "value": value * rng.normal(1, 0.01), "repetition": i}
        for p in (4, 8, 16, 32, 64)
        for n in (10, 20, 40, 80, 160)
        for i in range(3)
        for path, value in (("main", 1 + 2 * n * np.log2(p)), ("main->solve", 0.3 * n**2 + p))
    ]
    paths = [folder / f"two.{ending}" for ending in ("jsonl", "json", "txt")]
    for path in paths:
        Table.of_rows(rows).save(path)
    return [str(path) for path in paths]


if __name__ == "__main__":
    python, data = sys.argv[1:]
    endings = (".jsonl", ".json", ".txt")
    files = [str(p) for p in sorted(Path(data).rglob("*")) if p.suffix.lower() in endings and "talpas" not in p.parts]
    print("Files of Extra-P's repository:")
    compare(python, files)
    print("Files that we wrote:")
    with tempfile.TemporaryDirectory() as folder:
        compare(python, written(Path(folder)))
