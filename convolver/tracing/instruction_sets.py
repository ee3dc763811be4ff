"""Which instruction sets beyond x86-64's first the executed code of a trace belongs to, from its bytes.

Names are those of Linux's ``/proc/cpuinfo``. A table of opcodes says all (Intel, "Software Developer's Manual", volume 2, and
"Architecture Instruction Set Extensions Programming Reference"); ``tzcnt`` is left out, which runs as ``bsf`` without its set.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver.machine.processor_sets import SETS
from convolver.tracing.definitions import CONTINUED, Definitions, counter_values

_ENCODED = _LEGACY, _VEX_128, _VEX_256, _EVEX = range(4)
_ENCODINGS = {
    "legacy": (slice(_LEGACY, _VEX_128), ""),
    "general": (slice(_VEX_128, _EVEX), ""),
    "vex": (slice(_VEX_128, _EVEX), "avx"),
    "vex256": (slice(_VEX_256, _EVEX), "avx"),
    "scalar": (slice(_EVEX, None), "avx512f"),
    "evex": (slice(_EVEX, None), "avx512f avx512vl"),
}
"""Of each word in the table: encodings, and what every instruction there needs; vectors of 64 bytes need no avx512vl."""
_PREFIXES = {"np": 0, "66": 1, "f3": 2, "f2": 3}
_MAPS = 8
_OPCODES = """
legacy  2   00-0b,1c-1e                     *        *  ssse3
legacy  3   0f                              *        *  ssse3
legacy  2   10,14,15,17,20-25,28-2b,30-35,38-41  66  *  sse4_1
legacy  3   08-0e,14-17,20-22,40-42         66       *  sse4_1
legacy  2   37                              66       *  sse4_2
legacy  3   60-63                           66       *  sse4_2
legacy  2   f0,f1                           f2       *  sse4_2
legacy  1   b8                              f3       *  popcnt
legacy  1   bd                              f3       *  abm
legacy  2   f0,f1                           np,66    *  movbe
legacy  2   f6                              66,f3    *  adx
legacy  2   db-df                           66       *  aes
legacy  3   df                              66       *  aes
legacy  3   44                              66       *  pclmulqdq
legacy  2   c8-cd                           np       *  sha_ni
legacy  3   cc                              np       *  sha_ni
legacy  2   cf                              66       *  gfni
legacy  3   ce,cf                           66       *  gfni
vex     1-3 00-ff                           *        *
vex256  1   60-6d,71-76,d1-d5,d7-e5,e8-ef,f1-fe  66  *  avx2
vex256  1   70                              66,f3,f2 *  avx2
vex256  1   e7                              66       *
vex256  2   00-0b,1c-1e,20-25,28-2b,30-35,37-40  66  *  avx2
vex     2   16,36,45-47,58-5a,78,79,8c,8e,90-93  66  *  avx2
vex     3   00-02,38,39,46                  66       *  avx2
vex256  3   0e,0f,42,4c                     66       *  avx2
vex     2   13                              66       *  f16c
vex     3   1d                              66       *  f16c
vex     2   96-9f,a6-af,b6-bf               66       *  fma
vex     2   50-53                           66       0  avx_vnni
vex     2   cf                              66       *  gfni
vex     3   ce,cf                           66       *  gfni
vex     2   db-df                           66       *  aes
vex     3   df                              66       *  aes
vex     3   44                              66       *  pclmulqdq
vex256  2   dc-df                           66       *  vaes
vex256  3   44                              66       *  vpclmulqdq
general 2   f2,f3,f7                        np       *  bmi1
general 2   f5                              np,f3,f2 *  bmi2
general 2   f6                              f2       *  bmi2
general 2   f7                              66,f3,f2 *  bmi2
general 3   f0                              f2       *  bmi2
general 2   49,4b                           *        *  amx_tile
general 2   5c                              f3       *  amx_tile amx_bf16
general 2   5e                              *        *  amx_tile amx_int8
general 1   41,42,44-47,4a,4b,90-93,98,99   *        *  avx512f avx512bw
general 1   41,42,44-47,90-93,98            np       0  avx512f
general 1   4b                              66       0  avx512f
general 1   4a,99                           np       0  avx512f avx512dq
general 1   41,42,44-47,4a,90-93,98,99      66       0  avx512f avx512dq
general 3   30-33                           66       *  avx512f avx512bw
general 3   30,32                           66       1  avx512f
general 3   30,32                           66       0  avx512f avx512dq
evex    1-3 00-ff                           *        *
scalar  1   10,11,2a-2d,51,58-5a,5c-5f,c2   f3,f2    *
scalar  1   78,79,7b                        f3,f2    *
scalar  1   12,13,16,17                     np,66    *
scalar  1   2e,2f                           np,66    *
scalar  1   6e,7e,d6                        66       *
scalar  1   7e                              f3       *
evex    1   60,61,63-65,67-69,6b,71,74,75,d1,d5,d8-da,dc-de,e0,e1,e3-e5,e8-ea,ec-ee,f1,f5,f6,f8,f9,fc,fd  66  *  avx512bw
evex    1   6f,7f                           f2       *  avx512bw
evex    1   70                              f3,f2    *  avx512bw
scalar  1   c4,c5                           66       *  avx512bw
evex    1   54-57                           np,66    *  avx512dq
evex    1   78-7b                           66       *  avx512dq
evex    1   7a                              f3,f2    1  avx512dq
evex    1   5b                              np       1  avx512dq
evex    1   e6                              f3       1  avx512dq
scalar  2   2d,43,4d,4f,99,9b,9d,9f,a9,ab,ad,af,b9,bb,bd,bf  66  *
evex    2   00,04,0b,10-12,1c,1d,20,26,2b,30,38,3a,3c,3e,66,78-7b  66  *  avx512bw
evex    2   75,7d,8d                        66       1  avx512bw
evex    2   75,7d,8d                        66       0  avx512vbmi
evex    2   83                              66       1  avx512vbmi
evex    2   10,20,26,28,29,30               f3       *  avx512bw
evex    2   38,39                           f3       *  avx512dq
evex    2   19,59                           66       0  avx512dq
evex    2   1a,5a                           66       1  avx512dq
evex    2   1b,5b                           66       0  avx512dq
evex    2   40                              66       1  avx512dq
evex    2   44,c4                           66       *  avx512cd
evex    2   2a                              f3       1  avx512cd
evex    2   3a                              f3       0  avx512cd
evex    2   50-53                           66       0  avx512_vnni
evex    2   52,72                           f3       0  avx512_bf16
evex    2   72                              f2       0  avx512_bf16
evex    2   54,8f                           66       *  avx512_bitalg
evex    2   55                              66       *  avx512_vpopcntdq
evex    2   62,63,70-73                     66       *  avx512_vbmi2
evex    2   68                              f2       *  avx512_vp2intersect
evex    2   b4,b5                           66       1  avx512ifma
evex    2   cf                              66       1  gfni
evex    2   cf                              66       0  gfni
evex    2   dc-df                           66       *  vaes
evex    3   *                               np,f3    *  avx512_fp16
scalar  3   0a,27,57,67                     np       *  avx512_fp16
scalar  3   c2                              f3       *  avx512_fp16
scalar  3   0a,0b,17,21,27,55               66       *
scalar  3   51,57,67                        66       *  avx512dq
scalar  3   14,15,20                        66       *  avx512bw
scalar  3   16,22                           66       *  avx512dq
evex    3   0f,3e,3f,42                     66       *  avx512bw
evex    3   18,19,38,39                     66       1  avx512dq
evex    3   1a,1b,3a,3b                     66       0  avx512dq
evex    3   50,56,66                        66       *  avx512dq
evex    3   44                              66       *  vpclmulqdq
evex    3   70-73                           66       *  avx512_vbmi2
evex    3   ce,cf                           66       *  gfni
evex    5,6 00-ff                           *        *  avx512_fp16
scalar  5   10,11,2a,2c,2d,51,58-5a,5c-5f,78,79,7b  f3,f2  *  avx512_fp16
scalar  5   1d,2e,2f                        np       *  avx512_fp16
scalar  5   6e,7e                           66       *  avx512_fp16
scalar  6   13                              np       *  avx512_fp16
scalar  6   2d,43,4d,4f,99,9b,9d,9f,a9,ab,ad,af,b9,bb,bd,bf  66  *  avx512_fp16
scalar  6   57,d7                           f3,f2    *  avx512_fp16
"""
"""Encoding, map, opcodes, prefixes, W and the sets that an instruction needs; later lines replace earlier ones."""


class UsedSets(NamedTuple):
    """How often instructions of each combination of sets were executed; ``()``: those that every x86-64 processor has."""

    executed: dict[tuple[str, ...], int]

    @property
    def names(self) -> list[str]:
        """All sets that were executed, in the order of :data:`SETS`."""
        found = {name for sets in self.executed for name in sets}
        return [name for name in SETS if name in found]

    def share(self, sets: frozenset[str]) -> float:
        """Return the share of the instructions that need one of these sets."""
        every = sum(self.executed.values())
        return sum(count for needed, count in self.executed.items() if sets.intersection(needed)) / every if every else 0.0

    def shares(self) -> dict[str, float]:
        """Return the share of the instructions that need each set."""
        return {name: self.share(frozenset((name,))) for name in self.names}


_BITS = {name: np.uint64(1 << bit) for bit, name in enumerate(SETS)}
_AVX2, _AVX512BW, _AVX512VL = (_BITS[name] for name in ("avx2", "avx512bw", "avx512vl"))
_IS_PREFIX = np.isin(np.arange(256), list(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3"))
_MAY_NEED = np.isin(np.arange(256), list(b"\x0f\x62\xc4\xc5"))
"""First bytes, after prefixes, of all that more than the first x86-64 has."""


def _ranges(text: str, most: int) -> list[slice]:
    """Return the ranges in ``1,2-4``, hexadecimal; ``*``: all below ``most``."""
    if text == "*":
        return [slice(most)]
    ends = [[int(end, 16) for end in part.split("-")] for part in text.split(",")]
    return [slice(end[0], end[-1] + 1) for end in ends]


@cache
def _table() -> NDArray[np.uint64]:
    """Return a bit a set for each encoding, map, prefix, W and opcode."""
    table = np.zeros((len(_ENCODED), _MAPS, 4, 2, 256), dtype=np.uint64)
    for line in _OPCODES.split("\n")[1:-1]:
        word, maps, opcodes, prefixes, wide, *sets = line.split()
        encodings, family = _ENCODINGS[word]
        needed = sum(_BITS[name] for name in (*family.split(), *sets))
        prefix = range(4) if prefixes == "*" else [_PREFIXES[one] for one in prefixes.split(",")]
        lines = _ranges(maps, _MAPS), prefix, _ranges(wide, 2), _ranges(opcodes, 256)
        for some_maps, one, some_wide, some_opcodes in product(*lines):
            table[encodings, some_maps, one, some_wide, some_opcodes] = needed
    return table


def used_sets(definitions: Definitions, counters: NDArray[np.uint64]) -> UsedSets:
    """Return which sets the executed code belongs to; code that the tracer did not send counts as what every x86-64 has."""
    counts = counter_values(counters, definitions.segments["counter"])[definitions.segment_of_instruction]
    rows, segment = definitions.instructions, definitions.segment_of_instruction
    begin = definitions.first_code[segment] + rows["offset"]
    sent = rows["offset"].astype(np.int64) + rows["length"] <= definitions.segments["code_bytes"][segment]
    counted = (counts > 0) & ((rows["flags"] & CONTINUED) == 0)
    needed = np.zeros(len(rows), dtype=np.uint64)
    known = np.flatnonzero(counted & sent)
    needed[known] = sets_of(definitions.code, begin[known])
    combinations, where = np.unique(needed[counted], return_inverse=True)
    executed = np.zeros(len(combinations), dtype=np.uint64)
    np.add.at(executed, where, counts[counted])
    names = [tuple(name for bit, name in enumerate(SETS) if one >> bit & 1) for one in combinations.tolist()]
    return UsedSets(dict(zip(names, executed.tolist(), strict=True)))


def sets_of(code: NDArray[np.uint8], begin: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the sets that the instructions which begin there need, as bits in the order of :data:`SETS`."""
    code = np.append(code, np.zeros(16, dtype=np.uint8))
    at, prefix = begin.astype(np.int64), np.zeros(len(begin), dtype=np.int64)
    for _ in range(4):  # no compiler writes more
        byte = code[at]
        prefix[(byte == 0x66) & (prefix == 0)] = 1
        prefix[byte == 0xF3] = 2
        prefix[byte == 0xF2] = 3
        at += _IS_PREFIX[byte]
    at += code[at] >> 4 == 4
    needed = np.zeros(len(begin), dtype=np.uint64)
    some = np.flatnonzero(_MAY_NEED[code[at]])
    needed[some] = _sets_at(code, at[some], prefix[some])
    return needed


def _sets_at(code: NDArray[np.uint8], at: NDArray[np.int64], prefix: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the sets of instructions whose opcode, or VEX or EVEX, is there, after these prefixes."""
    first, second, third, last = (code[at + byte].astype(np.int64) for byte in range(4))
    short, long, evex = first == 0xC5, first == 0xC4, first == 0x62
    coded = short | long | evex
    far = (first == 0x0F) & np.isin(second, (0x38, 0x3A))
    opcode_map = np.select([long, evex, far], [second & 31, second & 7, np.where(second == 0x38, 2, 3)], 1)
    opcode_at = at + np.select([evex, long, short | far], [4, 3, 2], 1)
    payload = np.where(short, second, third)
    prefix = np.where(coded, payload & 3, prefix)
    wide = np.where(long | evex, payload >> 7, 0)
    encoding = np.select([evex, short | long], [_EVEX, _VEX_128 + (payload >> 2 & 1)], _LEGACY)
    opcode, mod_rm = code[opcode_at], code[opcode_at + 1].astype(np.int64)
    found = _table()[encoding, np.minimum(opcode_map, _MAPS - 1), prefix, wide, opcode]
    of_register, vex = mod_rm >> 6 == 3, short | long
    found = np.where(vex & of_register & (opcode_map == 2) & np.isin(opcode, (0x18, 0x19)), found | _AVX2, found)
    bytewise = evex & (opcode_map == 1) & (opcode == 0x73) & np.isin(mod_rm >> 3 & 7, (3, 7))
    found = np.where(bytewise, found | _AVX512BW, found)
    longest = (last >> 5 & 3 == 2) | ((last >> 4 & 1 == 1) & of_register)  # rounding is of whole vectors
    return np.asarray(np.where(evex & longest, found & ~_AVX512VL, found))
