"""Translates CALL's pragmas in a C source into calls of the runtime, and builds that with the user's own compiler.

::

    #pragma cll uses mpi papi                     drivers: mpi, papi (counters), nws (network), ganglia (host)
    #pragma cll product product[0] + product[1]*N*N*N/P
    ... code ...
    #pragma cll end product

The formula's names become the parameters of the region, its terms the formula of the analysis.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from convolver.errors import FormatError, ModelError, ToolError, ToolNotFoundError
from convolver.modeling.expression import names_of, split_terms

DRIVERS = {"mpi": "mpi", "papi": "counters", "counters": "counters", "nws": "network", "network": "network"}
DRIVERS |= {"ganglia": "host", "host": "host", "clock": "clock", "cycle": "clock"}
_PRAGMA = re.compile(r"^(\s*)#\s*pragma\s+cll\s+(\S+)\s*(.*?)\s*$")


def instrument(source: str, name: str = "source.c") -> str:
    """Return the source with calls in place of pragmas; line numbers stay those of ``name``.

    Raises :class:`FormatError` with the line of a pragma that cannot be translated or a region that is not closed in order.
    """
    lines: list[str] = []
    open_regions: list[str] = []
    for number, line in enumerate(source.splitlines(), 1):
        found = _PRAGMA.match(line)
        if not found:
            lines.append(line)
            continue
        indent, word, rest = found.groups()
        try:
            lines.append(indent + _translated(word, rest, open_regions))
        except (ValueError, ModelError) as error:
            raise FormatError(f"{name}, line {number}: {error}.") from error
    if open_regions:
        raise FormatError(f"{name}: the region '{open_regions[-1]}' has no '#pragma cll end {open_regions[-1]}'.")
    return f'#include "convolver_call.h"\n#line 1 "{name}"\n' + "\n".join(lines) + "\n"


def _translated(word: str, rest: str, open_regions: list[str]) -> str:
    if word == "uses":
        return f'convolver_use("{_drivers(rest)}");'
    if word == "report":
        return "/* records are written at the end of each region */"
    if word == "end":
        if not open_regions or open_regions[-1] != rest:
            raise ValueError(f"'end {rest}' closes no region; open is {open_regions[-1] if open_regions else 'none'}")
        return f'convolver_end("{open_regions.pop()}");'
    if not re.fullmatch(r"[A-Za-z_]\w*", word):
        raise ValueError(f"'{word}' is no name of a region")
    open_regions.append(word)
    formula = analysis_formula(word, rest)
    names = sorted(names_of(formula)) if formula else []
    arguments = "".join(f', "{name}", (double)({name})' for name in names)
    begin = f'convolver_begin("{word}"{arguments}, (char *)0);'
    return (f'convolver_formula("{word}", "{formula}"); ' if formula else "") + begin


def _drivers(rest: str) -> str:
    words = [word for word in re.split(r"[\s,()]+", rest.lower()) if word]
    unknown = [word for word in words if word not in DRIVERS]
    if unknown:
        raise ValueError(f"the driver '{unknown[0]}' is unknown; use {', '.join(DRIVERS)}")
    return " ".join(dict.fromkeys(["clock", *(DRIVERS[word] for word in words)]))


def analysis_formula(region: str, text: str) -> str:
    """Return CALL's formula without its coefficients: ``a[0] + a[1]*N*N/P`` of region a becomes ``1 + N * N / P``."""
    if not text:
        return ""
    coefficient = re.escape(region) + r"\s*\[\s*\d+\s*\]"
    plain = re.sub(coefficient + r"\s*\*\s*", "", text)
    plain = re.sub(r"\*\s*" + coefficient, "", plain)
    return " + ".join(split_terms(re.sub(coefficient, "1", plain)))


_PACKAGED = Path(__file__).parents[2] / "_programs" / "call"
_CHECKOUT = Path(__file__).parents[3] / "csrc" / "call"


def sources() -> Path:
    """Return the folder of the runtime's sources; raises :class:`ToolNotFoundError` when the package lacks them."""
    for folder in (_CHECKOUT, _PACKAGED):
        if (folder / "convolver_call.h").exists():
            return folder
    raise ToolNotFoundError("The sources of the CALL runtime are missing; build or install Convolver again.")


def build_runtime(folder: str | Path, *, compiler: str = "cc", mpi: bool = False, fortran: str | None = None) -> Path:
    """Compile ``libconvolver_call.a`` into ``folder`` beside the header (and the Fortran module) and return its path.

    ``mpi`` adds the MPI and network drivers, for which ``compiler`` must be an MPI wrapper (mpicc, smpicc).
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    flags = ["-O2", "-std=gnu11", *(["-DCONVOLVER_CALL_MPI"] if mpi else [])]
    names = ["call", "drivers", *(["driver_mpi"] if mpi else [])]
    for name in names:
        _run([compiler, *flags, "-c", str(sources() / f"{name}.c"), "-o", str(target / f"{name}.o")])
    objects = [str(target / f"{name}.o") for name in names]
    if fortran:
        module = target / "convolver_call_module.o"
        _run([fortran, "-O2", f"-J{target}", "-c", str(sources() / "convolver_call.f90"), "-o", str(module)])
        objects.append(str(module))
    library = target / "libconvolver_call.a"
    library.unlink(missing_ok=True)
    _run(["ar", "rcs", str(library), *objects])
    for name in objects:
        Path(name).unlink()
    shutil.copyfile(sources() / "convolver_call.h", target / "convolver_call.h")
    return library


def _run(command: list[str]) -> None:
    if not shutil.which(command[0]):
        raise ToolNotFoundError(f"The compiler '{command[0]}' is not installed; name another one.")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        first = next((line for line in done.stderr.splitlines() if "rror" in line), done.stderr.strip()[-200:])
        raise ToolError(f"{command[0]} could not compile the CALL runtime: {first.strip()}.")
