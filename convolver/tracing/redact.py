"""A trace without what identifies its user: arguments, folders, host name, and the code bytes that no prediction reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import lib
from convolver._native.trace_decoder import INSTRUCTION, MODULE, SEGMENT, Decoder
from convolver.errors import UsageError
from convolver.heavy import pl
from convolver.signature.signature import DEFAULTS, Signature
from convolver.tracing import format as cvt
from convolver.tracing.branch_code import Codes, transfers
from convolver.tracing.reader import Trace, read_chunks
from convolver.tracing.writer import TraceWriter, signature_path

_WORD = 8
_KIND, _LENGTH = np.uint64(56), np.uint64(0xFFFFFFFF)
_OBJECTS = frozenset((lib.CV_WIRE_OBJECT, lib.CV_WIRE_SYMBOLS))


def redact_trace(trace: Trace, output: Path) -> Trace:
    """Write a copy of a trace, its signature beside it, without arguments, folders, host name and code that was not recorded.

    Names of functions and files stay, since results are about them. Data objects are left out, whose names hold paths.
    Predictions are the same but for blocks that were never recorded, whose instructions are gone. Raises :class:`UsageError`
    for a trace that was cut off.
    """
    if not trace.complete:
        raise UsageError(f"{trace.path} was cut off; only whole traces can be redacted.")
    signature, wanted = trace.signature, _recorded(trace)
    command = [Path(str(word)).name for word in (trace.header.get("command") or ["?"])[:1]]
    own = {"schema", "version", "id", "folder", "host", "command", "started", *_ENDING}
    header = {name: value for name, value in trace.header.items() if name not in own}
    sampling = {**(header.get("sampling") or {}), "data_objects": False, "allocators": []}
    about = {"command": command, "sampling": sampling, "host": {"machine": (trace.header.get("host") or {}).get("machine")}}
    writer = TraceWriter(output, {**header, **about})
    with writer.whole_or_none():
        first = 0
        for chunk in read_chunks(trace.path, frozenset((cvt.COUNTS,))):
            if chunk.kind == cvt.MODULES:
                writer.put(chunk.kind, _modules(chunk.content(str(trace.path))), chunk.flags)
            elif chunk.kind == cvt.SEGMENTS:
                content, first = _segments(chunk.content(str(trace.path)), wanted, first)
                writer.put(chunk.kind, content, chunk.flags)
            else:
                writer.put(chunk.kind, chunk.content(str(trace.path)), chunk.flags)
        beside = signature_path(output)
        _redacted(signature, {"trace": writer.id}, command).save(beside)
        writer.put(cvt.SIGNATURE, beside.read_bytes())
        ending = {name: trace.header[name] for name in _ENDING if name in trace.header}
        writer.finish({**ending, "went_native": [], "sampling": sampling})
    return Trace.load(output)


_ENDING = (
    *("complete", "reason", "exit_status", "traced_seconds", "recorded_references", "set_references", "windows", "threads"),
    *("system", "made_code"),
)


def _redacted(signature: Signature, inputs: dict[str, Any], command: list[str]) -> Signature:
    """Return a signature whose modules and files have no folders, of a command without arguments."""
    names = pl.col("module", "file").str.replace(r"^.*/", "")
    extra = {name: signature.header[name] for name in DEFAULTS if name in signature.header}
    return Signature(signature.table.with_columns(names), inputs=inputs, **{**extra, "command": command, "origin": None})


def _recorded(trace: Trace) -> NDArray[np.bool_]:
    """Return which segments have a recorded visit: only their code is walked again."""
    decoder = Decoder(str(trace.path))
    for chunk in read_chunks(trace.path):
        (decoder.replay if chunk.kind == cvt.ADDRESSES else decoder.define)(chunk.content(str(trace.path)))
    decoder.flush()
    generated = np.array([not path for path in trace.definitions.paths])  # distinguished by its code alone
    return np.asarray((decoder.visits() > 0) | generated[trace.definitions.segments["module"]])


def _records(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield kind, begin and end (bytes, head included) of each definition in a chunk."""
    words, at = np.frombuffer(content, dtype="<u8"), 0
    while at < len(words):
        end = at + 1 + int(words[at] & _LENGTH)
        yield int(words[at] >> _KIND) & 63, at * _WORD, end * _WORD
        at = end


def _modules(content: bytes) -> bytes:
    """Return definitions of modules whose paths are names of files."""
    changed = []
    for kind, begin, end in _records(content):
        if kind != lib.CV_WIRE_MODULE:
            changed.append(content[begin:end])
            continue
        module = np.frombuffer(content, dtype=MODULE, count=1, offset=begin + _WORD).copy()
        start = begin + _WORD + MODULE.itemsize
        path = content[start : start + int(module["path_bytes"][0])].rpartition(b"/")[2]
        module["path_bytes"] = len(path)
        payload = module.tobytes() + path + bytes(-len(path) % _WORD)
        head = np.frombuffer(content, dtype="<u8", count=1, offset=begin) & ~_LENGTH | np.uint64(len(payload) // _WORD)
        changed.append(head.astype("<u8").tobytes() + payload)
    return b"".join(changed)


def _segments(content: bytes, wanted: NDArray[np.bool_], first: int) -> tuple[bytes, int]:
    """Return definitions without objects, and without the code of segments that are not wanted; and the next segment."""
    changed = []
    for kind, begin, end in _records(content):
        record = content[begin:end]
        if kind == lib.CV_WIRE_SEGMENT:
            changed.append(record if wanted[first] else _without_code(record))
            first += 1
        elif kind not in _OBJECTS:
            changed.append(record)
    return b"".join(changed), first


def _without_code(record: bytes) -> bytes:
    """Return a segment with zeros for its instructions but for jumps, calls and returns, which say where blocks end."""
    (segment,) = np.frombuffer(record, dtype=SEGMENT, count=1, offset=_WORD)
    start = _WORD + SEGMENT.itemsize
    instructions = np.frombuffer(record, dtype=INSTRUCTION, count=int(segment["instructions"]), offset=start)
    size = int(segment["code_bytes"])
    place = len(record) - size - -size % _WORD
    code = record[place : place + size]
    pieces = [(int(one["offset"]), code[one["offset"] : one["offset"] + one["length"]]) for one in instructions]
    kept = bytearray(len(record) - place)
    for (offset, piece), goes in zip(pieces, transfers(Codes.of([piece for _, piece in pieces])), strict=True):
        if goes:
            kept[offset : offset + len(piece)] = piece
    return record[:place] + bytes(kept)
