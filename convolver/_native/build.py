"""cffi build of the C core: every ``csrc/{common,trace,sim,replay}/*.c`` behind every ``*.cdef.h`` beside this file."""

from __future__ import annotations

import os
from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("common", "trace", "sim", "replay")
SHARED = ("status.cdef.h", "refs.cdef.h")
"""Declarations that the others use, so that they come first."""


def _sources() -> list[str]:
    # setuptools wants paths relative to setup.py's folder.
    return sorted(os.path.relpath(path, ROOT) for folder in FOLDERS for path in (ROOT / "csrc" / folder).glob("*.c"))


def _headers() -> list[str]:
    return sorted(path.name for path in (ROOT / "csrc" / "include").glob("*.h"))


def _declarations() -> str:
    paths = sorted(Path(__file__).parent.glob("*.cdef.h"), key=lambda path: (path.name not in SHARED, path.name))
    return "\n".join(path.read_text() for path in paths)


ffibuilder = FFI()
ffibuilder.cdef(_declarations())
ffibuilder.set_source(
    "convolver._native._core",
    "\n".join(f'#include "{name}"' for name in _headers()),
    sources=_sources(),
    include_dirs=["csrc/include"],
    libraries=["m"],
    extra_compile_args=["-std=gnu11", "-O3", "-Wall", "-Wextra", "-fno-strict-aliasing", "-Wno-unused-parameter"],
)
