"""Builds the Valgrind tool. Called by setup.py; needs nothing but the standard library, a C compiler and Debian's ``valgrind``.

The tool is linked against the static libraries of the installed Valgrind and put, with copies (a wheel holds no links) of the two
files that Valgrind's launcher looks for beside a tool, into one folder: ``VALGRIND_LIB=FOLDER valgrind --tool=convolver``.
Three of its parts depend on Valgrind's version, the wraps of FMA and of prefetches and the XMM peephole: each build is tried on a
tiny program, and where it fails a build without them is tried next.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
TOOL = "convolver-amd64-linux"
BESIDE = ("default.supp", "vgpreload_core-amd64-linux.so")
MISSING = "tracer not built: {}; install it with `apt install {}` and build again to use `convolver trace`"

COMPILE = [
    *("-m64", "-O2", "-g", "-std=gnu11", "-fno-stack-protector", "-fno-strict-aliasing", "-fno-builtin", "-fomit-frame-pointer"),
    *("-fno-pie", "-U_FORTIFY_SOURCE"),
    *("-DVGA_amd64=1", "-DVGO_linux=1", "-DVGP_amd64_linux=1", "-DVGPV_amd64_linux_vanilla=1"),
    *([] if os.environ.get("CONVOLVER_ASSERTS") else ["-DNDEBUG"]),  # of what the tool shares with the native engine
]
LINK = ["-static", "-nodefaultlibs", "-nostartfiles", "-u", "_start", "-no-pie", "-m64", "-Wl,--build-id=none"]
END_WRAP = tuple(f"-Wl,--wrap=vgPlain_{name}" for name in ("exit", "client_exit", "kill_self"))
FMA_WRAP = tuple(f"-Wl,--wrap=h_generic_calc_MAdd{width}" for width in ("F64", "F32"))
PREFETCH_WRAP = "-Wl,--wrap=disInstr_AMD64"


@dataclass(frozen=True)
class Valgrind:
    """Where the installed Valgrind keeps what the tool is built from."""

    include: Path
    libraries: Path
    tools: Path
    load_address: str


@dataclass(frozen=True)
class Variant:
    """One way to build the tool."""

    name: str
    prefetch: bool
    fma: bool
    fuse: bool


VARIANTS = (
    Variant("", True, True, True),
    Variant(" without the FMA wrap", True, False, True),
    Variant(" without the wraps of FMA and prefetches", False, False, True),
    Variant(" without wraps and the XMM peephole", False, False, False),
)


def build_tracer(target: Path) -> str:
    """Compile the tracer into ``target/valgrind`` where Valgrind's headers and libraries are found; return what was done."""
    if platform.machine() not in ("x86_64", "AMD64") or not sys.platform.startswith("linux"):
        return f"tracer not built: it needs Linux on x86-64, and this is {platform.system()} on {platform.machine()}"
    compiler = shutil.which(os.environ.get("CC", "").split(" ")[0] or "gcc") or shutil.which("cc")
    if not compiler:
        return MISSING.format("no C compiler found", "gcc")
    valgrind = find_valgrind()
    if not valgrind:
        return MISSING.format("no Valgrind with its headers and static libraries found", "valgrind")
    try:
        return _build_best(compiler, valgrind, target / "valgrind")
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stderr.splitlines() if "error" in line), error.stderr.strip()[-200:])
        return f"tracer not built: Valgrind in {valgrind.tools} does not fit its sources ({first.strip()})"
    except OSError as error:
        return f"tracer not built: {error}"


def find_valgrind() -> Valgrind | None:
    """Find the installed Valgrind's headers, libraries and tools; None when one of them is missing."""
    roots = [Path(prefix) for prefix in (_pkg_config("prefix"), _launcher_prefix()) if prefix]
    packaged = [] if roots and (roots[0] / "include/valgrind").exists() else _packaged_folders()
    include = [Path(_pkg_config("includedir") or "/nonexistent"), *[root / "include/valgrind" for root in roots], *packaged]
    libdir = Path(_pkg_config("libdir") or "/nonexistent")
    lib_names = ("lib/valgrind", "libexec/valgrind", f"lib/{platform.machine()}-linux-gnu/valgrind", "lib64/valgrind")
    libraries = [libdir / "valgrind", *[root / name for root in roots for name in lib_names], *packaged]
    launched = _launcher_tools()
    tools = [*([launched] if launched else []), *[root / name for root in roots for name in lib_names], *packaged]
    found = (
        _folder_with("pub_tool_basics.h", include),
        _folder_with("libcoregrind-amd64-linux.a", libraries),
        _folder_with("vgpreload_core-amd64-linux.so", tools),
    )
    if not all(found):
        return None
    return Valgrind(*found, _pkg_config("valt_load_address") or "0x58000000")  # type: ignore[arg-type]


def _folder_with(name: str, folders: list[Path]) -> Path | None:
    return next((folder for folder in folders if (folder / name).is_file()), None)


def _output(*command: str) -> str:
    """The command's standard output and error; empty where it cannot run."""
    try:
        plain = {name: value for name, value in os.environ.items() if name != "VALGRIND_LIB"}
        done = subprocess.run(command, env=plain, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def _pkg_config(variable: str) -> str:
    if not shutil.which("pkg-config"):
        return ""
    answer = _output("pkg-config", f"--variable={variable}", "valgrind").strip()
    return answer if "\n" not in answer else ""


def _launcher_tools() -> Path | None:
    """The wrapper's own answer: with -d it says which tool binary it starts."""
    answer = re.search(r"launching (\S+)/none-amd64-linux", _output("valgrind", "-d", "--tool=none", "/bin/true"))
    return Path(answer[1]) if answer else None


def _launcher_prefix() -> str:
    valgrind = shutil.which("valgrind")
    return str(Path(valgrind).resolve().parent.parent) if valgrind else ""


def _packaged_folders() -> list[Path]:
    files = [Path(line) for line in _output("dpkg", "-L", "valgrind").splitlines() if line.startswith("/")]
    return list(dict.fromkeys(path.parent for path in files))


def _build_best(compiler: str, valgrind: Valgrind, target: Path) -> str:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in BESIDE:
            shutil.copyfile(valgrind.tools / name, work / name)
            (work / name).chmod(0o755 if name.endswith(".so") else 0o644)
        problem = ""
        for variant in VARIANTS:
            _link(compiler, valgrind, work, variant)
            problem = self_test(compiler, work)
            if not problem:
                for name in (TOOL, *BESIDE):
                    staged = target / f".{name}.new"
                    shutil.copy2(work / name, staged)
                    staged.replace(target / name)
                return f"tracer built in {target}{variant.name}"
    return f"tracer not built: its self-test failed ({problem})"


def _link(compiler: str, valgrind: Valgrind, work: Path, variant: Variant) -> None:
    left_out = {name for name, has in (("fma.c", variant.fma), ("prefetch.c", variant.prefetch)) if not has}
    sources = [path for path in sorted(SOURCE.glob("*.c")) if path.name not in left_out]
    sources += sorted((SOURCE.parent / "engine").glob("x86_*.c"))  # the decoder
    sources += sorted((SOURCE.parent / "threads").glob("*.c"))
    libraries = [str(valgrind.libraries / f"{name}-amd64-linux.a") for name in ("libcoregrind", "libvex", "libgcc-sup")]
    libraries.insert(2, "-lgcc")
    command = [compiler, *COMPILE, f"-DCV_FUSE={int(variant.fuse)}", "-isystem", str(valgrind.include)]
    wraps = [*END_WRAP, *(FMA_WRAP if variant.fma else ()), *([PREFETCH_WRAP] if variant.prefetch else [])]
    command += [*LINK, f"-Wl,-Ttext-segment={valgrind.load_address}", *wraps]
    command += ["-o", str(work / TOOL), *map(str, sources), *[lib for lib in libraries if lib == "-lgcc" or Path(lib).exists()]]
    subprocess.run(command, check=True, capture_output=True, text=True)


def self_test(compiler: str, tools: Path) -> str:
    """Trace a tiny program whose counts are known with the tool in ``tools``; return what is wrong, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "selftest"
        build = [compiler, "-nostdlib", "-static", "-o", str(program), str(SOURCE / "selftest.S")]
        subprocess.run(build, check=True, capture_output=True, text=True)
        # The reference is Valgrind itself: it may offer the program fewer processor features than the host has.
        native = subprocess.run(["valgrind", "-q", "--tool=none", program], capture_output=True, check=False).returncode
        stream, counters = Path(folder) / "stream", Path(folder) / "counters"
        with stream.open("wb") as out:
            command = ["valgrind", "-q", "--vgdb=no", "--tool=convolver", f"--wire-fd={out.fileno()}", f"--counters={counters}"]
            traced = subprocess.run(
                [*command, program],
                env={**os.environ, "VALGRIND_LIB": str(tools)},
                pass_fds=[out.fileno()],
                capture_output=True,
                timeout=60,
                check=False,
            )
        if traced.returncode != native:
            said = traced.stderr.decode(errors="replace").strip().splitlines()
            return f"exit status {traced.returncode}, not {native}{': ' + said[-1] if said else ''}"
        return _wrong_counts(stream.read_bytes(), counters.read_bytes(), native)


def _wrong_counts(stream: bytes, counters: bytes, native: int) -> str:
    """Compare the last record and the sum of all counters with what selftest.S executes."""
    if len(stream) < 40 or stream[-24:-16] != (0xE2 << 56 | 2).to_bytes(8, "little"):
        return "the stream has no last record"
    if int.from_bytes(stream[-12:-8], "little") != native:
        return "the last record has another exit status"
    used = int.from_bytes(counters[16:24], "little")
    visits = sum(int.from_bytes(counters[4096 + 8 * i : 4104 + 8 * i], "little") for i in range(used))
    expected = 1 + 1000 + 2
    return "" if visits == expected else f"{visits} segments counted, not {expected}"
