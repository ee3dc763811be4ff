"""Every reader with real files to start from: (name, seeds, mutation, what reads them as the verbs do)."""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl

from convolver.artifacts import describe
from convolver.checking.limits import Limits
from convolver.checking.observed import CheckBaseline, FunctionTime, Observed
from convolver.convolution.choice import load_prices
from convolver.convolution.cpu_ratio import CpuRatio, cpu_ratio
from convolver.errors import ReplayError
from convolver.foreign_text import json_text
from convolver.machine.cores import FOLDER, parse_core
from convolver.machine.derived import Derivation
from convolver.machine.profile import MachineProfile
from convolver.modeling.base import fit
from convolver.modeling.call.records import Quantity, Record, append_record, read_records, to_table, write_xml
from convolver.modeling.expression import evaluate
from convolver.modeling.model_artifact import Model
from convolver.modeling.table import Table
from convolver.mpi import recorded_ranks
from convolver.mpi.burst_ratios import MAGIC, read_bursts
from convolver.mpi.cfg import read_cfg
from convolver.mpi.dim import read_dim
from convolver.mpi.events import Events, EventsBuilder
from convolver.mpi.network import Network, flat_configuration
from convolver.mpi.network_replay import replay
from convolver.mpi.recorded_ranks import read_rank
from convolver.mpi.sources import load_events
from convolver.mpi.sweep import NetworkSweep, Range, SweepPlan
from convolver.pipeline import predict_from
from convolver.reporting.bundle_file import PackedBundle
from convolver.reporting.machine_tables import profile_rows
from convolver.simulation.many import simulate_many
from convolver.simulation.one_pass import simulate
from convolver.tracing.avx512 import find_avx512
from convolver.tracing.engine_choice import alternatives
from convolver.tracing.importers import IMPORTERS, import_trace
from convolver.tracing.reader import Trace
from convolver.tracing.symbols import resolve_places
from convolver.validating.campaign import Campaign, Condition
from convolver.validating.campaign_machines import measured_elsewhere
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
LIMITS = """machine = "cloud-server"
threshold = 0.02
[program.sort]
threshold = 0.05
seconds = 1.5
"""
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
    return readers + _own_texts(folder)


def _object_file(path: Path) -> None:
    resolve_places([str(path)], [(0, offset) for offset in range(0, 40_000, 1000)])
    find_avx512(path)
    alternatives(path)


def _own_texts(folder: Path) -> list[Reader]:
    """Return the readers of what is written by hand, by a user's program or by a linker."""
    record = Record(region="r", run="1", parameters={"n": 2.0}, metrics={"seconds": Quantity(value=1.5, unit="s")}, formula="n^2")
    for _ in range(2):
        append_record(record, folder / "c.jsonl")
    write_xml([record] * 2, folder / "c.xml")
    observed = Observed(1.0, 0.1, {"f in a": FunctionTime(1.0, 0.1, "a.c:1")}, {"instructions": 5, "memops": 2}, {"a": "b"})
    CheckBaseline(MACHINE, {"a": observed}).save(folder / "c.json")
    derived = (ROOT / "convolver/machine/data/cloud/cloud-epyc-7763.derived.json").read_bytes()
    bursts = struct.pack("<8sIIQQQ2Q", MAGIC, 3, 0, 4, 7, 2, 1 << 40 | 10, 5 << 40 | 2)
    (folder / "files").mkdir()
    (folder / "files" / "a.txt").write_text("a" * 100)
    PackedBundle.pack(folder / "files", folder / "a.zip", redacted=True, about={"program": "a", "machines": ["m"]})
    elsewhere = Condition(name="m", profile="m.machine.json")
    return [
        Reader("limits", ".toml", [LIMITS.encode()], mutations.change_text, Limits.load),
        Reader("prices", ".csv", [b"machine,price_per_hour\na,1.5\nb,2\n"], mutations.change_text, load_prices),
        Reader("records", ".jsonl", [(folder / "c.jsonl").read_bytes()], mutations.change_text, _records),
        Reader("records_xml", ".xml", [(folder / "c.xml").read_bytes()], mutations.change_text, _records),
        Reader(
            "baseline",
            ".json",
            [(folder / "c.json").read_bytes()],
            mutations.change_json,
            lambda path: CheckBaseline.load(path, MACHINE),
        ),
        Reader("derived", ".json", [derived], mutations.change_json, Derivation.load),
        Reader("bundle", ".zip", [(folder / "a.zip").read_bytes()], mutations.change_bundle, _bundle),
        Reader("bursts", ".cvb", [bursts], mutations.change_bytes, read_bursts),
        Reader("recording", ".cvm", [_recording()], mutations.change_bytes, read_rank),
        Reader("object_file", ".so", [Path("/bin/true").read_bytes()], mutations.change_bytes, _object_file),
        Reader(
            "times_csv",
            ".csv",
            [b"program,input,seconds\na,small,1.5\n"],
            mutations.change_text,
            lambda path: measured_elsewhere(msgspec.structs.replace(elsewhere, times=path.name), path.parent),
        ),
    ]


def _records(path: Path) -> None:
    to_table(read_records(path))


def _bundle(path: Path) -> None:
    _info(path)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        PackedBundle.load(path).unpack(Path(folder))


def _recording() -> bytes:
    records = np.zeros(5, recorded_ranks.RECORD)
    records["call"] = [recorded_ranks.Call.COMM, 0, recorded_ranks.Call.COMM, 0, recorded_ranks.Call.OPAQUE]
    records["bytes"][:4], records["comm"][2] = [2, 0, 1, 0], 1
    records[1:2] = np.frombuffer(np.array([0, 1], "<i4").tobytes().ljust(records.itemsize, b"\0"), records.dtype)
    records[3:4] = np.zeros(1, records.dtype)
    head = np.zeros(1, recorded_ranks.HEADER)
    for name, value in {"magic": b"CVMPI01\n", "version": 1, "size": 2, "used": records.nbytes}.items():
        head[name] = value
    return head.tobytes().ljust(recorded_ranks.HEADER_BYTES, b"\0") + records.tobytes()


def _ti(path: Path) -> None:
    index = path.with_name("index.txt")
    index.write_text(f"{os.path.basename(path)}\n{os.path.basename(path)}\n")
    with contextlib.suppress(ReplayError):  # both ranks have one rank's operations
        _events(index)
