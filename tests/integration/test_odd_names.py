"""Programs, arguments and outputs whose names are not UTF-8 are traced, and every byte survives."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from convolver.modeling.table import Table
from convolver.signature.data_objects import DataObjects
from convolver.signature.signature import Signature
from convolver.tracing.reader import Trace
from convolver.tracing.recording import objects_path
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


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A traced program, below a folder and with a name that are not UTF-8, and what ``trace --json`` said of it."""
    folder = tmp_path_factory.mktemp("odd") / os.fsdecode(b"fol\xe9der")
    folder.mkdir()
    program = folder / os.fsdecode(b"pro\xe9gram")
    shutil.copyfile("/bin/true", program)
    program.chmod(0o755)
    words = [sys.executable, "-m", "convolver", "trace", "--json", "--data-objects", "-o", f"{program}.cvt", "--", program]
    return Path(f"{program}.cvt"), subprocess.run(words, capture_output=True, text=True, check=True).stderr


def test_json_of_a_trace_holds_every_byte(traced):
    path, said = traced
    (word,) = json.loads(said.splitlines()[-1])["command"]
    assert os.fsencode(word) == os.fsencode(path).removesuffix(b".cvt")
    assert DataObjects.load(objects_path(path)).by_object().height


def test_a_bundle_and_a_picture_of_any_name(traced, tmp_path, convolver):
    path, _ = traced
    convolver("bundle", path, "--machines", "cloud-server", "-o", "b.zip", cwd=tmp_path, code=0)
    convolver("bundle", "--unpack", "files", "b.zip", cwd=tmp_path, code=0)
    unpacked = tmp_path / "files" / "pro_xe9gram.cvt"
    assert unpacked.read_bytes() == path.read_bytes()
    times = tmp_path / "files" / "pro_xe9gram@cloud-server.times.parquet"
    convolver("plot", "maps", "cloud-server", times, "-o", "maps.png", cwd=tmp_path, code=0)


def test_a_baseline_of_any_name_is_read_again(traced, tmp_path, convolver):
    program = str(traced[0]).removesuffix(".cvt")
    convolver("check", "--update", "--", program, cwd=tmp_path, code=0)
    done = convolver("check", "--json", "--", program, cwd=tmp_path, code=0)
    assert json.loads(done.stdout)["name"].endswith("\udce9gram")
