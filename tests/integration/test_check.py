"""``convolver check`` and the pytest plugin on a small program and its slower version."""

import json
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs gcc and valgrind: apt install gcc valgrind"
)


def check(folder, *words):
    return subprocess.run([sys.executable, "-m", "convolver", "check", *words], cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def versions(build, tmp_path_factory):
    """A folder with a baseline of ./old/stages, and ./new/stages, whose chase does 2 % more."""
    folder = tmp_path_factory.mktemp("check")
    for name, flags in (("old", ()), ("new", ("-DMORE=2",))):
        (folder / name).mkdir()
        shutil.copy(build("stages", *flags), folder / name / "stages")
    kept = check(folder, "--update", "--", "old/stages")
    assert kept.returncode == 0, kept.stderr
    return folder


def test_the_same_program_passes_in_another_environment(versions, monkeypatch):
    monkeypatch.setenv("PADDING", "x" * 3000)
    done = check(versions, "--json", "--", "old/stages")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["verdict"] == "unchanged"
    assert abs(found["change"]["relative"]) < 0.005


def test_two_percent_in_one_function_end_with_7_and_its_name(versions):
    done = check(versions, "--markdown", "comment.md", "--junit", "suite.xml", "--force", "--", "new/stages")
    assert done.returncode == 7
    assert "slower" in done.stdout
    assert "because of chase in stages (stages.c:" in done.stdout
    assert "`chase in stages`" in (versions / "comment.md").read_text()
    assert 'failures="1"' in (versions / "suite.xml").read_text()


def test_a_program_that_fails_is_not_checked(versions):
    done = check(versions, "--", "false")
    assert done.returncode == 4
    assert "ended with status 1" in done.stderr


@pytest.mark.slow
def test_marked_tests_fail_over_their_limit_alone(tmp_path):
    (tmp_path / "test_marked.py").write_text(
        "import pytest\n"
        "@pytest.mark.convolver(limit='10 s')\n"
        "def test_fast(): assert sum(range(1000))\n"
        "@pytest.mark.convolver(limit='1 us')\n"
        "def test_slow(): assert sum(range(1000))\n"
    )
    plugin = "convolver.checking.pytest_plugin"
    words = [sys.executable, "-m", "pytest", "-o", "addopts=", "-p", "no:xdist", "-q"]
    done = subprocess.run([*words, "--convolver"], cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout, f"{done.stdout}{done.stderr}: is {plugin} installed?"
    assert "over its limit of 1 us" in done.stdout
    assert subprocess.run(words, cwd=tmp_path, capture_output=True).returncode == 0
