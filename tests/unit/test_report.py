"""Reports: what belongs together, sums that agree, and a page that refers to nothing outside of itself."""

import base64
import csv
import functools
import io
import itertools
import json
import os
import re
import zlib

import pytest

from convolver.errors import ProvenanceError, UsageError
from convolver.reporting import tables
from convolver.reporting.html.data import page_data
from convolver.reporting.html.page import render
from convolver.reporting.program_report import by_line, hot_files, read_source
from convolver.reporting.report_input import gather
from convolver.units import format_seconds
from tests.artifact_chain import CALLS, make_chain, make_objects, make_timeline


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chain")
    make_timeline(folder / "ring.timeline.parquet")
    return make_chain(folder, blocks=40)


@pytest.fixture(scope="module")
def bundle(chain):
    return gather([str(chain.folder)], [chain.folder])


@pytest.fixture(scope="module")
def page(bundle):
    return render(bundle)


def test_a_folder_holds_one_program_and_the_base_comes_first(chain, bundle):
    assert bundle.signature.id == chain.signature.id
    assert [times.machine for times in bundle.times] == ["base", "target"]
    assert set(bundle.machines) == {"base", "target"}
    assert bundle.timeline is not None
    assert bundle.notes == []


def test_what_does_not_belong_together_is_refused(chain, tmp_path):
    other = make_chain(tmp_path, blocks=4)
    with pytest.raises(UsageError, match=r"there are 2; give the files of one, such as \S+app\."):
        gather([str(chain.folder), str(other.folder)])
    with pytest.raises(ProvenanceError, match="another signature"):
        gather([chain.path("app.sig.parquet"), other.path("app@base.times.parquet")])
    with pytest.raises(UsageError, match="the signature of a program, and there is none"):
        gather([chain.path("app@base.times.parquet")])
    with pytest.raises(UsageError, match="no block times"):
        gather([chain.path("app.sig.parquet")])


def test_a_folder_without_artifacts_is_refused_beside_others_too(chain, tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    with pytest.raises(UsageError, match=f"The folder {tmp_path} holds no artifact"):
        gather([str(chain.folder), str(tmp_path)])


def test_a_machine_that_changed_since_is_named_and_its_curves_are_left_out(chain, tmp_path):
    make_chain(tmp_path).target.save(tmp_path / "base.machine.json")
    os.unlink(tmp_path / "target.machine.json")
    found = gather([str(tmp_path)])
    assert "target" in found.machines  # its profile, under another file's name
    assert any("'base' was not found" in note for note in found.notes)


def test_lines_add_up_to_the_blocks_with_a_known_place(chain, bundle):
    lines = by_line(bundle.base)
    assert lines["seconds"].sum() == pytest.approx(bundle.base.seconds)
    assert lines["memops"].sum() == chain.signature.totals["memops"]
    assert (lines["misses_L1"] >= lines["misses_L2"]).all()
    assert hot_files(bundle.times) == [str(chain.folder / "app.c")]


def test_a_source_changed_after_the_trace_is_marked_and_a_missing_one_explained(chain):
    path = chain.path("app.c")
    changed = os.stat(path).st_mtime
    roots = [chain.folder.resolve()]
    assert read_source(path, changed - 1, roots).newer
    assert not read_source(path, changed + 1, roots).newer
    assert "cannot be read" in read_source(path + ".gone", 0, roots).problem


def test_the_page_refers_to_nothing_outside_and_is_small(page):
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:|//)|@import|url\(""", page)
    assert "default-src 'none'" in page
    assert len(page.encode()) < 200_000


def test_the_page_holds_every_block_and_its_times(chain, bundle, page):
    data = json.loads(zlib.decompress(base64.b64decode(re.search(r'id="data">([^<]*)<', page)[1])))
    assert data == json.loads(json.dumps(page_data(bundle)))
    assert len(data["blocks"]["block"]) == 40
    for machine, times in zip(data["machines"], bundle.times, strict=True):
        assert sum(machine["block_seconds"]) == pytest.approx(times.seconds, rel=1e-3)
        assert machine["maps"]["circles"]
    assert data["sources"][0]["text"].startswith("static double")
    assert data["timeline"]["ranks"] == 4


def test_the_overview_can_be_read_without_a_script(chain, page):
    text = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    for words in (
        "CPU ratio base / machine",
        "Measured on base",
        "What limits it on base",
        "Hot functions",
        "Coverage",
        chain.signature.id,
        "Hot blocks",
    ):
        assert words in text
    assert chain.prediction.cpu_ratio == pytest.approx(2)


def test_states_of_the_timeline_differ_in_grey_in_both_looks(page):
    looks = re.findall(r"--line: #(\w{6}).*?((?:--t\d: #\w{6}; )+)", page.replace("\n", " "))
    assert len(looks) == 2
    for line, states in looks:
        colors = [line, *re.findall(r"--t\d: #(\w{6})", states)]
        weights = zip((0.299, 0.587, 0.114), zip(*(bytes.fromhex(one) for one in colors), strict=True), strict=True)
        greys = sorted(
            sum(parts) for parts in zip(*([share * value for value in values] for share, values in weights), strict=True)
        )
        assert len(greys) == 7
        assert min(after - before for before, after in itertools.pairwise(greys)) >= 14


def test_a_printed_page_has_no_room_for_rows_that_are_not_drawn(page):
    assert re.search(r"@media print {.*\.spacer { display: none; }", page)


def test_names_from_the_program_cannot_break_the_page(tmp_path):
    make_chain(tmp_path, command=["./<script>alert(1)</script>", '"x"'])
    page = render(gather([str(tmp_path)]))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.fixture(scope="session")
def run(convolver):
    return functools.partial(convolver, "report")


def test_the_terminal_report_says_what_it_rests_on_and_what_it_shows(chain, run):
    result = run(chain.folder, "--top", 3)
    assert result.returncode == 0, result.stderr
    for words in ("./app 7", "coverage", "3 of 40 blocks", "of the memory accesses shown", "Hot functions", "CPU ratio", "f0"):
        assert words in result.stdout


def test_json_has_the_same_machines_and_totals(chain, run):
    document = json.loads(run(chain.folder, "--json", "--top", 2).stdout)
    assert [machine["machine"] for machine in document["machines"]] == ["base", "target"]
    assert document["signature"]["totals"] == chain.signature.totals
    assert len(document["machines"][0]["blocks"]) == 2


def test_system_time_stands_in_every_form_of_the_report_as_in_the_prediction(tmp_path, run):
    chain = make_chain(tmp_path, call_seconds=(2e-5, 1e-5), system=CALLS)
    document = chain.prediction.document
    machines = json.loads(run(tmp_path, "--json").stdout)["machines"]
    fields = ("seconds", "interval_seconds", "user_seconds", "system_seconds", "system_interval_seconds")
    for machine, side in zip(machines, (document["base"], document["target"]), strict=True):
        assert [machine[name] for name in fields] == [side[name] for name in fields]
    assert machines[1]["cpu_ratio"] == pytest.approx(chain.prediction.cpu_ratio)
    assert [machine["system_seconds"] for machine in machines] == pytest.approx([2e-3, 1e-3])

    rows = list(csv.DictReader(io.StringIO(run(tmp_path, "--csv").stdout)))
    for machine in machines:
        own = [row for row in rows if row["machine"] == machine["machine"]]
        assert sum(float(row["seconds"]) for row in own) == pytest.approx(machine["seconds"])
        assert [float(row["seconds"]) for row in own if not row["block"]] == [machine["system_seconds"]]

    shown, page = run(tmp_path).stdout, render(gather([str(tmp_path)]))
    words = [format_seconds(machines[0][name]) for name in ("seconds", "user_seconds", "system_seconds")]
    line = next(line for line in shown.splitlines() if line.startswith("base ") and " to " in line)
    assert all(word in line for word in words)
    assert f"predicted {words[0]} ({100 * document['error']:+.1f} %)" in page
    assert f"<tr><th scope=row>system time</th><td>{words[2]}</td>" in page
    assert f"<td>1</td><td>{chain.prediction.cpu_ratio:.3g}</td>" in page


def test_a_machine_without_costs_of_the_kernel_is_named(tmp_path, run):
    chain = make_chain(tmp_path, call_seconds=(2e-5, None), system=CALLS)
    shown = " ".join(run(tmp_path).stdout.split())
    assert "For target system time is not predicted: the profile has no costs of the kernel" in shown
    assert json.loads(run(tmp_path, "--json").stdout)["machines"][1]["cpu_ratio"] == chain.prediction.cpu_ratio


def test_a_source_is_printed_with_its_costs_and_an_unknown_one_names_the_known(chain, run):
    result = run(chain.folder, "--source", "app.c", "--sources", chain.folder)
    assert re.search(r"3\s+[\d.]+ [kM]?.*double dot\(void\)", result.stdout)
    assert "app.c" in run(chain.folder, "--source", "other.c").stderr


def test_a_page_is_written_once_and_only_overwritten_by_force(chain, tmp_path, run):
    path = tmp_path / "a.html"
    assert run(chain.folder, "--html", path).returncode == 0
    assert run(chain.folder, "--html", path).returncode == 2
    assert run(chain.folder, "--html", path, "--force").returncode == 0
    assert path.read_text().startswith("<!doctype html>")


def test_a_step_with_a_unit_shows_its_rate_and_remaining_time(monkeypatch):
    from convolver.reporting import console

    bar = console._Bar()
    bar.start("Simulating", total=4e6, unit="references")
    monkeypatch.setattr("time.monotonic", lambda: bar._began + 2.0)
    bar.advance(3e6)
    assert bar._bar.tasks[0].fields["rate"] == "1.5 M references/s"
    assert any(type(column).__name__ == "TimeRemainingColumn" for column in bar._bar.columns)
    bar.finish()


def test_annotated_source_shows_line_numbers_costs_and_as_much_of_a_long_line_as_fits(tmp_path):
    import io

    from rich.console import Console

    from convolver.reporting.program_report import Source, annotated

    chain = make_chain(tmp_path)
    path = str(tmp_path / "app.c")
    source = Source(path, "x" * 300 + "\n" * 8, newer=False, problem="")
    stream = io.StringIO()
    Console(file=stream, width=100).print(annotated(chain.prediction.base, source, 100))
    lines = stream.getvalue().splitlines()
    assert lines[1].split()[:2] == ["line", "accesses"]
    assert [line.split()[0] for line in lines[2:6]] == ["1", "2", "3", "4"]
    assert all(len(line) <= 100 for line in lines)
    assert len(lines[4].split()) > 4


def test_data_objects_are_shown_as_text_and_as_data_and_those_of_another_run_are_not(tmp_path, convolver):
    chain = make_chain(tmp_path)
    assert "convolver trace --data-objects" in convolver("report", tmp_path).stdout
    make_objects(tmp_path, chain.hits)
    shown = convolver("report", tmp_path).stdout
    assert "malloc in make <rows> (app.c:3)" in shown
    assert "40.0 %" in shown
    data = json.loads(convolver("report", tmp_path, "--json").stdout)
    assert data["data_objects"][0]["share"] == 0.6
    assert data["object_hits"][0]["misses"] == 40
    make_objects(tmp_path, chain.hits, "u" * 32)
    (note,) = gather([str(tmp_path)]).notes
    assert "app.objects.parquet has data objects of another run" in note


@pytest.mark.parametrize(("rate", "shown"), [(None, "-"), (0.0, "-"), (2.52e9, "2.52 G"), (9.41e14, "> 100 G")])
def test_a_rate_beyond_any_machine_is_not_shown_as_a_number(rate, shown):
    assert tables.rate(rate) == shown
