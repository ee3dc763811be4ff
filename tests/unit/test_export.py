"""Exports: other tools read them, and what they say equals what we say."""

import io
import json
import re
import shutil
import subprocess

import polars as pl
import pytest

from convolver.convolution.block_times import BlockTimes
from convolver.convolution.system_time import PARTS, SystemTime
from convolver.errors import ProvenanceError
from convolver.mpi.timeline import STATES, Timeline
from convolver.reporting.exports import callgrind, events, stacks
from convolver.reporting.limiters import sentence
from tests import synthetic
from tests.artifact_chain import make_chain, make_timeline

TIMES = "app@base.times.parquet"


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain")
    make_timeline(folder / "ring.timeline.parquet")
    return make_chain(folder)


@pytest.fixture
def export(chain, convolver):
    return lambda what, *names: convolver("export", what, *map(chain.path, names), code=0).stdout


@pytest.mark.skipif(shutil.which("callgrind_annotate") is None, reason="needs callgrind_annotate: apt install valgrind")
def test_callgrind_annotate_opens_our_profile_and_its_totals_equal_ours(chain, tmp_path, convolver):
    path = tmp_path / "callgrind.out.app"
    command = ["export", "callgrind", chain.path("app.sig.parquet"), chain.path(TIMES), "-o", str(path)]
    assert convolver(*command).returncode == 0
    done = subprocess.run(["callgrind_annotate", "--threshold=100", path], capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.endswith("PROGRAM TOTALS"))
    shown = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) \(100", line)]
    totals = chain.signature.totals
    assert shown[:4] == [totals[name] for name in ("instructions", "loads", "stores", "flops")]
    assert shown[-1] == pytest.approx(chain.prediction.base.seconds * 1e12, abs=chain.signature.table.height)
    assert "f0" in done.stdout
    assert "sum += a[i] * b[i];" in done.stdout  # it found and annotated the source


def test_a_profile_says_its_totals_twice_and_its_lines_add_up_to_them(chain):
    text = list(callgrind(chain.signature, chain.prediction.base))
    costs = [list(map(int, line.split()[1:])) for line in text if re.fullmatch(r"\d+( \d+)+", line)]
    summary = [next(line for line in text if line.startswith(word)).split()[1:] for word in ("summary:", "totals:")]
    assert summary[0] == summary[1] == [str(sum(column)) for column in zip(*costs, strict=True)]
    assert len(summary[0]) == len(events(chain.prediction.base))


def test_unknown_functions_of_two_modules_stay_apart():
    row = {"executions": 1, "loads": 1, "load_bytes": 8, "function": "", "file": ""}
    text = list(callgrind(synthetic.signature({**row, "module": "/lib/a.so"}, {**row, "module": "/lib/b.so"})))
    assert [line.partition(" ")[2] for line in text if line.startswith("fn=")] == ["a.so:???", "b.so:???"]


def test_without_times_a_profile_holds_exact_counts_alone(chain):
    assert list(events(None)) == ["Ir", "Dr", "Dw", "Flop"]
    assert any(line == "events: Ir Dr Dw Flop" for line in callgrind(chain.signature))


def test_misses_never_exceed_the_references_and_fall_from_level_to_level(chain):
    head = next(line for line in callgrind(chain.signature, chain.prediction.base) if line.startswith("summary:"))
    reads, writes, _, first, second, _ = map(int, head.split()[2:])
    assert reads + writes >= first >= second > 0


def test_times_of_another_signature_are_refused(chain, tmp_path):
    other = make_chain(tmp_path, blocks=4)
    with pytest.raises(ProvenanceError, match="another signature"):
        list(callgrind(other.signature, chain.prediction.base))


def test_collapsed_stacks_add_up_to_the_predicted_time(chain, export):
    found = [line.rpartition(" ") for line in export("collapsed", TIMES).splitlines()]
    assert sum(int(count) for _, _, count in found) * 1e-9 == pytest.approx(chain.prediction.base.seconds, rel=1e-4)
    assert all(stack.count(";") == 3 for stack, _, _ in found)


def test_speedscope_weights_add_up_and_every_frame_is_known(chain, export):
    document = json.loads(export("speedscope", TIMES))
    profile, frames = document["profiles"][0], document["shared"]["frames"]
    assert sum(profile["weights"]) == pytest.approx(profile["endValue"]) == chain.prediction.base.seconds
    assert {index for sample in profile["samples"] for index in sample} == set(range(len(frames)))
    assert len(profile["samples"]) == len(profile["weights"])


def test_the_kernel_and_waiting_have_bars_and_stacks_of_their_own(chain):
    times = chain.prediction.base
    system = SystemTime(0.5, 0.4, 0.6, dict.fromkeys(PARTS, 0.0)).document()
    known = BlockTimes(times.table, {**times.header, "waiting_seconds": 2.0, "system": system})
    found = stacks(known)
    assert found["waiting (measured)",] == 2
    assert found["kernel",] == 0.5
    assert sum(found.values()) == pytest.approx(sum(known.limits.values())) == pytest.approx(known.total[0] + 2)
    assert sentence(known).startswith("The program waits for")


def test_trace_events_hold_every_interval_and_a_pair_of_flows_a_message(chain, export):
    document = json.loads(export("chrome", "ring.timeline.parquet"))
    timeline = Timeline.load(chain.path("ring.timeline.parquet"))
    found = document["traceEvents"]
    begins, closes = ([event for event in found if event["ph"] == kind] for kind in "BE")
    whole = sum(event["ts"] for event in closes) - sum(event["ts"] for event in begins)
    assert whole * 1e-6 == pytest.approx((timeline.intervals["end"] - timeline.intervals["begin"]).sum(), abs=1e-8)
    assert {event["name"] for event in begins} <= set(STATES.values())
    starts, ends = ([event["id"] for event in found if event["ph"] == kind] for kind in "sf")
    assert starts == ends == list(range(timeline.messages.height))
    assert {event["tid"] for event in begins} == set(timeline.ranks["rank"])


def test_trace_events_fit_the_published_format_in_microseconds(chain, export):
    document = json.loads(export("chrome", "ring.timeline.parquet"))
    assert "displayTimeUnit" not in document  # Perfetto divides all times by a thousand where it is "ns"
    needed = {"M": {"name", "args"}, "B": {"name", "cat", "ts"}, "E": {"ts"}, "s": {"name", "cat", "id", "ts"}}
    needed["f"] = needed["s"] | {"bp"}
    for event in document["traceEvents"]:
        assert needed[event["ph"]] | {"pid", "tid"} <= event.keys()
        assert all(isinstance(event[name], int) for name in ("pid", "tid"))
        assert event.get("ts", 0) >= 0


def test_a_flow_never_ends_before_it_begins_and_always_in_an_interval(chain, export):
    found = json.loads(export("chrome", "ring.timeline.parquet"))["traceEvents"]
    flows = {kind: {event["id"]: event for event in found if event["ph"] == kind} for kind in "sf"}
    timeline = Timeline.load(chain.path("ring.timeline.parquet"))
    assert (timeline.messages["logical_receive"] < timeline.messages["logical_send"]).any()  # posted receives
    ends = [event for event in found if event["ph"] == "E"]
    for number, start in flows["s"].items():
        assert start["ts"] <= flows["f"][number]["ts"]
    for event in [*flows["s"].values(), *flows["f"].values()]:
        assert event["ts"] <= max(end["ts"] for end in ends if end["tid"] == event["tid"])


def test_intervals_of_a_rank_follow_each_other_and_never_nest(chain, export):
    found = json.loads(export("chrome", "ring.timeline.parquet"))["traceEvents"]
    for rank in range(4):
        events = [event for event in found if event["ph"] in "BE" and event["tid"] == rank]
        assert "".join(event["ph"] for event in events) == "BE" * (len(events) // 2)
        assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)


def test_csv_has_every_row_and_column_of_the_artifact(chain, export):
    table = pl.read_csv(io.StringIO(export("csv", TIMES)))
    times = BlockTimes.load(chain.path(TIMES))
    assert table.columns == times.table.columns
    assert table["seconds"].to_list() == pytest.approx(times.table["seconds"].to_list())


def test_paraver_files_are_written_together(chain, tmp_path, convolver):
    path = tmp_path / "ring.prv"
    result = convolver("export", "prv", chain.path("ring.timeline.parquet"), "-o", path)
    assert result.returncode == 0, result.stderr
    assert path.read_text().startswith("#Paraver")
    assert {file.suffix for file in tmp_path.iterdir()} == {".prv", ".pcf", ".row"}


def test_an_artifact_without_a_table_and_an_existing_file_are_refused(chain, tmp_path, convolver):
    wrong = convolver("export", "csv", chain.path("base.machine.json"))
    assert wrong.returncode == 2
    path = tmp_path / "mine"
    path.write_text("mine")
    kept = convolver("export", "collapsed", chain.path(TIMES), "-o", path)
    assert kept.returncode == 2
    assert path.read_text() == "mine"
