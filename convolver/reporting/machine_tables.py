"""Machines on the terminal: the catalog, one profile, its calibration."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from convolver.errors import ConvolverError
from convolver.machine.catalog import list_machines, load_machine
from convolver.machine.cores import CoreTable
from convolver.machine.maps import plateau
from convolver.machine.profile import MEMORY, MachineProfile
from convolver.machine.profile_check import Finding
from convolver.reporting.console import out
from convolver.reporting.grid import grid
from convolver.units import counted, format_bytes, format_seconds, format_share

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """Return positive values as bars of their logarithm, the smallest value lowest; longer curves are thinned to 16 bars."""
    step = max(1, math.ceil(len(values) / 16))
    logs = [math.log(value) for value in values[::step]]
    low, high = min(logs), max(logs)
    if high - low < math.log(1.1):  # a flat curve shows no noise
        return BARS[0] * len(logs)
    return "".join(BARS[round((value - low) / (high - low) * (len(BARS) - 1))] for value in logs)


def calibration_document(profile: MachineProfile) -> dict[str, Any]:
    """Return the calibration without the residuals of single points; empty for a profile without one."""
    if profile.calibration is None:
        return {}
    document = msgspec.to_builtins(profile.calibration)
    document.pop("residuals")
    return {**document, "places": _levels(profile), "left_out_error": _by(profile, "place"), "kernels": _by(profile, "kernel")}


def _levels(profile: MachineProfile) -> list[str]:
    return [*(level.level for level in profile.hierarchy[1:]), MEMORY]


def _by(profile: MachineProfile, field: str) -> dict[str, float]:
    assert profile.calibration is not None
    groups: dict[str, list[float]] = {}
    for one in profile.calibration.residuals:
        groups.setdefault(getattr(one, field), []).append(abs(math.expm1(one.error)))
    return {name: round(median(values), 4) for name, values in groups.items()}


def print_calibration(profile: MachineProfile) -> None:
    """Print the coefficients and how far the model errs on kernels left out of the fit."""
    found = profile.calibration
    assert found is not None
    table = grid(["level"], ["sequential line", "random line", "write-back", "latency"])
    columns = (found.sequential, found.random, found.write_back, found.latency)
    for name, *values in zip(_levels(profile), *columns, strict=True):
        table.add_row(name, *(f"{1e9 * value:.3g} ns" for value in values))
    console = out()
    console.print(table)
    console.print(
        f"A line left out of a strided stream costs {100 * found.between:.0f} % of one, a line from memory in a stream that "
        f"comes alone up to {100 * found.alone:.0f} % more, a line on its way {1e9 * found.coming:.2g} ns; "
        f"{found.window:.0f} loads a window; exponent {found.exponent:.2f}."
    )
    last = profile.hierarchy[-1]
    if found.page_entries:
        console.print(
            f"{found.page_entries} translations of pages are kept; another costs {1e9 * found.walk:.2g} ns beside others, "
            f"{1e9 * found.walk_latency:.3g} ns in a chain."
        )
    if found.scattered_share:
        size = found.scattered_share * last.size_bytes / 2**20
        console.print(f"Lines out of order find {size:.3g} MiB of the last level {last.level}.")
    console.print(
        f"{found.points} points, last level {last.level} of {last.size_bytes / 2**20:.3g} MiB. With each kernel left out in "
        f"turn, the median error is {100 * found.median_error:.1f} %, the mean {100 * found.mean_error:.1f} %."
    )
    for title, field in (("level", "place"), ("kernel", "kernel")):
        parts = ", ".join(f"{name} {100 * value:.0f}" for name, value in _by(profile, field).items())
        console.print(f"Median error in % by {title}: {parts}.")


_KINDS = ("measured", "projected", "derived")


def machine_rows() -> list[dict[str, Any]]:
    """Return name, path, kind, CPU and geometry of every machine known by name, the measured ones first, then the projected and
    the derived ones; a damaged file has ``error`` instead."""
    rows: list[dict[str, Any]] = []
    for entry in list_machines():
        row: dict[str, Any] = {"name": entry.name, "path": str(entry.path)}
        try:
            profile = load_machine(entry.path)
            kind = profile.provenance.get("kind", "projected") if profile.projected else "measured"
            rows.append({**row, "kind": kind, "cpu": profile.cpu.get("model", ""), **_geometry(profile)})
        except ConvolverError as error:
            rows.append({**row, "error": str(error)})
    return sorted(rows, key=lambda row: _KINDS.index(row["kind"]) if row.get("kind") in _KINDS else len(_KINDS))


def _geometry(profile: MachineProfile) -> dict[str, Any]:
    sizes = {level.level: level.size_bytes for level in profile.hierarchy}
    return {"cpus": profile.known_cpus or None, "levels": sizes, "curves": len(profile.maps)}


def print_machines(rows: list[dict[str, Any]]) -> None:
    """Print the catalog as a table on stdout."""
    table = grid(["machine", "kind", "CPUs", "caches", "curves", "file, or CPU of a derived one"])
    for row in rows:
        levels = ", ".join(f"{name} {format_bytes(size)}" for name, size in row.get("levels", {}).items())
        where = row["cpu"] if row.get("kind") == "derived" else row["path"]
        cpus = str(row.get("cpus") or "")
        table.add_row(row["name"], row.get("kind", "damaged"), cpus, levels or row["error"], str(row.get("curves", "")), where)
    out().print(table)


_KEY = ("kernel", "threads", "beside")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def _busy(row: dict[str, Any]) -> str:
    """Return how many CPUs were busy, and with what where it was another kernel."""
    return f"{row['threads']} ({row['beside']})" if row["beside"] else str(row["threads"])


def profile_rows(profile: MachineProfile) -> list[dict[str, Any]]:
    """Return for each curve its kernel, pattern, operation and the seconds per reference in each level and in memory."""
    names = [*(level.level for level in profile.hierarchy), MEMORY]
    return [
        {
            "kernel": curve.kernel,
            "pattern": curve.pattern,
            "operation": curve.operation,
            "width_bytes": curve.width_bytes,
            "threads": curve.threads,
            "beside": curve.beside,
            "seconds": {name: plateau(curve, profile.hierarchy, name).seconds_per_reference for name in names},
            "curve": sparkline([point.seconds_per_reference for point in curve.points]),
            "stable_share": sum(point.stable for point in curve.points) / len(curve.points),
        }
        for curve in profile.maps
    ]


def _print_levels(profile: MachineProfile) -> None:
    reported = {level.level: level for level in profile.hierarchy_reported}
    detected = {level.level: level for level in profile.detected}
    table = grid(["level"], ["simulated", "ways", "line", "reported", "detected", "confidence"])
    for level in profile.hierarchy:
        seen = detected.get(level.level)
        table.add_row(
            level.level,
            format_bytes(level.size_bytes),
            str(level.ways),
            f"{level.line_bytes} B",
            format_bytes(reported.get(level.level, level).size_bytes),
            f"{format_bytes(seen.low_bytes)} to {format_bytes(seen.high_bytes)}" if seen else "",
            f"{seen.confidence:.2f}" if seen else "",
        )
    out().print(table)


def _print_options(profile: MachineProfile) -> None:
    """Print what a level does beyond a plain one, the TLB, and the semantics of writes, where there is something."""
    usual = {"level", "size_bytes", "ways", "line_bytes"}
    for level in profile.hierarchy:
        options = {name: value for name, value in msgspec.to_builtins(level).items() if name not in usual}
        prefetcher = options.pop("prefetcher", None)
        words = [f"{name} {str(value).lower()}" for name, value in options.items()]
        words += [" ".join(["prefetcher", *(str(value) for value in prefetcher.values())])] if prefetcher else []
        if words:
            out().print(f"{level.level}: {', '.join(words)}")
    for entry in profile.tlb:
        pages = f"{entry.entries} pages of {format_bytes(entry.page_bytes)}, {entry.ways} ways, {entry.policy}"
        out().print(f"{entry.level}: {pages}")
    if profile.tlb:
        out().print(f"pages of programs: {format_bytes(profile.page_bytes)}")
    if profile.semantics != "write-back":
        out().print(f"semantics of writes: {profile.semantics}")


def _print_curves(profile: MachineProfile) -> None:
    rows = profile_rows(profile)
    if not rows:
        return
    names = list(rows[0]["seconds"])
    table = grid(["seconds per reference"], ["width", "threads", *names, "small to large", "settled"])
    for row in rows:
        cells = [format_seconds(row["seconds"][name]) for name in names]
        table.add_row(row["kernel"], str(row["width_bytes"]), _busy(row), *cells, row["curve"], format_share(row["stable_share"]))
    out().print(table)


def print_profile(profile: MachineProfile, kept_in: Path | None = None) -> None:
    """Print geometry, plateaus, instructions, the kernel's costs and provenance on stdout.

    ``kept_in``: in place of instructions and costs how to see them, of a profile in this file.
    """
    console = out()
    kind = "projected, not measured" if profile.projected else f"measured {profile.provenance.get('created', '')}".strip()
    console.print(f"{profile.name}: {profile.cpu.get('model') or 'unknown CPU'} ({kind})")
    if profile.known_cpus:
        where = "in the machine that was probed" if "cpus" in profile.cpu else "in the largest machine known with this CPU"
        console.print(f"{counted(profile.known_cpus, 'CPU')} {where}")
    _print_levels(profile)
    _print_options(profile)
    _print_curves(profile)
    if kept_in is not None:
        shown = shlex.quote(str(kept_in))
        console.print(f"`convolver machine show {shown}` shows times of instructions and of the kernel, too.", soft_wrap=True)
    elif profile.floating_point:
        table = grid(["seconds per instruction"], ["width", "time", "Gflop/s"])
        for entry in profile.floating_point:
            rate = f"{entry.flops / entry.seconds / 1e9:.3g}" if entry.flops else ""
            table.add_row(entry.kernel, str(entry.width_bytes), format_seconds(entry.seconds), rate)
        console.print(table)
    if kept_in is None:
        _print_kernel(profile)
    for sentence in surroundings(profile):
        console.print(sentence)
    for change in profile.changes:
        console.print(f"changed: {change}")


def _print_kernel(profile: MachineProfile) -> None:
    if not profile.kernel:
        out().print("The kernel's costs are unknown: system time is not predicted here.")
        return
    table = grid(["the kernel, seconds of one"], ["time", "least", "median"])
    for cost in profile.kernel:
        table.add_row(cost.name, *(format_seconds(value) for value in (cost.seconds, cost.low, cost.high)))
    out().print(table)


def print_core(profile: MachineProfile, table: CoreTable, how: str, rows: list[dict[str, Any]]) -> None:
    """Print what differs between a core's table and the machine's probes, and how much they agree on."""
    from rich.table import Table

    console = out()
    found = {"flags": "by the CPU's flags", "model": "by the CPU's model"}.get(how, how)
    console.print(f"{profile.name}: core table {table.name} ({found}); from {table.source}.", soft_wrap=True)
    measured = [row for row in rows if row["measured"]]
    if not measured:
        console.print("The profile holds no figures of the core: all numbers are the table's. `convolver probe` measures them.")
        return
    differing = [row for row in measured if row["used"] != row["published"]]
    shown = Table("cycles or entries", "table", "measured", box=None)
    for row in differing:
        shown.add_row(row["name"], "" if row["published"] is None else f"{row['published']:.10g}", f"{row['used']:.10g}")
    if differing:
        console.print(shown)
    if profile.core_ports:
        console.print(_shared_ports(profile))
    closed = sorted({port for kind in profile.core_ports for port in kind.closes})
    if closed:
        console.print(f"Vectors of 64 bytes close to narrower ones: port {', '.join(map(str, closed))}.")
    console.print(
        f"{len(measured)} of {len(rows)} numbers are measured; {len(measured) - len(differing)} of them as in the table."
    )


def _shared_ports(profile: MachineProfile) -> Any:
    """Return a table of the kinds that start on the same measured ports, whose names mean nothing; in brackets the slots of those
    that take more than one."""
    from rich.table import Table

    groups: dict[str, list[str]] = {}
    for kind in profile.core_ports:
        ports = " + ".join(" ".join(map(str, one)) for one in kind.ports)
        if ports:
            groups.setdefault(ports, []).append(f"{kind.name} ({kind.slots})" if kind.slots > 1 else kind.name)
    shown = Table("measured ports", "kinds on them (slots, if more than one)", box=None)
    for ports, kinds in sorted(groups.items()):
        shown.add_row(ports, ", ".join(kinds))
    return shown


def surroundings(profile: MachineProfile) -> list[str]:
    """Return what is known of the other CPUs: who shares the core, how long lines survive, what caches are left."""
    found = [
        f"CPU {one.cpu} busy: instructions take {one.slowdown:.2f} times as long"
        + (" (a thread of the same core, as reported)" if one.reported_sibling else "")
        for one in profile.neighbours
    ]
    if profile.residency is not None:
        kind = "at least " if profile.residency.at_least else ""
        found.append(f"A line left alone survives {kind}{format_seconds(profile.residency.seconds)} in the last cache")
    for entry in profile.contention:
        last, kind = entry.hierarchy[-1], f"while others {entry.beside}" if entry.beside else "with the same kernel on each"
        found.append(f"One of {entry.threads} busy CPUs, {kind}: {last.level} {format_bytes(last.size_bytes)}")
    return found


def compare_rows(first: MachineProfile, second: MachineProfile) -> list[dict[str, Any]]:
    """Return what both machines have measured: seconds of each and ``ratio`` = first / second (above 1: the second is faster).

    Memory is compared level by level of the same name, instructions under the level ``registers``, the kernel's work under
    ``kernel``.
    """
    rows = []
    others = {_key(row): row["seconds"] for row in profile_rows(second)}
    for row in profile_rows(first):
        other = others.get(_key(row), {})
        rows += [
            {**{name: row[name] for name in _KEY}, "level": level, "first": seconds, "second": other[level]}
            for level, seconds in row["seconds"].items()
            if level in other
        ]
    theirs = _costs(second)
    rows += [
        {**dict(zip(_KEY, (name, 1, ""), strict=True)), "level": level, "first": seconds, "second": theirs[level][name]}
        for level, costs in _costs(first).items()
        for name, seconds in costs.items()
        if name in theirs[level]
    ]
    return [{**row, "ratio": row["first"] / row["second"]} for row in rows]


def _costs(profile: MachineProfile) -> dict[str, dict[str, float]]:
    """Return seconds of instructions and of the kernel's work, by name."""
    instructions = {entry.kernel: entry.seconds for entry in profile.floating_point}
    return {"registers": instructions, "kernel": {cost.name: cost.seconds for cost in profile.kernel}}


def print_comparison(first: MachineProfile, second: MachineProfile, rows: list[dict[str, Any]]) -> None:
    """Print geometry and ratios of two machines on stdout, one line a kernel."""
    console = out()
    for profile in (first, second):
        levels = ", ".join(f"{level.level} {format_bytes(level.size_bytes)}/{level.ways}" for level in profile.hierarchy)
        console.print(f"{profile.name}: {levels}")
        for sentence in surroundings(profile):
            console.print(f"  {sentence}")
    columns = list(dict.fromkeys(row["level"] for row in rows))
    table = grid([f"{first.name} / {second.name}"], ["threads", *columns])
    for key, row in {_key(row): row for row in rows}.items():
        ratios = {one["level"]: one["ratio"] for one in rows if _key(one) == key}
        table.add_row(row["kernel"], _busy(row), *(f"{ratios[level]:.2f}" if level in ratios else "" for level in columns))
    console.print(table)


def print_findings(profile: MachineProfile, findings: list[Finding]) -> None:
    """Print what is doubtful about a machine on stdout."""
    console = out()
    console.print(f"{profile.name}: {counted(len(findings), 'finding')}" if findings else f"{profile.name}: nothing doubtful")
    for finding in findings:
        console.print(f"  {finding.severity}: {finding.sentence}")
