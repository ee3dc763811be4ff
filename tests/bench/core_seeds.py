"""Seed tables that probes are laid over, and what of a core no probe measures."""

from __future__ import annotations

from pathlib import Path

import msgspec

from convolver.execution.calibrated import calibrated_core, core_rows
from convolver.execution.core_parameters import core_parameters
from convolver.machine.cores import MEMORY_PORTS, CoreTable, choose_core, find_core, parse_core
from convolver.machine.profile import MachineProfile
from convolver.machine.this_machine import describe_cpu

NONE, PUBLISHED = "none", "published"
NEUTRAL = Path(__file__).parent / "core" / "neutral.toml"
PROBED = "with the machine's probes"
KINDS, MOVES = "kinds without a probe", "eliminated moves"
FACTS = {
    "widths of fetch and retirement": ("fetch_width", "retire_width"),
    "queue of fetched code": ("queue",),
    "calls and returns": ("call_cycles", "return_cycles"),
    "taken branches": ("taken_cycles", "near_targets", "target_ways", "far_taken_cycles"),
    "lines of code": ("code_bytes", "code_line_cycles", "code_latency"),
    "decoded code": ("decoded_ops", "decode_width"),
    "fetch window": ("code_window", "entry_slots", "lines_ahead"),
    "loop buffer": ("loop_buffer", "loop_turns"),
    "issue width": ("issue_width", "folded_period"),
    "reorder buffer": ("reorder_buffer",),
    "scheduler": ("scheduler", "late_ports"),
    "buffers of loads, stores and lines": ("load_buffer", "store_buffer", "fill_buffers"),
    "register files": ("integer_registers", "vector_registers", "flag_registers"),
    "penalty of a misprediction": ("penalty",),
    "latencies of loads": ("load_latency", "vector_load_latency", "index_cycles", "compound_cycles", "base_cycles"),
    "forwarding": (
        *("forward_latency", "fast_forward_latency", "vector_forward_latency", "failed_forward_latency"),
        *("forward_eighths", "forwarded_updates"),
    ),
    "renamed memory": ("predicted_pairs", "named_pairs", "renamed_moves"),
    "accesses across lines": ("split_cycles", "split_store_cycles"),
    "stores of vectors": ("lone_vector_stores", "port_bytes"),
    "pages": ("near_pages", "page_cycles", "met_cycles"),
    "strings and atomic operations": ("string_bytes", "string_cycles", "locked_alone"),
}
"""Numbers of a core table that say one thing together. Which instructions fuse, which set registers to zero without a port, and
how branches and streams are foreseen is the same for all cores."""


def seed_table(name: str) -> CoreTable:
    """Return the core of round numbers (none), this CPU's table (published), or the one of that name."""
    if name == NONE:
        return parse_core(NEUTRAL.read_text(), str(NEUTRAL))
    return choose_core(describe_cpu(), bundled=True)[0] if name == PUBLISHED else find_core(name)


def label_of(seed: str, *, probed: bool) -> str:
    """Return what a table is called in results."""
    own = "made up" if seed == NONE else seed
    if not probed:
        return own
    return PROBED if seed == PUBLISHED else f"{own}, {PROBED}"


def seeded_tables(seeds: list[str], machine: MachineProfile | None) -> dict[str, CoreTable]:
    """Return each seed's table, and with a machine the one with its probes, by what they are called."""
    tables = {label_of(seed, probed=False): seed_table(seed) for seed in seeds}
    if machine is not None:
        tables |= {label_of(seed, probed=True): calibrated_core(seed_table(seed), machine)[0] for seed in seeds}
    return tables


def unmeasured(machine: MachineProfile) -> dict[str, tuple[str, str]]:
    """Return what no probe of a machine measures and its published table says otherwise than the made-up one: both, as text."""
    neutral, published = seed_table(NONE), seed_table(PUBLISHED)
    measured = {row["name"] for row in core_rows(neutral, machine) if row["measured"]}

    def numbers(table: CoreTable, names: tuple[str, ...]) -> str:
        return ", ".join(str(core_parameters(table)[name]) for name in names if name not in measured)

    found = {fact: (numbers(neutral, names), numbers(published, names)) for fact, names in FACTS.items()}
    for field in MEMORY_PORTS:
        if f"{field}.ports" not in measured:
            found[f"{field}.ports"] = (str(len(neutral.memory_ports(field))), str(len(published.memory_ports(field))))
    if not {"moves.general", "moves.vector"} <= measured:
        found[MOVES] = (" ".join(neutral.eliminates), " ".join(published.eliminates))
    kinds = [kind for kind in published.kinds if not {f"{kind}.latency", f"{kind}.cycles"} & measured]
    found[KINDS] = ("", str(len(kinds)))
    return {fact: values for fact, values in found.items() if values[0] != values[1]}


def with_fact(fact: str, machine: MachineProfile) -> CoreTable:
    """Return the made-up table with one of :func:`unmeasured` as published, and the machine's probes over it."""
    neutral, published = seed_table(NONE), seed_table(PUBLISHED)
    if fact == MOVES:
        seed = msgspec.structs.replace(neutral, eliminates=published.eliminates)
    elif fact == KINDS:
        seed = msgspec.structs.replace(published, params=neutral.params, eliminates=neutral.eliminates)
    elif fact in FACTS:
        known = core_parameters(published)
        seed = neutral.with_params(**{name: known[name] for name in FACTS[fact]})
    else:
        field = fact.removesuffix(".ports")
        seed = neutral.with_memory_ports(field, len(published.memory_ports(field)))
    return calibrated_core(seed, machine)[0]
