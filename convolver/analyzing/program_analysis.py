"""What is known of one program on machines, block by block: all of it that needs addresses or executed paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convolver.analyzing.core_cycles import CoreCycles
from convolver.analyzing.falls import Array, Falls
from convolver.errors import ProvenanceError, SchemaError
from convolver.heavy import pl
from convolver.machine.maps import MEMORY
from convolver.machine.profile import MachineProfile
from convolver.schema import load_table, save_table, table_header
from convolver.shapes import unlike
from convolver.simulation.hit_rates import HitRates

if TYPE_CHECKING:
    from convolver.signature.signature import Signature

SCHEMA = "convolver.analysis"
CAUSE_COLUMNS = ("near_cycles_", "waiting_cycles_")
PATTERNS = ("sequential", "strided", "random", "dependent")


@dataclass(frozen=True)
class MachineAnalysis:
    """One machine's part of an analysis.

    ``levels`` are its cache levels, nearest first; ``key`` is a hash of what the part follows from (empty: not known). ``falls``
    says where the references of each block fall, ``core`` how many cycles each takes (None: no executed path is known).
    """

    machine: str
    hierarchy_id: str
    levels: tuple[str, ...]
    falls: Falls
    core: CoreCycles | None = None
    key: str = ""

    def document(self) -> dict[str, Any]:
        """Return what the header of an artifact says of it."""
        about = {"machine": self.machine, "hierarchy_id": self.hierarchy_id, "levels": list(self.levels), "key": self.key}
        core = (None, None) if self.core is None else (self.core.cycle_seconds, self.core.error)
        return {**about, "cycle_seconds": core[0], "cycle_error": core[1]}

    def columns(self) -> dict[str, Array]:
        """Return its numbers by the names of columns (docs/formats/analysis.md), one row a block."""
        where, levels = self.falls, [*self.levels, MEMORY]
        found: dict[str, Any] = {"sampled": where.sampled}
        for level, name in enumerate(levels):
            found[f"served_{name}"] = where.served[:, level]
        for level, name in enumerate(self.levels):
            found[f"hit_rate_{name}"] = where.hit_rates[:, level]
            found[f"written_back_{name}"] = where.written_back[:, level]
            found[f"error_{levels[level + 1]}"] = where.errors[:, level]
        for kind, lines in (("brought", where.brought), ("scattered", where.scattered)):
            for level, name in enumerate(levels[1:]):
                if lines is not None:
                    found |= {f"{kind}_{name}_{one}": lines[:, level, number] for number, one in enumerate(PATTERNS)}
        if where.pages is not None:
            found |= {f"pages_{one}": where.pages[:, number] for number, one in enumerate(PATTERNS)}
        if self.core is not None:
            found |= {"near_cycles": self.core.near, "waiting_cycles": self.core.waiting}
            found |= {} if self.core.errors is None else {"cycle_error": self.core.errors}
            found |= {CAUSE_COLUMNS[0] + name: values for name, values in self.core.near_causes.items()}
            found |= {CAUSE_COLUMNS[1] + name: values for name, values in self.core.waiting_causes.items()}
        return found

    @classmethod
    def read(cls, document: Mapping[str, Any], table: pl.DataFrame) -> MachineAnalysis:
        """Return the part of a machine from its entry in the header and its rows; raises :class:`SchemaError` for other ones."""
        try:
            caches = tuple(document["levels"])
            levels = [*caches, MEMORY]

            def columns(*names: str) -> Array:
                return np.stack([table[name].to_numpy() for name in names], axis=1)

            def by_pattern(kind: str) -> Array:
                arrays = [columns(*(f"{kind}_{name}_{one}" for one in PATTERNS)) for name in levels[1:]]
                return np.stack(arrays, axis=1)

            def known(name: str) -> bool:
                return name in table.columns and not table[name].null_count()

            def numbers(name: str) -> Array:
                if not table.schema[name].is_float():
                    raise TypeError(f"{name} holds no floats")
                return table[name].to_numpy()

            falls = Falls(
                sampled=table["sampled"].to_numpy(),
                served=columns(*(f"served_{name}" for name in levels)),
                hit_rates=columns(*(f"hit_rate_{name}" for name in caches)),
                written_back=columns(*(f"written_back_{name}" for name in caches)),
                errors=columns(*(f"error_{name}" for name in levels[1:])),
                brought=by_pattern("brought"),
                pages=columns(*(f"pages_{one}" for one in PATTERNS)) if known(f"pages_{PATTERNS[0]}") else None,
                scattered=by_pattern("scattered") if known(f"scattered_{MEMORY}_{PATTERNS[0]}") else None,
            )
            core = None
            if document["cycle_seconds"] is not None:
                near, waiting = (table[name].to_numpy() for name in ("near_cycles", "waiting_cycles"))
                errors = table["cycle_error"].to_numpy() if known("cycle_error") else None
                causes = [
                    {name.removeprefix(kind): numbers(name) for name in table.columns if name.startswith(kind) and known(name)}
                    for kind in CAUSE_COLUMNS
                ]
                seconds, error = float(document["cycle_seconds"]), document.get("cycle_error")
                core = CoreCycles(near, waiting, seconds, errors, error, *causes)
            return cls(document["machine"], document["hierarchy_id"], caches, falls, core, document["key"])
        except (KeyError, TypeError, LookupError) as error:
            raise SchemaError(f"An analysis misses a field or has one of a wrong type: {error}.") from error


def _rows(part: MachineAnalysis) -> pl.DataFrame:
    columns = part.columns()
    blocks = len(part.falls.sampled)
    first = {"block": np.arange(blocks, dtype=np.uint32), "machine": pl.Series([part.machine]).new_from_index(0, blocks)}
    return pl.DataFrame({**first, **columns})


class Analysis:
    """Everything that predictions of one program need per block and machine, beside the machines' profiles.

    :func:`convolver.analyzing.analyze.analyze` makes one. ``signature`` has the features of the blocks (None for one read from a
    file without it); ``hit_rates`` the simulated counts (None for one read from a file); ``parts`` one :class:`MachineAnalysis` a
    machine. Core cycles are known of all machines or of none: two models of the core cannot be compared.
    """

    def __init__(
        self,
        parts: Sequence[MachineAnalysis],
        inputs: Mapping[str, Any],
        *,
        signature: Signature | None,
        hit_rates: HitRates | None = None,
        sampling: Any = None,
    ) -> None:
        """``inputs``: ids of trace, signature and hit rates; ``sampling``: the plan that the trace was recorded by."""
        comparable = all(part.core is not None for part in parts)
        self.parts = tuple(part if comparable else replace(part, core=None) for part in parts)
        self.inputs = dict(inputs)
        self.sampling = sampling
        self.hit_rates = hit_rates
        self._signature = signature
        names = [part.machine for part in self.parts]
        if len({*names}) < len(names):
            raise ProvenanceError("Two machines with one name have different caches or cores; rename one of the profiles.")

    @property
    def signature(self) -> Signature:
        """Counts and features of the blocks; raises :class:`ProvenanceError` for an analysis that was read without them."""
        if self._signature is None:
            raise ProvenanceError("The analysis was read without its signature; load both: Analysis.load(path, signature).")
        return self._signature

    @property
    def machines(self) -> list[str]:
        """Names of the machines, in order."""
        return [part.machine for part in self.parts]

    def of(self, machine: MachineProfile) -> MachineAnalysis:
        """Return a machine's part. A profile with other speeds but the same name and caches has that of its namesake.

        Raises :class:`ProvenanceError` for a machine that was not analyzed, or whose caches changed.
        """
        found = next((part for part in self.parts if part.machine == machine.name), None)
        if found is None:
            known = ", ".join(self.machines) or "none"
            raise ProvenanceError(
                f"The analysis is not of the machine '{machine.name}' (it is of: {known}); simulate or analyze it first."
            )
        if found.hierarchy_id != machine.hierarchy_id:
            raise ProvenanceError(f"The caches of '{machine.name}' changed after the simulation; simulate or analyze it again.")
        return found

    def with_cores(self, cores: Mapping[str, CoreCycles]) -> Analysis:
        """Return the analysis with core cycles by machine in place of its own."""
        parts = [replace(part, core=cores.get(part.machine)) for part in self.parts]
        return Analysis(parts, self.inputs, signature=self._signature, hit_rates=self.hit_rates, sampling=self.sampling)

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row for every block and machine (docs/formats/analysis.md); null where a machine has no such column."""
        return pl.concat([_rows(part) for part in self.parts], how="diagonal")

    @cached_property
    def header(self) -> dict[str, Any]:
        """The header of the artifact."""
        machines = [part.document() for part in self.parts]
        return table_header(SCHEMA, self.table, self.inputs, {"machines": machines, "sampling": self.sampling})

    @property
    def id(self) -> str:
        """Hash of the content."""
        return str(self.header["id"])

    def save(self, path: str | Path) -> None:
        """Write the artifact as Parquet; raises :class:`FormatError` when that fails."""
        save_table(self.table, self.header, path)

    @classmethod
    def load(cls, path: str | Path, signature: Signature | None = None) -> Analysis:
        """Read and verify an ``.analysis.parquet`` file.

        Raises :class:`FormatError` when it is damaged or something else, :class:`ProvenanceError` for another signature's.
        """
        table, header = load_table(path, SCHEMA)
        if signature is not None and header["inputs"].get("signature") != signature.id:
            raise ProvenanceError(f"{path} is of another signature; give the one of the same trace.")
        try:
            parts = [
                MachineAnalysis.read(document, table.filter(pl.col("machine") == document["machine"]))
                for document in header["machines"]
            ]
        except (KeyError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
            raise unlike(str(path), SCHEMA, repr(error)) from error
        found = cls(parts, header["inputs"], signature=signature, sampling=header["sampling"])
        found.__dict__.update(table=table, header=header)
        return found

    def summary(self) -> dict[str, Any]:
        """Return the header with, by machine, whether core cycles are known, as a JSON-able document."""
        known = [{"machine": part.machine, "levels": list(part.levels), "core": part.core is not None} for part in self.parts]
        header = {name: self.header[name] for name in ("schema", "version", "id", "inputs", "sampling")}
        return {**header, "machines": known, "totals": {}}
