"""One file to share: a trace, its signature, machine profiles, predictions and report, with a list of what each reveals.

A ZIP archive (PKWARE's APPNOTE) whose first entry is ``manifest.json`` (docs/formats/bundle.md); any tool unpacks it.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from convolver.artifact_kinds import KINDS
from convolver.errors import ChecksumError, FormatError, SchemaError
from convolver.foreign_text import decode_json, json_text
from convolver.outputs import write_atomically
from convolver.progress import SILENT, Progress, step
from convolver.schema import check_header, document_id

SCHEMA = "convolver.bundle"
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 16 << 20
"""Bytes: some thousand files have room."""
_DAMAGED = (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError, RuntimeError)
"""What reading a damaged archive raises."""
_NAMES = ("names of functions, modules and source files",)
REVEALS = {
    ".cvt": ("code bytes that ran", "memory addresses", *_NAMES, "command line", "folder", "host name", "date"),
    ".sig.parquet": (*_NAMES, "command line", "folder", "exact counts"),
    ".machine.json": ("processor and kernel of a machine", "measured times", "host name"),
    ".html": (*_NAMES, "command line", "host name", "source lines", "predicted times"),
    "": (*_NAMES, "command line", "host name", "predicted times"),
}
"""What a file of each kind reveals, by the end of its name; the empty one stands for all others."""
REDACTED = frozenset(("folder", "command line", "host name", "source lines", "date"))
"""What a redacted bundle holds nowhere: of the command the program's name stays, of paths the files' names."""


def reveals(name: str, redacted: bool) -> list[str]:
    """Return what a file of a bundle reveals."""
    words = next(words for end, words in REVEALS.items() if name.endswith(end))
    return [word for word in words if not (redacted and word in REDACTED)]


class PackedBundle:
    """A bundle in a file: its manifest. The files themselves stay in the archive until :meth:`unpack`."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        """Take a checked manifest; :meth:`pack` and :meth:`load` make one."""
        self.path, self.manifest = path, manifest

    @property
    def id(self) -> str:
        """Hash of the manifest, which holds the hashes of all files."""
        return str(self.manifest["id"])

    @classmethod
    def pack(cls, folder: Path, output: Path, *, redacted: bool, about: dict[str, Any]) -> PackedBundle:
        """Write all files of a folder; ``about`` is what else the manifest says. Raises :class:`FormatError` when that fails."""
        files = sorted(path for path in folder.iterdir() if path.is_file())
        rows = [
            {
                "name": path.name,
                "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "reveals": reveals(path.name, redacted),
            }
            for path in files
        ]
        manifest = {
            "schema": SCHEMA,
            "version": KINDS[SCHEMA].version,
            "inputs": {},
            "redacted": redacted,
            **about,
            "files": rows,
        }
        manifest["id"] = document_id(manifest)

        def write(temporary: Path) -> None:
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(MANIFEST, json_text(manifest, indent=1))
                for path in files:
                    archive.write(path, path.name)

        write_atomically(output, write)
        return cls(output, manifest)

    @classmethod
    def load(cls, path: str | Path) -> PackedBundle:
        """Read the manifest; raises :class:`FormatError` for a file that is damaged or something else."""
        path = Path(path)
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.getinfo(MANIFEST).file_size > LARGEST_MANIFEST:
                    raise FormatError(f"{path} cannot be read as a bundle: its manifest is too large.")
                manifest = decode_json(archive.read(MANIFEST), f"{MANIFEST} of {path}")
        except KeyError as error:
            raise SchemaError(f"{path} is a ZIP archive, but no bundle of Convolver's.") from error
        except _DAMAGED as error:
            raise FormatError(f"{path} cannot be read as a bundle: {error}.") from error
        if not isinstance(manifest, dict):
            raise SchemaError(f"{path} has a broken manifest.")
        check_header(manifest, SCHEMA, str(path))
        if manifest.get("id") != document_id(manifest):
            raise ChecksumError(f"{path} was changed after it was written: its id does not match its content.")
        return cls(path, manifest)

    def verify(self, progress: Progress = SILENT) -> None:
        """Read every file; raises :class:`ChecksumError` where one differs from the manifest."""
        with step(progress, "Verifying", float(self.path.stat().st_size), unit="bytes"):
            for _, size in self._files(None):
                progress.advance(size)

    def unpack(self, folder: Path) -> list[Path]:
        """Write the files into a folder and return them; raises :class:`ChecksumError` for a damaged one."""
        return [folder / name for name, _ in self._files(folder)]

    def _files(self, folder: Path | None) -> Iterator[tuple[str, int]]:
        """Check file by file, piece by piece, and write each into the folder; yield names and sizes."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                for row in self.manifest["files"]:
                    if archive.getinfo(row["name"]).file_size != row["bytes"]:
                        raise ChecksumError(f"{self.path} is damaged: {row['name']} differs from the manifest.")
                    if folder is None:
                        self._copy(archive, row, None)
                    else:
                        write_atomically(folder / row["name"], partial(self._copy, archive, row))
                    yield row["name"], row["bytes"]
        except (KeyError, *_DAMAGED) as error:
            raise FormatError(f"{self.path} cannot be unpacked: {error}.") from error

    def _copy(self, archive: zipfile.ZipFile, row: dict[str, Any], to: Path | None) -> None:
        digest = hashlib.sha256()
        with archive.open(row["name"]) as file, open(to or os.devnull, "wb") as out:
            while part := file.read(1 << 20):
                digest.update(part)
                out.write(part)
        if digest.hexdigest() != row["sha256"]:
            raise ChecksumError(f"{self.path} is damaged: {row['name']} differs from the manifest.")

    def summary(self) -> dict[str, Any]:
        """Return the manifest."""
        return dict(self.manifest)
