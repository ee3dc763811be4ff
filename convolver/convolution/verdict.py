"""What a comparison says in words: faster, slower, or cannot tell; and whether a prediction passes the check of its own base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from convolver.units import counted, format_seconds, format_share

FASTER, SLOWER, CANNOT_TELL = "faster", "slower", "cannot tell"


def verdict(ends: Sequence[float] | None) -> str:
    """Return what the 90 % interval of a CPU ratio says of the target; without an interval nothing can be said."""
    if ends is None:
        return CANNOT_TELL
    low, high = ends
    return FASTER if low > 1 else SLOWER if high < 1 else CANNOT_TELL


def judged_target(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the target of a prediction with its CPU ratio, the ends of its interval and what they say."""
    ends = document["cpu_ratio_interval"]
    about = {"cpu_ratio": document["cpu_ratio"], "cpu_ratio_interval": ends, "verdict": verdict(ends)}
    return {**document["target"], **about}


def from_to(ends: Sequence[float] | None) -> str:
    """Return the ends of a ratio's interval."""
    return "-" if ends is None else f"{ends[0]:.3g} to {ends[1]:.3g}"


def seconds_from_to(ends: Sequence[float] | None) -> str:
    """Return the ends of a time's interval."""
    return "-" if ends is None else f"{format_seconds(ends[0])} to {format_seconds(ends[1])}"


class BaseCheck(NamedTuple):
    """Whether the measured time of the base lies in the predicted interval, and one sentence about it."""

    passed: bool
    sentence: str


_MUCH = 0.2
"""Share of the time in the kernel, or of accesses without a sample, that is named as a cause."""


def beside_measured(replayed: Mapping[str, Any], seconds: float | None, cores: int) -> dict[str, Any]:
    """Return a replay of threads (docs/formats/prediction.md) with the elapsed ``seconds`` measured where a program could use
    ``cores``, their error and whether the interval holds them: None where its threads had more or fewer cores in the replay."""
    same = min(replayed["cores"], replayed["threads"]) == min(cores, replayed["threads"])
    measured = seconds if same and seconds else None
    low, high = replayed["interval_seconds"]
    return {
        **replayed,
        "measured_seconds": measured,
        "error": None if measured is None else (replayed["seconds"] - measured) / measured,
        "within_interval": None if measured is None else low <= measured <= high,
    }


def base_check(
    document: Mapping[str, Any], system: Mapping[str, Any] | None = None, seen: Sequence[str] = ()
) -> BaseCheck | None:
    """Return the check of a prediction (docs/formats/prediction.md) on its base; None where nothing was measured.

    Where elapsed time was measured on as many cores as it is predicted for, it is checked, else processor time.
    ``system`` is what the trace says that the program had of the kernel (docs/formats/signature.md), ``seen`` what was seen of
    the machine during the native runs, as phrases: where the check fails, they name the cause.
    """
    measured, base = document["measured_seconds"], document["base"]
    if not measured:
        return None
    replayed = base.get("elapsed") or {}
    awaited = replayed.get("measured_seconds")
    passed, processor = _beside(base["seconds"], base["interval_seconds"], measured)
    found, more = f"{'CPU time ' if replayed else ''}{processor}", ""
    if awaited:
        within = "" if passed else ", outside its interval"
        passed, elapsed = _beside(replayed["seconds"], replayed["interval_seconds"], awaited)
        found, more = f"elapsed time {elapsed}", f" CPU time: {processor}{within}."
    elif replayed and base.get("measured_elapsed_seconds"):
        cores, cpus = counted(replayed["cores"], "core"), counted(base["measured_cpus"], "CPU")
        more = f" Elapsed time is not checked: it is predicted for {cores} and was measured on {cpus}."
    if passed:
        return BaseCheck(True, f"Check on {base['machine']}: {found}, within the interval.{more}")
    system = system or {}
    causes = [*_children(system), *seen, *_causes(document, system)]
    advice = f"Possible causes: {'; '.join(causes)}." if causes else "Neither the trace nor the machine shows a cause."
    if seen or not causes:
        advice += " Profile and measure again on a quiet machine."
    return BaseCheck(False, f"Check failed on {base['machine']}: {found}.{more} {advice}")


def _beside(seconds: float, interval: Sequence[float], measured: float) -> tuple[bool, str]:
    """Return whether an interval holds a measured time, and both as a phrase."""
    error = (seconds - measured) / measured
    found = f"predicted {format_seconds(seconds)} ({seconds_from_to(interval)}), measured {format_seconds(measured)}"
    return interval[0] <= measured <= interval[1], f"{found} ({100 * error:+.1f} %)"


def _children(system: Mapping[str, Any]) -> list[str]:
    """Return that processes were measured and not traced: times without them cannot agree."""
    forks = int(system.get("forks") or 0)
    said = f"the program started {forks} process{'' if forks == 1 else 'es'}, measured but not traced (--trace-children)"
    return [said] if forks else []


def _causes(document: Mapping[str, Any], system: Mapping[str, Any]) -> list[str]:
    """Return what a trace and a prediction know that makes a measured time another than the predicted one."""
    from convolver.machine.states import SEPARATOR  # only here: it brings profiles

    base, found = document["base"], []
    if base.get("elapsed"):
        found += _causes_in_replay(document)
    elif threads := int(system.get("threads") or 0):
        found.append(f"it ran {counted(threads, 'more thread')}, and what they wait for is not replayed")
    if base.get("system_seconds") and base["system_seconds"] > _MUCH * base["seconds"]:
        faults = sum(int((system.get("pages") or {}).get(name, 0)) for name in ("anonymous", "shared", "windows"))
        share = format_share(base["system_seconds"] / base["seconds"])
        found.append(f"{share} of the time is the kernel's, with {faults:,} page faults")
    if document.get("extrapolated_share", 0.0) > _MUCH:
        share = format_share(document["extrapolated_share"])
        found.append(f"{share} of the memory accesses have no sample; record more (--interval)")
    if not document.get("complete", True):
        found.append("the trace was cut short")
    if base.get("projected"):
        found.append("the base is a projected machine, not the one that the program was measured on")
    if base["machine"].endswith(f"{SEPARATOR}alone"):
        found.append("the base has its whole last level, of which the measured machine may have had less")
    return found


def _causes_in_replay(document: Mapping[str, Any]) -> list[str]:
    """Return what makes the times of threads others than those of their replay."""
    base, found = document["base"], []
    replayed = base["elapsed"]
    if spins := replayed.get("spin_loops"):
        found.append(f"threads wait in a loop of the program, {spins[0]['name']}, which the replay leaves out")
    elif not replayed.get("measured_seconds") and document["measured_seconds"] > base["seconds"]:
        found.append("threads that spin while they wait take CPU time, which the prediction leaves out")
    if forced := int(replayed.get("forced_waits") or 0):
        found.append(f"{counted(forced, 'wait')} of threads ended without what the trace says they waited for")
    return found


def run_check(document: Mapping[str, Any]) -> BaseCheck:
    """Return the check of a parallel prediction (docs/formats/run_prediction.md): the base's replay against the measured run.

    It passes within the relative interval of the target's time.
    """
    seconds, measured = document["base_seconds"], document["measured_seconds"]
    low, high = (end / document["seconds"] for end in document["interval_seconds"])
    passed = low * seconds <= measured <= high * seconds
    found = f"replayed {format_seconds(seconds)}, measured {format_seconds(measured)} ({100 * document['base_error']:+.1f} %)"
    if passed:
        return BaseCheck(True, f"Check on {document['base']}: {found}, within the interval.")
    advice = "more ranks than processors ran, the network is another than the recorded one's, or ranks waited for something else"
    return BaseCheck(False, f"Check failed on {document['base']}: {found}. Either {advice}; believe the rest once it passes.")
