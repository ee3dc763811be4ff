"""Writes a ``.cvt`` file chunk by chunk; whatever happens, what was written stays readable."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver._native.trace_decoder import TracePayloads
from convolver.artifact_kinds import KINDS
from convolver.errors import FormatError
from convolver.foreign_text import json_text
from convolver.outputs import Destination, open_kept
from convolver.tracing import format as cvt

if TYPE_CHECKING:
    from convolver.signature.signature import Signature

_DEFINING = frozenset((cvt.META, cvt.MODULES, cvt.SEGMENTS))


def signature_path(output: Path) -> Path:
    """Return where the signature of a trace file lies: ``APP.sig.parquet`` beside ``APP.cvt``."""
    return output.with_name(output.name.removesuffix(".cvt") + ".sig.parquet")


def _lock(file: io.FileIO) -> None:
    """Lock the file, where its file system has locks; BlockingIOError when another has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
            raise


class TraceWriter:
    """Streams a trace to ``path``: memory does not grow with its length.

    The file is made beside its place as ``path.part`` and moved there by :meth:`finish`; after a crash the part is a readable,
    incomplete trace. A second writer of the name is refused meanwhile. Every method raises :class:`FormatError` when the disk is
    full; the chunks before stay whole.
    """

    def __init__(self, path: str | Path, meta: Mapping[str, Any]) -> None:
        """Create the file and write ``meta`` (JSON-able: command, sampling, ...)."""
        self.path = Path(path)
        self._target = Destination.find(path)
        if self._target.is_stream:
            raise FormatError(f"{self.path} cannot take a trace: it is a device or a FIFO; give the name of a file.")
        self.part = self._target.path.with_name(self._target.path.name + ".part")
        self._digest = hashlib.sha256()
        self._whole = 0
        self._fresh: Path | None = None
        self._locked: io.FileIO | None = None
        try:
            self._file = self._open_alone()
        except BlockingIOError as error:
            raise FormatError(f"{self.path} is being written by another run: wait for its end or choose another name.") from error
        except OSError as error:
            raise FormatError(f"{self.path} cannot be written: {error.strerror}.") from error
        header = {"schema": cvt.SCHEMA, "version": KINDS[cvt.SCHEMA].version, **meta}
        self._put(cvt.pack_header())
        self.put(cvt.META, json_text(header, sort_keys=True).encode(), cvt.CRITICAL)

    def _open_alone(self) -> io.FileIO:
        """Open the part, emptied; BlockingIOError while another writer has it. The lock ends with the file, or its process."""
        file = open_kept(self.part)
        try:
            _lock(file)
            if not self.part.exists() or not os.path.samestat(os.fstat(file.fileno()), self.part.stat()):
                raise BlockingIOError  # the other writer moved it to its place in between
            file.truncate(0)
        except BaseException:
            file.close()
            raise
        return file

    @property
    def id(self) -> str:
        """Hash of the content written so far."""
        return self._digest.hexdigest()[:32]

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._whole

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._whole)
                self._file.seek(self._whole)
            raise FormatError(f"{self.path} cannot be written: {error.strerror}; what is whole was kept.") from error
        self._whole += len(data)

    def put(self, kind: bytes, content: bytes, flags: int = 0) -> None:
        """Append one chunk. What :data:`SIGN` and :data:`TRLR` hold is not part of the content that the id stands for."""
        data = cvt.pack_chunk(kind, content, flags)
        self._put(data)
        if kind not in (cvt.SIGNATURE, cvt.TRAILER):
            self._digest.update(data)

    def put_recorded(self, recorded: TracePayloads) -> None:
        """Append what a decoder recorded: definitions before the addresses that need them."""
        parts = (
            (cvt.MODULES, recorded.modules, cvt.CRITICAL),
            (cvt.SEGMENTS, recorded.segments, cvt.CRITICAL),
            (cvt.EVENTS, recorded.events, 0),  # a reader that knows no data objects does without
            (cvt.ADDRESSES, recorded.addresses, cvt.CRITICAL),
        )
        for kind, content, flags in parts:
            if content:
                self.put(kind, content, flags | cvt.ZSTD)

    def begin_again(self) -> None:
        """Go on in a new file that holds what was written so far but for addresses and counts; the part stays until the end."""
        with open(self.part, "rb") as part:
            cvt.read_header(part, str(self.part))
            kept = [cvt.repack(chunk) for chunk in cvt.read_chunks(part, str(self.part), kinds=_DEFINING)]
        self._fresh = self.part.with_name(f"{self.part.name}.{os.getpid()}")
        try:
            file = open(self._fresh, "xb", buffering=0)  # noqa: SIM115 - stays open until finish() or keep()
        except OSError as error:
            raise FormatError(f"{self.path} cannot be written: {error.strerror}; the trace is in {self.part}.") from error
        self._file, self._locked = file, self._file
        self._digest, self._whole = hashlib.sha256(), 0
        self._put(cvt.pack_header())
        for chunk in kept:
            self._put(chunk)
            self._digest.update(chunk)

    @property
    def current(self) -> Path:
        """The file that is being written."""
        return self._fresh or self.part

    def put_counts(self, counters: bytes) -> None:
        """Append the execution counters as they are now; a later chunk replaces an earlier one."""
        self.put(cvt.COUNTS, counters, cvt.CRITICAL | cvt.ZSTD)

    def put_threads(self, pieces: Iterable[bytes]) -> None:
        """Append what the run says of its threads (:mod:`convolver.tracing.thread_log`)."""
        for piece in pieces:
            self.put(cvt.THREADS, piece, cvt.ZSTD)

    def put_signature(self, signature: Signature) -> None:
        """Write the signature, beside the trace as well."""
        path = signature_path(self.path)
        signature.save(path)
        self.put(cvt.SIGNATURE, path.read_bytes())

    def finish(self, trailer: Mapping[str, Any]) -> None:
        """Write the trailer (JSON-able) with the id and move the file to its place."""
        self.put(cvt.TRAILER, json_text({**trailer, "id": self.id}, sort_keys=True).encode(), cvt.CRITICAL)
        self.keep()

    def keep(self) -> None:
        """Move the file to its place as it is: without a trailer it reads as an incomplete trace."""
        try:
            self._target.take(self.current)  # while the lock is held
            if self._fresh is not None:
                self.part.unlink(missing_ok=True)
            self._close()
        except OSError as error:
            raise FormatError(f"{self.path} cannot be written: {error.strerror}; the trace is in {self.part}.") from error

    def discard(self) -> None:
        """Remove the file."""
        self.current.unlink(missing_ok=True)
        self.part.unlink(missing_ok=True)
        self._close()

    @contextlib.contextmanager
    def whole_or_none(self) -> Iterator[None]:
        """Remove the file where what is written within raises."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                self.discard()
            raise

    def _close(self) -> None:
        self._file.close()
        if self._locked is not None:
            self._locked.close()
