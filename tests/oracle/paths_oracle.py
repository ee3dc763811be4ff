"""Slow, obvious model of the path builder (csrc/include/cv_paths.h): a wire stream to pieces of executed path."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracle.wire_oracle import NOT_EXECUTED, Segment, Thread, Visit, WindowClose, WindowOpen, WindowWarm, read_stream

UNKNOWN = 0xFFFFFFFF


@dataclass
class Piece:
    """One thread's path, visit by visit; ``references`` has a list of (address, site) for every visit."""

    window: int
    thread: int
    continues: bool = False
    following: int = UNKNOWN
    warm_visits: int = 0
    segments: list[int] = field(default_factory=list)
    references: list[list[tuple[int, int]]] = field(default_factory=list)


def _references(segment: Segment, words: tuple[int, ...]) -> list[tuple[int, int]]:
    found = []
    for site in segment.sites:
        word = words[site.base] if site.base >= 0 else 0
        if not (site.guarded and site.base >= 0 and word == NOT_EXECUTED):
            found.append(((word + site.displacement) % (1 << 64), site.id))
    return found


def _full(piece: Piece, max_visits: int) -> bool:
    return len(piece.segments) >= max_visits or sum(map(len, piece.references)) >= 8 * max_visits


def pieces(stream: bytes, max_visits: int, warmup: bool = False) -> list[Piece]:
    """Return the pieces of a valid stream."""
    _, segments, events = read_stream(stream)
    found: list[Piece] = []
    now, warming, stretch, ended = Piece(0, 0), False, 0, set()

    def close(following: int) -> None:
        nonlocal now
        if now.segments:
            now.continues = (stretch, now.thread) in ended
            now.following = following
            if warming:
                now.warm_visits = len(now.segments)
            ended.add((stretch, now.thread))
            found.append(now)
        now = Piece(now.window, now.thread)

    for event in events:
        if isinstance(event, Visit):
            if _full(now, max_visits):
                close(event.segment)
            now.segments.append(event.segment)
            now.references.append(_references(segments[event.segment], event.words))
        elif isinstance(event, Thread) and event.id != now.thread:
            close(UNKNOWN)
            now.thread = event.id
        elif isinstance(event, WindowOpen | WindowClose):
            close(UNKNOWN)
            stretch += 1
            now.window += isinstance(event, WindowOpen)
            warming = warmup and isinstance(event, WindowOpen)
        elif isinstance(event, WindowWarm):
            now.warm_visits = len(now.segments) if warming else now.warm_visits
            warming = False
    close(UNKNOWN)
    return found
