"""Where the Valgrind tool lies and how it is started."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from convolver.errors import ToolNotFoundError
from convolver.tracing.launch import inherited_environment

TOOL = "convolver-amd64-linux"
MOST_THREADS = 2000
"""At one time; Valgrind would take 500. Each costs 7 KB, whether it is there or not."""
INSTALL = "install it with `apt install valgrind gcc`"


def tool_folder() -> Path:
    """Return the folder with the tool and what Valgrind's launcher needs beside it.

    Raises ToolNotFoundError where Convolver was built without Valgrind.
    """
    folder = Path(__file__).resolve().parent.parent / "_programs" / "valgrind"
    if not (folder / TOOL).is_file():
        raise ToolNotFoundError(f"the tracer was not built with this Convolver ({folder}); {INSTALL} and install Convolver again")
    return folder


def tool_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment to start Valgrind in: `base` (default: what programs run here get) and the folder of the tool.

    Raises ToolNotFoundError where Convolver was built without Valgrind.
    """
    return {**(inherited_environment() if base is None else base), "VALGRIND_LIB": str(tool_folder())}


def tool_command(options: list[str]) -> list[str]:
    """Return the command that runs the tool with these options; the traced command and its arguments go after it.

    Valgrind itself is kept quiet. Raises ToolNotFoundError where Valgrind is not installed.
    """
    # Debian's `valgrind` is a shell script around the launcher that puts PWD, LD_LIBRARY_PATH and more into the environment.
    valgrind = shutil.which("valgrind.bin") or shutil.which("valgrind")
    if not valgrind:
        raise ToolNotFoundError(f"no valgrind on the path; {INSTALL}")
    own = ["-q", "--tool=convolver", "--vgdb=no", "--fair-sched=try", "--sigill-diagnostics=yes", f"--max-threads={MOST_THREADS}"]
    return [valgrind, *own, *options]
