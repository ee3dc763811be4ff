"""Reads ``.cvt`` files as streams, whole ones and such that were cut off."""

from __future__ import annotations

import hashlib
import io
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convolver._native.path_builder import Paths
from convolver._native.sinks import Decoded, ReferenceReader, Sinks
from convolver._native.trace_decoder import Batch, Decoder
from convolver.errors import ChecksumError, FormatError, SchemaError, UsageError
from convolver.foreign_text import decode_json
from convolver.heavy import pl
from convolver.progress import SILENT, Progress, step
from convolver.schema import check_header, missing_file
from convolver.shapes import check_shape
from convolver.signature.data_objects import HOW_TO, DataObjects
from convolver.signature.features import path_shares, sampled_share
from convolver.tracing import format as cvt
from convolver.tracing.blocks import Blocks, rebuild_blocks
from convolver.tracing.definitions import Definitions
from convolver.tracing.found_objects import FoundObjects, find_objects, object_documents, object_owners
from convolver.tracing.instruction_sets import UsedSets, used_sets
from convolver.tracing.path_features import PathFeatures
from convolver.tracing.sampling import tell_warm_ups
from convolver.tracing.site_features import site_line_shares
from convolver.tracing.thread_log import ThreadLog

if TYPE_CHECKING:
    from convolver.signature.signature import Signature

WINDOW_VISITS = 65_536
"""Longest piece of a path."""
ENOUGH_REFERENCES = 8_000_000
"""So many references, a few bursts of each part of the run, tell by which patterns each site's lines come."""
_DECODED = frozenset((cvt.MODULES, cvt.SEGMENTS, cvt.ADDRESSES))
_LIGHT = frozenset((cvt.META, cvt.MODULES, cvt.SEGMENTS, cvt.COUNTS, cvt.SIGNATURE, cvt.TRAILER, cvt.OBJECTS))


class Trace:
    """A recorded trace: definitions and exact counts in memory, addresses as a stream from the file.

    A file without a trailer was cut off: everything up to the cut is there and ``header["complete"]`` is False.
    """

    def __init__(self, path: Path, header: dict[str, Any], definitions: Definitions, counters: NDArray[np.uint64] | None) -> None:
        self.path = path
        self.header: Mapping[str, Any] = header
        self.definitions = definitions
        self._counters = counters
        self._signature: bytes | None = None
        self._objects: bytes | None = None

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read everything but the addresses; raises :class:`FormatError` for a damaged, foreign or newer file."""
        path = Path(path)
        meta: dict[str, Any] | None = None
        trailer: dict[str, Any] = {}
        counters: NDArray[np.uint64] | None = None
        signature: bytes | None = None
        objects: bytes | None = None
        decoder = Decoder(str(path))
        for chunk in _chunks(path, _LIGHT):
            content = chunk.content(str(path))
            if chunk.kind == cvt.META:
                meta = _document(content, path)
                check_header(meta, cvt.SCHEMA, str(path))
            elif chunk.kind == cvt.TRAILER:
                trailer = _document(content, path)
            elif chunk.kind == cvt.COUNTS:
                counters = np.frombuffer(content, dtype="<u8", count=len(content) // 8)
            elif chunk.kind == cvt.SIGNATURE:
                signature = content
            elif chunk.kind == cvt.OBJECTS:
                objects = content
            else:
                decoder.define(content)
        if meta is None:
            raise FormatError(f"{path} was cut off before anything was recorded; trace again.")
        ending = trailer or {"complete": False, "reason": "the file has no end: it was cut off or its writer was killed"}
        check_shape({**meta, **ending}, cvt.SCHEMA, str(path))
        trace = cls(path, {**meta, **ending, "inputs": meta.get("inputs", {})}, Definitions.of(decoder), counters)
        trace._signature, trace._objects = signature, objects
        if "id" not in trailer:
            trace.header = {**trace.header, "id": trace._content_id()}
        return trace

    @property
    def id(self) -> str:
        """Hash of the content."""
        return str(self.header["id"])

    @property
    def inputs(self) -> dict[str, Any]:
        """Ids of what this trace was made from: none, unless it was imported or merged."""
        return dict(self.header["inputs"])

    @property
    def complete(self) -> bool:
        """True when the traced program was recorded to its end."""
        return bool(self.header.get("complete"))

    @property
    def counters(self) -> NDArray[np.uint64]:
        """The exact execution counters; raises :class:`FormatError` when the file was cut off before the first ones."""
        if self._counters is None:
            raise FormatError(f"{self.path} was cut off before its execution counts; only its addresses can be used.")
        return self._counters

    @property
    def known_counters(self) -> NDArray[np.uint64]:
        """The exact execution counters, none where the file was cut off before the first ones."""
        return self._counters if self._counters is not None else np.zeros(0, dtype=np.uint64)

    @cached_property
    def blocks(self) -> Blocks:
        """The static basic blocks; without counts (see :attr:`counters`) executed counts are 0."""
        return rebuild_blocks(self.definitions, self.known_counters)

    @cached_property
    def instruction_sets(self) -> UsedSets:
        """The instruction sets of the code that was executed, none where the file was cut off before the first counts."""
        return used_sets(self.definitions, self.known_counters)

    @cached_property
    def thread_log(self) -> ThreadLog | None:
        """What each thread did between its events; None where the program had one thread, or its tracer did not tell.

        Raises :class:`FormatError` for a damaged file.
        """
        where = str(self.path)
        pieces = [chunk.content(where) for chunk in _chunks(self.path, frozenset((cvt.THREADS,)))]
        return ThreadLog.parse(b"".join(pieces), where) if pieces else None

    @property
    def site_blocks(self) -> NDArray[np.uint32]:
        """Block (row of the signature) of each site."""
        return self.blocks.site_blocks

    @property
    def block_memops(self) -> NDArray[np.uint64]:
        """Executed memory references of each block."""
        return self.blocks.counts["loads"] + self.blocks.counts["stores"]

    @cached_property
    def signature(self) -> Signature:
        """The table of blocks. A file that was cut off before it has one without function names, from what is there."""
        from convolver.signature.signature import Signature

        if self._signature is not None:
            return Signature.load(io.BytesIO(self._signature))  # type: ignore[arg-type]
        decoder = Decoder(str(self.path))
        paths = PathFeatures(decoder, self.header.get("sampling"))
        self._decode(decoder)
        return self._assembled(decoder, paths)

    def _assembled(self, decoder: Decoder, paths: PathFeatures) -> Signature:
        from convolver.tracing.assemble import assemble_signature

        return assemble_signature(decoder, self.counters, self.blocks, None, self.header, {"trace": self.id}, paths)

    @property
    def has_data_objects(self) -> bool:
        """True when the trace tells which data objects its references touch."""
        return self._sampling("data_objects")

    def _found_objects(self, decoder: Decoder) -> FoundObjects:
        """Names of data objects are those found at the end of the run; a file that was cut off before has none."""
        if self._objects is None:
            return find_objects(decoder, self.definitions, names=False)
        return FoundObjects.loads(self._objects, len(decoder.objects()), str(self.path))

    @cached_property
    def data_objects(self) -> DataObjects:
        """The references of each block to each data object; raises :class:`UsageError` for a trace that was made without."""
        from convolver.tracing.assemble import assemble_objects

        self._need_objects(True)
        decoder = Decoder(str(self.path))
        decoder.attribute()
        self._decode(decoder)
        found = self._found_objects(decoder)
        return assemble_objects(decoder, self.definitions, self.blocks, found, {"trace": self.id})

    def _content_id(self) -> str:
        digest = hashlib.sha256()
        for chunk in _chunks(self.path, None):
            if chunk.kind not in (cvt.SIGNATURE, cvt.TRAILER):
                digest.update(cvt.repack(chunk))
        return digest.hexdigest()[:32]

    def verify(self, progress: Progress = SILENT) -> None:
        """Read the whole file: every checksum, every address, the id, the signature.

        Raises :class:`ChecksumError` or :class:`FormatError` when something does not fit.
        """
        if self._content_id() != self.id:
            raise ChecksumError(f"{self.path} was changed after it was written: its id does not match its content.")
        decoder = Decoder(str(self.path))
        if self.has_data_objects:
            decoder.attribute()
        self._decode(decoder, progress, "Verifying")
        if self.has_data_objects:
            self._found_objects(decoder)
        if self._signature is not None:
            _ = self.signature

    def _decode(self, decoder: Decoder, progress: Progress = SILENT, label: str = "Reading the trace") -> None:
        with step(progress, label, total=float(self.path.stat().st_size), unit="bytes"):
            for size in self._decoded(decoder, _DECODED | {cvt.EVENTS} if decoder.attributes else _DECODED):
                progress.advance(size)

    def _decoded(self, decoder: Decoder, kinds: frozenset[bytes]) -> Iterator[int]:
        """Decode chunk by chunk; yields the size of each after it was decoded."""
        for chunk in _chunks(self.path, kinds):
            content = chunk.content(str(self.path))
            if chunk.kind == cvt.ADDRESSES:
                decoder.replay(content)
            elif chunk.kind == cvt.EVENTS:
                decoder.events(content)
            else:
                decoder.define(content)
            yield len(chunk.payload)
        decoder.flush()
        yield 0

    def _sampling(self, name: str) -> bool:
        return bool((self.header.get("sampling") or {}).get(name))

    def _decoder(self) -> Decoder:
        decoder = Decoder(str(self.path))
        tell_warm_ups(decoder, self.header.get("sampling") or {})
        return decoder

    def feed(self, sinks: Sinks, progress: Progress = SILENT) -> Decoded:
        """Stream every recorded reference into simulators, and return what was learned on the way.

        Raises :class:`UsageError` where data objects are asked for and the trace was made without.
        """
        self._need_objects(sinks.by_object)
        decoder = self._decoder()
        sinks.connect(decoder)
        whole = self._signature is not None  # of a file that was cut off the features follow from the same pass
        if whole:
            decoder.shares_alone(self._one_window_in())
        paths = PathFeatures(decoder, self.header.get("sampling"), sinks.paths, branches=not whole)
        self._decode(decoder, progress, "Simulating")
        if not whole and self._counters is not None and "signature" not in self.__dict__:
            self.signature = self._assembled(decoder, paths)
        owners = object_owners(decoder, self._found_objects(decoder)) if sinks.by_object else None
        return Decoded(self.site_blocks, self.block_memops, site_line_shares(decoder, paths.sites()), owners)

    def _one_window_in(self) -> int:
        """Return of how many windows one is enough for shares."""
        sample = (self.header.get("sampling") or {}).get("mode") == "sample"
        return math.ceil(int(self.header.get("recorded_references") or 0) / ENOUGH_REFERENCES) if sample else 1

    def _need_objects(self, asked: bool) -> None:
        if asked and not self.has_data_objects:
            raise UsageError(f"{self.path} knows no data objects. {HOW_TO}")

    def read(self, join: ReferenceReader, progress: Progress = SILENT) -> None:
        """Stream every recorded reference into readers in C, which ``join`` adds to the decoder."""
        decoder = self._decoder()
        join(decoder)
        self._decode(decoder, progress)

    def batches(self) -> Iterator[Batch]:
        """Yield the recorded references as arrays, in batches of at most a few thousand."""
        decoder = self._decoder()
        collector = decoder.add_collector()
        for _ in self._decoded(decoder, _DECODED):
            yield from collector.take()

    def objects_at(self, addresses: Sequence[int]) -> list[dict[str, Any]]:
        """Return the data object that most references to the eight bytes at each address touch; {} where the trace tells none."""
        if not self.has_data_objects:
            return [{} for _ in addresses]
        decoder = self._decoder()
        decoder.attribute(owners=True)
        collector = decoder.add_collector()
        words = np.unique(np.array(addresses, dtype=np.uint64) >> np.uint64(3))
        counts: Counter[tuple[int, int]] = Counter()
        for _ in self._decoded(decoder, _DECODED | {cvt.EVENTS}):
            for batch in collector.take():
                touched = batch.addresses >> np.uint64(3)
                here = np.isin(touched, words)
                counts.update(zip(touched[here].tolist(), batch.sites[here].tolist(), strict=True))
        owners = object_owners(decoder, self._found_objects(decoder))
        by_word: dict[int, Counter[int]] = {}
        for (word, owner), count in counts.items():
            by_word.setdefault(word, Counter())[int(owners.objects[owner])] += count
        most = [by_word[address >> 3].most_common(1) if address >> 3 in by_word else [] for address in addresses]
        return [owners.documents[one[0][0]] if one else {} for one in most]

    @property
    def whole_paths(self) -> bool:
        """True when each visit in :meth:`walk` is followed by what was executed next: nothing was left out between them."""
        return self._sampling("paths")

    def walk(self, prepare: Callable[[Decoder, Paths], None], progress: Progress = SILENT) -> None:
        """Read all windows into readers in C, which ``prepare`` adds to the decoder and to the builder of paths.

        Segments that do not refer to memory are among the visits only where :attr:`whole_paths` says so.
        """
        decoder = Decoder(str(self.path))
        prepare(decoder, Paths(decoder, WINDOW_VISITS, warmup=self._sampling("warmup")))
        self._decode(decoder, progress, "Reading paths")

    @cached_property
    def segments(self) -> pl.DataFrame:
        """The table of segments (:func:`convolver.tracing.blocks.segment_table`), code bytes included."""
        from convolver.tracing.blocks import segment_table

        return segment_table(self.definitions, self.known_counters, self.blocks)

    def summary(self) -> dict[str, Any]:
        """Return the header, with the totals of the signature, as a JSON-able document."""
        signature = self.signature
        shares = {
            "sampled_share": sampled_share(signature.table),
            "paths": path_shares(signature.table),
            "instruction_sets": self.instruction_sets.shares(),
        }
        return {**self.header, "totals": signature.totals, **shares, "data_objects": self._objects_summary()}

    def _objects_summary(self) -> Any:
        """The largest data objects that came and went, or a sentence that says how to record them."""
        if not self.has_data_objects or self._objects is None:
            return HOW_TO
        heap = [one for one in object_documents(self._objects, str(self.path)) if one["kind"] == "heap"]
        largest = sorted(heap, key=lambda one: -int(one["peak_bytes"]))
        return [{name: one[name] for name in ("label", "places", "placed_bytes", "peak_bytes")} for one in largest[:20]]


def _chunks(path: Path, kinds: frozenset[bytes] | None) -> Iterator[cvt.Chunk]:
    try:
        with open(path, "rb") as file:
            cvt.read_header(file, str(path))
            yield from cvt.read_chunks(file, str(path), kinds=kinds)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise (missing_file(path, cvt.SCHEMA) if missing else FormatError(f"{path} cannot be read: {error.strerror}.")) from error


def read_chunks(path: Path, more: frozenset[bytes] = frozenset()) -> Iterator[cvt.Chunk]:
    """Yield the chunks with definitions and addresses, and ``more`` kinds; raises :class:`FormatError` for a damaged file."""
    yield from _chunks(path, _DECODED | more)


def _document(content: bytes, path: Path) -> dict[str, Any]:
    document = decode_json(content, f"The description in {path}")
    if not isinstance(document, dict):
        raise SchemaError(f"{path} holds a description that is no JSON object.")
    return document
