"""A core table as the parameters of the native model."""

from __future__ import annotations

from convolver.machine.cores import REGISTER_FILES, CoreTable

LOOP_TURNS = 34
"""Of the core whose loop buffer was measured."""
TARGET_WAYS = 4
"""Taken branches in a line of code that are near, where no probe says more."""
_RULES = """
code_window decoded_ops decode_width entry_slots lines_ahead predicted_pairs named_pairs renamed_moves lone_vector_stores
port_bytes met_cycles index_cycles compound_cycles base_cycles near_pages page_cycles locked_alone late_ports string_cycles
indirect_cycles override_cycles closed_cycles forward_eighths forwarded_updates
"""
NO_RULE = dict.fromkeys((*_RULES.split(), *REGISTER_FILES), 0)
"""Rules of some cores only: what tables have that do not name them."""


def core_parameters(table: CoreTable, line_bytes: int = 64) -> dict[str, int]:
    """Return ``cv_core_params`` of a core whose first level has lines of this size. Where the table does not say, vectors
    are forwarded like all else and calls and returns are followed like jumps; older tables do not say when a loop is buffered."""
    masks = {f"{name}_ports": table.mask(getattr(table.memory, name)) for name in ("load", "store", "vector_load")}
    jumps = dict.fromkeys(("call_cycles", "return_cycles"), table.params["taken_cycles"])
    likened = {"vector_forward_latency": table.params["forward_latency"], **jumps, "target_ways": TARGET_WAYS}
    return {**NO_RULE, **likened, "loop_turns": LOOP_TURNS, **table.params, **masks, "line_bytes": line_bytes}
