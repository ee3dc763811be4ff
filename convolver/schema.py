"""Identity of artifacts: schema name, version, content id, ids of the inputs.

An artifact is a JSON document, a Parquet table or a trace container. Each carries the same four header fields. The id is a hash
of the content, so the same content has the same id on every machine, and a changed file no longer matches its own id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Self

from convolver.artifact_kinds import KINDS
from convolver.errors import ChecksumError, FormatError, SchemaError, UnsupportedVersionError, UsageError
from convolver.foreign_text import decode_json, json_text, polars_source, readable, visible
from convolver.heavy import pl
from convolver.outputs import save_text, write_atomically
from convolver.shapes import check_columns, check_shape

PARQUET_KEY = "convolver"
"""Key of the artifact header in a Parquet file's own metadata."""
MANY_TEXTS = 50_000
TRACE_SCHEMA, BUNDLE_SCHEMA = "convolver.trace", "convolver.bundle"
PARQUET, TRACE, ZIP = b"PAR1", b"\x89CVT", b"PK\x03\x04"
"""First bytes of files."""


def _instead(path: str | Path, found: str, schema: str) -> str:
    """Return the sentence for a file that is not what is needed."""
    kind = KINDS[schema]
    return f"{path} holds {found}, but {kind.what} is needed here; {kind.maker}."


def other_kind(path: str | Path, found: str, schema: str) -> SchemaError:
    """Return the error for a file of the schema ``found`` where one of ``schema`` is needed."""
    return SchemaError(_instead(path, KINDS[found].what if found in KINDS else f"'{found}'", schema))


def schema_of(path: str | Path) -> str:
    """Return the schema of a file by its content, not its name.

    Raises :class:`FormatError` when it cannot be read, :class:`SchemaError` when it is no artifact of Convolver's and
    :class:`UsageError` for something that is no path.
    """
    if not isinstance(path, (str, Path)):
        raise UsageError(f"{type(path).__name__} is no path of a file.")
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as error:
        advice = "; `convolver report` takes folders" if Path(path).is_dir() else ""
        raise FormatError(f"{path} cannot be read: {error.strerror}{advice}.") from error
    if start == PARQUET:
        schema = read_table_header(path).get("schema")
    elif start == TRACE or Path(path).suffix == ".cvt":
        return TRACE_SCHEMA
    elif start == ZIP:
        return BUNDLE_SCHEMA
    elif start[:1].isspace() or start[:1] == b"{":
        schema = read_json(path).get("schema")
    else:
        raise SchemaError(f"{path} is no Convolver artifact: it is neither a trace, nor Parquet, nor a JSON object.")
    if not isinstance(schema, str) or schema not in KINDS:
        what = "it has no 'schema' field" if schema is None else f"it has the unknown schema '{schema}'"
        raise SchemaError(f"{path} is no Convolver artifact: {what}.")
    return str(schema)


def held(path: str | Path) -> str | None:
    """Return the kind of an artifact in words; None for another file."""
    try:
        return KINDS[schema_of(path)].what
    except FormatError:
        return None


def missing_file(path: str | Path, schema: str) -> FormatError:
    """Return the error for a file that is not there, with the command that makes one."""
    kind = KINDS[schema]
    return FormatError(f"There is no file {path}; {kind.what} is needed here: {kind.maker}.")


def newer(where: str | Path, schema: str, version: int, newest: int) -> UnsupportedVersionError:
    """Return the error for a file that a later Convolver wrote, with what to do."""
    return UnsupportedVersionError(
        f"{where} has version {version} of {schema}, but this Convolver reads up to {newest}: update Convolver, "
        f"or make it again: {KINDS[schema].maker}."
    )


def canonical(document: Any) -> bytes:
    """Return the document as JSON with sorted keys and no spaces."""
    return json_text(document, sort_keys=True, separators=(",", ":")).encode()


def document_id(document: Mapping[str, Any]) -> str:
    """Return the id of a JSON document: 32 hex digits over everything but its ``id`` field."""
    return hashlib.sha256(canonical({k: v for k, v in document.items() if k != "id"})).hexdigest()[:32]


def table_digest(table: pl.DataFrame) -> str:
    """Return a hash over names, types, nulls and values of a table, independent of file layout and compression."""
    digest = hashlib.sha256()
    for column in table.get_columns():
        digest.update(f"{column.name}:{column.dtype}:{len(column)};".encode())
        # Expressions on a column start polars' threads, which costs more than the hash of a small table.
        whole = not column.null_count()
        digest.update(bytes(len(column)) if whole else column.is_null().to_numpy().tobytes())
        if column.dtype == pl.String:
            digest.update(_joined(column).encode())
        elif column.dtype.is_numeric() or column.dtype == pl.Boolean:
            filled = column if whole else column.fill_null(0 if column.dtype.is_numeric() else False)
            digest.update(filled.to_numpy().tobytes())
        else:
            try:
                digest.update(canonical(column.to_list()))
            except (TypeError, ValueError) as error:
                raise SchemaError(f"The column '{column.name}' is of the type {column.dtype}, which no artifact has.") from error
    return digest.hexdigest()


def _joined(texts: pl.Series) -> str:
    """Return texts with a zero character between them, nulls as empty ones; polars joins many in a fourth of the time."""
    if len(texts) > MANY_TEXTS:
        return str(texts.fill_null("").str.join("\0")[0])
    return "\0".join(texts.to_list() if not texts.null_count() else [text or "" for text in texts.to_list()])


def check_header(header: Any, schema: str, where: str) -> None:
    """Check that a header names ``schema`` in a version this package reads.

    Raises :class:`SchemaError` for another schema or a broken header, :class:`UnsupportedVersionError` for a newer version.
    """
    if not isinstance(header, Mapping) or "schema" not in header:
        raise SchemaError(f"{where} is no Convolver artifact: it has no 'schema' field.")
    if not isinstance(header["schema"], str):
        raise SchemaError(f"{where} is no Convolver artifact: its 'schema' is no text.")
    if header["schema"] != schema:
        raise other_kind(where, header["schema"], schema)
    version = header.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SchemaError(f"{where} has no valid 'version' field.")
    newest = KINDS[schema].version
    if version > newest:
        raise newer(where, schema, version, newest)
    check_shape(header, schema, where)


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON object from a file; raises :class:`FormatError` when it is missing or none."""
    with readable(path):
        data = Path(path).read_bytes()
    document = decode_json(data, str(path))
    if not isinstance(document, dict):
        raise SchemaError(f"{path} does not hold a JSON object.")
    return document


def _is_binary(path: str | Path) -> bool:
    try:
        with open(path, "rb") as file:
            return b"\0" in file.read(512)
    except OSError:
        return False


def load_document(path: str | Path, schema: str) -> dict[str, Any]:
    """Read a JSON artifact, check its schema and version and, where it carries one, its id."""
    if not Path(path).exists():
        raise missing_file(path, schema)
    if _is_binary(path):
        raise SchemaError(_instead(path, held(path) or "something else", schema))
    document = read_json(path)
    check_header(document, schema, str(path))
    if "id" in document and document["id"] != document_id(document):
        raise ChecksumError(f"{path} was changed after it was written: its id does not match its content.")
    return document


def save_document(document: dict[str, Any], path: str | Path) -> str:
    """Write a JSON artifact with its id filled in and return the id."""
    document = {**document, "id": document_id(document)}
    text = json_text(document, indent=1) + "\n"
    save_text(path, text)
    return str(document["id"])


class DocumentArtifact:
    """What every artifact that is one JSON document shares; a kind states its ``schema`` and what it reads from ``document``."""

    schema: ClassVar[str]
    document: dict[str, Any]

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Take a complete document."""
        self.document = dict(document)

    @property
    def id(self) -> str:
        """Hash of the content."""
        return document_id(self.document)

    @property
    def inputs(self) -> dict[str, Any]:
        """Ids of what this was made from."""
        return dict(self.document["inputs"])

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and verify the artifact; raises :class:`FormatError` when the file is damaged or something else."""
        return cls(load_document(path, cls.schema))

    def save(self, path: str | Path) -> str:
        """Write the artifact as JSON and return its id; raises :class:`FormatError` when that fails."""
        return save_document(self.document, path)

    def summary(self) -> dict[str, Any]:
        """Return the document with its id."""
        return {**self.document, "id": self.id}


def table_header(
    schema: str, table: pl.DataFrame, inputs: Mapping[str, Any], extra: Mapping[str, Any], digest: str | None = None
) -> dict[str, Any]:
    """Return the header of a table artifact, id included; ``extra`` holds further JSON-able fields. ``digest``: the table's,
    where it is known."""
    header = {"schema": schema, "version": KINDS[schema].version, "inputs": dict(inputs), **extra}
    header["id"] = document_id({**header, "digest": digest or table_digest(table)})
    return header


def _write_parquet(table: pl.DataFrame, header: Mapping[str, Any], file: Path | BytesIO) -> None:
    metadata = {PARQUET_KEY: canonical(header).decode()}
    try:
        # A file that is open may have a name that is not UTF-8.
        with nullcontext(file) if isinstance(file, BytesIO) else open(file, "wb") as out:
            table.write_parquet(out, compression="zstd", metadata=metadata)
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error)) from error


def save_table(table: pl.DataFrame, header: Mapping[str, Any], path: str | Path) -> None:
    """Write a table artifact (Parquet, header as JSON under :data:`PARQUET_KEY`)."""
    write_atomically(path, partial(_write_parquet, table, header))


def check_types(table: pl.DataFrame, types: Mapping[str, Any], what: str) -> None:
    """Raise :class:`SchemaError` where a table of ``what`` lacks one of these columns or has it in another type."""
    for name, dtype in types.items():
        if (found := table.schema.get(name)) != dtype:
            raise SchemaError(f"A table of {what} needs a column '{name}' of type {dtype}; this one has {found}.")


class TableArtifact:
    """What every table artifact shares: a polars table and its header, from which id and inputs are read; a kind states its
    ``schema``."""

    schema: ClassVar[str]
    table: pl.DataFrame
    header: dict[str, Any]

    def __init__(self, table: pl.DataFrame, header: Mapping[str, Any]) -> None:
        """Take a checked table and its complete header; a kind's ``make`` computes the header."""
        self.table = table
        self.header = dict(header)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and verify a file; raises :class:`FormatError` when it is damaged or something else."""
        return cls(*load_table(path, cls.schema))

    @property
    def id(self) -> str:
        """Hash of the content, header included."""
        return str(self.header["id"])

    @property
    def inputs(self) -> dict[str, Any]:
        """Ids of what this was made from."""
        return dict(self.header["inputs"])

    def save(self, path: str | Path) -> None:
        """Write the artifact as Parquet; raises :class:`FormatError` when that fails."""
        save_table(self.table, self.header, path)

    def to_bytes(self) -> bytes:
        """Return the content of the file that :meth:`save` writes."""
        buffer = BytesIO()
        _write_parquet(self.table, self.header, buffer)
        return buffer.getvalue()


def refused_on_abort(path: str | Path) -> AbstractContextManager[None]:
    """Return a context in which polars ends the process with one sentence: a damaged table can ask for too much memory."""
    from convolver._native.status import abort_says

    sentence = f"convolver: {path} is damaged: reading it as Parquet takes more memory than there is."
    return abort_says(visible(sentence), FormatError.exit_code)


def read_table_header(path: str | Path) -> dict[str, Any]:
    """Return the artifact header of a Parquet file; raises :class:`FormatError` when it has none."""
    try:
        with refused_on_abort(path):
            header = decode_json(pl.read_parquet_metadata(polars_source(path))[PARQUET_KEY].encode(), str(path))
    except KeyError as error:
        raise SchemaError(f"{path} is a Parquet file, but not one of Convolver's.") from error
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise no_parquet(path, error) from error
    if not isinstance(header, dict):
        raise SchemaError(f"{path} has a broken Convolver header.")
    return header


def _is_parquet(path: str | Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == PARQUET
    except OSError:
        return True  # reading it says why


def load_table(path: str | Path, schema: str) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Read a table artifact and verify schema, version and id; returns the table and its header."""
    named = isinstance(path, (str, Path))  # or bytes in memory
    if named and not Path(path).exists():
        raise missing_file(path, schema)
    if named and Path(path).is_file() and not _is_parquet(path):
        raise SchemaError(_instead(path, held(path) or "something else", schema))
    header = read_table_header(path)
    check_header(header, schema, str(path))
    try:
        with refused_on_abort(path):
            table = pl.read_parquet(polars_source(path))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise no_parquet(path, error) from error
    if header.get("id") != document_id({**header, "digest": table_digest(table)}):
        raise ChecksumError(f"{path} was changed after it was written: its id does not match its content.")
    check_columns(table, schema, str(path))
    return table, header


def no_parquet(path: str | Path, error: BaseException) -> FormatError:
    """Return the error of a file that polars cannot read, or panics at."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = "it is damaged" if isinstance(error, pl.exceptions.PanicException) else lines[0].rstrip(".")
    return FormatError(f"{path} cannot be read as Parquet: {reason}.")
