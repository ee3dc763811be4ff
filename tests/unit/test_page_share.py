"""Programs that get huge pages for a part of their memory only."""

import msgspec
import pytest

from convolver.machine.kernel_costs import KernelCost
from convolver.validating.campaign import Condition
from convolver.validating.validation_rows import PredictedSeconds, differ_in_pages, huge_share, of_both, with_its_pages
from tests.synthetic import convolved, hit_rates, loads, machine, signature

BASE, HUGE = Condition(name="quiet"), Condition(name="huge", pages="thp")


def system(huge_pages, anonymous=1024):
    counts = dict.fromkeys(("populated", "shared", "windows", "file", "advised_pages", "advised_regions"), 0)
    pages = {**counts, "anonymous": anonymous, "huge_pages": huge_pages, "huge_regions": huge_pages // 512}
    return {"pages": pages, "calls": [], "threads": 0}


def times(own):
    """Return a program's times on a machine with small pages, and on one three times as fast with huge ones."""
    names = ("page.few", "page.huge", "call.least")
    kernel = tuple(
        KernelCost(name=name, seconds=cost, low=cost, high=cost) for name, cost in zip(names, (1e-7, 5e-6, 1e-7), strict=True)
    )
    small = msgspec.structs.replace(machine("quiet", scale=3.0), kernel=kernel, provenance={"pages": "default"})
    huge = msgspec.structs.replace(machine("huge"), kernel=kernel, provenance={"pages": "thp"})
    rates = hit_rates([(0, 100_000, 100_000, 100_000)], small, huge)
    return {one.name: convolved(own, rates, one, method="curves") for one in (small, huge)}


def user(predicted):
    return predicted.total[0] - predicted.system_seconds


@pytest.mark.parametrize(("huge_pages", "share"), [(0, 0.0), (512, 0.5), (1024, 1.0)])
def test_user_time_lies_between_those_of_both_pages_and_system_time_counts_the_huge_ones(huge_pages, share):
    own = signature(loads(100_000), system=system(huge_pages))
    both = times(own)
    found = with_its_pages(HUGE, BASE, both, own)
    small, huge = PredictedSeconds.of(both["quiet"]), PredictedSeconds.of(both["huge"])
    assert user(found) == pytest.approx(share * user(huge) + (1 - share) * user(small))
    assert found.system_seconds == huge.system_seconds
    assert found.total[1] <= found.total[0] <= found.total[2]
    assert user(small) > 2 * user(huge)


def test_times_without_system_time_are_joined_alone():
    own = signature(loads(100_000))
    both = times(own)
    found = of_both(both["huge"], both["quiet"], 0.25)
    assert found.system_seconds is None
    assert found.total[0] == pytest.approx(0.25 * both["huge"].total[0] + 0.75 * both["quiet"].total[0])


def test_what_a_signature_does_not_say_counts_as_all_huge():
    assert huge_share(None) == huge_share({"pages": None}) == huge_share(system(0, anonymous=0)) == 1.0
    assert huge_share(system(2048)) == 1.0


def test_only_what_an_allocator_gets_is_huge_where_the_trace_tells():
    table = system(1024)
    table["pages"] |= {"heap_pages": 256, "heap_regions": 1}
    assert huge_share(table) == 0.25


def test_only_a_condition_that_asks_for_huge_pages_and_nothing_else_is_joined_with_the_base():
    assert differ_in_pages(HUGE, BASE)
    others = (BASE, Condition(name="x", pages="4k"), Condition(name="x", pages="thp", loaded_cpus=1))
    assert not any(differ_in_pages(one, BASE) for one in others)
    assert not differ_in_pages(HUGE, Condition(name="b", pages="thp"))
