"""Ports from mixes: of cores that are made up, of a core that was measured, and in the table that predictions take."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.execution.calibrated import calibrated_core, core_rows
from convolver.execution.mapped import mapped_core
from convolver.machine.core_figures import MixedKind, of_avx512
from convolver.machine.cores import choose_core, find_core, parse_core
from convolver.machine.this_machine import describe_cpu
from convolver.probing.machine_probe import default_cpu
from convolver.probing.port_fit import PORTS, Mix, fit_ports, kind_cycles, mix_cycles
from convolver.probing.port_probe import port_figures, port_samples
from convolver.reporting.machine_tables import print_core
from tests.synthetic import machine

NEUTRAL = Path(__file__).parents[1] / "bench" / "core" / "neutral.toml"
MASKS = st.integers(1, (1 << PORTS) - 1)


def mixed(first, other, count=1.0, others=1.0, *, even=False):
    return mix_cycles(first, other, (count, others), even=even)


def together(first, other):
    """Share of the shorter kind's time by which a balanced mix is longer: 1 for the same ports, 0 for different ones."""
    one, two = kind_cycles(first), kind_cycles(other)
    return mixed(first, other, two, one) / (one * two) - 1


@given(st.lists(MASKS, min_size=1, max_size=2), st.lists(MASKS, min_size=1, max_size=2), st.integers(1, 4), st.integers(1, 4))
def test_a_mix_takes_what_its_most_loaded_ports_do(first, other, count, others):
    loads = [(mask, count) for mask in first] + [(mask, others) for mask in other]
    sets = range(1, 1 << PORTS)
    most = max(sum(n for mask, n in loads if mask & ports == mask) / ports.bit_count() for ports in sets)
    assert mixed(tuple(first), tuple(other), count, others) == pytest.approx(most)
    assert mixed(tuple(first), tuple(other), count, others, even=True) >= most - 1e-9


MADE_UP = {
    **{"alu": (0b1111,), "lea": (0b1111,), "shift": (0b0011,), "branch": (0b10100,), "multiply": (0b0001,)},
    **{"add": (0b1100000,), "product": (0b110000000,), "logic": (0b111100000,), "shuffle": (0b011000000,), "move": (0b100000,)},
}


@pytest.mark.parametrize("seed", range(3))
def test_the_ports_of_a_made_up_core_are_found_again(seed):
    random = np.random.default_rng(seed)
    alone = {kind: kind_cycles(ports) * random.normal(1, 0.01) for kind, ports in MADE_UP.items()}
    mixes = []
    for kind, other in itertools.combinations(MADE_UP, 2):
        count, others = (max(round(1 / kind_cycles(MADE_UP[one])), 1) for one in (kind, other))
        if random.random() > 0.1:
            cycles = mixed(MADE_UP[kind], MADE_UP[other], count, others) * random.normal(1, 0.01)
            mixes.append(Mix(kind, count, other, others, cycles))
    found = fit_ports(alone, mixes, dict.fromkeys(MADE_UP, 1), 8)
    for kind, other in itertools.combinations(MADE_UP, 2):
        assert together(found.ports[kind], found.ports[other]) == pytest.approx(together(MADE_UP[kind], MADE_UP[other]), abs=0.02)
    assert np.median(found.errors) < 0.03


def fitted(file):
    """Return the fit of mixes in a file, as :func:`fit_ports` does."""
    measured = json.loads(Path(__file__).with_name(file).read_text())
    kinds = list(measured["alone"])
    mixes = [Mix(kinds[kind], count, kinds[other], others, cycles) for kind, count, other, others, cycles in measured["mixes"]]
    return fit_ports(measured["alone"], mixes, measured.get("slots") or dict.fromkeys(kinds, 1), measured.get("width", 6))


def measured_mixes(file):
    """Return the cycles of mixes in a file by their two kinds."""
    measured = json.loads(Path(__file__).with_name(file).read_text())
    kinds = list(measured["alone"])
    return {(kinds[kind], kinds[other]): cycles for kind, _, other, _, cycles in measured["mixes"]}


@pytest.fixture(scope="module")
def zen3():
    """The fit of mixes measured on an AMD Zen 3 server."""
    return fitted("zen3-mixes.json")


@pytest.fixture(scope="module")
def zen5():
    """The fit of mixes measured on an AMD Zen 5 server."""
    return fitted("zen5-mixes.json")


def test_zen3_shares_its_vector_ports_as_published(zen3):
    """AMD, "Software Optimization Guide for the AMD Family 19h", 56665: FP0 to FP3; additions on FP2 and FP3."""
    ports = {kind: one[0] for kind, one in zen3.ports.items()}
    add, product, shift, integer_product = (ports[kind] for kind in ("fp_add", "fp_multiply", "v_shift", "v_multiply"))
    assert {ports[kind] for kind in ("fp_minmax", "fp_cmp", "fp_convert", "fp_convert_wide", "fp_round")} == {add}
    assert ports["v_crypto"] == product
    assert {ports[kind] for kind in ("v_shuffle", "v_shuffle_fp")} == {shift}
    assert ports["v_multiply_long"] == integer_product
    assert add & product == 0
    assert add | product == ports["v_logic"] == ports["v_integer"]
    assert shift & integer_product == 0
    assert shift | integer_product == ports["v_logic"]
    assert (shift & add).bit_count() == (integer_product & add).bit_count() == 1


def test_zen3_shares_its_integer_ports_as_published(zen3):
    """The same guide: four arithmetic units, shifts on two of them; a branch unit of its own beside one of them."""
    ports = {kind: one[0] for kind, one in zen3.ports.items()}
    alu = ports["alu"]
    assert alu.bit_count() == 4
    assert {ports[kind] for kind in ("lea", "byte_swap", "count")} == {alu}
    assert ports["shift"] == ports["shift_by_register"] == ports["test_bit"]
    assert ports["shift"].bit_count() == (ports["shift"] & alu).bit_count() == 2
    assert (ports["branch"] & alu).bit_count() == 1
    assert alu & ports["v_logic"] == 0


def test_zen3_blends_and_crosses_lanes_where_it_multiplies(zen3):
    """The same guide: blends by a mask on FP0 and FP1; so is what crosses lanes, in a unit that takes one a cycle."""
    product = zen3.ports["fp_multiply"]
    assert zen3.ports["v_blend"] == product
    assert product[0] in zen3.ports["v_lanes"]
    assert kind_cycles(zen3.ports["v_lanes"]) == 1


def test_zen3_moves_by_flags_on_both_units_without_shifts(zen3):
    """The same guide: ALU0 and ALU3, which also resolve branches; shifts on ALU1 and ALU2, multiplications on ALU1."""
    ports = {kind: one[0] for kind, one in zen3.ports.items()}
    conditional, shift = ports["conditional"], ports["shift"]
    assert zen3.ports["conditional"] == zen3.ports["conditional_set"] == (conditional,)
    assert (conditional & shift, conditional | shift) == (0, ports["alu"])
    assert ports["branch"] & ports["alu"] & ~conditional == 0
    assert (ports["multiply"].bit_count(), ports["multiply"] & ~shift) == (1, 0)


def test_zen3_splits_tzcnt_and_sums_of_three_in_two(zen3):
    """uops.info has two micro-operations of each."""
    two = (zen3.ports["shift"][0], zen3.ports["alu"][0])
    assert all(zen3.ports[kind] == two for kind in ("lea_parts", "lea_slow", "count_trailing"))


def test_zen3_moves_between_files_over_one_port_a_cycle(zen3):
    """To general registers on a unit that shifts and does not multiply; back on one that resolves branches, and where it adds
    (FP2). Comparisons are additions that set flags."""
    add, conditional, branch = (zen3.ports[kind][0] for kind in ("fp_add", "conditional", "branch"))
    (out,) = zen3.ports["v_to_general"]
    assert (out.bit_count(), out & ~zen3.ports["shift"][0], out & zen3.ports["multiply"][0]) == (1, 0, 0)
    assert zen3.ports["fp_to_general"][1] == out
    number, flags = zen3.ports["fp_compare"]
    assert (number & ~add, flags & ~conditional, flags & branch) == (0, 0, 0)
    assert set(zen3.ports["general_to_v"]) == {add, conditional & branch}
    assert all(mask & ~add == 0 for mask in zen3.ports["general_to_fp"])
    kinds = ("v_to_general", "fp_to_general", "fp_compare", "general_to_v", "general_to_fp")
    assert {kind_cycles(zen3.ports[kind]) for kind in kinds} == {1.0}


def test_zen3_fuses_products_where_it_multiplies_but_not_there_alone(zen3):
    """The same guide: FP0 and FP1, whose third operand comes through the other two, which no set of ports says: beside
    additions it takes a third longer, neither 0.5 cycles nor 0.75. The fit shares one of the two."""
    fused, product = zen3.ports["fp_fma"], zen3.ports["fp_multiply"]
    assert fused[0] & product[0]
    assert fused[0].bit_count() == 2
    measured = measured_mixes("zen3-mixes.json")
    assert measured["fp_multiply", "fp_fma"] == pytest.approx(1.0, rel=0.03), "they share all ports"
    assert measured["fp_add", "fp_fma"] == pytest.approx(0.68, rel=0.03)
    assert mixed(fused, product, even=True) == pytest.approx(1.0, rel=0.3)


def test_zen5_has_more_integer_ports_and_the_vector_ports_of_its_line(zen5):
    """AMD, "Software Optimization Guide for the AMD Zen5 Microarchitecture", 58455: six arithmetic units, three of which shift
    and three of which multiply; FP0 to FP3, of which two add."""
    ports = {kind: one[0] for kind, one in zen5.ports.items()}
    alu, add, product = (ports[kind] for kind in ("alu", "fp_add", "fp_multiply"))
    assert (alu.bit_count(), ports["lea"].bit_count(), alu & ~ports["lea"]) == (6, 6, 0)
    assert all(ports[kind] & ~alu == 0 for kind in ("conditional", "conditional_set", "byte_swap"))
    assert ports["test_bit"] == ports["count_trailing"]
    assert all(ports[kind].bit_count() == 3 and ports[kind] & ~alu == 0 for kind in ("shift", "multiply", "test_bit"))
    assert {ports[kind] for kind in ("fp_minmax", "fp_cmp", "fp_convert", "fp_convert_wide", "fp_round", "v_shift")} == {add}
    assert {ports[kind] for kind in ("v_multiply", "v_multiply_long", "v_crypto")} == {product}
    assert add & product == 0
    assert {ports[kind] for kind in ("v_integer", "v_logic", "v_shuffle")} == {add | product}
    assert alu & ports["v_logic"] == 0


def test_two_probes_of_a_core_find_the_same_shared_ports(zen5):
    again = fitted("zen5-mixes-again.json").ports
    pairs = list(itertools.combinations(again, 2))
    same = [together(again[one], again[other]) == together(zen5.ports[one], zen5.ports[other]) for one, other in pairs]
    assert np.mean(same) > 0.95


def test_what_zen3_does_apart_stays_apart(zen3):
    assert np.median(zen3.errors) < 0.06
    assert np.quantile(zen3.errors, 0.9) < 0.2


AMONG = 23
"""Slots of a piece beside one whose own are asked for (probes/core/mixes.c)."""


def _line(name, *cycles):
    return {"name": name, "cycles": list(cycles)}


def _of_one_slot(count, slot=0.2, beyond=0.0):
    kinds = [f"one_{number}" for number in range(count)]
    alone = [_line(f"alone.{kind}", 5 * slot) for kind in kinds]
    return alone + [_line(f"slots.{kind}", (AMONG + 1 + beyond) * slot) for kind in kinds]


def test_slots_are_counted_from_what_most_kinds_take():
    """A clock or a front end that is off by 2 % moves all kinds by half a slot."""
    lines = [
        _line("alone.slot", 0.2),
        *_of_one_slot(9, beyond=0.6),
        _line("alone.two", 1.0),
        _line("slots.two", (AMONG + 2.6) * 0.2),
    ]
    assert {one.name: one.slots for one in port_figures([lines])} == {**{f"one_{number}": 1 for number in range(9)}, "two": 2}
    astray = [_line(f"slots.one_{number}", (AMONG + 0.6 + 0.2 * number) * 0.2) for number in range(9)]
    assert not any(one.slots for one in port_figures([[*lines[:10], *astray]]))
    two_paces = [_line(f"slots.one_{number}", (AMONG + 1.6 + 0.4 * (number < 2)) * 0.2) for number in range(9)]
    assert not any(one.slots for one in port_figures([[*lines[:10], *two_paces]]))


def test_kinds_whose_mixes_were_disturbed_have_no_ports():
    lines = [
        _line("alone.slot", 0.2, 0.2),
        _line("alone.alu", 0.25),
        _line("alone.shift", 0.5),
        _line("alone.divide_double", 4.51),
    ]
    lines += [_line("slots.alu", (AMONG + 2) * 0.2), _line("slots.shift", (AMONG + 2) * 0.2), *_of_one_slot(5)]
    seen = port_figures([[*lines, _line("mix.alu.2.shift.1", 0.75)]])
    seen = [one for one in seen if not one.name.startswith("one_")]
    assert {one.name: len(one.ports) for one in seen} == {"alu": 1, "shift": 1, "divide_double": 0}
    assert {one.name: one.slots for one in seen} == {"alu": 0, "shift": 2, "divide_double": 0}, (
        "an alu cannot take more slots than alone"
    )
    assert not any(one.ports for one in port_figures([[*lines, _line("mix.alu.2.shift.1")]]))
    assert port_figures([]) == port_figures([[]]) == ()


def test_a_disturbed_moment_hides_no_ports_that_others_saw():
    """It asks for other numbers of the same two kinds, and sees none of these mixes."""
    alone = [_line("alone.slot", 0.2), _line("alone.alu", 0.25), _line("alone.shift", 0.5)]
    moments = [[*alone, _line("mix.alu.2.shift.1", 0.75)], [*alone, _line("mix.alu.3.shift.1")]]
    assert all(one.ports for one in port_figures(moments) if one.name != "slot")


def test_mixes_of_a_moment_on_a_shared_core_do_not_count():
    def moment(taken, cycles):
        return [_line("witness.taken", taken), _line("alone.slot", cycles), _line("alone.alu", cycles)]

    quiet, shared = moment(2.0, 0.25), moment(4.1, 0.2)
    assert [one.cycles for one in port_figures([shared, quiet, shared], 2.0)] == [0.25]
    assert port_figures([shared], 2.0) == ()
    assert [one.cycles for one in port_figures([shared])] == [0.2]


MEASURED = (
    MixedKind(name="alu", cycles=0.25, slots=1, ports=((0, 1, 2, 3),)),
    MixedKind(name="fp_add", cycles=0.5, ports=((4, 5),)),
    MixedKind(name="fp_compare", cycles=1.0, slots=2, ports=((4,), (0, 1))),
    MixedKind(name="divide_double_32", cycles=4.49),
)


def test_measured_ports_replace_the_published_ones():
    seed = find_core("zen4")
    table, kinds = mapped_core(seed, MEASURED)
    assert set(kinds) == {one.name for one in MEASURED}
    assert table.kind("alu").ports.split() == ["m0", "m1", "m2", "m3"]
    assert (table.kind("fp_compare").also, table.kind("fp_compare").slots) == ("m0 m1", 2)
    assert table.kind("fp_compare").latency == seed.kind("fp_compare").latency
    assert table.kind("divide_double_32").busy == 4.5
    assert table.kind("byte_swap").ports == table.kind("alu").ports, "it has the same ports in the published table"
    assert table.kind("divide_64") == seed.kind("divide_64")
    assert table.mask(table.memory.load)


def test_additions_go_wherever_address_computations_do():
    """Golden Cove starts three sign extensions, which stand for additions, and five of both others in a cycle."""
    found = [
        msgspec.structs.replace(MEASURED[0], ports=((0, 1, 4),)),
        MixedKind(name="lea", cycles=0.2, ports=((0, 1, 2, 3, 4),)),
    ]
    assert mapped_core(find_core("golden-cove"), found)[0].kind("alu").ports.split() == ["m0", "m1", "m2", "m3", "m4"]


def test_a_profile_without_ports_keeps_the_published_ones():
    assert mapped_core(find_core("zen4"), ()) == (find_core("zen4"), ())


def test_measured_cycles_stand_beside_the_published_ones():
    profile = msgspec.structs.replace(machine("m"), maps=(), floating_point=(), core=(), core_ports=MEASURED)
    assert calibrated_core(find_core("zen4"), profile)[1]["divide_double_32.cycles"] == 4.5
    rows = {row["name"]: row for row in core_rows(find_core("zen4"), profile)}
    assert (rows["divide_double_32.cycles"]["published"], rows["divide_double_32.cycles"]["used"]) == (5.0, 4.5)


def test_a_core_is_shown_with_shared_ports_and_slots(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    table = find_core("zen4")
    profile = msgspec.structs.replace(
        machine("m"), core_ports=(*MEASURED, MixedKind(name="lea", cycles=0.25, ports=((0, 1, 2, 3),)))
    )
    print_core(profile, table, "model", core_rows(table, profile))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["0", "1", "2", "3", "alu,", "lea"] in lines
    assert ["4", "+", "0", "1", "fp_compare", "(2)"] in lines


@pytest.fixture(scope="module")
def emerald_rapids():
    """What the probe printed on an Intel Emerald Rapids server, the third least sample of each mix."""
    return [_line(*one) for one in json.loads(Path(__file__).with_name("emerald-rapids-ports.json").read_text()).items()]


@pytest.fixture(scope="module")
def with_avx512(emerald_rapids):
    return {one.name: one for one in port_figures([emerald_rapids])}


def closed_by(found):
    (closes,) = {one.closes for one in found.values() if one.ports and one.name.endswith("_64")}
    assert not any(one.closes for one in found.values() if not one.name.endswith("_64"))
    return closes


def test_vectors_of_64_bytes_start_on_the_ports_that_are_published(with_avx512):
    """Intel, "Optimization Reference Manual", 248966, Golden Cove: units of 64 bytes on ports 0 and 5, port 1 closed meanwhile.
    Shifts are on port 0, what moves between lanes and compares into masks on port 5."""
    ports = {name: tuple(set(port) for port in one.ports) for name, one in with_avx512.items()}
    (zero,), (five,), (closed,) = with_avx512["v_shift_64"].ports[0], with_avx512["v_shuffle_fp"].ports[0], closed_by(with_avx512)
    assert ports["v_integer"] == ({zero, closed, five},)
    assert ports["fp_multiply"] == ({zero, closed},)
    kinds = ("fp_add", "fp_multiply", "fp_fma", "fp_minmax", "fp_convert", "v_integer", "v_logic", "v_move", "v_multiply")
    assert all(ports[f"{kind}_64"] == ({zero, five},) for kind in kinds)
    assert all(ports[f"v_{kind}"] == ({five},) for kind in ("shuffle_64", "lanes_64", "integer_mask_64", "integer_mask"))
    assert ports["v_integer_between_masks"] == ({zero},)
    assert ports["v_lanes_compress_64"] == ({five}, {five})
    assert (with_avx512["v_lanes_compress_64"].slots, with_avx512["fp_add_64"].slots) == (2, 1)


def test_mixes_with_avx512_change_nothing_of_other_kinds(emerald_rapids, with_avx512):
    before = port_figures([[one for one in emerald_rapids if not any(map(of_avx512, one["name"].split(".")))]])
    assert len(before) > 40
    assert list(before) == [with_avx512[one.name] for one in before]
    for seed in (find_core("golden-cove"), find_core("zen4"), parse_core(NEUTRAL.read_text(), "neutral")):
        table, known = (mapped_core(seed, found)[0] for found in ([*with_avx512.values()], before))
        assert table.ports[: len(known.ports)] == known.ports
        assert {name: table.kind(name) for name in known.kinds if not of_avx512(name)} == {
            name: kind for name, kind in known.kinds.items() if not of_avx512(name)
        }


def test_a_made_up_core_knows_avx512_from_its_probe(with_avx512):
    seed = parse_core(NEUTRAL.read_text(), "neutral")
    table, kinds = mapped_core(seed, [*with_avx512.values()])
    assert {"fp_fma_64", "v_integer_mask", "divide_double_64", "gather_64"} <= set(kinds)
    assert (table.kind("divide_double_64").busy, table.kind("root_double_64").busy) == (15.5, 24)
    assert (table.kind("gather_64").busy, len(table.kind("gather_64").ports.split())) == (4, 1)
    assert table.kind("v_lanes_widen_64").ports == table.kind("v_shuffle_fp").ports


@pytest.mark.slow
def test_the_probe_finds_more_units_for_additions_than_for_products():
    found = {one.name: one for one in port_figures([port_samples(default_cpu())])}
    if not found.get("alu") or not found.get("multiply") or not found["alu"].ports:
        pytest.skip("needs a CPU with AVX2 whose core others leave alone for a while")
    assert found["alu"].cycles < found["multiply"].cycles
    assert len(found["alu"].ports[0]) >= 3


@pytest.mark.slow
def test_the_probe_finds_what_vectors_of_64_bytes_cost():
    found = {one.name: one.cycles for one in port_figures([port_samples(default_cpu())])}
    if not found.get("fp_fma_64"):
        pytest.skip("needs a CPU with AVX-512 whose core others leave alone for a while")
    assert all(0.9 < found[f"{kind}_64"] / found[kind] < 2.3 for kind in ("fp_fma", "v_integer", "v_logic"))
    if choose_core(describe_cpu())[0].name == "golden-cove":
        assert found["v_integer_64"] / found["v_integer"] == pytest.approx(1.5, rel=0.1), "two ports of three"
        assert found["divide_double_64"] / found["divide_double_32"] == pytest.approx(2, rel=0.1)
