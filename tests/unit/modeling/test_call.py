"""CALL: regions in C, Fortran and Python, pragmas, records in every form, joins, and the paper's printed equations."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from convolver.errors import FormatError, ModelError, ToolError, ToolNotFoundError
from convolver.modeling.base import fit
from convolver.modeling.call.pragmas import analysis_formula, build_runtime, instrument
from convolver.modeling.call.records import (
    Quantity,
    Record,
    append_record,
    formulas,
    join_metrics,
    join_monitor,
    read_records,
    read_xml,
    to_table,
    write_paraver,
    write_xml,
)
from convolver.modeling.call.region import region
from convolver.modeling.model_artifact import Model, Term
from convolver.modeling.table import Table

ROOT = Path(__file__).parents[3]
PROGRAM = """
#include "convolver_call.h"
#include <stdlib.h>
int main(int argc, char **argv)
{
    double sum = 0;
    int N = atoi(argv[1]);
    convolver_begin("outer", "N", (double)N, (char *)0);
    convolver_begin("inner", (char *)0);
    for (int i = 0; i < N; i++) sum += i;
    if (convolver_end("outer") == 0) return 3;
    if (convolver_end("inner") != 0) return 4;
    return convolver_end("outer") || sum < 0 || argc > 5;
}
"""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runtime")
    build_runtime(folder, compiler="cc", fortran="gfortran" if shutil.which("gfortran") else None)
    return folder


def compile_and_run(runtime, folder, text, *arguments, compiler="cc", name="a.c", **environment):
    (folder / name).write_text(text)
    library = runtime / "libconvolver_call.a"
    command = [compiler, f"-I{runtime}", str(folder / name), str(library), "-o", str(folder / "program"), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    records = folder / "records"
    records.mkdir(exist_ok=True)
    variables = {**os.environ, "CONVOLVER_CALL_DIR": str(records), **environment}
    subprocess.run([str(folder / "program"), *arguments], check=True, env=variables)
    return records


def test_nested_regions_of_a_c_program_leave_records_with_times_and_parameters(runtime, tmp_path):
    records = read_records(compile_and_run(runtime, tmp_path, PROGRAM, "1000"))
    inner, outer = records
    assert (inner.region, outer.region) == ("inner", "outer")
    assert outer.parameters == {"N": 1000}
    assert outer.metrics["time"].value >= inner.metrics["time"].value > 0
    assert outer.metrics["time"].unit == "s"
    assert inner.start >= outer.start


def test_a_driver_the_machine_lacks_says_no_in_words_and_the_others_work(runtime, tmp_path):
    folder = compile_and_run(runtime, tmp_path, PROGRAM, "10", CONVOLVER_CALL_DRIVERS="clock counters host")
    record = read_records(folder)[0]
    assert record.metrics["memory_peak"].value > 1e5
    assert "cycles" in record.metrics or "no hardware counters here" in record.trouble


@pytest.mark.skipif(not shutil.which("gfortran"), reason="needs gfortran")
def test_the_fortran_module_writes_the_same_records(runtime, tmp_path):
    text = """
program p
    use convolver_call
    call convolver_begin('loop', ['N   ', 'long'], [12.0d0, 3.0d0])
    call convolver_end('loop')
    call convolver_begin('bare')
    call convolver_end('bare')
end program
"""
    loop, bare = read_records(compile_and_run(runtime, tmp_path, text, compiler="gfortran", name="a.f90"))
    assert loop.parameters == {"N": 12, "long": 3}
    assert bare.region == "bare"


def test_a_python_region_appends_a_record_and_a_failing_body_none(tmp_path):
    with region("solve", folder=tmp_path, N=7) as record:
        record.metrics["residual"] = Quantity(0.5, "1")
    with pytest.raises(ZeroDivisionError), region("solve", folder=tmp_path):
        _ = 1 / 0
    (only,) = read_records(tmp_path)
    assert only.parameters == {"N": 7}
    assert only.metrics["residual"].value == 0.5
    assert only.metrics["time"].value > 0


def test_pragmas_become_calls_and_lines_keep_their_numbers():
    source = "int f(int N, int P) {\n#pragma cll uses mpi papi\n  #pragma cll x x[0] + x[1]*N*N/P\n  ;\n#pragma cll end x\n}\n"
    lines = instrument(source, "f.c").splitlines()
    assert lines[:2] == ['#include "convolver_call.h"', '#line 1 "f.c"']
    assert lines[3] == 'convolver_use("clock mpi counters");'
    assert '"N", (double)(N), "P", (double)(P)' in lines[4]
    assert 'convolver_formula("x", "1 + N * N / P")' in lines[4]
    assert lines[6] == 'convolver_end("x");'


def test_coefficients_of_calls_formula_are_removed_on_either_side():
    assert analysis_formula("a", "a[0] + N*a[1] + a[2]*N^2") == "1 + N + N ** 2"


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("#pragma cll end x\n", "line 1: 'end x' closes no region"),
        ("#pragma cll x\n", "no '#pragma cll end x'"),
        ("#pragma cll uses magic\n", "driver 'magic'"),
        ("\n#pragma cll x import(os)\n", "line 2"),
        ("#pragma cll 1x\n", "no name"),
    ],
)
def test_a_wrong_pragma_is_an_error_with_its_line(source, match):
    with pytest.raises(FormatError, match=match):
        instrument(source, "f.c")


def test_an_instrumented_source_compiles_runs_and_is_fitted_with_its_own_formula(runtime, tmp_path):
    source = """
#include <stdlib.h>
int main(int argc, char **argv) {
    volatile double sum = 0;
    int N = atoi(argv[1]) + 0 * argc;
    #pragma cll work work[0] + work[1]*N
    for (int i = 0; i < N; i++) for (int j = 0; j < 100; j++) sum += j;
    #pragma cll end work
    return 0;
}
"""
    for size in ("20000", "40000", "60000", "80000"):
        folder = compile_and_run(runtime, tmp_path, instrument(source), size)
    records = read_records(folder)
    assert formulas(records) == {"work": "1 + N"}
    assert all(record.metrics["cpu_time"].value > 0 for record in records)
    # Times of a busy machine may leave the model empty, as they should: what is fitted here is a count that comes with the runs.
    (tmp_path / "counts.csv").write_text("N,adds\n" + "".join(f"{n},{100 * n + 7}\n" for n in (20000, 40000, 60000, 80000)))
    table = to_table(join_metrics(records, tmp_path / "counts.csv"))
    model = fit("analytic", table, target="adds", features=["N"], formula=formulas(records)["work"])
    assert model.apply({"N": [50000]}) == pytest.approx([5_000_007])
    assert model.quality["r_squared"] == pytest.approx(1)


@pytest.mark.skipif(not (shutil.which("mpicc") and shutil.which("mpirun")), reason="needs mpicc and mpirun")
def test_two_real_ranks_are_reduced_to_one_run_with_calls_bytes_and_network(tmp_path):
    text = instrument((ROOT / "examples/call/product.c").read_text(), "product.c")
    library = build_runtime(tmp_path / "rt", compiler="mpicc", mpi=True)
    (tmp_path / "p.c").write_text(text)
    subprocess.run(["mpicc", f"-I{tmp_path / 'rt'}", "p.c", str(library), "-o", "p", "-lm"], cwd=tmp_path, check=True)
    launch = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"]
    subprocess.run([*launch, "./p", "2", "40", "2"], cwd=tmp_path, check=True, env={**os.environ, "CONVOLVER_CALL_DIR": "."})
    records = read_records(tmp_path)
    assert sorted({r.rank for r in records}) == [0, 1]
    assert len({r.run for r in records}) == 1
    table = to_table(records)
    calls = table.observations("mpi_calls", ["N", "P"], center="none")
    assert calls.x["P"].tolist() == [2, 2]
    assert calls.y.tolist() == [2 * (2 + 2 * 20)] * 2
    assert table.observations("bandwidth", ["P"]).y[0] > 0
    assert to_table(records, by_rank=True).observations("time", ["rank"]).x["rank"].tolist() == [0, 1]


def some_records():
    metrics = {"time": Quantity(1.25, "s"), "bytes": Quantity(10.0, "B")}
    common = {"region": "a<b&\"c'", "run": "1-2", "host": "n1", "formula": "1 + N", "trouble": "counters: no"}
    return [
        Record(**common, rank=rank, size=2, start=100.0 + rank, end=101.5, parameters={"N": 3.0}, metrics=metrics)
        for rank in (0, 1)
    ]


def test_records_survive_xml_and_json_lines(tmp_path):
    write_xml(some_records(), tmp_path / "r.xml")
    assert read_xml(tmp_path / "r.xml") == some_records()
    assert read_records(tmp_path / "r.xml") == some_records()
    for record in some_records():
        append_record(record, tmp_path / "convolver-call.n1.1.0.jsonl")
    assert read_records(tmp_path) == some_records()


@pytest.mark.skipif(not shutil.which("xmllint"), reason="needs xmllint")
def test_the_xml_is_valid_by_its_own_definition(tmp_path):
    write_xml(some_records(), tmp_path / "r.xml")
    subprocess.run(["xmllint", "--valid", "--noout", str(tmp_path / "r.xml")], check=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<a/>",
        "<experiments><x/></experiments>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><experiments/>",
        "<experiments><experiment/></experiments>",
    ],
)
def test_broken_xml_is_a_format_error(tmp_path, text):
    (tmp_path / "r.xml").write_text(text)
    with pytest.raises(FormatError):
        read_xml(tmp_path / "r.xml")


def test_a_half_written_record_is_an_error_that_says_where(tmp_path):
    (tmp_path / "convolver-call.n.1.0.jsonl").write_text('{"region": "a", "ru')
    with pytest.raises(FormatError, match="line 1"):
        read_records(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="holds no record"):
        read_records(tmp_path / "empty")


def test_ranks_are_reduced_times_by_maximum_counts_by_sum():
    table = to_table(some_records())
    assert table.observations("time", ["N", "P"]).y == pytest.approx([1.25])
    assert table.observations("bytes", ["N", "P"]).y == pytest.approx([20])


def test_a_monitor_is_joined_by_node_and_time(tmp_path):
    (tmp_path / "m.csv").write_text("host,time,latency\nn1,100.5,2e-5\nn1,101.2,4e-5\nn2,100.6,9\nn1,5000,7\n")
    first = join_monitor(some_records(), tmp_path / "m.csv")[0]
    assert first.metrics["latency"].value == pytest.approx(3e-5)
    late = [
        Record(region="a", run="1", host="n1", start=130.0, end=131.0),
        Record(region="a", run="1", host="n1", start=900.0, end=901.0),
    ]
    near, far = join_monitor(late, tmp_path / "m.csv")
    assert near.metrics["latency"].value == pytest.approx(4e-5)
    assert not far.metrics
    with pytest.raises(ModelError, match=r"hosts: n1, n2\) is of a record's host \(n7\) and within 60 s"):
        join_monitor([Record(region="a", run="1", host="n7", start=101.0, end=102.0)], tmp_path / "m.csv")
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="host, time"):
        join_monitor(late, tmp_path / "bad.csv")


def test_simulated_misses_join_by_parameters(tmp_path):
    (tmp_path / "misses.csv").write_text("P,L2CM,N\n2,500,3\n4,900,3\n")
    records = join_metrics(some_records(), tmp_path / "misses.csv")
    assert to_table(records).observations("L2CM", ["N"]).y == pytest.approx([500])


@pytest.mark.parametrize(
    ("text", "match"),
    [("L2CM\n5\n", "columns named like parameters"), ("N,P\n3,2\n", "and others"), ("N,L2CM\n3,many\n", "is not a table")],
)
def test_a_file_that_is_no_table_of_metrics_is_named(tmp_path, text, match):
    (tmp_path / "misses.csv").write_text(text)
    with pytest.raises(FormatError, match=match):
        join_metrics(some_records(), tmp_path / "misses.csv")


def test_metrics_of_other_points_than_the_runs_are_an_error(tmp_path):
    (tmp_path / "misses.csv").write_text("N,L2CM\n77,500\n")
    with pytest.raises(ModelError, match=r"No record is at a point of .*; its columns N hold other values"):
        join_metrics(some_records(), tmp_path / "misses.csv")


def test_regions_become_a_paraver_trace(tmp_path):
    write_paraver(some_records(), tmp_path / "t.prv")
    lines = (tmp_path / "t.prv").read_text().splitlines()
    assert lines[0].startswith("#Paraver")
    assert lines[1] == "2:1:1:1:1:0:40000001:1"
    assert "1 a<b" in (tmp_path / "t.pcf").read_text()


def test_a_missing_compiler_and_a_wrong_one_are_named(tmp_path):
    with pytest.raises(ToolNotFoundError, match="no-such-cc"):
        build_runtime(tmp_path, compiler="no-such-cc")
    with pytest.raises(ToolError, match="mpi"):
        build_runtime(tmp_path, compiler="cc", mpi=True)


PAPER = {
    1: {"1": 280, "N^3/P": 0.0196, "L2CM": 1.82},
    2: {"1": 5000, "N^3/P": 0.0162, "L2CM": 0.66, "ceil(log2(P))*N/B": 4.9},
    3: {"1": 360000, "N^3/P": 0.42, "ceil(log2(P))*N^2/P*L": 0.42},
}
VECTORS = {
    (100, 1): (38080.0, 27800.0, 780000),
    (100, 4): (23380.0, 15651.0889, 591000),
    (150, 4): (35017.5, 25270.3833, 997875),
    (200, 8): (38080.0, 27803.2667, 1158000),
    (200, 12): (31546.667, 22404.3556, 976000),
}


def paper_model(case):
    terms = tuple(Term(expression=text, coefficient=value, unit="us") for text, value in PAPER[case].items())
    return Model(name=f"case {case}", kind="analytic", target="t", features=("N", "P", "L2CM", "L", "B"), terms=terms)


@pytest.mark.parametrize("point", VECTORS)
@pytest.mark.parametrize("case", PAPER)
def test_the_printed_models_give_the_test_vectors(case, point):
    values = paper_model(case).apply({"N": point[0], "P": point[1], "L2CM": 1e4, "L": 60, "B": 900})
    assert values == pytest.approx(VECTORS[point][case - 1], abs=6e-4)


def test_the_operation_coefficient_of_case_3_is_21_to_26_times_the_others_a_misprint_or_absorbed_cost():
    ratios = [PAPER[3]["N^3/P"] / PAPER[case]["N^3/P"] for case in (1, 2)]
    assert ratios == pytest.approx([21.4, 25.9], abs=0.05)


def test_the_elimination_recovers_the_paper_s_second_model_from_noisy_runs():
    rng = np.random.default_rng(3)
    n, p = (np.repeat(g.ravel(), 4) for g in np.meshgrid([100.0, 150, 200], [1.0, 2, 4, 8, 12]))
    data = {
        "N": n,
        "P": p,
        "L2CM": rng.uniform(1e3, 2e4, len(n)),
        "B": rng.uniform(100, 900, len(n)),
        "L": rng.uniform(20, 90, len(n)),
    }
    data["t"] = paper_model(2).apply({k: data[k] for k in ("N", "P", "L2CM", "L", "B")}) * rng.normal(1, 0.01, len(n))
    formula = "1 + N^3/P + L2CM + ceil(log2(P))*N/B + ceil(log2(P))*N/P*L"
    model = fit("analytic", data, target="t", features=["N", "P", "L2CM", "L", "B"], formula=formula, center="none")
    found = {term.expression for term in model.active}
    assert {"1", "N ** 3 / P", "L2CM"} <= found
    assert model.quality["r_squared"] > 0.99


def test_collect_and_instrument_work_from_the_command_line(tmp_path, convolver):
    def run(*words):
        return convolver(*words, cwd=tmp_path)

    (tmp_path / "a.c").write_text(PROGRAM)
    done = run("instrument", "a.c")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "convolver-call/libconvolver_call.a").exists()
    for record in some_records():
        append_record(record, tmp_path / "convolver-call.n1.1.0.jsonl")
    collected = run("model", "collect", ".", "-o", "t.parquet")
    assert collected.returncode == 0, collected.stderr
    assert "counters: no" in collected.stderr
    assert Table.load(tmp_path / "t.parquet").metrics == ("time", "bytes")
