"""Artifacts of another version load, or end with one sentence that names the command which makes them anew, and exit code 3."""

from __future__ import annotations

import json
import re
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from convolver._native import mpi_record
from convolver._native.layouts import packed
from convolver.artifact_kinds import KINDS
from convolver.errors import UnsupportedVersionError
from convolver.machine.profile import MachineProfile
from convolver.mpi.recorded_ranks import read_rank
from convolver.reporting.bundle_file import MANIFEST
from convolver.schema import PARQUET_KEY, save_document
from convolver.tracing import format as cvt
from convolver.tracing.importers import import_trace
from convolver.tracing.reader import Trace
from tests.synthetic import machine

DOCUMENTS = {"convolver.machine", "convolver.cpu_ratio", "convolver.prediction", "convolver.run_prediction", "convolver.model"}
"""Kinds that are one JSON document; trace and bundle are containers, all others tables."""


def container(head: dict[str, object]) -> bytes:
    """Return a file of a kind that holds its header alone: all that the very first version of a kind can be said to have."""
    text, schema = json.dumps(head), head["schema"]
    file = BytesIO()
    if schema in DOCUMENTS:
        return text.encode()
    if schema == cvt.SCHEMA:
        return cvt.pack_header() + cvt.pack_chunk(cvt.META, text.encode(), cvt.CRITICAL)
    if schema == "convolver.bundle":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(MANIFEST, text)
    else:
        pl.DataFrame({"block": [0]}).write_parquet(file, metadata={PARQUET_KEY: text})
    return file.getvalue()


def said(convolver, path: Path) -> str:
    """Return the one sentence with which ``convolver info`` refuses a file."""
    done = convolver("info", path, code=3)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("schema", KINDS)
def test_a_newer_artifact_names_both_versions_and_its_command(schema, tmp_path, convolver):
    path, newest = tmp_path / "artifact.parquet", KINDS[schema].version
    path.write_bytes(container({"schema": schema, "version": newest + 1}))
    assert said(convolver, path) == (
        f"convolver: {path} has version {newest + 1} of {schema}, but this Convolver reads up to {newest}: update Convolver, "
        f"or make it again: {KINDS[schema].maker}."
    )


@pytest.mark.parametrize("schema", [schema for schema in KINDS if schema not in ("convolver.machine", cvt.SCHEMA)])
def test_an_older_artifact_without_todays_fields_names_its_command(schema, tmp_path, convolver):
    path = tmp_path / "artifact.parquet"
    path.write_bytes(container({"schema": schema, "version": 1}))
    sentence = said(convolver, path)
    why = "is no valid model" if schema == "convolver.model" else "is damaged, was changed or is of an older Convolver"
    assert re.fullmatch(rf"convolver: {re.escape(f'{path} {why}')}: .+; {re.escape(KINDS[schema].maker)}\.", sentence)


def test_a_profile_of_the_first_version_loads(tmp_path):
    today = machine("m")
    save_document({**today.to_document(), "version": 1}, tmp_path / "m.machine.json")
    assert MachineProfile.load(tmp_path / "m.machine.json").to_document() == today.to_document()
    assert KINDS["convolver.machine"].version == 2


def test_a_trace_of_another_container_loads_where_its_reader_is_here(tmp_path, convolver):
    (tmp_path / "a.din").write_text("0 1000\n1 2000\n")
    written = import_trace(tmp_path / "a.din", output=tmp_path / "a.cvt")
    whole = bytearray(written.path.read_bytes())
    for version, reader in ((1, 1), (cvt.VERSION + 1, cvt.VERSION)):
        whole[8:12] = np.array([version, reader], "<u2").tobytes()
        written.path.write_bytes(whole)
        assert Trace.load(written.path).id == written.id
    whole[8:12] = np.array([cvt.VERSION + 1, cvt.VERSION + 1], "<u2").tobytes()
    written.path.write_bytes(whole)
    assert said(convolver, written.path) == (
        f"convolver: {written.path} has version {cvt.VERSION + 1} of convolver.trace, but this Convolver reads up to "
        f"{cvt.VERSION}: update Convolver, or make it again: `convolver trace -- COMMAND` records one."
    )


def test_a_newer_recording_of_mpi_calls_names_its_command(tmp_path):
    path, version = tmp_path / "rank-00000.cvm", mpi_record.VERSION + 1
    head = packed("struct cvm_header", version=version, size=1)
    path.write_bytes((b"CVMPI01\n" + head[8:]).ljust(mpi_record.HEADER_BYTES, b"\0"))
    with pytest.raises(UnsupportedVersionError) as caught:
        read_rank(path)
    assert str(caught.value) == (
        f"{path} has version {version}, but this Convolver reads up to {version - 1}: update Convolver, or record again with "
        "`convolver mpi trace`."
    )
