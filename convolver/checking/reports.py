"""What a check hands on: a Markdown comment for a pull request, JUnit XML for a test report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree import ElementTree

from convolver.checking.comparison import Checked
from convolver.units import format_seconds

_ROWS = 10


def markdown(checks: Sequence[Checked]) -> str:
    """Return a comment: one row a program, and the functions that changed."""
    lines = [
        "| program | machine | before | now | change | 90 % interval | verdict |",
        "|---|---|--:|--:|--:|--:|---|",
        *(_program(one) for one in checks),
    ]
    for one in checks:
        if one.functions and one.change is not None:
            lines += ["", f"**{one.name}**, functions that changed:", "", "| function | line | before | now | change |"]
            lines.append("|---|---|--:|--:|--:|")
            for name, change in list(one.functions.items())[:_ROWS]:
                relative = f"{100 * change.relative:+.2f} %" if math.isfinite(change.relative) else "new"
                seconds = f"{format_seconds(change.before)} | {format_seconds(change.after)}"
                lines.append(f"| {_cell(name)} | {_cell(change.place)} | {seconds} | {relative} |")
        lines += ["", *one.notes] if one.notes else []
    return "\n".join(lines) + "\n"


def _program(one: Checked) -> str:
    mark = "" if one.passed else "**"
    words = one.verdict + (", over its limit" if one.over else "")
    cells = [_cell(one.name), one.machine, "", format_seconds(one.now.seconds), "", "", f"{mark}{words}{mark}"]
    if one.change is not None:
        low, high = (100 * end / one.change.before for end in one.change.interval)
        cells[2] = format_seconds(one.change.before)
        cells[4:6] = [f"{100 * one.change.relative:+.2f} %", f"{low:+.2f} to {high:+.2f} %"]
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return f"`{text.replace('|', '¦')}`" if text else ""


def junit(checks: Sequence[Checked]) -> str:
    """Return a test suite in JUnit's XML: one case a program."""
    failed = [one for one in checks if not one.passed]
    suite = ElementTree.Element(
        "testsuite", name="convolver", tests=str(len(checks)), failures=str(len(failed)), errors="0", skipped="0"
    )
    for one in checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"convolver.{one.machine}", name=one.name, time=f"{one.now.seconds:.9f}"
        )
        if not one.passed:
            failure = ElementTree.SubElement(case, "failure", message=one.sentence)
            failure.text = markdown([one])
        ElementTree.SubElement(case, "system-out").text = one.sentence
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
