"""The command line as a whole: its help, and what it says when something goes wrong before, in and after a verb."""

import errno
import os
import signal
import subprocess
import sys
from tempfile import TemporaryDirectory

import pytest
import typer

from convolver.cli.app import GROUPS, app, main


@pytest.fixture
def help_of(convolver):
    return lambda *words: convolver(*words, "--help").stdout


def test_the_help_lists_every_verb_by_its_use_on_a_whole_line(help_of):
    listed = []
    for title, verbs in GROUPS.items():
        block = help_of().partition(f"\n{title}:\n")[2].partition("\n\n")[0].splitlines()
        assert [line.split()[0] for line in block] == [verb.rstrip("_").replace("_", "-") for verb in verbs]
        listed += block
    assert "completion" not in help_of().partition("Everyday:")[0]  # one way to it
    assert all(len(line) <= 80 and line.endswith(".") and not line.endswith("...") for line in listed)


@pytest.mark.parametrize("group", ["machine", "model", "mpi", "export", "replay"])
def test_groups_say_whole_sentences(group, help_of):
    listed = help_of(group).partition("Commands:\n")[2]
    assert listed.count(".") >= 3
    assert "..." not in listed


@pytest.mark.parametrize("option", ["--method", "--overlap"])
def test_a_wrong_choice_is_refused_before_anything_is_read(option, convolver):
    done = convolver("predict", "nosuch.cvt", option, "magic")
    assert done.returncode == 2
    assert "'magic'" in done.stderr


def test_two_forms_of_output_are_refused_before_a_probe_measures(tmp_path, convolver):
    done = convolver("probe", "--json", "--csv", "-o", tmp_path / "x.machine.json")
    assert "contradict" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_verb_says_one_sentence(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["convolver", "machine", "list"])
    monkeypatch.setattr("convolver.reporting.machine_tables.machine_rows", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "convolver: interrupted; whatever was named as written is complete.\n"


def test_ctrl_c_while_the_program_loads_leaves_no_traceback():
    code = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from convolver.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_probe_that_is_interrupted_at_once_names_no_file(monkeypatch, capsys, tmp_path):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    path = tmp_path / "x.machine.json"
    monkeypatch.setattr(sys, "argv", ["convolver", "probe", "-o", str(path)])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("convolver.probing.machine_probe.probe", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert str(path) not in capsys.readouterr().err


def test_a_full_disk_is_one_sentence_and_no_traceback():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "convolver", "machine", "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "convolver: the system refused: No space left on device; CONVOLVER_TRACEBACK=1 shows where.\n"


def test_a_reader_that_leaves_ends_it_by_sigpipe_without_a_word():
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "convolver", "machine", "list"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


def test_a_pipe_that_breaks_inside_is_no_reader_that_leaves(monkeypatch, convolver):
    def breaks():
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    monkeypatch.setattr("convolver.reporting.machine_tables.machine_rows", breaks)
    assert "the system refused: Broken pipe" in convolver("machine", "list", code=1).stderr


ALIKE = {
    "--at": "a number of processes",
    "--bandwidth": "bytes per second of the network, one or a range",
    "--by": "what a row stands for",
    "--cores": "how many cores the program has",
    "--cpu-ratio": "what computation is divided by, one or a range",
    "--engine": "what runs a program that is traced",
    "--full": "everything instead of a selection",
    "--json": "data instead of words; on stderr where stdout is the program's",
    "--latency": "seconds of the network, one or a range",
    "--machine": "a machine",
    "--machines": "machines at commas",
    "--metric": "the quantity that is compared or modeled",
    "--name": "what the thing is called",
    "--output": "the file or folder to write",
    "--points": "how many points are simulated",
    "--quick": "a selection instead of everything",
    "-m": "machines",
    "-n": "what the thing is called",
    "-o": "the file or folder to write",
}
"""Options whose help differs from verb to verb and whose meaning does not."""


def options(command, path=()):
    """Yield name, help and verb of every option."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from options(inner, (*path, name))
    if not hasattr(command, "commands"):
        for option in command.params:
            if option.param_type_name == "option":
                yield from ((name, option.help, " ".join(path)) for name in (*option.opts, *option.secondary_opts))


def test_an_option_has_one_meaning_in_all_verbs():
    texts = {}
    for name, text, verb in options(typer.main.get_command(app)):
        texts.setdefault(name, {}).setdefault(text, []).append(verb)
    several = {name: found for name, found in texts.items() if len(found) > 1}
    assert several.keys() == ALIKE.keys(), {name: several[name] for name in several.keys() - ALIKE.keys()}


def test_every_verb_of_a_group_shows_two_examples():
    def verbs(command, path=()):
        for name, inner in getattr(command, "commands", {}).items():
            yield from verbs(inner, (*path, name))
        if not hasattr(command, "commands"):
            yield path, command.help

    for path, text in verbs(typer.main.get_command(app)):
        shown = [line for line in (text or "").partition("Examples:")[2].splitlines() if f"convolver {path[0]}" in line]
        assert len(shown) >= 2 or path[0] in ("doctor", "completion"), path


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "nosuch.cvt", "--base", "nosuch"],
        ["simulate", "nosuch.cvt", "-m", "nosuch"],
        ["explore", "nosuch.cvt", "-m", "nosuch", "--level", "L2", "--sizes", "1M"],
        ["share", "nosuch.cvt", "-m", "nosuch"],
        ["predict", "--mpi", "nosuch.cvt", "--base", "nosuch"],
    ],
)
def test_a_missing_file_is_named_before_a_missing_profile(words, convolver):
    assert "There is no file nosuch.cvt" in convolver(*words).stderr


@pytest.mark.parametrize(
    ("words", "without"),
    [
        ("choose a.cvt -m desktop-32m,server-96m --dark", "--plot"),
        ("what-if a.cvt --dark", "--plot"),
        ("model speedup a.txt --at 8 --config a.cfg --dark", "-o"),
    ],
)
def test_a_dark_picture_that_nobody_draws_is_refused(words, without, convolver):
    said = f"convolver: --dark would do nothing without {without}; leave that out.\n"
    assert convolver(*words.split(), code=2).stderr == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("a.cvt --network a.cfg --clusters 3", "--network and --clusters would do nothing without --mpi; leave them out."),
        ("a.cvt --interval 5k", "--interval would do nothing to a trace that is there; leave that out."),
        ("--mpi a.mpi --strict --measured 3", "--measured and --strict would do nothing with --mpi; leave them out."),
        ("--json --csv -- /bin/true", "--json and --csv contradict each other; choose one."),
    ],
)
def test_options_that_would_do_nothing_are_refused_before_anything_runs(words, said, convolver):
    assert convolver("predict", *words.split(), code=2).stderr == f"convolver: {said}\n"


FOREIGN = """
import os
from convolver.tracing.native_engine import Attachment
if os.geteuid() == 0:
    os.setuid(65534)  # root may trace all
Attachment(1).command()
"""


@pytest.mark.skipif(os.stat("/proc/1").st_uid != 0, reason="needs a process 1 of root")
def test_a_process_of_another_user_is_refused_in_one_sentence():
    done = subprocess.run([sys.executable, "-c", FOREIGN], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("UsageError: Process 1 is not yours to trace; attach as its user, or as root.\n"), done.stderr


UNWRITABLE = """
import os, sys
from pathlib import Path
from convolver.cli.common import new_file
if os.geteuid() == 0:
    os.setuid(65534)  # root may write everywhere
assert new_file(Path("/dev/null"), True) == Path("/dev/null")
new_file(Path(sys.argv[1]), False)
"""


def test_a_folder_that_takes_no_files_is_refused_early():
    with TemporaryDirectory(prefix="convolver-test-") as folder:
        os.chmod(folder, 0o555)
        path = os.path.join(folder, "a.cvt")
        done = subprocess.run([sys.executable, "-c", UNWRITABLE, path], capture_output=True, text=True, check=False)
    assert done.stderr.endswith(f"UsageError: Nothing can be written into {folder}; choose another folder.\n"), done.stderr
