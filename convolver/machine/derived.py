"""Derived machines: a CPU of which only public measurements are known, as a measured machine of a like core with stated changes.

A file ``NAME.derived.json`` holds the changes; the profile is made from the base each time it is asked for. Beside what
:mod:`convolver.machine.project` assumes:

- the core table is that of the CPU; the base's own figures of the core count only where both have the same table;
- the clock is the usual one;
- page walks take as much longer as memory does;
- the kernel's costs are those of ``kernel_base``, where one is named: a virtual machine adds its own to them, which are not the
  CPU's;
- ``deviation`` says by how much (of the logarithm) costs of a level erred where such a machine could be compared with a measured
  one; it widens the intervals.
"""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import Any

import msgspec

from convolver.errors import FormatError, SchemaError
from convolver.foreign_text import decode_json
from convolver.machine.cores import choose_core
from convolver.machine.maps import MEMORY
from convolver.machine.profile import MachineProfile
from convolver.machine.project import Changes, project

DERIVED_SUFFIX = ".derived.json"
MEMORY_BANDWIDTHS = "memory_bandwidths"
"""Field of a derived CPU: bytes a second that all get from memory by number of busy CPUs."""


class Derivation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a CPU, as changes of the machine ``base``; sizes in bytes, factors of bandwidth, latency and clock."""

    name: str
    base: str
    base_id: str = ""
    """Of the base's profile that the changes are relative to."""
    cpu: dict[str, Any]
    sizes: dict[str, int] = {}
    latencies: dict[str, float] = {}
    bandwidths: dict[str, float] = {}
    clock: float = 1.0
    kernel_base: str = ""
    """Machine whose kernel costs stand for the CPU's, whose clock is ``kernel_clock`` times its; "": the base."""
    kernel_clock: float = 1.0
    deviation: float = 0.0
    memory_bandwidths: dict[int, float] = {}
    """Bytes a second that so many busy CPUs read from memory together."""
    source: str = ""

    @classmethod
    def load(cls, path: str | Path) -> Derivation:
        """Read a file; raises :class:`SchemaError` for one that is none."""
        try:
            return msgspec.convert(decode_json(Path(path).read_bytes(), str(path)), cls, str_keys=True)
        except (OSError, FormatError, msgspec.MsgspecError, UnicodeEncodeError) as error:
            raise SchemaError(f"{path} is no derived machine: {error}.") from error

    def apply(self, base: MachineProfile, kernel_base: MachineProfile | None = None) -> MachineProfile:
        """Return the profile of the CPU, given those of its bases; raises what :func:`project` raises."""
        scales = {(level, "latency"): factor for level, factor in self.latencies.items()}
        scales |= {(level, "bandwidth"): factor for level, factor in self.bandwidths.items()}
        found = project(base, self.name, Changes(sizes=self.sizes, scales=scales, clock=self.clock), note=self.source)
        kernel = {cost.name: cost for cost in found.kernel}
        if kernel_base is not None:
            kernel |= {cost.name: cost.at(self.kernel_clock) for cost in kernel_base.kernel}
        same_core = choose_core(self.cpu)[0].name == choose_core(base.cpu)[0].name
        calibration = found.calibration
        if calibration is not None:
            own = math.log1p(zlib.crc32(self.name.encode()) * 1e-14)  # errors of equal deviations would count as the same errors
            walks, levels = self.latencies.get(MEMORY, 1.0), len(found.hierarchy)
            calibration = msgspec.structs.replace(
                calibration,
                walk=calibration.walk * walks,
                walk_latency=calibration.walk_latency * walks,
                scattered_share=0.0,
                assumed=tuple(math.hypot(one, self.deviation) + own for one in calibration.assumed or (0.0,) * levels),
            )
        return msgspec.structs.replace(
            found,
            cpu={**self.cpu, MEMORY_BANDWIDTHS: {str(count): rate for count, rate in self.memory_bandwidths.items()}},
            kernel=tuple(kernel.values()),
            core=found.core if same_core else (),
            core_ports=found.core_ports if same_core else (),
            calibration=calibration,
            provenance={**found.provenance, "kind": "derived", "base": {**found.provenance["base"], "usual_cycle": 1.0}},
        )
