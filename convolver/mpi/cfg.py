"""Dimemas machine configurations (.cfg) and their collectives file, read and written.

The format is described in docs/formats/cfg.md. Bandwidths in the file are in units of 2^20 bytes/s, latencies in seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from convolver._native._core import lib
from convolver.errors import FormatError
from convolver.foreign_text import named_file, readable
from convolver.outputs import save_text

MAX_NODES = 1 << 24
FAN_MODELS: dict[str, int] = {
    "0": lib.CV_REPLAY_FAN_NONE,
    "CTE": lib.CV_REPLAY_FAN_CONSTANT,
    "LIN": lib.CV_REPLAY_FAN_LINEAR,
    "LOG": lib.CV_REPLAY_FAN_LOGARITHMIC,
}
SIZE_RULES: dict[str, int] = {
    "OWN": lib.CV_REPLAY_SIZE_OWN,
    "MIN": lib.CV_REPLAY_SIZE_MIN,
    "MAX": lib.CV_REPLAY_SIZE_MAX,
    "MEAN": lib.CV_REPLAY_SIZE_MEAN,
    "2MAX": lib.CV_REPLAY_SIZE_2MAX,
    "S+R": lib.CV_REPLAY_SIZE_SUM,
}
"""Numbers as in the replay core; OWN cannot be written in a file: it is what holds without a line there."""

_RECORD = re.compile(r'\s*"([^"]+)"\s*\{(.*)\}\s*;;\s*$')
_DEFINITION = re.compile(r'\s*"[^"]+"\s*\{[^}]*$')
_TOKEN = re.compile(r'\s*("[^"]*"|\[\s*\d+\s*\]\s*\{[^}]*\}|[^,"{}\[\]]+)\s*(,|$)')


@dataclass(frozen=True)
class Nodes:
    """A group of equal nodes; 0 links or buses mean unlimited, 0 bandwidth instantaneous."""

    count: int = 1
    cpus: int = 1
    ratio: float = 1.0
    latency_intra_seconds: float = 0.0
    bandwidth_intra_mib: float = 0.0
    buses_intra: int = 0
    in_intra: int = 0
    out_intra: int = 0
    latency_inter_seconds: float = 0.0
    in_inter: int = 0
    out_inter: int = 0
    latency_wan_seconds: float = 0.0
    arch: str = ""


@dataclass(frozen=True)
class Configuration:
    """A Dimemas machine. ``mapping`` is a list of nodes (one a task) or "FILL_NODES", "INTERLEAVED", "n TASKS_PER_NODE"."""

    nodes: tuple[Nodes, ...]
    bandwidth_mib: float = 0.0
    buses: int = 0
    collective_model: int = 3
    mapping: tuple[int, ...] | str = "FILL_NODES"
    modules: tuple[tuple[int, int, float], ...] = ()
    collectives: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    """Operation -> fan-in model, fan-in size rule, fan-out model, fan-out size rule, where not the default."""

    name: str = ""
    comms_file: str = ""

    @property
    def node_count(self) -> int:
        """Return the number of nodes of all groups."""
        return sum(group.count for group in self.nodes)


class _Fields:
    """The fields of one record, taken one by one; every complaint names file and line."""

    def __init__(self, path: str, line: int, text: str) -> None:
        self.where, self.values = f"{path}:{line}", list(_split(text, f"{path}:{line}"))
        self.at = 0

    def wrong(self, reason: str) -> FormatError:
        return FormatError(f"{self.where}: {reason}.")

    def _take(self, what: str) -> str:
        if self.at >= len(self.values):
            raise self.wrong(f"the record ends before the field '{what}'")
        self.at += 1
        return self.values[self.at - 1]

    def text(self, what: str) -> str:
        value = self._take(what)
        return value.strip('"') if value.startswith('"') else value

    def integer(self, what: str, *, least: int = 0, most: int = (1 << 31) - 1) -> int:
        value = self._take(what)
        if not re.fullmatch(r"[+-]?\d{1,12}", value) or not least <= int(value) <= most:
            raise self.wrong(f"'{value}' is no valid {what}")
        return int(value)

    def number(self, what: str, *, signed: bool = False) -> float:
        text = self._take(what)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or (value < 0 and not signed):
            raise self.wrong(f"'{text}' is no valid {what}")
        return value

    def integers(self, what: str, most: int) -> tuple[int, ...]:
        match = re.fullmatch(r"\[\s*(\d{1,9})\s*\]\s*\{([^}]*)\}", self._take(what))
        if match is None:
            raise self.wrong(f"the {what} must look like [n] {{a, b, ...}}")
        items = [item.strip() for item in match[2].split(",") if item.strip()]
        if len(items) != int(match[1]) or not all(item.isdecimal() and len(item) < 10 and int(item) <= most for item in items):
            raise self.wrong(f"the {what} does not have {match[1]} valid numbers")
        return tuple(map(int, items))

    def end(self) -> None:
        if self.at != len(self.values):
            raise self.wrong(f"the record has {len(self.values)} fields where {self.at} are expected")


def _split(text: str, where: str) -> Iterator[str]:
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FormatError(f"{where}: the fields cannot be distinguished from '{text[at : at + 30]}' on.")
        yield match[1].strip()
        at = match.end()


class _Parser:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.groups: list[Nodes] = []
        self.config: dict[str, Any] = {"modules": []}
        self.announced: int | None = None

    def nodes(self, fields: _Fields, count: int) -> None:
        self.groups.append(
            Nodes(
                count=count,
                arch=fields.text("architecture"),
                cpus=fields.integer("number of processors", least=1),
                ratio=fields.number("processor ratio"),
                latency_intra_seconds=fields.number("intra-node latency"),
                bandwidth_intra_mib=fields.number("intra-node bandwidth"),
                buses_intra=fields.integer("number of intra-node buses"),
                in_intra=fields.integer("number of intra-node input links"),
                out_intra=fields.integer("number of intra-node output links"),
                latency_inter_seconds=fields.number("inter-node latency"),
                in_inter=fields.integer("number of input links"),
                out_inter=fields.integer("number of output links"),
                latency_wan_seconds=fields.number("WAN latency"),
            )
        )

    def multi_node(self, fields: _Fields) -> None:
        fields.integer("machine id", most=0)
        self.nodes(fields, fields.integer("number of nodes", least=1, most=MAX_NODES))

    def node(self, fields: _Fields) -> None:
        fields.integer("machine id", most=0)
        if len(fields.values) == 14:
            fields.integer("node id")
        self.nodes(fields, 1)

    def environment(self, fields: _Fields) -> None:
        self.config["name"] = fields.text("machine name")
        fields.integer("machine id", most=0)
        fields.text("architecture")
        self.announced = fields.integer("number of nodes", least=1, most=MAX_NODES)
        self.config["bandwidth_mib"] = fields.number("bandwidth")
        self.config["buses"] = fields.integer("number of buses")
        self.config["collective_model"] = fields.integer("collective model", least=1, most=3)

    def wide_area(self, fields: _Fields) -> None:
        fields.text("name")
        if fields.integer("number of machines", least=1) != 1:
            raise fields.wrong("only one machine is supported")
        fields.at = len(fields.values)

    def mapping(self, fields: _Fields) -> None:
        fields.text("trace name")
        tasks = fields.integer("number of tasks", least=1)
        nodes = fields.integers("list of nodes", MAX_NODES)
        if len(nodes) != tasks:
            raise fields.wrong(f"the mapping lists {len(nodes)} nodes for {tasks} tasks")
        self.config["mapping"] = nodes

    def predefined(self, fields: _Fields) -> None:
        if len(fields.values) == 2:
            fields.text("trace name")
        text = " ".join(fields.text("mapping").split())
        if not re.fullmatch(r"FILL_NODES|INTERLEAVED|[1-9]\d{0,8} TASKS_PER_NODE", text):
            raise fields.wrong(f"the mapping '{text}' is unknown; use FILL_NODES, INTERLEAVED or n TASKS_PER_NODE")
        self.config["mapping"] = text

    def files(self, fields: _Fields) -> None:
        names = [fields.text(f"{what} file") for what in ("scheduler", "file system", "communications", "sensitivity")]
        self.config["comms_file"] = names[2]

    def module(self, fields: _Fields) -> None:
        kind = fields.integer("module type")
        value = fields.integer("module value", least=1)
        self.config["modules"].append((kind, value, fields.number("module ratio", signed=True)))

    def skip(self, fields: _Fields) -> None:
        fields.at = len(fields.values)

    HANDLERS: ClassVar[dict[str, Callable[[_Parser, _Fields], None]]] = {
        "wide area network information": wide_area,
        "environment information": environment,
        "node information": node,
        "multi node information": multi_node,
        "mapping information": mapping,
        "predefined mapping information": predefined,
        "configuration files": files,
        "modules information": module,
        "file system parameters": skip,
    }

    def finish(self) -> Configuration:
        if self.announced is None:
            raise FormatError(f"{self.path} has no 'environment information' record.")
        config = Configuration(tuple(self.groups), **{**self.config, "modules": tuple(self.config["modules"])})
        if config.node_count != self.announced:
            raise FormatError(f"{self.path} announces {self.announced} nodes but describes {config.node_count}.")
        if not isinstance(config.mapping, str) and max(config.mapping) >= config.node_count:
            raise FormatError(f"{self.path} maps a task to node {max(config.mapping)}, but there are {config.node_count} nodes.")
        if config.comms_file:
            config = replace(config, collectives=read_collectives(named_file(config.comms_file, self.path)))
        return config


def _records(path: Path, text: str) -> Iterator[tuple[str, _Fields]]:
    comment = definition = False
    for number, line in enumerate(text.splitlines(), 1):
        if comment or line.lstrip().startswith("/*"):
            comment = "*/" not in line
        elif definition:
            definition = "};;" not in line
        elif not line.strip() or line.lstrip().startswith(("//", "#")):
            continue
        elif match := _RECORD.match(line):
            yield match[1], _Fields(str(path), number, match[2])
        elif _DEFINITION.match(line):
            definition = True
        else:
            raise FormatError(f'{path}:{number}: a record ("name" {{fields}};;) was expected here.')


def _read_text(path: Path) -> str:
    with readable(path):
        return path.read_text(errors="replace")


def read_cfg(path: str | Path) -> Configuration:
    """Read a Dimemas configuration and the collectives file it names.

    Raises :class:`FormatError` with file, line and reason. One machine only; dedicated connections and accelerators are refused.
    """
    path = Path(path)
    text = _read_text(path)
    if not text.startswith("#DIMEMAS_CONFIGURATION"):
        raise FormatError(f"{path}:1: not a Dimemas configuration: the first line must be #DIMEMAS_CONFIGURATION.")
    parser = _Parser(path)
    for name, fields in _records(path, text):
        handler = _Parser.HANDLERS.get(name)
        if handler is None:
            raise fields.wrong(f"records '{name}' are not supported")
        handler(parser, fields)
        fields.end()
    return parser.finish()


def read_collectives(path: str | Path) -> dict[int, tuple[int, int, int, int]]:
    """Read a collectives file: ``Machine globalop: 0 op FIN-model FIN-size FOUT-model FOUT-size`` lines; others are skipped."""
    rules = {}
    for number, line in enumerate(_read_text(Path(path)).splitlines(), 1):
        if not line.startswith("Machine globalop:"):
            continue
        fields = line.split(":", 1)[1].split()
        try:
            machine, op = int(fields[0]), int(fields[1])
            rule = tuple((FAN_MODELS if i % 2 == 0 else SIZE_RULES)[fields[2 + i]] for i in range(4))
        except (ValueError, IndexError, KeyError) as error:
            raise FormatError(f"{path}:{number}: a collective needs machine, operation and 2 x (0|CTE|LIN|LOG, size).") from error
        if machine != 0 or not 0 <= op < 16 or len(fields) != 6:
            raise FormatError(f"{path}:{number}: machine {machine} or operation {op} does not exist, or fields are left over.")
        rules[op] = (rule[0], rule[1], rule[2], rule[3])
    return rules


def _group_record(group: Nodes) -> str:
    g = group
    return (
        f'"multi node information" {{0, {group.count}, "{group.arch}", {group.cpus}, {group.ratio!r}, '
        f"{group.latency_intra_seconds!r}, {group.bandwidth_intra_mib!r}, {group.buses_intra}, {group.in_intra}, "
        f"{group.out_intra}, {g.latency_inter_seconds!r}, {g.in_inter}, {g.out_inter}, {g.latency_wan_seconds!r}}};;"
    )


def format_cfg(config: Configuration) -> str:
    """Return a configuration as the text of a .cfg file (its collectives go into a file of their own)."""
    lines = [
        "#DIMEMAS_CONFIGURATION",
        '"wide area network information" {"", 1, 0, 4, 0.0, 0.0, 1};;',
        f'"environment information" {{"{config.name}", 0, "", {config.node_count}, {config.bandwidth_mib!r}, {config.buses}, '
        f"{config.collective_model}}};;",
        *map(_group_record, config.nodes),
    ]
    if isinstance(config.mapping, str):
        lines.append(f'"predefined mapping information" {{"{config.mapping}"}};;')
    else:
        nodes = ", ".join(map(str, config.mapping))
        count = len(config.mapping)
        lines.append(f'"mapping information" {{"", {count}, [{count}] {{{nodes}}}}};;')
    lines.append(f'"configuration files" {{"", "", "{config.comms_file}", ""}};;')
    lines += [f'"modules information" {{{kind}, {value}, {ratio!r}}};;' for kind, value, ratio in config.modules]
    lines.append('"file system parameters" {0.0, 0.0, 8.0, 0, 1.0};;')
    return "\n".join(lines) + "\n"


def write_cfg(config: Configuration, path: str | Path) -> None:
    """Write a configuration, and beside it the collectives file where it has rules (``comms_file`` or NAME.collectives)."""
    target = Path(path)
    if config.collectives:
        config = replace(config, comms_file=config.comms_file or f"{target.stem}.collectives")
        write_collectives(config.collectives, target.parent / config.comms_file)
    save_text(target, format_cfg(config))


def write_collectives(rules: dict[int, tuple[int, int, int, int]], path: str | Path) -> None:
    """Write a collectives file; raises :class:`FormatError` for the size rule OWN, which the format cannot express."""
    models, sizes = ({n: name for name, n in table.items()} for table in (FAN_MODELS, SIZE_RULES))
    if any(rule[1] == 0 or rule[3] == 0 for rule in rules.values()):
        raise FormatError("a collectives file cannot say that a fan uses its own size; leave the operation out.")
    text = "".join(
        f"Machine globalop: 0 {op} {models[a]} {sizes[b]} {models[c]} {sizes[d]}\n" for op, (a, b, c, d) in sorted(rules.items())
    )
    save_text(path, text)
