"""What stands on top of reports: sampling plans in words, only what is known, versions."""

import io

from rich.console import Console

from convolver import __version__
from convolver.convolution.machine_changes import WhatIf
from convolver.convolution.verdict import CANNOT_TELL
from convolver.reporting.choice_chart import what_if_chart
from convolver.reporting.console import out, terminal_progress
from convolver.reporting.metadata import about_times, coverage_words, metadata, sampling_words, system_words
from convolver.tracing.sampling import SamplingPlan
from tests.artifact_chain import make_chain


def _text(table) -> str:
    stream = io.StringIO()
    Console(file=stream, width=200).print(table)
    return stream.getvalue()


def test_what_a_program_had_of_the_kernel_reads_as_words():
    pages = {"anonymous": 1000, "shared": 200, "windows": 34}
    calls = [{"call": "read", "target": "file", "calls": 3, "bytes": 4096}, {"call": "brk", "target": "", "calls": 2, "bytes": 0}]
    had = {"pages": pages, "calls": calls, "forks": 0, "threads": 2}
    assert system_words(had) == "1.23 k page faults, 5 system calls, 4 KiB moved, 2 threads"
    assert system_words({**had, "pages": None, "threads": 0}) == "unknown page faults, 5 system calls, 4 KiB moved"
    assert system_words(None) == "unknown"


def test_a_sampling_plan_reads_as_words():
    assert sampling_words(SamplingPlan(interval=10**6, sample=10**4, sets=32).document()) == (
        "10 k of every 1 M references, 1 in 32 of the cache sets"
    )
    assert sampling_words(SamplingPlan(mode="full").document()) == "all references"
    assert (
        sampling_words(SamplingPlan(mode="counts", start_at="main").document()) == "no addresses, exact counts alone, from main"
    )
    assert sampling_words(SamplingPlan(mode="full", phase=(2, 3)).document()) == "all references, phase 2 of 3"
    assert sampling_words(None) == "unknown"


def test_what_is_not_known_is_not_shown_and_versions_always_are():
    text = _text(metadata(("program", "./a"), ("measured", None), inputs={"signature": "0123456789abcdef"}))
    assert "measured" not in text
    assert f"Convolver {__version__}; signature 0123456789ab\n" in text.replace(" \n", "\n")
    assert coverage_words(None, 0.25) == "sampled share 25.0 %"


def test_block_times_say_program_machines_and_coverage(tmp_path):
    chain = make_chain(tmp_path)
    text = _text(about_times([chain.prediction.base, chain.prediction.target]))
    for words in ("./app 7", "base, target", "lie in blocks with a sample", chain.signature.id[:12]):
        assert words in text


def test_the_method_of_the_rates_is_reported(tmp_path):
    chain = make_chain(tmp_path)
    assert chain.prediction.document["method"] == "curves"  # the machines of the test have no calibration
    said = _text(about_times([chain.prediction.base]))
    assert "intervals that hold their errors, need a calibration of every machine" in " ".join(said.split())


def test_what_saves_nothing_has_no_sign():
    as_it_is = WhatIf("as it is", 1.0, (0.9, 1.1), 1.0, None, None)
    larger = WhatIf("L3 x 2", 1.00001, (0.9, 1.1), 0.99999, (0.9, 1.1), CANNOT_TELL)
    shown = _text(what_if_chart([as_it_is, larger], "m"))
    assert " 0.0 %" in shown
    assert "-0.0" not in shown


ODD = "./a [/x] [bold]b :smile: f[abi:cxx11]"
"""What rich would take for its markup and emoji, or for a defect."""


def test_names_are_printed_as_they_are(capsys):
    out().print(metadata(("program", ODD), title=ODD))
    out().print(ODD)
    assert capsys.readouterr().out.count(ODD) == 3


def test_a_sentence_in_a_pipe_is_one_line(capsys):
    out().print("word " * 100)
    assert capsys.readouterr().out.count("\n") == 1


def test_names_are_shown_as_they_are_while_something_runs(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    progress = terminal_progress()
    progress.start(ODD)
    progress.finish()
    assert ODD in capsys.readouterr().err
