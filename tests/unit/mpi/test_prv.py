"""Paraver traces: our timelines are valid records in time order, Extrae's events become a replayable trace."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convolver.errors import FormatError
from convolver.mpi.events import EventKind, EventsBuilder, Op
from convolver.mpi.network import flat_configuration
from convolver.mpi.network_replay import replay
from convolver.mpi.prv import read_prv, write_prv
from tests.mpi_strategies import outcome

EXTRAE = """#Paraver (01/01/2026 at 00:00):3000_ns:1(2):1:2(1:1,1:1),1
c:1:1:2:1:2
1:1:1:1:1:0:1000:1
2:1:1:1:1:1000:50000001:1
3:1:1:1:1:1000:1100:2:1:2:1:900:1500:64:7
2:1:1:1:1:1200:50000001:0
2:2:1:2:1:800:50000001:2
2:2:1:2:1:1600:50000001:0
2:1:1:1:1:2000:50000002:10:50100001:8:50100002:8:50100003:0:50100004:1
2:2:1:2:1:1900:50000002:10:50100001:8:50100002:8:50100004:1
2:1:1:1:1:2500:50000002:0
2:2:1:2:1:2500:50000002:0
"""


def example():
    builder = EventsBuilder(3)
    for rank in range(3):
        builder.burst(rank, 1e-3 * (rank + 1)).send(rank, (rank + 1) % 3, 1000).receive(rank, (rank - 1) % 3, 1000)
        builder.collective(rank, Op.ALLREDUCE, sent=8, received=8)
    return builder.build()


def test_a_timeline_is_written_as_paraver_expects(tmp_path):
    events = example()
    timeline = replay(events, flat_configuration(3, latency_seconds=1e-5, bandwidth_bytes_per_second=1e8))
    write_prv(timeline, tmp_path / "t.prv")
    header, *records = (tmp_path / "t.prv").read_text().splitlines()
    end = round(timeline.predicted_seconds * 1e9)
    assert header == f"#Paraver (01/01/2026 at 00:00):{end}_ns:1(3):1:3(1:1,1:1,1:1),1"
    assert records[0] == "c:1:1:3:1:2:3"
    keys = [int(r.split(":")[5]) for r in records[1:]]
    assert keys == sorted(keys)
    assert sum(r.startswith("3:") for r in records) == 3
    covered = dict.fromkeys((1, 2, 3), 0)
    for record in records:
        if record.startswith("1:"):
            _, _, _, task, _, begin, stop, _ = map(int, record.split(":"))
            assert begin == covered[task]
            covered[task] = stop
    assert set(covered.values()) == {end}
    assert "Running" in (tmp_path / "t.pcf").read_text()
    assert "THREAD 1.3.1" in (tmp_path / "t.row").read_text()


def test_extrae_events_become_bursts_messages_and_collectives(tmp_path):
    (tmp_path / "x.prv").write_text(EXTRAE)
    events = read_prv(tmp_path / "x.prv")
    kinds = [EventKind(k).name for k in events.columns["kind"]]
    assert kinds == ["BURST", "SEND", "BURST", "COLLECTIVE", "BURST", "RECV", "BURST", "COLLECTIVE"]
    assert events.columns["seconds"].tolist() == pytest.approx([1e-6, 0, 0.8e-6, 0, 0.8e-6, 0, 0.3e-6, 0])
    assert events.columns["bytes"].tolist() == [0, 64, 0, 8, 0, 64, 0, 8]
    assert replay(events, flat_configuration(2)).predicted_seconds == pytest.approx(1.8e-6)


def test_our_own_timeline_can_be_read_again(tmp_path):
    timeline = replay(example(), flat_configuration(3, latency_seconds=1e-5, bandwidth_bytes_per_second=1e8))
    write_prv(timeline, tmp_path / "t.prv")
    assert read_prv(tmp_path / "t.prv").ranks == 3


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (1, "#Paraver nonsense", "not a Paraver trace"),
        (1, f"#Paraver (now):3000_ns:1(2):1:{'9' * 5000}(1:1)", "not a Paraver trace"),
        (2, "c:1:1:3:1:2", "communicator"),
        (4, "2:1:1:1:1:1000:50000001", "too few fields"),
        (4, "2:1:1:3:1:1000:50000001:1", "no thread 1.3.1"),
        (4, "2:1:1:1:1:x:50000001:1", "not a number"),
        (5, "3:1:1:1:1", "too few fields"),
        (6, "9:1", "unknown record kind"),
        (4, "1:1:1:1:1:x:9:1", "not a number"),
        (4, "1:1:1:1:1:9:8:1", "ends before it begins"),
        (4, "1:1:1:7:1:8:9:1", "no thread 1.7.1"),
    ],
)
def test_a_malformed_record_is_refused_with_file_line_and_reason(tmp_path, line, text, reason):
    lines = EXTRAE.splitlines()
    lines[line - 1] = text
    path = tmp_path / "x.prv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(FormatError, match=f"^{re.escape(str(path))}:{line}: .*{reason}"):
        read_prv(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, len(EXTRAE) - 1), width=st.integers(0, 5), junk=st.text(alphabet="0123456789:-x\n#", max_size=4))
def test_damaged_traces_are_read_or_refused(tmp_path, at, width, junk):
    path = tmp_path / "f.prv"
    path.write_text(EXTRAE[:at] + junk + EXTRAE[at + width :])
    events, message = outcome(read_prv, path)
    assert events.ranks >= 1 if events else str(path) in message
