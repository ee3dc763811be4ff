"""What an output replaces keeps its kind, mode and owner; what another planted is not followed."""

import ast
import contextlib
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import convolver
from convolver.errors import FormatError
from convolver.fanout import Journal
from convolver.machine.cores import core_tables, write_core
from convolver.modeling.call.records import Record, append_record, write_paraver, write_xml
from convolver.outputs import append_line, save_bytes, save_text, write_atomically
from convolver.probing import runner
from convolver.tracing.writer import TraceWriter
from convolver.validating.measuring import CampaignRuns

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may make device nodes and give files away")


def _write(text):
    return lambda temporary: temporary.write_text(text)


@as_root
def test_a_device_is_written_through_and_stays_one(tmp_path):
    node = tmp_path / "null"
    os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    write_atomically(node, _write("{}"))
    assert stat.S_ISCHR(node.stat().st_mode)
    assert list(tmp_path.iterdir()) == [node]


def test_a_fifo_takes_the_output_and_stays_one(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_text()))
    reader.start()
    write_atomically(fifo, _write("through"))
    reader.join(10)
    assert got == ["through"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_replaced_file_keeps_its_mode(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text("old")
    secret.chmod(0o600)
    write_atomically(secret, _write("new"))
    assert (secret.read_text(), stat.S_IMODE(secret.stat().st_mode)) == ("new", 0o600)


@as_root
def test_a_replaced_file_keeps_its_owner(tmp_path):
    other = tmp_path / "other.json"
    other.write_text("old")
    os.chown(other, 1234, 2345)
    write_atomically(other, _write("new"))
    assert (other.stat().st_uid, other.stat().st_gid) == (1234, 2345)


def test_a_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "real").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("real")
    write_atomically(link, _write("new"))
    assert link.is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("kind", ["folder", "socket"])
def test_what_cannot_take_an_output_is_named(tmp_path, kind):
    target = tmp_path / "target"
    if kind == "folder":
        target.mkdir()
    else:
        os.mknod(target, 0o600 | stat.S_IFSOCK)
    with pytest.raises(FormatError, match=f"it is a {kind}"):
        write_atomically(target, _write("x"))


def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", _write("x"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_planted_part_is_not_followed(tmp_path, link):
    victim = tmp_path / "victim"
    victim.write_text("keep")
    link(victim, tmp_path / "a.cvt.part")
    with pytest.raises(FormatError, match="cannot be written"):
        TraceWriter(tmp_path / "a.cvt", {})
    assert victim.read_text() == "keep"


@as_root
def test_another_users_part_is_refused(tmp_path):
    part = tmp_path / "a.cvt.part"
    part.write_text("theirs")
    os.chown(part, 1234, 1234)
    with pytest.raises(FormatError, match="no file of this user"):
        TraceWriter(tmp_path / "a.cvt", {})
    assert part.read_text() == "theirs"


@as_root
def test_a_trace_does_not_replace_a_device(tmp_path):
    node = tmp_path / "null"
    os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    with pytest.raises(FormatError, match="device or a FIFO"):
        TraceWriter(node, {})
    assert stat.S_ISCHR(node.stat().st_mode)


def test_a_closed_stdout_is_no_file_that_is_opened_later(tmp_path):
    command = f"{sys.executable} -m convolver machine project cloud-server -n x -o {tmp_path}/x.machine.json --json >&- 2>&-"
    done = subprocess.run(["sh", "-c", command], check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    assert (tmp_path / "x.machine.json").read_bytes().startswith(b"{\n")


RECORD = Record(region="r", run="0", end=1.0)
TEXTS = {
    "core table": lambda path: write_core(next(iter(core_tables().values())), path),
    "records as XML": lambda path: write_xml([RECORD], path),
    "records for Paraver": lambda path: write_paraver([RECORD], path),
    "any text": lambda path: save_text(path, "x" * 100),
}


@contextlib.contextmanager
def full_disk(size_bytes):
    """Let no file grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("save", TEXTS.values(), ids=TEXTS)
def test_a_full_disk_leaves_the_text_that_was_there(tmp_path, save):
    path = tmp_path / "a"
    path.write_text("old")
    with full_disk(16), pytest.raises(FormatError, match="cannot be written: File too large"):
        save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_text_that_utf8_does_not_have_is_escaped(tmp_path):
    save_text(tmp_path / "a", "\udcff\n")
    assert (tmp_path / "a").read_bytes() == b"\\xff\n"


def test_an_executable_output_stays_private(tmp_path):
    path = tmp_path / "probe.run"
    path.touch(0o600)
    save_bytes(path, b"#!/bin/true\n", executable=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


@as_root
def test_an_executable_output_leaves_a_device_alone(tmp_path):
    node = tmp_path / "null"
    os.mknod(node, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    node.chmod(0o666)
    save_bytes(node, b"#!/bin/true\n", executable=True)
    assert stat.S_IMODE(node.stat().st_mode) == 0o666


KEPT = {
    "journal": lambda path: Journal(path, "a"),
    "runs of a campaign": CampaignRuns,
    "partial probe": lambda path: runner._resume(path, {}),
    "record of a call": lambda path: append_record(RECORD, path),
}


@pytest.mark.parametrize("use", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("plant", [os.symlink, os.link, lambda _, path: os.mkfifo(path)], ids=["link", "hard link", "FIFO"])
def test_a_planted_file_is_neither_read_nor_appended_to(tmp_path, use, plant):
    victim = tmp_path / "victim"
    victim.write_text("keep\n")
    plant(victim, tmp_path / "kept")
    with pytest.raises(FormatError, match="cannot be written"):
        use(tmp_path / "kept")
    assert victim.read_text() == "keep\n"


def test_a_line_after_half_a_line_stays_whole(tmp_path):
    path = tmp_path / "kept"
    path.write_bytes(b'{"a": 1}\n{"b"')
    append_line(path, b'{"c": 3}')
    assert path.read_bytes().splitlines() == [b'{"a": 1}', b'{"b"', b'{"c": 3}']


def test_a_line_that_does_not_fit_is_not_half_written(tmp_path):
    path = tmp_path / "kept"
    append_line(path, b"first")
    with full_disk(10), pytest.raises(FormatError, match="cannot be written"):
        append_line(path, b"second, which is longer")
    assert path.read_bytes() == b"first\n"


ELSEWHERE = {
    "outputs.py",
    "destination.py",
    "schema.py",  # into the temporary file of write_atomically
    "tracing/writer.py",  # goes on in a new file beside the part
    "signature/origin.py",  # the user's key, made once
    "mpi/dim.py",  # goes back in its temporary file
    "reporting/bundle_file.py",  # copies by pieces into a temporary file
    "mpi/play.py",  # in a temporary folder
    "probing/probe_bundle.py",  # in a temporary folder
    "validating/running.py",  # control groups
}
"""Files that may write without :mod:`convolver.outputs`."""


def _writes(node):
    """Tell whether a call writes a file by itself."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    modes = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    opens = name == "open" and any(set(mode) & set("wax") for mode in modes if len(mode) < 4)
    return opens or name in ("write_text", "write_bytes")


def test_no_module_writes_files_by_itself():
    root = Path(convolver.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        found |= {str(path.relative_to(root)) for call in calls if _writes(call)}
    assert found - ELSEWHERE == set()
