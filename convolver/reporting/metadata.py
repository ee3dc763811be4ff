"""What stands on top of every report: program, machines, what was recorded, how much the numbers rest on, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from convolver import __version__
from convolver.convolution.block_times import BlockTimes
from convolver.plotting.labels import machine_label
from convolver.reporting.grid import Table, percent
from convolver.reporting.tables import key_values
from convolver.signature.features import sampled_share
from convolver.tracing.kernel_use import faults
from convolver.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from convolver.signature.signature import Signature


RATES = {
    "calibrated": "fitted on each machine's own kernels",
    "curves": "from single curves; fitted ones, and intervals that hold their errors, need a calibration of every machine "
    "(`convolver machine calibrate`)",
    "paper": "the paper's data set locations on the curves",
}
"""Methods of a prediction in words: a user who asked for none should see that another than the best was taken."""


def sampling_words(plan: Mapping[str, Any] | None) -> str:
    """Return a sampling plan in words: which references were recorded, of which part of the program."""
    if not plan:
        return "unknown"
    kinds = {"counts": "no addresses, exact counts alone", "full": "all references"}
    parts = [kinds.get(plan.get("mode", ""), "")]
    if plan.get("mode") == "sample":
        interval = plan.get("burst_interval") or plan.get("interval", 0)
        bursts = interval and plan.get("sample", 0)
        parts = [f"{format_count(plan['sample'])} of every {format_count(interval)} references"] if bursts else []
        share = plan.get("set_share", 1.0)
        parts += (
            [f"1 in {plan['sets']} of the cache sets" + f" in {share:.2g} of the run" * (share < 1)] if plan.get("sets") else []
        )
        parts += [f"the first {format_count(plan['warmup'])} of a burst only warm up"] if plan.get("warmup") else []
    parts += [f"at most {plan['block_limit']} visits of a block"] if plan.get("block_limit") else []
    parts += ["phase {} of {}".format(*plan["phase"])] if plan.get("phase") else []
    parts += ["chosen blocks"] if plan.get("blocks") else []
    parts += [f"{word} {plan[key]}" for word, key in (("from", "start_at"), ("to", "stop_at")) if plan.get(key)]
    return ", ".join(part for part in parts if part) or "unknown"


def system_words(system: Mapping[str, Any] | None) -> str:
    """Return in words what a program had of the kernel: page faults, system calls, bytes moved."""
    if not system:
        return "unknown"
    pages, calls = system["pages"], system["calls"]
    parts = ["unknown page faults" if pages is None else f"{format_count(faults(pages))} page faults"]
    parts += [f"{format_count(sum(one['calls'] for one in calls))} system calls"]
    parts += [f"{format_bytes(sum(one['bytes'] for one in calls))} moved"]
    parts += [f"{system[name]} {name}" for name in ("forks", "threads") if system[name]]
    return ", ".join(parts)


def command_words(command: Sequence[str] | str | None) -> str:
    """Return a traced command as one line."""
    return command if isinstance(command, str) else " ".join(map(str, command)) if command else "unknown"


def machine_names(times: Sequence[BlockTimes]) -> str:
    """Return the machines of block times, the projected ones marked."""
    return ", ".join(machine_label(one.machine, bool(one.header.get("projected"))) for one in times)


def coverage_words(coverage: float | None, sampled: float | None, extrapolated: float | None = None) -> str:
    """Return what the numbers rest on as one sentence."""
    parts = [] if coverage is None else [f"{percent(coverage)} of the memory accesses lie in blocks with a sample"]
    parts += [] if sampled is None else [f"sampled share {percent(sampled)}"]
    parts += [] if extrapolated is None else [f"extrapolated share {percent(extrapolated)}"]
    return "; ".join(parts)


def metadata(*pairs: tuple[str, Any], title: str = "", inputs: Mapping[str, str] | None = None) -> Table:
    """Return names and values above a report; pairs without a value are left out, versions come last.

    ``inputs`` are the ids of what is shown, by kind.
    """
    ids = "".join(f"; {kind} {identity[:12]}" for kind, identity in (inputs or {}).items())
    known = [(name, value) for name, value in pairs if value not in (None, "")]
    return key_values(title, [*known, ("versions", f"Convolver {__version__}{ids}")])


def about_times(times: Sequence[BlockTimes]) -> Table:
    """Return the metadata of block times of one program, the base first."""
    first = times[0]
    covered = coverage_words(first.coverage, first.sampled_share, first.extrapolated_share)
    pairs: list[tuple[str, Any]] = [("program", command_words(first.header.get("command"))), ("machines", machine_names(times))]
    pairs += [("rates", RATES.get(str(first.header.get("method")))), ("coverage", covered)]
    return metadata(*pairs, inputs={"signature": str(first.inputs.get("signature", ""))})


def about_program(
    signature: Signature,
    machines: str,
    *,
    title: str = "",
    coverage: float | None = None,
    measured_seconds: float | None = None,
    method: str = "",
) -> Table:
    """Return the metadata of a traced program on machines."""
    header, totals = signature.header, signature.totals
    counts = f"{format_count(totals['instructions'])} instructions, {format_count(totals['memops'])} memory accesses"
    return metadata(
        ("program", command_words(header.get("command"))),
        ("machines", machines),
        ("executed", f"{counts} in {totals['blocks']} blocks"),
        ("recorded", sampling_words(header.get("sampling"))),
        ("rates", RATES.get(method)),
        ("coverage", coverage_words(coverage, sampled_share(signature.table))),
        ("measured", None if measured_seconds is None else format_seconds(measured_seconds)),
        ("incomplete", None if header.get("complete", True) else "the run was cut short; the rest is what ran until then"),
        title=title,
        inputs={"signature": signature.id},
    )
