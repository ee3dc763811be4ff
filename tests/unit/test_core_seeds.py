"""What a bench predicts with when nothing is entered by hand: the made-up core, and what it still takes from published tables."""

from __future__ import annotations

import pytest

from convolver.execution.calibrated import calibrated_core
from convolver.execution.core_parameters import core_parameters
from convolver.machine.catalog import find_machine
from convolver.machine.cores import core_tables, find_core
from tests.bench import core_seeds as seeds


def test_the_made_up_core_is_of_no_product():
    """Its numbers are round, so that none can be taken for a fact; of published tables it shares no list of ports."""
    neutral = seeds.seed_table("none")
    assert neutral.vendor not in {table.vendor for table in core_tables().values()}
    assert not neutral.eliminates
    assert all(table.ports != neutral.ports for table in core_tables().values())


@pytest.mark.parametrize("machine", ["cloud-epyc-genoa", "cloud-xeon-emerald"])
def test_probes_replace_what_is_made_up(machine):
    """Latencies and ports that a full probe measured are the same over both seeds."""
    profile = find_machine(machine)
    core = {"cloud-epyc-genoa": "zen4", "cloud-xeon-emerald": "golden-cove"}[machine]
    made_up, used = calibrated_core(seeds.seed_table("none"), profile)
    published = calibrated_core(find_core(core), profile)[0]
    latencies = [name.removesuffix(".latency") for name in used if name.endswith(".latency")]
    assert len(latencies) > 20
    assert all(made_up.kind(kind).latency == published.kind(kind).latency for kind in latencies)
    if "issue_width" in used:
        assert core_parameters(made_up)["issue_width"] == core_parameters(published)["issue_width"]


def test_a_fact_is_taken_from_the_published_table(monkeypatch):
    profile = find_machine("cloud-epyc-milan")
    monkeypatch.setattr(seeds, "describe_cpu", lambda: profile.cpu)
    facts = seeds.unmeasured(profile)
    assert seeds.MOVES in facts
    assert "accesses across lines" in facts
    assert seeds.with_fact(seeds.MOVES, profile).eliminates == find_core("zen3").eliminates
    assert seeds.with_fact("accesses across lines", profile).params["split_store_cycles"] == 2
    assert seeds.with_fact(seeds.MOVES, profile).params["split_store_cycles"] == 1
