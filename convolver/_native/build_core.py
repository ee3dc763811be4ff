"""cffi build of the C core: every ``csrc/{common,trace,sim,replay,core}/*.c`` after the declarations of ``csrc/include/*.h``."""

from __future__ import annotations

import os
import re
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "csrc" / "include"
RECORD = ROOT / "csrc" / "mpi" / "record.h"
FOLDERS = ("common", "trace", "sim", "replay", "core")
FOREIGN = frozenset(("convolver_markers.h",))
"""Headers for other programs: nothing of the core is in them."""

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^#include "(\w+\.h)"', re.MULTILINE)
_CONSTANT = re.compile(r"^#define ([A-Z]\w*) +[-\w()<|*+ ]+$")
_ASSERTION = re.compile(r"_Static_assert\s*\(.*?\);", re.DOTALL)
_NAMED_LENGTH = re.compile(r"\[[^\]]*[A-Z][^\]]*\]")
_VALUE = re.compile(r"= *[^,}\n]+")


def _sources() -> list[str]:
    # setuptools wants paths relative to setup.py's folder.
    return sorted(os.path.relpath(path, ROOT) for folder in FOLDERS for path in (ROOT / "csrc" / folder).glob("*.c"))


def _depends() -> list[str]:
    return sorted(os.path.relpath(path, ROOT) for path in (ROOT / "csrc").glob("*/*.h"))


def _headers() -> dict[str, str]:
    """Return the texts of the core's headers, each after those that it includes."""
    texts = {path.name: path.read_text() for path in (RECORD, *INCLUDE.glob("*.h")) if path.name not in FOREIGN}
    ordered: dict[str, str] = {}

    def add(name: str) -> None:
        for needed in _INCLUDE.findall(texts[name]):
            add(needed)
        ordered.setdefault(name, texts[name])

    for name in sorted(texts):
        add(name)
    return ordered


def declarations(header: str) -> str:
    """Return what cffi can read of a header: comments and preprocessor gone, values left to the compiler."""
    text = _ASSERTION.sub("", _COMMENT.sub("", header).replace("\\\n", " "))
    lines = []
    for line in text.splitlines():
        if constant := _CONSTANT.match(line.rstrip()):
            lines.append(f"#define {constant[1]} ...")
        elif not line.startswith("#"):
            lines.append(line)
    return _VALUE.sub("= ...", _NAMED_LENGTH.sub("[...]", "\n".join(lines)))


ASSERTS: dict[str, list[object]] = (
    {"undef_macros": ["NDEBUG"]} if os.environ.get("CONVOLVER_ASSERTS") else {"define_macros": [("NDEBUG", None)]}
)
"""The C code checks its invariants in a build with CONVOLVER_ASSERTS=1; in all others that costs nothing."""

ffibuilder = FFI()
ffibuilder.cdef("\n".join(declarations(text) for text in _headers().values()))
ffibuilder.cdef(
    'extern "Python" int cv_python_interrupts(void);\n'
    'extern "Python" cv_status cv_python_batch(void *batches, const cv_refs *refs, const cv_batch *batch);'
)
ffibuilder.set_source(
    "convolver._native._core",
    "\n".join(f'#include "{name}"' for name in _headers()),
    sources=_sources(),
    depends=_depends(),
    include_dirs=["csrc/include", "csrc/mpi"],
    libraries=["m", "pthread"],
    **ASSERTS,
    extra_compile_args=[
        *("-std=gnu11", "-O3", "-Wall", "-Wextra", "-fno-strict-aliasing", "-Wno-unused-parameter"),
        "-fvisibility=hidden",  # else each call of a function that others could replace goes through a table, and none is inlined
    ],
)
