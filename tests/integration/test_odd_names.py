"""Programs, arguments and outputs whose names are not UTF-8 are traced, and every byte survives."""

import os
import shutil

import pytest

from convolver.modeling.table import Table
from convolver.signature.signature import Signature
from convolver.tracing.reader import Trace
from convolver.tracing.tracer import trace
from convolver.tracing.writer import signature_path


def test_bytes_of_names_survive_a_trace(tmp_path):
    program, output = os.fsencode(tmp_path) + b"/pro\xe9gram", tmp_path / os.fsdecode(b"out\xff.cvt")
    shutil.copyfile("/bin/true", program)
    os.chmod(program, 0o755)
    trace([os.fsdecode(program), os.fsdecode(b"argument\xff")], output=output)
    read = Trace.load(output)
    read.verify()
    assert [os.fsencode(word) for word in read.header["command"]] == [program, b"argument\xff"]
    assert Signature.load(signature_path(output)).id == read.signature.id
    assert any(module.endswith("/pro\\xe9gram") for module in read.signature.table["module"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_lie_in_folders_of_any_name(tmp_path, suffix):
    folder = tmp_path / os.fsdecode(b"fol\xffder")
    folder.mkdir()
    path = folder / os.fsdecode(b"t\xfe" + suffix.encode())
    table = Table.of_columns({"n": [1.0, 2.0], "y": [3.0, 4.0]}, "y")
    table.save(path)
    assert Table.load(path).table.equals(table.table)
