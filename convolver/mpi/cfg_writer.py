"""Writing Dimemas configurations (.cfg) and collectives files; docs/formats/cfg.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from convolver.errors import FormatError
from convolver.mpi.cfg import FAN_MODELS, SIZE_RULES, Configuration, Nodes
from convolver.outputs import save_text


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
