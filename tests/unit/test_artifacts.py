"""Any artifact explains itself, and a damaged or foreign file ends with one sentence and exit code 3."""

import json

import polars as pl
import pytest

from convolver.artifact_kinds import KINDS
from convolver.artifacts import describe, load
from convolver.convolution.cpu_ratio import cpu_ratio
from convolver.errors import FormatError, SchemaError
from convolver.modeling.base import fit
from convolver.modeling.table import Table
from convolver.mpi.events import EventsBuilder
from convolver.pipeline import predict_from
from convolver.schema import save_table, schema_of, table_header
from tests.synthetic import analyzed, convolved, hit_rates, loads, machine, signature

M, FAST = machine("m"), machine("fast", scale=0.5)
PROGRAM = signature(loads(1000), command=["./app"])
RATES = hit_rates([(0, 1000, 100, 10)], M, FAST)
MEASURED = Table.of_columns({"P": [1.0, 2.0, 4.0, 8.0], "time": [8.0, 4.1, 2.0, 1.05]}, "time")
EVENTS = EventsBuilder(2).burst(0, 1.0).send(0, 1, 1000).receive(1, 0, 1000).build()


@pytest.fixture
def files(tmp_path):
    times = [convolved(PROGRAM, RATES, one) for one in (M, FAST)]
    artifacts = {
        "m.machine.json": M,
        "a.sig.parquet": PROGRAM,
        "a.hits.parquet": RATES,
        "a@m.times.parquet": times[0],
        "a@fast.times.parquet": times[1],
        "a.ratio.json": cpu_ratio(*times),
        "a.table.parquet": MEASURED,
        "a.model.json": fit("power-law", MEASURED, target="time", features=["P"]),
        "a.events.parquet": EVENTS,
        "a.prediction.json": predict_from(analyzed(PROGRAM, RATES, M, FAST), base=M, target=FAST),
    }
    for name, artifact in artifacts.items():
        artifact.save(tmp_path / name)
    return {tmp_path / name: artifact for name, artifact in artifacts.items()}


def test_every_artifact_is_recognised_by_content_and_loads_as_its_class(files, tmp_path):
    for path, artifact in files.items():
        renamed = path.rename(tmp_path / f"renamed{path.suffix}")
        assert type(load(renamed)) is type(artifact)
        assert getattr(load(renamed), "id", None) == getattr(artifact, "id", None)


def test_info_says_schema_version_id_inputs_and_totals(files):
    for path, artifact in files.items():
        document = describe(path)
        assert document["id"] == getattr(artifact, "id", document["id"])
        assert len(document["id"]) == 32
        assert document["version"] == KINDS[document["schema"]].version
        assert set(document) >= {"schema", "version", "id", "inputs", "totals"}
        json.dumps(document, allow_nan=False)
    totals = describe(next(path for path in files if path.name == "a.sig.parquet"))["totals"]
    assert totals["memops"] == 1000
    assert set(totals) == {"instructions", "loads", "stores", "memops", "flops", "bytes", "blocks"}


def test_other_verbs_name_what_they_were_given(files, convolver):
    for path in files:
        converted = convolver("mpi", "convert", path, "x.prv")
        added = convolver("machine", "add", path)
        what = KINDS[schema_of(path)].what
        assert schema_of(path) == "convolver.mpi_events" or f"holds {what}" in converted.stderr
        assert f"it holds {what}" in added.stderr


def test_info_on_the_command_line(files, convolver):
    for path in files:
        shown = convolver("info", path)
        assert shown.returncode == 0, shown.stderr
        assert schema_of(path) in shown.stdout
        as_json = convolver("info", path, "--json")
        assert json.loads(as_json.stdout)["schema"] == schema_of(path)


def test_ratio_on_the_command_line(files, tmp_path, convolver):
    words = ["diff", str(tmp_path / "a@m.times.parquet"), str(tmp_path / "a@fast.times.parquet")]
    assert "2" in convolver(*words).stdout
    result = convolver(*words, "--json", "-o", tmp_path / "new.ratio.json")
    assert json.loads(result.stdout)["ratio"] == pytest.approx(2)
    assert load(tmp_path / "new.ratio.json").total == pytest.approx(2)


def test_damaged_files_are_refused(files):
    for path in files:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FormatError):
            describe(path)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"{}", b'{"schema": "other"}', b"[1]", b"PAR1", b"\x89PNG"])
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        describe(path)
    assert caught.value.exit_code == 3


def test_missing_file_and_foreign_parquet_are_refused(tmp_path):
    with pytest.raises(FormatError, match="cannot be read"):
        describe(tmp_path / "missing")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(SchemaError):
        describe(tmp_path / "t.parquet")


@pytest.mark.parametrize(("value", "why"), [(1e308, "above 1e.150"), (-1e200, "above 1e.150"), (float("inf"), "infinity")])
def test_numbers_whose_sums_overflow_are_refused(value, why, tmp_path):
    path = tmp_path / "a.times.parquet"
    times = convolved(PROGRAM, RATES, M)
    table = times.table.with_columns(floating_point_seconds=pl.lit(value))
    known = {"schema", "version", "id", "inputs", "totals"}
    extra = {name: entry for name, entry in times.header.items() if name not in known}
    save_table(table, table_header("convolver.block_times", table, times.inputs, extra), path)
    with pytest.raises(SchemaError, match=why):
        describe(path)
