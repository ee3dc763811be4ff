"""Cache lines that several threads touch and at least one writes, found in the bursts of a trace: who does what to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convolver._native._core import lib
from convolver._native.touches import ALL, LINE_BITS, LINES, WAITS, WORD_BITS, Touches
from convolver.heavy import pl
from convolver.tracing.definitions import ATOMIC, STORE
from convolver.tracing.spin_loops import SpinLoop, spin_loops

if TYPE_CHECKING:
    from convolver.tracing.reader import Trace

MOST_LINES = 64
LOCKS = (
    r"^(__GI_)?(_*pthread_(mutex|spin|rwlock)|_*lll_)"
    r"|^(GOMP_(critical|atomic)|gomp_mutex|omp_(set|unset|test)_|_*kmpc?_.*(critical|lock))"
)
"""Functions of runtimes that take and release locks, whose lines pass with the lock."""
IN_TURN = 0.5
WORDS = 1 << LINE_BITS - WORD_BITS


@dataclass(frozen=True)
class TouchedLine:
    """``false``: no two threads touch the same eight bytes; ``function``, ``file`` and ``line`` touch it most."""

    address: int
    name: str
    false: bool
    function: str
    file: str
    line: int

    @property
    def label(self) -> str:
        """Whose line it is and who touches it, as a phrase."""
        where = f"{self.function} ({Path(self.file).name}:{self.line})" if self.line else self.function
        return f"{'false sharing' if self.false else 'sharing'} of {self.name}" + (f" in {where}" if where else "")


@dataclass(frozen=True)
class TouchedLines:
    """``touches``: a row for each thread (serial number), line (place in ``lines``) and block, with the ``loads``, ``atomics``
    and ``stores`` (atomic ones included) that one reference of the block by this thread stands for; None without any.
    ``spins``: loops in which threads wait for others."""

    lines: list[TouchedLine]
    touches: pl.DataFrame | None
    spins: list[SpinLoop]


def _counts(touches: Touches, kind: int) -> pl.DataFrame:
    rows = touches.counts(kind)
    columns = {name: rows[name] for name in ("word", "window", "thread", "site")}
    return pl.DataFrame(columns | {"len": rows["count"]})


def _serials(records: Any) -> dict[int, list[int]]:
    """Return the threads that each number in the stream stood for: numbers of ended threads are used again."""
    found = {1: [0]}
    for record in records[records["kind"] == lib.CV_THREAD_START]:
        serial, number = int(record["thread"]), int(record["argument"]) >> 1
        found.setdefault(number or serial + 1, []).append(serial)  # traces before 2026-11-28 have no numbers
    return found


def touched_lines(trace: Trace, touches: Touches) -> TouchedLines | None:
    """Return the lines that threads contend for, those touched most, and loops that wait, from all ``touches``; None where there
    is neither."""
    touches.end()
    sites, whole = trace.definitions.sites, _counts(touches, ALL)
    if not len(whole) or trace.thread_log is None:
        return None
    stores, atomics = (sites["flags"] & STORE) != 0, (sites["flags"] & ATOMIC) != 0
    about = pl.DataFrame(
        {"site": np.arange(len(sites), dtype=np.uint32), "block": trace.site_blocks, "stored": stores, "atomic": atomics}
    )
    each = _counts(touches, LINES).join(about, on="site").with_columns(line=pl.col("word") // WORDS)
    functions = trace.signature.table["function"].str.contains(LOCKS).fill_null(value=False)
    each = _contended(each.filter(~functions.gather(each["block"])))
    by_site = whole.join(about, on="site")
    waits = _counts(touches, WAITS).join(about, on="site")
    loops = spin_loops(trace, waits, by_site.group_by("block").agg(pl.col("len").sum()))
    if not len(each):
        return TouchedLines([], None, loops) if loops else None
    count = pl.col("len")
    by = each.group_by("line", "thread", "block").agg(
        loads=count.filter(~pl.col("stored") & ~pl.col("atomic")).sum(),
        atomics=count.filter(pl.col("stored") & pl.col("atomic")).sum(),
        stores=count.filter(pl.col("stored")).sum(),
    )
    # The compare-and-swap of an atomic operation follows a plain load of it.
    by = by.with_columns(loads=(pl.col("loads").cast(pl.Int64) - pl.col("atomics")).clip(0))
    totals = by_site.group_by("thread", "block").agg(count.sum())
    by = by.join(totals, on=("thread", "block")).with_columns(pl.col("loads", "atomics", "stores") / count)
    numbers = each.group_by("line").agg(count.sum()).sort("len", "line", descending=True).head(MOST_LINES)["line"].to_list()
    place = pl.DataFrame(
        {"line": numbers, "number": range(len(numbers))}, schema_overrides={"line": pl.UInt64, "number": pl.UInt32}
    )
    serials = [(number, serial) for number, all_of in _serials(trace.thread_log.records).items() for serial in all_of]
    names = pl.DataFrame(serials, schema={"thread": pl.UInt32, "serial": pl.UInt32}, orient="row")
    table = by.join(place, on="line").join(names, on="thread").select("serial", "number", "block", "loads", "atomics", "stores")
    return TouchedLines(_described(trace, each.filter(pl.col("line").is_in(numbers)), numbers), table, loops)


def _contended(each: pl.DataFrame) -> pl.DataFrame:
    """Keep the lines that several threads touch in turn and one writes: not those that one thread hands over to another.

    Threads that touch a line at the same time, and so follow each other in bursts as chance has it, change in n (1 - sum p^2) of
    n steps, where p is each one's share; half of that is asked for, of the steps between which two of them at least touch it.
    """
    several = (pl.col("thread").n_unique() > 1) & pl.col("stored").any()
    each = each.filter(several.over("line"))
    window = pl.col("window")
    of_thread = each.group_by("line", "thread").agg(first=window.min(), last=window.max())
    shared = of_thread.group_by("line").agg(begin=pl.col("first").sort().get(1), end=pl.col("last").sort(descending=True).get(1))
    steps = each.select("line", "window", "thread").unique().join(shared, on="line").filter(window.is_between("begin", "end"))
    changes = (pl.col("thread") != pl.col("thread").shift()).sum()
    shares = pl.col("thread").value_counts(normalize=True).struct.field("proportion")
    expected = pl.len() * (1 - shares.pow(2).sum())
    counted = steps.sort("line", "window", "thread").group_by("line", maintain_order=True).agg(changes=changes, expected=expected)
    in_turn = counted.filter(pl.col("expected") > 0, pl.col("changes") >= IN_TURN * pl.col("expected"))
    return each.join(in_turn, on="line", how="semi")


def _described(trace: Trace, each: pl.DataFrame, lines: Sequence[int]) -> list[TouchedLine]:
    by_word = each.group_by("line", "word").agg(pl.col("thread").n_unique(), pl.col("len").sum())
    words = (
        by_word.sort("len", "word", descending=[True, False]).group_by("line").agg(pl.col("word").first(), pl.col("thread").max())
    )
    by_block = each.group_by("line", "block").agg(pl.col("len").sum())
    blocks = by_block.sort("len", "block", descending=[True, False]).group_by("line").agg(pl.col("block").first())
    known = {line: about for line, *about in words.join(blocks, on="line").iter_rows()}
    addresses = [known[line][0] << WORD_BITS for line in lines]
    names = [name or _name(one) for name, one in zip(data_names(trace, addresses), trace.objects_at(addresses), strict=True)]
    found = []
    for line, name in zip(lines, names, strict=True):
        _, threads, block = known[line]
        where: Mapping[str, Any] = trace.signature.table.row(int(block), named=True)
        file = (where["function"], where["file"], int(where["line"]))
        found.append(TouchedLine(line << LINE_BITS, name, threads == 1, *file))
    return found


def _name(found: Mapping[str, Any]) -> str:
    """Return a data object that is no variable of an object file as a phrase."""
    if not found or found["kind"] == "unknown":
        return "memory"
    return f"memory from {found['label']}" if found["kind"] == "heap" or found["function"] else str(found["label"])


def data_names(trace: Trace, addresses: Sequence[int]) -> list[str]:
    """Return the variables of object files at addresses of the traced process, each empty where there is none."""
    # only here: it brings a library that predictions without threads do not need
    from convolver.tracing.elf import MALFORMED, OBJECT_TYPES, addresses_in, loaded_segments, open_elf, read_symbols

    definitions, names = trace.definitions, [""] * len(addresses)
    for module, path in zip(definitions.modules, definitions.paths, strict=True):
        if not path or all(names):
            continue
        try:
            with open(path, "rb") as file:
                elf = open_elf(file)
                if elf is None:
                    continue
                segments = loaded_segments(elf)
                first = int(addresses_in(segments, np.array([module["file_offset"]], dtype=np.uint64))[0])
                # The last symbol of many files has no size: without an end it would have all memory after the file.
                end = max((int(segment["p_vaddr"]) + int(segment["p_memsz"]) for segment in segments), default=0)
                moved = [address - int(module["address"]) + first for address in addresses]
                at = [address if 0 <= address < end else 0 for address in moved]
                found = read_symbols(elf, OBJECT_TYPES).at(np.array(at, dtype=np.uint64))
        except MALFORMED:
            continue
        names = [name or here for name, here in zip(names, found, strict=True)]
    return names
