"""A mutator for every format that Convolver reads: real files, changed where their grammar has values, checksums repaired."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from typing import Any

import polars as pl

from convolver.errors import SchemaError
from convolver.foreign_text import json_text
from convolver.schema import PARQUET_KEY, canonical, document_id, table_digest
from convolver.tracing import format as cvt

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 255, 65536, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30),
    *(0.0, -0.0, 0.5, -1.5, 1e-320, 5e-324, 1e308, -1e308, 1e-9, 3.0),
    *("", " ", "x", "L1", "0", "-1", "1e999", "nan", "x" * 5000, "\0", "é", "\u202e", "a/b", "../a", "[red]", "\udcff"),
    *([], {}, [[]], [None], {"a": 1}, [1, 2], [0.5, "x"], {"": None}, [[1, 2], [3]]),
]
WORDS = [
    *("0", "-1", "1", "00", "+1", "1e999", "1e-320", "nan", "inf", "-inf", "1e308", "0x10", "99999999999999999999", "9" * 5000),
    *("2147483648", "4294967296", "9223372036854775808", "18446744073709551616", "1_000", "", " ", "x", '"', "'", "\\", "{", "}"),
    *(
        "[",
        "]",
        "(",
        ")",
        ":",
        ";",
        ",",
        "#",
        "\0",
        "é",
        "\ufeff",
        "\n",
        "\r\n",
        "\t",
        "%s",
        "<a>",
        "&x;",
        "١",
        "=",
        "true",
        "NaN",
    ),
]
_TOKENS = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\w+|[^\w\s]")

Mutation = Callable[[bytes, random.Random], bytes]


def _places(value: Any, found: list[tuple[Any, Any]]) -> None:
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    if len(pairs) > 60:  # long lists of alike values: some of them
        pairs = pairs[:20] + pairs[-5:]
    for key, inner in pairs:
        found.append((value, key))
        if isinstance(inner, dict | list):
            _places(inner, found)


def change_document(document: Any, rng: random.Random) -> Any:
    """Change a JSON value at one to three places: another value, none, one more, a copy of another place's."""
    document = json.loads(json.dumps(document))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places: list[tuple[Any, Any]] = []
        if isinstance(document, dict | list):
            _places(document, places)
        if not places:
            return rng.choice(ODD)
        holder, key = rng.choice(places)
        how = rng.random()
        if how < 0.55:
            holder[key] = rng.choice(ODD)
        elif how < 0.7:
            del holder[key]
        elif how < 0.8:
            source, name = rng.choice(places)
            holder[key] = json.loads(json.dumps(source[name])) if _has(source, name) else None
        elif isinstance(holder, list):
            holder.insert(key, rng.choice([rng.choice(ODD), holder[key]]))
        else:
            holder[rng.choice(["x", "id", "schema", "command", "0", str(key) + "_"])] = rng.choice(ODD)
    return document


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _nested(rng: random.Random) -> str:
    return rng.choice(["[", '{"a":']) * rng.choice([60, 900, 40000])


def change_json(data: bytes, rng: random.Random) -> bytes:
    """Change a document, with its id repaired or left out; sometimes its text."""
    if rng.random() < 0.1:
        return change_text(data, rng)
    document = change_document(json.loads(data), rng)
    if isinstance(document, dict):
        document.pop("id", None)
        if rng.random() < 0.5:
            document["id"] = document_id(document)
    text = json_text(document)
    if rng.random() < 0.03:
        text = text.replace("1", rng.choice(["NaN", "Infinity", "1e999"]), 1)
    if rng.random() < 0.02:
        text = text.replace(":", ":" + _nested(rng), 1)
    return text.encode("utf-8", "surrogatepass")


def change_bundle(data: bytes, rng: random.Random) -> bytes:
    """Change the manifest or a file of an archive; sometimes its bytes."""
    if rng.random() < 0.3:
        return change_bytes(data, rng)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as changed:
        for name in archive.namelist():
            content = archive.read(name)
            one = name.endswith(".json") or rng.random() < 0.2
            changed.writestr(name, (change_json if name.endswith(".json") else change_bytes)(content, rng) if one else content)
    return out.getvalue()


def change_parquet(data: bytes, rng: random.Random) -> bytes:
    """Change header, columns or values of a table, with its id repaired; sometimes its bytes."""
    if rng.random() < 0.1:
        return change_bytes(data, rng)
    try:
        metadata = pl.read_parquet_metadata(io.BytesIO(data))
        table, header = pl.read_parquet(io.BytesIO(data)), json.loads(metadata.get(PARQUET_KEY, "{}"))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):  # its bytes were changed before
        return change_bytes(data, rng)
    if rng.random() < 0.6 and header:
        header = change_document(header, rng)
    else:
        table = change_table(table, rng)
    if isinstance(header, dict) and rng.random() < 0.97:
        with contextlib.suppress(SchemaError):  # a column of a type that no artifact has
            header["id"] = document_id({**header, "digest": table_digest(table)})
    out = io.BytesIO()
    table.write_parquet(out, metadata={PARQUET_KEY: canonical(header).decode()})
    return out.getvalue()


def change_table(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Change one column or all rows of a table."""
    if not table.width:
        return table
    name = rng.choice(table.columns)
    column, how = table[name], rng.random()
    if how < 0.1:
        return table.drop(name)
    if how < 0.2:
        return table.head(rng.choice([0, 1]))
    if how < 0.3:
        return pl.concat([table, table.head(rng.choice([1, 2]))])
    if how < 0.35:
        return table.reverse()
    if how < 0.5:
        other = rng.choice([pl.String, pl.Float64, pl.Int64, pl.Int8, pl.Boolean, pl.Binary, pl.List(pl.Int64), pl.Null])
        try:
            return table.with_columns(column.cast(other, strict=False).alias(name))
        except (pl.exceptions.PolarsError, ValueError):
            return table.with_columns(pl.lit(None, dtype=other).alias(name))
    values: list[Any] = column.to_list()
    odd = [None, 0, -1, 2**31, 2**32 - 1, 2**63, 2**64 - 1] if column.dtype.is_integer() else [None, "", "x" * 300, "\0"]
    odd = [None, float("nan"), float("inf"), -1.0, 0.0, 1e308, 5e-324] if column.dtype.is_float() else odd
    for _ in range(rng.choice([1, 3, len(values)])):
        if values:
            values[rng.randrange(len(values))] = rng.choice(odd)
    return table.with_columns(pl.Series(name, values, dtype=column.dtype, strict=False))


def change_cvt(data: bytes, rng: random.Random) -> bytes:
    """Change chunks of a trace: their order, their content, their JSON; all checksums are right, and so is the id mostly."""
    if rng.random() < 0.08:
        return change_bytes(data, rng)
    file = io.BytesIO(data)
    cvt.read_header(file, "seed")
    chunks = [(one.kind, one.flags, one.content("seed")) for one in cvt.read_chunks(file, "seed")]
    for _ in range(rng.choice([1, 1, 2])):
        place = rng.randrange(len(chunks))
        kind, flags, content = chunks[place]
        how = rng.random()
        if how < 0.1:
            del chunks[place]
        elif how < 0.2:
            chunks.insert(rng.randrange(len(chunks) + 1), chunks[place])
        elif kind == cvt.SIGNATURE and how < 0.8:
            chunks[place] = kind, flags, change_parquet(content, rng)
        elif kind in (cvt.META, cvt.TRAILER, cvt.OBJECTS):
            changed = json_text(change_document(json.loads(content), rng)).encode("utf-8", "surrogatepass")
            chunks[place] = kind, flags, changed
        else:
            chunks[place] = kind, flags, change_bytes(content, rng)
        if not chunks:
            break
    return pack_cvt(chunks, rng.random() < 0.9)


def pack_cvt(chunks: list[tuple[bytes, int, bytes]], repair: bool) -> bytes:
    """Return a trace file of chunks; ``repair``: the trailer has the id of what comes before it."""
    import hashlib

    out, digest = [cvt.pack_header()], hashlib.sha256()
    for kind, flags, content in chunks:
        if kind == cvt.TRAILER and repair:
            try:
                trailer = json.loads(content)
                content = json_text({**trailer, "id": digest.hexdigest()[:32]}).encode() if "id" in trailer else content
            except (ValueError, TypeError):
                pass
        chunk = cvt.pack_chunk(kind, content, flags)
        if kind not in (cvt.SIGNATURE, cvt.TRAILER):
            digest.update(chunk)
        out.append(chunk)
    return b"".join(out)


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    """Change some bytes: flips, odd words, cuts, copies; what lies beyond is moved or not."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.randrange(len(changed) + 1)
        how = rng.random()
        if how < 0.4 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif how < 0.6:
            size = rng.choice([1, 2, 4, 8])
            value = rng.choice([0, 1, 2**31, 2**32, 2**63, 2**64 - 1, 127, 128, 255, 65535]) % (1 << 8 * size)
            changed[at : at + size] = value.to_bytes(size, "little")
        elif how < 0.75:
            del changed[at : at + rng.choice([1, 8, 64, 4096])]
        elif how < 0.9:
            begin = rng.randrange(len(changed) + 1)
            changed[at:at] = changed[begin : begin + rng.choice([1, 8, 64, 512])]
        else:
            del changed[at:]
    return bytes(changed)


def change_text(data: bytes, rng: random.Random) -> bytes:
    """Change lines and words of a text: other numbers, signs, none, copies, other orders, odd bytes."""
    if rng.random() < 0.08:
        return change_bytes(data, rng)
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(lines))
        how = rng.random()
        if how < 0.1 and len(lines) > 1:
            del lines[at]
        elif how < 0.2:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        elif how < 0.25:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif how < 0.28:
            lines[at] = lines[at] + _nested(rng)
        else:
            tokens = list(_TOKENS.finditer(lines[at]))
            if not tokens:
                lines[at] = rng.choice(WORDS)
                continue
            token = rng.choice(tokens)
            word = rng.choice([*WORDS, rng.choice(tokens)[0], token[0] * 2, token[0][:-1]])
            lines[at] = lines[at][: token.start()] + word + lines[at][token.end() :]
    return "\n".join(lines).encode("utf-8", "surrogateescape")
