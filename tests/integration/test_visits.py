"""Short probes of conditions between the native runs of a campaign."""

import msgspec
import pytest

from convolver.machine.core_figures import CoreFigure
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.profile import MachineProfile
from convolver.probing import runner
from convolver.probing.machine_probe import default_cpu
from convolver.probing.plan import Effort, Item, Plan
from convolver.progress import SILENT
from convolver.validating import visits as module
from convolver.validating.campaign import Campaign, Condition, Job, Program
from convolver.validating.campaign_machines import profiles
from convolver.validating.measuring import CampaignRuns, measure_all
from convolver.validating.visits import Visits, is_visited, merged_visits, undisturbed, visit_plan, visits
from tests.synthetic import machine

pytestmark = pytest.mark.filterwarnings("ignore::convolver.errors.NoiseWarning")

EFFORT = Effort(sample_seconds=0.0003, limit_seconds=0.005, warmup_seconds=0.005, least=3, most=5)
KERNELS = ("chase", "load", "random_load")
ITEMS = (
    *(Item(kernel, 1 << power) for power in range(13, 22, 2) for kernel in KERNELS),
    Item("cycle", 0),
    Item("instruction", 0),
)
QUIET, HALF, SMALL = Condition(name="quiet"), Condition(name="half", cpu_quota=0.5), Condition(name="small", pages="4k")


def campaign(*conditions):
    return Campaign(name="c", program=[Program(name="true", command=["true"])], condition=conditions)


@pytest.fixture
def short_plan(monkeypatch):
    def choose(pages, **_):
        return Plan(name="short", items=ITEMS, rounds=2, most_rounds=5, budget_seconds=9.0, pages=pages, effort=EFFORT, core=True)

    monkeypatch.setattr(module, "choose_plan", choose)


@pytest.mark.slow
def test_conditions_are_probed_one_after_another_and_their_visits_merged(tmp_path, short_plan):
    ours = campaign(QUIET, HALF, SMALL)
    made = Visits(ours, tmp_path, default_cpu())
    assert [one.name for one in made.conditions] == ["quiet", "small"]
    assert made.make(0) == made.make(1) == {}
    kept = visits(tmp_path, QUIET)
    assert list(kept) == [0, 1]
    assert kept[0].core
    assert not kept[1].core
    found, refused = profiles(ours, tmp_path, tmp_path, default_cpu(), calibrate=False)
    assert refused == {}
    assert found["half"].maps == found["quiet"].maps
    assert [one["id"] for one in found["quiet"].provenance["merged"]] == [profile.id for profile in kept.values()]
    assert found["small"].provenance["pages"] == "4k"
    again = MachineProfile.load(tmp_path / "quiet.machine.json")
    assert again.maps == found["quiet"].maps
    assert Visits(ours, tmp_path, default_cpu()).conditions == []


@pytest.mark.slow
def test_a_visit_that_is_there_is_not_made_again(tmp_path, short_plan):
    made = Visits(campaign(QUIET), tmp_path, default_cpu())
    made.make(0)
    (before,) = (tmp_path / module.FOLDER).iterdir()
    stamp = before.stat().st_mtime_ns
    Visits(campaign(QUIET), tmp_path, default_cpu()).make(0)
    assert before.stat().st_mtime_ns == stamp


def test_visits_beyond_the_least_are_a_minute_apart(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(Visits, "_visit", lambda _self, _condition, number, _path: seen.append(number))
    made = Visits(campaign(QUIET), tmp_path, default_cpu())
    for number in range(6):
        made.make_due(number)
    assert seen == [0, 1, 2]
    monkeypatch.setattr(module, "APART_SECONDS", 0.0)
    made.make_due(6)
    assert seen == [0, 1, 2, 6]


def test_a_condition_that_cannot_be_had_is_named_once_and_left_alone(tmp_path):
    crowd, kernel = Condition(name="crowd", loaded_cpus=10_000), (KernelCost(name="page.few", seconds=1e-6, low=1e-6, high=1e-6),)
    (tmp_path / module.FOLDER).mkdir()
    for number in (0, 1):
        msgspec.structs.replace(machine("quiet"), kernel=kernel).save(tmp_path / module.FOLDER / f"quiet.{number}.machine.json")
    made = Visits(campaign(QUIET, crowd), tmp_path, default_cpu())
    assert "10000 CPUs" in made.make(0)["crowd"]
    assert made.make(1) == {}
    assert profiles(campaign(QUIET, crowd), tmp_path, tmp_path, default_cpu(), calibrate=False)[1].keys() == {"crowd"}


def test_other_pages_do_not_change_the_core(tmp_path):
    kernel = (KernelCost(name="page.few", seconds=1e-6, low=1e-6, high=1e-6),)
    conditions = (QUIET, Condition(name="huge", pages="thp"), Condition(name="busy", loaded_cpus=1))
    for turns, condition in enumerate(conditions, start=7):
        figure = CoreFigure(name="front.loop", value=turns, low=turns, high=turns)
        path = tmp_path / f"{condition.name}.machine.json"
        msgspec.structs.replace(machine(condition.name), core=(figure,), kernel=kernel).save(path)
    found, _ = profiles(campaign(*conditions), tmp_path, tmp_path, default_cpu(), calibrate=False)
    assert [found[one.name].core[0].value for one in conditions] == [7, 7, 9]


def test_a_quota_alone_borrows_the_profile_of_the_base():
    busy_half = Condition(name="busy half", cpu_quota=0.5, loaded_cpus=1)
    ours = campaign(QUIET, HALF, busy_half)
    assert [is_visited(one, ours) for one in ours.condition] == [True, False, True]


def looked(*cycles):
    return {number: msgspec.structs.replace(machine(), provenance={"witness_cycles": each}) for number, each in enumerate(cycles)}


def test_visits_count_under_all_conditions_or_none():
    quiet, busy, huge = looked(0.27, 0.40, 0.28, 0.40), looked(0.27, 0.27, 0.27, 0.40), looked(0.40, 0.40, 0.27, 0.27)
    assert undisturbed([quiet, busy, huge]) == {0, 2}
    assert undisturbed([looked(0.27, 0.40, 0.40)]) == {0, 1, 2}


def test_one_visit_is_a_profile_and_none_is_not(tmp_path):
    assert merged_visits(tmp_path, QUIET, [QUIET]) is None
    (tmp_path / module.FOLDER).mkdir()
    machine("quiet").save(tmp_path / module.FOLDER / "quiet.3.machine.json")
    assert merged_visits(tmp_path, QUIET, [QUIET]) == machine("quiet")


def test_a_visit_is_one_round_and_only_the_first_looks_at_surroundings():
    plan = Plan(name="p", items=ITEMS, rounds=2, most_rounds=9, patience_seconds=8.0, loaded=(2,), surroundings=True, core=True)
    first, second, third = (visit_plan(plan, number) for number in range(3))
    assert {(one.rounds, one.most_rounds, one.patience_seconds) for one in (first, second, third)} == {(1, 1, 0.0)}
    assert [one.core for one in (first, second, third)] == [True, False, True]
    assert [one.surroundings for one in (first, second, third)] == [True, False, False]
    assert [one.loaded for one in (first, second, third)] == [(2,), (), ()]


def job(name, tmp_path):
    return Job(program=name, input="", command=("true",), folder=str(tmp_path), environment={}, origin="", package="", status=0)


def test_visits_are_spread_evenly_over_the_runs(tmp_path):
    runs = CampaignRuns(tmp_path / "runs.jsonl")
    seen = []

    def visit(number):
        seen.append((number, len(runs.all)))
        return {"small": "not to be had"} if number == 2 else {}

    jobs = [job(name, tmp_path) for name in "abcd"]
    refused = measure_all(jobs, [QUIET, SMALL], 2, runs, default_cpu(), visit=visit)
    assert seen == [(0, 0), (1, 4), (2, 8), (3, 10), (4, 12)]
    assert refused == {"small": "not to be had"}


def test_a_disturbed_machine_is_measured_for_longer_than_the_budget(tmp_path, monkeypatch):
    items = ITEMS[:5]
    plan = Plan(name="p", items=items, rounds=2, most_rounds=2, settled=-1.0, effort=EFFORT)
    patient = msgspec.structs.replace(plan, patience_seconds=0.6)

    def measured(plan, share):
        """Return how many points were measured: other tests may run on the core, so that not all of them count."""
        monkeypatch.setattr(runner, "unsettled_share", lambda groups: share)
        kept = tmp_path / f"{plan.patience_seconds} {share}"
        runner.run_plan(plan, default_cpu(), SILENT, partial=kept)
        return len(kept.read_bytes().splitlines()) - 1

    assert measured(patient, 0.1) == 10
    assert measured(patient, 0.9) > 10
    assert measured(plan, 0.9) == 10
