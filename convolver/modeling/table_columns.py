"""Columns of a measurement table (docs/formats/table.md): text columns, and one for each parameter."""

PREFIX = "param."
DEFAULT_CALLPATH, DEFAULT_METRIC = "<root>", "<default>"
DEFAULTS = {
    "app": "",
    "callpath": DEFAULT_CALLPATH,
    "metric": DEFAULT_METRIC,
    "unit": "",
    "machine": "",
    "source": "measured",
}
"""Text columns and what a missing one holds; ``source`` is measured, simulated, predicted or printed."""
TEXT_COLUMNS = tuple(DEFAULTS)
