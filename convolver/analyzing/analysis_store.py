"""The store of analyses: what was found out once of a trace on a machine is not found out again.

An entry is kept by what it follows from: the trace, the fields of the profile that matter, and the code that makes it. So a
machine with other curves or another name costs nothing, and neither does a change of the package that analyses do not depend on.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import convolver
from convolver.analyzing.program_analysis import Analysis, MachineAnalysis
from convolver.errors import ConvolverError, FormatError
from convolver.locations import cache_folder
from convolver.outputs import save_bytes
from convolver.simulation.hit_rates import HitRates

if TYPE_CHECKING:
    from convolver.signature.signature import Signature

MOST_FILES = 1000
"""Files that are kept, two of an analysis; the oldest go first."""
DIGEST_BYTES = hashlib.sha256().digest_size
CODE = ("_native", "machine", "signature", "tracing", "simulation", "execution", "analyzing")
"""Packages that analyses follow from."""


class StoredAnalysis(NamedTuple):
    """What is kept of one machine: its part of an analysis and the simulated counts, both under the key in place of its name."""

    part: MachineAnalysis
    hit_rates: HitRates


@cache
def code_version() -> str:
    """Return a hash of the code that analyses follow from: sources, the compiled core, core tables."""
    digest = hashlib.sha256()
    root = Path(convolver.__file__).parent
    for package in CODE:
        for path in sorted((root / package).rglob("*")):
            if path.suffix in (".py", ".so", ".json", ".toml") and not path.name.endswith(".machine.json"):
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _path(trace: str, key: str, what: str) -> Path:
    folder = cache_folder() / "analyses"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{trace}-{key}-{code_version()}.{what}"


def _paths(trace: str, key: str) -> tuple[Path, Path]:
    return _path(trace, key, "analysis.parquet"), _path(trace, key, "hits.parquet")


def _forget_the_oldest() -> None:
    files = sorted((cache_folder() / "analyses").iterdir(), key=lambda file: file.stat().st_mtime)
    for file in files[:-MOST_FILES]:
        file.unlink(missing_ok=True)


def find(trace: str, key: str, signature: Signature) -> StoredAnalysis | None:
    """Return what is kept of a trace (its id) on a machine (its key); None where that is nothing, or damaged."""
    try:
        analysis, hits = _paths(trace, key)
        if not hits.exists():
            return None
        rates = HitRates.load(hits)
        (part,) = Analysis.load(analysis, signature).parts
    except (OSError, ConvolverError, ValueError):
        return None
    return StoredAnalysis(part, rates) if rates.inputs.get("trace") == trace and rates.machines == [key] else None


def keep(trace: str, entry: StoredAnalysis, signature: Signature) -> None:
    """Keep what was found out of a trace on a machine; a folder that cannot be written is no reason to fail."""
    try:
        analysis, hits = _paths(trace, entry.part.key)
        own = replace(entry.part, machine=entry.part.key)
        Analysis([own], {"trace": trace, "signature": signature.id}, signature=signature).save(analysis)
        entry.hit_rates.save(hits)
        _forget_the_oldest()
    except (OSError, FormatError):
        pass


def find_bytes(trace: str, what: str) -> bytes | None:
    """Return what :func:`keep_bytes` kept of a trace, the same for all machines; None where that is nothing, or damaged."""
    try:
        kept = _path(trace, "all", what).read_bytes()
    except (OSError, ConvolverError):
        return None
    digest, content = kept[:DIGEST_BYTES], kept[DIGEST_BYTES:]
    return content if hashlib.sha256(content).digest() == digest else None


def keep_bytes(trace: str, what: str, content: bytes) -> None:
    """Keep what was found out of a trace; a folder that cannot be written is no reason to fail."""
    try:
        save_bytes(_path(trace, "all", what), hashlib.sha256(content).digest() + content)
        _forget_the_oldest()
    except (OSError, ConvolverError):
        pass
