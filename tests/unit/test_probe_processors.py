"""The probe's sources are C for other processors, too: clang reads all of them as for 64-bit ARM."""

import shutil
import subprocess

import pytest

from probes.build_probe import sources

HEADERS = "/usr/include/x86_64-linux-gnu"
"""Those of this processor, which are the same but for what ``WORDS`` says."""
WORDS = "#define __WORDSIZE 64\n#define __WORDSIZE_TIME64_COMPAT32 0\n#define __SYSCALL_WORDSIZE 64\n"


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
def test_the_probe_compiles_for_another_processor(tmp_path):
    for name, text in {"bits/wordsize.h": WORDS, "gnu/stubs.h": ""}.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(text)
    command = ["clang", "--target=aarch64-linux-gnu", "-fsyntax-only", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    command += ["-D__regparm__(n)=__unused__", f"-I{tmp_path}", "-isystem", HEADERS, *map(str, sources())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
