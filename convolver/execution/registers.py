"""Registers as numbers: one for all names of the parts of a register (``al``, ``ax``, ``eax`` and ``rax`` are one)."""

from __future__ import annotations

FLAGS = 80
ACCUMULATOR = 0
STACK_POINTER = 4
_GENERAL = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi")
_MASKS, _FLOATING, _VECTORS = 70, 82, 32


def _names() -> dict[str, int]:
    numbers = {name: number for number, name in enumerate(_GENERAL)}
    for letter in "abcd":
        number = numbers[f"r{letter}x"]
        numbers |= {f"e{letter}x": number, f"{letter}x": number, f"{letter}l": number, f"{letter}h": number}
    for name in ("si", "di", "bp", "sp"):
        numbers |= {prefix + name: numbers[f"r{name}"] for prefix in ("e", "")} | {f"{name}l": numbers[f"r{name}"]}
    for number in range(8, 16):
        numbers |= {f"r{number}{suffix}": number for suffix in ("", "d", "w", "b")}
    for number in range(32):
        numbers |= {f"{width}mm{number}": _VECTORS + number for width in "xyz"}
    for number in range(8):
        numbers |= {f"k{number}": _MASKS + number, f"st({number})": _FLOATING + number, f"mm{number}": _FLOATING + number}
    return numbers | {"rflags": FLAGS, "eflags": FLAGS}


NUMBERS = _names()
"""Number of each register by its name in lower case; names that are missing (segments, control) carry no data that matters."""


def is_vector(number: int) -> bool:
    """Return True for xmm, ymm and zmm registers."""
    return _VECTORS <= number < _MASKS - 6


def is_integer(number: int) -> bool:
    """Return True for general registers but the stack pointer, which is renamed apart."""
    return number < 16 and number != STACK_POINTER


def is_vector_file(number: int) -> bool:
    """Return True for all that lives in the file of vectors: x87 and MMX, too."""
    return is_vector(number) or number >= _FLOATING


def is_partial(name: str) -> bool:
    """Return True for the name of 8 or 16 bits of a general register: writing them keeps the others."""
    number = NUMBERS.get(name)
    if number is None or number >= 16:
        return False
    return not (name.startswith(("e", "r")) and not name.endswith(("w", "b")))
