"""A core table as the parameters of the native model."""

from __future__ import annotations

from convolver.machine.cores import CoreTable

LOOP_TURNS = 34
"""Of the core whose loop buffer was measured."""
_OFF = "index_cycles code_window lone_vector_stores predicted_pairs named_pairs renamed_moves decoded_ops decode_width port_bytes"
_OTHERS = "near_pages page_cycles locked_alone entry_slots late_ports string_cycles"
NO_RULE = dict.fromkeys(f"{_OFF} {_OTHERS}".split(), 0)
"""Rules of some cores only: what tables have that do not name them."""


def core_parameters(table: CoreTable, line_bytes: int = 64) -> dict[str, int]:
    """Return ``cv_core_params`` of a core whose first level has lines of this size. Where the table does not say, vectors
    are forwarded like all else and returns are followed like jumps; older tables do not say when a loop is buffered."""
    masks = {f"{name}_ports": table.mask(getattr(table.memory, name)) for name in ("load", "store", "vector_load")}
    likened = {"vector_forward_latency": table.params["forward_latency"], "return_cycles": table.params["taken_cycles"]}
    return {**NO_RULE, **likened, "loop_turns": LOOP_TURNS, **table.params, **masks, "line_bytes": line_bytes}
