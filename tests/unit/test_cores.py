"""Core tables: all shipped ones are whole, the right one is chosen, a wrong one is refused."""

from __future__ import annotations

import pytest
from convolver._native._core import ffi

from convolver.errors import MachineError, SchemaError
from convolver.execution.core_parameters import core_parameters
from convolver.execution.instructions import decode
from convolver.execution.kinds import _BY_NAME, _VECTOR_RULES
from convolver.execution.program import _kind_of
from convolver.machine.cores import FOLDER, choose_core, core_tables, find_core, parse_core


@pytest.mark.parametrize("name", core_tables())
def test_a_table_has_all_that_the_model_needs(name):
    table = core_tables()[name]
    fields = {field for field, _ in ffi.typeof("cv_core_params").fields}
    assert set(core_parameters(table)) == fields
    assert table.source


@pytest.mark.parametrize("name", core_tables())
def test_a_table_speaks_of_every_kind(name):
    """No kind of the decoder falls back to the unknown one unnoticed."""
    table = core_tables()[name]
    kinds = {kind for kind in _BY_NAME.values() if kind != "none"} | {kind for _, kind in _VECTOR_RULES}
    kinds -= {"divide", "root"}
    units = [f"{what}_{precision}" for what in ("divide", "root") for precision in ("single", "double")]
    kinds |= {unit + width for unit in units for width in ("", "_16", "_32")}
    assert not {kind for kind in kinds if table.kind(kind) is table.kinds["unknown"]}


def test_vectors_of_a_width_have_a_kind_of_their_own_where_the_table_says_so():
    add, root = (decode(bytes.fromhex(code)) for code in ("c5f558c2", "c5fd51c1"))
    assert [_kind_of(find_core("zen"), one) for one in (add, root)] == ["fp_add_32", "root_double_32"]
    assert _kind_of(find_core("skylake"), add) == "fp_add"


def test_a_kind_without_its_own_line_keeps_its_width():
    nearest = find_core("zen4").nearest
    assert nearest("v_lanes_insert_64") == "v_lanes_64"
    assert (nearest("fp_convert_wide_64"), nearest("v_integer_absolute_16")) == ("fp_convert_wide", "v_integer")
    assert (nearest("v_lanes_insert_32"), nearest("nothing_such")) == ("v_lanes", "unknown")


def test_flags_go_before_the_model_and_a_guess_says_so():
    older = {"vendor": "GenuineIntel", "family": "6", "model_number": "85"}
    assert choose_core({**older, "vector_sets": ["avx512_fp16"]})[1] == "flags"
    table, how = choose_core(older)
    assert (table.name, how) == ("skylake", "model")
    assert choose_core({"vendor": "AuthenticAMD", "family": "25", "model_number": "33"})[0].name == "zen3"
    table, how = choose_core({"vendor": "Somebody", "model": "a new one"})
    assert "a new one" in how


@pytest.mark.parametrize(
    ("vendor", "family", "model", "name"),
    [
        ("AuthenticAMD", "26", "250", "zen5"),
        ("AuthenticAMD", "27", "1", "zen5"),
        ("AuthenticAMD", "25", "200", "zen4"),
        ("AuthenticAMD", "23", "250", "zen2"),
        ("GenuineIntel", "6", "210", "golden-cove"),
        ("GenuineIntel", "", "", "golden-cove"),
    ],
)
def test_the_nearest_core_stands_for_one_that_is_unknown(vendor, family, model, name):
    table, how = choose_core({"vendor": vendor, "family": family, "model_number": model})
    assert (table.name, "stands for it" in how) == (name, True)


def test_an_unknown_core_and_a_wrong_table_are_refused():
    with pytest.raises(MachineError, match="golden-cove"):
        find_core("no-such")
    text = (FOLDER / "golden-cove.toml").read_text()
    with pytest.raises(SchemaError, match="port"):
        parse_core(text.replace('alu = {ports = "p10', 'alu = {ports = "p77'), "here")
    with pytest.raises(SchemaError, match="here"):
        parse_core("name = 3", "here")
