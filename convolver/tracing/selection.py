"""Which blocks are worth recording: the hottest of an earlier signature."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from convolver.errors import ProvenanceError, UsageError
from convolver.heavy import pl
from convolver.tracing.avx512 import own_libraries
from convolver.tracing.elf import build_id, content_id, offsets_of, open_elf, read_functions

if TYPE_CHECKING:
    from convolver.signature.signature import Signature

Range = tuple[str, int, int]


def hot_blocks(signature: Signature, *, top: int | None = None, cover: float | None = None) -> tuple[Range, ...]:
    """Return the blocks with the most memory references as (module, first offset, end), the hottest first.

    ``top``: so many. ``cover``: as many as it takes for this share of all references, 0..1. Raises :class:`UsageError` for
    impossible numbers and :class:`ProvenanceError` when a binary was built anew since the signature was taken.
    """
    if (top is None) == (cover is None):
        raise UsageError("Choose blocks by a number or by a share of the references, not by both.")
    if (top is not None and top < 1) or (cover is not None and not 0 < cover <= 1):
        raise UsageError(f"{top if cover is None else cover} is no possible choice; give a number from 1, or a share up to 1.")
    table = signature.table.filter((pl.col("memops") > 0) & (pl.col("module") != "")).sort(
        "memops", "block", descending=[True, False]
    )
    if top is None:
        before = table["memops"].cum_sum().shift(1, fill_value=0)
        table = table.filter(before < (cover or 1.0) * signature.totals["memops"])
    else:
        table = table.head(top)
    for module, identity in table.select("module", "build_id").unique().iter_rows():
        _check_build(module, identity)
    rows = table.select("module", "offset", "length_bytes").iter_rows()
    return tuple((module, offset, offset + length) for module, offset, length in rows)


def function_blocks(program: str | Path, names: Sequence[str]) -> tuple[Range, ...]:
    """Return the code of functions of a program or of its own libraries as (module, first offset, end).

    Raises :class:`UsageError` when no object has a function of one of the names.
    """
    path = Path(program).resolve()
    found: dict[str, list[Range]] = {name: [] for name in names}
    for module in (path, *own_libraries(path)):
        with open(module, "rb") as file:
            elf = open_elf(file)
            if elf is None:
                continue
            functions = read_functions(elf)
            wanted = [place for place, name in enumerate(functions.names) if name in found]
            begins = offsets_of(elf, functions.start[wanted])
            for place, begin in zip(wanted, begins.tolist(), strict=True):
                size = int(functions.end[place] - functions.start[place])
                found[functions.names[place]].append((str(module), begin, begin + size))
    missing = [name for name, ranges in found.items() if not ranges]
    if missing:
        raise UsageError(f"{program} has no function {missing[0]}; is the program stripped? C++ names must be given mangled.")
    return tuple(entry for ranges in found.values() for entry in ranges)


def _check_build(module: str, identity: str) -> None:
    try:
        with open(Path(module), "rb") as file:
            elf = open_elf(file)
            now = "" if elf is None else build_id(elf) or content_id(file)
    except OSError as error:
        raise ProvenanceError(f"{module} is in the signature but cannot be read now: {error.strerror}.") from error
    if identity and now != identity:
        raise ProvenanceError(f"{module} was built anew since the signature was taken; take the counts again.")
