"""``convolver check`` and the pytest plugin on a small program and its slower version."""

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs gcc and valgrind: apt install gcc valgrind"
)


@pytest.fixture(scope="module")
def check(convolver):
    """Return a function that runs ``convolver check WORDS`` in a folder."""
    return lambda folder, *words: convolver("check", *words, cwd=folder)


@pytest.fixture(scope="module")
def versions(check, build, tmp_path_factory):
    """A folder with a baseline of ./old/stages, and ./new/stages, whose chase does 2 % more."""
    folder = tmp_path_factory.mktemp("check")
    for name, flags in (("old", ()), ("new", ("-DMORE=2",))):
        (folder / name).mkdir()
        shutil.copy(build("stages", *flags), folder / name / "stages")
    kept = check(folder, "--update", "--", "old/stages")
    assert kept.returncode == 0, kept.stderr
    return folder


def test_the_same_program_passes_in_another_environment(check, versions, monkeypatch):
    monkeypatch.setenv("PADDING", "x" * 3000)
    done = check(versions, "--json", "--", "old/stages")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["verdict"] == "unchanged"
    assert abs(found["change"]["relative"]) < 0.005


def test_two_percent_in_one_function_end_with_7_and_its_name(check, versions):
    for name in ("comment.md", "suite.xml"):
        (versions / name).write_text("of the run before")
    done = check(versions, "--markdown", "comment.md", "--junit", "suite.xml", "--", "new/stages")
    assert done.returncode == 7
    assert "slower" in done.stdout
    assert "because of chase in stages (stages.c:" in done.stdout
    assert "`chase in stages`" in (versions / "comment.md").read_text()
    assert 'failures="1"' in (versions / "suite.xml").read_text()


def test_a_program_that_fails_is_not_checked(check, versions):
    (versions / "old.md").write_text("of the run before")
    done = check(versions, "--markdown", "old.md", "--", "false")
    assert done.returncode == 4
    assert "ended with status 1" in done.stderr
    assert not (versions / "old.md").exists()


def test_processes_that_are_left_out_are_said(check, versions, tmp_path):
    (tmp_path / "job").write_text(f"#!/bin/sh\n{versions}/old/stages\ntrue\n")
    (tmp_path / "job").chmod(0o755)
    assert "Note: processes that job started (1) are left out" in check(tmp_path, "--", "./job").stderr
    assert "Note" not in check(versions, "--", "old/stages").stderr


MARKED = """
#include "convolver_markers.h"
#include <stdlib.h>
static long work(long n) { volatile long sum = 0; for (long i = 0; i < n; i++) sum += i; return sum; }
int main(int count, char **words)
{
    work(atol(words[1]));
    if (count > 2) {
        CONVOLVER_START();
        work(atol(words[2]));
        CONVOLVER_STOP();
    }
    return 0;
}
"""


def test_marked_parts_are_checked_alone(check, convolver, tmp_path):
    (tmp_path / "m.c").write_text(MARKED)
    subprocess.run(["gcc", convolver("--includes", code=0).stdout.strip(), "-o", tmp_path / "m", tmp_path / "m.c"], check=True)
    assert check(tmp_path, "--marked", "--update", "--", "./m", "1000", "300000").returncode == 0
    assert check(tmp_path, "--marked", "--", "./m", "900000", "300000").returncode == 0
    assert check(tmp_path, "--marked", "--", "./m", "1000", "330000").returncode == 7
    assert "ran nothing between marks" in check(tmp_path, "--marked", "--", "./m", "1000").stderr


def test_limits_of_other_programs_alone_are_said(check, versions):
    (versions / "limits.toml").write_text("[program.stagse]\nseconds = 1e-9\n")
    done = check(versions, "--limits", "limits.toml", "--", "old/stages")
    assert done.returncode == 0
    assert "limits.toml has no [program.stages], only stagse" in done.stderr
    listed = check(versions, "--limits", "limits.toml", "--name", "stagse", "--", "old/stages")
    assert listed.returncode == 7
    assert "Note" not in listed.stderr


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


def test_traced_programs_see_one_processor_on_all_hosts(tmp_path, convolver):
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs a processor with AVX2: Valgrind shows an older one elsewhere")
    (tmp_path / "cpuid.c").write_text(
        "#include <cpuid.h>\n#include <stdio.h>\n"
        "int main(void) { unsigned a, b, c, d; __cpuid(0, a, b, c, d);\n"
        'printf("%.4s%.4s%.4s ", (char *)&b, (char *)&d, (char *)&c);\n'
        '__cpuid(1, a, b, c, d); printf("%x", a); }\n'
    )
    subprocess.run(["gcc", "-o", tmp_path / "cpuid", tmp_path / "cpuid.c"], check=True)
    done = convolver("trace", "--counts-only", "-o", tmp_path / "c.cvt", "--", tmp_path / "cpuid")
    assert done.stdout == "GenuineIntel 306c3", "runners whose libraries choose other code have other baselines"


@pytest.mark.slow
def test_counts_repeat_those_stored_from_other_hosts(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "bench")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")  # how sort compares
    hosts = importlib.import_module("check_hosts")
    stored = {tuple(row[1:3]): row[3:] for row in hosts.known()}
    same = [(row[3:], stored[row[1], row[2]]) for row in hosts.rows(tmp_path) if (row[1], row[2]) in stored]
    if not same:
        pytest.skip("programs and libraries are of other builds than those in benchmarks/results/check-hosts.json")
    for here, there in same:
        assert here[:2] == pytest.approx(there[:2], rel=0.005)  # stored seconds are those of the model of that day
