"""Measures a network with a real MPI ping-pong and fits the replay's parameters: latency, bandwidth, eager limit, overhead."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from convolver.child_processes import end_with_parent, how_it_ended
from convolver.errors import ProbeError, ToolNotFoundError, UsageError
from convolver.locations import program
from convolver.mpi.capture import FLAGS, compile_with, find_mpicc
from convolver.mpi.network import NEVER

BUSY_SECONDS = 0.5
"""For how long both tasks compute to see what share of their processors they get (csrc/mpi/pingpong/pingpong.c)."""

LATE_SECONDS = 2e-3
"""By how much the receiver is late where the eager limit is measured (csrc/mpi/pingpong/pingpong.c)."""


def measure_network(launcher: Sequence[str], *, mpicc: str | None = None) -> dict[str, Any]:
    """Run the ping-pong under a launcher such as ``["mpirun", "-np", "2"]`` and return a profile's ``network`` section.

    Raises :class:`ToolNotFoundError` without a fitting mpicc, :class:`ProbeError` when the ping-pong fails.
    """
    if not launcher:
        raise UsageError("No launcher is given; write for example: convolver mpi network -o net.json -- mpirun -np 2.")
    source = program("mpi", "build the package again.") / "pingpong" / "pingpong.c"
    binary = compile_with(find_mpicc(launcher[0], mpicc), [source], FLAGS, "convolver-pingpong-{}")
    try:
        command, bind = [*launcher, str(binary)], end_with_parent()
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, preexec_fn=bind)
    except FileNotFoundError as error:
        raise ToolNotFoundError(f"{launcher[0]} is not installed; give the launcher of your MPI library after --.") from error
    except subprocess.TimeoutExpired as error:
        raise ProbeError(f"The ping-pong under {launcher[0]} did not end within ten minutes; are two processors free?") from error
    if done.returncode != 0:
        raise ProbeError(why_it_failed(" ".join(launcher), done.returncode, done.stderr + done.stdout))
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return fit_network(lines, len(os.sched_getaffinity(0)))


REFUSALS = {
    "attempt to run as root": "refuses to run as root: start it as another user, or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
    "not enough slots": "has fewer slots than tasks: add --oversubscribe (or --use-hwthread-cpus)",
    "would result in binding more": "binds more tasks than it has processors: add --bind-to none",
    "needs exactly two tasks": "started another number of tasks: the ping-pong needs two, -np 2",
}
"""What launchers say when they refuse, and what to do about it."""


def why_it_failed(launcher: str, status: int, said: str, program: str = "ping-pong") -> str:
    """Return one sentence: a known refusal with its remedy, else the last line with words in it."""
    for words, remedy in REFUSALS.items():
        if words in said:
            return f"'{launcher}' {remedy}."
    lines = [line.strip() for line in said.splitlines() if any(map(str.isalpha, line))]
    return f"The {program} under '{launcher}' {how_it_ended(status)}: {(lines or ['it said nothing'])[-1].rstrip('.')}."


def fit_network(lines: Sequence[dict[str, Any]], cpus: int = 2) -> dict[str, Any]:
    """Return latency, bandwidth, eager limit and the costs of a message from the ping-pong's lines; all samples are kept.

    Each size counts with its fastest repeat. The one-way time of small messages is the latency; the bandwidth is the median slope
    between any two large ones (64 KiB and more; Theil, Sen), which one disturbed size does not move; the eager limit is the
    smallest size above all those whose blocking sends mostly went on before their receiver came (``NEVER`` where all did). The
    handover is what a message takes longer where both tasks share a processor: how long one that waits holds it;
    ``cpu_share`` is how much of the host's ``cpus`` processors two computing tasks got.
    """
    samples: dict[str, dict[int, list[float]]] = {
        kind: defaultdict(list) for kind in ("pingpong", "overhead", "post", "receive", "late", "handover", "busy")
    }
    same_host = True
    for line in lines:
        if line["kind"] == "hosts":
            same_host = bool(line["same"])
        else:
            samples[line["kind"]][int(line["bytes"])].append(float(line["seconds"]))
    best = {size: min(values) for size, values in samples["pingpong"].items()}
    small, large = [s for s in best if s <= 64], [s for s in best if s >= 65536]
    if not small or len(large) < 2:
        raise ProbeError("The ping-pong measured too few sizes to fit a network.")
    latency = float(np.median([best[s] for s in small]))
    slope = float(np.median([(best[b] - best[a]) / (b - a) for a in large for b in large if a < b]))
    if slope <= 0:
        raise ProbeError("Large messages took no longer than small ones; run the ping-pong on a quiet machine.")
    went_on = [size for size, values in samples["late"].items() if np.median(values) <= LATE_SECONDS / 2]
    waited = sorted(size for size in samples["late"] if size > max(went_on, default=-1))
    overheads = [min(values) for size, values in samples["overhead"].items() if size <= 1024]
    measured = {
        "latency_seconds": latency,
        "bandwidth_bytes_per_second": 1.0 / slope,
        "eager_limit_bytes": waited[0] if waited else NEVER,
        "overhead_seconds": float(np.median(overheads)) if overheads else 0.0,
        "same_host": same_host,
        "samples_seconds": {str(size): values for size, values in sorted(samples["pingpong"].items())},
    }
    if samples["receive"]:
        measured["costs"] = _costs(samples)
    if samples["handover"]:
        measured["handover_seconds"] = max(0.0, float(np.median(samples["handover"][0])) - best[min(best)])
    if samples["busy"]:
        measured["cpu_share"] = min(1.0, samples["busy"][0][0] / (BUSY_SECONDS * min(2, cpus)))
    if same_host:
        measured["cpus"] = cpus
        measured |= {"intra_latency_seconds": latency, "intra_bandwidth_bytes_per_second": 1.0 / slope}
    return measured


def _costs(samples: dict[str, dict[int, list[float]]]) -> dict[str, Any]:
    """Return what a message of each size costs its sender, takes on its way and costs its receiver: together the one-way time.

    The receiver's part is what a receive takes when the message came, or could have come, long before: it copies.
    """
    sizes = sorted(size for size in samples["pingpong"] if samples["receive"][size] and samples["overhead"][size])
    columns: dict[str, list[float]] = {"send_seconds": [], "transfer_seconds": [], "receive_seconds": []}
    for size in sizes:
        one_way = min(samples["pingpong"][size])
        send = min(min(samples["overhead"][size]), one_way)
        receive = min(min(samples["receive"][size]), one_way - send)
        for name, value in zip(columns, (send, one_way - send - receive, receive), strict=True):
            columns[name].append(value)
    posts = [min(values) for size, values in samples["post"].items() if size <= 4096 and values]
    return {"bytes": sizes, **columns, "post_seconds": float(np.median(posts)) if posts else 0.0}


def save_network(measured: dict[str, Any], output: str | Path, machine: str | Path | None = None) -> None:
    """Save a measured network in a copy of a machine profile, or in a bare one without caches."""
    from convolver.machine.hierarchy import parse_levels
    from convolver.machine.profile import MachineProfile

    if machine is not None:
        profile = msgspec.structs.replace(MachineProfile.load(machine), network=measured)
    else:
        name = Path(output).name.removesuffix(".json").removesuffix(".machine")
        levels = parse_levels([{"level": "L1", "size_bytes": 32768, "ways": 8, "line_bytes": 64}], "a bare profile")
        profile = MachineProfile(name=name, hierarchy=levels, network=measured)
    profile.save(output)
