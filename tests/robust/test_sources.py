"""A report reads no file that its reader did not mean, whatever names the traced program's debug information has."""

import os

import pytest

from convolver.reporting.program_report import LARGEST_BYTES, read_source
from convolver.signature import origin


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.c").write_text("int a;\n")
    (tmp_path / "secret").write_text("secret")
    return folder.resolve()


def test_a_file_below_the_root_is_read(root):
    assert read_source(f"{root}/a.c", 0, [root]).text == "int a;\n"
    assert read_source(f"{root}/../project/a.c", 0, [root]).text


@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", "/dev/zero", "../secret", "a/../../secret", "/a\0b"])
def test_files_outside_the_root_are_left_out(root, path):
    read = read_source(path if path.startswith("/") else f"{root}/{path}", 0, [root])
    assert (read.text, "outside the folders" in read.problem) == ("", True)


def test_links_that_leave_the_root_are_not_followed(root):
    (root / "file.c").symlink_to(root.parent / "secret")
    (root / "folder").symlink_to(root.parent)
    for name in ("file.c", "folder/secret"):
        assert "outside the folders" in read_source(f"{root}/{name}", 0, [root]).problem


def test_fifos_devices_hidden_binary_and_large_files_are_left_out(root):
    os.mkfifo(root / "fifo.c")
    (root / ".env").write_text("password")
    (root / "binary.c").write_bytes(b"a\0b")
    (root / "large.c").write_bytes(b"x" * (LARGEST_BYTES + 1))
    for name, why in {"fifo.c": "no regular file", ".env": "hidden", "binary.c": "no text", "large.c": "larger"}.items():
        read = read_source(f"{root}/{name}", 0, [root])
        assert (read.text, why in read.problem) == ("", True)
    everything = os.path.realpath("/")
    assert "no regular file" in read_source("/dev/zero", 0, [root.__class__(everything)]).problem


def test_without_a_folder_no_source_is_read(root):
    assert "--sources FOLDER" in read_source(f"{root}/a.c", 0, []).problem


def test_only_the_users_own_seal_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(origin, "_key_file", lambda: tmp_path / "keys" / "origin.key")
    files = ["/src/a.c", "/src/b\udcff.c"]
    made = origin.sealed("/src", files)
    assert (tmp_path / "keys" / "origin.key").stat().st_mode & 0o777 == 0o600
    assert origin.own_folder(made, [*reversed(files), files[0]]) == "/src"
    assert origin.own_folder({**made, "folder": "/"}, files) is None
    assert origin.own_folder(made, [*files, "/etc/shadow"]) is None
    assert origin.own_folder({"folder": "/", "seal": "é"}, files) is None
    assert origin.own_folder(None, files) is None
    (tmp_path / "keys" / "origin.key").write_bytes(os.urandom(32))
    assert origin.own_folder(made, files) is None
