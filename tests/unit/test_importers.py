"""Recordings of other tools become traces with the same references and exact counts."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convolver.errors import FormatError, UsageError
from convolver.tracing.importers import import_trace
from tests.path_pieces import pieces_of

LACKEY = """==1== Lackey, an example Valgrind tool
I  04001000,3
 L 1ffeffe7e,8
I  04001003,5
 S 1ffeffe80,4
I  04001008,2
 M 1ffeffe90,8
I  04001000,3
 L 1ffeffe86,8
==1==
"""
DIN = "2 400\n0 1000\n2 404\n1 2000 8\n0 1004\n"
DRMEMTRACE = """Output format:
           1           0:       T100 <marker: version 3>
           2           1:       T100 ifetch       3 byte(s) @ 0x00007f0000001000 48 89 e7             mov    %rsp -> %rdi
           3           1:       T100 read         8 byte(s) @ 0x00007fff00000010 by PC 0x00007f0000001000
           4           2:       T200 ifetch       5 byte(s) @ 0x00007f0000001003 e8 08 0c 00 00       call
           5           2:       T200 write        8 byte(s) @ 0x00007fff00000008 by PC 0x00007f0000001003
"""


def imported(tmp_path, text, name):
    path = tmp_path / f"recording.{name}"
    path.write_text(text)
    trace = import_trace(path, output=tmp_path / "a.cvt", format=name)
    trace.verify()
    found = [
        (address, size, write)
        for batch in trace.batches()
        for address, size, write in zip(batch.addresses.tolist(), batch.sizes.tolist(), batch.writes.tolist(), strict=True)
    ]
    return trace, found


def test_lackey(tmp_path):
    trace, found = imported(tmp_path, LACKEY, "lackey")
    stack = 0x1FFEFFE7E
    assert found == [
        (stack, 8, False),
        (stack + 2, 4, True),
        (stack + 18, 8, False),
        (stack + 18, 8, True),
        (stack + 8, 8, False),
    ]
    totals = trace.signature.totals
    assert (totals["instructions"], totals["loads"], totals["stores"], totals["bytes"]) == (4, 3, 2, 36)
    assert trace.signature.table["offset"].min() == 0x4001000


def test_din(tmp_path):
    trace, found = imported(tmp_path, DIN, "din")
    assert found == [(0x1000, 4, False), (0x2000, 8, True), (0x1004, 4, False)]
    assert trace.signature.totals["instructions"] == 2


def test_drmemtrace(tmp_path):
    trace, found = imported(tmp_path, DRMEMTRACE, "drmemtrace")
    assert found == [(0x7FFF00000010, 8, False), (0x7FFF00000008, 8, True)]
    assert trace.header["threads"] == 2
    assert (trace.signature.totals["instructions"], trace.signature.totals["memops"]) == (2, 2)


def test_csv_with_all_and_with_few_columns(tmp_path):
    _, found = imported(tmp_path, "address,size,write,pc,thread\n0x10,4,W,1,1\n32,8,0,2,2\n", "csv")
    assert found == [(16, 4, True), (32, 8, False)]
    trace, found = imported(tmp_path, "address\n64\n", "csv")
    assert found == [(64, 8, False)]
    assert trace.signature.totals["instructions"] == 1


references = st.tuples(st.integers(0, 2**48), st.sampled_from([1, 4, 8, 64]), st.booleans(), st.integers(0, 5), st.integers(1, 3))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(references, min_size=1, max_size=60))
def test_parquet_gives_back_every_reference(tmp_path, rows):
    names = {"address": pl.UInt64, "size": pl.UInt16, "write": pl.Boolean, "pc": pl.UInt64, "thread": pl.UInt32}
    pl.DataFrame(rows, schema=names, orient="row").write_parquet(tmp_path / "a.parquet")
    trace = import_trace(tmp_path / "a.parquet", output=tmp_path / "a.cvt")
    found = [
        (a, s, w, batch.thread)
        for batch in trace.batches()
        for a, s, w in zip(batch.addresses.tolist(), batch.sizes.tolist(), batch.writes.tolist(), strict=True)
    ]
    assert found == [(a, s, w, t) for a, s, w, _, t in rows]
    assert trace.signature.totals["memops"] == len(rows)
    assert trace.signature.table["sampled_references"].sum() == len(rows)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("lackey", "hello\n", "line 1: 'hello'"),
        ("din", "0 10\n9 xyz\n", "line 2"),
        ("din", "0\n", "line 1"),
        ("csv", "place\n1\n", "no column 'address'"),
        ("csv", "address\nx\n", "line 2"),
        ("csv", "address,write\n1,maybe\n", "line 2"),
        ("csv", "address,size\n1,100000\n", "impossible"),
        ("drmemtrace", "hello\n", "line 1"),
        ("parquet", "hello", "cannot be read as Parquet"),
    ],
)
def test_what_is_not_of_the_format_is_said_with_its_line(tmp_path, name, text, sentence):
    with pytest.raises(FormatError, match=sentence):
        imported(tmp_path, text, name)
    assert not (tmp_path / "a.cvt").exists()
    assert not (tmp_path / "a.cvt.part").exists()


def test_formats_are_guessed_or_asked_for(tmp_path):
    with pytest.raises(UsageError, match="choose one with --format"):
        import_trace(tmp_path / "x.bin", output=tmp_path / "a.cvt")
    with pytest.raises(UsageError, match="no importer for 'elf'"):
        import_trace(tmp_path / "x.bin", output=tmp_path / "a.cvt", format="elf")
    with pytest.raises(FormatError, match="No such file"):
        import_trace(tmp_path / "x.din", output=tmp_path / "a.cvt")


def test_windows_of_a_trace_without_paths_code_and_flows_hold_its_references(tmp_path):
    """As traces of versions before those were recorded."""
    trace, found = imported(tmp_path, LACKEY, "lackey")
    assert not trace.whole_paths
    (window,) = pieces_of(trace)
    assert window.addresses.tolist() == [address for address, _, _ in found]
    assert [code for code in trace.segments["code"].to_list() if code] == []
    assert "path_visits" not in trace.signature.table.columns
    assert trace.summary()["paths"] is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("csv", "address,pc\n0x10,99999999999999999999999\n"),
        ("csv", "address,pc\n0x10,-1\n"),
        ("csv", "address,thread\n0x10,-5\n"),
        ("csv", "address,thread\n0x10,999999999999999999999\n"),
        ("csv", "address\n" + "1" * 200000 + "\n"),
        ("csv", "address" + "1" * 200000 + "\n"),
        ("csv", "address\n" + "1" * 5000 + "\n"),
        ("din", "2 fffffffffffffffffffffff\n0 10 4\n"),
        ("din", "0 10 fffff\n"),
        ("din", "0 -10\n"),
        ("lackey", "I  04001000," + "3" * 5000 + "\n"),
        ("lackey", "I  0400100004001000040010000,3\n L 10,4\n"),
        ("drmemtrace", DRMEMTRACE.replace("8 byte", "8" * 5000 + " byte").replace("T100 <", "record <")),
    ],
)
def test_numbers_out_of_range_are_refused(tmp_path, name, text):
    path = tmp_path / "r"
    path.write_text(text)
    try:
        trace = import_trace(path, output=tmp_path / "a.cvt", format=name)
    except FormatError:
        assert not list(tmp_path.glob("*.part"))
    else:
        assert name == "drmemtrace"  # a line that is none of its records is passed over
        trace.verify()


@pytest.mark.parametrize(("name", "text"), [("lackey", "==1== no such program\n"), ("din", ""), ("csv", "address\n")])
def test_a_recording_of_nothing_is_refused(tmp_path, name, text):
    path = tmp_path / "r"
    path.write_text(text)
    with pytest.raises(FormatError, match=f"holds no reference of the format {name}"):
        import_trace(path, output=tmp_path / "a.cvt", format=name)
    assert list(tmp_path.iterdir()) == [path]
