"""Which engine runs a program: the one that is named, or the native one where Valgrind cannot run it, or would run other code."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from convolver.errors import UsageError
from convolver.heavy import pl
from convolver.tracing.code_sections import candidates, shared_code
from convolver.tracing.native_engine import checked_engine, made_code_share, refusal
from convolver.tracing.sampling import SamplingPlan
from convolver.units import format_share

if TYPE_CHECKING:
    from convolver.signature.signature import Signature
    from convolver.tracing.measure import Measurement
    from convolver.tracing.reader import Trace

LONGEST_SECONDS = 5.0
"""Programs that run longer natively keep Valgrind busy for a minute and more; the native engine records as much in half the time.
Of shorter ones Valgrind's samples are the same at each run, and its processor is one that all machines have."""
LONGEST_MADE_SECONDS = 60.0
"""Programs that run longer are not traced again for the code that they made themselves."""
HOT_SHARE = 0.1
"""Share of the instructions that a module must have for its choice of code to matter."""
CHOICES = frozenset(["avx512f", "sha_ni"])
"""Sets of instructions for which libraries have other code."""
_C_LIBRARY = re.compile(r"(libc|libm|libmvec|ld-linux[^/]*|libpthread)([-.][\d.]+)?\.so")
_FEWEST_SHA, _FEWEST_EVEX, _EVEX_PER_KIB = 32, 256, 0.2


def choose_engine(wanted: str, argv: Sequence[str], plan: SamplingPlan) -> tuple[SamplingPlan, str | None]:
    """Return the plan for the engine that ``wanted`` names, and why "auto" takes another than Valgrind, as a sentence's end.

    "auto" takes the native engine where Valgrind is missing, and where the program has AVX-512 code, which Valgrind cannot run.
    Raises :class:`UsageError` for an unknown engine, and for a plan or a machine that the native one cannot serve.
    """
    wanted = checked_engine(wanted)
    native = replace(plan, engine="native")
    if wanted == "native":
        refused = refusal()
        if refused:
            raise UsageError(f"The native engine cannot run here: {refused.rstrip('.')}; trace with --engine valgrind.")
        return native.check(), None
    if wanted == "valgrind" or plan.missing_natively():
        return plan, None
    why = _before(argv)
    if why is None or refusal():
        return plan, None
    return native.check(), why


def _before(argv: Sequence[str]) -> str | None:
    if shutil.which("valgrind") is None:
        return "Valgrind is not installed"
    from convolver.tracing.avx512 import find_avx512  # only here, as below: what reads object files takes long to load
    from convolver.tracing.preflight import resolve_command

    found = find_avx512(Path(resolve_command(argv)[0]))
    return None if found is None else f"{found.path} uses AVX-512, which Valgrind cannot run"


def _native_can(plan: SamplingPlan) -> bool:
    return plan.engine != "native" and not plan.missing_natively() and refusal() is None


def too_long(plan: SamplingPlan, measured: Measurement) -> str | None:
    """Return why a program that was measured natively is none for Valgrind, as a sentence's end; None: it is one."""
    if measured.seconds <= LONGEST_SECONDS or not _native_can(plan):
        return None
    return f"the program runs for {measured.seconds:.0f} s natively, and Valgrind makes it about ten times slower"


def uncounted(argv: Sequence[str], plan: SamplingPlan, traced: Trace, seconds: float | None) -> str | None:
    """Return what the native engine left out of a program that Valgrind can run in the same way, as a sentence's end; None: less
    than :data:`HOT_SHARE`. ``seconds``: what the program takes natively, where that is known."""
    share = made_code_share(traced.header, seconds)
    if plan.engine != "native" or share < HOT_SHARE or (seconds or 0.0) > LONGEST_MADE_SECONDS or _before(argv):
        return None
    if other_code(replace(plan, engine="valgrind"), traced.signature):
        return None
    return f"{format_share(share)} of its time went to code that it made itself, which the native engine does not count"


def died_of_valgrind(plan: SamplingPlan, header: Mapping[str, Any]) -> str | None:
    """Return what killed a program under Valgrind that the native engine can run, as a sentence's end; None: nothing did."""
    from convolver.tracing.session import UNKNOWN_INSTRUCTION

    _, found, code = str(header["reason"]).partition(UNKNOWN_INSTRUCTION)
    return found + code if found and _native_can(plan) else None


def other_code(plan: SamplingPlan, signature: Signature) -> str | None:
    """Return where a program that Valgrind ran takes other code natively, as the middle of a sentence; None: nowhere known.

    Libraries that choose their code by the processor do so where :data:`HOT_SHARE` of the instructions ran in one that has code
    for AVX-512 or SHA, which this processor can execute and Valgrind's cannot. The C library is left out: its variants of a
    function take about the same time.
    """
    here = _processor_flags()
    if plan.engine == "native" or plan.missing_natively():
        return None
    found = _hot_library(signature, CHOICES & here)
    if found is None or refusal():
        return None
    module, share, sets = found
    return f"{module}, where {share} of the instructions ran, has code for {sets}, which Valgrind's processor lacks"


def other_code_there(header: Mapping[str, Any], signature: Signature, machines: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Return for those machines, given by the sets that they have, on which a traced program takes other code: where, a sentence.

    These are libraries with code for sets that the traced program could not see. Traces that do not say what it saw, and
    libraries that are not here, have none.
    """
    saw = header.get("processor_sets", [] if header.get("engine") == "valgrind" else None)
    new = {} if saw is None else {name: CHOICES & sets - set(saw) for name, sets in machines.items()}
    found = {sets: _hot_library(signature, sets) for sets in set(new.values())}  # a library may take a tenth of a second
    sentences = {}
    for name, sets in new.items():
        if (hot := found[sets]) is not None:
            module, share, names = hot
            code = f"has other code for {names}, which the traced program did not see."
            sentences[name] = f"{module}, where {share} of the instructions ran, {code}"
    return sentences


def _hot_library(signature: Signature, sets: frozenset[str]) -> tuple[str, str, str] | None:
    """Return the hottest library that has code for some of these sets: its path, its share, and these sets' names."""
    every = int(signature.totals["instructions"])
    by_module = signature.table.group_by("module").agg(pl.col("instructions").sum()).sort("instructions", descending=True)
    for module, instructions in by_module.iter_rows() if sets else ():
        if not every or instructions < HOT_SHARE * every:
            return None
        if not module or _C_LIBRARY.match(Path(module).name) or not Path(module).is_file():
            continue
        found = sorted(alternatives(Path(module)) & sets)
        if found:
            return module, format_share(instructions / every), " and ".join(found)
    return None


def visible_sets(engine: str) -> list[str]:
    """Return which of :data:`CHOICES` a program sees under an engine on this processor."""
    return [] if engine == "valgrind" else sorted(CHOICES & _processor_flags())


def _processor_flags() -> set[str]:
    try:
        found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        return set()
    return set() if found is None else set(found[1].split())


def alternatives(module: Path) -> set[str]:
    """Return which of avx512f and sha_ni a shared object has code for."""
    sha = evex = size = 0
    try:
        sections = shared_code(module)  # a static one has the C library's code in it
    except OSError:
        return set()
    for code in sections:
        size += len(code)
        evex += len(candidates(code, clustered=True))
        third = code[2:]
        sha += int(np.count_nonzero((code[:-2] == 0x0F) & (code[1:-1] == 0x38) & (third >= 0xC8) & (third <= 0xCD)))
    found = {"sha_ni"} if sha >= _FEWEST_SHA else set()
    return found | ({"avx512f"} if evex >= max(_FEWEST_EVEX, _EVEX_PER_KIB * size / 1024) else set())
