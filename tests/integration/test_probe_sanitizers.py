"""Every kernel of the probe under the address and undefined-behavior sanitizers."""

import json
import shutil
import subprocess

import pytest

from convolver.probing.plan import working_sets
from probes.build_probe import sources

pytestmark = pytest.mark.slow

FLAGS = (
    "-std=gnu11",
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pthread",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover",
)
EFFORT = ("--bytes", "1048576", "--sample", "0.00002", "--limit", "0.0001", "--warmup", "0.001", "--least", "3", "--most", "3")


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    program = tmp_path_factory.mktemp("probe") / "probe"
    subprocess.run(["gcc", *FLAGS, *sources(), "-o", program, "-lm"], check=True)
    return program


def run(binary, plan, *options):
    return subprocess.run([binary, *EFFORT, *options], input=plan, capture_output=True, text=True, check=False)


def test_every_kernel_is_clean_at_every_size(binary):
    kernels = [
        json.loads(line) for line in subprocess.run([binary, "--list"], capture_output=True, text=True).stdout.splitlines()[1:]
    ]
    names = [kernel["kernel"] for kernel in kernels if kernel["supported"]]
    points = [(name, size, 1) for size in (*working_sets(65536, 4), 1 << 20) for name in names]
    done = run(binary, "".join(f"{name} {size} {threads}\n" for name, size, threads in points))
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["kernel"], line["working_set_bytes"], line["threads"]) for line in lines] == points
    assert all(min(line["samples_seconds"]) > 0 for line in lines)


def test_a_second_thread_is_clean(binary):
    done = run(binary, "load 65536 2\nchase 4096 2\ngather 8192 2\n")
    assert "too few CPUs" in done.stderr or (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "plan",
    [
        "nonsense 4096 1\n",
        "load 4096\n",
        "load 100 1\n",
        "load 4100 1\n",
        "load 2097152 1\n",
        "load 4096 0\n",
        "load 4096 4000\n",
    ],
)
def test_a_bad_line_of_a_plan_ends_in_one_line_of_words(binary, plan):
    done = run(binary, plan)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) <= 2
    assert not done.stdout


@pytest.mark.parametrize("option", [("--cpu", "4000"), ("--pages", "8g"), ("--least", "1"), ("--sample", "0"), ("--unknown",)])
def test_a_bad_option_is_refused(binary, option):
    assert run(binary, "load 4096 1\n", *option).returncode in (1, 2)


def test_the_kernels_work_is_clean(binary):
    done = run(binary, "", "--system")
    assert (done.returncode, done.stderr) == (0, "")
    assert '"name": "page.few"' in done.stdout
