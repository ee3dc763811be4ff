"""Hypothesis strategies for streams of references and for cache hierarchies."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import strategies as st

from convolver.machine.hierarchy import POLICIES, Level

BASES = (0, 4096, 1 << 30, (1 << 38) - 256, 0x7F00_0000_0000, 0x7FFC_1234_0000, (1 << 57) + 128, (1 << 64) - 4096)


@st.composite
def segments(draw: st.DrawFn) -> list[tuple[int, int, bool, int]]:
    """A run of references (address, size, write, block): strided, random within a small window, or one address again."""
    base = draw(st.sampled_from(BASES)) + draw(st.integers(0, 200))
    size = draw(st.sampled_from([1, 4, 8, 8, 8, 32, 200]))
    count = draw(st.integers(1, 120))
    block = draw(st.integers(0, 5))
    kind = draw(st.sampled_from(["stride", "random", "loop"]))
    step = draw(st.sampled_from([1, 8, 64, 192, 1 << 12]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    steps = {
        "stride": np.arange(count) % 40,
        "random": random.integers(0, 40, count),
        "loop": np.arange(count) % draw(st.integers(1, 8)),
    }[kind]
    writes = random.random(count) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    return [
        ((base + int(k) * step) % (1 << 64), size, bool(w), (block + i) % 6)
        for i, (k, w) in enumerate(zip(steps, writes, strict=True))
    ]


def streams(max_segments: int = 12) -> st.SearchStrategy[list[tuple[int, int, bool, int]]]:
    """References (address, size, write, block) whose runs come back."""
    return st.lists(segments(), min_size=1, max_size=max_segments).map(
        lambda runs: [ref for run in [*runs, *runs[:3]] for ref in run]
    )


@st.composite
def loops(draw: st.DrawFn) -> list[tuple[int, int, bool, int]]:
    """About 9000 references of loops of 1 to 9 sites that walk, wander or stand still, so that every filter finds repeats."""
    references: list[tuple[int, int, bool, int]] = []
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.sampled_from([1, 1, 8]))
    while len(references) < 9000:
        sites = int(random.integers(1, 10))
        bases = random.choice(BASES[:6], sites) + random.integers(0, 40, sites) * 64
        steps = random.choice([0, 1, 8, 64, 4096], sites)
        writes = random.random(sites) < 0.3
        for i in range(int(random.integers(1, 400))):
            jump = int(random.integers(0, 8)) * 64 if random.random() < 0.05 else 0
            references += [
                (int(base) + int(step) * i + jump, size, bool(write), site)
                for site, (base, step, write) in enumerate(zip(bases, steps, writes, strict=True))
            ]
    return references


@st.composite
def hierarchies(draw: st.DrawFn, max_levels: int = 4, any_policy: bool = False) -> tuple[Level, ...]:
    """1 to 4 levels of 1 to 32 ways and any small number of sets; sometimes a level larger than the stream. LRU or any policy."""
    line = draw(st.sampled_from([16, 32, 64, 64, 64, 128]))
    levels = []
    for number in range(1, draw(st.integers(1, max_levels)) + 1):
        ways = draw(st.integers(1, 32))
        sets = draw(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 12, 16, 33, 64, 64, 100, 1024, 1536]))
        policy = draw(st.sampled_from(POLICIES)) if any_policy else "lru"
        if policy == "tree-plru":
            ways = 1 << (ways.bit_length() - 1)
        levels.append(Level(level=f"L{number}", size_bytes=sets * ways * line, ways=ways, line_bytes=line, policy=policy))
    return tuple(levels)


@st.composite
def related(draw: st.DrawFn) -> list[tuple[Level, ...]]:
    """2 to 5 hierarchies of which most begin with the levels of an earlier one, with any policies."""
    found = [draw(hierarchies(max_levels=3, any_policy=True))]
    for _ in range(draw(st.integers(1, 4))):
        earlier = draw(st.sampled_from(found))
        kept = earlier[: draw(st.integers(0, len(earlier)))]
        line = earlier[0].line_bytes
        more = [
            msgspec.structs.replace(
                level, level=f"L{len(kept) + 1 + i}", size_bytes=level.size_bytes // level.line_bytes * line, line_bytes=line
            )
            for i, level in enumerate(draw(hierarchies(max_levels=2, any_policy=True)))
        ]
        found.append((*kept, *more))
    return found


def arrays(references: list[tuple[int, int, bool, int]]) -> dict[str, np.ndarray]:
    """The arguments of simulate_arrays for a list of references."""
    address, size, write, block = zip(*references, strict=True)
    return {
        "addresses": np.array(address, dtype=np.uint64),
        "sizes": np.array(size, dtype=np.uint16),
        "writes": np.array(write, dtype=bool),
        "blocks": np.array(block, dtype=np.uint32),
    }
