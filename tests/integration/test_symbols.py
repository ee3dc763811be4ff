"""Functions, source lines and build-ids of real object files: every way in which programs are linked and stripped."""

import subprocess

import numpy as np
import polars as pl
import pytest

from convolver.tracing.elf import Functions
from convolver.tracing.sampling import SamplingPlan
from convolver.tracing.tracer import trace
from tests.integration.conftest import PROGRAMS

COUNTS = SamplingPlan(mode="counts")


def hottest(binary, tmp_path, module=None):
    table = trace([str(binary), "200", "20"], output=tmp_path / "a.cvt", sampling=COUNTS).signature.table
    own = table.filter(pl.col("module") == str((module or binary).resolve()))
    return own.sort("memops").row(-1, named=True)


def loop_line():
    lines = (PROGRAMS / "loop.c").read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if "total += values[i]" in line)


def build_id(path):
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return next(line.split()[-1] for line in notes.splitlines() if "Build ID" in line)


@pytest.mark.parametrize(
    "flags",
    [(), ("-gdwarf-4",), ("-gdwarf-2",), ("-no-pie",), ("-static",), ("-static-pie",), ("-O0",), ("-Wl,-z,separate-code",)],
    ids=lambda flags: "".join(flags) or "default",
)
def test_the_hot_block_is_found_in_its_function_and_line(build, tmp_path, flags):
    binary = build("loop", *flags)
    hot = hottest(binary, tmp_path)
    assert hot["function"] == "sum"
    assert hot["file"] == str(PROGRAMS / "loop.c")
    assert abs(hot["line"] - loop_line()) <= 1
    assert hot["build_id"] == build_id(binary)


def _stripped(binary, tmp_path, *flags):
    target = tmp_path / "stripped"
    subprocess.run(["strip", *flags, "-o", target, binary], check=True)
    return target


def test_a_stripped_program_keeps_its_counts_and_identity(build, tmp_path):
    binary = build("loop")
    hot = hottest(_stripped(binary, tmp_path), tmp_path)
    assert (hot["function"], hot["file"], hot["line"]) == ("", "", 0)
    assert (hot["build_id"], hot["loads"]) == (build_id(binary), 4000)


def test_a_program_without_debug_information_still_has_functions(build, tmp_path):
    hot = hottest(_stripped(build("loop"), tmp_path, "--strip-debug"), tmp_path)
    assert (hot["function"], hot["line"]) == ("sum", 0)


def test_debug_information_in_a_linked_file_is_found(build, tmp_path):
    binary = build("loop")
    subprocess.run(["objcopy", "--only-keep-debug", binary, tmp_path / "loop.debug"], check=True)
    target = _stripped(binary, tmp_path)
    subprocess.run(["objcopy", "--add-gnu-debuglink=loop.debug", target], check=True, cwd=tmp_path)
    hot = hottest(target, tmp_path)
    assert hot["function"] == "sum"
    assert abs(hot["line"] - loop_line()) <= 1


def test_a_program_without_a_build_id_is_identified_by_its_content(build, tmp_path):
    binary = build("loop", "-Wl,--build-id=none")
    first, second = (hottest(binary, tmp_path)["build_id"] for _ in range(2))
    assert first == second
    assert first.startswith("sha1-")


def test_code_in_a_shared_library_belongs_to_the_library(build, tmp_path):
    library = tmp_path / "libwork.so"
    source = (PROGRAMS / "loop.c").read_text()
    work, main = source.split("int main", 1)
    (tmp_path / "work.c").write_text(work)
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <signal.h>\n"
        "double sum(const double *, int); void fill(double *, int);\nint main" + main
    )
    subprocess.run(["gcc", "-g", "-O1", "-shared", "-fPIC", "-o", library, tmp_path / "work.c"], check=True)
    binary = tmp_path / "main"
    subprocess.run(["gcc", "-g", "-o", binary, tmp_path / "main.c", library, f"-Wl,-rpath,{tmp_path}"], check=True)
    hot = hottest(binary, tmp_path, module=library)
    assert (hot["function"], hot["file"], hot["loads"]) == ("sum", str(tmp_path / "work.c"), 4000)


def test_a_damaged_object_file_leaves_its_blocks_unnamed(build, tmp_path):
    from convolver._native.trace_decoder import Decoder
    from convolver.tracing.blocks import rebuild_blocks
    from convolver.tracing.definitions import Definitions
    from convolver.tracing.symbols import resolve_names
    from tests.wire_streams import Segment, Stream

    data = bytearray(build("loop").read_bytes())
    rng = np.random.default_rng(1)
    path = tmp_path / "damaged"
    for _ in range(30):
        bad = bytearray(data)
        for at in rng.integers(16, len(data), 200):
            bad[at] ^= int(rng.integers(1, 256))
        bad[40:48] = int(rng.integers(0, 2 * len(data))).to_bytes(8, "little")
        path.write_bytes(bad)
        stream = Stream()
        stream.module(str(path))
        stream.segment(Segment(0x401150, [4, 4]))
        decoder = Decoder()
        decoder.feed(stream.bytes())
        definitions = Definitions.of(decoder)
        blocks = rebuild_blocks(definitions, np.array([5], dtype=np.uint64))
        assert len(resolve_names(definitions, blocks).functions) == len(blocks)


def test_functions_are_looked_up_by_address():
    functions = Functions(np.array([10, 20], dtype=np.uint64), np.array([15, 30], dtype=np.uint64), ["a", "b"])
    assert functions.at(np.array([9, 10, 14, 15, 20, 29, 30], dtype=np.uint64)) == ["", "a", "a", "", "b", "b", ""]
