"""Bundles: what is packed comes out again, and damaged or crafted ones are refused."""

import json
import zipfile

import pytest

from convolver.artifacts import describe
from convolver.errors import ChecksumError, FormatError, SchemaError
from convolver.reporting.bundle_file import LARGEST_MANIFEST, MANIFEST, REDACTED, PackedBundle, reveals
from convolver.schema import document_id

ABOUT = {"program": "cg", "machines": ["host"]}


@pytest.fixture
def packed(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "cg.cvt").write_bytes(b"trace" * 100)
    (folder / "host.machine.json").write_text("{}")
    return PackedBundle.pack(folder, tmp_path / "cg.bundle.zip", redacted=True, about=ABOUT)


def rewritten(packed, change):
    with zipfile.ZipFile(packed.path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(packed.path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return packed.path


def test_what_is_packed_comes_out_again(packed, tmp_path):
    (tmp_path / "out").mkdir()
    read = PackedBundle.load(packed.path)
    read.verify()
    assert [path.name for path in read.unpack(tmp_path / "out")] == ["cg.cvt", "host.machine.json"]
    assert (tmp_path / "out" / "cg.cvt").read_bytes() == b"trace" * 100
    assert describe(packed.path)["files"] == packed.manifest["files"]


def test_a_redacted_bundle_reveals_less():
    for name in ("a.cvt", "a.sig.parquet", "m.machine.json", "a.html", "a@m.prediction.json"):
        assert set(reveals(name, False)) - set(reveals(name, True)) <= REDACTED
        assert not set(reveals(name, True)) & REDACTED


def test_a_changed_file_is_refused(packed, tmp_path):
    path = rewritten(packed, lambda entries: entries.update({"cg.cvt": b"other" * 100}))
    with pytest.raises(ChecksumError, match=r"cg\.cvt differs"):
        PackedBundle.load(path).verify()


@pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "a/b", "..", ""])
def test_no_file_leaves_the_folder(packed, name):
    def evil(entries):
        manifest = json.loads(entries[MANIFEST])
        manifest["files"][0]["name"] = name
        manifest["id"] = document_id(manifest)
        entries[MANIFEST] = json.dumps(manifest)

    with pytest.raises(SchemaError):
        PackedBundle.load(rewritten(packed, evil))


def test_other_archives_are_refused(packed, tmp_path):
    with pytest.raises(SchemaError, match="no bundle"):
        PackedBundle.load(rewritten(packed, lambda entries: entries.pop(MANIFEST)))
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(FormatError):
        PackedBundle.load(tmp_path / "x.zip")


def test_a_manifest_that_unpacks_to_too_much_is_refused(packed):
    with zipfile.ZipFile(packed.path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, b" " * (LARGEST_MANIFEST + 1))
    assert packed.path.stat().st_size < 100_000
    with pytest.raises(FormatError, match="manifest is too large"):
        PackedBundle.load(packed.path)


@pytest.mark.parametrize("claimed", [10, 1 << 33])
def test_a_file_of_another_size_than_the_manifest_says_is_refused_unread(packed, claimed):
    def longer(entries):
        manifest = json.loads(entries[MANIFEST])
        manifest["files"][0]["bytes"] = claimed
        manifest["id"] = document_id({name: value for name, value in manifest.items() if name != "id"})
        entries[MANIFEST] = json.dumps(manifest).encode()

    with pytest.raises(ChecksumError, match="differs from the manifest"):
        PackedBundle.load(rewritten(packed, longer)).verify()
