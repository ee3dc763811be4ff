"""The page: what can be read without a script (overview, machines, provenance), and the frame that the scripts fill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from convolver import __version__
from convolver.convolution.block_times import BlockTimes
from convolver.plotting.labels import command_label, machine_label
from convolver.reporting.bundle import Bundle
from convolver.reporting.grid import percent
from convolver.reporting.html.data import pack, page_data, sources
from convolver.reporting.html.objects import objects_section
from convolver.reporting.metadata import RATES, sampling_words
from convolver.reporting.program_report import served_by
from convolver.signature.features import sampled_share
from convolver.units import format_count, format_seconds

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
        cards=_cards(bundle),
        machines=_machines(bundle.times),
        provenance=_provenance(bundle),
        timeline="" if bundle.timeline is None else template("timeline.html"),
        objects=objects_section(bundle),
        data=pack(page_data(bundle)),
        script="\n".join(template(name) for name in SCRIPTS),
    )


def _subtitle(bundle: Bundle) -> str:
    names = [machine_label(times.machine, bool(times.header.get("projected"))) for times in bundle.times]
    totals = bundle.signature.totals
    counts = f"{format_count(totals['instructions'])} instructions, {format_count(totals['memops'])} memory references"
    return f"Predicted on {', '.join(names)} · {counts}, {totals['blocks']} basic blocks"


def _card(label: str, value: str, detail: str = "") -> str:
    return f"<div class=card><dt>{escape(label)}</dt><dd>{escape(value)}<small>{escape(detail)}</small></dd></div>"


def _cards(bundle: Bundle) -> str:
    base = bundle.base
    cards = [_time_card(base)]
    measured = bundle.measured_seconds
    if measured:
        error = (base.total[0] - measured) / measured
        cards.append(_card(f"Measured on {base.machine}", format_seconds(measured), f"predicted {100 * error:+.1f} %"))
    for times in bundle.times[1:]:
        cards.append(_time_card(times))
        ratio = base.ratio_to(times) or 0.0
        scaled = (
            f"measured time / ratio: {format_seconds(measured / ratio)}" if measured and ratio else "above 1 the target is faster"
        )
        cards.append(_card(f"CPU ratio {base.machine} / {times.machine}", f"{ratio:.3g}", scaled))
    share = sampled_share(bundle.signature.table)
    cards.append(_card("Coverage", percent(base.coverage), f"memops in blocks with a sample; {percent(share)} of all sampled"))
    return "\n".join(cards)


def _time_card(times: BlockTimes) -> str:
    whole, low, high = times.total
    name = machine_label(times.machine, bool(times.header.get("projected")))
    detail = f"{format_seconds(low)} to {format_seconds(high)}"
    if times.system is not None:
        detail += f"; {format_seconds(times.system.seconds)} of it system time"
    return _card(f"Predicted on {name}", format_seconds(whole), detail)


def _warnings(bundle: Bundle) -> str:
    notes = list(bundle.notes)
    if not bundle.signature.header.get("complete", True):
        notes.append("The trace was cut short: times are those of the part that was recorded.")
    if bundle.base.extrapolated_share > 0.05:
        notes.append(f"{percent(bundle.base.extrapolated_share)} of the memops have no sample and cost what other blocks do.")
    newer = [Path(source.path).name for source in sources(bundle) if source.newer]
    if newer:
        notes.append(f"Changed after the program was traced, so lines may have moved: {', '.join(newer)}.")
    return "".join(f"<p class=warning role=note><b>Note</b> {escape(note)}</p>" for note in notes)


def _row(cells: Iterable[str], tag: str = "td") -> str:
    first, *rest = cells
    return f"<tr><th scope=row>{escape(first)}</th>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in rest) + "</tr>"


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
            kind = "projected" if machine.projected else "measured"
            known = filter(None, (kind, _plain(machine.cpu), _plain(machine.provenance, 3)))
            pairs.append((f"Machine {times.machine}", "; ".join(known)))
    rows = (f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in pairs if value not in (None, ""))
    return "<dl class=provenance>" + "".join(rows) + "</dl>"


def _plain(value: Any, most: int = 8) -> str:
    if isinstance(value, dict):
        shown = [(name, item) for name, item in value.items() if isinstance(item, str | int | float | bool)]
        return ", ".join(f"{name} {item}" for name, item in shown[:most])
    return "" if value is None else str(value)
