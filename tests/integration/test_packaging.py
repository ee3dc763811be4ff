"""The sdist is complete, and an installation from it works without the source tree."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _tracked() -> set[str]:
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("needs a git checkout, to compare the sdist with")
    return {name for name in listing.stdout.splitlines() if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """An sdist made in a copy of the checkout's tracked files."""
    work = tmp_path_factory.mktemp("sdist")
    for name in _tracked():
        (work / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (work / "source" / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "setup.py", "-q", "sdist", "-d", str(work)]
    subprocess.run(command, cwd=work / "source", check=True, capture_output=True)
    return next(work.glob("*.tar.gz"))


def test_sdist_holds_every_tracked_file(sdist):
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in _tracked() - packed if not name.startswith(".")} == set()


@pytest.mark.slow
def test_installation_from_the_sdist_works_without_the_source_tree(sdist, tmp_path):
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, str(sdist)], check=True, capture_output=True, cwd=tmp_path)
    environment = {"PYTHONPATH": str(target), "PATH": "/usr/bin:/bin"}
    code = "import convolver, convolver._native._core, convolver.locations as l; print(l.program('convolver-probe', 'no'))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(target)
    words = [sys.executable, "-m", "convolver", "--includes"]
    included = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (tmp_path / "marked.c").write_text(
        '#include "convolver_markers.h"\nint main(void) { CONVOLVER_START(); CONVOLVER_STOP(); return 0; }\n'
    )
    assert str(target) in included
    subprocess.run(["cc", included.strip(), "-o", "marked", "marked.c"], cwd=tmp_path, check=True)
