"""``convolver bundle``: a redacted trace predicts the same and says nothing of its user."""

import shutil

import pytest

import convolver
from convolver.tracing.reader import Trace

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs gcc and valgrind: apt install gcc valgrind"
)


@pytest.fixture(scope="module")
def bundled(build, tmp_path_factory, convolver):
    """A folder with a trace and the files of its redacted bundle in ./out."""
    folder = tmp_path_factory.mktemp("hiddenfolder")
    shutil.copy(build("loop"), folder / "loop")
    convolver("trace", "-o", "loop.cvt", "--", "./loop", "hiddenword", cwd=folder, code=0)
    convolver("bundle", "loop.cvt", "-m", "cloud-server,server-hbm", "--redact", cwd=folder, code=0)
    convolver("bundle", "--unpack", "out", "loop.bundle.zip", cwd=folder, code=0)
    return folder


def test_a_redacted_trace_predicts_the_same_but_for_cold_code(bundled):
    one, other = Trace.load(bundled / "loop.cvt"), Trace.load(bundled / "out" / "loop.cvt")
    other.verify()
    assert (one.site_blocks == other.site_blocks).all()
    seconds = [convolver.predict(trace, base="cloud-server").base_seconds for trace in (one, other)]
    assert seconds[1] == pytest.approx(seconds[0], rel=0.002)


def test_a_redacted_bundle_names_neither_folder_nor_arguments(bundled):
    trace = Trace.load(bundled / "out" / "loop.cvt")
    assert trace.header["command"] == ["loop"]
    assert not any("/" in path for path in trace.definitions.paths)
    said = repr(trace.header) + repr(trace.signature.header) + trace.signature.table.write_csv()
    page = (bundled / "out" / "loop.html").read_text()
    for word in ("hiddenword", "hiddenfolder", str(bundled)):
        assert word not in said
        assert word not in page
        assert not any(word.encode() in file.read_bytes() for file in (bundled / "out").iterdir())


def test_code_that_was_not_recorded_is_dropped(bundled):
    one, other = Trace.load(bundled / "loop.cvt"), Trace.load(bundled / "out" / "loop.cvt")
    assert (other.definitions.code != 0).sum() < 0.9 * (one.definitions.code != 0).sum()
