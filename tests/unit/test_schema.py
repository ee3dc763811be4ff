"""Artifacts know when they were changed, and which schema they have."""

import json

import polars as pl
import pytest

from convolver import schema
from convolver.errors import ChecksumError, FormatError, SchemaError, UnsupportedVersionError
from convolver.outputs import write_atomically


def test_document_round_trip_keeps_content_and_id(tmp_path):
    path = tmp_path / "m.json"
    identity = schema.save_document({"schema": "convolver.machine", "version": 1, "name": "µ"}, path)
    assert schema.load_document(path, "convolver.machine") == {
        "schema": "convolver.machine",
        "version": 1,
        "name": "µ",
        "id": identity,
    }


def test_changed_document_is_refused(tmp_path):
    path = tmp_path / "m.json"
    schema.save_document({"schema": "convolver.machine", "version": 1, "name": "a"}, path)
    path.write_text(path.read_text().replace('"a"', '"b"'))
    with pytest.raises(ChecksumError):
        schema.load_document(path, "convolver.machine")


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ([], SchemaError),
        ({}, SchemaError),
        ({"schema": "convolver.trace", "version": 1}, SchemaError),
        ({"schema": "convolver.machine"}, SchemaError),
        ({"schema": "convolver.machine", "version": True}, SchemaError),
        ({"schema": "convolver.machine", "version": 99}, UnsupportedVersionError),
    ],
)
def test_foreign_documents_are_refused(tmp_path, document, error):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document))
    with pytest.raises(error):
        schema.load_document(path, "convolver.machine")


def test_table_round_trip_keeps_values_and_header(tmp_path):
    path = tmp_path / "t.parquet"
    table = pl.DataFrame({"block": [1, 2], "function": ["f", None], "share": [0.5, None]})
    header = schema.table_header("convolver.signature", table, {"trace": "x"}, {"totals": {"blocks": 2}})
    schema.save_table(table, header, path)
    loaded, found = schema.load_table(path, "convolver.signature")
    assert loaded.equals(table)
    assert found == header


def test_many_texts_have_the_digest_of_few(monkeypatch):
    table = pl.DataFrame({"a": ["x", None, "", "\u00e9"], "b": ["", "y", "y", "z"]})
    few = schema.table_digest(table)
    monkeypatch.setattr(schema, "MANY_TEXTS", 3)
    assert schema.table_digest(table) == few


def test_changed_table_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    table = pl.DataFrame({"block": [1, 2]})
    header = schema.table_header("convolver.signature", table, {}, {"totals": {}})
    schema.save_table(table.with_columns(pl.col("block") + 1), header, path)
    with pytest.raises(ChecksumError):
        schema.load_table(path, "convolver.signature")


def test_foreign_parquet_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(SchemaError):
        schema.load_table(path, "convolver.signature")
    path.write_bytes(b"PAR1 no parquet")
    with pytest.raises(FormatError):
        schema.load_table(path, "convolver.signature")


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "old"
    path.write_text("old")

    def fail(temporary):
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(FormatError, match="No space left"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_every_schema_says_which_command_makes_it():
    assert all("`convolver " in kind.maker for kind in schema.KINDS.values())


@pytest.mark.parametrize("read", [schema.load_table, schema.load_document])
def test_a_missing_or_foreign_file_leads_to_the_command_that_makes_the_right_one(read, tmp_path):
    with pytest.raises(FormatError, match=r"There is no file .*nosuch; block times .*`convolver predict"):
        read(tmp_path / "nosuch", "convolver.block_times")
    foreign = tmp_path / "foreign"
    for content, words in ((b"\x7fELF\0\0\0\0", "something else"), (b"\x89CVT\0\0\0\0", r"a trace \(.cvt\)")):
        foreign.write_bytes(content)
        with pytest.raises(SchemaError, match=f"holds {words}, but hit rates .*`convolver simulate"):
            read(foreign, "convolver.hit_rates")
