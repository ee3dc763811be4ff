"""The ``.cvt`` container: a header, then chunks that each carry their own checksum (docs/formats/cvt.md)."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from convolver._native.trace_decoder import crc32c
from convolver.errors import ChecksumError, FormatError, SchemaError, UnsupportedVersionError
from convolver.schema import newer

SCHEMA = "convolver.trace"
MAGIC = b"\x89CVT\r\n\x1a\n"
VERSION = 2
OLDEST_READER = 2
"""Readers of version 1 do not know units within address chunks."""

META, MODULES, SEGMENTS, ADDRESSES, COUNTS, SIGNATURE, TRAILER = b"META", b"MODS", b"BLKS", b"ADDR", b"CNTS", b"SIGN", b"TRLR"
EVENTS, OBJECTS, THREADS = b"EVNT", b"DOBJ", b"THRD"
KNOWN = frozenset((META, MODULES, SEGMENTS, ADDRESSES, COUNTS, SIGNATURE, TRAILER, EVENTS, OBJECTS, THREADS))

CRITICAL = 1
"""Flag: a reader that does not know this kind must refuse the file."""
ZSTD = 1 << 8
"""Flag: the payload is one zstd frame that states its content's size."""

LONGEST_CONTENT = 1 << 28
"""Unpacked payloads are never longer, so that a damaged length cannot exhaust the memory."""

_HEADER = struct.Struct("<8sHHI")
_CHUNK = struct.Struct("<4sIQ")
_CRC = struct.Struct("<I")


class Chunk(NamedTuple):
    """One chunk; ``payload`` as stored, ``position`` is where it begins in the file."""

    kind: bytes
    flags: int
    payload: bytes
    position: int

    def content(self, where: str) -> bytes:
        """Return the payload unpacked; raises :class:`FormatError` when it cannot be."""
        if not self.flags & ZSTD:
            return self.payload
        import zstandard

        try:
            size = zstandard.get_frame_parameters(self.payload).content_size
            if size > LONGEST_CONTENT:
                raise FormatError(f"{where} has an impossible chunk at byte {self.position}.")
            return zstandard.ZstdDecompressor().decompress(self.payload, max_output_size=max(size, 1))
        except zstandard.ZstdError as error:
            raise FormatError(f"{where} has a chunk at byte {self.position} that cannot be unpacked: {error}.") from error


_own = threading.local()


def _compressor() -> Any:
    """Return this thread's compressor: making one costs as much as compressing a chunk."""
    if not hasattr(_own, "compressor"):
        import zstandard

        _own.compressor = zstandard.ZstdCompressor(level=3)
    return _own.compressor


def pack_header() -> bytes:
    """Return the first bytes of a file."""
    return _HEADER.pack(MAGIC, VERSION, OLDEST_READER, 0)


def pack_chunk(kind: bytes, payload: bytes, flags: int = 0) -> bytes:
    """Return a chunk with its checksum; its content is compressed when ``flags`` has :data:`ZSTD`."""
    if flags & ZSTD:
        payload = _compressor().compress(payload)
    head = _CHUNK.pack(kind, flags, len(payload))
    return head + payload + _CRC.pack(crc32c(payload, crc32c(head)))


def read_header(file: BinaryIO, where: str) -> None:
    """Check the first bytes; raises :class:`SchemaError` for a foreign and :class:`UnsupportedVersionError` for a newer file."""
    data = file.read(_HEADER.size)
    if data[:8] != MAGIC[: len(data)] or len(data) < 8:
        raise SchemaError(f"{where} is no Convolver trace (.cvt); `convolver trace -- COMMAND` records one.")
    if len(data) < _HEADER.size:
        raise FormatError(f"{where} ends inside its header; trace again.")
    _, version, oldest, _ = _HEADER.unpack(data)
    if oldest > VERSION:
        raise newer(where, SCHEMA, version, VERSION)


def read_chunks(file: BinaryIO, where: str, *, kinds: frozenset[bytes] | None = None) -> Iterator[Chunk]:
    """Yield the chunks after the header, up to the end or to the place where the file was cut.

    With ``kinds``, only those are yielded; the payloads of other known ones are passed over unread. Unknown kinds are
    passed over too, or refused with :class:`UnsupportedVersionError` when they are critical. Without ``kinds``, all are yielded.
    Raises :class:`ChecksumError` for a damaged chunk.
    """
    while True:
        position = file.tell()
        head = file.read(_CHUNK.size)
        if len(head) < _CHUNK.size:
            return
        kind, flags, length = _CHUNK.unpack(head)
        if kind not in KNOWN and flags & CRITICAL and kind.isalnum():
            raise UnsupportedVersionError(f"{where} needs a newer Convolver: its part '{kind.decode()}' is not known here.")
        if kinds is not None and kind in KNOWN and kind not in kinds and _skip(file, length):
            continue
        payload = _read(file, length)
        if payload is None:
            return
        data, stored = payload
        if crc32c(data, crc32c(head)) != stored:
            raise ChecksumError(f"{where} is damaged at byte {position}: a checksum differs; trace again.")
        if kinds is None or kind in kinds:
            yield Chunk(kind, flags, data, position)


def _remaining(file: BinaryIO) -> int:
    here = file.tell()
    end = file.seek(0, 2)
    file.seek(here)
    return end - here


def _read(file: BinaryIO, length: int) -> tuple[bytes, int] | None:
    """Read payload and checksum, or return None when the file ends before."""
    if length + _CRC.size > _remaining(file):
        return None
    data = file.read(length)
    stored = file.read(_CRC.size)
    return (data, _CRC.unpack(stored)[0]) if len(stored) == _CRC.size else None


def _skip(file: BinaryIO, length: int) -> bool:
    if length + _CRC.size > _remaining(file):
        return False
    file.seek(length + _CRC.size, 1)
    return True


def repack(chunk: Chunk) -> bytes:
    """Return the bytes of a chunk as they lie in the file."""
    head = _CHUNK.pack(chunk.kind, chunk.flags, len(chunk.payload))
    return head + chunk.payload + _CRC.pack(crc32c(chunk.payload, crc32c(head)))
