"""Finds AVX-512 (EVEX-coded) instructions before a program runs: Valgrind ends with SIGILL at the first one.

Looked at are the program and those libraries it needs that do not belong to the system (the system's have such code after
dispatch by CPU, and Valgrind's CPU has no AVX-512). Two steps: bytes that look like an EVEX prefix are searched in the executable
sections, quickly and with false alarms; then objdump decodes the functions around them. Without objdump nothing is found: rather
a late SIGILL than a refusal by mistake. Functions whose names tell that they are chosen at run time, and objects that ask the CPU
themselves (cpuid), pass, unless the code lies in main.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convolver.tracing.code_sections import candidates
from convolver.tracing.elf import MALFORMED, Functions, executable_sections, open_elf, own_libraries, read_functions

CHOSEN_AT_RUN_TIME = re.compile(r"avx_?512|evex|x86[-_]64[-_]v4|skx|skylake|icelake|cannonlake|sapphire|znver[45]|zmm", re.I)
DISPATCHERS = frozenset(("__cpu_model", "__cpu_indicator_init", "__x86_get_cpuid_feature_leaf", "__get_cpuid"))
SMALL_TEXT = 512 << 10
"""In code up to this size every candidate is decoded, in larger code only such with another one within 64 bytes."""
MOST_FUNCTIONS = 200
_LINE = re.compile(rb"^\s*([0-9a-f]+):\t62 ", re.M)


@dataclass(frozen=True)
class Avx512Code:
    """Where AVX-512 code was found; ``function`` is empty in stripped objects."""

    path: Path
    function: str


def _spans(elf: Any, functions: Functions) -> tuple[list[tuple[int, int]], bool]:
    """Return address ranges worth decoding, and whether the object asks the CPU what it can."""
    spans: dict[tuple[int, int], int] = {}
    dispatches = False
    for base, code in executable_sections(elf):
        dispatches |= bool(len(code) > 1 and np.any((code[:-1] == 0x0F) & (code[1:] == 0xA2)))
        for place in candidates(code, clustered=len(code) > SMALL_TEXT).tolist():
            span = _span(functions, base + place, base, base + len(code))
            spans[span] = spans.get(span, 0) + 1
    ordered = sorted(spans, key=lambda span: spans[span] / (span[1] - span[0] + 64), reverse=True)
    return ordered[:MOST_FUNCTIONS], dispatches


def _span(functions: Functions, address: int, first: int, last: int) -> tuple[int, int]:
    """Return the function around an address, or the section when it is in none."""
    place = int(np.searchsorted(functions.start, np.uint64(address), side="right")) - 1
    if place >= 0 and address < int(functions.end[place]) <= last:
        return int(functions.start[place]), int(functions.end[place])
    return first, last


def _decodes(objdump: str, path: Path, span: tuple[int, int]) -> int | None:
    """Return the address of the first EVEX instruction in a range: in 64-bit code every instruction beginning with 62."""
    words = [objdump, "-d", "-w", f"--start-address={span[0]}", f"--stop-address={span[1]}", str(path)]
    try:
        done = subprocess.run(words, capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _LINE.search(done.stdout)
    return int(match[1], 16) if match else None


def _imports_dispatcher(elf: Any) -> bool:
    return any(
        symbol.name in DISPATCHERS
        for name in (".dynsym", ".symtab")
        if (table := elf.get_section_by_name(name)) is not None and table["sh_size"] < 1 << 20
        for symbol in table.iter_symbols()
    )


def _scan(path: Path, objdump: str) -> Avx512Code | None:
    with open(path, "rb") as file:
        elf = open_elf(file)
        if elf is None:
            return None
        functions = read_functions(elf)
        spans, dispatches = _spans(elf, functions)
        for span in spans:
            name = functions.at(np.array([span[0]], dtype=np.uint64))[0]
            if CHOSEN_AT_RUN_TIME.search(name):
                continue
            if dispatches and name != "main":
                continue
            address = _decodes(objdump, path, span)
            if address is None:
                continue
            if name != "main" and _imports_dispatcher(elf):
                continue
            return Avx512Code(path, name)
    return None


def find_avx512(path: Path) -> Avx512Code | None:
    """Return the first function with AVX-512 code that would run, in a program or a library of its own, or None."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    path = path.resolve()
    try:
        objects = [path, *own_libraries(path)]
        return next((found for own in objects if (found := _scan(own, objdump)) is not None), None)
    except MALFORMED:
        return None
