"""File names that tell ranks and processes apart."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from convolver.tracing.launch import default_name, descriptors, expand_name, passive_waiting, rank, threads_asked


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"])
def test_the_rank_comes_from_the_launcher(variable):
    assert rank({variable: "3"}) == 3
    assert default_name("bin/app", {variable: "3"}) == Path("app.3.cvt")


def test_without_a_launcher_there_is_no_rank():
    assert rank({}) is None
    assert rank({"PMI_RANK": "x"}) is None
    assert default_name("/bin/app", {}) == Path("app.cvt")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("a.%r.cvt", "a.5.cvt"),
        ("%r%r", "55"),
        ("a%%r", "a%r"),
        ("100%", "100%"),
        ("a%x", "a%x"),
        ("%%%r", "%5"),
        ("plain", "plain"),
    ],
)
def test_percent_names_are_expanded(pattern, name):
    assert expand_name(pattern, {"PMI_RANK": "5"}) == Path(name)


def test_the_process_id_is_expanded():
    assert expand_name("a.%p", {}) == Path(f"a.{os.getpid()}")


def test_the_launchers_open_descriptors_are_handed_on():
    ours, other = os.pipe()
    try:
        assert descriptors({"PMI_FD": str(other)}) == (other,)
    finally:
        os.close(ours)
        os.close(other)
    assert descriptors({"PMI_FD": str(other)}) == ()
    assert descriptors({"PMI_FD": "x"}) == descriptors({}) == ()


PIPED = """
import os, subprocess, sys
from convolver.tracing.launch import input_again
for words in (["head", "-c", "3"], ["cat"], ["cat"]):
    with input_again() as stdin:
        print(subprocess.run(words, stdin=stdin, capture_output=True, text=True).stdout)
"""


def test_each_run_reads_what_came_through_a_pipe():
    done = subprocess.run([sys.executable, "-c", PIPED], input="one\ntwo\n", capture_output=True, text=True, timeout=60)
    assert done.stdout == "one\none\ntwo\n\none\ntwo\n\n"


MEASURED = """
from pathlib import Path
import sys
from convolver.tracing.launch import closed_off
from convolver.tracing.measure import measure
import subprocess
if sys.argv[1] == "traced":
    with closed_off():
        subprocess.run(["sh", "-c", "cat > traced"])
measure(["sh", "-c", "cat > measured.$$"], runs=2)
with closed_off():
    subprocess.run(["sh", "-c", "cat > again"])
"""


@pytest.mark.parametrize("first", ["traced", "measured"])
def test_every_run_has_all_of_a_pipe_larger_than_its_buffer(tmp_path, first):
    text = "".join(f"{number}\n" for number in range(100_000))
    subprocess.run([sys.executable, "-c", MEASURED, first], input=text, cwd=tmp_path, text=True, timeout=60, check=True)
    found = sorted(tmp_path.iterdir())
    assert {path.name.split(".")[0] for path in found} == {"again", "measured", *([first] if first == "traced" else [])}
    assert all(path.read_text() == text for path in found)


def test_a_process_left_behind_that_reads_nothing_keeps_nobody_waiting():
    left = "sleep 900 <&0 >/dev/null 2>&1 & echo $!"
    code = PIPED.replace('(["head", "-c", "3"], ["cat"], ["cat"])', f'(["sh", "-c", "{left}"],)')
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input="x" * 1_000_000, text=True, timeout=600, capture_output=True, check=True)
    os.kill(int(done.stdout), signal.SIGKILL)  # it is still there


def test_a_pipe_that_never_ends_keeps_nobody_waiting():
    ours, other = os.pipe()
    code = PIPED.replace('(["head", "-c", "3"], ["cat"], ["cat"])', '(["true"], ["true"])')
    try:
        assert subprocess.run([sys.executable, "-c", code], stdin=ours, timeout=60, capture_output=True).returncode == 0
    finally:
        os.close(ours)
        os.close(other)


PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(("options", "passive"), [(["-fopenmp"], PASSIVE), ([], {})], ids=["OpenMP", "none"])
def test_threads_wait_passively_where_a_library_has_openmp(tmp_path, options, passive):
    (tmp_path / "inner.c").write_text('void inner(void)\n{\n#pragma omp parallel\n    __asm__ volatile("nop");\n}\n')
    (tmp_path / "outer.c").write_text("void inner(void);\nvoid outer(void) { inner(); }\n")
    (tmp_path / "main.c").write_text("void outer(void);\nint main(void) { outer(); }\n")

    def build(*words):
        subprocess.run(["gcc", *words, "-L.", "-Wl,-rpath,$ORIGIN"], cwd=tmp_path, check=True)

    build("-shared", "-fPIC", *options, "inner.c", "-o", "libinner.so")
    build("-shared", "-fPIC", "outer.c", "-linner", "-o", "libouter.so")
    build("main.c", "-louter", "-o", "main", "-Wl,--allow-shlib-undefined")
    assert passive_waiting(str(tmp_path / "main"), {}) == passive
    assert passive_waiting(str(tmp_path / "main"), {"OMP_WAIT_POLICY": "active"}) == {}
    assert passive_waiting(str(tmp_path / "none"), {}) == {}


def test_threads_that_are_asked_for_wait_passively():
    asked = threads_asked(3, {"OMP_NUM_THREADS": "2"})
    assert asked.items() >= {"GOMAXPROCS": "3", **PASSIVE}.items()
    assert "OMP_NUM_THREADS" not in asked
    assert threads_asked(3, {"KMP_BLOCKTIME": "9"}).keys().isdisjoint(PASSIVE)
