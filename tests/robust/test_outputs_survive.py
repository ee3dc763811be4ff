"""What an output replaces keeps its kind, mode and owner; what another planted is not followed."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from convolver.errors import FormatError
from convolver.schema import write_atomically
from convolver.tracing.writer import TraceWriter

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make device nodes and give files away")


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
