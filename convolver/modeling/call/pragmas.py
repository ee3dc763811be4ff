"""Translates CALL's pragmas in a C source into calls of the runtime.

::

    #pragma cll uses mpi papi                     drivers: mpi, papi (counters), nws (network), ganglia (host)
    #pragma cll product product[0] + product[1]*N*N*N/P
    ... code ...
    #pragma cll end product

The formula's names become the parameters of the region, its terms the formula of the analysis.
"""

from __future__ import annotations

import re

from convolver.errors import FormatError, ModelError
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
