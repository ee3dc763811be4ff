"""System time: counts times costs by hand, its place in predictions, ratios and campaigns, and what happens without it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.convolution.system_time import SPREAD, SystemTime, lacking, ratio_with_system, system_time, with_system
from convolver.machine.kernel_costs import KernelCost
from convolver.machine.profile import MachineProfile
from tests.synthetic import machine

COSTS = {
    **{"page.few": 1e-6, "page.many": 2e-6, "page.populated": 5e-7, "page.shared": 3e-6, "page.window": 4e-6, "page.huge": 1e-4},
    **{"call.least": 1e-7, "call.mapping": 1e-6, "call.open": 2e-6, "call.read_file": 3e-7, "byte.read_file": 1e-10},
    **{"call.pipe": 5e-7, "byte.pipe": 2e-10, "start.process": 1e-3, "start.thread": 1e-5},
}
NONE = dict.fromkeys(
    ("anonymous", "populated", "file", "windows", "shared", "huge_pages", "huge_regions", "advised_pages", "advised_regions"), 0
)


def kernel(factor: float = 1.0, **cpu: Any) -> MachineProfile:
    scaled = {name: factor * cost for name, cost in COSTS.items()}
    costs = tuple(KernelCost(name=name, seconds=cost, low=cost, high=cost) for name, cost in scaled.items())
    return msgspec.structs.replace(machine("m"), kernel=costs, cpu=cpu)


def had(calls: list[tuple[str, str, int, int]] | None = None, threads: int = 0, **pages: int) -> dict[str, Any]:
    entries = [dict(zip(("call", "target", "calls", "bytes"), one, strict=True)) for one in calls or []]
    return {"page_bytes": 4096, "pages": NONE | pages, "forks": 0, "threads": threads, "calls": entries}


def parts(system: dict[str, Any], profile: MachineProfile) -> dict[str, float]:
    found = system_time(system, profile)
    assert found is not None
    assert found.seconds == pytest.approx(sum(found.parts.values()))
    return dict(found.parts)


@pytest.mark.parametrize(
    ("pages", "seconds"),
    [
        ({"anonymous": 100}, 100e-6),
        ({"anonymous": 100_000}, 0.2),
        ({"anonymous": 1448}, 1448 * 2**0.5 * 1e-6),  # half way between 256 and 8192
        ({"anonymous": 100, "populated": 40}, 60e-6 + 20e-6),
        ({"shared": 10}, 30e-6),
        ({"windows": 10, "file": 160}, 40e-6),
    ],
)
def test_faults_cost_what_the_kernel_takes_for_a_page(pages, seconds):
    assert parts(had(**pages), kernel())["page_seconds"] == pytest.approx(seconds, rel=1e-3)


HUGE = {"anonymous": 2100, "huge_pages": 2000, "huge_regions": 4, "advised_pages": 1024, "advised_regions": 2}


@pytest.mark.parametrize(
    ("policy", "single", "regions"), [("never", 2100, 0), ("madvise", 1076, 2), ("always", 100, 4), ("", 1076, 2)]
)
def test_huge_pages_take_the_place_of_small_ones_as_the_machine_allows(policy, single, regions):
    expected = parts(had(anonymous=single), kernel())["page_seconds"] + regions * 1e-4
    assert parts(had(**HUGE), kernel(transparent_huge_pages=policy))["page_seconds"] == pytest.approx(expected)


@pytest.mark.parametrize(("regions", "each"), [(2, 1e-4), (8, 1e-4), (23, 2e-4), (64, 4e-4), (1000, 4e-4)])
def test_many_huge_pages_cost_more_than_few(regions, each):
    profile = kernel(transparent_huge_pages="always")
    profile = msgspec.structs.replace(
        profile, kernel=(*profile.kernel, KernelCost(name="page.huge_many", seconds=4e-4, low=4e-4, high=4e-4))
    )
    used = had(anonymous=512 * regions, huge_pages=512 * regions, huge_regions=regions)
    assert parts(used, profile)["page_seconds"] == pytest.approx(regions * each, rel=0.02)


def test_a_machine_that_was_probed_with_huge_pages_has_them():
    profile = msgspec.structs.replace(kernel(transparent_huge_pages="madvise"), provenance={"pages": "thp"})
    assert parts(had(**HUGE), profile)["page_seconds"] == pytest.approx(100e-6 + 4e-4)


def test_a_program_has_huge_pages_where_its_allocator_asks_or_everywhere_by_policy():
    used = had(**HUGE, heap_pages=512, heap_regions=1)
    asks = msgspec.structs.replace(kernel(transparent_huge_pages="madvise"), provenance={"pages": "thp"})
    always = kernel(transparent_huge_pages="always")
    expected = parts(had(anonymous=2100 - 512), kernel())["page_seconds"] + 1e-4
    assert parts(used, asks)["page_seconds"] == pytest.approx(expected)
    assert parts(used, always) == parts(had(**HUGE), always)


@pytest.mark.parametrize(
    ("call", "seconds"),
    [
        (("getpid", "", 1000, 0), 1e-4),
        (("munmap", "", 10, 0), 1e-5),
        (("openat", "", 10, 0), 2e-5),
        (("close", "", 10, 0), 0.0),
        (("read", "file", 10, 1_000_000), 3e-6 + 1e-4),
        (("write", "pipe", 10, 1_000_000), 5e-6 + 2e-4),
        (("recvfrom", "socket", 10, 1_000_000), 5e-6 + 2e-4),
        (("write", "null", 10, 1_000_000), 1e-6),
        (("call_999", "", 10, 0), 1e-6),
    ],
)
def test_calls_cost_what_the_kernel_takes_for_one_of_their_class(call, seconds):
    assert parts(had([call]), kernel())["call_seconds"] == pytest.approx(seconds)


def test_a_process_and_its_threads_are_started():
    assert parts(had(threads=3), kernel())["start_seconds"] == pytest.approx(1e-3 + 3e-5)


def test_unknown_pages_cost_nothing():
    assert parts(had() | {"pages": None}, kernel())["page_seconds"] == 0


def test_the_interval_holds_the_costs_and_the_models_own_error():
    cost = KernelCost(name="page.few", seconds=1e-6, low=8e-7, high=2e-6)
    least = KernelCost(name="call.least", seconds=1e-7, low=1e-7, high=1e-7)
    found = system_time(had(anonymous=100), msgspec.structs.replace(machine("m"), kernel=(cost, least)))
    assert (found.low, found.seconds, found.high) == pytest.approx((80e-6 / SPREAD, 100e-6, 200e-6 * SPREAD))
    assert SystemTime.of(found.document()) == found


def test_what_is_missing_is_said():
    assert "trace again" in lacking(None, kernel())
    assert "`convolver probe` measures them" in lacking(had(), machine("m"))
    assert lacking(had(), kernel()) is None
    assert system_time(None, kernel()) is None
    assert system_time(had(), machine("m")) is None


TIMES = st.floats(1e-3, 1e3)


@given(TIMES, TIMES, TIMES)
def test_user_and_system_time_add_up_and_their_errors_are_independent(user, system, width):
    whole, low, high = with_system(user, (user, user + width), SystemTime(system, system, system + width, {}))
    assert (whole, low) == pytest.approx((user + system, user + system))
    assert high - whole == pytest.approx(2**0.5 * width, rel=1e-6, abs=1e-9)
    assert with_system(user, (user, user + width), None) == (user, user, user + width)


@given(TIMES, TIMES, TIMES, TIMES)
def test_the_ratio_of_totals_lies_between_those_of_user_and_of_system_time(base, target, base_system, target_system):
    systems = [SystemTime(one, one, one, {}) for one in (base_system, target_system)]
    user, kernel = base / target, base_system / target_system
    found = ratio_with_system(user, target, systems)
    assert min(user, kernel) * (1 - 1e-9) <= found <= max(user, kernel) * (1 + 1e-9)
    assert ratio_with_system(user, target, [systems[0], None]) == user
