"""Dimemas configurations: written and read back, malformed ones refused, mappings as documented."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convolver.errors import FormatError, ReplayError
from convolver.mpi.cfg import Configuration, Nodes, format_cfg, read_cfg, read_collectives, write_cfg
from convolver.mpi.network import Network, place
from tests.mpi_strategies import outcome

ENVIRONMENT = '"environment information" {"", 0, "", 2, 100.0, 4, 3};;\n'
NODES = '"multi node information" {0, 2, "arch", 4, 1.0, 1e-6, 1000.0, 0, 1, 0, 0.00001, 1, 1, 0.0};;\n'
START = "#DIMEMAS_CONFIGURATION\n"

counts = st.integers(0, 9)
numbers = st.floats(0, 1e9)
groups = st.builds(
    Nodes,
    count=st.integers(1, 5),
    cpus=st.integers(1, 64),
    ratio=numbers,
    latency_intra_seconds=numbers,
    bandwidth_intra_mib=numbers,
    buses_intra=counts,
    in_intra=counts,
    out_intra=counts,
    latency_inter_seconds=numbers,
    in_inter=counts,
    out_inter=counts,
    latency_wan_seconds=numbers,
    arch=st.sampled_from(["", "x86 64"]),
)
rules = st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 3), st.integers(1, 5))
configs = st.builds(
    Configuration,
    nodes=st.lists(groups, min_size=1, max_size=3).map(tuple),
    bandwidth_mib=numbers,
    buses=counts,
    collective_model=st.integers(1, 3),
    mapping=st.sampled_from(["FILL_NODES", "INTERLEAVED", "3 TASKS_PER_NODE", (0, 0, 0)]),
    modules=st.lists(st.tuples(counts, st.integers(1, 9), st.floats(-9, 9)), max_size=2).map(tuple),
    collectives=st.dictionaries(st.integers(0, 15), rules, max_size=3),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(config=configs)
def test_a_configuration_survives_writing_and_reading(tmp_path, config):
    write_cfg(config, tmp_path / "m.cfg")
    found = read_cfg(tmp_path / "m.cfg")
    named = "m.collectives" if config.collectives else ""
    assert found == Configuration(**{**config.__dict__, "comms_file": named})


def test_comments_and_definitions_are_skipped(tmp_path):
    skipped = '/*****\n * "node information" { junk\n *****/\n"node information" {\n int "x";\n};;\n// x\n'
    text = f"{START}{skipped}{ENVIRONMENT}{NODES}"
    (tmp_path / "m.cfg").write_text(text)
    assert read_cfg(tmp_path / "m.cfg").nodes[0].latency_inter_seconds == 1e-5


def test_single_node_records_are_read_with_and_without_a_node_id(tmp_path):
    tail = '"a", 4, 2.0, 0.0, 0.0, 0, 0, 0, 1e-5, 1, 1, 0.0};;\n'
    (tmp_path / "m.cfg").write_text(f'{START}{ENVIRONMENT}"node information" {{0, 0, {tail}"node information" {{0, {tail}')
    assert [group.ratio for group in read_cfg(tmp_path / "m.cfg").nodes] == [2.0, 2.0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing", ":1: not a Dimemas configuration"),
        (START + ENVIRONMENT, " announces 2 nodes but describes 0"),
        (START + NODES, " has no 'environment information'"),
        (START + ENVIRONMENT + "rubbish\n", ":3: a record"),
        (START + '"unknown thing" {1};;\n', ":2: records 'unknown thing' are not supported"),
        (START + ENVIRONMENT.replace("100.0", "fast"), ":2: 'fast' is no valid bandwidth"),
        (START + ENVIRONMENT.replace("100.0", "-1"), ":2: '-1' is no valid bandwidth"),
        (START + ENVIRONMENT.replace("100.0", "inf"), ":2: 'inf' is no valid bandwidth"),
        (START + ENVIRONMENT.replace(", 3}", "}"), ":2: the record ends before the field 'collective model'"),
        (START + ENVIRONMENT.replace(", 3}", ", 3, 1}"), ":2: the record has 8 fields where 7 are expected"),
        (START + ENVIRONMENT.replace(", 3}", ", 9}"), ":2: '9' is no valid collective model"),
        (START + ENVIRONMENT + NODES + '"mapping information" {"", 2, [2] {0, 5}};;\n', " maps a task to node 5"),
        (START + ENVIRONMENT + NODES + '"mapping information" {"", 2, [3] {0, 1}};;\n', ":4: the list of nodes does not have 3"),
        (
            START + ENVIRONMENT + NODES + '"predefined mapping information" {"SOMEHOW"};;\n',
            ":4: the mapping 'SOMEHOW' is unknown",
        ),
        (START + ENVIRONMENT + NODES + '"configuration files" {"", "", "none.cfg", ""};;\n', "names none.cfg, which is no file"),
        (START + '"wide area network information" {"", 2, 0, 4, 0.0, 0.0, 1};;\n', ":2: only one machine"),
    ],
)
def test_a_malformed_configuration_is_refused_with_the_reason(tmp_path, text, reason):
    path = tmp_path / "m.cfg"
    path.write_text(text)
    with pytest.raises(FormatError, match=re.escape(reason)):
        read_cfg(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    config=configs,
    at=st.integers(0, 600),
    junk=st.sampled_from(["", '"', "{", "}", ",", "-1", "9" * 30, "[2]", "\n"]),
    width=st.integers(0, 4),
)
def test_damaged_configurations_are_read_or_refused(tmp_path, config, at, junk, width):
    text = format_cfg(config)
    path = tmp_path / "f.cfg"
    path.write_text(text[: at % len(text)] + junk + text[at % len(text) + width :])
    found, message = outcome(read_cfg, path)
    assert found.node_count >= 1 if found else "f.cfg" in message or "cannot be read" in message


def test_a_malformed_collectives_file_is_refused(tmp_path):
    path = tmp_path / "c"
    for line in ("0 1 LOG MAX", "0 99 LOG MAX LOG MAX", "1 1 LOG MAX LOG MAX", "0 1 LOX MAX LOG MAX", "0 1 LOG MAX LOG MAX x"):
        path.write_text(f"other\nMachine globalop: {line}\n")
        with pytest.raises(FormatError, match=r"c:2: "):
            read_collectives(path)


def test_mappings_place_tasks_as_documented():
    nodes = (Nodes(2, cpus=2), Nodes(1, cpus=3))
    assert place(Configuration(nodes), 7).tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert place(Configuration(nodes, mapping="INTERLEAVED"), 5).tolist() == [0, 1, 2, 0, 1]
    assert place(Configuration(nodes, mapping="2 TASKS_PER_NODE"), 5).tolist() == [0, 0, 1, 1, 2]
    assert Network(Configuration(nodes, mapping=(2, 0))).placement(2).tolist() == [2, 0]
    with pytest.raises(ReplayError, match="do not fit"):
        place(Configuration(nodes), 8)
    with pytest.raises(ReplayError, match="maps 2 tasks"):
        place(Configuration(nodes, mapping=(2, 0)), 3)
