"""Core tables from llvm-mca: what its report says, and what happens without it."""

from __future__ import annotations

import json
import shutil

import pytest

from convolver.errors import MachineError, ToolNotFoundError
from convolver.execution.core_parameters import core_parameters
from convolver.execution.llvm_mca import EXAMPLES, LOAD, STORE, Cost, read_buffers, read_costs, seed_table, seeded_core
from convolver.machine.cores import choose_core, core_document, core_tables, find_core, parse_core, write_core

MODEL = ("GenuineIntel", 6, 999)
CPU = {"vendor": "GenuineIntel", "family": 6, "model_number": 999, "model": "new"}
needs_tool = pytest.mark.skipif(shutil.which("llvm-mca") is None, reason="needs llvm-mca")


@pytest.mark.parametrize("name", sorted(core_tables()))
def test_a_table_survives_being_written(name):
    assert parse_core(core_document(find_core(name)), name) == find_core(name)


def _report(resources, usage, latency=3, slots=1, cycles=1.0, width=4):
    region = {
        "Name": "fp_add",
        "InstructionInfoView": {"InstructionList": [{"Latency": latency, "NumMicroOpcodes": slots, "RThroughput": cycles}]},
        "ResourcePressureView": {
            "ResourcePressureInfo": [
                {"InstructionIndex": copy, "ResourceIndex": index, "ResourceUsage": use}
                for copy in (0, 1, 2, 3, 4)  # the last one is the region's sum
                for index, use in enumerate(usage)
            ]
        },
        "SummaryView": {"DispatchWidth": width},
    }
    return json.dumps({"TargetInfo": {"Resources": resources}, "CodeRegions": [region]})


def test_costs_are_those_of_one_copy():
    costs, width = read_costs(_report(["P0", "Load.\x01"], [0.25, 0.75], latency=5))
    assert width == 4
    assert costs == {"fp_add": Cost(5, 1, 1.0, {"P0": 0.25, "Load1": 0.75})}


def test_buffers_are_read_from_the_report():
    text = (
        "Scheduler's queue usage:\n[1] Resource name.\n\n [1]   [2]  [3]  [4]\nInt  0  18  96\nFp  33  64  64\n\n"
        "Retire Control Unit - x\nTotal ROB Entries:                256\n"
    )
    assert read_buffers(text) == {"reorder_buffer": 256, "scheduler": 96}


def test_stores_go_where_their_data_go_and_loads_do_not():
    base = find_core("skylake")
    costs = {name: Cost(2, 1, 0.5, {"P0": 0.5, "P1": 0.5}) for name in EXAMPLES}
    costs[LOAD] = Cost(5, 1, 0.5, {"P2": 0.5, "P3": 0.5})
    costs[STORE] = Cost(1, 1, 1.0, {"P2": 0.33, "P3": 0.33, "P4": 1.0, "P7": 0.33})
    table = seed_table(costs, 4, {"reorder_buffer": 224}, base, "x", "y")
    assert (table.memory.load, table.memory.store) == ("P2 P3", "P4")
    assert (table.kind("fp_add").ports, table.kind("fp_add").latency, table.kind("fp_add").busy) == ("P0 P1", 2, 1)
    assert table.kind("divide_double") == base.kind("divide_double")
    assert table.params["penalty"] == base.params["penalty"]


def test_without_the_tool_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolNotFoundError, match="apt install llvm"):
        seeded_core("icelake-server", find_core("ice-lake"), "x", MODEL)


@needs_tool
def test_an_unknown_cpu_is_named():
    with pytest.raises(MachineError, match="'no-such-cpu'"):
        seeded_core("no-such-cpu", find_core("ice-lake"), "x", MODEL)


@needs_tool
def test_a_seeded_table_is_found_for_its_model_and_no_other(monkeypatch, tmp_path):
    monkeypatch.setenv("CONVOLVER_CORES", str(tmp_path))
    table = seeded_core("skylake-avx512", find_core("skylake"), "mine", MODEL)
    assert set(find_core("skylake").kinds) == set(table.kinds)
    assert core_parameters(table)["load_ports"] != core_parameters(table)["store_ports"]
    write_core(table, tmp_path / "mine.toml")
    assert choose_core(CPU) == (table, "model")
    assert choose_core({**CPU, "model_number": 998})[0].name != "mine"
    assert choose_core(CPU, bundled=True)[0].name != "mine"
