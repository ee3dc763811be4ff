"""Memory that is made ready before a run."""

import msgspec

from convolver.probing.machine_probe import default_cpu
from convolver.validating.campaign import Condition, Job
from convolver.validating.measuring import CampaignRuns, warm_huge_pages
from convolver.validating.running import run_once

QUIET = Condition(name="quiet")


def job(name):
    return Job(program=name, input="", command=("true",), folder=".", environment={}, origin="", package="", status=0)


def test_a_run_says_how_much_memory_it_took(tmp_path):
    words = ("python3", "-c", "x = bytearray(200 << 20)")
    run = run_once(msgspec.structs.replace(job("x"), command=words, folder=str(tmp_path)), QUIET, 0, default_cpu(), None)
    assert 200 << 20 < run.peak_bytes < 4 << 30
    runs = CampaignRuns(tmp_path / "runs.jsonl")
    runs.add(msgspec.structs.replace(run, job=job("x").key))
    assert runs.peak_bytes(job("x")) == run.peak_bytes
    assert runs.peak_bytes(job("y")) == 0


def test_huge_pages_are_touched_and_given_back():
    assert warm_huge_pages(0) == 0
    assert warm_huge_pages(5 << 20) in (0, 4)
