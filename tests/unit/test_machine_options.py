"""Options of cache levels and TLBs in the machine document."""

from __future__ import annotations

import msgspec
import pytest

from convolver._native import simulator
from convolver.artifact_kinds import KINDS
from convolver.convolution.lookup import machine_costs
from convolver.errors import HierarchyError, PredictionError, UnsupportedVersionError
from convolver.machine.hierarchy import POLICIES, Prefetcher
from convolver.machine.memory_system import parse_system
from convolver.machine.profile import MachineProfile
from tests.synthetic import machine

L1 = {"level": "L1", "size_bytes": 4096, "ways": 4}
L2 = {"level": "L2", "size_bytes": 65536, "ways": 8}
FULL = {
    "schema": "convolver.machine",
    "version": 2,
    "name": "m",
    "hierarchy": [
        {**L1, "write": "through", "write_allocate": False, "write_combining": 4, "sector_bytes": 32},
        {**L2, "line_bytes": 128, "inclusion": "inclusive", "prefetcher": {"kind": "stride", "degree": 2}, "policy": "drrip"},
        {
            **{"level": "L3", "size_bytes": 1 << 20, "ways": 16, "line_bytes": 128, "inclusion": "victim", "shared": True},
            **{"index": "intel-slices", "slices": 4, "policy": "random", "seed": 7},
        },
    ],
    "tlb": [
        {"level": "DTLB", "entries": 64, "ways": 4},
        {"level": "DTLB", "entries": 32, "ways": 32, "page_bytes": 1 << 21},
        {"level": "STLB", "entries": 1536, "ways": 12},
    ],
}


def test_a_profile_with_every_option_survives_writing_and_reading(tmp_path):
    profile = MachineProfile.from_document(FULL)
    profile.save(tmp_path / "m.machine.json")
    again = MachineProfile.load(tmp_path / "m.machine.json")
    assert (again.hierarchy, again.tlb, again.id) == (profile.hierarchy, profile.tlb, profile.id)
    assert [level.level for level in again.system.tlb] == ["DTLB", "STLB"]
    assert not again.system.plain


def test_a_profile_of_the_first_version_means_what_it_meant():
    old = MachineProfile.from_document({**FULL, "version": 1, "hierarchy": [L1, L2], "tlb": []})
    assert old.system.plain
    assert old.hierarchy_id == parse_system({"hierarchy": [L1, L2]}, "m").id


def test_an_older_reader_would_refuse_the_options(monkeypatch, tmp_path):
    MachineProfile.from_document(FULL).save(tmp_path / "m.machine.json")
    monkeypatch.setitem(KINDS, "convolver.machine", KINDS["convolver.machine"]._replace(version=1))
    with pytest.raises(UnsupportedVersionError):
        MachineProfile.load(tmp_path / "m.machine.json")


def test_the_pages_choose_the_levels_of_the_tlb():
    system = parse_system({**FULL, "page_bytes": 1 << 21}, "m")
    assert [(level.level, level.entries) for level in system.tlb] == [("DTLB", 32)]
    assert system.id != parse_system(FULL, "m").id


@pytest.mark.parametrize(
    ("levels", "more", "word"),
    [
        ([{**L1, "inclusion": "exclusive"}], {}, "first level"),
        ([L1, {**L2, "inclusion": "sometimes"}], {}, "sometimes"),
        ([L1, {**L2, "inclusion": "victim", "line_bytes": 128}], {}, "same lines"),
        ([{**L1, "write": "through"}, {**L2, "inclusion": "exclusive"}], {}, "write-back"),
        ([L1, {**L2, "inclusion": "exclusive", "prefetcher": {"kind": "stream"}}], {}, "prefetcher"),
        ([{**L1, "line_bytes": 128}, {**L2, "inclusion": "inclusive"}], {}, "larger lines"),
        ([{**L1, "shared": True}, L2], {}, "shared"),
        ([{**L1, "sector_bytes": 48}], {}, "sectors"),
        ([{**L1, "write": "around"}], {}, "around"),
        ([{**L1, "write_combining": 65}], {}, "entries"),
        ([{**L1, "index": "intel-slices", "slices": 3}], {}, "slices"),
        ([{**L1, "slices": 2}], {}, "slices"),
        ([{**L1, "index": "mixed-slices", "slices": 3}], {}, "evenly"),
        ([{**L1, "size_bytes": 4096 * 3, "index": "xor"}], {}, "power of two"),
        ([{**L1, "prefetcher": {"kind": "clairvoyant"}}], {}, "clairvoyant"),
        ([{**L1, "prefetcher": {"kind": "stride", "degree": 0}}], {}, "degree"),
        ([{**L1, "prefetcher": {}}], {}, "kind"),
        ([{**L1, "seed": -1}], {}, "seed"),
        ([L1], {"semantics": "dinero"}, "dinero"),
        ([{**L1, "write": "through"}], {"semantics": "pycachesim"}, "without options"),
        ([L1], {"tlb": [{"level": "DTLB", "entries": 63, "ways": 4}]}, "entries"),
        ([L1], {"tlb": [{"level": "DTLB", "entries": 64, "ways": 4, "page_bytes": 8192}]}, "pages"),
        ([L1], {"tlb": [{"level": "DTLB", "entries": 64, "ways": 4}], "page_bytes": 1 << 30}, "no pages"),
        ([L1], {"tlb": 3}, "TLB|array"),
        ([L1], {"tlb": [{"level": "DTLB", "entries": 64, "ways": 4}] * 2}, "twice"),
    ],
)
def test_what_is_not_possible_is_refused_in_a_sentence(levels, more, word):
    with pytest.raises(HierarchyError, match=word):
        parse_system({"hierarchy": levels, **more}, "m")


def test_the_core_accepts_what_the_document_allows():
    from convolver.simulation.detailed import DetailedMachine, Details

    system = MachineProfile.from_document(FULL).system
    machine = DetailedMachine(system, Details(causes=True), cores=2)
    assert machine.simulator.levels == len(system.hierarchy) + len(system.tlb)
    assert msgspec.to_builtins(system.hierarchy[1].prefetcher) == {"kind": "stride", "degree": 2}


def test_a_projected_machine_keeps_options_and_tlb():
    from convolver.machine.project import parse_changes, project

    base = MachineProfile.from_document(FULL)
    wider = project(base, "wider", parse_changes(["L2.size=128KiB"], []))
    assert wider.hierarchy[1] == msgspec.structs.replace(base.hierarchy[1], size_bytes=128 << 10)
    assert (wider.hierarchy[2], wider.system.tlb, wider.semantics) == (base.hierarchy[2], base.system.tlb, base.semantics)


def test_a_policy_whose_sets_depend_on_each_other_is_not_simulated_on_some():
    geometry = simulator.Geometry(64, 4, 64, POLICIES.index("drrip"))
    with pytest.raises(Exception, match="Selecting"):
        simulator.Simulator([[geometry]]).select(1, 0)


def test_a_profile_with_a_prefetcher_is_refused_for_times():
    plain = machine()
    machine_costs(plain)
    first = msgspec.structs.replace(plain.hierarchy[0], prefetcher=Prefetcher(kind="stream"))
    with pytest.raises(PredictionError, match="prefetcher in L1, which times would count twice"):
        machine_costs(msgspec.structs.replace(plain, hierarchy=(first, *plain.hierarchy[1:])))
