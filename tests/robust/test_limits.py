"""Small files do not take much memory or time, whatever their writer thought of."""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from convolver._native.status import abort_says
from convolver._native.trace_decoder import Decoder
from convolver.errors import FormatError, TracerError
from convolver.tracing import format as cvt
from convolver.tracing.preflight import check_command
from convolver.tracing.reader import Trace
from tests.peak_memory import peak_memory
from tests.wire_streams import Stream, varint

DAMAGED = Path(__file__).parent / "too_much_memory.parquet"
"""Block times in whose pages a bit was changed: polars ends the process."""
PANICKING = DAMAGED.with_name("panicking.parquet")
"""A signature in which some bits were changed: a thread of polars panics."""
NUMBERS = 12_000
PLACED = 1


def test_a_chunk_that_unpacks_to_too_much_is_refused(tmp_path):
    path = tmp_path / "bomb.cvt"
    content = bytes(cvt.LONGEST_CONTENT + 8)
    meta = cvt.pack_chunk(cvt.META, b'{"schema":"convolver.trace","version":1}', cvt.CRITICAL)
    path.write_bytes(cvt.pack_header() + meta + cvt.pack_chunk(cvt.COUNTS, content, cvt.CRITICAL | cvt.ZSTD))
    assert path.stat().st_size < 100_000
    with pytest.raises(FormatError, match="impossible chunk"):
        Trace.load(path)


def _zigzag(difference: int) -> int:
    return difference << 1 if difference >= 0 else (-difference << 1) - 1


def _placed_as_a_chain(count: int) -> bytes:
    """Events that place one object in the order of the priorities that a generator without a seed gives."""
    state, priorities = 0, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        priorities.append(state >> 32)
    events, last = bytearray(), 0
    rank = {number: place for place, number in enumerate(sorted(range(count), key=lambda n: -priorities[n]))}
    for address in [*(64 * (rank[number] + 1) for number in range(count)), *[64 * (count + 1)] * 2 * count]:
        events += bytes([PLACED]) + varint(0) + varint(_zigzag(address - last)) + varint(8)
        last = address
    return bytes(events)


@pytest.mark.parametrize("kind", [cvt.COUNTS, cvt.SEGMENTS, cvt.ADDRESSES, cvt.EVENTS, cvt.SIGNATURE, cvt.TRAILER])
def test_the_largest_chunk_is_in_memory_once(tmp_path, kind):
    path = tmp_path / "bomb.cvt"
    meta = cvt.pack_chunk(cvt.META, b'{"schema":"convolver.trace","version":1}', cvt.CRITICAL)
    path.write_bytes(cvt.pack_header() + meta + cvt.pack_chunk(kind, bytes(cvt.LONGEST_CONTENT), cvt.CRITICAL | cvt.ZSTD))
    code, peak = peak_memory([sys.executable, "-m", "convolver", "info", path])
    assert code in (0, 3)
    assert peak < 1.7 * cvt.LONGEST_CONTENT


def test_events_in_the_order_of_known_priorities_take_no_longer():
    stream = Stream()
    stream.module()
    stream.object(1)
    decoder = Decoder("crafted")
    decoder.attribute()
    decoder.feed(stream.bytes())
    decoder.events(_placed_as_a_chain(NUMBERS))
    began = time.process_time()
    decoder.flush()
    assert time.process_time() - began < 0.5  # with known priorities: 3 s and more
    assert decoder.objects()["places"].tolist()[1] == 3 * NUMBERS


def test_a_setuid_program_is_named_before_anything_runs(tmp_path):
    program = tmp_path / "true"
    shutil.copyfile("/bin/true", program)
    program.chmod(0o4755)
    with pytest.raises(TracerError, match="setuid"):
        check_command([str(program)])


def test_a_missing_folder_for_temporary_files_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    with pytest.raises(TracerError, match=r"TMPDIR names .*gone"):
        check_command(["/bin/true"])


def test_a_table_that_asks_for_too_much_memory_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "convolver", "info", str(DAMAGED)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 3
    assert done.stderr == f"convolver: {DAMAGED} is damaged: reading it as Parquet takes more memory than there is.\n"


def test_where_polars_panics_one_sentence_is_shown():
    done = subprocess.run(
        [sys.executable, "-m", "convolver", "info", str(PANICKING)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (3, f"convolver: {PANICKING} cannot be read as Parquet: it is damaged.\n")


def test_what_is_written_to_stderr_is_held_back_until_no_error_came(capfd):
    with abort_says("never", 1):
        os.write(2, b"kept")
    with suppress(ValueError), abort_says("never", 1):
        os.write(2, b"dropped")
        raise ValueError
    assert capfd.readouterr().err == "kept"


def test_threads_that_read_tables_leave_stderr_as_it_was(capfd):
    def read(_):
        with abort_says("never", 1):
            os.write(2, b"x")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(400)))
    os.write(2, b"end")
    assert capfd.readouterr().err == "x" * 400 + "end"
