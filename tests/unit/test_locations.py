"""Where the user's files are looked for: also for users without a home folder, or with another's."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from convolver.analyzing.analysis_store import find_bytes, keep_bytes
from convolver.errors import FormatError
from convolver.locations import cache_folder, core_folder, files_in, machine_folders
from convolver.machine.catalog import find_machine
from convolver.signature.origin import sealed

NOBODY = 65534


@pytest.fixture
def homeless(monkeypatch, tmp_path):
    """A user whom no password file knows, without HOME, in an empty folder."""

    def unknown(number):
        raise KeyError(number)

    for name in [name for name in os.environ if name.startswith(("XDG_", "CONVOLVER_")) or name == "HOME"]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def closed(tmp_path):
    """A folder that this user may not look into."""
    folder = tmp_path / "home"
    folder.mkdir()
    folder.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    yield folder
    os.seteuid(user)
    folder.chmod(0o700)


def test_without_a_home_folder_nothing_is_made_in_the_current_one(homeless):
    keep_bytes("trace", "what", b"content")
    assert find_bytes("trace", "what") is None
    assert sealed("/", []) is None
    assert find_machine("server-hbm").name == "server-hbm"
    assert files_in(core_folder(), "*") == files_in(machine_folders()[1], "*") == []
    assert list(homeless.iterdir()) == []


def test_a_cache_folder_that_cannot_be_made_names_the_way_out(homeless):
    with pytest.raises(FormatError, match=r"cannot be made .*; name another with CONVOLVER_CACHE"):
        cache_folder()


def test_another_users_home_folder_is_as_an_empty_one(closed):
    with pytest.raises(PermissionError):
        Path(closed / "machines").is_dir()
    assert files_in(closed / "machines", "*.json") == []
