"""Core tables: what instructions cost on a core whose data are near. One TOML file a core in ``machine/data/cores``.

A table is chosen by what a profile says of its CPU; numbers that probes measured on the machine replace the table's.
docs/howto/add-a-core.md describes the file.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from convolver.errors import MachineError, SchemaError
from convolver.foreign_text import decode_toml
from convolver.locations import core_folder, files_in
from convolver.outputs import save_text

FOLDER = Path(__file__).parent / "data" / "cores"
NAMED_SETS = ("flags", "vector_sets", "instruction_sets")
"""Fields of a profile's CPU that name instruction sets: the last in new profiles, one of the others in old ones."""
HOW = ("flags", "model")
"""How a table was found that is the CPU's own."""
REGISTER_FILES = ("integer_registers", "vector_registers", "flag_registers")
BUFFERS = ("queue", "reorder_buffer", "scheduler", "load_buffer", "store_buffer", "fill_buffers")
WIDTHS = ("issue_width", "retire_width", "fetch_width", *BUFFERS, *REGISTER_FILES)
"""Parameters that the ``core_width`` of a projected machine scales."""
DIVIDED = (*WIDTHS, "decode_width", "decoded_ops", "near_targets", "code_bytes", "near_pages", "loop_buffer")
"""Parameters of which each of a core's threads has a part."""
MEMORY_PORTS = ("load", "store", "vector_load")
_WIDTH_NAMES = ("_16", "_32", "_64")


class InstructionKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How instructions of one kind execute: on which ports (any of these), with what latency, and how long they keep their port.

    ``chained_latency`` counts where the operand that comes last is from a kind of the same ``group`` (0: none), ``slots`` are
    of the issue width. ``busy`` are whole or half cycles, ``also`` the ports of a second micro-operation.
    """

    ports: str = ""
    latency: int = 1
    chained_latency: int | None = None
    busy: float = 1
    group: int = 0
    slots: int = 1
    also: str = ""

    @property
    def cycles(self) -> float:
        """Cycles of one of many: of the port that is busy for longest."""
        shares = [self.busy / max(len(self.ports.split()), 1), 1 / max(len(self.also.split()), 1) if self.also else 0.0]
        return round(max(shares), 2)


class Memory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ports of loads and of stores; ``vector_load`` are those of vectors where they have fewer."""

    load: str
    store: str
    vector_load: str = ""


class CoreTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One core. ``flags`` are CPU flags that only it has, ``families`` pairs of a CPU family and model numbers.

    ``params`` are the widths, buffers and latencies of ``cv_core_params`` (csrc/include/cv_core.h); ``eliminates`` says which
    moves between registers take no port: "general", "vector"; ``complex_cores``, how many cores share a last level (0: all of a
    socket). ``follows_long_strides``: loads in steps of any length are prefetched, not of half a page at most; ``follows_late``:
    a stream's lines enter the first level by themselves only after several steps. ``source`` says where the numbers are from.
    """

    name: str
    source: str
    vendor: str
    families: tuple[tuple[int, tuple[int, ...]], ...] = ()
    flags: tuple[str, ...] = ()
    ports: tuple[str, ...]
    eliminates: tuple[str, ...] = ()
    complex_cores: int = 0
    follows_long_strides: bool = False
    follows_late: bool = False
    params: dict[str, int]
    memory: Memory
    kinds: dict[str, InstructionKind]

    def mask(self, names: str) -> int:
        """Return ports as a bit mask; raises :class:`SchemaError` for one that the table does not have."""
        mask = 0
        for name in names.split():
            if name not in self.ports:
                raise SchemaError(f"The core table '{self.name}' names a port '{name}' that is not among its ports.")
            mask |= 1 << self.ports.index(name)
        return mask

    def nearest(self, name: str) -> str:
        """Return the kind that stands for one in this table: itself, or what is left of its name without its last words. The
        bytes at its end go last."""
        base, width = (name[:-3], name[-3:]) if name.endswith(_WIDTH_NAMES) else (name, "")
        while base:
            for one in (base + width, base):
                if one in self.kinds:
                    return one
            base = base.rpartition("_")[0]
        return "unknown"

    def kind(self, name: str) -> InstructionKind:
        """Return how a kind executes: itself, or the nearest that the table has."""
        return self.kinds[self.nearest(name)]

    def with_params(self, **changes: int) -> CoreTable:
        """Return the table with other parameters."""
        return msgspec.structs.replace(self, params={**self.params, **changes})

    def memory_ports(self, field: str) -> list[str]:
        """Return the ports of one of :data:`MEMORY_PORTS`."""
        return (getattr(self.memory, field) or self.memory.load).split()

    def with_memory_ports(self, field: str, count: int) -> CoreTable:
        """Return the table with so many ports of one of :data:`MEMORY_PORTS`: its own first, then new ones."""
        own = self.memory_ports(field)
        new = [f"{field}{number}" for number in range(len(own), count)]
        memory = msgspec.structs.replace(self.memory, **{field: " ".join([*own, *new][:count])})
        return msgspec.structs.replace(self, memory=memory, ports=(*self.ports, *new))

    def with_kind(self, name: str, **changes: Any) -> CoreTable:
        """Return the table with one kind changed."""
        kind = msgspec.structs.replace(self.kind(name), **changes)
        return msgspec.structs.replace(self, kinds={**self.kinds, name: kind})

    def shared_by(self, threads: int) -> CoreTable:
        """Return the core as one of so many threads sees it that do the same: widths and buffers divided, ports every so many
        cycles; of the ports of loads and stores a part."""
        params = {name: max(round(value / threads), 1) for name, value in self.params.items() if name in DIVIDED and value}
        kinds = {name: msgspec.structs.replace(kind, busy=kind.busy * threads) for name, kind in self.kinds.items()}
        ports = {name: getattr(self.memory, name).split() for name in MEMORY_PORTS}
        some = {name: " ".join(names[: -(-len(names) // threads)]) for name, names in ports.items()}
        memory = msgspec.structs.replace(self.memory, **some)
        return msgspec.structs.replace(self, params={**self.params, **params}, kinds=kinds, memory=memory)


def parse_core(text: str, where: str) -> CoreTable:
    """Return the table in a TOML document; raises :class:`SchemaError` when it is none."""
    try:
        table = msgspec.convert(decode_toml(text, where), CoreTable)
    except msgspec.ValidationError as error:
        raise SchemaError(f"{where} is no core table: {error}.") from error
    if "unknown" not in table.kinds:
        raise SchemaError(f"{where} is no core table: it says nothing of the kind 'unknown'.")
    for kind in table.kinds.values():
        table.mask(kind.ports), table.mask(kind.also)
    return table


class _Known(msgspec.Struct, frozen=True):
    """What says which CPUs a table is of: the fields at its beginning."""

    name: str
    vendor: str = ""
    families: tuple[tuple[int, tuple[int, ...]], ...] = ()
    flags: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def _bundled() -> dict[str, tuple[_Known, Path]]:
    """Return what the tables that come with Convolver are of; to parse all of them takes as long as to convolve."""
    found = {}
    for path in sorted(FOLDER.glob("*.toml")):
        known = msgspec.convert(decode_toml(path.read_text().partition("\n[")[0], str(path)), _Known)
        found[known.name] = known, path
    return found


@lru_cache
def _bundled_table(name: str) -> CoreTable:
    path = _bundled()[name][1]
    return parse_core(path.read_text(), str(path))


@lru_cache(maxsize=4)
def _tables(folder: Path) -> dict[str, CoreTable]:
    try:
        tables = [parse_core(path.read_text(errors="replace"), str(path)) for path in files_in(folder, "*.toml")]
    except OSError as error:
        raise MachineError(f"The core tables in {folder} cannot be read: {error.strerror}.") from error
    return {table.name: table for table in tables}


def core_tables() -> dict[str, CoreTable]:
    """Return all core tables by name: the user's, then those that come with Convolver."""
    return {**_tables(FOLDER), **_tables(core_folder())}


def write_core(table: CoreTable, path: Path) -> None:
    """Write a table as TOML, for the next :func:`core_tables` to find."""
    save_text(path, core_document(table))
    _tables.cache_clear()


def core_document(table: CoreTable) -> str:
    """Return a table as TOML that :func:`parse_core` reads."""
    plain = msgspec.to_builtins(table)
    kinds = {name: _shortened(kind) for name, kind in table.kinds.items()}
    lines = [f"{name} = {_toml(plain[name])}" for name in plain if name not in ("params", "memory", "kinds")]
    for name, values in (("params", plain["params"]), ("memory", plain["memory"]), ("kinds", kinds)):
        lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _shortened(kind: InstructionKind) -> dict[str, Any]:
    plain, usual = msgspec.to_builtins(kind), msgspec.to_builtins(InstructionKind())
    return {name: value for name, value in plain.items() if value != usual[name] or name == "ports"}


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def find_core(name: str) -> CoreTable:
    """Return the core table of this name; raises :class:`MachineError` for an unknown one."""
    try:
        return core_tables()[name]
    except KeyError:
        raise MachineError(f"No core is called '{name}' (known: {', '.join(core_tables())}).") from None


def _number(value: Any) -> int:
    return int(value) if str(value).isdigit() else -1


def cpu_model(name: str, cpu: dict[str, Any]) -> tuple[str, int, int]:
    """Return vendor, family and model of a profile's CPU; raises :class:`MachineError` where it does not say."""
    vendor, family, model = str(cpu.get("vendor", "")), _number(cpu.get("family")), _number(cpu.get("model_number"))
    if not vendor or family < 0 or model < 0:
        raise MachineError(
            f"'{name}' does not say which CPU it has, so a table could not be found again; use a measured profile."
        )
    return vendor, family, model


def _distance(table: _Known, family: int, model: int) -> tuple[int, int]:
    """Return how far the nearest family and model of a table are; what is unknown is taken for newer than all."""
    newest = 1 << 16
    asked = (family if family >= 0 else newest, model if model >= 0 else newest)
    known = ((one, each) for one, models in table.families for each in models)
    return min(((abs(asked[0] - one), abs(asked[1] - each)) for one, each in known), default=(newest, newest))


def choose_core(cpu: dict[str, Any], *, bundled: bool = False) -> tuple[CoreTable, str]:
    """Return the table for the CPU of a profile and how it was found: "flags", "model", or a sentence where it is a guess.

    A table of the user's for this very model goes first; with ``bundled`` the user's are passed over. Then flags: virtual
    machines often report another model, but hide no instruction set that programs use. The bundled table of the nearest family
    and model of the vendor stands for a CPU that none knows.
    """
    flags = {name for field in NAMED_SETS for name in cpu.get(field, ())}
    family, model = _number(cpu.get("family")), _number(cpu.get("model_number"))
    own = {} if bundled else _tables(core_folder())
    for table in own.values():
        if table.vendor == cpu.get("vendor") and any(family == known and model in models for known, models in table.families):
            return table, "model"
    ours = {name: known for name, (known, _) in _bundled().items()}
    every: dict[str, _Known | CoreTable] = {**ours, **own}
    candidates = [one for one in every.values() if one.vendor == cpu.get("vendor")]

    def whole(name: str) -> CoreTable:
        return own[name] if name in own else _bundled_table(name)

    for one in candidates:
        if one.flags and flags >= set(one.flags):
            return whole(one.name), "flags"
    for one in candidates:
        if any(family == known and model in models for known, models in one.families):
            return whole(one.name), "model"
    bundled_ones = [one for one in ours.values() if one.vendor == cpu.get("vendor")]
    nearest = min(bundled_ones, key=lambda one: _distance(one, family, model), default=ours["golden-cove"])
    fallback = _bundled_table(nearest.name)
    return fallback, f"no core table knows the CPU '{cpu.get('model', '')}': the one of {fallback.name} stands for it"
