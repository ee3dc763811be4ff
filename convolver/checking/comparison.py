"""What changed between two observations of a program, whether it is a regression, its cause, and how that is reported.

Both sides are predicted for one machine from traces, so what the machine model has wrong is wrong on both sides: of the
difference it is as large a share as of a time. What remains are samples and differences between runs, whose standard errors are
known; so the sign of a change is certain where the 90 % interval of the difference leaves out 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from convolver.checking.limits import ProgramLimits
from convolver.checking.observed import FunctionTime, Observed
from convolver.convolution.verdict import CANNOT_TELL, FASTER, SLOWER
from convolver.units import format_seconds

UNCHANGED, NEW = "unchanged", "new"
_NORMAL = 1.645
"""Standard errors to each side of a 90 % interval."""
_LEAST = 1e-4
"""Changes of functions by a smaller share of the program's time are not named."""
_LARGE = 0.05
"""A function with this share of the time may not become slower than the threshold by itself, while the program does too."""


class Change(NamedTuple):
    """Seconds ``before`` and ``after``, and the 90 % interval of their difference (s)."""

    before: float
    after: float
    interval: tuple[float, float]
    place: str = ""

    @classmethod
    def between(cls, one: Observed | FunctionTime, other: Observed | FunctionTime) -> Change:
        """Return the change from one time to another; the error of the first, of several runs, stands for a smaller one too."""
        half = _NORMAL * math.hypot(one.error, max(one.error, other.error))
        change = other.seconds - one.seconds
        place = (other.place or one.place) if isinstance(one, FunctionTime) and isinstance(other, FunctionTime) else ""
        return cls(one.seconds, other.seconds, (change - half, change + half), place)

    @property
    def seconds(self) -> float:
        """after - before."""
        return self.after - self.before

    @property
    def relative(self) -> float:
        """The change as a share of the time before."""
        return self.seconds / self.before if self.before else math.inf

    @property
    def significant(self) -> bool:
        """Whether its sign is certain."""
        return self.interval[0] > 0 or self.interval[1] < 0


class Checked(NamedTuple):
    """A program's check: what it takes now, its limits, and the changes since the baseline (None and empty without one).

    ``functions``: changes that are significant, the largest first. ``notes``: what else differs between the runs.
    """

    name: str
    machine: str
    now: Observed
    limits: ProgramLimits
    change: Change | None
    functions: Mapping[str, Change]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """slower, faster, unchanged, cannot tell, or new where there is no baseline."""
        if self.change is None:
            return NEW
        if abs(self.change.relative) > self.limits.threshold:
            words = SLOWER if self.change.seconds > 0 else FASTER
            return words if self.change.significant else CANNOT_TELL
        return SLOWER if self.culprits else UNCHANGED

    @property
    def culprits(self) -> list[str]:
        """The functions after a slower program: by themselves slower than the threshold, with much of the time."""
        if self.change is None or self.change.interval[0] <= 0:
            return []
        rows = self.functions.items()
        return [
            name
            for name, one in rows
            if one.interval[0] > 0 and one.relative > self.limits.threshold and one.after > _LARGE * self.now.seconds
        ]

    @property
    def over(self) -> bool:
        """Whether the program takes longer than its limit in seconds."""
        return self.limits.seconds is not None and self.now.seconds > self.limits.seconds

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.verdict != SLOWER and not self.over

    @property
    def sentence(self) -> str:
        """The verdict with its figures and, of a change, its cause."""
        found = f"{self.name}: {format_seconds(self.now.seconds)} on {self.machine}"
        if self.over:
            found += f", over its limit of {format_seconds(self.limits.seconds or 0.0)}"
        if self.change is None:
            return f"{found}; there is no baseline to compare with."
        low, high = (100 * end / self.change.before for end in self.change.interval)
        found += f"; {self.verdict}: {100 * self.change.relative:+.2f} % ({low:+.2f} to {high:+.2f} %)"
        return f"{found}{self._cause()}."

    def _cause(self) -> str:
        assert self.change is not None
        if self.verdict not in (SLOWER, FASTER):
            return ""
        same = {name: one for name, one in self.functions.items() if one.seconds * self.change.seconds > 0}
        if not same:
            return ""
        name, one = next(iter(same.items()))
        where = f" ({one.place})" if one.place else ""
        own = f"{100 * one.relative:+.2f} %" if math.isfinite(one.relative) else "it is new"
        return f", because of {name}{where}, {own}"

    def document(self) -> dict[str, Any]:
        """Return everything as a JSON-able document."""

        def row(change: Change) -> dict[str, Any]:
            relative = change.relative if math.isfinite(change.relative) else None
            about = {"change_seconds": change.seconds, "relative": relative, "significant": change.significant}
            return {**change._asdict(), **about}

        return {
            "name": self.name,
            "machine": self.machine,
            "verdict": self.verdict,
            "passed": self.passed,
            "seconds": self.now.seconds,
            "counts": dict(self.now.counts),
            "limits": self.limits._asdict(),
            "change": None if self.change is None else row(self.change),
            "functions": [{"function": name, **row(one)} for name, one in self.functions.items()],
            "notes": list(self.notes),
            "sentence": self.sentence,
        }


def compare(name: str, machine: str, before: Observed | None, now: Observed, limits: ProgramLimits) -> Checked:
    """Return the check of a program against its baseline and its limits. A pure function."""
    if before is None:
        return Checked(name, machine, now, limits, None, {})
    nothing = FunctionTime(0.0, 0.0)
    names = dict.fromkeys([*before.functions, *now.functions])
    found = {one: Change.between(before.functions.get(one, nothing), now.functions.get(one, nothing)) for one in names}
    least = _LEAST * before.seconds
    changed = {one: change for one, change in found.items() if change.significant and abs(change.seconds) > least}
    ordered = dict(sorted(changed.items(), key=lambda item: -abs(item[1].seconds)))
    return Checked(name, machine, now, limits, Change.between(before, now), ordered, tuple(_notes(before, now)))


def _notes(before: Observed, now: Observed) -> list[str]:
    """Return a sentence for libraries of another build: they are part of what changed, though no line of the program did."""
    shared = before.modules.keys() & now.modules.keys()
    other = sorted(name for name in shared if before.modules[name] != now.modules[name] and ".so" in name)
    return [f"Libraries of another build: {', '.join(other)}."] if other else []


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
