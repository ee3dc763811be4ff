"""Rankings of machines: order, verdicts, costs and the Pareto front."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.cli.common import machine_names
from convolver.convolution.choice import BEST, DEARER, HOUR, choose, load_prices
from convolver.convolution.system_time import SystemTime
from convolver.convolution.verdict import CANNOT_TELL, SLOWER
from convolver.errors import FormatError, UnknownMachineError, UsageError
from convolver.machine.catalog import list_machines
from convolver.reporting.choice_chart import WIDTH, bar, conclusion


@dataclass
class Times:
    """What a ranking reads of block times: a whole time with draws and no system time."""

    machine: str
    seconds: float
    draws: np.ndarray
    header: dict = field(default_factory=dict)
    system: SystemTime | None = None
    elapsed: dict | None = None

    @property
    def awaited(self):
        return (self.elapsed["seconds"], *self.elapsed["interval_seconds"]) if self.elapsed else self.total

    @property
    def total(self):
        low, high = np.quantile(self.draws, (0.05, 0.95))
        return self.seconds, float(low), float(high)

    def ratio_to(self, target):
        return self.seconds / target.seconds if target.seconds else None


COMMON = np.linspace(0.7, 1.3, 200)
OWN = np.random.default_rng(1).normal(1, 0.1, 200)


def machine(name, seconds, own=1.0):
    return Times(name, seconds, seconds * COMMON * own)


def test_machines_whose_errors_are_common_are_distinguished_although_intervals_overlap():
    first, second = choose([machine("b", 1.1), machine("a", 1.0)])
    assert (first.machine, first.verdict, second.verdict) == ("a", BEST, SLOWER)
    assert second.interval[0] < first.interval[1]


def test_a_state_of_a_measured_machine_is_no_projection():
    made = {"projected": True}
    times = [Times(name, 1.0, COMMON, made) for name in ("measured@alone", "made")] + [machine("measured", 1.0)]
    assert {one.machine: one.projected for one in choose(times)} == {"measured@alone": False, "made": True, "measured": False}


def test_machines_whose_own_errors_are_larger_cannot_be_distinguished():
    _, second = choose([machine("a", 1.0), machine("b", 1.02, OWN)])
    assert second.verdict == CANNOT_TELL


def test_a_measured_time_scales_the_others_by_the_ratio():
    found = {one.machine: one for one in choose([machine("a", 1.0), machine("b", 2.0)], measured=3.0)}
    assert found["a"].interval == (3.0, 3.0)
    assert found["b"].seconds == pytest.approx(6.0)


def threaded(name, seconds, elapsed, cores=2):
    draws = (elapsed * COMMON).tolist()
    known = {"seconds": elapsed, "interval_seconds": [0.7 * elapsed, 1.3 * elapsed], "draws_seconds": draws, "cores": cores}
    return Times(name, seconds, seconds * OWN, elapsed=known)


def test_programs_with_threads_are_ranked_by_elapsed_time():
    first, second = choose([threaded("few", 1.0, 0.6), threaded("many", 1.2, 0.3, 8)], {"few": 1.0, "many": 4.0})
    assert (first.machine, first.seconds, first.processor_seconds, first.cores) == ("many", 0.3, 1.2, 8)
    assert (second.ratio, second.ratio_interval, second.verdict) == (0.5, pytest.approx((0.5, 0.5)), SLOWER)
    assert (first.cost_verdict, second.cost_verdict) == (DEARER, BEST)
    measured = choose([threaded("few", 1.0, 0.6), threaded("many", 1.2, 0.3, 8)], measured=1.2)
    assert [one.seconds for one in measured] == [pytest.approx(0.6), 1.2]


@pytest.mark.parametrize(("others", "those"), [(1, "m1"), (3, "m1, m2 and m3"), (4, "4 others")])
def test_machines_like_the_best_are_named_or_counted(others, those):
    machines = [machine(f"m{number}", 1.0) for number in range(others + 1)]
    assert f"cannot tell {those} from it" in conclusion(choose(machines))


def test_a_pattern_stands_for_the_machines_that_are_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = machine_names(["cloud-epyc-milan,cloud-epyc-*", "server-hbm"])
    assert found[0] == "cloud-epyc-milan"
    assert found[-1] == "server-hbm"
    assert set(found[1:-1]) == {one.name for one in list_machines() if one.name.startswith("cloud-epyc-")} - {"cloud-epyc-milan"}
    with pytest.raises(UnknownMachineError, match=r"called like 'nothing-\*'"):
        machine_names(["nothing-*"])


def test_costs_and_the_front_follow_from_prices():
    machines = [machine("fast", 1.0), machine("middle", 1.5), machine("slow", 2.0)]
    found = {one.machine: one for one in choose(machines, {"fast": HOUR, "middle": HOUR * 0.9, "slow": HOUR * 0.3})}
    assert {name: one.cost for name, one in found.items()} == pytest.approx({"fast": 1.0, "middle": 1.35, "slow": 0.6})
    assert [one.efficient for one in found.values()] == [True, False, True]
    assert found["slow"].cost_verdict == BEST
    assert found["middle"].cost_verdict == DEARER
    assert "Cheapest a run: slow" in conclusion(list(found.values()))


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=2, max_size=8))
def test_no_efficient_machine_is_beaten_in_time_and_cost(pairs):
    machines = [machine(f"m{number}", seconds) for number, (seconds, _) in enumerate(pairs)]
    found = choose(machines, {f"m{number}": price for number, (_, price) in enumerate(pairs)})
    for one in found:
        beaten = any(other.seconds < one.seconds and other.cost < one.cost for other in found)
        assert not (one.efficient and beaten)
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_bars_hold_their_dot_and_stay_within_their_width(low, value, high):
    low, value, high = sorted((low, value, high))
    drawn = bar(value, (low, high), max(high, 1e-9))
    assert len(drawn) <= WIDTH
    assert drawn.count("●") == 1


def test_prices_are_read_and_comments_skipped(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("# invented\nmachine,price_per_hour\na,0.5\n")
    assert load_prices(path) == {"a": 0.5}
    path.write_text("\ufeffmachine, price_per_hour\r\na, 0.5\r\n")
    assert load_prices(path) == {"a": 0.5}, "of a spreadsheet"


HEADER = "machine,price_per_hour\n"


@pytest.mark.parametrize("text", [f"{HEADER}a,free\n", f"{HEADER}a,-1\n", "name,cost\na,1\n", "a,1\n", HEADER, ""])
def test_wrong_prices_are_refused_with_their_place(tmp_path, text):
    path = tmp_path / "prices.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"prices\.csv"):
        load_prices(path)


def test_prices_of_none_of_the_machines_are_refused():
    with pytest.raises(UsageError, match="No price is for one of these machines"):
        choose([machine("a", 1.0), machine("b", 2.0)], {"c": 1.0})
