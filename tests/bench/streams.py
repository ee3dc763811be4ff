"""Five streams of references that stand for five kinds of program, made by numpy in one piece.

Each returns the keyword arguments of simulate_arrays without machines: addresses, writes, blocks. The block of a reference is its
static load or store. All references are 8 bytes, aligned.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

BASE = 0x7F00_0000_0000
Arrays = dict[str, np.ndarray]


def _arrays(address: np.ndarray, write: np.ndarray, block: np.ndarray) -> Arrays:
    return {
        "addresses": np.ascontiguousarray(address, dtype=np.uint64),
        "writes": np.ascontiguousarray(write, dtype=bool),
        "blocks": np.ascontiguousarray(block, dtype=np.uint32),
    }


def stream(count: int) -> Arrays:
    """Reads of 64 MiB of doubles, one after another, again and again."""
    address = BASE + 8 * (np.arange(count, dtype=np.uint64) % (8 << 20))
    return _arrays(address, np.zeros(count), np.ones(count))


def random(count: int) -> Arrays:
    """Random doubles of 64 MiB, one in five a write."""
    generator = np.random.default_rng(1)
    address = BASE + 8 * generator.integers(0, 8 << 20, count, dtype=np.uint64)
    write = generator.random(count) < 0.2
    return _arrays(address, write, 1 + write)


def hot(count: int) -> Arrays:
    """c[i] += a[i] * b[i] over three arrays of 8 KiB."""
    starts = np.array([0, 8192 + 64, 16384 + 192, 16384 + 192], dtype=np.uint64)
    i = np.arange(-(-count // 4), dtype=np.uint64) % 1024
    address = (BASE + starts + 8 * i[:, None]).ravel()[:count]
    sites = np.arange(count) % 4
    return _arrays(address, sites == 3, sites)


def _concatenate(parts: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]], count: int) -> Arrays:
    kept, have = [], 0
    for part in parts:
        kept.append(part)
        have += len(part[0])
        if have >= count:
            break
    address, write, block = (np.concatenate(column)[:count] for column in zip(*kept, strict=True))
    return _arrays(address, write, block)


def _dgemm_tiles(n: int = 1200, tile: int = 40) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    a = BASE
    b = a + 8 * n * n + 4096 + 448
    c = b + 8 * n * n + 4096 + 832
    within = np.arange(tile)
    row, inner, column = np.meshgrid(within, within, within, indexing="ij")
    block = np.tile(np.concatenate([[1], np.tile([2, 3, 4], tile)]), tile * tile)
    while True:
        for jj in range(0, n, tile):
            for kk in range(0, n, tile):
                for ii in range(0, n, tile):
                    i, k, j = ii + row, kk + inner, jj + column
                    at_c = c + 8 * (i * n + j)
                    triples = np.stack([b + 8 * (k * n + j), at_c, at_c], axis=-1).reshape(tile, tile, 3 * tile)
                    first = (a + 8 * (i * n + k))[:, :, :1]
                    yield np.concatenate([first, triples], axis=2).ravel(), block == 4, block


def dgemm(count: int) -> Arrays:
    """A blocked matrix product, 1200 x 1200 in tiles of 40."""
    return _concatenate(_dgemm_tiles(), count)


def _cg_iterations(rows: int = 200_000, width: int = 16) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(7)
    near = np.arange(rows)[:, None] + generator.integers(-1000, 1001, (rows, width))
    columns = np.clip(near, 0, rows - 1)
    columns[:, :4] = generator.integers(0, rows, (rows, 4))
    values = BASE
    indices = values + 8 * rows * width + 4096
    pointers = indices + 4 * rows * width + 4096
    x = pointers + 8 * rows + 4096 + 192
    y = x + 8 * rows + 4096 + 320
    p = y + 8 * rows + 4096 + 64
    r = p + 8 * rows + 4096 + 448
    at = 8 * np.arange(rows)[:, None]
    entry = np.arange(rows * width).reshape(rows, width)
    triples = np.stack([values + 8 * entry, (indices + 4 * entry) & ~7, p + 8 * columns], axis=-1).reshape(rows, 3 * width)
    product = np.concatenate([pointers + at, triples, y + at], axis=1)
    vectors = [[p, y], [p, x, x, y, r, r], [r], [r, p, p]]
    stores = [[], [2, 5], [], [2]]
    parts = [(product, [*[0] * (1 + 3 * width), 1], [1, *[2, 3, 4] * width, 5])]
    site = 6
    for bases, written in zip(vectors, stores, strict=True):
        sites = list(range(site, site + len(bases)))
        parts.append((np.array(bases) + at, [k in written for k in range(len(bases))], sites))
        site += len(bases)
    while True:
        for address, write, block in parts:
            yield address.ravel(), np.tile(write, rows), np.tile(block, rows)


def cg(count: int) -> Arrays:
    """A conjugate-gradient solver: sparse matrix of 200 000 rows with 16 entries, a quarter of them anywhere."""
    return _concatenate(_cg_iterations(), count)


STREAMS = {"stream": stream, "random": random, "dgemm": dgemm, "cg": cg, "hot": hot}
