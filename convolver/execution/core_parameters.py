"""A core table as the parameters of the native model."""

from __future__ import annotations

from convolver.machine.cores import CoreTable


def core_parameters(table: CoreTable, line_bytes: int = 64) -> dict[str, int]:
    """Return ``cv_core_params`` of a core whose first level has lines of this size. Vectors are forwarded like all else where the
    table does not say."""
    masks = {"load_ports": table.mask(table.memory.load), "store_ports": table.mask(table.memory.store)}
    vector = table.params["forward_latency"]
    return {"vector_forward_latency": vector, **table.params, **masks, "line_bytes": line_bytes}
