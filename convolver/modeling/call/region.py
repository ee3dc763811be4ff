"""Regions of Python programs: the same records as the C runtime writes.

::

    with region("solve", N=1000, P=4):
        solve()
"""

from __future__ import annotations

import importlib
import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from convolver.modeling.call.records import Quantity, Record, append_record

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
_STARTED = time.time()


def _first(names: tuple[str, ...], otherwise: int) -> int:
    return next((int(os.environ[name]) for name in names if name in os.environ), otherwise)


@contextmanager
def region(name: str, *, folder: str | Path | None = None, **parameters: float) -> Iterator[Record]:
    """Measure the body of a ``with`` block and append a record to ``folder`` (default ``CONVOLVER_CALL_DIR`` or here).

    The record is yielded, so that the body can add metrics of its own: ``record.metrics["residual"] = Quantity(r, "1")``.
    A body that raises leaves no record.
    """
    run = os.environ.get("CONVOLVER_CALL_RUN") or f"{_STARTED:.6f}-{os.getpid()}"
    record = Record(
        region=name,
        run=run,
        rank=_first(_RANKS, 0),
        size=_first(_SIZES, 1),
        host=socket.gethostname(),
        parameters={key: float(value) for key, value in parameters.items()},
    )
    record.start = time.time()
    clocks = time.perf_counter(), time.process_time()
    yield record
    ends = time.perf_counter(), time.process_time()
    record.end = time.time()
    own = {"time": Quantity(ends[0] - clocks[0], "s"), "cpu_time": Quantity(ends[1] - clocks[1], "s"), **_host()}
    record.metrics = {**own, **record.metrics}
    target = Path(folder or os.environ.get("CONVOLVER_CALL_DIR") or ".")
    append_record(record, target / f"convolver-call.{record.host}.{os.getpid()}.{record.rank}.jsonl")


def _host() -> dict[str, Quantity]:
    """Return load and memory; psutil knows the memory that is left where it is installed."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    metrics = {"load": Quantity(os.getloadavg()[0], "1"), "memory_peak": Quantity(1024.0 * usage.ru_maxrss, "B")}
    try:
        psutil = importlib.import_module("psutil")
    except ImportError:
        return metrics
    return {**metrics, "memory_available": Quantity(float(psutil.virtual_memory().available), "B")}
