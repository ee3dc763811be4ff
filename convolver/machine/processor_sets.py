"""Which instruction sets beyond x86-64's first a machine's processor has: as its profile says, or as its core always has.

The sets of cores are those that GCC's manual gives for its ``-march`` of the same name ("x86 Options", GCC 14); Zen 4 and 5 as
in AMD's "Software Optimization Guide" for families 19h and 1Ah.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from convolver.machine.cores import HOW, choose_core

_AVX512 = ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")
_AVX512_LATER = ("avx512ifma", "avx512vbmi", "avx512_vbmi2", "avx512_vnni", "avx512_bitalg", "avx512_vpopcntdq")
_AVX512_LAST = ("avx512_vp2intersect", "avx512_bf16", "avx512_fp16")
_EVERY_AVX512 = (*_AVX512, *_AVX512_LATER, *_AVX512_LAST)
_AMX = ("amx_tile", "amx_int8", "amx_bf16")
_TO_AVX2 = (
    "ssse3",
    "sse4_1",
    "sse4_2",
    "popcnt",
    "aes",
    "pclmulqdq",
    "avx",
    "f16c",
    "avx2",
    "fma",
    "bmi1",
    "bmi2",
    "abm",
    "movbe",
)
SETS = (*_TO_AVX2, "adx", "sha_ni", "gfni", "vaes", "vpclmulqdq", "avx_vnni", *_EVERY_AVX512, *_AMX)
"""All sets that Convolver names, by their names in Linux's ``/proc/cpuinfo``."""
RECORDED = frozenset((*SETS, "sse2", "asimd", "sve"))
"""Those that a probed machine's profile names where it has them."""


class _Core(NamedTuple):
    """What all processors with a core have, and what only some of them have."""

    every: frozenset[str]
    some: frozenset[str] = frozenset()


_BROADWELL = frozenset((*_TO_AVX2, "adx"))
_ICE_LAKE = _BROADWELL | {"sha_ni", "gfni", "vaes", "vpclmulqdq"}
_ZEN = _BROADWELL | {"sha_ni"}
_ZEN_3 = _ZEN | {"vaes", "vpclmulqdq"}
_ZEN_4 = _ZEN_3 | {"gfni", *_AVX512, *_AVX512_LATER, "avx512_bf16"}
_CORES = {
    "broadwell": _Core(_BROADWELL - {"aes"}, frozenset(("aes",))),
    "skylake": _Core(_BROADWELL, frozenset((*_AVX512, "avx512_vnni", "avx512_bf16"))),
    "ice-lake": _Core(_ICE_LAKE | {*_AVX512, *_AVX512_LATER}, frozenset(("avx512_vp2intersect",))),
    "golden-cove": _Core(_ICE_LAKE | {"avx_vnni"}, frozenset((*_EVERY_AVX512, *_AMX))),
    "zen": _Core(_ZEN),
    "zen2": _Core(_ZEN),
    "zen3": _Core(_ZEN_3),
    "zen4": _Core(_ZEN_4),
    "zen5": _Core(_ZEN_4 | {"avx_vnni", "avx512_vp2intersect"}),
}


class ProcessorSets(NamedTuple):
    """The sets that a processor surely has, and those that it surely lacks; of the others nobody knows."""

    has: frozenset[str]
    lacks: frozenset[str]


def processor_sets(cpu: Mapping[str, Any]) -> ProcessorSets:
    """Return the sets of a profile's CPU.

    Profiles before version 1.0 name some vectors' sets alone, in ``vector_sets``: what else the core has follows from its model.
    """
    if "instruction_sets" in cpu:
        has = frozenset(cpu["instruction_sets"]).intersection(SETS)
        return ProcessorSets(has, frozenset(SETS) - has)
    core, how = choose_core(dict(cpu), bundled=True)
    named = frozenset(cpu.get("vector_sets", ())).intersection(SETS)
    known = _CORES.get(core.name) if how in HOW else None
    no_avx512 = frozenset(_EVERY_AVX512) if "vector_sets" in cpu and "avx512f" not in named else frozenset()
    if known is None:
        return ProcessorSets(named, no_avx512)
    has = (known.every | named) - no_avx512
    return ProcessorSets(has, frozenset(SETS) - has - (known.some - no_avx512))
