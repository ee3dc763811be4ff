"""Every reader with real files to start from: (name, seeds, mutation, what reads them as the verbs do)."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from convolver.artifacts import describe
from convolver.convolution.cpu_ratio import CpuRatio, cpu_ratio
from convolver.errors import ReplayError
from convolver.foreign_text import json_text
from convolver.machine.cores import FOLDER, parse_core
from convolver.machine.profile import MachineProfile
from convolver.modeling.base import fit
from convolver.modeling.expression import evaluate
from convolver.modeling.model_artifact import Model
from convolver.modeling.table import Table
from convolver.mpi.cfg import read_cfg
from convolver.mpi.dim import read_dim
from convolver.mpi.events import Events, EventsBuilder
from convolver.mpi.network import Network, flat_configuration
from convolver.mpi.network_replay import replay
from convolver.mpi.sources import load_events
from convolver.mpi.sweep import NetworkSweep, Range, SweepPlan
from convolver.pipeline import predict_from
from convolver.reporting.machine_tables import profile_rows
from convolver.simulation.many import simulate_many
from convolver.simulation.one_pass import simulate
from convolver.tracing.importers import IMPORTERS, import_trace
from convolver.tracing.reader import Trace
from convolver.validating.campaign import Campaign
from convolver.validating.validation import Validation
from tests.artifact_chain import make_objects
from tests.robust import mutations
from tests.synthetic import analyzed, convolved, hit_rates, loads, machine, signature

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "dimemas"
LACKEY = "".join(f"I  {16384 + 4 * (n % 7):08x},4\n L {0x1FFE0000 + 8 * n:x},8\n M {8192 + 64 * n:x},4\n" for n in range(60))
DIN = "2 400\n0 1000\n2 404\n1 2000 8\n0 1004\n" * 4
DRMEMTRACE = """Output format:
           1           0:       T100 <marker: version 3>
           2           1:       T100 ifetch       3 byte(s) @ 0x00007f0000001000 48 89 e7             mov    %rsp -> %rdi
           3           1:       T100 read         8 byte(s) @ 0x00007fff00000010 by PC 0x00007f0000001000
           4           2:       T200 ifetch       5 byte(s) @ 0x00007f0000001003 e8 08 0c 00 00       call
           5           2:       T200 write        8 byte(s) @ 0x00007fff00000008 by PC 0x00007f0000001003
"""
EXTRAE = """#Paraver (01/01/2026 at 00:00):3000_ns:1(2):1:2(1:1,1:1),1
c:1:1:2:1:2
1:1:1:1:1:0:1000:1
2:1:1:1:1:1000:50000001:1
3:1:1:1:1:1000:1100:2:1:2:1:900:1500:64:7
2:1:1:1:1:1200:50000001:0
2:2:1:2:1:800:50000001:2
2:2:1:2:1:1600:50000001:0
2:1:1:1:1:2000:50000002:10:50100001:8:50100002:8:50100003:0:50100004:1
2:2:1:2:1:1900:50000002:10:50100001:8:50100002:8:50100004:1
2:1:1:1:1:2500:50000002:0
2:2:1:2:1:2500:50000002:0
"""
CSV = "address,size,write,pc,thread\n16,8,w,4,1\n0x20,,0,8,2\n"
TI = "0 init\n0 compute 1000\n0 send 1 0 64\n0 allreduce 8 0\n0 recv 1 0 64\n0 finalize\n"
CAMPAIGN = """name = "c"
runs = 3
modes = ["hybrid", "full"]
[[program]]
name = "sort"
command = ["sort", "{input}"]
inputs = { small = ["a.txt"], large = ["b.txt"] }
[[condition]]
name = "host"
"""
EXTRAP = {
    ".jsonl": '{"params":{"x":1,"y":2},"metric":"m","callpath":"a","value":2}\n'
    '{"params":{"x":2,"y":2},"metric":"m","value":2.5}\n',
    ".json": '{"parameters":["p"],"measurements":{"a":{"time":[{"point":[1],"values":[1,2]},{"point":[2],"values":[3.5]}]}}}',
    ".txt": "PARAMETER p\nPARAMETER n\nPOINTS (1 2) (2 4)\nREGION a\nMETRIC time\nDATA 1 1.5\nDATA 2 2.5\n",
    ".csv": "value,param.p,metric,repetition\n1.5,1,time,0\n2.5,2,time,0\n4.5,4,time,1\n",
}
FORMULAS = "a+b*n^2/p\nwhere(n<p,log(n),max(p,2))-exp(-n)\nmin(n,p)*sqrt(abs(n-p))\n-n--p*(3.5e2+n)^0.5\n"


class Reader(NamedTuple):
    """How a kind of file is read, what it is called, real ones, and how they are changed."""

    name: str
    suffix: str
    seeds: list[bytes]
    mutate: mutations.Mutation
    read: Callable[[Path], Any]


def _info(path: Path) -> None:
    json_text(describe(path))


def _machine(path: Path) -> None:
    _info(path)
    profile_rows(MachineProfile.load(path))


def _ratio(path: Path) -> None:
    _info(path)
    _ = CpuRatio.load(path).functions


def _model(path: Path) -> None:
    _info(path)
    model = Model.load(path)
    model.apply({name: [1.0, 2.0] for name in model.features})


def _trace(path: Path) -> None:
    _info(path)
    trace = Trace.load(path)
    convolved(trace.signature, simulate(trace, [MACHINE]), MACHINE)


def _table(path: Path) -> None:
    Table.load(path)


def _events(path: Path) -> None:
    _replayed(load_events(path))


def _replayed(events: Events) -> None:
    if events.ranks <= 64:
        replay(events, flat_configuration(max(events.ranks, 1), latency_seconds=1e-6, bandwidth_bytes_per_second=1e9))


def _network(path: Path) -> None:
    network = Network(read_cfg(path))
    with contextlib.suppress(ReplayError):  # the seeds are for several numbers of ranks
        replay(DIM, network)


def _importer(name: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            import_trace(path, output=Path(folder) / "a.cvt", format=name).verify()

    return read


def _formula(path: Path) -> None:
    for text in path.read_text(errors="replace").splitlines():
        evaluate(text, {"n": [1.0, 2.0], "p": [3.0, 4.0], "a": 1.0, "b": 2.0})


MACHINE = machine("m")
DIM = read_dim(GOLDEN / "point-07.dim")


def _saved(folder: Path, name: str, artifact: Any) -> bytes:
    artifact.save(folder / name)
    return (folder / name).read_bytes()


def make_readers() -> list[Reader]:
    """Return all readers; their seeds are made by the code that writes such files."""
    with tempfile.TemporaryDirectory() as name:
        return _readers(Path(name))


def _readers(folder: Path) -> list[Reader]:
    fast = machine("fast", scale=0.5)
    program = signature(loads(1000), loads(50, pattern="random"), command=["./app"])
    rates = hit_rates([(0, 1000, 100, 10), (1, 50, 20, 10)], MACHINE, fast)
    times = [convolved(program, rates, one) for one in (MACHINE, fast)]
    analysis = analyzed(program, rates, MACHINE, fast)
    measured = Table.of_columns({"P": [1.0, 2.0, 4.0, 8.0], "time": [8.0, 4.1, 2.0, 1.05]}, "time")
    events = EventsBuilder(2).burst(0, 1.0).send(0, 1, 1000).receive(1, 0, 1000).build()
    timeline = replay(events, flat_configuration(2), record=True)
    (folder / "a.lackey").write_text(LACKEY)
    import_trace(folder / "a.lackey", output=folder / "a.cvt")
    bundled = min((ROOT / "convolver/machine/data").glob("*.machine.json"), key=lambda path: path.stat().st_size).read_bytes()
    pl.DataFrame({"address": [16, 32], "pc": [1, 2], "thread": [1, 2], "write": [0, 1]}).write_parquet(folder / "r.parquet")
    swept = pl.DataFrame({"point": [0, 1], "latency_seconds": [1e-6, 2e-6], "predicted_seconds": [1.0, 2.0]})
    sweep = NetworkSweep.make(swept, SweepPlan({"latency_seconds": Range(1e-6, 2e-6)}, 2), Path("a.dim"))
    simulate_many([folder / "a.cvt"], [MACHINE], folder / "many.parquet", executor=ThreadPoolExecutor(1))
    texts = {"program": "a", "input": "small", "origin": "own", "mode": "hybrid", "method": "model", "timed": "wall"}
    seconds = dict.fromkeys((f"{one}_seconds" for one in ("predicted", "low", "high", "measured")), 2.0)
    validation = Validation.make(
        [{"condition": name, **texts, **seconds, "error": 0.0} for name in ("quiet", "m")],
        inputs={},
        **{"campaign": "c", "base": "m", "machine": {}, "left_out": {}, "refused": {}},
    )
    objects = make_objects(folder, rates)
    tables = [program, rates, analysis, *times[:1], measured, events, timeline, sweep, validation, *objects]
    many = [(folder / "many.parquet").read_bytes()]
    dims = [path.read_bytes() for path in sorted(GOLDEN.glob("*.dim"))]
    readers = [
        Reader("machine", ".machine.json", [_saved(folder, "m.json", MACHINE), bundled], mutations.change_json, _machine),
        Reader("cpu_ratio", ".ratio.json", [_saved(folder, "r.json", cpu_ratio(*times))], mutations.change_json, _ratio),
        Reader(
            "prediction",
            ".prediction.json",
            [_saved(folder, "p.json", predict_from(analysis, base=MACHINE, target=fast))],
            mutations.change_json,
            _info,
        ),
        Reader(
            "model",
            ".model.json",
            [_saved(folder, "o.json", fit("power-law", measured, target="time", features=["P"]))],
            mutations.change_json,
            _model,
        ),
        Reader(
            "tables",
            ".parquet",
            [_saved(folder, f"{n}.parquet", one) for n, one in enumerate(tables)] + many,
            mutations.change_parquet,
            _info,
        ),
        Reader("trace", ".cvt", [(folder / "a.cvt").read_bytes()], mutations.change_cvt, _trace),
        Reader("dim", ".dim", dims, mutations.change_text, lambda path: _replayed(read_dim(path))),
        Reader("cfg", ".cfg", [path.read_bytes() for path in sorted(GOLDEN.glob("*.cfg"))], mutations.change_text, _network),
        Reader("prv", ".prv", [EXTRAE.encode()], mutations.change_text, _events),
        Reader("campaign", ".toml", [CAMPAIGN.encode()], mutations.change_text, Campaign.load),
        Reader(
            "core",
            ".toml",
            [path.read_bytes() for path in sorted(FOLDER.glob("*.toml"))[:2]],
            mutations.change_text,
            lambda path: parse_core(path.read_text(errors="replace"), str(path)),
        ),
        Reader("formula", ".txt", [FORMULAS.encode()], mutations.change_text, _formula),
        Reader("time_independent", ".txt", [TI.encode()], mutations.change_text, _ti),
    ]
    readers += [
        Reader(f"table{suffix}", suffix, [text.encode()], mutations.change_text, _table) for suffix, text in EXTRAP.items()
    ]
    texts = {"lackey": LACKEY, "din": DIN, "drmemtrace": DRMEMTRACE, "csv": CSV}
    for kind in IMPORTERS:
        data = texts[kind].encode() if kind in texts else (folder / "r.parquet").read_bytes()
        mutate = mutations.change_text if kind in texts else mutations.change_parquet
        readers.append(Reader(f"import_{kind}", f".{kind}", [data], mutate, _importer(kind)))
    return readers


def _ti(path: Path) -> None:
    index = path.with_name("index.txt")
    index.write_text(f"{os.path.basename(path)}\n{os.path.basename(path)}\n")
    with contextlib.suppress(ReplayError):  # both ranks have one rank's operations
        _events(index)
