"""Which blocks are worth recording: the hottest of an earlier signature."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from convolver.errors import ProvenanceError, UsageError
from convolver.heavy import pl
from convolver.tracing.avx512 import own_libraries
from convolver.tracing.elf import build_id, content_id, offsets_of, open_elf, read_functions
from convolver.tracing.symbols import demangle

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

    A C++ or Rust function is named as reports show it, without its arguments (all of that name), or mangled. Raises
    :class:`UsageError` when no object has a function of one of the names.
    """
    found: dict[str, list[Range]] = {name: [] for name in names}
    for name, _, code in _functions(Path(program).resolve(), names):
        found[name].append(code)
    missing = [name for name, ranges in found.items() if not ranges]
    if missing:
        raise UsageError(f"{program} has no function {missing[0]}; is the program stripped?")
    return tuple(entry for ranges in found.values() for entry in ranges)


def shown_name(program: str | Path, name: str) -> str:
    """Return the name by which reports and Valgrind show the function that is meant; ``name`` where that is not one function."""
    shown = {readable for _, readable, _ in _functions(Path(program).resolve(), [name])}
    return shown.pop() if len(shown) == 1 else name


def _functions(program: Path, names: Sequence[str]) -> Iterator[tuple[str, str, Range]]:
    """Yield the name that was asked for, the one that reports show, and the code, of functions of a program and its libraries."""
    for module in (program, *own_libraries(program)):
        with open(module, "rb") as file:
            elf = open_elf(file)
            if elf is None:
                continue
            functions = read_functions(elf)
            shown = demangle(functions.names)
            meant = [_meant(names, *both) for both in zip(functions.names, shown, strict=True)]
            wanted = [place for place, name in enumerate(meant) if name is not None]
            begins = offsets_of(elf, functions.start[wanted])
            for place, begin in zip(wanted, begins.tolist(), strict=True):
                size = int(functions.end[place] - functions.start[place])
                yield meant[place] or "", shown[place], (str(module), begin, begin + size)


def _meant(names: Sequence[str], name: str, readable: str) -> str | None:
    """Return the one of ``names`` that means a function, by its name in the file and the one that reports show."""
    if name == readable:
        return name if name in names else None
    return next((one for one in names if one in (name, readable) or readable.startswith(f"{one}(")), None)


def _check_build(module: str, identity: str) -> None:
    try:
        with open(Path(module), "rb") as file:
            elf = open_elf(file)
            now = "" if elf is None else build_id(elf) or content_id(file)
    except OSError as error:
        raise ProvenanceError(f"{module} is in the signature but cannot be read now: {error.strerror}.") from error
    if identity and now != identity:
        raise ProvenanceError(f"{module} was built anew since the signature was taken; take the counts again.")
