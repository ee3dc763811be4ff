"""Write the machines that come with Convolver: one measured and calibrated profile, and what is projected from it.

    python tools/bundled_machines.py MEASURED.machine.json

MEASURED is what `convolver probe --full` wrote on a quiet machine. Its single samples are left out (its rounds stay), and the
host's name; everything else is as it was measured.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from convolver.machine.maps import Curve
from convolver.machine.profile import SUFFIX, MachineProfile
from convolver.machine.project import parse_changes, project
from convolver.schema import document_id

FOLDER = Path(__file__).resolve().parent.parent / "convolver" / "machine" / "data"
MEASURED = "cloud-server"
ABOUT = (
    "One CPU of a cloud virtual machine, measured by `convolver probe --full` while nothing else ran on it; other virtual "
    "machines share its last cache and memory (the load average is of the minutes before). Single samples are left out; those "
    "that were thrown away had a context switch or a clock that moved. The loop buffer is left out: the probe of that day took "
    "disturbances for its end (16 turns; 34 were timed by hand). Not any product."
)


class Projection(NamedTuple):
    """A machine that is derived: its name, its changes as `convolver machine project` takes them, and why."""

    name: str
    sets: tuple[str, ...]
    scales: tuple[str, ...]
    note: str


_SMALL_CACHES = ("L1.size=32KiB", "L1.ways=8", "L2.size=1MiB", "L2.ways=8")
PROJECTIONS = (
    Projection(
        "desktop-32m",
        (*_SMALL_CACHES, "L3.size=32MiB"),
        ("L3.bandwidth=2", "L3.latency=0.4", "memory.bandwidth=2.5", "memory.latency=0.55", "core.clock=1.3"),
        "A desktop-class core with 32 MiB of last-level cache to itself. Base: a cloud VM's core, measured. The capacities are "
        "those of common desktop parts; the factors are assumptions about clock, on-chip interconnect and unbuffered memory, "
        "taken from no measurement. Not any product.",
    ),
    Projection(
        "server-96m",
        (*_SMALL_CACHES, "L3.size=96MiB"),
        ("L3.bandwidth=1.5", "L3.latency=0.6", "memory.bandwidth=1.5", "memory.latency=0.8", "core.clock=1.1"),
        "A server core with 96 MiB of stacked last-level cache. Base: a cloud VM's core, measured. The factors are assumptions, "
        "taken from no measurement. Not any product.",
    ),
    Projection(
        "server-hbm",
        ("L3.size=64MiB",),
        ("memory.bandwidth=2", "memory.latency=1.15", "core.clock=0.9"),
        "A server core with 64 MiB of last-level cache before high-bandwidth memory: twice the streams, somewhat longer latency. "
        "Base: a cloud VM's core, measured. The factors are assumptions, taken from no measurement. Not any product.",
    ),
)


def _without_samples(curve: Curve) -> Curve:
    points = tuple(msgspec.structs.replace(point, samples_seconds=()) for point in curve.points)
    return msgspec.structs.replace(curve, points=points)


def bundled(measured: MachineProfile) -> MachineProfile:
    """Return a measured profile as it is bundled."""
    provenance = {**{key: value for key, value in measured.provenance.items() if key != "host"}, "note": ABOUT}
    return msgspec.structs.replace(
        measured,
        name=MEASURED,
        provenance=provenance,
        maps=tuple(_without_samples(curve) for curve in measured.maps),
        floating_point=tuple(msgspec.structs.replace(one, samples_seconds=()) for one in measured.floating_point),
    )


def projected(base: MachineProfile) -> list[MachineProfile]:
    """Return the machines that are derived from the bundled one."""
    return [project(base, one.name, parse_changes(one.sets, one.scales), note=one.note) for one in PROJECTIONS]


def _text(document: dict[str, Any]) -> str:
    """Return the document with one line for each field and each entry of a list: a profile is data, but is looked at."""
    lines = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            entries = ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in value)
            lines.append(f"{json.dumps(key)}: [\n  {entries}]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def write(profile: MachineProfile, folder: Path) -> Path:
    """Write a profile, readable, with its id."""
    document = json.loads(msgspec.json.encode(profile.to_document()))
    path = folder / f"{profile.name}{SUFFIX}"
    path.write_text(_text({**document, "id": document_id(document)}), encoding="utf-8")
    return path


def main() -> None:
    """Write all of them."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    base = bundled(MachineProfile.load(Path(sys.argv[1])))
    for profile in [base, *projected(base)]:
        print(write(profile, FOLDER))


if __name__ == "__main__":
    main()
