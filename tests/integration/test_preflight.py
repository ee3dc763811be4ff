"""What cannot be traced is found before it runs, and nothing else is refused."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from convolver.errors import TracerError, UsageError
from convolver.tracing.avx512 import candidates, find_avx512
from convolver.tracing.engine_choice import alternatives
from convolver.tracing.measure import measure
from convolver.tracing.preflight import check_command, resolve_command

VECTOR = """
void scale(double *x, int n) { for (int i = 0; i < n; i++) x[i] *= 3.0; }
int main(int argc, char **argv) { double x[64] = {0}; scale(x, argc * 8); return x[3] > 1; }
"""
DISPATCHED = """
__attribute__((target("avx512f"), noinline)) void scale_avx512(double *x, int n) { for (int i = 0; i < n; i++) x[i] *= 3.0; }
int main(int argc, char **argv) { double x[64] = {0}; if (__builtin_cpu_supports("avx512f")) scale_avx512(x, 64); return 0; }
"""
CHOSEN = """
__attribute__((target("avx512f"), noinline)) void plain(double *x, int n) { for (int i = 0; i < n; i++) x[i] *= 3.0; }
int main(int argc, char **argv) { double x[64] = {0}; if (__builtin_cpu_supports("avx512f")) plain(x, 64); return 0; }
"""


def compile_c(tmp_path, source, *flags, name="program"):
    path = tmp_path / name
    (tmp_path / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-O3", "-o", path, tmp_path / f"{name}.c", *flags], check=True)
    return path


needs_objdump = pytest.mark.skipif(shutil.which("objdump") is None or shutil.which("gcc") is None, reason="needs gcc and objdump")


@needs_objdump
@pytest.mark.parametrize("strip", [False, True])
def test_avx512_code_is_refused_and_its_function_named(tmp_path, strip):
    path = compile_c(tmp_path, VECTOR, "-mavx512f", "-mprefer-vector-width=512", "-fno-inline")
    if strip:
        subprocess.run(["strip", path], check=True)
    with pytest.raises(TracerError, match="AVX-512 in (a function without a name)" if strip else "AVX-512 in scale,"):
        check_command([str(path)])
    assert check_command([str(path)], scan=False) == [str(path)]


@needs_objdump
def test_avx512_code_in_a_library_of_the_programs_own_is_refused(tmp_path):
    body, main = VECTOR.split("int main")
    library = compile_c(tmp_path, body, "-mavx512f", "-mprefer-vector-width=512", "-shared", "-fPIC", name="libscale.so")
    source = "void scale(double *, int);\nint main" + main
    path = compile_c(tmp_path, source, str(library), f"-Wl,-rpath,{tmp_path}")
    found = find_avx512(path)
    assert found is not None
    assert (found.path, found.function) == (library, "scale")


@needs_objdump
@pytest.mark.parametrize(
    ("source", "flags"), [(VECTOR, ("-mavx2", "-mfma")), (DISPATCHED, ()), (CHOSEN, ()), (VECTOR, ("-static",))]
)
def test_code_that_never_runs_avx512_is_not_refused(tmp_path, source, flags):
    assert find_avx512(compile_c(tmp_path, source, *flags)) is None


@needs_objdump
def test_native_runs_are_measured_whatever_their_instructions(tmp_path):
    never = CHOSEN.replace('__builtin_cpu_supports("avx512f")', "argc > 5").replace("plain", "scale")
    path = compile_c(tmp_path, never, "-mprefer-vector-width=512", "-O3")
    assert find_avx512(path) is not None
    assert measure([str(path)], runs=1).exit_status == 0


@needs_objdump
@pytest.mark.parametrize("name", ["xz", "sqlite3", "bash", "gcc", "git", "perl", "openssl", sys.executable])
def test_installed_programs_are_not_refused(name):
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}")
    assert find_avx512(Path(path)) is None


def test_candidates_are_found_and_impossible_prefixes_left_out():
    vaddpd_zmm = bytes.fromhex("62f1f5485802")
    code = np.frombuffer(bytes(32) + vaddpd_zmm + bytes(200) + bytes.fromhex("62ffffffffff") + bytes(8), dtype=np.uint8)
    assert candidates(code, clustered=False).tolist() == [32]
    assert candidates(code, clustered=True).tolist() == []
    assert candidates(np.tile(np.frombuffer(vaddpd_zmm, dtype=np.uint8), 3), clustered=True).tolist() == [0, 6, 12]


def elf_header(machine, bits=2, order=1):
    head = bytearray(64)
    head[:7] = b"\x7fELF" + bytes([bits, order, 1])
    head[18:20] = machine.to_bytes(2, "little" if order == 1 else "big")
    return bytes(head)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (elf_header(183), "64-bit ARM"),
        (elf_header(3, bits=1), "32-bit x86"),
        (elf_header(62, bits=1), "32-bit"),
        (elf_header(22, order=2), "s390"),
        (elf_header(777), "another architecture"),
        (b"hello", "neither a program"),
        (b"\x7fELF\x02", "ends inside its header"),
        (b"", "neither a program"),
    ],
)
def test_programs_that_the_tracer_cannot_run_are_named(tmp_path, content, sentence):
    path = tmp_path / "program"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(TracerError, match=sentence):
        check_command([str(path)])


def script(tmp_path, first, name="script"):
    path = tmp_path / name
    path.write_text(f"{first}\necho hello\n")
    path.chmod(0o755)
    return str(path)


def test_a_script_runs_under_its_interpreter(tmp_path):
    path = script(tmp_path, "#!/bin/sh -e")
    assert resolve_command([path, "x"]) == ["/bin/sh", "-e", path, "x"]


def test_env_is_followed_to_the_program_that_it_becomes(tmp_path):
    path = script(tmp_path, "#!/usr/bin/env sh")
    assert resolve_command([path]) == [shutil.which("sh"), path]


def test_scripts_that_cannot_run_are_said(tmp_path):
    with pytest.raises(UsageError, match="script for /no/such, which is not there"):
        resolve_command([script(tmp_path, "#!/no/such")])
    with pytest.raises(UsageError, match="without an interpreter"):
        resolve_command([script(tmp_path, "#!", "empty")])
    own = script(tmp_path, "#!" + str(tmp_path / "loop"), "loop")
    with pytest.raises(UsageError, match="interpreter is a script"):
        resolve_command([own])


def test_a_program_in_the_current_folder_keeps_its_dot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy("/bin/true", tmp_path / "own")
    assert resolve_command(["./own", "x"]) == ["./own", "x"]


def test_a_section_larger_than_memory_is_no_avx512_code(tmp_path):
    data = bytearray(Path("/bin/true").read_bytes())
    sections, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    for at in range(sections, sections + size * count, size):
        if struct.unpack_from("<Q", data, at + 8)[0] & 4:  # it has code
            struct.pack_into("<Q", data, at + 32, 1 << 60)
    path = tmp_path / "program"
    path.write_bytes(data)
    assert find_avx512(path) is None
    assert alternatives(path) == set()


def test_a_command_in_one_text_is_refused_with_its_words():
    with pytest.raises(UsageError, match=r"a list of words, not one text: \['\./app', '60'\]"):
        resolve_command("./app 60")
