"""The page: what can be read without a script (overview, machines, provenance), and the frame that the scripts fill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from convolver import __version__
from convolver.convolution.block_times import BlockTimes
from convolver.convolution.choice import BEST, choose, compared
from convolver.convolution.verdict import CANNOT_TELL, from_to, seconds_from_to
from convolver.heavy import pl
from convolver.machine.states import is_another
from convolver.plotting.labels import command_label, machine_label
from convolver.reporting.choice_chart import than_the_best
from convolver.reporting.grid import percent
from convolver.reporting.html.data import pack, page_data, sources
from convolver.reporting.html.threads import threads_section
from convolver.reporting.limiters import LEAST, label, limited_by, sentence, threads_sentence
from convolver.reporting.metadata import RATES, sampling_words
from convolver.reporting.program_report import served_by
from convolver.reporting.report_input import Bundle
from convolver.signature.data_objects import HOW_TO
from convolver.signature.features import sampled_share
from convolver.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from convolver.mpi.timeline import Timeline


ROWS = 200
"""Data objects shown at most."""


def _cell(value: float | None, shown: str) -> str:
    return f"<td data-value={-1 if value is None else value:.10g}>{escape(shown)}</td>"


def _hits(bundle: Bundle) -> tuple[list[tuple[str, str]], dict[tuple[str, str, str], dict[str, Any]]]:
    """Return the machines' levels, and the counts by label, machine and level."""
    if bundle.object_hits is None:
        return [], {}
    hits = bundle.object_hits
    rows = hits.by_object().iter_rows(named=True)
    levels = [(machine, level) for machine in hits.machines for level in hits.levels(machine)]
    return levels, {(row["label"], row["machine"], row["level"]): row for row in rows}


def objects_section(bundle: Bundle) -> str:
    """Return the heading, a sentence and the table; without data objects a sentence that says how to get them."""
    start = "<section id=objects aria-labelledby=h-objects><h2 id=h-objects>Data objects</h2>"
    if bundle.objects is None:
        return f"{start}<p class=muted>Not known. {escape(HOW_TO)}</p></section>"
    levels, hits = _hits(bundle)
    heads = ["data object", "kind", "peak", "placed", "accesses", "share"]
    heads += [f"{level} misses, {machine}" for machine, level in levels]
    table = bundle.objects.by_object()
    rows = []
    for row in table.head(ROWS).iter_rows(named=True):
        cells = [
            _cell(row["peak_bytes"], format_bytes(row["peak_bytes"])),
            _cell(row["places"], format_count(row["places"])),
            _cell(row["memops"], format_count(round(row["memops"]))),
            _cell(row["share"], percent(row["share"])),
        ]
        for machine, level in levels:
            found = hits.get((row["label"], machine, level))
            rate, share = (None, None) if found is None else (found["miss_rate"], found["miss_share"])
            cells.append(_cell(share, percent(share) + ("" if rate is None else f" ({percent(rate)})")))
        label, kind = escape(row["label"]), escape(row["kind"])
        rows.append(f"<tr><th scope=row class=text title='{label}'>{label}</th><td class=text>{kind}</td>{''.join(cells)}</tr>")
    text = ("data object", "kind")
    head = "".join(f"<th scope=col{' class=text' if name in text else ''}>{escape(name)}</th>" for name in heads)
    shown = f"{min(ROWS, table.height)} of {table.height} data objects"
    share = percent(bundle.objects.attributed_share)
    return (
        f"{start}<p class=muted>What the recorded references touch: blocks by the place that allocated them, variables, stacks, "
        f"mappings. {shown}; {share} of the accesses are in blocks with a recorded one. Misses are shares of all misses "
        "of the level, in brackets of the object's own accesses.</p>"
        "<div class=scroll tabindex=0 role=region aria-label='Table of data objects, scrolls'>"
        f"<table class=grid id=objects-table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


LEAST_FUNCTION = 0.001
"""Share of the time below which a function is not listed."""
SCRIPTS = ("format.js", "table.js", "maps.js", "source.js", "timeline.js", "objects.js", "main.js")


def template(name: str) -> str:
    """Return a file of the page's templates."""
    return (files("convolver.reporting.html") / "templates" / name).read_text()


def render(bundle: Bundle) -> str:
    """Return the whole page as text; it refers to nothing outside of itself."""
    command = command_label(bundle.signature.header.get("command"))
    return Template(template("page.html")).substitute(
        title=escape(f"{command} · Convolver"),
        command=escape(" ".join(str(word) for word in bundle.signature.header.get("command") or ["the program"])),
        subtitle=escape(_subtitle(bundle)),
        style=template("report.css"),
        warnings=_warnings(bundle),
        overview=_overview(bundle),
        functions=_functions(bundle.base),
        machines=_machines(bundle.times),
        provenance=_provenance(bundle),
        threads=threads_section(bundle),
        timeline=""
        if bundle.timeline is None
        else Template(template("timeline.html")).substitute(heading=_over_time(bundle.timeline)),
        objects=objects_section(bundle),
        data=pack(page_data(bundle)),
        script="\n".join(template(name) for name in SCRIPTS),
    )


def _over_time(timeline: Timeline) -> str:
    machine = timeline.notes.get("machine")
    return escape(f"{timeline.each.capitalize()}s over time" + (f" on {machine}" if machine else ""))


def _subtitle(bundle: Bundle) -> str:
    names = [machine_label(times.machine, bool(times.header.get("projected"))) for times in bundle.times]
    totals = bundle.signature.totals
    counts = f"{format_count(totals['instructions'])} instructions, {format_count(totals['memops'])} memory references"
    return f"Predicted on {', '.join(names)} · {counts}, {totals['blocks']} basic blocks"


def _overview(bundle: Bundle) -> str:
    """Return the ranking of the machines, what limits the program on the base, and how much was seen."""
    share = sampled_share(bundle.signature.table)
    about = f"Coverage {percent(bundle.base.coverage)}: accesses in blocks with a sample; {percent(share)} of all were sampled."
    measured = bundle.measured_seconds
    if measured:
        found, low, high = bundle.base.awaited
        inside = "within" if low <= measured <= high else "outside"
        error = f"{100 * (found - measured) / measured:+.1f} %"
        about += f" Measured on {bundle.base.machine}: {format_seconds(measured)}; predicted {format_seconds(found)} ({error}), "
        about += f"{inside} the interval."
    ranked = f"<div>{_ranking(bundle)}<p class=muted>{escape(about)}</p></div>"
    lead = sentence(bundle.base)
    if bundle.base.elapsed is not None:
        lead += f" {threads_sentence(bundle.base.elapsed)}"
    return f"<p class=lead>{escape(lead)}</p><div class=overview>{ranked}<div>{_limits(bundle.base)}</div></div>"


def _ranking(bundle: Bundle) -> str:
    """Return dots with intervals, the fastest machine first; those that cannot be distinguished from it are grayed."""
    if not all(times.total[0] > 0 for times in bundle.times):
        return "<p>The program takes no time.</p>"
    measured = bundle.measured_seconds or None
    choices = choose(bundle.times, measured=measured)
    most = max(one.interval[1] for one in choices)
    rows = []
    for one in choices:
        low, high = (end / most for end in one.interval)
        track = f'<div class=track style="--from:{low:.4f};--to:{high:.4f};--at:{one.seconds / most:.4f}"><i></i><b></b></div>'
        certain = one.interval[0] == one.interval[1]
        cells = [
            f"<th scope=row>{escape(machine_label(one.machine, one.projected))}</th>",
            f"<td class=time>{format_seconds(one.seconds)}</td>",
            f"<td>{'measured' if certain else escape(seconds_from_to(one.interval))}</td>",
            f"<td>{escape(than_the_best(one))}</td>",
            f"<td class=dots>{track}</td>",
        ]
        kind = "best" if one.verdict == BEST else "unsure" if one.verdict == CANNOT_TELL else "other"
        rows.append(f"<tr class={kind}>{''.join(cells)}</tr>")
    heads = "".join(f"<th scope=col>{head}</th>" for head in ("machine", "time", "90 % interval", "than the best", ""))
    return f"<table class=ranking><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _limits(times: BlockTimes) -> str:
    """Return bars of what limits the program on a machine; they add up to its time."""
    causes = times.limits
    whole = sum(causes.values())
    rows = [
        f"<tr><th scope=row>{escape(label(cause, times.table))}</th><td class=num>{format_seconds(seconds)}</td>"
        f'<td class=share style="--part:{seconds / max(causes.values()):.4f}">{percent(seconds / whole)}</td></tr>'
        for cause, seconds in causes.items()
        if seconds >= LEAST * whole
    ]
    return f"<table class=bars><caption class=muted>What limits it on {escape(times.machine)}</caption>{''.join(rows)}</table>"


def _functions(times: BlockTimes) -> str:
    """Return the functions that take the most time."""
    rows = []
    for function, module, _, seconds in times.by_function().head(25).iter_rows():
        own = times.table.filter(pl.col("function").eq_missing(function) & pl.col("module").eq_missing(module))
        name = function or f"{Path(module).name or '?'} (no symbol)"
        share = seconds / times.seconds if times.seconds else 0.0
        if share < LEAST_FUNCTION:
            break
        rows.append(
            f'<tr><td class=text title="{escape(name)}">{escape(name)}</td><td>{format_seconds(seconds)}</td>'
            f'<td class=share style="--part:{0.9 * share:.4f}">{percent(share)}</td>'
            f"<td class=text>{escape(limited_by(own))}</td></tr>"
        )
    heads = "<th class=text>function</th><th>time</th><th class=share>share</th><th class=text>limited by</th>"
    table = f"<table class=functions><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Hot functions, scrolls">{table}</div>'


def _warnings(bundle: Bundle) -> str:
    notes = list(bundle.notes)
    if not bundle.signature.header.get("complete", True):
        notes.append("The trace was cut short: times are those of the part that was recorded.")
    if bundle.base.extrapolated_share > 0.05:
        notes.append(f"{percent(bundle.base.extrapolated_share)} of the accesses have no sample and cost what other blocks do.")
    newer = [Path(source.path).name for source in sources(bundle) if source.newer]
    if newer:
        notes.append(f"Changed after the program was traced, so lines may have moved: {', '.join(newer)}.")
    return "".join(f"<p class=warning role=note><b>Note</b> {escape(note)}</p>" for note in notes)


def _row(cells: Iterable[str]) -> str:
    first, *rest = cells
    return f"<tr><th scope=row>{escape(first)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in rest) + "</tr>"


def _machines(all_times: Sequence[BlockTimes]) -> str:
    """Return one column a machine: total, user time and its parts, system time, hit rates."""
    parts = {"seconds": "user time", "memory_seconds": "memory", "floating_point_seconds": "floating point"}
    parts["instruction_seconds"] = "instructions"
    head = "".join(f"<th scope=col>{escape(machine_label(t.machine, bool(t.header.get('projected'))))}</th>" for t in all_times)
    rows = [_row(["Predicted time", *(format_seconds(t.total[0]) for t in all_times)])]
    rows += [_row([label, *(format_seconds(float(t.table[name].sum())) for t in all_times)]) for name, label in parts.items()]
    systems = ("not predicted" if t.system is None else format_seconds(t.system.seconds) for t in all_times)
    rows.append(_row(["system time", *systems]))
    rows.append(_row(["Interval", *(" to ".join(map(format_seconds, t.total[1:])) for t in all_times)]))
    base = all_times[0]
    if all(times.elapsed is not None for times in all_times):
        rows.append(_row(["Elapsed time", *(format_seconds(t.awaited[0]) for t in all_times)]))
        rows.append(_row(["its interval", *(" to ".join(map(format_seconds, t.awaited[1:])) for t in all_times)]))
        rows.append(_row(["Cores", *(str((t.elapsed or {})["cores"]) for t in all_times)]))
    ratios = [compared(base, times) if times.total[0] else (0.0, None) for times in all_times]
    what = "CPU ratio" if base.elapsed is None else "Elapsed time"
    rows.append(_row([f"{what} {base.machine} / machine", *(f"{ratio:.3g}" for ratio, _ in ratios)]))
    rows.append(_row(["its interval", "-", *(from_to(ends) for _, ends in ratios[1:])]))
    rows += [
        _row([f"References served by {level} or nearer", *(percent(served_by(times, level)) for times in all_times)])
        for level in dict.fromkeys(level for times in all_times for level in times.levels)
    ]
    rows.append(_row(["Coverage", *(percent(times.coverage) for times in all_times)]))
    return f"<table class=plain><thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _provenance(bundle: Bundle) -> str:
    header = bundle.signature.header
    pairs: list[tuple[str, Any]] = [
        ("Convolver", __version__),
        ("Command", " ".join(str(word) for word in header.get("command") or [])),
        ("Exit status", header.get("exit_status")),
        ("Recorded", sampling_words(header.get("sampling"))),
        ("Rates", RATES.get(str(bundle.base.header.get("method")))),
        ("Signature", f"{bundle.signature.id} ({bundle.signature_path.name})"),
        ("Made from", _plain(bundle.signature.inputs)),
        ("Source files in this page", ", ".join(one.path for one in sources(bundle) if one.text) or "none"),
    ]
    for times in bundle.times:
        pairs += [
            (
                f"Block times on {times.machine}",
                f"{times.id}, made from {_plain(times.inputs)}; overlap: {times.header.get('overlap')}",
            ),
            *((f"Assumed for {times.machine}", note) for note in times.header.get("assumptions") or []),
        ]
        machine = bundle.machines.get(times.machine)
        if machine is not None:
            kind = "projected" if is_another(machine.name, machine.projected) else "measured"
            known = filter(None, (kind, _plain(machine.cpu), _plain(machine.provenance, 3)))
            pairs.append((f"Machine {times.machine}", "; ".join(known)))
    rows = (f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in pairs if value not in (None, ""))
    return "<dl class=provenance>" + "".join(rows) + "</dl>"


def _plain(value: Any, most: int = 8) -> str:
    if isinstance(value, dict):
        shown = [(name, item) for name, item in value.items() if isinstance(item, str | int | float | bool)]
        return ", ".join(f"{name} {item}" for name, item in shown[:most])
    return "" if value is None else str(value)
