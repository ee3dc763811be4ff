"""The .dim format: what is written is read back, and every malformed record is refused with file, line and reason."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convolver.errors import FormatError
from convolver.mpi.dim import read_dim, write_dim
from convolver.mpi.events import EventKind, Events, EventsBuilder
from tests.mpi_strategies import outcome, traces

HEADER = '#DIMEMAS:"t":1,0:2(1,1),1\nd:1:5:2:0:1\n'


def same(one: Events, two: Events) -> bool:
    columns = all(np.array_equal(one.columns[name], two.columns[name]) for name in one.columns)
    return columns and np.array_equal(one.first, two.first) and np.array_equal(one.members, two.members)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=traces())
def test_a_trace_survives_writing_and_reading(tmp_path, events):
    write_dim(events, tmp_path / "a.dim")
    assert same(read_dim(tmp_path / "a.dim"), events)


def test_chunks_that_split_lines_give_the_same_trace(tmp_path, monkeypatch):
    builder = EventsBuilder(2)
    for i in range(50):
        builder.burst(0, i / 7).send(0, 1, i).burst(1, 0.5).receive(1, 0, i)
    write_dim(builder.build(), tmp_path / "a.dim")
    monkeypatch.setattr("convolver.mpi.dim.CHUNK_BYTES", 17)
    assert same(read_dim(tmp_path / "a.dim"), builder.build())


def test_optional_fields_unsorted_tasks_and_a_missing_offset_table_are_accepted(tmp_path):
    text = HEADER + "1:1:0:2.5e-3\n2:0:0:1:64:3:5:0\n# comment\n\n3:1:0:0:-1:64:3:5:0\n10:0:0:0:5:0:0:0:0\n10:1:0:0:5:0:0:0:0:1"
    (tmp_path / "a.dim").write_text(text)
    events = read_dim(tmp_path / "a.dim")
    assert events.columns["kind"].tolist() == [
        EventKind.SEND,
        EventKind.COLLECTIVE,
        EventKind.BURST,
        EventKind.RECV,
        EventKind.COLLECTIVE,
    ]
    assert events.columns["flags"].tolist() == [0, 1, 0, 0, 1]
    assert events.columns["seconds"][2] == 2.5e-3
    assert events.first.tolist() == [0, 2, 5]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("4:0:0", "unknown record kind"),
        ("x:0:0", "unknown record kind"),
        ("1:0:0", "wrong number of fields"),
        ("1:0:0:", "not a number"),
        ("1:0:0:-1", "not a number"),
        ("1:0:0:nan", "not a number"),
        ("1:0:0:1e999", "not a number"),
        ("1:0:0:1:2", "wrong number of fields"),
        ("1:2:0:1", "no such task"),
        ("1:-1:0:1", "no such task"),
        ("1:0:1:1", "no such thread"),
        ("2:0:0:9:-1:1:0:5:0", "no such task"),
        ("2:0:0:1:-1:-1:0:5:0", "out of range"),
        ("2:0:0:1:-1:1:0:6:0", "no such communicator"),
        ("2:0:0:1:-1:1:0:5:4", "synchronization"),
        ("2:0:0:1:-1:1:99999999999:5:0", "out of range"),
        ("2:0:0:1:-1:1:0", "wrong number of fields"),
        ("3:0:0:-1:-1:1:0:5:0", "wildcard"),
        ("3:0:0:1:-1:1:0:5:3", "synchronization"),
        ("3:0:0:1:7:1:0:5:0", "no such thread"),
        ("10:0:0:16:5:0:0:0:0:1", "unknown collective"),
        ("10:0:0:1:5:0:0:-4:0:1", "out of range"),
        ("10:0:0:11:5:0:0:0:0:3", "synchronization"),
        ("20:0:0:1", "wrong number of fields"),
        ("20:0:0:1:18446744073709551616", "not a number"),
        ("2:0:0:1:-1:1.5:0:5:0", "not a number"),
    ],
)
def test_a_malformed_record_is_refused_with_file_line_and_reason(tmp_path, record, reason):
    path = tmp_path / "bad.dim"
    path.write_text(f"{HEADER}1:0:0:1\n{record}\n1:1:0:1\n")
    with pytest.raises(FormatError, match=f"^{re.escape(str(path))}:4: .*{reason}"):
        read_dim(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ":1: not a Dimemas trace"),
        ("#DIMEMAS:t\n", ":1: not a Dimemas trace"),
        ('#DIMEMAS:"t":1,0:2(1),1\n', ":1: the header announces 2 tasks"),
        ('#DIMEMAS:"t":1,0:1(2),1\n', ":1: a task has not exactly one thread"),
        ('#DIMEMAS:"t":1,0:1(1),1\n', ":2: the header announces 1 communicators"),
        ('#DIMEMAS:"t":1,0:1(1),1\nd:1:1:2:0:0\n', ":2: the communicator's tasks"),
        ('#DIMEMAS:"t":1,0:1(1),1\nd:1:1:1:7\n', ":2: the communicator's tasks"),
        ('#DIMEMAS:"t":1,0:1(1),1\n1:0:0:1\n', ":2: a communicator"),
        ('#DIMEMAS:"t":1,9999:1(1),0\n1:0:0:1\n', ":1: the header's table offset 9999 lies beyond"),
        ('#DIMEMAS:"t":1,3:1(1),0\n1:0:0:1\n', ":1: the header's table offset 3 lies before"),
        ('#DIMEMAS:"t":1,33:1(1),0\n1:0:0:1\ns:x:1\n', ":3: an offset"),
    ],
)
def test_a_malformed_frame_is_refused_with_file_line_and_reason(tmp_path, text, reason):
    path = tmp_path / "bad.dim"
    path.write_text(text)
    with pytest.raises(FormatError, match=re.escape(str(path)) + re.escape(reason)):
        read_dim(path)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_traces_are_read_or_refused_but_never_break_the_reader(tmp_path, data):
    builder = EventsBuilder(2).burst(0, 0.25).send(0, 1, 77, tag=3).receive(1, 0, 77, tag=3).collective(0, 0).collective(1, 0)
    path = tmp_path / "fuzz.dim"
    write_dim(builder.event(0, 7, 1).build(), path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b":", b"-1", b"9" * 20])
        )
        content = content or bytearray(b"#")
    path.write_bytes(content)
    events, message = outcome(read_dim, path)
    assert events.ranks >= 1 if events else str(path) in message


def test_a_missing_file_is_a_format_error(tmp_path):
    with pytest.raises(FormatError, match="cannot be read"):
        read_dim(tmp_path / "none.dim")
