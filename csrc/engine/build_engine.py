"""Builds the native tracing engine. Called by setup.py; needs nothing but the standard library, gcc and binutils.

The engine is a blob of code for a fixed address, without libc, inside of the program that puts it into traced programs.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
PROGRAM = "convolver-engine"
DECODER = ("x86_decode", "x86_opcodes", "x86_groups", "x86_vectors")
BLOB = (
    *(*DECODER, "blob_system", "blob_segments", "blob_emit", "blob_exits", "blob_filter", "blob_lanes", "blob_translate"),
    *("blob_run", "blob_parts", "blob_threads", "blob_calls"),
    *("blob_pace", "blob_outside", "blob_bursts", "blob_family", "blob_marks", "blob_objects", "blob_signals"),
    *("blob_follow", "blob_log", "elf_symbols", "thread_calls", "thread_functions", "thread_teams"),
)
CONTROLLER = (
    *(*DECODER, "engine_control", "engine_inject", "engine_family", "engine_wire", "engine_definitions", "engine_counts"),
    *("engine_parts", "engine_objects", "engine_threads", "elf_symbols", "thread_functions"),
)
FREESTANDING = [
    *("-O2", "-std=gnu11", "-fPIE", "-ffreestanding", "-fno-stack-protector", "-fcf-protection=none", "-mgeneral-regs-only"),
    *("-mno-red-zone", "-fno-asynchronous-unwind-tables", "-fno-tree-loop-distribute-patterns"),
    "-fbuiltin",  # copies of a few bytes are moves, not calls
]
ASSERTS = [] if os.environ.get("CONVOLVER_ASSERTS") else ["-DNDEBUG"]
"""The code checks its invariants in a build with CONVOLVER_ASSERTS=1, as the compiled core does."""
LAYOUT = """SECTIONS {
    . = 0x200000000000;
    .all : { *(.text.first) *(.text*) *(.rodata*) *(.data*) *(.got*) *(.bss*) *(COMMON) }
    /DISCARD/ : { *(.eh_frame*) *(.comment) *(.note*) }
}
"""


def build_engine(target: Path) -> str:
    """Compile the engine into ``target/engine``; return what was done."""
    if platform.machine() not in ("x86_64", "AMD64") or not sys.platform.startswith("linux"):
        return f"engine not built: it needs Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
    compiler = shutil.which(os.environ.get("CC", "").split(" ")[0] or "gcc") or shutil.which("cc")
    if not compiler:
        return "engine not built: no C compiler found; install it with `apt install gcc` and build again"
    folder = target / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory() as work:
            built = _build(compiler, Path(work))
            staged = folder / f".{PROGRAM}.new"
            shutil.copy2(built, staged)
            staged.replace(folder / PROGRAM)
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stderr.splitlines() if "error" in line), error.stderr.strip()[-200:])
        return f"engine not built: {first.strip()}"
    except OSError as error:
        return f"engine not built: {error}"
    return f"engine built in {folder}"


def _build(compiler: str, work: Path) -> Path:
    objects = []
    for name in ("blob_entry", *BLOB):
        source = SOURCE / "blob_entry.S" if name == "blob_entry" else _source(name)
        objects.append(str(work / f"{name}.o"))
        _run(compiler, *FREESTANDING, *ASSERTS, "-c", str(source), "-o", objects[-1])
    layout, linked, blob, program = (work / name for name in ("layout", "blob.elf", "blob.bin", PROGRAM))
    layout.write_text(LAYOUT)
    static = ["-static", "-no-pie", "-nostdlib", "-Wl,-z,max-page-size=4096", "-Wl,--build-id=none", f"-Wl,-T,{layout}"]
    _run(compiler, *static, *objects, "-o", str(linked))
    _run("objcopy", "-O", "binary", "--set-section-flags", ".all=alloc,load,contents", str(linked), str(blob))
    sources = [str(_source(name)) for name in CONTROLLER]
    _run(compiler, "-O2", "-std=gnu11", "-Wall", "-Wextra", *ASSERTS, f'-DCV_BLOB_FILE="{blob}"', *sources, "-o", str(program))
    return program


def _source(name: str) -> Path:
    return (SOURCE.parent / "threads" if name.startswith("thread_") else SOURCE) / f"{name}.c"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
