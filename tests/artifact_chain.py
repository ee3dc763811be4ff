"""A small but complete chain of artifacts, and whatever else the views take, for the tests of pictures, exports and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from convolver.machine.kernel_costs import KernelCost
from convolver.machine.profile import MachineProfile
from convolver.modeling.table import Table
from convolver.mpi.events import EventsBuilder, Op
from convolver.pipeline import Prediction, predict_from
from convolver.signature.data_objects import DataObjects
from convolver.signature.signature import Signature
from convolver.simulation.hit_rates import HitRates
from convolver.simulation.object_hits import ObjectHits
from tests import synthetic

SOURCE = """static double a[1000], b[1000];

double dot(void)
{
    double sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += a[i] * b[i];
    return sum;
}
"""


@dataclass(frozen=True)
class Chain:
    """The artifacts of one program on two machines, and the folder in which they lie."""

    folder: Path
    base: MachineProfile
    target: MachineProfile
    signature: Signature
    hits: HitRates
    prediction: Prediction

    def path(self, name: str) -> str:
        """Return the path of a file as text, checked to be there."""
        assert (self.folder / name).exists(), name
        return str(self.folder / name)


def _row(index: int, memops: int, **more: Any) -> dict[str, Any]:
    half = memops // 2
    counts = {"loads": memops - half, "stores": half, "load_bytes": 8 * (memops - half), "store_bytes": 8 * half}
    name = {"function": f"f{index % 7}", "line": 3 + index % 7}
    return {"executions": memops // 2 + 1, "instructions": 3 * memops + 5, **counts, **name, **more}


CALLS = {"page_bytes": 4096, "pages": None, "forks": 0, "threads": 0}
CALLS |= {"calls": [{"call": "getpid", "target": "", "calls": 100, "bytes": 0}]}
"""What a program had of the kernel: a hundred calls."""


def _with_kernel(machine: MachineProfile, call_seconds: float | None) -> MachineProfile:
    """Return the machine with the cost of a system call; None: as it is."""
    known = [] if call_seconds is None else [("page.few", call_seconds), ("call.least", call_seconds)]
    costs = tuple(KernelCost(name=name, seconds=cost, low=cost, high=cost) for name, cost in known)
    return msgspec.structs.replace(machine, kernel=costs)


def make_chain(folder: Path, blocks: int = 12, call_seconds: Sequence[float | None] = (None, None), **header: Any) -> Chain:
    """Write the artifacts of a program with so many blocks, hot ones first, one of them without a sample, to the folder.

    ``call_seconds``: what a system call takes on base and target, where that is known.
    """
    source = folder / "app.c"
    source.write_text(SOURCE)
    plain = synthetic.machine("base"), synthetic.machine("target", scale=0.5)
    base, target = (_with_kernel(*one) for one in zip(plain, call_seconds, strict=True))
    rows, hits = [], []
    for index in range(blocks):
        memops = max(2, int(4_000_000 / (index + 1) ** 1.2))
        sampled = 0 if index == 3 else max(1, memops // 2)
        rows.append(_row(index, memops, flops=memops // (1 + index % 3), file=str(source), sampled_references=sampled))
        rows[-1]["unit_references" if index % 2 else "random_references"] = sampled
        if sampled:
            hits.append((index, sampled, sampled // (2 + index % 5), sampled // (6 + index % 3)))
    command = {"command": ["./app", "7"], "measured_seconds": 0.01, **header}
    signature = synthetic.signature(*rows, inputs={"trace": "t" * 32}, **command)
    rates = synthetic.hit_rates(hits, base, target, inputs={"trace": "t" * 32})
    prediction = predict_from(synthetic.analyzed(signature, rates, base, target), base=base, target=target)
    base.save(folder / "base.machine.json")
    target.save(folder / "target.machine.json")
    signature.save(folder / "app.sig.parquet")
    rates.save(folder / "app.hits.parquet")
    assert prediction.base is not None
    assert prediction.target is not None
    prediction.base.save(folder / "app@base.times.parquet")
    prediction.target.save(folder / "app@target.times.parquet")
    prediction.save(folder / "app@target.prediction.json")
    return Chain(folder, base, target, signature, rates, prediction)


def make_timeline(path: Path, ranks: int = 4) -> Path:
    """Replay a small ring exchange with a collective and write its timeline."""
    from convolver.mpi.network import flat_configuration
    from convolver.mpi.network_replay import replay

    builder = EventsBuilder(ranks, name="ring")
    for turn in range(3):
        for rank in range(ranks):
            builder.burst(rank, 1e-3 * (1 + rank / ranks))
            builder.send(rank, (rank + 1) % ranks, 4096, tag=turn)
            builder.receive(rank, (rank - 1) % ranks, 4096, tag=turn)
            builder.collective(rank, Op.ALLREDUCE, sent=8, received=8)
    network = flat_configuration(ranks, latency_seconds=2e-5, bandwidth_bytes_per_second=1e7)
    timeline = replay(builder.build(), network, 1.0, record=True)
    timeline.save(path)
    return path


def make_model(path: Path, kind: str = "normal-form", **options: Any) -> Path:
    """Fit a scaling model to points of 2 + 0.5 p log2(p) with a little noise and write it."""
    from convolver.modeling.base import fit

    noise = np.random.default_rng(3)
    p = np.array([2.0, 4, 8, 16, 32, 64, 128])
    time = (2 + 0.5 * p * np.log2(p)) * (1 + 0.01 * noise.standard_normal(len(p)))
    fit(kind, Table.of_columns({"p": p.tolist(), "time": time.tolist()}), target="time", features=["p"], **options).save(path)
    return path


def make_objects(folder: Path, rates: HitRates, trace: str = "t" * 32) -> tuple[DataObjects, ObjectHits]:
    """Write data objects of a chain, and their hits, to the folder: a heap block that misses, a stack that does not."""
    labels = [("malloc in make <rows> (app.c:3)", "heap", 1 << 20), ("stack of thread 1", "stack", 8 << 20)]
    objects = [
        {"object": number, "label": label, "kind": kind, "places": 1, "placed_bytes": peak, "peak_bytes": peak}
        for number, (label, kind, peak) in enumerate(labels)
    ]
    counts = {"references": [90, 10], "loads": [60, 10], "stores": [30, 0], "bytes": [720, 80], "set_references": [0, 0]}
    columns = {"object": [0, 1], "block": [0, 1], **counts, "memops": [3.0e6, 1.0e6]}
    types = {"object": pl.UInt32, "block": pl.UInt32, **dict.fromkeys(counts, pl.UInt64)}
    known = DataObjects.make(pl.DataFrame(columns, schema_overrides=types), objects, 5_000_000, {"trace": trace})
    known.save(folder / "app.objects.parquet")
    rows = [
        {"object": number, "block": number, "machine": machine, "level": level, "accesses": 100, "hits": 100 - n, "misses": n}
        for machine in rates.machines
        for level in rates.levels(machine)
        for number, n in ((0, 40), (1, 1))
    ]
    table = pl.DataFrame(rows, schema_overrides={**types, **dict.fromkeys(("accesses", "hits", "misses"), pl.UInt64)})
    hits = ObjectHits.make(table.with_columns(write_backs=pl.lit(0, dtype=pl.UInt64)), objects, rates)
    hits.save(folder / "app.object-hits.parquet")
    return known, hits
