"""Source files line by line: executions, memops, misses by level and time."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from convolver.convolution.block_times import HIT_RATE, BlockTimes
from convolver.heavy import pl

LARGEST_BYTES = 1 << 20
"""Larger source files are not shown: they are generated."""


NO_ROOT = "Sources of traces made elsewhere are read below --sources FOLDER only."


@dataclass(frozen=True)
class Source:
    """A source file: its text, or why there is none, and whether it was changed after the program was traced."""

    path: str
    text: str
    newer: bool
    problem: str = ""


def by_line(times: BlockTimes) -> pl.DataFrame:
    """Return file, line, executions, memops, misses_LEVEL and seconds, summed over the blocks that begin on the line.

    Misses are accesses times simulated miss ratios; a block without a sample adds none. Blocks without a known line are left out.
    """
    misses = [
        (pl.col("memops") * (1 - pl.col(HIT_RATE + level).fill_null(1.0))).alias(f"misses_{level}") for level in times.levels
    ]
    known = times.table.filter((pl.col("file") != "") & (pl.col("line") > 0)).with_columns(misses)
    sums = ["executions", "memops", *(f"misses_{level}" for level in times.levels), "seconds"]
    return known.group_by("file", "line").agg(pl.col(sums).sum()).sort("file", "line")


def hot_files(times: Sequence[BlockTimes], least_share: float = 1e-4) -> list[str]:
    """Return the source files with at least this share of the time on any of the machines, the hottest first."""
    best: dict[str, float] = {}
    for one in times:
        sums = one.table.filter(pl.col("file") != "").group_by("file").agg(pl.col("seconds").sum())
        for file, seconds in sums.iter_rows():
            best[file] = max(best.get(file, 0.0), seconds / (one.seconds or 1.0))
    return [file for file, share in sorted(best.items(), key=lambda item: -item[1]) if share >= least_share]


def read_source(path: str, traced_at: float, roots: Sequence[Path]) -> Source:
    """Return a source file that lies below one of ``roots``; ``traced_at``: when the program was traced, seconds since the epoch.

    The name comes from the traced program, so whoever made that chose it: links are followed, and what then lies elsewhere, in
    a hidden folder, is no regular file, is large or is no text has its reason in ``problem`` in place of its text.
    """
    real = Path("/" if "\0" in path else os.path.realpath(path))  # no file has a name with a zero byte
    root = next((root for root in roots if real.is_relative_to(root)), None)
    if root is None:
        return Source(path, "", False, NO_ROOT if not roots else "The file lies outside the folders that sources are read from.")
    if any(part.startswith(".") for part in real.relative_to(root).parts):
        return Source(path, "", False, "The file is hidden and is left out.")
    try:
        handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return Source(path, "", False, "It is no regular file and is left out.")
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        return Source(path, "", False, f"The file cannot be read here: {error.strerror or error}.")
    if len(data) > LARGEST_BYTES or b"\0" in data:
        why = "larger than 1 MiB" if len(data) > LARGEST_BYTES else "no text"
        return Source(path, "", False, f"The file is {why} and is left out.")
    return Source(path, data.decode(errors="replace"), status.st_mtime > traced_at)
