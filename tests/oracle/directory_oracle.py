"""What lines threads hand over, by looking through all that was touched before: quadratic, and plain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Touch(NamedTuple):
    """A reference to one line."""

    thread: int
    line: int
    write: bool
    owner: int


def _distance(before: Sequence[Touch], thread: int, line: int) -> int | None:
    """Return how many other lines the thread touched since it touched this one; None: it never did."""
    since: set[int] = set()
    for one in reversed(before):
        if one.thread == thread:
            if one.line == line:
                return len(since)
            since.add(one.line)
    return None


def handed_over(touches: Sequence[Touch]) -> Counter[tuple[int, bool, int | None, int | None]]:
    """Return how often each owner's loads or stores get a line from another thread, by the distances of both threads."""
    found: Counter[tuple[int, bool, int | None, int | None]] = Counter()
    for at, one in enumerate(touches):
        before = touches[:at]
        same = [other for other in before if other.line == one.line]
        stores = [place for place, other in enumerate(same) if other.write]
        giver = None
        if one.write:
            own = [place for place, other in enumerate(same) if other.thread == one.thread]
            first = same[0].thread == one.thread if same else True
            since = [place for place in own if same[place].write]
            begin = since[-1] if since else 0 if first else -1
            others = [other.thread for place, other in enumerate(same) if place > begin and other.thread != one.thread]
            giver = others[-1] if others else None
        elif stores and same[stores[-1]].thread != one.thread:
            had = any(other.thread == one.thread for other in same[stores[-1] :])
            giver = None if had else same[stores[-1]].thread
        if giver is not None:
            key = (one.owner, one.write, _distance(before, one.thread, one.line), _distance(before, giver, one.line))
            found[key] += 1
    return found
