"""Features of blocks from the sampled references: reference patterns and the size of the working set."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.trace_decoder import Decoder
from convolver.signature.block_columns import PATTERNS
from convolver.signature.features import line_shares
from convolver.tracing.definitions import DEPENDENT, STORE

LINE_BYTES = 64


def distinct_lines(registers: NDArray[np.uint8]) -> int:
    """Return the number of distinct lines that HyperLogLog registers stand for.

    Flajolet et al. 2007, with linear counting for small numbers; the standard error is 1.04 / sqrt(number of registers).
    """
    count = len(registers)
    estimate = 0.7213 / (1 + 1.079 / count) * count * count / float(np.sum(np.exp2(-registers.astype(float))))
    empty = int(np.count_nonzero(registers == 0))
    if estimate <= 2.5 * count and empty:
        estimate = count * math.log(count / empty)
    return round(estimate)


def _dependent_share(flags: NDArray[np.uint8], chains: NDArray[Any] | None, count: str) -> NDArray[np.float64]:
    """Return the share of each site's irregular references that are dependent, by one of the counts of executed paths."""
    flagged = ((flags & DEPENDENT) != 0).astype(float)
    if chains is None:
        return flagged
    walked = chains["references"]
    return np.where(walked > 0, chains[count] / np.maximum(walked, 1), flagged)


def site_patterns(
    features: NDArray[Any], sampled: NDArray[np.uint64], flags: NDArray[np.uint8], chains: NDArray[Any] | None = None
) -> dict[str, NDArray[np.uint64]]:
    """Return per site how many sampled references are unit, strided, random and dependent: each in one class at most.

    What was not looked at (the first reference of a site in a window; most of a long window) is counted like the site's others.
    A site without any distance stays unclassified. ``chains``: what executed paths say about each site
    (:meth:`convolver.tracing.path_features.PathFeatures.sites`). Of the random references as many are dependent as were on the
    longest chain of loads among those in flight; where no path was walked, all whose address was loaded in the same block.
    """
    known = (features["unit"] + features["strided"] + features["random"]).astype(np.uint64)
    share = np.where(known > 0, sampled / np.maximum(known, 1), 0.0)
    unit = np.minimum(np.rint(features["unit"] * share).astype(np.uint64), sampled)
    strided = np.minimum(np.rint(features["strided"] * share).astype(np.uint64), sampled - unit)
    rest = np.where(known > 0, sampled - unit - strided, 0).astype(np.uint64)
    dependent = np.rint(rest * _dependent_share(flags, chains, "serial")).astype(np.uint64)
    return {
        "sampled_references": sampled,
        "unit_references": unit,
        "strided_references": strided,
        "random_references": rest - dependent,
        "dependent_references": dependent,
    }


def site_line_shares(decoder: Decoder, chains: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Return for every site which pattern brings its lines: shares of sequential, strided, random and dependent ones, and the
    parts of the random ones that come in long strides and of the first two whose streams had just begun.

    The decoder tells the lines that come in streams from the others. Of those, dependent are the lines of chained loads, brought
    by the first load in them that waited as long: in a list whose nodes have several fields that is the field touched first,
    whichever of them the chain goes through. A site that was not seen to bring a line is judged by its references. Beside lines
    out of order the decoder loses streams: a site brings no more lines out of order than it has references that jump. Of those
    that it brings, all are in long strides but as many as it has references whose jump is another one than before.
    """
    sites, features = decoder.sites(), decoder.features()
    patterns = site_patterns(features, decoder.sampled(), sites["flags"], chains)
    by_references = line_shares(np.stack([patterns[name] for name in PATTERNS], axis=1), sites["size_bytes"])
    dependent = _dependent_share(sites["flags"], chains, "bringing")
    lines = features["lines"].astype(float)
    lost = np.where(features["unit"] > 0, np.maximum(lines[:, 2] - features["random"] - features["strided"], 0.0), 0.0)
    lines[:, 0] += lost
    lines[:, 2] -= lost
    long = np.clip(lines[:, 2] - features["random"], 0.0, features["strided"]) * (1 - dependent)
    by_pattern = [lines[:, :2], lines[:, 2] * (1 - dependent), lines[:, 2] * dependent]
    brought = np.column_stack([*by_pattern, long, features["early"]])
    total = lines.sum(axis=1, keepdims=True)
    unseen = np.column_stack([by_references, np.zeros((len(by_references), 2))])
    return np.where(total > 0, brought / np.where(total > 0, total, 1.0), unseen)


def site_features(decoder: Decoder) -> dict[str, NDArray[np.uint64]]:
    """Return per site sampled references, those that load, and the columns of :data:`convolver.signature.block_columns.LINES` and
    :data:`~convolver.signature.block_columns.ALONE`."""
    features, sampled = decoder.features(), decoder.sampled()
    lines = features["lines"]
    return {
        "references": sampled,
        "loads": np.where(decoder.sites()["flags"] & STORE, 0, sampled).astype(np.uint64),
        "new_lines": lines.sum(axis=1).astype(np.uint64),
        "strided_lines": lines[:, 1],
        "skipped_lines": features["between"],
        "coming_references": features["coming"],
        "sequential_lines": lines[:, 0],
        "alone_lines": features["alone"],
    }
