"""How much memory a command took: without what its parent took, which Linux counts in a child until it starts a program."""

import subprocess
import sys

_SCRIPT = (
    "import resource, subprocess, sys\n"
    "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
    "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)\n"
)


def peak_memory(command: list) -> tuple[int, int]:
    """Run a command and return its exit code and its largest resident set (or that of a child of it) in bytes."""
    words = [sys.executable, "-c", _SCRIPT, *command]
    code, peak = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return int(code), int(peak)
