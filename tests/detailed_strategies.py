"""Hypothesis strategies for hierarchies with every option, and the same hierarchy for the C engine."""

from __future__ import annotations

from hypothesis import strategies as st

from convolver._native.detailed_engine import DetailedGeometry
from convolver._native.simulator import Geometry
from convolver.machine.hierarchy import INCLUSIONS, INDICES, POLICIES, PREFETCHERS
from tests.oracle.detailed_oracle import Options


def geometry(options: Options) -> DetailedGeometry:
    """A level of the oracle as the C engine sees it."""
    return DetailedGeometry(
        sets=options.sets,
        line_bytes=options.line,
        sector_bytes=options.sector or options.line,
        seed=options.seed,
        ways=options.ways,
        policy=POLICIES.index(options.policy),
        inclusion=INCLUSIONS.index(options.inclusion),
        write_through=options.write == "through",
        no_allocate=not options.allocate,
        combining=options.combining,
        index_by=INDICES.index(options.index),
        slices=options.slices,
        prefetcher=PREFETCHERS.index(options.prefetcher),
        degree=options.degree,
        entries=options.entries,
        shared=options.shared,
        classify=options.classify,
    )


@st.composite
def _index(draw: st.DrawFn) -> dict:
    index = draw(st.sampled_from(["modulo", "modulo", "modulo", *INDICES]))
    slices = {"intel-slices": draw(st.sampled_from([2, 4, 8])), "mixed-slices": draw(st.integers(1, 6))}.get(index, 1)
    sets = draw(st.sampled_from([1, 2, 3, 4, 7, 8, 16, 64]))
    power = 1 << (sets.bit_length() - 1)
    sets = {"xor": power, "page-frames": 16 * power}.get(index, sets * slices)
    return {"index": index, "slices": slices, "sets": sets}


@st.composite
def _own(draw: st.DrawFn) -> dict:
    """What a level may choose without regard to the others."""
    policy = draw(st.sampled_from(["lru", "lru", *POLICIES]))
    ways = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 64]))
    if policy == "tree-plru":
        ways = 1 << (ways.bit_length() - 1)
    return {
        "policy": policy,
        "ways": ways,
        "seed": draw(st.sampled_from([0, 0, 5, (1 << 64) - 1])),
        "classify": draw(st.booleans()),
        **draw(_index()),
    }


@st.composite
def _writes(draw: st.DrawFn) -> dict:
    """Write mode, prefetcher: of a level that is filled on demand."""
    write = draw(st.sampled_from(["back", "back", "through"]))
    return {
        "write": write,
        "allocate": draw(st.sampled_from([True, True, False])),
        "combining": draw(st.sampled_from([0, 0, 1, 2, 5])),
        "prefetcher": draw(st.sampled_from(["none", "none", *PREFETCHERS])),
        "degree": draw(st.integers(1, 3)),
        "entries": draw(st.sampled_from([1, 2, 3, 16])),
    }


@st.composite
def any_hierarchy(draw: st.DrawFn, cores: int = 1) -> list[Options]:
    """1 to 4 levels of any kind that the engine accepts together."""
    levels: list[Options] = []
    shared = False
    for _ in range(draw(st.integers(1, 4))):
        line = draw(st.sampled_from([16, 32, 64, 64, 128]))
        sector = draw(st.sampled_from([line, line, max(8, line // 2), 8]))
        shape = {"line": line, "sector": sector}
        kinds = ["non-inclusive", "non-inclusive"]
        if all(level.line <= line for level in levels) and levels:
            kinds.append("inclusive")
        if levels and levels[-1].write == "back":
            kinds += ["exclusive", "victim"]
        kind = draw(st.sampled_from(kinds))
        if kind in ("exclusive", "victim"):
            shape = {"line": levels[-1].line, "sector": levels[-1].sector}
        more = draw(_writes()) if kind in ("non-inclusive", "inclusive") else {}
        shared = shared or (cores > 1 and draw(st.booleans()))
        levels.append(Options(**shape, **draw(_own()), **more, inclusion=kind, shared=shared))
    return levels


@st.composite
def plain_hierarchy(draw: st.DrawFn) -> list[Options]:
    """Levels that the fast engine can do too."""
    line = draw(st.sampled_from([16, 64, 128]))
    levels = []
    for sets in draw(st.lists(st.sampled_from([1, 2, 3, 8, 33, 64, 100, 512]), min_size=1, max_size=4)):
        own = {name: value for name, value in draw(_own()).items() if name in ("policy", "ways")}
        framed = own["policy"] != "lru" and sets & (sets - 1) == 0 and draw(st.booleans())
        levels.append(Options(line=line, **own, sets=sets, index="page-frames" if framed else "modulo"))
    return levels


def fast_geometry(options: Options) -> Geometry:
    """A level of :func:`plain_hierarchy` as the fast engine sees it."""
    policy = POLICIES.index(options.policy)
    return Geometry(options.sets, options.ways, options.line, policy, frames=options.index == "page-frames")
