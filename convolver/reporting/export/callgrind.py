"""Blocks in callgrind's profile format, which callgrind_annotate and kcachegrind open.

Format: Valgrind manual, "Callgrind Format Specification", version 1. Costs are kept a line of a function; names are compressed as
the specification allows. Counts are the signature's own, exact; misses are accesses times simulated miss ratios; times are whole
picoseconds, so that sums over many small blocks lose nothing that matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from convolver import __version__
from convolver.convolution.block_times import HIT_RATE, BlockTimes
from convolver.errors import ProvenanceError
from convolver.heavy import pl

if TYPE_CHECKING:
    from convolver.signature.signature import Signature

COUNTS = {
    "Ir": ("instructions", "Instructions"),
    "Dr": ("loads", "Loads"),
    "Dw": ("stores", "Stores"),
    "Flop": ("flops", "Floating-point operations"),
}
UNKNOWN = "???"
"""callgrind's own word for an unknown file or function."""


def events(times: BlockTimes | None) -> dict[str, str]:
    """Return name and meaning of every cost: counts, then misses by level and picoseconds where there are block times."""
    found = {name: meaning for name, (_, meaning) in COUNTS.items()}
    if times is not None:
        found |= {f"{level}m": f"References that miss {level} of {times.machine}" for level in times.levels}
        found["Ps"] = f"Predicted picoseconds on {times.machine}"
    return found


def costs(signature: Signature, times: BlockTimes | None = None) -> pl.DataFrame:
    """Return module, file, function, line and one whole-numbered column a cost, summed by line, in the order of the names.

    Raises :class:`ProvenanceError` when the times are of another signature.
    """
    counts = [pl.col(column).alias(name) for name, (column, _) in COUNTS.items()]
    table = signature.table.select("block", "module", "file", "function", "line", "memops", *counts)
    if times is not None:
        if times.inputs.get("signature") != signature.id:
            raise ProvenanceError("The block times are of another signature; give the one that they were convolved from.")
        rates = {f"{level}m": HIT_RATE + level for level in times.levels}
        table = table.join(times.table.select("block", "seconds", *rates.values()), on="block", how="left")
        floats = {name: pl.col("memops") * (1 - pl.col(rate).fill_null(1.0)) for name, rate in rates.items()}
        floats["Ps"] = pl.col("seconds").fill_null(0.0) * 1e12
        table = table.with_columns(value.round().cast(pl.UInt64).alias(name) for name, value in floats.items())
    keys = ["module", "file", "function", "line"]
    return table.group_by(keys).agg(pl.col(*events(times)).sum()).sort(keys)


class _Names:
    """Compresses names: ``(1) name`` on first use, ``(1)`` after."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        text = name or UNKNOWN
        if text in self._known:
            return f"({self._known[text]})"
        self._known[text] = len(self._known) + 1
        return f"({self._known[text]}) {text}"


def lines(signature: Signature, times: BlockTimes | None = None) -> Iterator[str]:
    """Yield the profile line by line, without line ends."""
    table = costs(signature, times)
    names = list(events(times))
    total = " ".join(str(int(table[name].sum())) for name in names)
    yield "# callgrind format"
    yield "version: 1"
    yield f"creator: convolver-{__version__}"
    yield f"cmd: {' '.join(str(word) for word in signature.header.get('command') or ['?'])}"
    yield f"desc: Convolver signature: {signature.id}"
    if times is not None:
        yield f"desc: Convolver block times: {times.id} ({times.machine})"
    yield "positions: line"
    for name, meaning in events(times).items():
        yield f"event: {name} : {meaning}"
    yield f"events: {' '.join(names)}"
    yield f"summary: {total}"
    yield ""
    yield from _bodies(table, names)
    yield f"totals: {total}"


def _bodies(table: pl.DataFrame, names: list[str]) -> Iterator[str]:
    modules, files, functions = _Names(), _Names(), _Names()
    before: tuple[str, str, str] | None = None
    for module, file, function, line, *values in table.select("module", "file", "function", "line", *names).iter_rows():
        if (module, file, function) != before:
            if before is not None:
                yield ""
            yield f"ob={modules(module)}"
            yield f"fl={files(file)}"
            # callgrind_annotate adds up equal names of all objects, so an unknown function is named after its own
            yield f"fn={functions(function or f'{Path(module).name}:{UNKNOWN}')}"
            before = (module, file, function)
        yield f"{line} {' '.join(map(str, values))}"
    if before is not None:
        yield ""
