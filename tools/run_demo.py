"""The main job on this machine, end to end: probe it, then predict two real programs on it and on two projected machines.

``make run`` calls this. Everything is written below run/. The programs are the conjugate-gradient solver in examples/ and the
first of xz, gzip, sqlite3 and python3 that is installed: one that nobody here wrote.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "run"
TARGETS = ("server-hbm", "desktop-32m")
SQL = (
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) "
    "select count(distinct i * 7919 % 50021), sum(i) from n;"
)


def step(*words: str) -> None:
    """Show a command, run it in the folder, and stop everything when it fails."""
    print(f"\n$ {shlex.join(words)}", flush=True)
    program = [sys.executable, "-m", "convolver", *words[1:]] if words[0] == "convolver" else list(words)
    status = subprocess.run(program, cwd=FOLDER, check=False).returncode
    if status:
        sys.exit(status)


def predict(*command: str) -> None:
    """Predict one command on this machine and on the targets, in a folder of its own, and make the page of it."""
    name = Path(command[0]).name
    targets = [word for name in TARGETS for word in ("--target", name)]
    step("convolver", "predict", "--base", "host", *targets, "--force", "-o", f"{name}-run", "--", *command)
    step("convolver", "report", f"{name}-run", "--html", f"{name}.html", "--force")


def choose(*command: str) -> None:
    """Rank this machine and the targets for a command that was predicted."""
    name = Path(command[0]).name
    step("convolver", "choose", f"{name}-run/{name}.cvt", "--machines", ",".join(("host", *TARGETS)))


def found_program() -> list[str]:
    """Return a command of a program that is installed here, with an input of its own."""
    text = FOLDER / "input.txt"
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    text.write_bytes(b"".join(file.read_bytes() for file in files)[:4_000_000])
    candidates = {
        "xz": ["xz", "-k", "-f", "-2", text.name],
        "gzip": ["gzip", "-k", "-f", text.name],
        "sqlite3": ["sqlite3", ":memory:", SQL],
    }
    for name, command in candidates.items():
        if shutil.which(name):
            return command
    return [sys.executable, "-c", "print(sum(i * i % 7 for i in range(1000000)))"]


def main() -> None:
    """Run all steps and say how long they took."""
    began = time.monotonic()
    FOLDER.mkdir(exist_ok=True)
    step("cc", "-g", "-O2", "-o", "cg", str(ROOT / "examples" / "cg.c"), "-lm")
    step("convolver", "probe", "--quick", "--force")
    programs = (["./cg"], found_program())
    for command in programs:
        predict(*command)
    for command in programs:
        choose(*command)
    print(f"\nAll of this took {time.monotonic() - began:.0f} s; everything lies in {FOLDER}. Look at it:")
    print(f"  a browser   {FOLDER / 'cg.html'}")
    print(f"  a terminal  {Path(sys.executable).parent / 'convolver'} report {FOLDER / 'cg-run'}")


if __name__ == "__main__":
    main()
