"""Completion scripts in real shells: the program offers its verbs, options, machines and views at Tab."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from convolver.cli.completion import Shell, place, script

ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _bash(line: str) -> list[str]:
    """Return what bash offers at the end of a command line with the script sourced, as the Tab key would."""
    words = line.split(" ")
    assign = " ".join(f"'{word}'" for word in words)
    steps = [
        "source /dev/stdin <<'SCRIPT'\n" + script(Shell.BASH) + "SCRIPT",
        f"COMP_WORDS=({assign}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'; COMP_POINT={len(line)}",
        "name=$(complete -p convolver | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $name convolver",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(["bash", "-c", "\n".join(steps)], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("convolver sim", ["simulate"]),
        ("convolver plot ro", ["roofline"]),
        ("convolver simulate x.cvt -m server-h", ["server-hbm"]),
        ("convolver choose x.cvt -m host,server-h", ["host,server-hbm"]),
        ("convolver machine sh", ["show"]),
        ("convolver diff --to", ["--top"]),
        ("convolver trace --engine v", ["valgrind"]),
        ("convolver predict x.cvt --method c", ["calibrated", "curves"]),
        ("convolver predict x.cvt --pin s", ["scatter"]),
        ("convolver choose x.cvt --state a", ["alone"]),
    ],
)
def test_bash_offers_what_the_parser_knows(line, offered):
    assert _bash(line) == offered


@pytest.mark.parametrize("shell", list(Shell))
def test_install_writes_the_script_where_the_shell_looks(shell, tmp_path):
    home = {**ENVIRONMENT, "HOME": str(tmp_path)}
    home = {name: value for name, value in home.items() if not name.startswith("XDG_")}
    done = subprocess.run(["convolver", "completion", shell, "--install"], env=home, capture_output=True, text=True, check=True)
    (written,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written.read_text() == script(shell)
    assert str(written) in done.stderr


def test_settings_folders_of_the_user_are_respected(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert place(Shell.FISH) == tmp_path / "fish/completions/convolver.fish"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_script(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}: apt install {shell}")
    path = tmp_path / "script"
    path.write_text(script(Shell(shell)))
    subprocess.run([shell, "-n", str(path)], check=True, capture_output=True)
