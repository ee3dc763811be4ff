"""Data objects of a run: what the tracer reported of them, with the names of their places, one entry for equal ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convolver._native._core import lib
from convolver._native.sinks import ObjectOwners
from convolver._native.trace_decoder import Decoder
from convolver.errors import FormatError
from convolver.foreign_text import json_text
from convolver.signature.data_objects import KINDS
from convolver.tracing.definitions import Definitions

NO_MODULE: int = lib.CV_WIRE_NO_MODULE
SYMBOL: int = lib.CV_WIRE_SYMBOL
FIELDS: dict[str, Callable[[Any], Any]] = {
    "object": int,
    **dict.fromkeys(("label", "kind", "name", "function", "file"), str),
    **{"line": int, "module": str},
    **dict.fromkeys(("offset", "thread", "size_bytes", "places", "placed_bytes", "peak_bytes"), int),
}
"""What is known of a data object (docs/formats/data_objects.md)."""
KEPT = (lib.CV_WIRE_HEAP, lib.CV_WIRE_STACK, lib.CV_WIRE_MAPPING)
"""Kinds that are listed even where no reference was recorded; symbols are too many for that."""


@dataclass(frozen=True)
class FoundObjects:
    """``documents``: the data objects; ``number_of``: which of them each object of the decoder is."""

    documents: list[dict[str, Any]]
    number_of: NDArray[np.uint32]

    def dumps(self) -> bytes:
        """Return the content of a DOBJ chunk."""
        members: list[list[int]] = [[] for _ in self.documents]
        for place in np.flatnonzero(self.number_of).tolist():
            members[int(self.number_of[place])].append(place)
        rows = [{**one, "members": here} for one, here in zip(self.documents, members, strict=True)]
        return json_text({"objects": rows}, sort_keys=True).encode()

    @classmethod
    def loads(cls, content: bytes, objects: int, where: str) -> FoundObjects:
        """Read a DOBJ chunk of a trace with so many objects of the decoder; raises :class:`FormatError` when it is none."""
        documents = object_documents(content, where)
        number_of = np.zeros(max(objects, 1), dtype=np.uint32)
        for number, row in enumerate(documents):
            members = np.array(row.pop("members"), dtype=np.int64)
            if len(members) and not 0 <= members.min() <= members.max() < len(number_of):
                raise FormatError(f"{where} describes data objects that it does not have; trace again.")
            number_of[members] = number
        return cls(documents, number_of)


def object_documents(content: bytes, where: str) -> list[dict[str, Any]]:
    """Return the descriptions in a DOBJ chunk, each with its ``members``; raises :class:`FormatError` when it has none."""
    try:
        rows = json.loads(content)["objects"]
        documents = [{name: kind(row[name]) for name, kind in FIELDS.items()} for row in rows]
        return [
            {**row, "members": [int(member) for member in given["members"]]} for row, given in zip(documents, rows, strict=True)
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"{where} has a description of data objects that cannot be read; trace again.") from error


def object_owners(decoder: Decoder, found: FoundObjects) -> ObjectOwners:
    """Return what owners stand for, of a decoder that has come to the end."""
    pairs = decoder.pairs()
    return ObjectOwners(pairs["site"].astype(np.uint32), found.number_of[pairs["object"]], found.documents)


def _label(row: Mapping[str, Any]) -> str:
    kind, name = row["kind"], row["name"]
    where = row["function"] or (f"{row['module'].rsplit('/', 1)[-1]}+{row['offset']:#x}" if row["module"] else "")
    if row["line"]:
        where += f" ({row['file'].rsplit('/', 1)[-1]}:{row['line']})"
    match kind:
        case "heap" | "mapping":
            return f"{name} in {where}" if where else f"anonymous memory ({name})"
        case "stack":
            return f"stack of thread {row['thread']}"
        case "file":
            return name.rsplit("/", 1)[-1]
        case "allocator":
            return "the allocator's own memory"
        case "unknown":
            return "not known"
    return str(name)


def _labels(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Calls of one line, and variables of one name, are distinguished by a number in the order of the code."""
    labels = [_label(row) for row in rows]
    again: dict[str, int] = {}
    numbers = Counter(labels)
    for place in sorted(range(len(rows)), key=lambda place: (rows[place]["module"], rows[place]["offset"])):
        label = labels[place]
        if numbers[label] > 1:
            again[label] = again.get(label, 0) + 1
            labels[place] = f"{label} #{again[label]}"
    return labels


def find_objects(decoder: Decoder, definitions: Definitions, *, names: bool = True) -> FoundObjects:
    """Return the data objects that a decoder knows: allocation sites, stacks and mappings, symbols and files where referred to.

    ``names`` False: do not look into the object files, which may no longer be there.
    """
    from convolver.tracing.symbols import demangle, resolve_places  # only here: they bring a library that predictions do not need

    objects, texts = decoder.objects(), decoder.object_texts()
    used = np.zeros(max(len(objects), 1), dtype=bool)
    used[decoder.pairs()["object"]] = True
    used[0] = True  # number 0: what nothing is known of
    if len(objects):
        used |= np.isin(objects["kind"], KEPT)
    wanted = np.flatnonzero(used).tolist()
    placed = [i for i in wanted if len(objects) and objects["module"][i] != NO_MODULE and objects["kind"][i] != SYMBOL]
    places = [(int(objects["module"][i]), int(objects["file_offset"][i])) for i in placed]
    functions, files, lines = resolve_places(definitions.paths, places, names=names)
    found = dict(zip(placed, zip(functions, files, lines, strict=True), strict=True))
    readable = demangle([texts[i] if texts and objects["kind"][i] == SYMBOL else "" for i in wanted], names=names)
    number_of = np.zeros(max(len(objects), 1), dtype=np.uint32)
    documents: list[dict[str, Any]] = []
    known: dict[tuple[Any, ...], int] = {}
    for index, name in zip(wanted, readable, strict=True):
        row = _document(objects, texts, definitions.paths, index, name, found.get(index, ("", "", 0)))
        key = tuple(row[field] for field in ("kind", "name", "module", "offset", "thread", "size_bytes"))
        number = known.setdefault(key, len(documents))
        number_of[index] = number
        if number == len(documents):
            documents.append(row)
        else:
            for field in ("places", "placed_bytes", "peak_bytes"):
                documents[number][field] += row[field]
    labels = _labels(documents)
    return FoundObjects([{"object": number, **row, "label": labels[number]} for number, row in enumerate(documents)], number_of)


def _document(
    objects: NDArray[Any], texts: list[str], paths: list[str], index: int, symbol: str, place: tuple[str, str, int]
) -> dict[str, Any]:
    if not len(objects):
        objects, texts = np.zeros(1, dtype=objects.dtype), [""]
        objects["module"] = NO_MODULE
    one = objects[index]
    kind = int(one["kind"])
    function, file, line = place
    return {
        "kind": KINDS[kind],
        "name": symbol or texts[index],
        "function": function,
        "file": file,
        "line": line,
        "module": paths[int(one["module"])] if one["module"] != NO_MODULE else "",
        "offset": int(one["address"] if kind == SYMBOL else one["file_offset"]),
        "thread": int(one["thread"]),
        "size_bytes": int(one["size_bytes"]),
        "places": int(one["places"]),
        "placed_bytes": int(one["bytes"]),
        "peak_bytes": int(one["peak_bytes"]),
    }
